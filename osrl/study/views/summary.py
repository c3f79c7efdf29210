"""The summary of a study: what is known without any computation."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Any

from osrl.study.state.state import StudyState
from osrl.study.state.trial import short_id

MAX_PENDING_NUMBERS = 1_000  # numbers of pending trials in a summary


def summarise(state: StudyState) -> dict[str, Any]:
    """Return the summary of a study, as JSON has it."""
    page = list(islice(state.pending, MAX_PENDING_NUMBERS))
    return {
        "id": short_id(state.created),
        "verdict": state.status,
        "paused": state.paused,
        "handed_out": state.asked,
        "told": state.told,
        "abandoned": state.abandoned,
        "pending": page,
        "events": state.position,
        "since": state.stages[-1][0],
        "stages": len(state.stages),
        "head": state.last.hash,
        "settings": asdict(state.created),
        "pending_next": page[-1] if len(page) < len(state.pending) else None,
    }

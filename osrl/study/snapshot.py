"""Snapshots: a fold as bytes, so that opening a long study does not replay all of it.

A snapshot is a cache. It holds plain arrays and a JSON header, and is used only by a program of the
same versions as the one that wrote it; any other replays the log.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from osrl.study.events import Verdict
from osrl.study.fold import Fold, Pending
from osrl.study.prefix import Ended, Prefix
from osrl.study.storage import Snapshot
from osrl.study.versions import versions

FORMAT = 2
EVERY = 1000  # events between two snapshots

_HEADER, _TICKETS, _REWARDS, _STATE = "header", "tickets", "rewards", "state."


def pack(fold: Fold) -> Snapshot:
    """The fold as bytes."""
    waiting = [] if fold.prefix is None else list(fold.prefix.ended.items())
    header = {
        "format": FORMAT,
        "versions": dict(versions()),
        "writers": [dict(writer) for writer in fold.writers],
        "at": fold.at,
        "asked": fold.asked,
        "told": fold.told,
        "abandoned": fold.abandoned,
        "design": fold.design,
        "verdict": None if fold.verdict is None else asdict(fold.verdict),
        "pending": [[trial, p.x, p.a, p.at, p.ticket.size] for trial, p in fold.pending.items()],
        "ended": [[trial, e.x, e.a, e.ticket.size] for trial, e in waiting],
        "queues": [] if fold.prefix is None else [list(queue) for queue in fold.prefix.queues()],
        "passed": [] if fold.prefix is None else sorted(fold.prefix.passed),
        "whole": fold.prefix is None or fold.prefix.whole,
    }
    tickets = [p.ticket for p in fold.pending.values()] + [e.ticket for _, e in waiting]
    arrays: dict[str, Any] = {_STATE + name: array for name, array in fold.arrays()}
    arrays[_TICKETS] = np.concatenate(tickets) if tickets else np.zeros(0)
    arrays[_REWARDS] = np.array([e.reward for _, e in waiting], float)
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return Snapshot(fold.position, file.getvalue())


def unpack(snapshot: Snapshot, fold: Fold) -> bool:
    """Bring a new fold to where the snapshot is; False, and nothing done, where it cannot be used."""
    try:
        with np.load(io.BytesIO(snapshot.content), allow_pickle=False) as file:
            header = json.loads(file[_HEADER].tobytes())
            if header["format"] != FORMAT or header["versions"] != versions():
                return False
            arrays = {name.removeprefix(_STATE): file[name] for name in file.files if name.startswith(_STATE)}
            tickets, rewards = file[_TICKETS], file[_REWARDS]
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        return False
    own = dict(fold.arrays())
    if {name: array.shape for name, array in own.items()} != {k: v.shape for k, v in arrays.items()}:
        return False
    for name, array in own.items():
        array[...] = arrays[name]
    sizes = [entry[-1] for entry in (*header["pending"], *header["ended"])]
    parts = iter(np.split(tickets, np.cumsum(sizes)))
    for trial, x, a, at, _ in header["pending"]:
        fold.pending[trial] = Pending(x, a, at, next(parts).copy())
    if fold.prefix is not None:
        _unpack_prefix(fold.prefix, header, parts, rewards)
    fold.position, fold.at = snapshot.position, header["at"]
    fold.asked, fold.told, fold.abandoned = header["asked"], header["told"], header["abandoned"]
    fold.design, fold.writers = header["design"], header["writers"]
    fold.verdict = None if header["verdict"] is None else Verdict(**header["verdict"])
    return True


def _unpack_prefix(prefix: Prefix, header: Any, tickets: Iterator[Any], rewards: Any) -> None:
    """The trials that wait for an earlier one."""
    for queue, trials in zip(prefix.queues(), header["queues"], strict=True):
        queue.extend(trials)
    prefix.passed.update(header["passed"])
    prefix.whole = header["whole"]
    for (trial, x, a, _), reward in zip(header["ended"], rewards.tolist(), strict=True):
        prefix.ended[trial] = Ended(x, a, next(tickets).copy(), reward)

"""Corrections of rewards that were told wrong, while nothing has been decided by the wrong value.

A log with a correction is read as the log in which the trial has reported only then, with the right value: the tell
that is superseded changes nothing, and the correction counts as a tell. That is sound where the two logs cannot be
told apart by what the study has done in between. So since the tell

- no trial was handed out or lost, and no weights were solved for,
- there is no verdict, and nothing is ruled out that would not be ruled out without the wrong value.

Late reports are covered by the guarantee, whatever the delays depend on. Evidence that was used is never
taken back: after any of these, a correction is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from osrl.errors import OsrlError
from osrl.study.log.events import Abandoned, ArmsChanged, Asked, Closed, Corrected, Designed, Event, Superseded, Told

DECISIVE = (Asked, Designed, Abandoned, ArmsChanged, Closed)  # events that may have used the rewards before them


def mark_superseded(events: Iterable[Event], trial: int | None = None) -> Iterator[Event]:
    """Yield the same events, with the tells marked that a later event corrects, or that of ``trial``.

    A tell is held back until the next event that may have used it, because a correction may still follow.
    """
    waiting: list[Event] = []
    try:
        for event in events:
            body = event.body
            if isinstance(body, Told):
                waiting.append(_superseded(event) if body.trial == trial else event)
            elif isinstance(body, DECISIVE):
                yield from waiting
                waiting.clear()
                yield event
            elif isinstance(body, Corrected):
                waiting[:] = [_superseded(e) if e.trial == body.trial else e for e in waiting]
                waiting.append(event)
            elif waiting:
                waiting.append(event)
            else:
                yield event
    except OsrlError:  # events before the one that cannot be read are good
        yield from waiting
        raise
    yield from waiting


def _superseded(event: Event) -> Event:
    body = event.body
    return event._replace(body=Superseded(body.trial, body)) if isinstance(body, Told) else event

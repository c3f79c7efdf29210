"""Corrections: a reward that was told wrong, told again, while nothing has been decided by the wrong one.

A log with a correction is read as the log in which the trial has reported only then, with the right value:
the tell that is overruled changes nothing, and the correction counts as a tell. That is sound where nobody
could tell the two logs apart by what the study has done in between. So since the tell

- no trial was handed out or lost, and no weights were solved for,
- there is no verdict, and nothing is ruled out that would not be ruled out without the wrong value.

Late reports are covered by the guarantee, whatever the delays depend on. Evidence that was used is never
taken back: after any of these, a correction is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from osrl.errors import OsrlError
from osrl.study.log.events import (
    Abandoned,
    ArmsChanged,
    Asked,
    Closed,
    Corrected,
    Designed,
    Event,
    Overruled,
    Told,
)

DECISIVE = (Asked, Designed, Abandoned, ArmsChanged, Closed)  # what may have used the rewards before it


def overrule(events: Iterable[Event], trial: int | None = None) -> Iterator[Event]:
    """The same events, but with the tells marked that a later one corrects, or that of ``trial``.

    A tell has to wait for what comes after it, up to the next event that may have used it.
    """
    waiting: list[Event] = []
    try:
        for event in events:
            body = event.body
            if isinstance(body, Told):
                waiting.append(_overruled(event) if body.trial == trial else event)
            elif isinstance(body, DECISIVE):
                yield from waiting
                waiting.clear()
                yield event
            elif isinstance(body, Corrected):
                waiting[:] = [_overruled(e) if e.trial == body.trial else e for e in waiting]
                waiting.append(event)
            elif waiting:
                waiting.append(event)
            else:
                yield event
    except OsrlError:  # what was read before the log became unreadable is good
        yield from waiting
        raise
    yield from waiting


def _overruled(event: Event) -> Event:
    body = event.body
    return event._replace(body=Overruled(body.trial, body)) if isinstance(body, Told) else event

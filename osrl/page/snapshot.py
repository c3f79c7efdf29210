"""Everything that a page says, at one point of the log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from osrl.errors import OsrlError
from osrl.page.timeline import Deed, Key, Point, Timeline
from osrl.report.study import StudyReport
from osrl.study.log.events import Event, as_datetime
from osrl.study.views.forecast import look_ahead
from osrl.study.views.status import read_status


class Past(NamedTuple):
    """What a timeline knows; times in microseconds since 1970."""

    points: list[Point]
    ruled_out: dict[Key, int]
    told_at: list[int]
    deeds: list[Deed]


class Moment(NamedTuple):
    """A study at one point of its log, looked at ``at`` some time (microseconds since 1970).

    ``past`` is None until the log has been read, and may lag behind a little. ``forecast_of``: after how many
    results the forecast was made, where others have come since.
    """

    document: dict[str, Any]  # of `osrl study status --json`
    sequence: int  # of the last event
    at: int
    past: Past | None
    forecast_of: int | None
    versions: str


def past_of(timeline: Timeline) -> Past:
    """What a timeline knows now; it may go on meanwhile."""
    return Past(list(timeline.points), dict(timeline.ruled_out), list(timeline.told_at), list(timeline.deeds))


def freeze(name: str, events: Iterator[Event], sequence: int | None) -> Moment:
    """The moment after event number ``sequence``, or the last: it follows from the log up to there alone.

    The time of looking is that of this event.
    """
    if sequence is not None and sequence < 0:
        raise OsrlError(f"the sequence is {sequence}; events are numbered from 0 on")
    wanted = events if sequence is None else islice(events, sequence + 1)
    first = next(wanted, None)
    if first is None:
        raise OsrlError("the log has no events; restore a backup")
    timeline = Timeline(first)
    timeline.follow(wanted)
    progress = timeline.progress
    if sequence is not None and progress.last.seq != sequence:
        raise OsrlError(
            f"the sequence is {sequence}; the last event of the log is {progress.last.seq}, give at most that"
        )
    at = progress.last.at
    status = read_status(progress, at)._replace(forecast=look_ahead(progress)())
    report = StudyReport("", name, status, as_datetime(at))
    versions = progress.writers[-1]["osrl"]
    return Moment(report.document(), progress.last.seq, at, past_of(timeline), None, versions)

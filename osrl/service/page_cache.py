"""What pages need of a study and a status does not hold: kept between two looks, made up in the background.

The status of a page is that of the log at this moment. Two things may come later, and a page says so: the
forecast, which is a simulation, and the timeline, which goes through the log once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import NamedTuple

from osrl.page.snapshot import Moment, Past, past_of
from osrl.page.timeline import Timeline
from osrl.report.study import StudyReport
from osrl.study.log.events import as_datetime, now
from osrl.study.state.state import CorrectedPastError
from osrl.study.study import Study
from osrl.study.views.forecast import Forecast

FEW = 400  # events that are taken in while a page waits
MOST = 64  # studies that are kept
FIRST = 0.3  # seconds that a page is given before what it needs later is begun
REST = 4.0  # times as long as a forecast has taken, before the next one begins


class Look(NamedTuple):
    """A moment of a study; ``due``: the next look will show more."""

    moment: Moment
    due: bool


class _Known(NamedTuple):
    """A forecast, and the moment of the log that it belongs to."""

    head: str
    told: int
    forecast: Forecast | None


class Watch:
    """One study, as pages show it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of the timeline
        self._timeline: Timeline | None = None
        self._past: Past | None = None  # what it knew when it was last brought up to date
        self._reading = False
        self._forecast: _Known | None = None
        self._free = 0.0  # when the next forecast may begin; infinite while one is made

    def look(self, study: Study, place: str) -> Look:
        """The moment that is now."""
        status, compute, sequence = study.look_at()
        at = now()
        known = self._forecast
        if status.verdict != "running":
            known = _Known(status.head, status.told, compute())
        elif known is None or known.head != status.head:
            self._make(status.head, status.told, compute)
        forecast_of = None if known is None or known.head == status.head else known.told
        status = status._replace(forecast=None if known is None else known.forecast)
        document = StudyReport(place, study.name, status, as_datetime(at)).document()
        behind = self._follow(study, sequence)
        due = behind or known is None or known.head != status.head
        return Look(Moment(document, sequence, at, self._past, forecast_of, version("osrl")), due)

    def _make(self, head: str, told: int, compute: Callable[[], Forecast | None]) -> None:
        """A forecast, unless one is being made, or was just now."""
        if time.monotonic() < self._free:
            return
        self._free = float("inf")

        def make() -> None:
            began = time.monotonic()
            try:
                self._forecast = _Known(head, told, compute())
            finally:
                self._free = time.monotonic() + REST * (time.monotonic() - began)

        _begin_soon(make)

    def _follow(self, study: Study, sequence: int) -> bool:
        """Take in what is new; whether there is so much that it is done in the background."""
        position = 0 if self._timeline is None else self._timeline.position
        if sequence - position < FEW and not self._reading:
            self._catch_up(study)
            return False
        if not self._reading:
            self._reading = True
            _begin_soon(lambda: self._catch_up(study))
        return True

    def _catch_up(self, study: Study) -> None:
        with self._lock:
            try:
                try:
                    if not self._go_on(study):
                        self._timeline = None
                except CorrectedPastError:
                    self._timeline = None
                if self._timeline is None:
                    events = study.events()
                    timeline = Timeline(next(events))
                    timeline.follow(events)
                    self._timeline = timeline
                self._past = past_of(self._timeline)
            finally:
                self._reading = False

    def _go_on(self, study: Study) -> bool:
        """Follow the log from where the timeline ends; False where it is another log."""
        timeline = self._timeline
        if timeline is None:
            return False
        events = study.events(timeline.position - 1)
        last = next(events, None)
        if last is None or last.hash != timeline.progress.last.hash:
            return False
        timeline.follow(events)
        return True


def _begin_soon(work: Callable[[], None]) -> None:
    """Do something in the background, after the page that has asked for it."""
    timer = threading.Timer(FIRST, work)
    timer.daemon = True
    timer.start()


class Watches:
    """The studies that are looked at."""

    def __init__(self) -> None:
        self._watches: dict[str, Watch] = {}

    def of(self, id: str) -> Watch:
        """The watch of a study, by its id."""
        watch = self._watches.pop(id, None) or Watch()
        self._watches[id] = watch
        while len(self._watches) > MOST:
            del self._watches[next(iter(self._watches))]
        return watch

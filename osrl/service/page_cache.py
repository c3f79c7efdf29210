"""Forecasts and timelines of pages, cached between two requests and computed in the background.

The status of a page is that of the log at this moment. Two things may come later, and a page says so: the
forecast, which is a simulation, and the timeline, which reads the whole log once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import NamedTuple

from osrl.page.snapshot import History, PageSnapshot, Timeline
from osrl.study.log.events import now
from osrl.study.state.state import CorrectedPastError
from osrl.study.study import Study
from osrl.study.views.forecast import Forecast

MAX_EVENTS_NOW = 400  # that are read while a page waits; more are read in the background
MAX_STUDIES = 64  # in the cache
DELAY_SECONDS = 0.3  # before work in the background begins, so that the page is sent first
FORECAST_PAUSE = 4.0  # times as long as a forecast has taken, before the next one begins


class PageView(NamedTuple):
    """A moment of a study; ``due``: the next view will show more."""

    snapshot: PageSnapshot
    due: bool


class _CachedForecast(NamedTuple):
    """A forecast, and the point of the log that it belongs to."""

    head: str
    told: int
    forecast: Forecast | None


class PageCache:
    """The forecast and the timeline of one study."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of the timeline
        self._timeline: Timeline | None = None
        self._history: History | None = None  # that of the timeline when it was last brought up to date
        self._reading = False
        self._forecast: _CachedForecast | None = None
        self._next_forecast_at = 0.0  # when the next one may begin; infinite while one is computed

    def view(self, study: Study) -> PageView:
        """Return the study as it is now."""
        status, compute, sequence = study.look()
        known = self._forecast
        if status.verdict != "running":
            known = _CachedForecast(status.head, status.told, compute())
        elif known is None or known.head != status.head:
            self._start_forecast(status.head, status.told, compute)
        forecast_of = None if known is None or known.head == status.head else known.told
        status = status._replace(forecast=None if known is None else known.forecast)
        behind = self._follow(study, sequence)
        due = behind or known is None or known.head != status.head
        return PageView(PageSnapshot(status, sequence, now(), self._history, forecast_of, version("osrl")), due)

    def _start_forecast(self, head: str, told: int, compute: Callable[[], Forecast | None]) -> None:
        """Compute a forecast in the background, unless one is being computed, or was just now."""
        if time.monotonic() < self._next_forecast_at:
            return
        self._next_forecast_at = float("inf")

        def work() -> None:
            began = time.monotonic()
            try:
                self._forecast = _CachedForecast(head, told, compute())
            finally:
                self._next_forecast_at = time.monotonic() + FORECAST_PAUSE * (time.monotonic() - began)

        _run_later(work)

    def _follow(self, study: Study, sequence: int) -> bool:
        """Read new events; tell whether they are so many that this happens in the background."""
        position = 0 if self._timeline is None else self._timeline.position
        if sequence - position < MAX_EVENTS_NOW and not self._reading:
            self._catch_up(study)
            return False
        if not self._reading:
            self._reading = True
            _run_later(lambda: self._catch_up(study))
        return True

    def _catch_up(self, study: Study) -> None:
        with self._lock:
            try:
                try:
                    if not self._continue(study):
                        self._timeline = None
                except CorrectedPastError:
                    self._timeline = None
                if self._timeline is None:
                    events = study.events()
                    timeline = Timeline(next(events))
                    timeline.follow(events)
                    self._timeline = timeline
                self._history = self._timeline.history
            finally:
                self._reading = False

    def _continue(self, study: Study) -> bool:
        """Follow the log from the end of the timeline; return False where it is another log."""
        timeline = self._timeline
        if timeline is None:
            return False
        events = study.events(timeline.position - 1)
        last = next(events, None)
        if last is None or last.hash != timeline.state.last.hash:
            return False
        timeline.follow(events)
        return True


def _run_later(work: Callable[[], None]) -> None:
    """Run a function in the background, after the page that needs it was sent."""
    timer = threading.Timer(DELAY_SECONDS, work)
    timer.daemon = True
    timer.start()


class PageCaches:
    """The caches of the studies whose pages were viewed last."""

    def __init__(self) -> None:
        self._caches: dict[str, PageCache] = {}

    def of(self, id: str) -> PageCache:
        """Return the cache of a study, by its id."""
        cache = self._caches.pop(id, None) or PageCache()
        self._caches[id] = cache
        while len(self._caches) > MAX_STUDIES:
            del self._caches[next(iter(self._caches))]
        return cache

"""A study at one point of its log, as a page shows it: its status, and how it came there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from osrl.errors import OsrlError
from osrl.jit.kernels import long_job
from osrl.model.arrays import Flags
from osrl.study.log.corrections import mark_superseded
from osrl.study.log.events import (
    Abandoned,
    Amended,
    ArmsChanged,
    BudgetRaised,
    Closed,
    Corrected,
    Event,
    Paused,
    Recovered,
    Told,
    Unpaused,
)
from osrl.study.state.state import StudyState, initial_state
from osrl.study.views.evidence import read_hypotheses, share_of_limit
from osrl.study.views.forecast import look_ahead
from osrl.study.views.status import Status, read_status

MAX_POINTS = 240  # of a path; when there are more, every other one is dropped
RECENT_RESULTS = 200  # results by which the pace is judged
MAX_ACTIONS = 50
DAY = 86_400 * 10**6  # microseconds

Key = tuple[str | None, str, str | None]  # task, representation, predictor, as in a `Hypothesis`
_ACTIONS = (Paused, Unpaused, BudgetRaised, ArmsChanged, Closed, Recovered, Corrected, Amended)


class Point(NamedTuple):
    """The evidence against each hypothesis at some time, as a share of its limit."""

    trials: int  # handed out so far
    shares: dict[Key, float]


class AdminAction(NamedTuple):
    """Something that a person has done to the study."""

    at: int
    what: str
    reason: str | None
    by: str | None


class History(NamedTuple):
    """The past of a study: when something was ruled out, the evidence over time, and what people have done."""

    points: list[Point]
    ruled_out: dict[Key, int]  # by which trial
    told_at: list[int]  # when the last results came
    actions: list[AdminAction]

    @property
    def usual_wait(self) -> float | None:
        """Return the mean time between two results, in microseconds."""
        return (self.told_at[-1] - self.told_at[0]) / (len(self.told_at) - 1) if len(self.told_at) > 1 else None

    @property
    def results_per_day(self) -> float | None:
        """Return how many results a day brings, by the last ones."""
        return None if not self.usual_wait or self.usual_wait < 0 else DAY / self.usual_wait


NO_HISTORY = History([], {}, [], [])


class PageSnapshot(NamedTuple):
    """A study at one point of its log, looked at ``at`` some time (microseconds since 1970).

    ``history`` is None until the log has been read, and may lag behind a little. ``forecast_of``: after how many
    results the forecast was made, where others have come since.
    """

    status: Status
    sequence: int  # of the last event
    at: int
    history: History | None
    forecast_of: int | None
    versions: str


class Timeline:
    """The history of a log, collected event by event; ``state`` is the state of the study at its end."""

    def __init__(self, first: Event) -> None:
        self.state: StudyState = initial_state(first)
        self._points: list[Point] = []
        self._ruled_out: dict[Key, int] = {}
        self._told_at: deque[int] = deque(maxlen=RECENT_RESULTS)
        self._actions: deque[AdminAction] = deque(maxlen=MAX_ACTIONS)
        self._every = 1  # results between two points
        self._ends = 0

    @property
    def position(self) -> int:
        """Return the number of the next event."""
        return self.state.position

    @property
    def history(self) -> History:
        """Return a copy of what was collected so far."""
        return History(list(self._points), dict(self._ruled_out), list(self._told_at), list(self._actions))

    def follow(self, events: Iterable[Event]) -> None:
        """Go on with the events that come next."""
        with long_job():
            for event in mark_superseded(events):
                self._apply(event)

    def _apply(self, event: Event) -> None:
        before = self._possible()
        self.state.apply(event)
        body = event.body
        if isinstance(body, ArmsChanged):
            self._ruled_out.clear()
            self._points.append(self._point())
        if isinstance(body, _ACTIONS):
            self._actions.append(_action(event))
        if isinstance(body, Told | Corrected):
            self._told_at.append(event.at)
        if isinstance(body, Told | Corrected | Abandoned):
            self._note_ruled_out(body.trial, before)
            self._ends += 1
            if self._ends % self._every == 0:
                self._add_point()

    def _possible(self) -> tuple[Flags, Flags] | None:
        hypotheses = self.state.hypotheses
        return None if hypotheses is None else (hypotheses.possible_g.copy(), hypotheses.possible_h.copy())

    def _note_ruled_out(self, trial: int, before: tuple[Flags, Flags] | None) -> None:
        """Note what this trial has ruled out, or made possible again when losses have raised an alarm."""
        after = self._possible()
        if before is None or after is None:
            return
        if (before[0] == after[0]).all() and (before[1] == after[1]).all():
            return
        for each in read_hypotheses(self.state):
            if each.rejected:
                self._ruled_out.setdefault(each[:3], trial)
            else:
                self._ruled_out.pop(each[:3], None)

    def _add_point(self) -> None:
        self._points.append(self._point())
        if len(self._points) > MAX_POINTS:
            self._points = self._points[1::2]
            self._every *= 2

    def _point(self) -> Point:
        return Point(self.state.asked, {each[:3]: share_of_limit(each) for each in read_hypotheses(self.state)})


def _action(event: Event) -> AdminAction:
    body = event.body
    match body:
        case Paused():
            what = "Paused"
        case Unpaused():
            what = "Resumed"
        case BudgetRaised():
            what = f"Budget set to {body.budget:,} trials"
        case ArmsChanged():
            what = "Choices withdrawn or added: evidence counts from here on"
        case Corrected():
            what = f"Result of trial {body.trial:,} corrected from {body.old:g} to {body.reward:g}"
        case Amended():
            what = (
                f"Right result of trial {body.trial:,} noted as {body.reward:g}; the evidence goes on with "
                f"{body.used:g}, which was used"
            )
        case Recovered():
            what = "The log was confirmed by a person"
        case _:
            what = "Closed"
    by, via = getattr(body, "by", None), getattr(body, "via", None)
    token = None if via is None else f"token {via}"
    who = f"{by} ({token})" if by and token else by or token
    return AdminAction(event.at, what, getattr(body, "reason", None), who)


def snapshot_at(events: Iterator[Event], sequence: int | None) -> PageSnapshot:
    """Return the snapshot after event number ``sequence``, or the last: it follows from the log up to there alone.

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
    state = timeline.state
    if sequence is not None and state.last.seq != sequence:
        raise OsrlError(f"the sequence is {sequence}; the last event of the log is {state.last.seq}, give at most that")
    status = read_status(state, state.last.at)._replace(forecast=look_ahead(state)())
    return PageSnapshot(status, state.last.seq, state.last.at, timeline.history, None, state.writers[-1]["osrl"])

"""What a status does not say: when something was ruled out, and how evidence came to where it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from osrl.jit.kernel import long_job
from osrl.model.arrays import Flags
from osrl.page.format import share_of
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
from osrl.study.state.state import StudyState, begin
from osrl.study.views.evidence import read_hypotheses

MOST_POINTS = 240  # of a path; when there are more, every other one is dropped
RECENT = 200  # results by which the pace is judged
MOST_DEEDS = 50

Key = tuple[str | None, str, str | None]  # task, representation, predictor, as in a `Hypothesis`
_DEEDS = (Paused, Unpaused, BudgetRaised, ArmsChanged, Closed, Recovered, Corrected, Amended)


class Point(NamedTuple):
    """How far the evidence against each hypothesis was, as a share of its limit."""

    trials: int  # handed out so far
    shares: dict[Key, float]


class Deed(NamedTuple):
    """Something that a person has done to the study."""

    at: int
    what: str
    reason: str | None
    by: str | None


class Timeline:
    """A log that was gone through, event by event; ``progress`` is the state at its end."""

    def __init__(self, first: Event) -> None:
        self.progress: StudyState = begin(first)
        self.points: list[Point] = []
        self.ruled_out: dict[Key, int] = {}  # by which trial
        self.told_at: deque[int] = deque(maxlen=RECENT)  # when the last results came
        self.deeds: deque[Deed] = deque(maxlen=MOST_DEEDS)
        self._every = 1  # results between two points
        self._ends = 0

    @property
    def position(self) -> int:
        """The number of the next event."""
        return self.progress.position

    def follow(self, events: Iterable[Event]) -> None:
        """Go on with the events that come next."""
        with long_job():
            for event in mark_superseded(events):
                self._take_in(event)

    def _take_in(self, event: Event) -> None:
        before = self._flags()
        self.progress.apply(event)
        body = event.body
        if isinstance(body, ArmsChanged):
            self.ruled_out.clear()
            self.points.append(self._point())
        if isinstance(body, _DEEDS):
            self.deeds.append(_deed(event))
        if isinstance(body, Told | Corrected):
            self.told_at.append(event.at)
        if isinstance(body, Told | Corrected | Abandoned):
            self._note_ruled_out(body.trial, before)
            self._ends += 1
            if self._ends % self._every == 0:
                self._add_point()

    def _flags(self) -> tuple[Flags, Flags] | None:
        hypotheses = self.progress.hypotheses
        return None if hypotheses is None else (hypotheses.possible_g.copy(), hypotheses.possible_h.copy())

    def _note_ruled_out(self, trial: int, before: tuple[Flags, Flags] | None) -> None:
        """What this trial has ruled out; or made possible again, when losses have raised an alarm."""
        after = self._flags()
        if before is None or after is None:
            return
        if (before[0] == after[0]).all() and (before[1] == after[1]).all():
            return
        for each in read_hypotheses(self.progress):
            if each.rejected:
                self.ruled_out.setdefault(each[:3], trial)
            else:
                self.ruled_out.pop(each[:3], None)

    def _add_point(self) -> None:
        self.points.append(self._point())
        if len(self.points) > MOST_POINTS:
            self.points = self.points[1::2]
            self._every *= 2

    def _point(self) -> Point:
        shares = {each[:3]: share_of(each.log_evidence, each.limit) for each in read_hypotheses(self.progress)}
        return Point(self.progress.asked, shares)


def _deed(event: Event) -> Deed:
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
    return Deed(event.at, what, getattr(body, "reason", None), who)

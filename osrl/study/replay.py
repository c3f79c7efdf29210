"""Replay: go through a log again, and see whether everything follows from it.

Nothing is solved: weights are taken from the log. All else is computed anew and compared: which trial
the policy hands out, with which probabilities, when it wants new weights and in which state, the evidence
at that time, the verdict, and the state that a snapshot holds. As long as only the versions at hand have
written, all must agree bit for bit; from then on to 1e-9, with the same draws and the same verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.policies.states import contents, digest
from osrl.study.events import Abandoned, Asked, Created, Designed, Event, Told
from osrl.study.fold import Fold
from osrl.study.snapshot import unpack
from osrl.study.standing import evidence_at_design
from osrl.study.storage import Snapshot
from osrl.study.versions import versions

TOLERANCE = 1e-9
MOST_PROBLEMS = 20  # that are listed


class Verification(NamedTuple):
    """What a replay found. ``exact``: all events were written by the versions at hand."""

    events: int
    trials: int
    verdict: str
    exact: bool
    largest_difference: float
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether everything follows from the log."""
        return not self.problems


def verify(events: Iterable[Event], snapshot: Snapshot | None = None) -> Verification:
    """Replay a log from its first event, and compare."""
    stream = iter(events)
    first = next(stream, None)
    if first is None or not isinstance(first.body, Created):
        raise OsrlError("the log does not begin with the creation of a study; restore it from a backup")
    replay = _Replay(first.body)
    for event in stream:
        if snapshot is not None and snapshot.position == replay.fold.position:
            replay.compare_snapshot(snapshot)
        replay.compare(event)
    if snapshot is not None and snapshot.position == replay.fold.position:
        replay.compare_snapshot(snapshot)
    fold = replay.fold
    return Verification(
        fold.position,
        fold.asked,
        "running" if fold.verdict is None else fold.verdict.status,
        replay.exact,
        replay.largest,
        tuple(replay.problems),
    )


class _Replay:
    """A fold that is compared with its log, event by event."""

    def __init__(self, created: Created) -> None:
        self.created = created
        self.fold = Fold(created)
        self.largest = 0.0
        self.problems: list[str] = []
        self._designed = False

    @property
    def exact(self) -> bool:
        """Whether only the versions at hand have written so far."""
        return all(writer == versions() for writer in self.fold.writers)

    def compare(self, event: Event) -> None:
        """Compare an event with what follows from those before it, then take it in."""
        fold, body = self.fold, event.body
        where = f"event {event.seq}"
        fold.check_next(event)
        if isinstance(body, Designed):
            self._compare_design(where, body)
        if isinstance(body, Asked):
            self._compare_ask(where, body)
        if isinstance(body, Told | Abandoned):
            if isinstance(body, Told):
                verdict = fold.take(body.trial, body.reward)
            else:
                verdict = fold.give_up(body.trial, body.ignorable)
            if fold.verdict is None and verdict != body.verdict:
                self._complain(f"{where}: the verdict is {body.verdict}, by replay {verdict}")
            fold.advance(event)
        else:
            fold.apply(event)
        self._designed = isinstance(body, Designed)

    def _compare_design(self, where: str, designed: Designed) -> None:
        fold = self.fold
        if not fold.policy.wants_design(fold.state):
            self._complain(f"{where}: new weights, though it was not time for them")
        fold.policy.clear_pending(fold.state)
        if self.exact and digest(contents(fold.state)) != designed.before:
            self._complain(f"{where}: the state before new weights is not the one of the log")
        for name, value in evidence_at_design(fold).items():
            if name in designed.arrays:
                logged = np.array(designed.arrays[name], float)
                self._difference(where, name, logged, value, self.exact)

    def _compare_ask(self, where: str, asked: Asked) -> None:
        fold = self.fold
        same = self.exact
        if same and not self._designed and fold.policy.wants_design(fold.state):
            self._complain(f"{where}: it was time for new weights, but there are none")
        again = fold.choose(asked.task if asked.given else None)
        if asked.trial != again.trial or asked.design != again.design:
            self._complain(
                f"{where}: trial {asked.trial} of design {asked.design}, "
                f"by replay {again.trial} of {again.design}"
            )
        arm, own = (
            (ask.task, ask.representation, ask.predictor, ask.propensities is None) for ask in (asked, again)
        )
        # On another platform, a tie between arms that are not drawn may be broken otherwise.
        if arm != own and (same or asked.propensities is not None):
            self._complain(f"{where}: arm {arm[:3]} was handed out, by replay {own[:3]}")
        elif asked.propensities is not None and again.propensities is not None:
            self._difference(where, "propensities", asked.propensities, again.propensities, same)

    def compare_snapshot(self, snapshot: Snapshot) -> None:
        """Compare the state with the one that a snapshot holds."""
        kept = Fold(self.created)
        if not unpack(snapshot, kept):
            return  # of other versions: it would not be used either
        held = dict(kept.arrays())
        for name, array in self.fold.arrays():
            self._difference(f"snapshot at {snapshot.position}", name, held[name], array, self.exact)

    def _difference(self, where: str, what: str, one: object, other: object, same: bool) -> None:
        a, b = np.asarray(one, float), np.asarray(other, float)
        if np.array_equal(a, b, equal_nan=True):
            return
        scale = np.maximum(1.0, np.abs(b))
        difference = float(np.max(np.abs(a - b) / scale, initial=0.0)) if a.shape == b.shape else np.inf
        self.largest = max(self.largest, difference)
        if same or not difference <= TOLERANCE:
            self._complain(f"{where}: {what} differ by {difference:.1e} from the replay")

    def _complain(self, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

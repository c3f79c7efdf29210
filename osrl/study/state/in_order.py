"""Evidence from the first trials only: those that were handed out before any that has not reported.

Everything in the factor of a trial is fixed when it is handed out. So in the order of hand-out the product
of the true factors is a supermartingale, whatever the delays depend on, and its value after any number of
trials is evidence. While some have not reported, two of these values can be bounded from below: the one
after all trials, with the pending ones at their worst (which the tests of the study hold), and the one
after the longest *prefix* whose trials have all ended, which is kept here. The larger counts. With one
late result the first is the better one; when many are out at once, the second.

Tests of representations use one order over all tasks, tests of predictors one for each task. A trial that
holds up more than `WINDOW` others is passed: it counts by its worst factor here too, for good. That bounds
what has to be remembered, and is a lower bound still. When a trial ends, at most `MAX_PASSED` others are passed
and only a few times `MAX_TAKEN` are taken in, so that nobody waits for thousands of them; the rest follows when
the next ones end.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from osrl.hypotheses.refresh import refresh_evidence
from osrl.hypotheses.state import HYP_LIMIT_G, Hypotheses, update_verdict
from osrl.hypotheses.trials import PendingSums, clear_pending, forfeit_pending, forfeit_trial, observe_reward
from osrl.jit.kernels import direct
from osrl.model.arrays import Floats
from osrl.policies.state_arrays import arrays_of
from osrl.study.log.events import Asked

WINDOW = 256  # trials that have ended and wait for one that has not
MAX_PASSED = 2  # trials that are passed when one ends
MAX_TAKEN = WINDOW  # trials that are taken in at a time: usually all that have waited


LOST, LEFT_OUT = math.nan, math.inf  # in place of a reward: it counts at its worst, or not at all


class Pending(NamedTuple):
    """A trial that has not reported: task, arm of the task, when it was handed out (microseconds since
    1970), what its reward will be judged with, the hash of the event that handed it out, how its arm was
    drawn (empty where losses are not watched), what that event says, and the stage of the study then.
    """

    x: int
    a: int
    at: int
    ticket: Floats
    hash: str
    draw: Floats
    asked: Asked
    stage: int


class EndedTrial(NamedTuple):
    """A trial that waits for an earlier one: task, arm, ticket, and its reward, or `LOST`, or `LEFT_OUT`."""

    x: int
    a: int
    ticket: Floats
    reward: float


class InOrderLimits(NamedTuple):
    """How many trials may be passed when one ends, and how many taken in at a time."""

    passed: float
    taken: float


NO_LIMIT = InOrderLimits(math.inf, math.inf)


class InOrderEvidence:
    """The tests of a study as they would be after its first trials; what is rejected, they share."""

    def __init__(self, hypotheses: Hypotheses, limits: InOrderLimits) -> None:
        self._all = hypotheses
        self._limits = limits
        self._forfeit, self._reward = direct(forfeit_trial), direct(observe_reward)
        self._in_order = _like(hypotheses)  # of all tasks
        self._by_task = _like(hypotheses)  # each task in an order of its own: says nothing of representations
        self._by_task.numbers[HYP_LIMIT_G] = math.inf
        self.order: deque[int] = deque()  # trials that are not in the prefix
        self.of_task: tuple[deque[int], ...] = tuple(deque() for _ in range(len(hypotheses.possible_h)))
        self.ended: dict[int, EndedTrial] = {}  # those of them that have ended
        self.passed: set[int] = set()  # pending trials that are in the prefix, at their worst
        self.whole = True  # the prefix is all that has ended; its tests are not up to date

    def issue(self, trial: int, x: int) -> None:
        """Add a trial that is issued, as the last in order."""
        self.order.append(trial)
        self.of_task[x].append(trial)

    def before_end(self, last: bool) -> None:
        """Prepare for the end of a trial; ``last``: none is pending then, and the prefix is all there is."""
        if last:
            self.whole = True
            for queue in self.queues():
                queue.clear()
            self.ended.clear()
            self.passed.clear()
        elif self.whole:
            self.whole = False
            _copy(self._all, self._in_order)
            _copy(self._all, self._by_task)

    def end(self, trial: int, ended: EndedTrial, pending: Mapping[int, Pending]) -> None:
        """Take in the end of a trial while others are ``pending``; reject what can be rejected now."""
        if trial in self.passed:
            self.passed.remove(trial)
        else:
            self.ended[trial] = ended
        changed = self._advance()
        left = self._limits.passed
        while len(self.ended) > WINDOW and left > 0 and self.order[0] not in self.ended:
            late = self.order[0]
            left -= 1
            self.passed.add(late)
            self.ended[late] = EndedTrial(pending[late].x, pending[late].a, pending[late].ticket, LOST)
            changed |= self._advance()
        if changed:
            update_verdict(self._all)

    def restart(self, pending: Mapping[int, Pending], late: PendingSums | None) -> None:
        """Restart from tests that have changed: with all trials so far, the pending ones at their worst for good.

        ``late`` are the sums of their worst factors, where they are kept.
        """
        for queue in self.queues():
            queue.clear()
        self.ended.clear()
        self.passed = set(pending)
        self.whole = not pending
        for part in (self._in_order, self._by_task):
            _copy(self._all, part)
            if late is not None:
                forfeit_pending(part, late)
                continue
            for one in pending.values():
                self._forfeit(part, one.x, one.a, one.ticket)

    def _advance(self) -> bool:
        """Take in trials that no longer wait for another; whether something is rejected by it."""
        changed, left = False, self._limits.taken
        for queue in self.of_task:
            while left > 0 and queue and queue[0] in self.ended:
                changed |= self._take(self._by_task, self.ended[queue.popleft()])
                left -= 1
        left = self._limits.taken
        while left > 0 and self.order and self.order[0] in self.ended:
            trial = self.order.popleft()
            ended = self.ended.pop(trial)
            queue = self.of_task[ended.x]
            if queue and queue[0] == trial:  # there was no time for it in the order of its task
                queue.popleft()
                changed |= self._take(self._by_task, ended)
            changed |= self._take(self._in_order, ended)
            left -= 1
        return changed

    def _take(self, hypotheses: Hypotheses, ended: EndedTrial) -> bool:
        """Take in the end of a trial; whether something is rejected by it."""
        if ended.reward == LEFT_OUT:
            return False
        if math.isnan(ended.reward):
            self._forfeit(hypotheses, ended.x, ended.a, ended.ticket)
            return False
        return self._reward(hypotheses, ended.x, ended.a, ended.reward, ended.ticket)

    def evidence(self) -> tuple[Floats, Floats]:
        """Return the log evidence of the first trials: (G,) against representations, (X, n) against predictors."""
        parts = [copy.deepcopy(each) for each in (self._in_order, self._by_task)]
        for part in parts:
            if self.whole:
                _copy(self._all, part)
            refresh_evidence(part)
        return parts[0].evidence_g, parts[1].evidence_h

    def queues(self) -> tuple[deque[int], ...]:
        """Return the trials that are not in the prefix: of all tasks, then of each."""
        return self.order, *self.of_task

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Return the arrays that a snapshot holds."""
        yield from arrays_of(self._in_order, "in_order.")
        yield from arrays_of(self._by_task, "by_task.")


def _like(hypotheses: Hypotheses) -> Hypotheses:
    """Return tests of the same kind, with the same rejections and a verdict of their own."""
    own, check = copy.deepcopy(hypotheses), hypotheses.check
    return own._replace(
        possible_g=hypotheses.possible_g,
        possible_h=hypotheses.possible_h,
        struck=hypotheses.struck,
        tolerance=own.tolerance._replace(within=hypotheses.tolerance.within),
        check=None if check is None or own.check is None else own.check._replace(within=check.within),
    )


def _copy(hypotheses: Hypotheses, to: Hypotheses) -> None:
    """Bring other tests to the same state, with nothing pending; they keep their limits."""
    limits = to.limits.copy()
    for (_, array), (_, own) in zip(arrays_of(hypotheses), arrays_of(to), strict=True):
        own[...] = array
    to.limits[...] = limits
    clear_pending(to)

"""Evidence from the first trials only: those that were handed out before any that has not reported.

Everything in the factor of a trial is fixed when it is handed out. So in the order of hand-out the product
of the true factors is a supermartingale, whatever the delays depend on, and its value after any number of
trials is evidence. While some have not reported, two of these values can be bounded from below: the one
after all trials, with the pending ones at their worst (`osrl.policies.betting`, ``pending_g``), and the
one after the longest *prefix* whose trials have all ended, which is kept here. The larger counts. With one
late result the first is the better one; when many are out at once, the second.

Tests of representations use one order over all tasks, tests of predictors one for each task. A trial that
holds up more than `WINDOW` others is passed: it counts by its worst factor here too, for good. That bounds
what has to be remembered, and is a lower bound still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.evidence.betting import TICKET, settle, settle_worst
from osrl.policies.betting import Tests, reject

WINDOW = 256  # trials that have ended and wait for one that has not

Floats = NDArray[np.float64]


class Ended(NamedTuple):
    """A trial that waits for an earlier one: task, arm, ticket, and its reward; NaN: lost, at its worst."""

    x: int
    a: int
    ticket: Floats
    reward: float


class Prefix:
    """The wealth of the first trials, beside the tests of a study, whose rejections it shares."""

    def __init__(self, tests: Tests) -> None:
        self.tests = tests._replace(
            against_g=tests.against_g.copy(),
            against_h=tests.against_h.copy(),
            pending_g=np.zeros_like(tests.pending_g),
            pending_h=np.zeros_like(tests.pending_h),
            evidence_g=tests.evidence_g.copy(),
            evidence_h=tests.evidence_h.copy(),
        )
        self.order: deque[int] = deque()  # trials that are not in the prefix
        self.of_task: tuple[deque[int], ...] = tuple(deque() for _ in range(len(tests.pulls)))
        self.ended: dict[int, Ended] = {}  # those of them that have ended
        self.passed: set[int] = set()  # pending trials that are in the prefix, at their worst

    def hand_out(self, trial: int, x: int) -> None:
        """A trial goes out, as the last in order."""
        self.order.append(trial)
        self.of_task[x].append(trial)

    def catch_up(self, tests: Tests) -> None:
        """Nothing is pending: the prefix is all there is."""
        self.tests.against_g[...] = tests.against_g
        self.tests.against_h[...] = tests.against_h
        self.order.clear()
        for queue in self.of_task:
            queue.clear()
        self.ended.clear()
        self.passed.clear()

    def end(self, trial: int, ended: Ended | None, pending: Mapping[int, Any]) -> None:
        """A trial has ended (None: it is left out); reject what can be rejected now.

        ``pending`` holds what is known of the trials that have not, with ``x``, ``a`` and ``ticket``.
        """
        if trial in self.passed:
            self.passed.remove(trial)
            return
        self.ended[trial] = _LEFT_OUT if ended is None else ended
        touched: set[tuple[int, int]] = set()
        self._advance(touched)
        while len(self.ended) > WINDOW:
            late = self.order[0]
            self.passed.add(late)
            self.ended[late] = Ended(pending[late].x, pending[late].a, pending[late].ticket, np.nan)
            self._advance(touched)
        for x, first in sorted(touched):
            reject(self.tests, x, first)

    def _advance(self, touched: set[tuple[int, int]]) -> None:
        """Take in every trial that no longer waits for another; note the task and the arms it is about."""
        for queue in self.of_task:
            while queue and queue[0] in self.ended:
                ended = self.ended[queue.popleft()]
                if ended.x >= 0:
                    touched.add(self._settle_h(ended))
        while self.order and self.order[0] in self.ended:
            ended = self.ended.pop(self.order.popleft())
            if ended.x >= 0:
                _settle(self.tests.against_g[ended.x], self._terms(ended)[0], self.tests.bets.beta, ended)

    def _settle_h(self, ended: Ended) -> tuple[int, int]:
        terms = self._terms(ended)[1]
        first = ended.a - ended.a % len(terms)
        wealth = self.tests.against_h[ended.x, first : first + len(terms)]
        _settle(wealth, terms, self.tests.bets.beta, ended)
        return ended.x, first

    def _terms(self, ended: Ended) -> tuple[Floats, Floats]:
        """The terms of a ticket: against the arms of the task, and against those of the representation."""
        terms = ended.ticket.reshape(-1, TICKET)
        n = self.tests.pulls.shape[1]
        return terms[:n], terms[n:]

    def queues(self) -> tuple[deque[int], ...]:
        """The trials that are not in the prefix: of all tasks, then of each."""
        return self.order, *self.of_task

    def arrays(self) -> Iterator[tuple[str, Floats]]:
        """What a snapshot has to hold of the wealth."""
        yield "prefix_g", self.tests.against_g
        yield "prefix_h", self.tests.against_h


_LEFT_OUT = Ended(-1, -1, np.zeros(0), 0.0)


def _settle(wealth: Floats, terms: Floats, beta: Floats, ended: Ended) -> None:
    if np.isnan(ended.reward):
        settle_worst(wealth, terms, beta)
    else:
        settle(wealth, terms, beta, ended.reward)

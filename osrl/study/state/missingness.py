"""Losses that were declared ignorable: left out as long as nothing speaks against it.

Such a trial has no factor, which is valid if its loss depends neither on its reward nor on its arm, given
the task. The second half can be watched (`osrl.evidence.missingness`), and the way back is kept open: beside the
tests of the study there are *strict* ones, in which every lost trial counts by its worst factor. When the
watch raises its alarm, the strict ones take over, and from then on no loss is ignorable. What was ruled out
only because losses were left out is possible again, and what is claimed from there on rests on no
assumption about losses.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osrl.evidence.missingness import (
    COUNTED,
    LEFT_OUT,
    count_trials,
    end_drawn,
    issue_drawn,
    missingness_evidence,
    new_missingness_test,
)
from osrl.hypotheses.state import Hypotheses
from osrl.hypotheses.trials import clear_pending, forfeit_trial, observe_reward
from osrl.jit.kernels import direct
from osrl.model.arrays import Floats, Integers
from osrl.policies.state_arrays import arrays_of

MAX_SUSPECTS = 3  # arms that are named in an alarm


class MissingnessMonitor:
    """The watch on losses of a study, and its tests as they would be with every loss at its worst.

    ``level``: the probability of a false alarm; 0 for a study that was begun without a watch. The watch
    goes on with the wealth of the stage ``before``, in which trials that are still out stay at their worst:
    so the probability is that of a false alarm in the whole study.
    """

    def __init__(self, hypotheses: Hypotheses, level: float, before: MissingnessMonitor | None = None) -> None:
        self._all = hypotheses
        self._limit = math.log(1 / level) if level > 0 else math.inf
        self.watch = new_missingness_test(*hypotheses.possible_h.shape)
        self._draw, self._end = direct(issue_drawn), direct(end_drawn)
        self._strict = copy.deepcopy(hypotheses)
        self._largest = np.zeros(1)
        self._flags = np.zeros(3, np.bool_)  # strict tests differ; alarm; alarm after a verdict rested on it
        if before is not None:
            self.watch.wealth[:] = before.watch.wealth + before.watch.pending
            self._largest[:] = before._largest

    @property
    def alarm(self) -> bool:
        """Whether the watch has found that losses depend on the arm."""
        return bool(self._flags[1])

    def count_losses_at_worst(self) -> None:
        """Count every loss at its worst: an alarm was raised in an earlier stage."""
        self._flags[1] = True

    @property
    def log_evidence(self) -> float:
        """The largest so far against "losses do not depend on the arm"."""
        return float(self._largest[0])

    def issue(self, x: int, a: int, propensities: Floats) -> Floats:
        """Return how the arm of a trial was drawn, for its end: its probabilities (n,), then its odds."""
        drawn = np.zeros(propensities.size + self.watch.wealth.size)
        self._draw(self.watch, x, a, propensities, drawn)
        return drawn

    @property
    def void(self) -> bool:
        """Whether the alarm came after a verdict that rests on losses which were left out."""
        return bool(self._flags[2])

    def end(self, x: int, a: int, drawn: Floats, ignorable: bool, final: bool) -> bool:
        """Take in the end of a trial, after the verdict if ``final``; return whether this raises the alarm, once."""
        if not self._end(self.watch, x, a, drawn, LEFT_OUT if ignorable else COUNTED):
            return False
        self._largest[0] = max(self._largest[0], missingness_evidence(self.watch))
        if self.alarm or self._largest[0] < self._limit:
            return False
        self._flags[1] = True
        self._flags[2] = final and self._flags[0]
        return True

    def count_block(self, tasks: Integers, arms: Integers, propensities: Floats) -> None:
        """Count trials of which each was told before the next was issued, and none was lost so far."""
        count_trials(self.watch, tasks, arms, propensities)

    def count(self, x: int, a: int, ticket: Floats, reward: float) -> None:
        """Count a reward in the strict tests; NaN: the trial is lost, and counts by its worst factor."""
        if not self._flags[0]:
            return
        if math.isnan(reward):
            forfeit_trial(self._strict, x, a, ticket)
        else:
            observe_reward(self._strict, x, a, reward, ticket)

    def leave_out(self, x: int, a: int, ticket: Floats) -> None:
        """Leave a loss out of the tests of the study. From the first one on, the strict tests differ from these."""
        if not self._flags[0]:
            self._flags[0] = True
            _copy(self._all, self._strict)
            clear_pending(self._strict)
            self._strict.limits[:] = math.inf  # what they rule out is seen when they take over
            self._strict.tolerance.limits[:] = math.inf
            if self._strict.check is not None:
                self._strict.check.limits[:] = math.inf
        self.count(x, a, ticket, math.nan)

    def take_over(self) -> None:
        """Replace the tests of the study by the strict ones; from here on the two are the same."""
        self._strict.limits[:] = self._all.limits
        self._strict.tolerance.limits[:] = self._all.tolerance.limits
        if self._strict.check is not None and self._all.check is not None:
            self._strict.check.limits[:] = self._all.check.limits
        _copy(self._strict, self._all)
        self._flags[0] = False

    def suspects(self) -> list[tuple[int, int, int, int]]:
        """Return the arms that are lost most beyond what draws explain: task, arm, trials lost, trials ended."""
        lost = self.watch.number[LEFT_OUT]
        beyond = (lost - self.watch.expected[LEFT_OUT]).ravel()
        worst = [int(i) for i in np.argsort(-beyond, kind="stable")[:MAX_SUSPECTS] if beyond[i] > 0]
        places = [divmod(i, lost.shape[1]) for i in worst]
        return [(x, a, int(lost[x, a]), int(self.watch.number[:, x, a].sum())) for x, a in places]

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Return the arrays that a snapshot holds."""
        yield from arrays_of(self.watch, "watch.")
        yield from arrays_of(self._strict, "strict.")
        yield "losses.largest", self._largest
        yield "losses.flags", self._flags


def _copy(hypotheses: Hypotheses, to: Hypotheses) -> None:
    for (_, array), (_, own) in zip(arrays_of(hypotheses), arrays_of(to), strict=True):
        own[...] = array

"""What a run has decided: verdict, samples used, answer; for each of the risks that are read off it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.jit import kernel_in_place
from osrl.model.arrays import Flags, Integers

RUNNING, DECIDED, NO_SHARED, EXHAUSTED, WITHIN = range(5)
VERDICTS = (
    "running",
    "decided",
    "no shared representation",
    "budget exhausted",
    "decided within the tolerance",
)

STATUS, TAU, TAU_G = range(3)  # rows of `Outcome.reached`
REPRESENTATION, PREDICTOR = range(2)  # rows of `Outcome.answer`


class Outcome(NamedTuple):
    """What is decided at each of R risks (arrays are filled in place). Kernels use the rows by number."""

    reached: Integers  # (3, R) status, samples used, and of these until the representation was decided
    answer: Integers  # (2, R, X) representation and predictor; only some baselines disagree over tasks
    pulls: Integers  # (R, X, n)

    @property
    def status(self) -> Integers:
        """RUNNING, DECIDED, NO_SHARED, EXHAUSTED or WITHIN, (R,)."""
        return self.reached[STATUS, :]

    @property
    def tau(self) -> Integers:
        """Samples used, (R,)."""
        return self.reached[TAU, :]

    @property
    def tau_g(self) -> Integers:
        """Of which until the representation was decided, (R,)."""
        return self.reached[TAU_G, :]

    @property
    def representation(self) -> Integers:
        """For each task, (R, X); -1 before it is known."""
        return self.answer[REPRESENTATION, :]

    @property
    def predictor(self) -> Integers:
        """For each task, (R, X); -1 before it is known."""
        return self.answer[PREDICTOR, :]


def new_outcome(risks: int, tasks: int, n: int) -> Outcome:
    """Return an outcome with nothing decided."""
    return Outcome(
        reached=np.zeros((3, risks), np.int64),
        answer=np.full((2, risks, tasks), -1),
        pulls=np.zeros((risks, tasks, n), np.int64),
    )


@kernel_in_place
def is_open(outcome: Outcome) -> bool:
    """Tell whether some risk is still running."""
    reached = outcome.reached
    for r in range(reached.shape[1]):
        if reached[STATUS, r] == RUNNING:
            return True
    return False


@kernel_in_place
def sole_survivor(possible: Flags, first: int, last: int) -> int:
    """Return the only possibility among first .. last - 1, or -1 where none or several are left."""
    left = -1
    for i in range(first, last):
        if possible[i]:
            if left >= 0:
                return -1
            left = i
    return left

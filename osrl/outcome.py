"""What a run has decided: verdict, samples used, answer; for each of the risks that are read off it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.arrays import Floats, Integers
from osrl.compiled import kernel, kernel_in_place

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
    """Nothing decided yet."""
    return Outcome(
        reached=np.zeros((3, risks), np.int64),
        answer=np.full((2, risks, tasks), -1),
        pulls=np.zeros((risks, tasks, n), np.int64),
    )


@kernel_in_place
def is_open(outcome: Outcome) -> bool:
    """Whether some risk is still running."""
    reached = outcome.reached
    for r in range(reached.shape[1]):
        if reached[STATUS, r] == RUNNING:
            return True
    return False


@kernel
def answer_task(outcome: Outcome, r: int, x: int, g: int, h: int) -> None:
    """At risk ``r`` the answer of task ``x`` is predictor ``h`` of representation ``g``."""
    outcome.answer[REPRESENTATION, r, x] = g
    outcome.answer[PREDICTOR, r, x] = h


@kernel
def has_answer(outcome: Outcome, r: int, x: int) -> bool:
    """Whether the answer of task ``x`` is known at risk ``r``."""
    return bool(outcome.answer[PREDICTOR, r, x] >= 0)


@kernel
def end_run(outcome: Outcome, r: int, status: int, pulls: Floats) -> None:
    """Risk ``r`` ends with this status after ``pulls`` (X, n), all of them for the representation too."""
    for x in range(pulls.shape[0]):
        for a in range(pulls.shape[1]):
            outcome.pulls[r, x, a] = np.int64(pulls[x, a])
    outcome.reached[TAU, r] = outcome.pulls[r].sum()
    outcome.reached[TAU_G, r] = outcome.reached[TAU, r]
    outcome.reached[STATUS, r] = status

"""Within a tolerance by counts: how the paper's algorithm with threshold ``sharp`` ends although arms tie.

As in `osrl.hypotheses.tolerance`, the nulls are "b is better than c by at least epsilon", for pairs of arms
of a task, and the evidence is that of a pair of arms (`osrl.evidence.pairs`). There are two ways to end:

- *In phase 1*, with arms c_x of a representation against which every other arm of their tasks is out: those
  of representations that are ruled out exactly, and the others because their null against c_x is. Then there
  is no phase 2.
- *In phase 2*, of a representation that phase 1 has found exactly, when in each task all predictors but one
  are out, exactly or because their null against it is ruled out.

**Risk.** Let b* = (g*, h*) be the best arm of a task. An answer c of another representation that is too bad
needs g* to be ruled out exactly, or the null (b*, c) in phase 1, for one of (G - 1) H answers c. An answer c
of g* needs the null (b*, c) to be ruled out in phase 1, or in phase 2, for one of H - 1 answers each, or h*
to be ruled out exactly in phase 2. `parts_of` shares the risks out among these.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.evidence.counts import Samples
from osrl.evidence.exponential_tilts import Tilts
from osrl.evidence.pairs import pair
from osrl.jit.kernel import kernel, kernel_in_place
from osrl.jit.reductions import most_of
from osrl.model.arrays import Flags, Floats
from osrl.policies.contract import Criterion, Problem

SHARP = "sharp"  # the threshold that stops by counts
ACROSS, FIRST, SECOND = range(3)  # rows of `limits`
EPSILON_G, EPSILON_H = range(2)  # places of `epsilon`


class Parts(NamedTuple):
    """How the risks are shared out: delta_g among the first two, delta_h among the others."""

    exact_g: float
    across: float  # representations, in phase 1
    first: float  # predictors of one representation, in phase 1
    exact_h: float
    second: float  # predictors, in phase 2


class Near(NamedTuple):
    """Which arms are out against which answers (arrays are updated in place); empty without a tolerance."""

    limits: Floats  # (3, R) of the evidence; infinite where nothing is compared
    epsilon: Floats  # (2,) epsilon_g and epsilon_h
    within: Flags  # (R, X, n, n) [., x, b, c]: "b is better than c by epsilon" is ruled out in phase 1
    local: Flags  # (R, X, H, H) and among the predictors of phase 2
    used: Flags  # (R,) whether the tolerance has ended something


def parts_of(epsilon: tuple[float, float]) -> Parts:
    """How the risks are shared out for these tolerances."""
    if epsilon[0] > 0.0:
        return Parts(0.75, 0.25, 0.25, *((0.25, 0.5) if epsilon[1] > 0.0 else (0.75, 0.0)))
    return Parts(1.0, 0.0, 0.0, *((0.25, 0.75) if epsilon[1] > 0.0 else (1.0, 0.0)))


def new_near(problem: Problem) -> Near:
    """Nothing is out yet."""
    X, G, H = problem.shape
    R = len(problem.criteria)
    n, m = (G * H, H) if max(problem.epsilon) > 0.0 else (0, 0)
    limits = np.stack([_limits(criterion, problem) for criterion in problem.criteria], axis=1)
    return Near(
        limits=limits,
        epsilon=np.array(problem.epsilon, float),
        within=np.zeros((R, X, n, n), np.bool_),
        local=np.zeros((R, X, m, m), np.bool_),
        used=np.zeros(R, np.bool_),
    )


def _limits(criterion: Criterion, problem: Problem) -> Floats:
    """The limits (3,) of a criterion."""
    _, G, H = problem.shape
    parts = parts_of(problem.epsilon)
    risks = np.array(
        [
            parts.across * criterion.delta_g / max((G - 1) * H, 1),
            parts.first * criterion.delta_h / max(H - 1, 1),
            parts.second * criterion.delta_h / max(H - 1, 1),
        ]
    )
    if criterion.threshold != SHARP:
        risks[:] = 0.0
    with np.errstate(divide="ignore"):
        limits: Floats = np.log(1.0 / risks)
    return limits


@kernel
def compare(
    within: Flags,
    x: int,
    samples: Samples,
    limits: Floats,
    epsilon: Floats,
    predictors: int,
    tilts: Tilts,
    noise: float,
) -> None:
    """Rule out what can be among the pairs of arms (R, X, n, n) of task ``x``.

    ``limits`` (2, R) are those for pairs of different representations, and of the same one. An answer c that
    looks worse than the best arm by more than the tolerance and its error is passed over.
    """
    number, mean = samples.number, samples.mean
    lead = most_of(mean) - most_of(epsilon)
    for c in range(mean.size):
        if mean[c] + math.sqrt(max(noise, 1.0) / (1.0 + number[c])) < lead:
            continue
        for b in range(mean.size):
            row = 1 if b // predictors == c // predictors else 0
            least = math.inf
            for r in range(within.shape[0]):
                if not within[r, x, b, c]:
                    least = min(least, limits[row, r])
            if b == c or least == math.inf:
                continue
            found = pair(samples, c, b, tilts, noise, epsilon[EPSILON_H if row == 1 else EPSILON_G])
            for r in range(within.shape[0]):
                within[r, x, b, c] = within[r, x, b, c] or found >= limits[row, r]


@kernel_in_place
def answer_near(within: Flags, means: Floats, possible: Flags, g: int, predictors: int) -> int:
    """The best-looking arm of ``g`` in a task against which all others are out, or -1.

    ``within`` (n, n) is that of a task; ``possible`` (n // predictors,) are the representations left.
    """
    best = -1
    for c in range(g * predictors, (g + 1) * predictors):
        if best >= 0 and means[c] <= means[best]:
            continue
        good = True
        for b in range(means.size):
            same = b // predictors == g
            good = good and (b == c or within[b, c] or not (same or possible[b // predictors]))
        if good:
            best = c
    return best


@kernel_in_place
def predictor_near(within: Flags, means: Floats, possible: Flags) -> int:
    """The best-looking possible predictor against which all others are out, or -1; ``within`` (H, H)."""
    best = -1
    for c in range(within.shape[0]):
        if not possible[c] or (best >= 0 and means[c] <= means[best]):
            continue
        good = True
        for b in range(within.shape[0]):
            good = good and (b == c or not possible[b] or within[b, c])
        if good:
            best = c
    return best

"""The evidence against a representation: over all tasks, kept up to date by the task that was sampled.

For the null "g is the best representation", E_g = prod_x min_h E_{x,(g,h)}, where E_{x,b} is the evidence
against "arm b is the best of task x". In a round only one task moves, so E_g lies below a supermartingale.
A share of it is made with bets of their own in each task, the rest with the same bet in all:

    E_g = APART prod_x min_h (mixture over bets)  +  (1 - APART) mixture over bets (prod_x min_h).

``against`` (X + 1, G, J + 1) holds the logarithms min_h E_{x,(g,h)}: of each of J bets, then their mixture;
its last row is the sum over tasks. Only the arms whose wealth a reward has changed are looked at again,
and the sums are corrected by the difference: the cost of a round does not grow with the number of tasks.
What decides is always summed afresh (`evidence_against`). Without bets (evidence from counts) E_g is the
product alone.
"""

from __future__ import annotations

import math

import numpy as np

from osrl.evidence.betting import FAR, SHARED, TASK, Bets, log_mixture
from osrl.jit.kernel import kernel, kernel_in_place
from osrl.jit.reductions import copy_to, least_of
from osrl.model.arrays import Floats

APART = 0.5


@kernel_in_place
def refresh(
    against: Floats, evidence: Floats, wealth: Floats, pending: Floats, bets: Bets, x: int, changed: Floats
) -> float:
    """Bring task ``x`` up to date where ``changed`` (n, .) begins with a number other than zero.

    ``wealth`` and ``pending`` (n, J) are those of every bet against its arms, ``evidence`` (n,) their mix.
    Gives an upper bound of the evidence against the representations of those arms.
    """
    least, total, weights, joint = against[x], against[-1], bets.grid[TASK], bets.grid[SHARED]
    n, J = wealth.shape
    predictors = n // least.shape[0]
    slack = math.log(float(J)) + 1e-3
    most = -math.inf
    for g in range(least.shape[0]):
        first = g * predictors
        moved = False
        for b in range(first, first + predictors):
            if changed[b, 0] != 0.0:
                moved = True
                top = -math.inf
                for j in range(J):
                    top = max(top, wealth[b, j] + pending[b, j] + weights[j])
                mixed = 0.0
                for j in range(J):
                    below = wealth[b, j] + pending[b, j] + weights[j] - top
                    if below > -FAR:
                        mixed += math.exp(below)
                evidence[b] = top + math.log(mixed)
        if not moved:
            continue
        now = evidence[first]
        for b in range(first + 1, first + predictors):
            now = min(now, evidence[b])
        total[g, J] += now - least[g, J]
        least[g, J] = now
        most = max(most, total[g, J] + 1e-3)
        for j in range(J):
            now = wealth[first, j] + pending[first, j]
            for b in range(first + 1, first + predictors):
                now = min(now, wealth[b, j] + pending[b, j])
            total[g, j] += now - least[g, j]
            least[g, j] = now
            most = max(most, total[g, j] + joint[j] + slack)
    return most


@kernel_in_place
def set_arms(against: Floats, evidence: Floats, x: int, new: Floats) -> None:
    """Take the evidence (n,) against the arms of task ``x`` from elsewhere."""
    least, total = against[x, :, -1], against[-1, :, -1]
    predictors = new.size // least.size
    copy_to(new, evidence)
    for g in range(least.size):
        now = least_of(new[g * predictors : (g + 1) * predictors])
        total[g] += now - least[g]
        least[g] = now


@kernel
def evidence_against(against: Floats, bets: Bets, g: int) -> float:
    """Log evidence against "g is the best representation"."""
    J = against.shape[2] - 1
    apart = 0.0
    common = np.zeros(J)
    for x in range(against.shape[0] - 1):
        apart += against[x, g, J]
        for j in range(J):
            common[j] += against[x, g, j]
    return mix(apart, common, bets)


@kernel_in_place
def mix(apart: float, common: Floats, bets: Bets) -> float:
    """The two shares of the evidence: bets of their own in each task, and the same bet in all (J,)."""
    if common.size == 0:
        return apart
    together = log_mixture(common, bets.grid[SHARED])
    top = max(apart, together)
    return top + math.log(APART * math.exp(apart - top) + (1.0 - APART) * math.exp(together - top))

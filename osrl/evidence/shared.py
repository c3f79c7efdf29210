"""The evidence against a representation: over all tasks, kept up to date by the task that was sampled.

For the null "g is the best representation", E_g = prod_x min_h E_{x,(g,h)}, where E_{x,b} is the evidence
against "arm b is the best of task x". In a round only one task moves, so E_g lies below a supermartingale.
Half of it is made with bets of their own in each task, half with the same bet in all:

    E_g = 1/2 prod_x min_h (mixture over bets)  +  1/2 mixture over bets (prod_x min_h).

Only the arms whose wealth a reward has changed are looked at again, and the sums over tasks are
corrected by the difference: the cost of a round does not grow with the number of tasks. What decides is
always summed afresh (`evidence_against`). Without bets (evidence from counts) E_g is the product alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.arrays import Floats
from osrl.compiled import kernel, kernel_in_place
from osrl.evidence.betting import FAR, Bets, log_mixture, settle, settle_worst


class Shared(NamedTuple):
    """Logarithms of wealth and evidence (arrays are updated in place)."""

    wealth: Floats  # (X, n, J) of every bet against "this arm is the best of its task"
    pending: Floats  # (X, n, J) worst factors of trials that have not reported
    arm: Floats  # (X, n) evidence against it: the mixture over bets
    least: Floats  # (X, G) the least over the predictors of g
    least_each: Floats  # (X, G, J) the same for each bet
    apart: Floats  # (G,) sum of ``least`` over tasks
    together: Floats  # (G, J) sum of ``least_each`` over tasks


def new_shared(shape: tuple[int, int, int], bets: int) -> Shared:
    """No evidence yet."""
    X, G, H = shape
    return Shared(
        np.zeros((X, G * H, bets)),
        np.zeros((X, G * H, bets)),
        np.zeros((X, G * H)),
        np.zeros((X, G)),
        np.zeros((X, G, bets)),
        np.zeros(G),
        np.zeros((G, bets)),
    )


@kernel_in_place
def settle_task(shared: Shared, bets: Bets, x: int, terms: Floats, reward: float) -> float:
    """Settle the bets of a trial in task ``x`` by its ``terms`` (n, 4).

    Gives an upper bound of the evidence against any representation that it concerned.
    """
    wealth, beta = shared.wealth[x], bets.beta
    for b in range(terms.shape[0]):
        if terms[b, 0] != 0.0:
            settle(wealth[b], terms[b], beta, reward)
    return refresh(shared, bets, x, terms)


@kernel_in_place
def forfeit_task(shared: Shared, bets: Bets, x: int, terms: Floats) -> None:
    """A trial in task ``x`` that will never report stays at its worst factors."""
    wealth, beta = shared.wealth[x], bets.beta
    for b in range(terms.shape[0]):
        if terms[b, 0] != 0.0:
            settle_worst(wealth[b], terms[b], beta)
    refresh(shared, bets, x, terms)


@kernel_in_place
def pend_task(shared: Shared, bets: Bets, x: int, terms: Floats) -> None:
    """A trial in task ``x`` that has not reported counts by its worst factors."""
    pending, beta = shared.pending[x], bets.beta
    for b in range(terms.shape[0]):
        if terms[b, 0] != 0.0:
            settle_worst(pending[b], terms[b], beta)
    refresh(shared, bets, x, terms)


@kernel
def clear_pending(shared: Shared, bets: Bets) -> None:
    """Forget which trials have not reported."""
    pending = shared.pending
    if pending.any():
        pending[:] = 0.0
        everything = np.ones((pending.shape[1], 1))
        for x in range(pending.shape[0]):
            refresh(shared, bets, x, everything)


@kernel_in_place
def refresh(shared: Shared, bets: Bets, x: int, changed: Floats) -> float:
    """Bring task ``x`` up to date where ``changed`` (n, .) begins with a number other than zero.

    Gives an upper bound of the evidence against the representations of those arms.
    """
    wealth, pending, arm = shared.wealth[x], shared.pending[x], shared.arm[x]
    least, least_each = shared.least[x], shared.least_each[x]
    apart, together, weights, joint = shared.apart, shared.together, bets.task, bets.shared
    n, J = wealth.shape
    predictors = n // least.size
    slack = math.log(float(J)) + 1e-3
    most = -math.inf
    for g in range(least.size):
        first = g * predictors
        moved = False
        for b in range(first, first + predictors):
            if changed[b, 0] != 0.0:
                moved = True
                top = -math.inf
                for j in range(J):
                    top = max(top, wealth[b, j] + pending[b, j] + weights[j])
                total = 0.0
                for j in range(J):
                    held = wealth[b, j] + pending[b, j] + weights[j] - top
                    if held > -FAR:
                        total += math.exp(held)
                arm[b] = top + math.log(total)
        if not moved:
            continue
        now = arm[first]
        for b in range(first + 1, first + predictors):
            now = min(now, arm[b])
        apart[g] += now - least[g]
        least[g] = now
        most = max(most, apart[g] + 1e-3)
        for j in range(J):
            now = wealth[first, j] + pending[first, j]
            for b in range(first + 1, first + predictors):
                now = min(now, wealth[b, j] + pending[b, j])
            together[g, j] += now - least_each[g, j]
            least_each[g, j] = now
            most = max(most, together[g, j] + joint[j] + slack)
    return most


@kernel
def set_arms(shared: Shared, x: int, evidence: Floats) -> None:
    """Take the evidence (n,) against the arms of task ``x`` from elsewhere."""
    shared.arm[x] = evidence
    least, apart = shared.least[x], shared.apart
    predictors = evidence.size // least.size
    for g in range(least.size):
        now = evidence[g * predictors : (g + 1) * predictors].min()
        apart[g] += now - least[g]
        least[g] = now


@kernel
def evidence_against(shared: Shared, bets: Bets, g: int) -> float:
    """Log evidence against "g is the best representation"."""
    least, least_each, weights = shared.least, shared.least_each, bets.shared
    tasks, _, J = least_each.shape
    apart = 0.0
    common = np.zeros(J)
    for x in range(tasks):
        apart += least[x, g]
        common += least_each[x, g]
    if J == 0:
        return apart
    together = log_mixture(common, weights)
    top = max(apart, together)
    return top + math.log(0.5 * math.exp(apart - top) + 0.5 * math.exp(together - top))

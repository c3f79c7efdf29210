"""The evidence against a representation: a product over tasks, and one for each vector of predictors.

For the null "g is the best representation", E_g = prod_x min_h E_{x,(g,h)}, where E_{x,b} is the evidence
against "arm b is the best of task x". In a round only one task changes, so E_g lies below a supermartingale.
A share of it uses separate bets in each task, the rest the same bet in all:

    E_g = SEPARATE_SHARE prod_x min_h (mixture over bets)
        + (1 - SEPARATE_SHARE) mixture over bets (prod_x min_h).

``against`` (X + 1, G, J + 1) holds the logarithms min_h E_{x,(g,h)}: of each of J bets, then their mixture;
its last row is the sum over tasks. Only the arms whose wealth a reward has changed are recomputed, and the sums are
corrected by the difference: the cost of a round does not grow with the number of tasks. Decisions always use a
fresh sum (`evidence_against`). Without bets (evidence from counts) E_g is the product alone.

**Vectors of predictors.** "g is the best representation" says that for *some* vector v in H^X the arms (g, v_x) are
the best of their tasks. The evidence against a single vector has no minimum over h,

    E_{g,v} = SEPARATE_SHARE prod_x (mixture over bets)  +  (1 - SEPARATE_SHARE) mixture over bets (prod_x),

in task x of the bets against (g, v_x). A vector is *struck* when E_{g,v} ever reaches 1 / delta_g, and g is
ruled out when all of its vectors are. That is at the latest when E_g reaches the limit, since E_g <= E_{g,v};
often it is sooner, because a struck vector stays struck while the evidence against its arms goes down again.
Under the null *one* vector is true, and g can only be ruled out if that one is struck: no union is needed.

Where there are not too many, ``struck`` (G, V) has a flag for each of the V = H^X vectors, the predictor of
the last task varying fastest; otherwise V = 0, and E_g alone decides.
"""

from __future__ import annotations

import math

import numpy as np

from osrl.errors import OsrlError
from osrl.evidence.betting import BET_SHARED, BET_TASK, NEGLIGIBLE_LOG, Bets, log_mixture
from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import copy_into, maximum, minimum
from osrl.model.arrays import Flags, Floats

DEFAULT_VECTORS = 1024  # up to so many are told apart
MAX_VECTORS = 10**6
VECTOR_LOOKS = 200.0  # vectors are evaluated when there are 1 / 200 more samples, in every round at first

SEPARATE_SHARE = 0.5


@kernel_in_place
def refresh_product(
    against: Floats, evidence: Floats, wealth: Floats, pending: Floats, bets: Bets, x: int, changed: Floats
) -> float:
    """Update task ``x`` where ``changed`` (n, .) begins with a number other than zero.

    ``wealth`` and ``pending`` (n, J) are those of every bet against its arms, ``evidence`` (n,) their mix.
    Gives an upper bound of the evidence against the representations of those arms.
    """
    least, total, weights, joint = against[x], against[-1], bets.grid[BET_TASK], bets.grid[BET_SHARED]
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
                    if below > -NEGLIGIBLE_LOG:
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
def set_task_evidence(against: Floats, evidence: Floats, x: int, new: Floats) -> None:
    """Replace the evidence (n,) against the arms of task ``x``."""
    least, total = against[x, :, -1], against[-1, :, -1]
    predictors = new.size // least.size
    copy_into(new, evidence)
    for g in range(least.size):
        now = minimum(new[g * predictors : (g + 1) * predictors])
        total[g] += now - least[g]
        least[g] = now


@kernel
def evidence_against(against: Floats, bets: Bets, g: int) -> float:
    """Return log evidence against "g is the best representation"."""
    J = against.shape[2] - 1
    apart = 0.0
    common = np.zeros(J)
    for x in range(against.shape[0] - 1):
        apart += against[x, g, J]
        for j in range(J):
            common[j] += against[x, g, j]
    return mix_separate_and_common(apart, common, bets)


@kernel_in_place
def mix_separate_and_common(apart: float, common: Floats, bets: Bets) -> float:
    """Mix the two shares of the evidence: separate bets in each task, and the same bet in all (J,)."""
    if common.size == 0:
        return apart
    together = log_mixture(common, bets.grid[BET_SHARED])
    top = max(apart, together)
    return top + math.log(SEPARATE_SHARE * math.exp(apart - top) + (1.0 - SEPARATE_SHARE) * math.exp(together - top))


def new_struck(shape: tuple[int, int, int], most: int) -> Flags:
    """Return flags of vectors, none struck; no flags where there are more than ``most``, or only one."""
    if not 0 <= most <= MAX_VECTORS:
        raise OsrlError(f"vectors is {most}; give the largest number to tell apart, from 0 to {MAX_VECTORS}")
    X, G, H = shape
    return np.zeros((G, H**X if 1 < H**X <= most else 0), np.bool_)


@kernel_in_place
def are_vectors_due(struck: Flags, samples: float, looks: float) -> bool:
    """Tell whether it is time to evaluate the vectors."""
    return struck.shape[1] > 0 and int(samples) % max(1, int(samples / looks)) == 0


@kernel_in_place
def bound_of_vectors(wealth: Floats, pending: Floats, evidence: Floats, first: int, last: int) -> float:
    """Return an upper bound of the evidence against the vectors of arms first .. last - 1.

    ``wealth`` and ``pending`` (X, n, J), logarithms; without bets, the ``evidence`` (X, n) against the arms.
    """
    tasks, _, tried = wealth.shape
    total = 0.0
    for x in range(tasks):
        most = -math.inf
        for a in range(first, last):
            for j in range(tried):
                most = max(most, wealth[x, a, j] + pending[x, a, j])
            if tried == 0:
                most = max(most, evidence[x, a])
        total += most
    return total


@kernel
def strike_vectors_of(struck: Flags, evidence: Floats, held: Floats, bets: Bets, limit: float) -> bool:
    """Strike the vectors (V,) of a representation whose evidence reaches ``limit``; return whether all are.

    ``evidence`` (X, H) is that against its arms, ``held`` (X, H, J) the logarithmic wealth of each bet. No
    evidence exceeds that of the best bet in every task: where even this is too little for all vectors that
    begin alike, they are passed over together.
    """
    tasks, predictors, J = held.shape
    most = np.empty((tasks, predictors))
    rest = np.zeros(tasks + 1)  # the most that the tasks from x on can add
    for x in range(tasks - 1, -1, -1):
        for h in range(predictors):
            most[x, h] = evidence[x, h] if J == 0 else maximum(held[x, h])
        rest[x] = rest[x + 1] + maximum(most[x])
    common = np.empty(J)
    v = 0
    while v < struck.size and rest[0] >= limit:
        block, bound = struck.size, 0.0
        for x in range(tasks):
            if bound + rest[x] < limit:
                break
            block //= predictors
            bound += most[x, v // block % predictors]
        if block == 1 and bound >= limit and not struck[v]:
            struck[v] = evidence_of_vector(evidence, held, bets, v, limit, common) >= limit
        v += block
    for v in range(struck.size):
        if not struck[v]:
            return False
    return True


@kernel_in_place
def evidence_of_vector(evidence: Floats, held: Floats, bets: Bets, v: int, limit: float, common: Floats) -> float:
    """Return log evidence against the vector ``v`` of a representation.

    Where it does not reach ``limit``, a bound of it may be given instead. ``common`` (J,) is work space.
    """
    tasks, predictors = evidence.shape
    apart = 0.0
    for j in range(common.size):
        common[j] = 0.0
    for x in range(tasks - 1, -1, -1):
        h = v % predictors
        v //= predictors
        apart += evidence[x, h]
        for j in range(common.size):
            common[j] += held[x, h, j]
    most = apart
    for j in range(common.size):
        most = max(most, common[j])
    return mix_separate_and_common(apart, common, bets) if most >= limit else most


@kernel_in_place
def head_starts(struck: Flags, evidence: Floats, ahead: Floats) -> float:
    """Write how far the evidence against the arms (X, H) of a representation exceeds the least; return the least.

    The evidence against an arm is the least of the vectors (V,) through it which are not struck: infinite
    where all are. Bets of their own in each task, ``evidence`` (X, H), stand for all. Where vectors are not
    told apart, none is struck.
    """
    tasks, predictors = evidence.shape
    if struck.size == 0:
        least = 0.0
        for x in range(tasks):
            lowest = minimum(evidence[x])
            for h in range(predictors):
                ahead[x, h] = evidence[x, h] - lowest
            least += lowest
        return least
    least = math.inf
    for x in range(tasks):
        for h in range(predictors):
            ahead[x, h] = math.inf
    for v in range(struck.size):
        if not struck[v]:
            total, rest = 0.0, v
            for x in range(tasks - 1, -1, -1):
                total += evidence[x, rest % predictors]
                rest //= predictors
            least = min(least, total)
            rest = v
            for x in range(tasks - 1, -1, -1):
                ahead[x, rest % predictors] = min(ahead[x, rest % predictors], total)
                rest //= predictors
    for x in range(tasks):
        for h in range(predictors):
            ahead[x, h] -= least
    return least


@kernel_in_place
def mark_open_arms(struck: Flags, passed: Flags) -> None:
    """Mark the arms (X, H) of a representation that some vector (V,) which is not struck contains.

    Where vectors are not told apart, through all.
    """
    tasks, predictors = passed.shape
    for x in range(tasks):
        for h in range(predictors):
            passed[x, h] = struck.size == 0
    for v in range(struck.size):
        if not struck[v]:
            rest = v
            for x in range(tasks - 1, -1, -1):
                passed[x, rest % predictors] = True
                rest //= predictors

"""Which route ends first, exactly or by the tolerance: what an allocation should aim at.

To rule out exactly that an arm is the best takes about limit / gap^2 samples of it, to rule out that it is
better than the answer by epsilon about (limit + union) / (gap + epsilon)^2. A representation is out exactly
when the arms of it are in *one* task; by the tolerance each of its arms has to be, in *every* task.
"""

from __future__ import annotations

import math

from osrl.allocation.residual import residual_need
from osrl.hypotheses.state import Hypotheses
from osrl.hypotheses.tolerance import EPSILON_G, EPSILON_H, NEAR_G, NEAR_H, comparison
from osrl.jit.kernel import kernel
from osrl.model.arrays import Floats, Integers

LEAST = 1e-3  # gap, where an arm looks better than the answer


@kernel
def aim(hypotheses: Hypotheses, g: int, answer: Integers, means: Floats, need_g: Floats, need_h: Floats) -> None:
    """Change needs and means where the tolerance ends first, with the ``answer`` (X,), of ``g``.

    ``need_g`` (G,) and ``need_h`` (X, n) are the needs of exact tests. An arm that is to be compared with the
    answer gets a mean that is lower by epsilon: so far apart are the two for the shifted bets.
    """
    epsilon = hypotheses.tolerance.numbers[EPSILON_H]
    tasks, n = means.shape
    predictors = n // need_g.size
    if epsilon > 0.0:
        for x in range(tasks):
            for a in range(g * predictors, (g + 1) * predictors):
                if need_h[x, a] > 0.0:
                    gap = max(means[x, answer[x]] - means[x, a], LEAST)
                    need = _need(hypotheses, x, a, answer[x], NEAR_H)
                    if need / _square(gap + epsilon) < need_h[x, a] / _square(gap):
                        need_h[x, a] = need
                        means[x, a] = _lower(means[x, a], epsilon, hypotheses.noise)
    epsilon = hypotheses.tolerance.numbers[EPSILON_G]
    for other in range(need_g.size):
        if need_g[other] == 0.0 or epsilon == 0.0:
            continue
        exactly, within = math.inf, 0.0
        for x in range(tasks):
            here = 0.0
            for a in range(other * predictors, (other + 1) * predictors):
                gap = max(means[x, answer[x]] - means[x, a], LEAST)
                here += need_g[other] / _square(gap)
                within += _need(hypotheses, x, a, answer[x], NEAR_G) / _square(gap + epsilon)
            exactly = min(exactly, here)
        if within < exactly:
            need_g[other] = 0.0
            for x in range(tasks):
                for a in range(other * predictors, (other + 1) * predictors):
                    need_h[x, a] = _need(hypotheses, x, a, answer[x], NEAR_G)
                    means[x, a] = _lower(means[x, a], epsilon, hypotheses.noise)


@kernel
def _need(hypotheses: Hypotheses, x: int, b: int, c: int, limit: int) -> float:
    """What the comparison of b with the answer c still lacks; 0 when it is done."""
    tolerance = hypotheses.tolerance
    if tolerance.within[x, b, c]:
        return 0.0
    return residual_need(tolerance.numbers[limit], comparison(tolerance, x, b, c))


@kernel
def _lower(mean: float, epsilon: float, noise: float) -> float:
    """A mean that is lower by epsilon; that of a coin stays positive."""
    return mean - epsilon if noise > 0.0 else max(mean - epsilon, 0.005)


@kernel
def _square(gap: float) -> float:
    """Without a power, which the interpreter rounds otherwise."""
    return gap * gap

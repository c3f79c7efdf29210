"""Needs beyond the exact tests: those of a tolerance, and of a model check.

**Tolerance.** To rule out exactly that an arm is the best takes about limit / gap^2 samples of it, to rule out that it
is better than the answer by epsilon about (limit + union) / (gap + epsilon)^2. A representation is out exactly when
its arms are in *one* task; by the tolerance each of its arms has to be, in *every* task. The allocation targets the
shorter route.

**Model check** (`osrl.hypotheses.model_check`). The tests of representations stop sampling arms as soon as another
task rules them out. A check needs samples of each: an arm b that lacks evidence takes about
need / kl(mean of b, mean of the answer + margin) of them, and the answer as many as the root of the sum of their
squares. These are drawn along with the samples of the other tests, in the time that those take, and use the draws of
the answer that they bring.
"""

from __future__ import annotations

import math
from typing import Any

from osrl.allocation.residual import PRIOR_SAMPLES, residual_need
from osrl.evidence.betting import shrunk_means
from osrl.hypotheses.model_check import if_checked
from osrl.hypotheses.state import HYP_PULLS, HYP_SUMS, Hypotheses
from osrl.hypotheses.tolerance import EPSILON_G, EPSILON_H, PAIR_LIMIT_G, PAIR_LIMIT_H, PairTests, pair_evidence
from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import sequential_sum
from osrl.model.arrays import Floats, Integers
from osrl.model.families import divergence

MIN_TARGET_GAP = 1e-3  # gap, where an arm looks better than the answer

MIN_CHECK_GAP = 0.5  # of the margin, by which an arm is taken to be worse than the answer with the margin added
COIN_EDGE = 0.01  # so far inside (0, 1) the means of coins are taken to be


@kernel_in_place
def _mix(check: PairTests, hypotheses: Any, g: int, time: float, room: Floats, weights: Floats) -> None:
    """Change ``weights`` (X, n) so that the check of an answer with ``g`` ends when the other tests do.

    ``time``: the samples that those still take, 0 when they are done. ``room`` (2, X, n) is work space.
    """
    tasks, n = weights.shape
    predictors = n // hypotheses.possible_g.size
    margin, limit, noise = check.numbers[EPSILON_G], check.numbers[PAIR_LIMIT_G], hypotheses.noise
    wanted, means = room[0], room[1]
    for x in range(tasks):
        shrunk_means(hypotheses.arms[HYP_PULLS, x], hypotheses.arms[HYP_SUMS, x], PRIOR_SAMPLES, means[x])
        answer = -1
        for a in range(g * predictors, (g + 1) * predictors):
            if hypotheses.possible_h[x, a] and (answer < 0 or means[x, a] > means[x, answer]):
                answer = a
        level = means[x, answer] + margin
        if noise == 0.0:
            level = min(level, 1.0 - COIN_EDGE)
        squares = 0.0
        for b in range(n):
            wanted[x, b] = 0.0
            if b != answer and not check.within[x, b, answer]:
                low = min(means[x, b], level - MIN_CHECK_GAP * margin)
                if noise == 0.0:
                    low = max(low, min(COIN_EDGE, 0.5 * level))
                need = residual_need(limit, pair_evidence(check, x, b, answer))
                wanted[x, b] = need / divergence(low, level, noise)
                squares += wanted[x, b] * wanted[x, b]
        wanted[x, answer] = math.sqrt(squares)
        for a in range(n):
            wanted[x, a] = max(wanted[x, a] - time * weights[x, a], 0.0)
    total = sequential_sum(wanted)
    if total > 0.0:
        for x in range(tasks):
            for a in range(n):
                weights[x, a] = (time * weights[x, a] + wanted[x, a]) / (time + total)


sample_checks = if_checked(_mix, None)


@kernel
def target_shorter_route(
    hypotheses: Hypotheses, g: int, answer: Integers, means: Floats, need_g: Floats, need_h: Floats
) -> None:
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
                    gap = max(means[x, answer[x]] - means[x, a], MIN_TARGET_GAP)
                    need = _need(hypotheses, x, a, answer[x], PAIR_LIMIT_H)
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
                gap = max(means[x, answer[x]] - means[x, a], MIN_TARGET_GAP)
                here += need_g[other] / _square(gap)
                within += _need(hypotheses, x, a, answer[x], PAIR_LIMIT_G) / _square(gap + epsilon)
            exactly = min(exactly, here)
        if within < exactly:
            need_g[other] = 0.0
            for x in range(tasks):
                for a in range(other * predictors, (other + 1) * predictors):
                    need_h[x, a] = _need(hypotheses, x, a, answer[x], PAIR_LIMIT_G)
                    means[x, a] = _lower(means[x, a], epsilon, hypotheses.noise)


@kernel
def _need(hypotheses: Hypotheses, x: int, b: int, c: int, limit: int) -> float:
    """Return what the comparison of b with the answer c still needs; 0 when it is done."""
    tolerance = hypotheses.tolerance
    if tolerance.within[x, b, c]:
        return 0.0
    return residual_need(tolerance.numbers[limit], pair_evidence(tolerance, x, b, c))


@kernel
def _lower(mean: float, epsilon: float, noise: float) -> float:
    """Return a mean that is lower by epsilon; that of a coin stays positive."""
    return mean - epsilon if noise > 0.0 else max(mean - epsilon, 0.005)


@kernel
def _square(gap: float) -> float:
    """Return the square without a power, which the interpreter would round differently."""
    return gap * gap

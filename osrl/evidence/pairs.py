"""Two arms, any sampling rule: evidence against "b is at least as good as a", with tilts towards likely gaps.

With tilts u up for arm a and d down for arm b (`osrl.evidence.exponential_tilts`), Lambda(theta, s) the log moment
generating function of a reward with mean theta, and M the mixtures of `osrl.evidence.counts`, E is the
minimum over theta of

    sum_j pi_j exp( u_j S_a - N_a Lambda(theta, u_j) - d_j S_b - N_b Lambda(theta, -d_j) )
    + rho M_a M_b / p_theta(all rewards of both),

and 0 unless the estimate of a exceeds that of b. *Why the null cannot be beaten*: let lambda_a <= lambda_b.
For theta between them Lambda(theta, u) >= Lambda(lambda_a, u) and Lambda(theta, -d) >= Lambda(lambda_b, -d),
so every tilt at theta lies below the tilt at the truth, a martingale, whatever u and d are; and where the
estimates are in the other order, some such theta has p_theta >= p_lambda. Every term is log-convex in theta,
so Newton's method finds the minimum, and tangents a lower bound of it: that is the evidence.

**A margin.** Against "b is better than a by epsilon", b has the level theta + epsilon in place of theta, and
E is 0 unless the estimate of a exceeds that of b less epsilon. With theta between lambda_a and
lambda_b - epsilon the proof is the same.

Against "b is the best of a set", the evidence is averaged over the rivals a.
"""

from __future__ import annotations

import math

import numpy as np

from osrl.evidence.counts import (
    MAX_LOG_EVIDENCE,
    MAX_SEARCH_STEPS,
    SEARCH_PRECISION,
    Point,
    Samples,
    cumulant,
    lower_tangent_bound,
    narrow_bracket,
    new_bracket,
    next_level,
)
from osrl.evidence.exponential_tilts import SHARE_MIXTURE, TILT_DOWN, TILT_PAIR, TILT_UP, Tilts
from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats
from osrl.model.families import divergence, variance


@kernel
def against_best(samples: Samples, tilts: Tilts, noise: float) -> Floats:
    """Return log evidence (n,) against each of n arms as the best of them; -inf against the leader."""
    n = samples.mean.size
    found = np.empty(n)
    logs = np.empty(n)
    for b in range(n):
        top = -math.inf
        for a in range(n):
            logs[a] = -math.inf if a == b else pair_log_evidence(samples, a, b, tilts, noise, 0.0)
            top = max(top, logs[a])
        found[b] = top
        if top > -math.inf:
            total = 0.0
            for a in range(n):
                total += math.exp(logs[a] - top)
            found[b] = top + math.log(total / (n - 1))
    return found


@kernel_in_place
def pair_log_evidence(samples: Samples, a: int, b: int, tilts: Tilts, noise: float, epsilon: float) -> float:
    """Return log evidence against "b is better than a by at least ``epsilon`` >= 0"; -inf when it looks so."""
    number, mean = samples.number, samples.mean
    if not mean[a] > mean[b] - epsilon:
        return -math.inf
    low, high = (-math.inf, math.inf) if noise > 0.0 else (0.0, 1.0 - epsilon)
    both = max(number[a] + number[b], 1.0)
    level = (number[a] * mean[a] + number[b] * (mean[b] - epsilon)) / both
    if not low < level < high:
        level = 0.5 * (low + high)
    stride = math.sqrt(max(variance(level, noise), 1e-4) / both)
    between = new_bracket(low, high)
    for step in range(MAX_SEARCH_STEPS):
        here = _look(samples, a, b, tilts, level, noise, epsilon)
        if here.slope == 0.0:
            return here.value
        between = narrow_bracket(between, level, here)
        least = lower_tangent_bound(between)
        level = next_level(between, level, step, stride)
        stride *= 2.0
        if least > here.value - SEARCH_PRECISION or not between.low < level < between.high:
            break
    return least


@kernel_in_place
def _look(samples: Samples, a: int, b: int, tilts: Tilts, theta: float, noise: float, epsilon: float) -> Point:
    """Evaluate log E before the minimum is taken, at the level ``theta`` of arm ``a``."""
    number, mean, excess, grid = samples.number, samples.mean, samples.excess, tilts.grid
    other = theta + epsilon
    gain = number[a] * divergence(mean[a], theta, noise) + number[b] * divergence(mean[b], other, noise)
    top = tilts.shares[0, SHARE_MIXTURE] + min(excess[a] + excess[b] + gain, MAX_LOG_EVIDENCE)
    total, curved = 1.0, 0.0 if noise > 0.0 else 1.0
    of_a = number[a] / max(variance(theta, noise), 1e-300)
    of_b = number[b] / max(variance(other, noise), 1e-300)
    steep = of_a * (theta - mean[a]) + of_b * (other - mean[b])
    bent = of_a + of_b + steep * steep
    for j in range(grid.shape[1]):
        up, rise = cumulant(theta, grid[TILT_UP, j], math.expm1(grid[TILT_UP, j]), noise)
        down, fall = cumulant(other, -grid[TILT_DOWN, j], math.expm1(-grid[TILT_DOWN, j]), noise)
        log = grid[TILT_PAIR, j] + number[a] * (grid[TILT_UP, j] * mean[a] - up)
        log -= number[b] * (grid[TILT_DOWN, j] * mean[b] + down)
        slope, bend = -number[a] * rise - number[b] * fall, number[a] * rise * rise + number[b] * fall * fall
        if log > top:
            shrink = math.exp(top - log)
            total, steep, bent, top = total * shrink, steep * shrink, bent * shrink, log
        share = math.exp(log - top)
        total += share
        steep += share * slope
        bent += share * (curved * bend + slope * slope)
    slope = steep / total
    return Point(top + math.log(total), slope, bent / total - slope * slope)

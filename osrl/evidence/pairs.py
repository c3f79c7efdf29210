"""Two arms, any sampling rule: evidence against "b is at least as good as a" that knows where to look.

With tilts s = beta / 2 up for arm a and down for arm b, and Lambda(theta, s) the log moment generating
function of a reward with mean theta, E is the minimum over theta of

    p sum_j pi_j exp( s_j S_a - N_a Lambda(theta, s_j) - s_j S_b - N_b Lambda(theta, -s_j) )
    + (1 - p) M_a M_b / p_theta(all rewards of both),

and 0 unless the estimate of a exceeds that of b. *Why the null cannot be beaten*: let lambda_a <= lambda_b.
For theta between them Lambda(theta, s) >= Lambda(lambda_a, s) and Lambda(theta, -s) >= Lambda(lambda_b, -s),
so every tilt at theta lies below the tilt at the truth, a martingale; and where the estimates are in the
other order, some such theta has p_theta >= p_lambda. Every term is log-convex in theta, so bisection of the
slope of log E gives the minimum, and the tangent a lower bound of it.

Against "b is the best of a set", the evidence is averaged over the rivals a.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.arrays import Floats
from osrl.compiled import kernel
from osrl.errors import OsrlError
from osrl.evidence.betting import check_mixture
from osrl.evidence.counts import MOST, PRECISE, STEPS, Samples
from osrl.families import divergence, variance

HALF, WEIGHT = range(2)  # rows of `Tilts.grid`


class Tilts(NamedTuple):
    """The tilts that are mixed: half of beta, and their log weights log p pi_j; that of the mixtures M."""

    grid: Floats  # (2, J)
    mixture: float  # log(1 - p)

    @property
    def half(self) -> Floats:
        """Half of beta (J,)."""
        return self.grid[HALF, :]

    @property
    def weight(self) -> Floats:
        """Log weights (J,)."""
        return self.grid[WEIGHT, :]


def new_tilts(
    noise: float,
    smallest: float = 0.1,
    largest: float = 1.6,
    points: int = 5,
    power: float = 0.5,
    p: float = 0.85,
) -> Tilts:
    """A grid of ``points`` differences of natural parameters, with weights as beta^-power.

    They are given for rewards 0 and 1; for Gaussian rewards the same gaps in standard deviations (of a
    fair coin) are meant.
    """
    grid = np.geomspace(smallest, largest, points)
    weight = grid**-power
    scale = 1.0 if noise == 0.0 else 0.5 / math.sqrt(noise)
    rows = np.stack([0.5 * scale * grid, np.log(p * weight / weight.sum())])
    tilts = Tilts(grid=rows, mixture=math.log1p(-p))
    check_tilts(tilts)
    return tilts


def check_tilts(tilts: Tilts) -> None:
    """Refuse tilts that could break the risk: a mixture of more than one, or a tilt that is no number."""
    if not (np.all(np.isfinite(tilts.half)) and np.all(tilts.half > 0.0)):
        raise OsrlError(f"the tilts are {tilts.half.tolist()}; give positive numbers")
    check_mixture("the weights of the tilts", np.append(tilts.weight, tilts.mixture))


@kernel
def against_best(samples: Samples, tilts: Tilts, noise: float) -> Floats:
    """Log evidence (n,) against each of n arms as the best of them; -inf against the leader."""
    n = samples.mean.size
    found = np.empty(n)
    logs = np.empty(n)
    for b in range(n):
        top = -math.inf
        for a in range(n):
            logs[a] = -math.inf if a == b else pair(samples, a, b, tilts, noise)
            top = max(top, logs[a])
        found[b] = top
        if top > -math.inf:
            total = 0.0
            for a in range(n):
                total += math.exp(logs[a] - top)
            found[b] = top + math.log(total / (n - 1))
    return found


@kernel
def pair(samples: Samples, a: int, b: int, tilts: Tilts, noise: float) -> float:
    """Log evidence for "a is better than b", against "b is at least as good"; -inf when it looks so."""
    mean = samples.mean
    if not mean[a] > mean[b]:
        return -math.inf
    low, high = mean[b], mean[a]
    value, slope = _look(samples, a, b, tilts, low, noise)
    step = high - low
    while slope > 0.0 and step > 0.0:  # the minimum lies below
        high = low
        low = low - step if noise > 0.0 else 0.5 * low
        step *= 2.0
        value, slope = _look(samples, a, b, tilts, low, noise)
    step = high - low
    while _look(samples, a, b, tilts, high, noise)[1] < 0.0:  # the minimum lies above
        low = high
        value, slope = _look(samples, a, b, tilts, low, noise)
        high = high + step if noise > 0.0 else 0.5 * (1.0 + high)
        step *= 2.0
    for _ in range(STEPS):
        if -slope * (high - low) < PRECISE:
            break
        middle = 0.5 * (low + high)
        there, steep = _look(samples, a, b, tilts, middle, noise)
        if steep < 0.0:
            low, value, slope = middle, there, steep
        else:
            high = middle
    return float(value + min(slope, 0.0) * (high - low))


@kernel
def _cumulant(theta: float, s: float, noise: float) -> tuple[float, float]:
    """Lambda(theta, s), and its slope in theta."""
    if noise > 0.0:
        return s * theta + 0.5 * s * s * noise, s
    rise = math.expm1(s)
    return math.log1p(theta * rise), rise / (1.0 + theta * rise)


@kernel
def _look(samples: Samples, a: int, b: int, tilts: Tilts, theta: float, noise: float) -> tuple[float, float]:
    """log E before the minimum is taken, and its slope, at ``theta``."""
    number, mean, excess = samples.number, samples.mean, samples.excess
    half, weight = tilts.grid[HALF], tilts.grid[WEIGHT]
    gain = number[a] * divergence(mean[a], theta, noise) + number[b] * divergence(mean[b], theta, noise)
    top = tilts.mixture + min(excess[a] + excess[b] + gain, MOST)
    spread = max(variance(theta, noise), 1e-300)
    total = 1.0
    steep = (number[a] * (theta - mean[a]) + number[b] * (theta - mean[b])) / spread
    for j in range(half.size):
        up, rise = _cumulant(theta, half[j], noise)
        down, fall = _cumulant(theta, -half[j], noise)
        log = weight[j] + number[a] * (half[j] * mean[a] - up) - number[b] * (half[j] * mean[b] + down)
        slope = -number[a] * rise - number[b] * fall
        if log > top:
            shrink = math.exp(top - log)
            total, steep, top = total * shrink, steep * shrink, log
        share = math.exp(log - top)
        total += share
        steep += share * slope
    return top + math.log(total), steep / total

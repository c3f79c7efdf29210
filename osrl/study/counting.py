"""Evidence from counts alone: valid whatever rule chose the arms, as long as it did not see the future.

For a set of arms and the null "b is the best of them" (THEORY, evidence for any sampling rule):

    log E_b = min over m of  log f_b(m) + sum over a != b of log f_a(min(muhat_a, m)),
    f_a(lambda) = 1 - eps + eps M_a / p_lambda(rewards of a),

where M_a is the probability of the rewards under a mixture: Krichevsky and Trofimov's for rewards 0 and 1,
a normal one for Gaussian rewards, centred at the first reward of the arm. For each lambda the product of the
f_a is a martingale, because a round changes one of them; the minimum over the null lies below that of the
truth. The sum is convex in m, so bisection of its slope gives the minimum, and the tangent a lower bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from osrl.alternatives import Floats
from osrl.compiled import kernel
from osrl.families import divergence, variance

STEPS = 40  # of the bisection
MOST = 1e6  # log evidence of one arm; where it is infinite, this is a lower bound


class Samples(NamedTuple):
    """What the rewards of some arms say, each an array of the same shape."""

    number: Floats  # of rewards that are judged
    mean: Floats  # of those
    excess: Floats  # log M - log p at the mean: at most 0


def bernoulli_samples(count: Floats, total: Floats) -> Samples:
    """From the number and the sum of rewards 0 and 1."""
    mean = total / np.maximum(count, 1.0)
    mixture = betaln(total + 0.5, count - total + 0.5) - betaln(0.5, 0.5)
    return Samples(count, mean, mixture - xlogy(total, mean) - xlog1py(count - total, -mean))


def gaussian_samples(count: Floats, total: Floats, first: Floats, noise: float) -> Samples:
    """From the number, the sum and the first of the rewards: normal ones with variance ``noise``.

    The first reward of an arm is not judged; the mixture is centred there, with the same variance.
    """
    judged = np.maximum(count - 1.0, 0.0)
    mean = np.where(judged > 0, (total - first) / np.maximum(judged, 1.0), first)
    spread = (mean - first) ** 2 * judged / (2.0 * noise * (1.0 + judged))
    return Samples(judged, mean, -0.5 * np.log1p(judged) - spread)


@kernel
def log_evidence(samples: Samples, noise: float) -> Floats:
    """Log evidence (n,) against each of n arms as the best of them."""
    mean = samples.mean
    found = np.empty(mean.size)
    for b in range(mean.size):
        low, high = mean[b], mean.max()
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            if _look(samples, b, middle, noise)[1] < 0.0:
                low = middle
            else:
                high = middle
        value, slope = _look(samples, b, low, noise)
        found[b] = value + min(slope, 0.0) * (high - low)
    return found


@kernel
def _look(samples: Samples, b: int, m: float, noise: float) -> tuple[float, float]:
    """The sum that is minimised, and its slope, at the level ``m`` of the null "b is the best"."""
    number, mean, excess = samples.number, samples.mean, samples.excess
    share = 1.0 / max(mean.size, 2)
    value, slope = 0.0, 0.0
    for a in range(mean.size):
        moves = a == b or mean[a] > m
        gain = number[a] * divergence(mean[a], m, noise) if moves and number[a] > 0.0 else 0.0
        alone, mixed = math.log1p(-share), math.log(share) + min(excess[a] + gain, MOST)
        top = max(alone, mixed)
        total = top + math.log(math.exp(alone - top) + math.exp(mixed - top))
        value += total
        if moves and number[a] > 0.0 and m != mean[a]:
            slope += math.exp(mixed - total) * number[a] * (m - mean[a]) / max(variance(m, noise), 1e-300)
    return value, slope

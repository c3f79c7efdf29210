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

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from osrl.alternatives import Floats

STEPS = 60  # of the bisection


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


def log_evidence(samples: Samples, noise: float) -> Floats:
    """Log evidence (n,) against each of n arms as the best of them."""
    number, mean, excess = samples
    n = mean.size
    share = 1.0 / max(n, 2)
    own = np.eye(n, dtype=bool)

    def look(m: Floats) -> tuple[Floats, Floats]:
        """Value and slope (n,) at the level m (n,) of each null; axis 1 runs over the arms."""
        level = np.where(own, m[:, None], np.minimum(mean, m[:, None]))
        logs = excess + number * _divergence(mean, level, noise)
        top = np.maximum(np.log1p(-share), np.log(share) + logs)
        value = top + np.log(np.exp(np.log1p(-share) - top) + np.exp(np.log(share) + logs - top))
        weight = np.exp(np.log(share) + logs - value)
        moving = own | (mean > m[:, None])
        slope = np.where(moving, weight * number * _slope(mean, level, noise), 0.0)
        return value.sum(axis=1), slope.sum(axis=1)

    low, high = mean.copy(), np.full(n, mean.max())
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        falling = look(middle)[1] < 0
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    value, slope = look(low)
    return value + np.minimum(slope, 0.0) * (high - low)


def _divergence(mean: Floats, level: Floats, noise: float) -> Floats:
    """kl(mean, level), with 0 for equal ones."""
    if noise > 0:
        gaussian: Floats = (mean - level) ** 2 / (2.0 * noise)
        return gaussian
    with np.errstate(divide="ignore", invalid="ignore"):
        found = xlogy(mean, mean / level) + xlogy(1 - mean, (1 - mean) / (1 - level))
    return np.where(mean == level, 0.0, np.maximum(found, 0.0))


def _slope(mean: Floats, level: Floats, noise: float) -> Floats:
    """The derivative of kl(mean, level) in the level."""
    variance = noise if noise > 0 else np.maximum(level * (1 - level), 1e-300)
    return np.where(mean == level, 0.0, (level - mean) / variance)

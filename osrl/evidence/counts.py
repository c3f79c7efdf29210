"""Evidence from counts alone: valid whatever rule chose the arms, as long as it did not see the future.

Means have to stay the same. Rewards y in [0, 1] that are no coins are allowed: with the likelihood
lambda^y (1 - lambda)^(1 - y), every ratio below is convex in y, hence at most its chord, and its
expectation at most that of a coin with the same mean.

All of it compares with M_a, the probability of the rewards of arm a under a mixture over its mean:
Krichevsky and Trofimov's for rewards 0 and 1, a normal one for Gaussian rewards, centred at the first
reward of the arm. With p_lambda the likelihood, ``excess`` = log M_a - log p_{muhat_a} <= 0, and

    log M_a / p_lambda = excess_a + N_a kl(muhat_a, lambda).

**Pooled.** For a set of arms and the null "b is the best of them",

    log E_b = min over m of  log f_b(m) + sum over a != b of log f_a(min(muhat_a, m)),
    f_a(lambda) = 1 - eps + eps M_a / p_lambda.

For each lambda the product of the f_a is a martingale, because a round changes one of them; the minimum
over the null lies below that of the truth. The sum is convex in m, so bisection of its slope gives the
minimum, and the tangent a lower bound of it.

**Universal** (universal inference, for reference): log E_b = sum_a excess_a + ell(N; b), the likelihood ratio
of `osrl.alternatives` less what the mixtures cost in all arms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.alternatives import alternatives
from osrl.arrays import Floats
from osrl.compiled import kernel
from osrl.families import divergence, variance

STEPS = 60  # of a bisection, at most
PRECISE = 1e-9  # where it ends: the tangent is this close
MOST = 1e6  # log evidence of one arm; where it is infinite, this is a lower bound


class Samples(NamedTuple):
    """What the rewards of some arms say, each an array of the same shape."""

    number: Floats  # of rewards that are judged
    mean: Floats  # of those
    excess: Floats  # log M - log p at the mean: at most 0


@kernel
def samples_of(pulls: Floats, sums: Floats, first: Floats, noise: float) -> Samples:
    """From the number, the sum and the first of the rewards of every arm (n,).

    The first reward of an arm is judged only where rewards are 0 and 1: the normal mixture, with
    the variance of a reward, is centred there.
    """
    number, mean, excess = np.empty(pulls.size), np.empty(pulls.size), np.empty(pulls.size)
    for a in range(pulls.size):
        if noise > 0.0:
            k = max(pulls[a] - 1.0, 0.0)
            number[a] = k
            mean[a] = (sums[a] - first[a]) / k if k > 0.0 else first[a]
            excess[a] = -0.5 * math.log1p(k) - (mean[a] - first[a]) ** 2 * k / (2.0 * noise * (1.0 + k))
        else:
            k, s = pulls[a], sums[a]
            number[a] = k
            mean[a] = s / max(k, 1.0)
            mixture = (
                math.lgamma(s + 0.5) + math.lgamma(k - s + 0.5) - math.lgamma(k + 1.0) - math.log(math.pi)
            )
            likelihood = 0.0
            if s > 0.0:
                likelihood += s * math.log(mean[a])
            if s < k:
                likelihood += (k - s) * math.log1p(-mean[a])
            excess[a] = min(mixture - likelihood, 0.0)
    return Samples(number, mean, excess)


@kernel
def pooled(samples: Samples, noise: float) -> Floats:
    """Log evidence (n,) against each of n arms as the best of them."""
    mean = samples.mean
    top = mean.max()
    found = np.empty(mean.size)
    for b in range(mean.size):
        low, high = mean[b], top
        value, slope = _look(samples, b, low, noise)
        for _ in range(STEPS):
            if slope >= 0.0 or -slope * (high - low) < PRECISE:
                break
            middle = 0.5 * (low + high)
            there, steep = _look(samples, b, middle, noise)
            if steep < 0.0:
                low, value, slope = middle, there, steep
            else:
                high = middle
        found[b] = value + min(slope, 0.0) * (high - low)
    return found


@kernel
def _look(samples: Samples, b: int, m: float, noise: float) -> tuple[float, float]:
    """The sum that is minimised, and its slope, at the level ``m`` of the null "b is the best"."""
    number, mean, excess = samples.number, samples.mean, samples.excess
    share = 1.0 / max(mean.size, 2)
    alone, log_share = math.log1p(-share), math.log(share)
    spread = max(variance(m, noise), 1e-300)
    value, slope = 0.0, 0.0
    for a in range(mean.size):
        moves = number[a] > 0.0 and (a == b or mean[a] > m)
        gain = number[a] * divergence(mean[a], m, noise) if moves else 0.0
        mixed = log_share + min(excess[a] + gain, MOST)
        top = max(alone, mixed)
        total = top + math.log(math.exp(alone - top) + math.exp(mixed - top))
        value += total
        if moves and m != mean[a]:
            slope += math.exp(mixed - total) * number[a] * (m - mean[a]) / spread
    return value, slope


@kernel
def universal(samples: Samples, noise: float) -> Floats:
    """Log evidence (n,) against each of n arms as the best of them, by universal inference."""
    found: Floats = samples.excess.sum() + alternatives(samples.mean, samples.number, noise).cost
    return found

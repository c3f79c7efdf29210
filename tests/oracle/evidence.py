"""Evidence from counts by its definitions: slow, literal, from lists of rewards. Imports nothing of osrl.

``tilts`` is a list of (up, down, weight), ``mixture`` and ``idle`` are the weights beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betaln, logsumexp
from scipy.stats import norm

Rewards = Sequence[float]


class Mixed(NamedTuple):
    """What is mixed."""

    tilts: list[tuple[float, float, float]]
    mixture: float
    idle: float = 0.0


def log_likelihood(rewards: Rewards, mean: float, noise: float) -> float:
    """Return log p_mean of the rewards."""
    if noise > 0:
        return float(np.sum(norm.logpdf(rewards, mean, math.sqrt(noise))))
    ones = sum(rewards)
    zeros = len(rewards) - ones
    return (ones * math.log(mean) if ones else 0.0) + (zeros * math.log1p(-mean) if zeros else 0.0)


def judged(rewards: Rewards, noise: float) -> Rewards:
    """Return the rewards that count: of a Gaussian arm, the first one is where its mixture is centred."""
    return rewards[1:] if noise > 0 else rewards


def estimate(rewards: Rewards, noise: float) -> float:
    """Return the mean of those."""
    return float(np.mean(judged(rewards, noise) or rewards or [0.0]))


def log_mixture(rewards: Rewards, noise: float) -> float:
    """Return log M of the rewards that count."""
    if noise == 0:
        ones, zeros = sum(rewards), len(rewards) - sum(rewards)
        return float(betaln(ones + 0.5, zeros + 0.5) - betaln(0.5, 0.5))
    rest = np.array(rewards[1:])
    if not len(rest):
        return 0.0
    covariance = noise * (np.eye(len(rest)) + 1)
    residual = rest - rewards[0]
    _, log_det = np.linalg.slogdet(2 * math.pi * covariance)
    return float(-0.5 * (log_det + residual @ np.linalg.solve(covariance, residual)))


def log_tilt(rewards: Rewards, s: float, mean: float, noise: float) -> float:
    """Return log of the product of exp(s y) / E exp(s y) over the rewards, under this mean."""
    each = s * mean + s * s * noise / 2 if noise > 0 else math.log(1 - mean + mean * math.exp(s))
    return s * sum(rewards) - len(rewards) * each


def least(function: Callable[[float], float], noise: float, low: float = 0.0, high: float = 1.0) -> float:
    """Return the minimum of a convex function of the level."""
    bounds = (-9.0, 9.0) if noise > 0 else (low + 1e-9, high - 1e-9)
    found = minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": 1e-11})
    return float(found.fun)


def pair(one: Rewards, other: Rewards, mixed: Mixed, noise: float, epsilon: float = 0.0) -> float:
    """Return the log evidence against "the other is better than the one by epsilon"."""
    if estimate(one, noise) <= estimate(other, noise) - epsilon:
        return -math.inf
    a, b = judged(one, noise), judged(other, noise)

    def log_value(theta: float) -> float:
        terms = [
            math.log(weight) + log_tilt(a, up, theta, noise) + log_tilt(b, -down, theta + epsilon, noise)
            for up, down, weight in mixed.tilts
        ]
        likelihood = log_likelihood(a, theta, noise) + log_likelihood(b, theta + epsilon, noise)
        mixture = log_mixture(one, noise) + log_mixture(other, noise)
        return float(logsumexp([*terms, math.log(mixed.mixture) + mixture - likelihood]))

    return least(log_value, noise, 0.0, 1.0 - epsilon)


def pooled(
    samples: Sequence[Rewards],
    led: Sequence[Rewards],
    b: int,
    mixed: Mixed,
    noise: float,
    epsilon: float = 0.0,
    behind: Sequence[int] = (),
) -> float:
    """Return the log evidence against "b is the best arm, and by epsilon better than those behind".

    ``led``: the rewards of every arm that came while it looked best.
    """
    rivals = [a for a in range(len(samples)) if a != b]

    def log_value(m: float) -> float:
        levels = [m - epsilon if a in behind and a != b else m for a in range(len(samples))]
        means = [min(estimate(samples[a], noise), levels[a]) for a in range(len(samples))]
        means[b] = m
        return log_terms(samples, led, b, mixed, noise, levels, means)

    return least(log_value, noise, epsilon if any(a in behind for a in rivals) else 0.0)


def log_terms(
    samples: Sequence[Rewards],
    led: Sequence[Rewards],
    b: int,
    mixed: Mixed,
    noise: float,
    levels: Sequence[float],
    means: Sequence[float],
) -> float:
    """Return the logs of what is mixed against "b is the best": tilts at these levels, mixtures against these means.

    At the truth (means as they are, every level that of b, less epsilon where it is behind) this is a
    supermartingale under the null.
    """
    rivals = [a for a in range(len(samples)) if a != b]
    led = [judged(each, noise) for each in samples] if len(samples) == 2 else led
    share, own = 1 / max(len(samples), 2), judged(samples[b], noise)
    mixtures = 0.0
    for each, mean in zip(samples, means, strict=True):
        ratio = log_mixture(each, noise) - log_likelihood(judged(each, noise), mean, noise)
        mixtures += math.log(1 - share + share * math.exp(ratio))
    terms = [math.log(mixed.mixture) + mixtures]
    terms += [math.log(mixed.idle)] if mixed.idle else []
    if own and any(led[a] for a in rivals):
        terms += [
            math.log(weight)
            + log_tilt(own, -down, levels[b], noise)
            + sum(log_tilt(led[a], up, levels[a], noise) for a in rivals)
            for up, down, weight in mixed.tilts
        ]
    return float(logsumexp(terms))


def rewards_of_leaders(trials: Sequence[tuple[int, float]], arms: int, prior: float) -> list[list[float]]:
    """Return the rewards of every arm that came while it looked best: by means drawn to that of all rewards,
    a 0 and a 1."""
    samples: list[list[float]] = [[] for _ in range(arms)]
    led: list[list[float]] = [[] for _ in range(arms)]
    for arm, reward in trials:
        centre = (sum(map(sum, samples)) + 1) / (sum(map(len, samples)) + 2)
        means = [(sum(each) + prior * centre) / (len(each) + prior) for each in samples]
        if int(np.argmax(means)) == arm:
            led[arm].append(reward)
        samples[arm].append(reward)
    return led

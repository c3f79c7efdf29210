"""A tally: pulls, sums and means of every arm, and what two arms or one say against each other.

The stopping rules of `one_phase` and the sampling rules of `osrl.policies.sampling.common` keep one each, so that any
of them can be paired.
"""

from __future__ import annotations

import math

from osrl.jit.kernel import kernel_in_place
from osrl.model.arrays import Flags, Floats
from osrl.model.families import divergence

PULLS, SUMS, MEANS = range(3)  # rows of a tally (., X, n)


@kernel_in_place
def add(arms: Floats, x: int, a: int, reward: float) -> None:
    """Take in a reward of arm ``a`` of task ``x``."""
    arms[PULLS, x, a] += 1.0
    arms[SUMS, x, a] += reward
    arms[MEANS, x, a] = arms[SUMS, x, a] / arms[PULLS, x, a]


@kernel_in_place
def ratio(arms: Floats, x: int, a: int, b: int, noise: float) -> float:
    """How clearly one of two arms of a task leads: N_a kl(mu_a, m) + N_b kl(mu_b, m), m their pooled mean.

    It is negative when the second one leads, and 0 while one of them is untried.
    """
    one, other = arms[PULLS, x, a], arms[PULLS, x, b]
    if one == 0.0 or other == 0.0:
        return 0.0
    m = (arms[SUMS, x, a] + arms[SUMS, x, b]) / (one + other)
    value = one * divergence(arms[MEANS, x, a], m, noise) + other * divergence(arms[MEANS, x, b], m, noise)
    return float(value if arms[MEANS, x, a] >= arms[MEANS, x, b] else -value)


@kernel_in_place
def upper(mean: float, pulls: float, rate: float, noise: float) -> float:
    """The largest m with N kl(mean, m) <= rate, or a little more; infinite, or 1, without samples.

    Newton's method for a convex function, from above: by Pinsker's inequality, or because m <= 1.
    """
    if noise > 0.0:
        return mean + math.sqrt(2.0 * noise * rate / pulls) if pulls > 0.0 else math.inf
    if pulls == 0.0 or mean >= 1.0:
        return 1.0
    allowed = rate / pulls
    rest = allowed - (mean * math.log(mean) if mean > 0.0 else 0.0)
    m = min(mean + math.sqrt(0.5 * allowed), 1.0 - (1.0 - mean) * math.exp(-rest / (1.0 - mean)))
    if m >= 1.0:
        return 1.0
    for _ in range(30):
        change = (divergence(mean, m, 0.0) - allowed) * m * (1.0 - m) / (m - mean)
        m -= change
        if not change > 1e-9:
            break
    return m


@kernel_in_place
def lower(mean: float, pulls: float, rate: float, noise: float) -> float:
    """The smallest m with N kl(mean, m) <= rate, or a little less."""
    if noise > 0.0:
        return -upper(-mean, pulls, rate, noise)
    return 1.0 - upper(1.0 - mean, pulls, rate, 0.0)


@kernel_in_place
def only(possible: Flags, first: int, last: int) -> int:
    """The only possibility among first .. last - 1, or -1."""
    left = -1
    for i in range(first, last):
        if possible[i]:
            if left >= 0:
                return -1
            left = i
    return left


@kernel_in_place
def best_mean(arms: Floats, x: int, first: int, last: int) -> int:
    """The arm with the largest mean among first .. last - 1 of task ``x``; of several, the first."""
    best = first
    for a in range(first + 1, last):
        if arms[MEANS, x, a] > arms[MEANS, x, best]:
            best = a
    return best

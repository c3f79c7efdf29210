"""Exact track-and-stop weights of one task: the allocation that finds its best arm fastest.

    max_w min_{a != 1} (w_1 + w_a) I(mu_1, mu_a),        w on the simplex, arm 1 the best

(Garivier and Kaufmann, 2016). With x_a = w_a / w_1, all constraints are equal to some y w_1 at the
optimum, g_a(x_a) = kl(mu_1, m_a) + x_a kl(mu_a, m_a) = y, m_a = (mu_1 + x_a mu_a) / (1 + x_a); and
y is the root of sum_a kl(mu_1, m_a) / kl(mu_a, m_a) = 1. Both equations are monotone and are
solved by Newton's method, the outer one inside a bracket.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.jit import kernel
from osrl.jit.reductions import sequential_sum
from osrl.model.arrays import Floats
from osrl.model.families import divergence, variance


class SingleTask(NamedTuple):
    """Optimal proportions of one task, and its characteristic time T* (samples per unit of evidence)."""

    weights: Floats  # (n,)
    time: float


@kernel
def _ratio(y: float, top: float, mean: float, noise: float) -> float:
    """Solve g(x) = y by Newton's method from the left: g is increasing and concave."""
    # from a mean of 1 the divergence is infinite: start just far enough that m differs from it
    x = 1e-15 / (top - mean) if noise == 0.0 and top == 1.0 else y / divergence(mean, top, noise)
    for _ in range(200):
        m = (top + x * mean) / (1.0 + x)
        slope = divergence(mean, m, noise)
        change = (y - divergence(top, m, noise) - x * slope) / slope
        x += change
        if not change > 1e-10 * x:  # the next change would be of the order of its square
            break
    return x


@kernel
def single_task(mu: Floats, noise: float) -> SingleTask:
    """Return the exact weights and the characteristic time of the task with means ``mu`` (n,).

    Without one best arm there is nothing to find: uniform weights and an infinite time. With a
    single arm the time is 0.

    >>> weights, time = single_task(np.array([0.6, 0.5]), 0.0)
    >>> weights.round(4).tolist(), round(time, 2)
    ([0.5017, 0.4983], 197.65)
    """
    n = mu.size
    best = int(np.argmax(mu))
    top = mu[best]
    highest, even = math.inf, math.inf  # even: the y of equal weights, roughly
    for a in range(n):
        if a != best:
            highest = min(highest, divergence(top, mu[a], noise))
            even = min(even, 2.0 * divergence(top, 0.5 * (top + mu[a]), noise))
    if n == 1 or highest == 0.0:
        return SingleTask(np.full(n, 1.0 / n), 0.0 if n == 1 else math.inf)
    weights = np.ones(n)
    low, high = 0.0, highest  # infinite when every rival has mean 0
    y = min(0.5 * highest, even)
    for _ in range(200):
        excess, slope = -1.0, 0.0
        for a in range(n):
            if a == best:
                continue
            x = _ratio(y, top, mu[a], noise)
            weights[a] = x
            m = (top + x * mu[a]) / (1.0 + x)
            above, below = divergence(top, m, noise), divergence(mu[a], m, noise)
            excess += above / below
            # d(above / below) / dx, divided by dy / dx = below
            drift = (mu[a] - top) / ((1.0 + x) * (1.0 + x) * variance(m, noise))
            slope += ((m - top) * below - (m - mu[a]) * above) * drift / (below * (below * below))
        if not excess <= 0.0:  # also where x overflows
            high = y
        else:
            low = y
        proposal = y - excess / slope
        if not low < proposal < high:
            proposal = 0.5 * (low + high) if high < math.inf else 2.0 * y
        if abs(proposal - y) <= 1e-12 * y or high - low <= 1e-15 * low:
            break
        y = proposal
    total = sequential_sum(weights)
    for a in range(n):
        weights[a] /= total
    return SingleTask(weights, total / y)

"""Betting against "arm b is the best of this set", when arms are drawn with known probabilities.

Before a draw, let mu~ be estimates from the past and w the probabilities of the arms. Move b and the
better-looking arms to one level: the pool U and its w-weighted mean m (as in `osrl.alternatives`,
with q = w), and let xi_a = (mu~_a - m) / (mu~_top - mu~_b) on U. When arm A of U yields y in [0, 1],
the wealth of a bet beta >= 0 is multiplied by

    1 + beta xi_A (y - m),

and stays as it is when A is not in U. *Why the null cannot be beaten*: sum_U w_a xi_a = 0, and
xi_a >= 0 for a != b; so the expected factor is 1 + beta sum_U w_a xi_a (lambda_a - m) =
1 + beta sum_U w_a xi_a (lambda_a - lambda_b) <= 1 when no arm is better than b. Only the weights
relative to each other matter, and mu~, w, beta may depend on the past in any way.

Bets are mixed: a geometric grid, multiples kappa of the growth-optimal (mu~_top - mu~_b) / (m (1 - m)),
and beta = 0. They are clipped so that no factor falls below 0.02. What a trial will be judged with
is its *ticket*, fixed before the reward is known: for each null, the numbers xi_A, m, the
growth-optimal bet and the largest one that is allowed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.alternatives import Floats, pool_sizes, sort_by_mean
from osrl.compiled import kernel

SAFE = 0.98  # a factor never falls below 1 - SAFE
TICKET = 4  # numbers for each null: xi of the drawn arm, level, growth-optimal bet, largest bet


class Bets(NamedTuple):
    """The bets that are mixed; a negative one, -kappa, follows kappa times the growth-optimal bet."""

    beta: Floats  # (J,)
    task: Floats  # (J,) log weights in the evidence of one task
    shared: Floats  # (J,) log weights where one bet is used in all tasks
    local: Floats  # (J,) log weights in the evidence about predictors


def new_bets(
    smallest: float = 0.1, largest: float = 2.0, points: int = 6, idle: float = 0.25, plugged: float = 0.15
) -> Bets:
    """A grid of ``points`` bets, three growth-optimal ones, and none at all.

    ``idle``: weight of not betting in a task that may have nothing to say about a representation;
    ``plugged``: weight of the growth-optimal bets.
    """
    grid = np.geomspace(smallest, largest, points)
    even = np.full(points, 1.0 / points)
    with np.errstate(divide="ignore"):
        return Bets(
            np.concatenate([[0.0], grid, [-1.0, -0.5, -0.25]]),
            np.log(
                np.concatenate(
                    [[idle], (1 - idle - 2 * plugged) * even, [plugged, 0.7 * plugged, 0.3 * plugged]]
                )
            ),
            np.log(np.concatenate([[0.0], 0.4 * even, [0.25, 0.25, 0.1]])),
            np.log(
                np.concatenate([[0.0], (1 - plugged) * even, [0.5 * plugged, 0.3 * plugged, 0.2 * plugged]])
            ),
        )


@kernel
def shrunk_means(pulls: Floats, sums: Floats, prior: float) -> Floats:
    """Estimates (n,) drawn towards the mean of all, as if each arm had ``prior`` samples of it."""
    count, total = 2.0, 1.0
    for a in range(pulls.size):
        count += pulls[a]
        total += sums[a]
    centre = total / count
    means = np.empty(pulls.size)
    for a in range(pulls.size):
        means[a] = (sums[a] + prior * centre) / (pulls[a] + prior)
    return means


@kernel
def write_ticket(means: Floats, weights: Floats, drawn: int, ticket: Floats) -> None:
    """Fill ``ticket`` (n, 4): the terms of every null "b is the best of these n arms" for this draw."""
    n = means.size
    order = np.arange(n)
    sort_by_mean(means, order)
    mu, w = np.empty(n), np.empty(n)
    position = 0
    for r in range(n):
        mu[r], w[r] = means[order[r]], weights[order[r]]
        if order[r] == drawn:
            position = r
    level, mass = np.empty(n), np.empty(n)
    size = np.empty(n, np.int64)
    pool_sizes(mu, w, level, size, mass)
    for r in range(n):
        b = order[r]
        span, m = mu[0] - mu[r], level[r]
        ticket[b, 0] = 0.0
        if (position < size[r] or position == r) and span > 1e-9 and 0.0 < m < 1.0:
            above, below = (mu[0] - m) / span, (m - mu[r]) / span
            ticket[b, 0] = (mu[position] - m) / span
            ticket[b, 1] = m
            ticket[b, 2] = span / (m * (1.0 - m))
            ticket[b, 3] = SAFE / max(above * m, below * (1.0 - m))


@kernel
def bet_on(beta: float, terms: Floats) -> float:
    """The size of a bet under the terms of a ticket."""
    return float(min(-beta * terms[2] if beta < 0.0 else beta, terms[3]))


@kernel
def settle(wealth: Floats, ticket: Floats, beta: Floats, reward: float) -> None:
    """Multiply the wealth (n, J, logarithms) of every null by its factor for this reward."""
    for b in range(wealth.shape[0]):
        xi = ticket[b, 0]
        if xi != 0.0:
            edge = xi * (reward - ticket[b, 1])
            for j in range(beta.size):
                wealth[b, j] += math.log1p(bet_on(beta[j], ticket[b]) * edge)


@kernel
def settle_worst(wealth: Floats, ticket: Floats, beta: Floats) -> None:
    """Multiply the wealth (n, J) of every null by the smallest factor that any reward could bring."""
    for b in range(wealth.shape[0]):
        xi, m = ticket[b, 0], ticket[b, 1]
        if xi != 0.0:
            edge = -xi * m if xi > 0.0 else xi * (1.0 - m)
            for j in range(beta.size):
                wealth[b, j] += math.log1p(bet_on(beta[j], ticket[b]) * edge)


@kernel
def log_mixture(logs: Floats, log_weights: Floats) -> float:
    """log sum_j weight_j exp(log_j)."""
    top = -math.inf
    for j in range(logs.size):
        top = max(top, logs[j] + log_weights[j])
    if top == -math.inf:
        return top
    total = 0.0
    for j in range(logs.size):
        total += math.exp(logs[j] + log_weights[j] - top)
    return top + math.log(total)

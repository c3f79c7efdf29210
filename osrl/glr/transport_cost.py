"""Transport costs: the closest confusing model of one task, in which a given arm is the best one.

For an allocation q over the arms of a task with means mu, and an arm b,

    ell(q; b) = inf { sum_a q_a kl(mu_a, lambda_a) : lambda_b >= lambda_a for every arm a }.

The infimum moves the *pool* U (arm b and the arms with a mean above m) to one common *level*
m, the q-weighted mean of the pool, and leaves the other arms alone (Lemma 1 of the paper).
Its gradient is d ell / d q_a = kl(mu_a, m) on the pool and 0 elsewhere (envelope theorem).

The kernels work on arms **sorted by decreasing mean**: a pool is then b and the first ``size``
arms, and sums over all pools are differences of prefix sums. All arms of a task take
O(n log n) together. Divergences are expanded around one reference mean r,

    sum_a q_a kl(mu_a, m) = sum_a q_a kl(mu_a, r) - (sum_a q_a) kl(m, r),

which holds because m is the weighted mean; with r the largest mean, no digits are lost when
all means are close to each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.families import divergence


class Alternatives(NamedTuple):
    """The closest model, for every arm b of a task, in which b is the best arm.

    ``order`` lists the arms by decreasing mean; the pool of b is b and ``order[:size[b]]``.
    """

    cost: Floats  # (n,) ell(q; b)
    level: Floats  # (n,) the pooled mean m
    size: Integers  # (n,) how many of the top arms are in the pool besides b
    order: Integers  # (n,)


@kernel
def reference_mean(top: float, noise: float) -> float:
    """Return the mean around which divergences of a task are expanded: its largest, kept off 0 and 1."""
    if noise > 0.0:
        return top
    return min(max(top, 1e-9), 1.0 - 1e-9)


@kernel_in_place
def pool_sizes(mu: Floats, q: Floats, sums: Floats, level: Floats, size: Integers, mass: Floats) -> None:
    """Compute pool and level of every arm of a task, and the ``sums`` for them; arms sorted by decreasing mean.

    The k-th arm joins the pool of b when its mean exceeds the mean of those before it and b:
    sum_{i<k} q_i (mu_i - mu_k) < q_b (mu_k - mu_b). The left side grows with k and the right
    side shrinks, hence the binary search. ``mass`` is the weight of the pool.
    """
    write_prefix_sums(mu, q, sums)
    for b in range(mu.size):
        size[b] = pool_size(mu, q, sums, b)
        mass[b] = sums[0, size[b]] + q[b]
        level[b] = (sums[1, size[b]] + q[b] * mu[b]) / mass[b] if mass[b] > 0.0 else mu[b]


@kernel_in_place
def write_prefix_sums(mu: Floats, q: Floats, sums: Floats) -> None:
    """Write sums over the first k arms to (3, n + 1) or more rows: of q, of q mu, and of q_i (mu_i - mu_k)."""
    weight, total = 0.0, 0.0
    for k in range(mu.size):
        sums[0, k], sums[1, k], sums[2, k] = weight, total, total - weight * mu[k]
        weight += q[k]
        total += q[k] * mu[k]
    sums[0, mu.size], sums[1, mu.size] = weight, total


@kernel_in_place
def pool_size(mu: Floats, q: Floats, sums: Floats, b: int) -> int:
    """Return how many arms join the b-th one."""
    low = 0
    high = b
    while low < high:
        middle = (low + high) // 2
        if sums[2, middle] < q[b] * (mu[middle] - mu[b]):
            low = middle + 1
        else:
            high = middle
    return low


@kernel_in_place
def sorted_costs(
    mu: Floats,
    q: Floats,
    noise: float,
    sums: Floats,
    level: Floats,
    size: Integers,
    mass: Floats,
    cost: Floats,
) -> None:
    """Compute ell(q; b) of every arm of a task, with pool and level; arms sorted by decreasing mean.

    ``sums`` (4, n + 1) receives those of `write_prefix_sums`, and the cost of moving the first k arms to the reference.
    """
    pool_sizes(mu, q, sums, level, size, mass)
    n, spent = mu.size, sums[3]
    reference = reference_mean(mu[0], noise)
    spent[0] = 0.0
    for k in range(n):
        cost[k] = q[k] * divergence(mu[k], reference, noise)
        spent[k + 1] = spent[k] + cost[k]
    for b in range(n):
        if size[b] == 0 or mass[b] <= 0.0:
            cost[b] = 0.0
        else:
            value = spent[size[b]] + cost[b] - mass[b] * divergence(level[b], reference, noise)
            cost[b] = max(value, 0.0)


@kernel_in_place
def sort_by_mean(mu: Floats, order: Integers) -> None:
    """Put ``order`` in decreasing order of mean; linear time when only one arm has moved."""
    for i in range(1, order.size):
        arm = order[i]
        j = i
        while j > 0 and mu[order[j - 1]] < mu[arm]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = arm


@kernel
def order_by_mean(mu: Floats) -> Integers:
    """Return the arms in decreasing order of mean; of equal ones, the first comes first."""
    order = np.empty(mu.size, np.int64)
    for a in range(mu.size):
        order[a] = a
    sort_by_mean(mu, order)
    return order


@kernel
def alternatives(mu: Floats, q: Floats, noise: float) -> Alternatives:
    """Return the closest confusing model for each arm of one task.

    ``mu`` and ``q`` (n,) are the means and the allocation (or the pulls) of the task's arms.

    >>> closest = alternatives(np.array([0.5, 0.4, 0.1]), np.array([1.0, 1.0, 1.0]), 0.0)
    >>> closest.level.round(3).tolist(), closest.size.tolist()
    ([0.5, 0.45, 0.333], [0, 1, 2])
    """
    n = mu.size
    order = order_by_mean(mu)
    level, mass, cost = np.empty(n), np.empty(n), np.empty(n)
    size = np.empty(n, np.int64)
    sorted_costs(mu[order], q[order], noise, np.empty((4, n + 1)), level, size, mass, cost)
    closest = Alternatives(np.empty(n), np.empty(n), np.empty(n, np.int64), order)
    for rank in range(n):
        arm = order[rank]
        closest.cost[arm] = cost[rank]
        closest.level[arm] = level[rank]
        closest.size[arm] = size[rank]
    return closest


@kernel
def gradient(closest: Alternatives, mu: Floats, noise: float, b: int) -> Floats:
    """Return the gradient of ell(q; b) in q (n,): the divergence from the pooled level, on the pool of b.

    At q_b = 0 the pool is b alone and the gradient is 0, although the first samples of b would help:
    there it is no supergradient.
    """
    slope = np.zeros(mu.size)
    slope[b] = divergence(mu[b], closest.level[b], noise)
    for rank in range(closest.size[b]):
        arm = closest.order[rank]
        slope[arm] = divergence(mu[arm], closest.level[b], noise)
    return slope

"""The generalised likelihood ratio of the shared representation, with its witness.

The transport cost of representation g, as the best of all tasks, is

    C(g) = sum_x min_h ell(q_x; (g, h)),

that of the closest model in which each task x is best with (g, h_x) for some h_x. Then
rho(q, mu) is the least C(g) over g other than the best one, and with pulls N in place of q,

    Psi_t(g~) = min over g != g~ of C(g),

the statistic of Chernoff's stopping rule; max over g~ is the second smallest C(g).

A `Glr` is kept per task: after a reward in task x only that task is redone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.glr.transport_cost import order_by_mean, sort_by_mean, sorted_costs
from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import copy_into
from osrl.model.arrays import Floats, Integers
from osrl.model.instance import Given, read_instance


class Glr(NamedTuple):
    """Transport costs of each representation, task by task (arrays are updated in place)."""

    order: Integers  # (X, n) arms of each task by decreasing mean
    cost: Floats  # (X, n) ell of each arm (g, h), flattened
    least: Floats  # (X, G) min over h of cost
    predictor: Integers  # (X, G) the h that reaches it
    total: Floats  # (G,) C(g)


class Confusion(NamedTuple):
    """The closest model with another best representation: its distance and its best arms."""

    value: float
    representation: int  # which representation would be the best
    predictors: tuple[int, ...]  # and with which predictor in each task


@kernel
def new_glr(tasks: int, representations: int, predictors: int) -> Glr:
    """Return the GLR of a problem without samples: every cost is 0."""
    n = representations * predictors
    order = np.empty((tasks, n), np.int64)
    for x in range(tasks):
        for a in range(n):
            order[x, a] = a
    return Glr(
        order,
        np.zeros((tasks, n)),
        np.zeros((tasks, representations)),
        np.zeros((tasks, representations), np.int64),
        np.zeros(representations),
    )


@kernel
def update_task(glr: Glr, x: int, mu: Floats, q: Floats, noise: float) -> None:
    """Update task ``x`` for its new means and pulls (n,), and the sums over tasks."""
    n = mu.size
    _update_task_in(glr, x, mu, q, noise, np.empty((4, n + 1)), np.empty((5, n)), np.empty(n, np.int64))


@kernel_in_place
def _update_task_in(
    glr: Glr, x: int, mu: Floats, q: Floats, noise: float, sums: Floats, by_rank: Floats, size: Integers
) -> None:
    """Do the work of `update_task` in given space: ``sums`` (4, n + 1); by rank (5, n) and (n,)."""
    order, costs, least, predictor, total = glr.order[x], glr.cost[x], glr.least, glr.predictor, glr.total
    n = mu.size
    tasks, representations = least.shape
    predictors = n // representations
    sort_by_mean(mu, order)
    means, weights, level, mass, cost = by_rank[0], by_rank[1], by_rank[2], by_rank[3], by_rank[4]
    for rank in range(n):
        means[rank], weights[rank] = mu[order[rank]], q[order[rank]]
    sorted_costs(means, weights, noise, sums, level, size, mass, cost)
    for rank in range(n):
        costs[order[rank]] = cost[rank]
    for g in range(representations):
        least[x, g] = math.inf
        for h in range(predictors):
            value = costs[g * predictors + h]
            if value < least[x, g]:
                least[x, g] = value
                predictor[x, g] = h
        total[g] = 0.0
        for y in range(tasks):
            total[g] += least[y, g]


@kernel_in_place
def cheapest(glr: Glr, except_for: int) -> int:
    """Return the representation of least transport cost, other than ``except_for`` (-1: of all)."""
    total = glr.total
    least = -1
    for g in range(total.size):
        if g != except_for and (least < 0 or total[g] < total[least]):
            least = g
    return least


@kernel
def glr_of(mu: Floats, q: Floats, noise: float) -> Glr:
    """Return the GLR for means and allocation of shape (X, G, H)."""
    tasks, representations, predictors = mu.shape
    glr = new_glr(tasks, representations, predictors)
    for x in range(tasks):
        flat = mu[x].copy().reshape(-1)
        copy_into(order_by_mean(flat), glr.order[x])
        update_task(glr, x, flat, q[x].copy().reshape(-1), noise)
    return glr


def rho(instance: Given, weights: Floats) -> Confusion:
    """Return the information per sample about the shared representation, and the model that limits it.

    ``weights`` (X, G, H) is an allocation (or pulls: rho is homogeneous in it).

    >>> confusion = rho("paper", np.full((2, 3, 2), 1 / 12))
    >>> round(confusion.value, 6), confusion.representation
    (0.021661, 1)
    """
    instance = read_instance(instance)
    best = instance.best
    weights = np.ascontiguousarray(weights, dtype=float)
    if weights.shape != instance.shape or not (np.isfinite(weights) & (weights >= 0)).all():
        raise OsrlError(f"weights must be finite numbers >= 0 of shape {instance.shape}; got shape {weights.shape}")
    if instance.shape[1] == 1:
        return Confusion(math.inf, best.representation, best.predictors)
    glr = glr_of(instance.means.copy(), weights, instance.family.noise)
    rival = int(cheapest(glr, best.representation))
    return Confusion(float(glr.total[rival]), rival, tuple(int(h) for h in glr.predictor[:, rival]))

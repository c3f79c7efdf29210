"""The max-min program of the paper, in the form that the solvers work on.

    maximise    z - |q|^2 / (2 sigma)                              over q >= 0, p, z
    subject to  sum_x p[x,c] >= need_c z                                 representation tests
                ell(q_x; b) + ahead_b z >= p[x, cell(b)]                 their pieces
                ell(q_x; b) or f(q_x; b) >= need_h[x,b] z                predictor tests
                sum_{a of the tasks of group k} cost_a q_a = budget_k.

A *piece* is an arm b that a test has to exclude as the best of its task. The pieces of one
representation in one task form a *cell*, whose value p is the least of theirs. With one cell for
each representation and one group this is the program of Theorem 1: needs kl(delta_G, 1 - delta_G)
and kl(delta_H, 1 - delta_H) give z* = 1 / K. One group for each task gives tasks that arrive with
fixed frequencies. The evidence against an arm may be *ahead* of that against the others of its cell:
a head start, which is a need below zero.

Arms are stored **by rank**: decreasing mean, the leader first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.glr.transport_cost import order_by_mean, reference_mean
from osrl.jit import kernel
from osrl.jit.reductions import copy_into, sequential_sum
from osrl.model.arrays import Flags, Floats, Integers
from osrl.model.families import divergence


class Program(NamedTuple):
    """One max-min program; every (X, n) array is indexed by task and rank."""

    arm: Integers  # (X, n) which arm g * H + h has this rank
    mu: Floats  # (X, n) means, decreasing
    potential: Floats  # (X, n) kl(mu, reference)
    reference: Floats  # (X,) the mean around which divergences of a task are expanded
    piece: Flags  # (X, n) whether some test has to exclude the arm
    cell: Integers  # (X, n) cell of the arm's piece, or -1
    need: Floats  # (C,) need of each representation test: one cell of it in every task
    need_h: Floats  # (X, n) need of the arm's predictor test; of a piece in a cell, less its head start
    pooled: bool  # predictor pieces cost ell (True) or the two-arm f (False)
    cost: Floats  # (X, n) price of a sample
    group: Integers  # (X,) which budget pays for the task
    budget: Floats  # (B,)
    inverse_sigma: float
    noise: float


@kernel
def build_program(
    mu: Floats,
    leader: Integers,
    need_g: Floats,
    need_h: Floats,
    pooled: bool,
    cost: Floats,
    group: Integers,
    budget: Floats,
    inverse_sigma: float,
    noise: float,
) -> Program:
    """Build the program for means (X, G*H) whose best arm in task x is ``leader[x]``.

    ``need_g`` (G,): need of the test against each representation; ``need_h`` (X, G*H): need of
    the test against each arm as a predictor. A need of 0 leaves the test out. An arm of a representation
    that is tested has no predictor test; what its piece is ahead of others is given there, as -ahead <= 0.
    """
    tasks, n = mu.shape
    predictors = n // need_g.size
    cell_of = np.full(need_g.size, -1)
    cells = 0
    for g in range(need_g.size):
        if need_g[g] > 0.0:
            cell_of[g] = cells
            cells += 1
    need = np.empty(cells)
    for g in range(need_g.size):
        if cell_of[g] >= 0:
            need[cell_of[g]] = need_g[g]
    arm = np.empty((tasks, n), np.int64)
    cell = np.full((tasks, n), -1)
    piece = np.zeros((tasks, n), np.bool_)
    reference = np.empty(tasks)
    sorted_mu, potential = np.empty((tasks, n)), np.empty((tasks, n))
    sorted_cost, sorted_need = np.empty((tasks, n)), np.zeros((tasks, n))
    for x in range(tasks):
        copy_into(order_by_mean(mu[x]), arm[x])
        at = 0
        while arm[x, at] != leader[x]:
            at += 1
        for r in range(at, 0, -1):
            arm[x, r] = arm[x, r - 1]
        arm[x, 0] = leader[x]
        reference[x] = reference_mean(mu[x, leader[x]], noise)
        for r in range(n):
            a = arm[x, r]
            sorted_mu[x, r] = mu[x, a]
            potential[x, r] = divergence(mu[x, a], reference[x], noise)
            sorted_cost[x, r] = cost[x, a]
            if r > 0:
                cell[x, r] = cell_of[a // predictors]
                sorted_need[x, r] = need_h[x, a] if cell[x, r] < 0 else min(need_h[x, a], 0.0)
                piece[x, r] = cell[x, r] >= 0 or sorted_need[x, r] > 0.0
    return Program(
        arm,
        sorted_mu,
        potential,
        reference,
        piece,
        cell,
        need,
        sorted_need,
        pooled,
        sorted_cost,
        group,
        budget,
        inverse_sigma,
        noise,
    )


@kernel
def scale_to_budget(program: Program, q: Floats) -> None:
    """Scale the tasks of each group so that they spend exactly its budget."""
    cost, group, budget = program.cost, program.group, program.budget
    spent = np.zeros(budget.size)
    tasks, n = q.shape
    for x in range(tasks):
        for r in range(n):
            spent[group[x]] += cost[x, r] * q[x, r]
    for x in range(tasks):
        factor = budget[group[x]] / spent[group[x]]
        for r in range(n):
            q[x, r] *= factor


@kernel
def rough_allocation(program: Program) -> Floats:
    """Return an allocation (X, n) by rank within a small factor of the best one, to start from.

    Each piece is tested against the leader alone, and each representation in the one task where
    that is cheapest: arm b gets need / d_b, d_b the two-arm information of equal weights, and the
    leader the root of their sum of squares.
    """
    tasks, n = program.mu.shape
    cells = program.need.size
    price = np.zeros((tasks, n))  # weight of an arm for one unit of evidence
    cost = np.zeros((tasks, cells))
    for x in range(tasks):
        for r in range(1, n):
            if program.piece[x, r]:
                middle = 0.5 * (program.mu[x, 0] + program.mu[x, r])
                information = divergence(program.mu[x, 0], middle, program.noise)
                information += divergence(program.mu[x, r], middle, program.noise)
                price[x, r] = 1.0 / max(information, 1e-300)
                if program.cell[x, r] >= 0:
                    cost[x, program.cell[x, r]] += price[x, r] * program.cost[x, r]
    q = np.zeros((tasks, n))
    for x in range(tasks):
        square = 0.0
        for r in range(1, n):
            cell = program.cell[x, r]
            if cell < 0:
                q[x, r] = program.need_h[x, r] * price[x, r]
            elif np.argmin(cost[:, cell]) == x:
                q[x, r] = program.need[cell] * price[x, r]
            square += q[x, r] * q[x, r]
        q[x, 0] = math.sqrt(square)
    q /= sequential_sum(q)
    return q

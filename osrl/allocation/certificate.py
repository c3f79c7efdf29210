"""Certificates: the value that an allocation reaches, and a bound that no allocation exceeds.

*Lower*: the objective of a feasible allocation. *Upper*: for nonnegative weights on the tests and
on the pieces of each cell, and **any** levels m, the cost of moving a pool to its level bounds
ell from above. So the objective of every allocation q is at most c.q, with

    c_a = weighted sum, over the pieces whose pool holds a, of kl(mu_a, m),

and z* <= sum over groups of budget * max_a c_a / cost_a, with weights for which the weighted sum of the
needs, less that of the head starts, is one. The pool at level m is the arm itself
and every arm with a mean above m: it is recomputed from m, whatever m is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.allocation.program import Program
from osrl.glr.transport_cost import pool_sizes
from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.families import divergence, tilt

LARGE_Z = 1e9  # a z beyond all that are granted


class Pieces(NamedTuple):
    """Every piece at an allocation; arrays (X, n) by task and rank.

    On the pool of a piece kl(mu_i, level) = potential_i - base - slope * mu_i.
    """

    level: Floats
    size: Integers
    mass: Floats
    value: Floats
    base: Floats
    slope: Floats
    own: Floats  # kl(mu_b, level)
    sums: Floats  # (4, n + 1) over the first arms of the task that was measured last


@kernel
def new_pieces(tasks: int, n: int) -> Pieces:
    """Return room for the pieces of a program."""
    return Pieces(
        np.zeros((tasks, n)),
        np.zeros((tasks, n), np.int64),
        np.zeros((tasks, n)),
        np.zeros((tasks, n)),
        np.zeros((tasks, n)),
        np.zeros((tasks, n)),
        np.zeros((tasks, n)),
        np.zeros((4, n + 1)),
    )


@kernel_in_place
def measure(program: Program, q: Floats, pieces: Pieces) -> None:
    """Evaluate every piece at the allocation ``q`` (by rank)."""
    mu_of, potential_of, reference_of = program.mu, program.potential, program.reference
    piece, cell_of, pooled, noise = program.piece, program.cell, program.pooled, program.noise
    level_of, size_of, mass_of, value_of = pieces.level, pieces.size, pieces.mass, pieces.value
    base_of, slope_of, own_of = pieces.base, pieces.slope, pieces.own
    sums, spent = pieces.sums, pieces.sums[3]
    tasks, n = q.shape
    for x in range(tasks):
        mu, potential, reference = mu_of[x], potential_of[x], reference_of[x]
        level, size, mass = level_of[x], size_of[x], mass_of[x]
        pool_sizes(mu, q[x], sums, level, size, mass)
        spent[0] = 0.0
        for r in range(n):
            spent[r + 1] = spent[r] + q[x, r] * potential[r]
        for r in range(1, n):
            if not piece[x, r]:
                continue
            if cell_of[x, r] < 0 and not pooled:
                size[r] = 1
                mass[r] = q[x, 0] + q[x, r]
                level[r] = (q[x, 0] * mu[0] + q[x, r] * mu[r]) / mass[r]
            pay = divergence(level[r], reference, noise)
            slope = tilt(level[r], reference, noise)
            slope_of[x, r] = slope
            base_of[x, r] = pay - slope * level[r]
            own_of[x, r] = divergence(mu[r], level[r], noise)
            value_of[x, r] = max(spent[size[r]] + q[x, r] * potential[r] - mass[r] * pay, 0.0)


@kernel_in_place
def objective(program: Program, q: Floats, pieces: Pieces) -> float:
    """Return the objective of ``q`` (which spends its budgets), given its measured pieces."""
    cell_of, need, need_h, inverse_sigma = program.cell, program.need, program.need_h, program.inverse_sigma
    value_of = pieces.value
    tasks, n = q.shape
    z = math.inf
    square = 0.0
    for x in range(tasks):
        square += q[x, 0] * q[x, 0]
        for r in range(1, n):
            square += q[x, r] * q[x, r]
            if cell_of[x, r] < 0 and need_h[x, r] > 0.0:
                z = min(z, value_of[x, r] / need_h[x, r])
    for j in range(need.size):
        z = min(z, granted(program, value_of, j))
    return z - 0.5 * inverse_sigma * square


@kernel_in_place
def granted(program: Program, value_of: Floats, j: int) -> float:
    """Return the largest z that test ``j`` grants: sum_x min_b (value_b + ahead_b z) = need z.

    The left side is concave in z: Newton's method from the right ends after a few steps, and the first one is
    the last where nothing is ahead.
    """
    cell_of, need, need_h = program.cell, program.need, program.need_h
    tasks, n = value_of.shape
    z = math.inf
    while True:
        value, wanted = 0.0, need[j]
        for x in range(tasks):
            least, b = math.inf, 0
            for r in range(1, n):
                if cell_of[x, r] == j:
                    # from infinitely far to the right only the head starts are seen, then the values
                    now = value_of[x, r] - need_h[x, r] * (z if z < math.inf else LARGE_Z)
                    if now < least:
                        least, b = now, r
            value += value_of[x, b]
            wanted += need_h[x, b]
        if not value / wanted < z:
            return z
        z = value / wanted


class DualResponse(NamedTuple):
    """Shares and levels of the pieces, given weights on the tests: any of them prove a bound."""

    share: Floats  # (X, n) of a piece within its cell, or the dual of a predictor piece
    level: Floats  # (X, n)
    c: Floats  # (X, n) what it proves: objective(q) <= c.q for every allocation
    price: Floats  # (X,) the largest c / cost of the task, relative to the objective
    sums: Floats  # (n + 1, 3) over pieces of the current task: of one cell, or by the depth of their pools


@kernel
def new_dual_response(tasks: int, n: int) -> DualResponse:
    """Return room for a response."""
    share, level, c = np.zeros((tasks, n)), np.zeros((tasks, n)), np.zeros((tasks, n))
    return DualResponse(share, level, c, np.full(tasks, math.inf), np.zeros((n + 1, 3)))


@kernel_in_place
def copy_dual_response(source: DualResponse, target: DualResponse, x: int) -> None:
    """Copy the response of task ``x``."""
    target.price[x] = source.price[x]
    for r in range(source.share.shape[1]):
        target.share[x, r] = source.share[x, r]
        target.level[x, r] = source.level[x, r]
        target.c[x, r] = source.c[x, r]


@kernel_in_place
def respond(program: Program, pieces: Pieces, dual: Floats, x: int, response: DualResponse) -> None:
    """Take shares and levels of task ``x`` from the duals of its pieces."""
    cell_of, need = program.cell, program.need
    level_of = pieces.level
    share_of, chosen_level, total = response.share, response.level, response.sums
    n = dual.shape[1]
    for j in range(need.size):
        total[j, 0] = 0.0
    for r in range(1, n):
        if cell_of[x, r] >= 0:
            total[cell_of[x, r], 0] += dual[x, r]
    for r in range(1, n):
        cell = cell_of[x, r]
        share_of[x, r] = dual[x, r] / total[cell, 0] if cell >= 0 else dual[x, r]
        chosen_level[x, r] = level_of[x, r]


@kernel_in_place
def slopes(program: Program, response: DualResponse, x: int, test_dual: Floats, total: float) -> float:
    """Fill row ``x`` of c, the bound that the response proves, and return the largest c / cost.

    ``test_dual`` (C,) weighs the tests; ``total`` is their `dual_total`.
    """
    mu, potential, reference = program.mu[x], program.potential[x], program.reference[x]
    piece = program.piece
    cell_of, pooled, cost_of, noise = program.cell, program.pooled, program.cost, program.noise
    share_of, chosen_level, c, deep = response.share, response.level, response.c, response.sums
    n = c.shape[1]
    # a pool is a prefix of the ranks, so the pieces are summed from the deepest pool upwards
    for r in range(n):
        c[x, r] = 0.0
        deep[r + 1, 0], deep[r + 1, 1], deep[r + 1, 2] = 0.0, 0.0, 0.0
    for r in range(1, n):
        if not piece[x, r]:
            continue
        cell, level = cell_of[x, r], chosen_level[x, r]
        w = share_of[x, r] / total
        depth = 1
        if cell >= 0:
            w *= test_dual[cell]
        if cell >= 0 or pooled:
            high = r
            while depth < high:
                middle = (depth + high) // 2
                if mu[middle] > level:
                    depth = middle + 1
                else:
                    high = middle
        slope = tilt(level, reference, noise)
        c[x, r] += w * divergence(mu[r], level, noise)
        deep[depth, 0] += w
        deep[depth, 1] += w * (divergence(level, reference, noise) - slope * level)
        deep[depth, 2] += w * slope
    weight, base, tilted, largest = 0.0, 0.0, 0.0, 0.0
    for r in range(n - 1, -1, -1):
        weight += deep[r + 1, 0]
        base += deep[r + 1, 1]
        tilted += deep[r + 1, 2]
        c[x, r] += max(weight * potential[r] - base - tilted * mu[r], 0.0)
        largest = max(largest, c[x, r] / cost_of[x, r])
    return largest


@kernel_in_place
def has_predictor_tests(program: Program, x: int) -> bool:
    """Tell whether task ``x`` has tests of its own, and so some mass in every good allocation."""
    need_h = program.need_h
    for r in range(1, need_h.shape[1]):
        if need_h[x, r] > 0.0:
            return True
    return False


@kernel_in_place
def dual_total(program: Program, share: Floats, test_dual: Floats) -> float:
    """Return the normalisation of dual weights: one for a pair that prices z at one."""
    cell_of, need, need_h = program.cell, program.need, program.need_h
    total = 0.0
    for j in range(need.size):
        total += need[j] * test_dual[j]
    tasks, n = share.shape
    for x in range(tasks):
        for r in range(1, n):
            if need_h[x, r] != 0.0:
                of_test = test_dual[cell_of[x, r]] if cell_of[x, r] >= 0 else 1.0
                total += need_h[x, r] * share[x, r] * of_test
    return total


@kernel_in_place
def price_groups(program: Program, c: Floats) -> float:
    """Return an upper bound of c.q - |q|^2 / (2 sigma) over all allocations.

    For each group: min over a price nu of nu * budget + (sigma / 2) sum max(c - nu cost, 0)^2,
    which without the regulariser is budget * max c / cost. Every nu gives a valid bound.
    """
    cost_of, group, budget, inverse_sigma = program.cost, program.group, program.budget, program.inverse_sigma
    tasks, n = c.shape
    bound = 0.0
    for k in range(budget.size):
        price, cheapest = 0.0, math.inf
        for x in range(tasks):
            if group[x] == k:
                for r in range(n):
                    price = max(price, c[x, r] / cost_of[x, r])
                    cheapest = min(cheapest, cost_of[x, r])
        if inverse_sigma == 0.0:
            bound += price * budget[k]
            continue
        sigma = 1.0 / inverse_sigma
        # the bound is convex and piecewise quadratic in the price: Newton from the left converges
        price -= budget[k] / (sigma * (cheapest * cheapest))
        for _ in range(100):
            slope, curvature = budget[k], 0.0
            for x in range(tasks):
                if group[x] == k:
                    for r in range(n):
                        over = c[x, r] - price * cost_of[x, r]
                        if over > 0.0:
                            slope -= sigma * over * cost_of[x, r]
                            curvature += sigma * (cost_of[x, r] * cost_of[x, r])
            if curvature == 0.0 or abs(slope) <= 1e-8 * budget[k]:
                break
            price -= slope / curvature
        bound += price * budget[k]
        for x in range(tasks):
            if group[x] == k:
                for r in range(n):
                    over = max(c[x, r] - price * cost_of[x, r], 0.0)
                    bound += 0.5 * sigma * over * over
    return bound


@kernel_in_place
def upper_bound(
    program: Program,
    pieces: Pieces,
    dual: Floats,
    test_dual: Floats,
    value: float,
    slack: float,
    used: DualResponse,
    kept: DualResponse,
) -> float:
    """Return a bound on z* from dual weights, at a point with objective ``value``.

    A task that gets no mass in the limit has levels of the form 0 / 0: its response at the
    current point may be poor while an earlier one still proves that the task has nothing to
    offer. So the best response of each task is ``kept``, and replaces the current one where the
    bound exceeds the value by more than ``slack``. Tasks with predictor tests always have mass.
    ``used`` receives the responses that prove the bound.
    """
    tasks = dual.shape[0]
    for x in range(tasks):
        respond(program, pieces, dual, x, used)
    bound = bound_of(program, used, test_dual, abs(value))
    if math.isinf(bound):
        return bound
    replace = False
    for x in range(tasks):
        if used.price[x] <= kept.price[x]:
            copy_dual_response(used, kept, x)
        elif bound - value > slack and not has_predictor_tests(program, x):
            replace = True
    return replace_responses(program, test_dual, value, bound, used, kept) if replace else bound


@kernel
def replace_responses(
    program: Program, test_dual: Floats, value: float, bound: float, used: DualResponse, kept: DualResponse
) -> float:
    """Return the bound with the ``kept`` responses of tasks without tests of their own, if it is better."""
    tasks, n = used.share.shape
    mixed = new_dual_response(tasks, n)
    for x in range(tasks):
        copy_dual_response(used if has_predictor_tests(program, x) else kept, mixed, x)
    other = bound_of(program, mixed, test_dual, abs(value))
    if not other < bound:
        return bound
    for x in range(tasks):
        copy_dual_response(mixed, used, x)
    return other


@kernel_in_place
def bound_of(program: Program, response: DualResponse, test_dual: Floats, scale: float) -> float:
    """Return the bound on z* that the responses of all tasks prove; write their prices, relative to ``scale``."""
    total = dual_total(program, response.share, test_dual)
    if not total > 0.0:
        return math.inf
    for x in range(response.price.size):
        response.price[x] = slopes(program, response, x, test_dual, total) / scale
    return price_groups(program, response.c)

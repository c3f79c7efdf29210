"""A primal-dual interior-point method for the max-min programs, with a certificate at every step.

Infeasible slacks, one Newton step an iteration, separate primal and dual step lengths, and a
centring parameter that follows the last step. After each step the allocation is scaled to its
budgets and measured (a lower bound of z*), and the duals are turned into an upper bound; the best
of each is kept, so the interval that is returned is valid wherever the iteration stops.

*The Newton step.* The perturbed optimality conditions couple the tasks only through z, the duals of the tests
and the prices of the budgets. Each task is eliminated by itself (`osrl.allocation.elimination` has the
algebra), a small system in those shared unknowns remains (a Schur complement of size 1 + C + B), and
the steps of the tasks follow from its solution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.allocation.certificate import Pieces, measure, new_dual_response, new_pieces, objective, upper_bound
from osrl.allocation.elimination import (
    ARM_COST,
    ARM_PULL,
    BARRIER,
    BEND,
    DEPARTURE,
    ON_CELLS,
    OWN_DIVERGENCE,
    PIECE_BASE,
    PIECE_LEVEL,
    PIECE_NEED,
    PIECE_SLOPE,
    PIVOT,
    PUSH,
    RESIDUAL,
    RIGHT_SIDE,
    STIFFNESS,
    TERM_COUNT,
    System,
    eliminate_task,
    solve_gaussian,
)
from osrl.allocation.program import Program, scale_to_budget
from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import copy_into
from osrl.model.arrays import Floats
from osrl.model.families import variance


class Iterate(NamedTuple):
    """A primal-dual point, or a step between two of them (arrays are updated in place)."""

    q: Floats  # (X, n) allocation
    reduced: Floats  # (X, n) dual of q >= 0
    p: Floats  # (X, C) value granted to each cell
    slack: Floats  # (X, n) of each piece
    dual: Floats  # (X, n) of each piece
    test_slack: Floats  # (C,)
    test_dual: Floats  # (C,)
    z: Floats  # (1,)


class Equations(NamedTuple):
    """The equations of a step, task by task (see `System`), with room for their solution."""

    terms: Floats  # (X, n, TERM_COUNT) what is known of the arms and their pieces
    matrix: Floats  # (X, D, D)
    columns: Floats  # (X, D, 3 + C)
    pools: Floats  # (X, 1 + arms that pools reach, ON_CELLS + C, 3)
    shared: Floats  # (1 + C + B, 1 + C + B)
    right: Floats  # (1 + C + B,) then the steps of z, of the duals of the tests, and the prices
    moved: Floats  # (1 + arms that pools reach, 3) the steps of the first arms of a task, times u


@kernel
def new_iterate(tasks: int, n: int, cells: int) -> Iterate:
    """Return room for an iterate."""
    return Iterate(
        np.zeros((tasks, n)),
        np.zeros((tasks, n)),
        np.zeros((tasks, cells)),
        np.zeros((tasks, n)),
        np.zeros((tasks, n)),
        np.zeros(cells),
        np.zeros(cells),
        np.zeros(1),
    )


@kernel_in_place
def test_surplus(program: Program, at: Iterate, j: int) -> float:
    """Return by how much the cells of test ``j`` exceed its need (for a step: the change of it)."""
    need = program.need
    p, z = at.p, at.z
    surplus = -float(need[j] * z[0])
    for x in range(p.shape[0]):
        surplus += p[x, j]
    return surplus


@kernel_in_place
def linearise(program: Program, pieces: Pieces, at: Iterate, tau: float, terms: Floats) -> None:
    """Write the coefficients of each arm and its piece to ``terms`` (X, n, TERM_COUNT), which are zeros.

    See `osrl.allocation.elimination`.
    """
    mu, piece, cell_of, need_h = program.mu, program.piece, program.cell, program.need_h
    cost, inverse_sigma, noise = program.cost, program.inverse_sigma, program.noise
    level, mass, value = pieces.level, pieces.mass, pieces.value
    base, slope, own = pieces.base, pieces.slope, pieces.own
    q, reduced, p, slack, dual, z = at.q, at.reduced, at.p, at.slack, at.dual, at.z
    tasks, n = q.shape
    for x in range(tasks):
        for r in range(n):
            arm = terms[x, r]
            arm[BARRIER] = inverse_sigma + reduced[x, r] / q[x, r]
            arm[ARM_PULL] = tau / q[x, r] - inverse_sigma * q[x, r]
            arm[ARM_COST] = cost[x, r]
            if piece[x, r]:
                cell, stiff = cell_of[x, r], dual[x, r] / slack[x, r]
                granted = need_h[x, r] * z[0] + (p[x, cell] if cell >= 0 else 0.0)
                arm[STIFFNESS] = stiff
                arm[BEND] = dual[x, r] / (mass[x, r] * variance(level[x, r], noise))
                arm[RESIDUAL] = value[x, r] - granted - slack[x, r]
                arm[PUSH] = tau / slack[x, r] - stiff * arm[RESIDUAL]
                arm[OWN_DIVERGENCE] = own[x, r]
                arm[DEPARTURE] = level[x, r] - mu[x, r]
                arm[PIECE_LEVEL] = level[x, r]
                arm[PIECE_BASE] = base[x, r]
                arm[PIECE_SLOPE] = slope[x, r]
                arm[PIECE_NEED] = need_h[x, r]


@kernel_in_place
def _solve_task(factor: Floats, columns: Floats, shared: Floats, price: int) -> None:
    """Solve for the unknowns of a task, its cells and then the arms that pools reach, given the shared ones.

    They are written in place of the right-hand side.
    """
    size, width = columns.shape
    unknown = columns[:, RIGHT_SIDE]
    for k in range(size):
        value = unknown[k] - columns[k, width - 1] * shared[price]
        for j in range(1, width - 1):
            value -= columns[k, j] * shared[j - 1]
        unknown[k] = value
    for k in range(size - 1, -1, -1):
        value = unknown[k]
        for i in range(k + 1, size):
            value -= factor[k, i] * unknown[i]
        unknown[k] = value / factor[k, k]


@kernel_in_place
def recover_task(
    program: Program,
    pieces: Pieces,
    at: Iterate,
    x: int,
    tau: float,
    equations: Equations,
    step: Iterate,
) -> None:
    """Compute the step of task ``x`` from the shared unknowns."""
    mu, potential, piece, cell_of = program.mu[x], program.potential[x], program.piece[x], program.cell[x]
    depth_of = pieces.size[x]
    q, reduced, slack, dual = at.q[x], at.reduced[x], at.slack[x], at.dual[x]
    dq, dreduced, dp, dslack, ddual = step.q[x], step.reduced[x], step.p[x], step.slack[x], step.dual[x]
    terms, columns, right, moved = equations.terms, equations.columns[x], equations.right, equations.moved
    cells = dp.size
    budget = 1 + cells + program.group[x]
    dz, price = step.z[0], right[budget]
    _solve_task(equations.matrix[x], columns, right, budget)
    unknown = columns[:, RIGHT_SIDE]
    top = unknown.size - cells
    for c in range(cells):
        dp[c] = unknown[c]
    for i in range(top):
        change = unknown[cells + i]
        dq[i] = change
        moved[i + 1, 0] = moved[i, 0] + potential[i] * change
        moved[i + 1, 1] = moved[i, 1] + change
        moved[i + 1, 2] = moved[i, 2] + mu[i] * change
    for r in range(q.size):
        arm, removed = terms[x, r], r >= top
        pull = arm[ARM_PULL] - arm[ARM_COST] * price
        if piece[r]:
            cell, gap, stiff, own, missing = cell_of[r], slack[r], arm[STIFFNESS], arm[OWN_DIVERGENCE], arm[RESIDUAL]
            pool = moved[depth_of[r]]
            change = pool[0] - arm[PIECE_BASE] * pool[1] - arm[PIECE_SLOPE] * pool[2]
            change -= arm[PIECE_NEED] * dz + (dp[cell] if cell >= 0 else 0.0)
            if removed:
                force = own * (tau / gap - stiff * (missing + change))
                force -= arm[BEND] * arm[DEPARTURE] * (arm[PIECE_LEVEL] * pool[1] - pool[2])
                dq[r] = (pull + force) / arm[PIVOT]
            dslack[r] = change + own * dq[r] + missing
            ddual[r] = tau / gap - dual[r] - stiff * dslack[r]
        elif removed:
            dq[r] = pull / arm[PIVOT]
        dreduced[r] = (tau - reduced[r] * dq[r]) / q[r] - reduced[r]


@kernel
def newton_step(program: Program, pieces: Pieces, at: Iterate, tau: float, step: Iterate) -> None:
    """Compute the step from ``at`` towards complementarity products all equal to ``tau``."""
    tasks, n = at.q.shape
    cells, top = program.need.size, deepest_pool(program, pieces)
    size, width = cells + top, 1 + cells + program.budget.size
    equations = Equations(
        terms=np.zeros((tasks, n, TERM_COUNT)),
        matrix=np.zeros((tasks, size, size)),
        columns=np.zeros((tasks, size, 3 + cells)),
        pools=np.zeros((tasks, top + 1, ON_CELLS + cells, 3)),
        shared=np.zeros((width, width)),
        right=np.zeros(width),
        moved=np.zeros((top + 1, 3)),
    )
    solve_equations(program, pieces, at, tau, equations, step)


@kernel_in_place
def deepest_pool(program: Program, pieces: Pieces) -> int:
    """Return how many arms, by rank, are in the pool of some piece of a task."""
    piece, depth_of = program.piece, pieces.size
    tasks, n = piece.shape
    top = 1
    for x in range(tasks):
        for r in range(1, n):
            if piece[x, r]:
                top = max(top, depth_of[x, r])
    return top


@kernel_in_place
def solve_equations(
    program: Program, pieces: Pieces, at: Iterate, tau: float, equations: Equations, step: Iterate
) -> None:
    """Fill the equations, task by task, and solve them for the step."""
    need, cost_of, group, budget = program.need, program.cost, program.group, program.budget
    q, test_slack, test_dual = at.q, at.test_slack, at.test_dual
    dtest_slack, dtest_dual, dz = step.test_slack, step.test_dual, step.z
    terms, shared, right = equations.terms, equations.shared, equations.right
    tasks, n = q.shape
    cells, budgets = need.size, budget.size
    right[0] = 1.0
    for j in range(cells):
        dual, slack = test_dual[j], test_slack[j]
        right[0] -= need[j] * dual
        shared[0, 1 + j] = need[j]
        shared[1 + j, 0] = need[j]
        shared[1 + j, 1 + j] = -slack / dual
        right[1 + j] = test_surplus(program, at, j) - tau / dual
    for k in range(budgets):
        right[1 + cells + k] = budget[k]
    for x in range(tasks):
        for r in range(n):
            right[1 + cells + group[x]] -= cost_of[x, r] * q[x, r]
    linearise(program, pieces, at, tau, terms)
    for x in range(tasks):
        mu, potential, cell = program.mu[x], program.potential[x], program.cell[x]
        matrix, columns, pools = equations.matrix[x], equations.columns[x], equations.pools[x]
        system = System(matrix, columns, pools, shared, right, 1 + cells + group[x])
        eliminate_task(terms[x], cell, pieces.size[x], mu, potential, test_dual, system)
    solve_gaussian(shared, right)
    dz[0] = right[0]
    for j in range(cells):
        dtest_dual[j] = right[1 + j]
    for x in range(tasks):
        recover_task(program, pieces, at, x, tau, equations, step)
    for j in range(cells):
        missing = test_surplus(program, at, j) - test_slack[j]
        dtest_slack[j] = test_surplus(program, step, j) + missing


class Solution(NamedTuple):
    """The best allocation found, by rank, with bounds lower <= z* <= upper and their proof."""

    q: Floats  # (X, n)
    lower: float
    upper: float
    test_dual: Floats  # (C,) weights of the representation tests
    share: Floats  # (X, n) weights of the pieces, within their cells
    level: Floats  # (X, n) levels of the pieces
    iterations: int


@kernel_in_place
def _start(program: Program, pieces: Pieces, at: Iterate) -> None:
    """Set an interior point around the allocation ``at.q``."""
    piece, cell_of, need, need_h = program.piece, program.cell, program.need, program.need_h
    value_of = pieces.value
    q, reduced, p, slack = at.q, at.reduced, at.p, at.slack
    dual, test_slack, test_dual, z = at.dual, at.test_slack, at.test_dual, at.z
    tasks, n = q.shape
    least = math.inf
    p[:] = math.inf
    for x in range(tasks):
        for r in range(1, n):
            cell = cell_of[x, r]
            if cell >= 0:
                p[x, cell] = min(p[x, cell], 0.8 * value_of[x, r])
            elif need_h[x, r] > 0.0:
                least = min(least, value_of[x, r] / need_h[x, r])
    z[0] = 0.0
    for j in range(need.size):
        least = min(least, test_surplus(program, at, j) / need[j])
    z[0] = 0.8 * least
    tau = z[0] / (tasks * n)
    for j in range(need.size):
        test_slack[j] = test_surplus(program, at, j)
        test_dual[j] = tau / test_slack[j]
    for x in range(tasks):
        for r in range(n):
            reduced[x, r] = tau / q[x, r]
            if piece[x, r]:
                cell = cell_of[x, r]
                granted = need_h[x, r] * z[0] + (p[x, cell] if cell >= 0 else 0.0)
                slack[x, r] = value_of[x, r] - granted
                dual[x, r] = tau / slack[x, r]


@kernel_in_place
def _complementarity(program: Program, at: Iterate) -> tuple[float, int]:
    """Return the sum of all products of a slack and its dual, and their number."""
    piece, need = program.piece, program.need
    q, reduced, slack, dual = at.q, at.reduced, at.slack, at.dual
    test_slack, test_dual = at.test_slack, at.test_dual
    tasks, n = q.shape
    total, count = 0.0, 0
    for j in range(need.size):
        total += test_slack[j] * test_dual[j]
        count += 1
    for x in range(tasks):
        for r in range(n):
            total += q[x, r] * reduced[x, r]
            count += 1
            if piece[x, r]:
                total += slack[x, r] * dual[x, r]
                count += 1
    return total, count


@kernel_in_place
def _longest(value: float, change: float, limit: float) -> float:
    """Return the longest step up to ``limit`` that keeps ``value`` positive."""
    return min(limit, -0.995 * value / change) if change < 0.0 else limit


@kernel_in_place
def _advance(program: Program, at: Iterate, step: Iterate) -> float:
    """Move along ``step`` as far as positivity allows, and return the smaller of the two step lengths."""
    piece, need = program.piece, program.need
    q, reduced, p, slack = at.q, at.reduced, at.p, at.slack
    dual, test_slack, test_dual, z = at.dual, at.test_slack, at.test_dual, at.z
    dq, dreduced, dp, dslack = step.q, step.reduced, step.p, step.slack
    ddual, dtest_slack, dtest_dual, dz = step.dual, step.test_slack, step.test_dual, step.z
    tasks, n = q.shape
    primal, dually = 1.0, 1.0
    for j in range(need.size):
        primal = _longest(test_slack[j], dtest_slack[j], primal)
        dually = _longest(test_dual[j], dtest_dual[j], dually)
    for x in range(tasks):
        for r in range(n):
            primal = _longest(q[x, r], dq[x, r], primal)
            dually = _longest(reduced[x, r], dreduced[x, r], dually)
            if piece[x, r]:
                primal = _longest(slack[x, r], dslack[x, r], primal)
                dually = _longest(dual[x, r], ddual[x, r], dually)
    z[0] += primal * dz[0]
    for j in range(need.size):
        test_slack[j] += primal * dtest_slack[j]
        test_dual[j] += dually * dtest_dual[j]
    for x in range(tasks):
        for c in range(need.size):
            p[x, c] += primal * dp[x, c]
        for r in range(n):
            q[x, r] += primal * dq[x, r]
            reduced[x, r] += dually * dreduced[x, r]
            slack[x, r] += primal * dslack[x, r]
            dual[x, r] += dually * ddual[x, r]
    return min(primal, dually)


@kernel
def solve_interior_point(program: Program, start: Floats, tolerance: float, max_iterations: int) -> Solution:
    """Solve from the strictly positive allocation ``start`` (by rank) until the relative gap is met."""
    need = program.need
    tasks, n = start.shape
    at = new_iterate(tasks, n, need.size)
    step = new_iterate(tasks, n, need.size)
    pieces = new_pieces(tasks, n)
    copy_into(start, at.q)
    scale_to_budget(program, at.q)
    measure(program, at.q, pieces)
    _start(program, pieces, at)
    best, test_dual = at.q.copy(), at.test_dual.copy()
    lower, upper = objective(program, at.q, pieces), math.inf
    kept, used = new_dual_response(tasks, n), new_dual_response(tasks, n)
    share, level = used.share.copy(), used.level.copy()
    centring = 0.2
    gap, products = _complementarity(program, at)
    iterations = 0
    while iterations < max_iterations and upper - lower > tolerance * abs(lower):
        iterations += 1
        if not gap > 1e-3 * tolerance * abs(lower):
            break
        newton_step(program, pieces, at, centring * gap / products, step)
        length = _advance(program, at, step)
        if not math.isfinite(at.z[0]):
            break
        scale_to_budget(program, at.q)
        measure(program, at.q, pieces)
        value = objective(program, at.q, pieces)
        if value > lower:
            lower = value
            copy_into(at.q, best)
        gap, products = _complementarity(program, at)
        centring = 0.06 if length > 0.9 else (0.2 if length > 0.5 else 0.6)
        if gap > 0.3 * abs(value):
            continue
        bound = upper_bound(program, pieces, at.dual, at.test_dual, value, 3.0 * gap, used, kept)
        if bound - value > 3.0 * gap:
            centring = 1.0  # the duals lag behind the complementarity gap: let them catch up
        if bound < upper:
            upper = bound
            copy_into(used.share, share)
            copy_into(used.level, level)
            copy_into(at.test_dual, test_dual)
    return Solution(best, lower, upper, test_dual, share, level, iterations)

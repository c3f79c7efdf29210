"""One Newton step of the interior-point method, task by task.

The perturbed optimality conditions couple the tasks only through z, the duals of the tests and
the prices of the budgets. Each task is eliminated with a Cholesky factor of its own, and a small
system in those shared unknowns remains (a Schur complement of size 1 + C + B).

Within a task, piece b touches its own arm and the first ``size[b]`` arms. On these its gradient
and its curvature direction are combinations of three fixed vectors, u_i = (potential_i, 1, mu_i):

    kl(mu_i, m) = (1, -base, -slope) . u_i        m - mu_i = (0, m, -1) . u_i

so that sums over pieces are 3 x 3 coefficients accumulated from the deepest pool upwards, at the
cost of the matrix itself. Arms deeper than every pool meet nothing but their own piece and are
eliminated one by one before the factorisation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.allocation.certificate import Pieces
from osrl.allocation.linear import column_product, factorise, rotate_in, solve_shared
from osrl.allocation.program import Program
from osrl.arrays import Floats
from osrl.compiled import kernel
from osrl.families import variance

STIFFEST = 1e5  # of a gradient that is assembled, relative to the softest barrier


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


class Elimination(NamedTuple):
    """Every task after elimination: what its unknowns still depend on."""

    factor: Floats  # (X, D, D) upper Cholesky factors
    right: Floats  # (X, D, 3 + C) half-solved columns: right-hand side, z, tests, price
    pivot: Floats  # (X, n) of the arms that were eliminated on their own
    shared: Floats  # (1 + C + B, 1 + C + B) what remains: z, tests, prices
    shared_right: Floats  # (1 + C + B,) its right-hand side, then its solution


@kernel
def new_iterate(tasks: int, n: int, cells: int) -> Iterate:
    """Room for an iterate."""
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


@kernel
def test_surplus(program: Program, at: Iterate, j: int) -> float:
    """By how much the cells of test ``j`` exceed its need (for a step: the change of it)."""
    need = program.need
    p, z = at.p, at.z
    surplus = -float(need[j] * z[0])
    for x in range(p.shape[0]):
        surplus += p[x, j]
    return surplus


@kernel
def eliminate_task(
    program: Program, pieces: Pieces, at: Iterate, x: int, tau: float, top: int, out: Elimination
) -> None:
    """Assemble and factorise task ``x``, and add its share to the shared system.

    Unknowns of the block: the values of the cells, then the ``top`` arms that pools reach.
    """
    mu, potential, piece, cell_of = program.mu[x], program.potential[x], program.piece, program.cell
    need, need_h, cost_of, group = program.need, program.need_h, program.cost, program.group
    inverse_sigma, noise = program.inverse_sigma, program.noise
    level_of, size_of, mass_of, value_of = pieces.level, pieces.size, pieces.mass, pieces.value
    base_of, slope_of, own_of = pieces.base, pieces.slope, pieces.own
    q, reduced, p, slack = at.q, at.reduced, at.p, at.slack
    dual, test_dual, z = at.dual, at.test_dual, at.z
    matrix, right, pivot_of = out.factor[x], out.right[x], out.pivot
    shared, shared_right = out.shared, out.shared_right
    n = q.shape[1]
    cells = need.size
    price = right.shape[1] - 1
    shared_price = 1 + cells + group[x]
    # coefficients of u = (potential, 1, mu), to be applied to the arms above each depth
    quadratic = np.zeros((top + 1, 6))
    crossed = np.zeros((top + 1, cells, 3))
    linear = np.zeros((top + 1, 3, 3))  # columns: right-hand side, z, price
    rest = np.zeros(top)
    softest = math.inf
    for r in range(top):
        softest = min(softest, inverse_sigma + reduced[x, r] / q[x, r])
    for c in range(cells):
        right[c, 0] = test_dual[c]
        right[c, 2 + c] = -1.0
    for r in range(n):
        barrier = inverse_sigma + reduced[x, r] / q[x, r]
        pull = tau / q[x, r] - inverse_sigma * q[x, r]
        cost = cost_of[x, r]
        low = r >= top
        if not low:
            matrix[cells + r, cells + r] += barrier
            right[cells + r, 0] += pull
            right[cells + r, price] += cost
        if not piece[x, r]:
            if low:
                pivot_of[x, r] = barrier
                shared[shared_price, shared_price] -= cost * cost / barrier
                shared_right[shared_price] -= cost * pull / barrier
            continue
        cell, wanted, depth = cell_of[x, r], need_h[x, r], size_of[x, r]
        own, level = own_of[x, r], level_of[x, r]
        stiff = dual[x, r] / slack[x, r]
        bend = dual[x, r] / (mass_of[x, r] * variance(level, noise))
        granted = p[x, cell] if cell >= 0 else wanted * z[0]
        push = tau / slack[x, r] - stiff * (value_of[x, r] - granted - slack[x, r])
        if not low:
            # only a part of a stiff gradient is assembled; the rest is rotated into the factor
            full, stiff = stiff, min(stiff, STIFFEST * softest / (own * own))
            rest[r] = full - stiff
        # gradient (1, g1, g2) and curvature direction (0, level, -1) of the piece on its pool
        g1, g2, depart = -base_of[x, r], -slope_of[x, r], level - mu[r]
        pivot = barrier + stiff * own * own + bend * depart * depart
        quad, line = quadratic[depth], linear[depth]
        # how the arm itself answers to a change of the arms above it
        v0, v1, v2 = stiff * own, stiff * own * g1 + bend * depart * level, stiff * own * g2 - bend * depart
        if not low:
            row = cells + r
            matrix[row, row] += pivot - barrier
            right[row, 0] += own * push
            for i in range(depth):
                matrix[cells + i, row] += v0 * potential[i] + v1 + v2 * mu[i]
            if cell >= 0:
                matrix[cell, row] -= stiff * own
            else:
                right[row, 1] -= wanted * stiff * own
            kept, e0, e1, e2 = 1.0, 1.0, g1, g2
            quad[0] += stiff
            quad[1] += stiff * g1
            quad[2] += stiff * g2
            quad[3] += stiff * g1 * g1 + bend * level * level
            quad[4] += stiff * g1 * g2 - bend * level
            quad[5] += stiff * g2 * g2 + bend
        else:
            # with the arm eliminated the piece keeps a part of its gradient; written as sums of
            # like signs, because the difference of the two large terms would lose all digits
            pivot_of[x, r] = pivot
            kept = (barrier + bend * depart * depart) / pivot
            e0 = kept
            e1 = kept * g1 - bend * depart * own * level / pivot
            e2 = kept * g2 + bend * depart * own / pivot
            f0, f1, f2 = depart, depart * g1 - own * level, depart * g2 + own
            gradient, curve, mixed = stiff * barrier / pivot, bend * barrier / pivot, stiff * bend / pivot
            quad[0] += gradient + mixed * f0 * f0
            quad[1] += gradient * g1 + mixed * f0 * f1
            quad[2] += gradient * g2 + mixed * f0 * f2
            quad[3] += gradient * g1 * g1 + curve * level * level + mixed * f1 * f1
            quad[4] += gradient * g1 * g2 - curve * level + mixed * f1 * f2
            quad[5] += gradient * g2 * g2 + curve + mixed * f2 * f2
            for column in range(0, 3, 2):
                amount = (pull if column == 0 else cost) / pivot
                line[column, 0] -= v0 * amount
                line[column, 1] -= v1 * amount
                line[column, 2] -= v2 * amount
                if cell >= 0:
                    right[cell, column if column == 0 else price] += stiff * own * amount
            if cell < 0:
                shared_right[0] += wanted * stiff * own * pull / pivot
                shared[0, shared_price] += wanted * stiff * own * cost / pivot
                shared[shared_price, 0] += wanted * stiff * own * cost / pivot
            shared[shared_price, shared_price] -= cost * cost / pivot
            shared_right[shared_price] -= cost * (pull + own * push) / pivot
        line[0, 0] += push * e0
        line[0, 1] += push * e1
        line[0, 2] += push * e2
        if cell >= 0:
            matrix[cell, cell] += stiff * kept
            right[cell, 0] -= push * kept
            crossed[depth, cell, 0] -= stiff * e0
            crossed[depth, cell, 1] -= stiff * e1
            crossed[depth, cell, 2] -= stiff * e2
        else:
            shared[0, 0] += wanted * wanted * stiff * kept
            shared_right[0] -= wanted * push * kept
            line[1, 0] -= wanted * stiff * e0
            line[1, 1] -= wanted * stiff * e1
            line[1, 2] -= wanted * stiff * e2
    for i in range(top - 1, -1, -1):
        row = cells + i
        for k in range(6):
            quadratic[i, k] += quadratic[i + 1, k]
        quad = quadratic[i + 1]
        a0 = quad[0] * potential[i] + quad[1] + quad[2] * mu[i]
        a1 = quad[1] * potential[i] + quad[3] + quad[4] * mu[i]
        a2 = quad[2] * potential[i] + quad[4] + quad[5] * mu[i]
        for j in range(i + 1):
            matrix[cells + j, row] += a0 * potential[j] + a1 + a2 * mu[j]
        for c in range(cells):
            for k in range(3):
                crossed[i, c, k] += crossed[i + 1, c, k]
            cross = crossed[i + 1, c]
            matrix[c, row] += cross[0] * potential[i] + cross[1] + cross[2] * mu[i]
        for column in range(3):
            for k in range(3):
                linear[i, column, k] += linear[i + 1, column, k]
            line3 = linear[i + 1, column]
            right[row, column if column < 2 else price] += (
                line3[0] * potential[i] + line3[1] + line3[2] * mu[i]
            )
    size = cells + top
    matrix, right = matrix[:size, :size], right[:size]
    factorise(matrix, right)
    shared[0, 0] -= column_product(right, 1, 1)
    shared_right[0] -= column_product(right, 1, 0)
    for r in range(1, top):
        if rest[r] > 0.0:
            added, beside = np.zeros(size), np.zeros(right.shape[1])
            weight = math.sqrt(rest[r])
            for i in range(size_of[x, r]):
                added[cells + i] = weight * (potential[i] - base_of[x, r] - slope_of[x, r] * mu[i])
            added[cells + r] = weight * own_of[x, r]
            if cell_of[x, r] >= 0:
                added[cell_of[x, r]] = -weight
            else:
                beside[1] = -weight * need_h[x, r]
            rotate_in(matrix, right, added, beside)
            shared[0, 0] += beside[1] * beside[1]
            shared_right[0] += beside[1] * beside[0]
    for a in range(1, price + 1):
        to = a - 1 if a < price else shared_price
        if a > 1:
            shared_right[to] -= column_product(right, a, 0)
            shared[to, to] -= column_product(right, a, a)
        for b in range(a + 1, price + 1):
            other = b - 1 if b < price else shared_price
            product = column_product(right, a, b)
            shared[to, other] -= product
            shared[other, to] -= product


@kernel
def recover_task(
    program: Program,
    pieces: Pieces,
    at: Iterate,
    x: int,
    tau: float,
    top: int,
    found: Elimination,
    step: Iterate,
) -> None:
    """The step of task ``x`` once the shared unknowns are known."""
    mu, potential, piece, cell_of = program.mu[x], program.potential[x], program.piece, program.cell
    need, need_h, cost_of, group = program.need, program.need_h, program.cost, program.group
    inverse_sigma, noise = program.inverse_sigma, program.noise
    level_of, size_of, mass_of, value_of = pieces.level, pieces.size, pieces.mass, pieces.value
    base_of, slope_of, own_of = pieces.base, pieces.slope, pieces.own
    q, reduced, p, slack = at.q, at.reduced, at.p, at.slack
    dual, z = at.dual, at.z
    dq, dreduced, dp, dslack = step.q, step.reduced, step.p, step.slack
    ddual, dz = step.dual, step.z
    matrix, right, pivot_of = found.factor[x], found.right[x], found.pivot
    shared = found.shared_right
    n = q.shape[1]
    cells = need.size
    size = cells + top
    price = shared[1 + cells + group[x]]
    unknown = np.empty(size)
    for k in range(size):
        value = right[k, 0] - right[k, 2 + cells] * price
        for j in range(1 + cells):
            value -= right[k, 1 + j] * shared[j]
        unknown[k] = value
    for k in range(size - 1, -1, -1):
        value = unknown[k]
        for i in range(k + 1, size):
            value -= matrix[k, i] * unknown[i]
        unknown[k] = value / matrix[k, k]
    for c in range(cells):
        dp[x, c] = unknown[c]
    moved = np.zeros((top + 1, 3))
    for i in range(top):
        change = unknown[cells + i]
        dq[x, i] = change
        moved[i + 1, 0] = moved[i, 0] + potential[i] * change
        moved[i + 1, 1] = moved[i, 1] + change
        moved[i + 1, 2] = moved[i, 2] + mu[i] * change
    for r in range(n):
        low = r >= top
        pull = tau / q[x, r] - inverse_sigma * q[x, r] - cost_of[x, r] * price
        if piece[x, r]:
            cell, wanted = cell_of[x, r], need_h[x, r]
            own, level, gap = own_of[x, r], level_of[x, r], slack[x, r]
            depth = size_of[x, r]
            m0, m1, m2 = moved[depth, 0], moved[depth, 1], moved[depth, 2]
            stiff = dual[x, r] / gap
            change = m0 - base_of[x, r] * m1 - slope_of[x, r] * m2
            change -= dp[x, cell] if cell >= 0 else wanted * dz[0]
            missing = value_of[x, r] - (p[x, cell] if cell >= 0 else wanted * z[0]) - gap
            if low:
                bend = dual[x, r] / (mass_of[x, r] * variance(level, noise))
                force = own * (tau / gap - stiff * (missing + change))
                force -= bend * (level - mu[r]) * (level * m1 - m2)
                dq[x, r] = (pull + force) / pivot_of[x, r]
            dslack[x, r] = change + own * dq[x, r] + missing
            ddual[x, r] = tau / gap - dual[x, r] - stiff * dslack[x, r]
        elif low:
            dq[x, r] = pull / pivot_of[x, r]
        dreduced[x, r] = (tau - reduced[x, r] * dq[x, r]) / q[x, r] - reduced[x, r]


@kernel
def newton_step(program: Program, pieces: Pieces, at: Iterate, tau: float, step: Iterate) -> None:
    """The step from ``at`` towards complementarity products all equal to ``tau``."""
    piece, need, cost_of, group = program.piece, program.need, program.cost, program.group
    budget = program.budget
    size_of = pieces.size
    q, test_slack, test_dual = at.q, at.test_slack, at.test_dual
    dtest_slack, dtest_dual, dz = step.test_slack, step.test_dual, step.z
    tasks, n = q.shape
    cells, budgets = need.size, budget.size
    top = 1
    for x in range(tasks):
        for r in range(1, n):
            if piece[x, r]:
                top = max(top, size_of[x, r])
    width = 1 + cells + budgets
    found = Elimination(
        np.zeros((tasks, cells + top, cells + top)),
        np.zeros((tasks, cells + top, 3 + cells)),
        np.empty((tasks, n)),
        np.zeros((width, width)),
        np.zeros(width),
    )
    shared, right = found.shared, found.shared_right
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
    for x in range(tasks):
        eliminate_task(program, pieces, at, x, tau, top, found)
    solve_shared(shared, right)
    dz[0] = right[0]
    for j in range(cells):
        dtest_dual[j] = right[1 + j]
    for x in range(tasks):
        recover_task(program, pieces, at, x, tau, top, found, step)
    for j in range(cells):
        missing = test_surplus(program, at, j) - test_slack[j]
        dtest_slack[j] = test_surplus(program, step, j) + missing

"""One Newton step of the interior-point method, task by task.

The perturbed optimality conditions couple the tasks only through z, the duals of the tests and
the prices of the budgets. Each task is eliminated by itself (`osrl.allocation.elimination` has the
algebra), a small system in those shared unknowns remains (a Schur complement of size 1 + C + B), and
the steps of the tasks follow from its solution.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.allocation.certificate import Pieces
from osrl.allocation.elimination import (
    BARRIER,
    BASE,
    BEND,
    COST,
    DEPART,
    LEVEL,
    MISSING,
    NEED,
    OWN,
    PIVOT,
    PULL,
    PUSH,
    SLOPE,
    STIFF,
    TERMS,
    System,
    eliminate_task,
)
from osrl.allocation.linear import solve_shared
from osrl.allocation.program import Program
from osrl.arrays import Floats
from osrl.compiled import kernel
from osrl.families import variance


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
def linearise(program: Program, pieces: Pieces, at: Iterate, tau: float) -> Floats:
    """What the step knows of each arm and its piece, (X, n, TERMS); see `osrl.allocation.elimination`."""
    mu, piece, cell_of, need_h = program.mu, program.piece, program.cell, program.need_h
    cost, inverse_sigma, noise = program.cost, program.inverse_sigma, program.noise
    level, mass, value = pieces.level, pieces.mass, pieces.value
    base, slope, own = pieces.base, pieces.slope, pieces.own
    q, reduced, p, slack, dual, z = at.q, at.reduced, at.p, at.slack, at.dual, at.z
    tasks, n = q.shape
    terms = np.zeros((tasks, n, TERMS))
    for x in range(tasks):
        for r in range(n):
            arm = terms[x, r]
            arm[BARRIER] = inverse_sigma + reduced[x, r] / q[x, r]
            arm[PULL] = tau / q[x, r] - inverse_sigma * q[x, r]
            arm[COST] = cost[x, r]
            if piece[x, r]:
                cell, stiff = cell_of[x, r], dual[x, r] / slack[x, r]
                granted = need_h[x, r] * z[0] + (p[x, cell] if cell >= 0 else 0.0)
                arm[STIFF] = stiff
                arm[BEND] = dual[x, r] / (mass[x, r] * variance(level[x, r], noise))
                arm[MISSING] = value[x, r] - granted - slack[x, r]
                arm[PUSH] = tau / slack[x, r] - stiff * arm[MISSING]
                arm[OWN] = own[x, r]
                arm[DEPART] = level[x, r] - mu[x, r]
                arm[LEVEL] = level[x, r]
                arm[BASE] = base[x, r]
                arm[SLOPE] = slope[x, r]
                arm[NEED] = need_h[x, r]
    return terms


@kernel
def _half_solved(system: System) -> Floats:
    """The unknowns of a task, its cells and then the arms that pools reach, from the shared ones."""
    factor, columns, shared, price = system.matrix, system.columns, system.shared_right, system.price
    size, width = columns.shape
    unknown = np.empty(size)
    for k in range(size):
        value = columns[k, 0] - columns[k, width - 1] * shared[price]
        for j in range(1, width - 1):
            value -= columns[k, j] * shared[j - 1]
        unknown[k] = value
    for k in range(size - 1, -1, -1):
        value = unknown[k]
        for i in range(k + 1, size):
            value -= factor[k, i] * unknown[i]
        unknown[k] = value / factor[k, k]
    return unknown


@kernel
def recover_task(
    program: Program,
    pieces: Pieces,
    at: Iterate,
    terms: Floats,
    x: int,
    tau: float,
    system: System,
    step: Iterate,
) -> None:
    """The step of task ``x`` once the shared unknowns are known."""
    mu, potential, piece, cell_of = program.mu[x], program.potential[x], program.piece[x], program.cell[x]
    depth_of = pieces.size[x]
    q, reduced, slack, dual = at.q[x], at.reduced[x], at.slack[x], at.dual[x]
    dq, dreduced, dp, dslack, ddual = step.q[x], step.reduced[x], step.p[x], step.slack[x], step.dual[x]
    dz, price = step.z[0], system.shared_right[system.price]
    unknown = _half_solved(system)
    cells = dp.size
    top = unknown.size - cells
    for c in range(cells):
        dp[c] = unknown[c]
    moved = np.zeros((top + 1, 3))  # sums of the changes times u over the first arms
    for i in range(top):
        change = unknown[cells + i]
        dq[i] = change
        moved[i + 1, 0] = moved[i, 0] + potential[i] * change
        moved[i + 1, 1] = moved[i, 1] + change
        moved[i + 1, 2] = moved[i, 2] + mu[i] * change
    for r in range(q.size):
        arm, removed = terms[x, r], r >= top
        pull = arm[PULL] - arm[COST] * price
        if piece[r]:
            cell, gap, stiff, own, missing = cell_of[r], slack[r], arm[STIFF], arm[OWN], arm[MISSING]
            pool = moved[depth_of[r]]
            change = pool[0] - arm[BASE] * pool[1] - arm[SLOPE] * pool[2]
            change -= arm[NEED] * dz + (dp[cell] if cell >= 0 else 0.0)
            if removed:
                force = own * (tau / gap - stiff * (missing + change))
                force -= arm[BEND] * arm[DEPART] * (arm[LEVEL] * pool[1] - pool[2])
                dq[r] = (pull + force) / arm[PIVOT]
            dslack[r] = change + own * dq[r] + missing
            ddual[r] = tau / gap - dual[r] - stiff * dslack[r]
        elif removed:
            dq[r] = pull / arm[PIVOT]
        dreduced[r] = (tau - reduced[r] * dq[r]) / q[r] - reduced[r]


@kernel
def newton_step(program: Program, pieces: Pieces, at: Iterate, tau: float, step: Iterate) -> None:
    """The step from ``at`` towards complementarity products all equal to ``tau``."""
    piece, need, cost_of, group = program.piece, program.need, program.cost, program.group
    budget, depth_of = program.budget, pieces.size
    q, test_slack, test_dual = at.q, at.test_slack, at.test_dual
    dtest_slack, dtest_dual, dz = step.test_slack, step.test_dual, step.z
    tasks, n = q.shape
    cells, budgets = need.size, budget.size
    top = 1  # the arms that pools reach
    for x in range(tasks):
        for r in range(1, n):
            if piece[x, r]:
                top = max(top, depth_of[x, r])
    size, width = cells + top, 1 + cells + budgets
    matrix, columns = np.zeros((tasks, size, size)), np.zeros((tasks, size, 3 + cells))
    shared, right = np.zeros((width, width)), np.zeros(width)
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
    terms = linearise(program, pieces, at, tau)
    for x in range(tasks):
        system = System(matrix[x], columns[x], shared, right, 1 + cells + group[x])
        eliminate_task(
            terms[x], program.cell[x], depth_of[x], program.mu[x], program.potential[x], test_dual, system
        )
    solve_shared(shared, right)
    dz[0] = right[0]
    for j in range(cells):
        dtest_dual[j] = right[1 + j]
    for x in range(tasks):
        system = System(matrix[x], columns[x], shared, right, 1 + cells + group[x])
        recover_task(program, pieces, at, terms, x, tau, system, step)
    for j in range(cells):
        missing = test_surplus(program, at, j) - test_slack[j]
        dtest_slack[j] = test_surplus(program, step, j) + missing

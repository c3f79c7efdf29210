"""A primal-dual interior-point method for the max-min programs, with a certificate at every step.

Infeasible slacks, one Newton step an iteration, separate primal and dual step lengths, and a
centring parameter that follows the last step. After each step the allocation is scaled to its
budgets and measured (a lower bound of z*), and the duals are turned into an upper bound; the best
of each is kept, so the interval that is returned is valid wherever the iteration stops.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from osrl.allocation.certificate import Pieces, measure, new_pieces, new_response, objective, upper_bound
from osrl.allocation.newton import Iterate, new_iterate, newton_step, test_surplus
from osrl.allocation.program import Program, scale_to_budget
from osrl.alternatives import Floats
from osrl.compiled import kernel


class Solution(NamedTuple):
    """The best allocation found, by rank, with bounds lower <= z* <= upper and their proof."""

    q: Floats  # (X, n)
    lower: float
    upper: float
    test_dual: Floats  # (C,) weights of the representation tests
    share: Floats  # (X, n) weights of the pieces, within their cells
    level: Floats  # (X, n) levels of the pieces
    iterations: int


@kernel
def _start(program: Program, pieces: Pieces, at: Iterate) -> None:
    """An interior point around the allocation ``at.q``."""
    tasks, n = at.q.shape
    z = math.inf
    at.p[:] = math.inf
    for x in range(tasks):
        for r in range(1, n):
            cell = program.cell[x, r]
            if cell >= 0:
                at.p[x, cell] = min(at.p[x, cell], 0.8 * pieces.value[x, r])
            elif program.need_h[x, r] > 0.0:
                z = min(z, pieces.value[x, r] / program.need_h[x, r])
    at.z[0] = 0.0
    for j in range(program.need.size):
        z = min(z, test_surplus(program, at, j) / program.need[j])
    at.z[0] = 0.8 * z
    tau = at.z[0] / (tasks * n)
    for j in range(program.need.size):
        at.test_slack[j] = test_surplus(program, at, j)
        at.test_dual[j] = tau / at.test_slack[j]
    for x in range(tasks):
        for r in range(n):
            at.reduced[x, r] = tau / at.q[x, r]
            if program.piece[x, r]:
                cell = program.cell[x, r]
                granted = at.p[x, cell] if cell >= 0 else program.need_h[x, r] * at.z[0]
                at.slack[x, r] = pieces.value[x, r] - granted
                at.dual[x, r] = tau / at.slack[x, r]


@kernel
def _complementarity(program: Program, at: Iterate) -> tuple[float, int]:
    """Sum of all products of a slack and its dual, and how many there are."""
    tasks, n = at.q.shape
    total, count = 0.0, 0
    for j in range(program.need.size):
        total += at.test_slack[j] * at.test_dual[j]
        count += 1
    for x in range(tasks):
        for r in range(n):
            total += at.q[x, r] * at.reduced[x, r]
            count += 1
            if program.piece[x, r]:
                total += at.slack[x, r] * at.dual[x, r]
                count += 1
    return total, count


@kernel
def _longest(value: float, change: float, limit: float) -> float:
    """The longest step up to ``limit`` that keeps ``value`` positive."""
    return min(limit, -0.995 * value / change) if change < 0.0 else limit


@kernel
def _advance(program: Program, at: Iterate, step: Iterate) -> float:
    """Go along ``step`` as far as positivity allows; the smaller of the two step lengths."""
    tasks, n = at.q.shape
    primal, dual = 1.0, 1.0
    for j in range(program.need.size):
        primal = _longest(at.test_slack[j], step.test_slack[j], primal)
        dual = _longest(at.test_dual[j], step.test_dual[j], dual)
    for x in range(tasks):
        for r in range(n):
            primal = _longest(at.q[x, r], step.q[x, r], primal)
            dual = _longest(at.reduced[x, r], step.reduced[x, r], dual)
            if program.piece[x, r]:
                primal = _longest(at.slack[x, r], step.slack[x, r], primal)
                dual = _longest(at.dual[x, r], step.dual[x, r], dual)
    at.z[0] += primal * step.z[0]
    for j in range(program.need.size):
        at.test_slack[j] += primal * step.test_slack[j]
        at.test_dual[j] += dual * step.test_dual[j]
    for x in range(tasks):
        for c in range(program.need.size):
            at.p[x, c] += primal * step.p[x, c]
        for r in range(n):
            at.q[x, r] += primal * step.q[x, r]
            at.reduced[x, r] += dual * step.reduced[x, r]
            at.slack[x, r] += primal * step.slack[x, r]
            at.dual[x, r] += dual * step.dual[x, r]
    return min(primal, dual)


@kernel
def climb(program: Program, start: Floats, tolerance: float, most: int) -> Solution:
    """Solve from the strictly positive allocation ``start`` (by rank) until the relative gap is met."""
    tasks, n = start.shape
    at = new_iterate(tasks, n, program.need.size)
    step = new_iterate(tasks, n, program.need.size)
    pieces = new_pieces(tasks, n)
    at.q[:] = start
    scale_to_budget(program, at.q)
    measure(program, at.q, pieces)
    _start(program, pieces, at)
    best, test_dual = at.q.copy(), at.test_dual.copy()
    lower, upper = objective(program, at.q, pieces), math.inf
    kept, used = new_response(tasks, n), new_response(tasks, n)
    share, level = used.share.copy(), used.level.copy()
    centring = 0.2
    gap, products = _complementarity(program, at)
    iterations = 0
    while iterations < most and upper - lower > tolerance * abs(lower):
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
            best[:] = at.q
        gap, products = _complementarity(program, at)
        centring = 0.06 if length > 0.9 else (0.2 if length > 0.5 else 0.6)
        if gap > 0.3 * abs(value):
            continue
        bound = upper_bound(program, pieces, at.dual, at.test_dual, value, 3.0 * gap, used, kept)
        if bound - value > 3.0 * gap:
            centring = 1.0  # the duals lag behind the complementarity gap: let them catch up
        if bound < upper:
            upper = bound
            share[:] = used.share
            level[:] = used.level
            test_dual[:] = at.test_dual
    return Solution(best, lower, upper, test_dual, share, level, iterations)

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
from osrl.jit.kernel import kernel, kernel_in_place
from osrl.jit.reductions import copy_to
from osrl.model.arrays import Floats


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
    """An interior point around the allocation ``at.q``."""
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
    """Sum of all products of a slack and its dual, and how many there are."""
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
    """The longest step up to ``limit`` that keeps ``value`` positive."""
    return min(limit, -0.995 * value / change) if change < 0.0 else limit


@kernel_in_place
def _advance(program: Program, at: Iterate, step: Iterate) -> float:
    """Go along ``step`` as far as positivity allows; the smaller of the two step lengths."""
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
def climb(program: Program, start: Floats, tolerance: float, most: int) -> Solution:
    """Solve from the strictly positive allocation ``start`` (by rank) until the relative gap is met."""
    need = program.need
    tasks, n = start.shape
    at = new_iterate(tasks, n, need.size)
    step = new_iterate(tasks, n, need.size)
    pieces = new_pieces(tasks, n)
    copy_to(start, at.q)
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
            copy_to(at.q, best)
        gap, products = _complementarity(program, at)
        centring = 0.06 if length > 0.9 else (0.2 if length > 0.5 else 0.6)
        if gap > 0.3 * abs(value):
            continue
        bound = upper_bound(program, pieces, at.dual, at.test_dual, value, 3.0 * gap, used, kept)
        if bound - value > 3.0 * gap:
            centring = 1.0  # the duals lag behind the complementarity gap: let them catch up
        if bound < upper:
            upper = bound
            copy_to(used.share, share)
            copy_to(used.level, level)
            copy_to(at.test_dual, test_dual)
    return Solution(best, lower, upper, test_dual, share, level, iterations)

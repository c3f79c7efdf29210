"""Kelley's cutting planes for the max-min programs: what a linear-programming solver gives.

Each round solves the linear program

    max z   over q >= 0, p >= 0, z   with   cost . q = budget of each group,
    need_c z <= sum_x p[x, c],    p[x, cell(b)] <= cut_b(q),    need_h[x, b] z <= cut_b(q),

and adds one cut for every piece b at its solution (disaggregated: the LP sees each piece, not only
the least of a sum of them). It is written to be fast: the kernels of the package measure the pieces,
all cuts of a round are computed together, and only a large LP is sparse (a small one is solved faster
when it is dense). scipy's HiGHS starts every LP afresh.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csc_array

from osrl.allocation.certificate import measure, new_pieces, objective
from osrl.allocation.program import Program, scale_to_budget

Array = NDArray[np.float64]

SMALL = 100  # columns up to which the LP is dense
TRACE = 1e-12  # of the uniform allocation, which keeps every pooled mean defined
OPTIONS: Any = {
    "presolve": False,
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


class Kelley(NamedTuple):
    """The best allocation found (by rank), with lower <= z* <= upper up to the LP's tolerance."""

    q: Array
    lower: float
    upper: float
    rounds: int

    @property
    def gap(self) -> float:
        """Relative width of the interval."""
        return (self.upper - self.lower) / self.lower


def cutting_planes(program: Program, tolerance: float, most_seconds: float = math.inf) -> Kelley:
    """Solve ``program`` (without a regulariser) to a relative gap of ``tolerance``."""
    started = time.perf_counter()
    tasks, n = program.mu.shape
    pieces = new_pieces(tasks, n)
    uniform = np.ones((tasks, n))
    scale_to_budget(program, uniform)
    measure(program, uniform, pieces)
    best, lower, upper = uniform, float(objective(program, uniform, pieces)), math.inf
    scale = lower  # brings z near 1, so that the solver's absolute tolerances are relative ones
    linear = _LinearProgram(program)
    linear.add(cuts_at(program, pieces.level) / scale)
    rounds = 0
    while upper - lower > tolerance * lower and time.perf_counter() - started < most_seconds:
        rounds += 1
        tip, value = linear.solve()
        upper = min(upper, value * scale)
        q = tip.reshape(tasks, n) + TRACE * uniform
        scale_to_budget(program, q)
        measure(program, q, pieces)
        reached = float(objective(program, q, pieces))
        if reached > lower:
            best, lower = q, reached
        linear.add(cuts_at(program, pieces.level) / scale)
    return Kelley(best, lower, upper, rounds)


def cuts_at(program: Program, level: Array) -> Array:
    """Return the cuts of all pieces at these levels (X, n): one row of n slopes for each piece."""
    mu, m = program.mu[:, None, :], level[:, :, None]  # task, piece, arm
    pool = mu > m
    if not program.pooled:
        pool[program.cell < 0] = np.arange(mu.shape[2]) == 0
    pool |= np.eye(mu.shape[2], dtype=bool)
    if program.noise > 0.0:
        slope = (mu - m) ** 2 / (2.0 * program.noise)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):  # where there is no piece
            slope = mu * np.log(mu / m) + (1.0 - mu) * np.log((1.0 - mu) / (1.0 - m))
    return np.where(pool, slope, 0.0)[program.piece]


class _LinearProgram:
    """The program with the cuts added so far. Columns: q by task and rank, then p[x, c], then z."""

    def __init__(self, program: Program) -> None:
        tasks, self.n = program.mu.shape
        cells = program.need.size
        self.arms = tasks * self.n
        z = self.arms + tasks * cells
        self.owner, rank = np.nonzero(program.piece)
        cell = program.cell[self.owner, rank]
        self.target = np.where(cell >= 0, self.arms + self.owner * cells + cell, z)
        self.grant = np.where(cell >= 0, 1.0, program.need_h[self.owner, rank])
        self.aim = np.zeros(z + 1)
        self.aim[z] = -1.0
        at = np.arange(self.arms)
        where = program.group[at // self.n], at
        shape = (program.budget.size, z + 1)
        self.paid = csc_array((program.cost.ravel(), where), shape=shape)
        self.budget = program.budget
        granted = np.arange(self.arms, z)
        test = (granted - self.arms) % max(cells, 1)
        self.rows = [test, np.arange(cells)]
        self.columns = [granted, np.full(cells, z)]
        self.entries = [np.full(granted.size, -1.0), program.need]
        self.height = cells

    def add(self, slope: Array) -> None:
        """Add a cut for each piece: granted value <= slope . q."""
        count = len(self.owner)
        piece, arm = np.nonzero(slope)
        self.rows += [self.height + piece, self.height + np.arange(count)]
        self.columns += [self.owner[piece] * self.n + arm, self.target]
        self.entries += [-slope[piece, arm], self.grant]
        self.height += count

    def solve(self) -> tuple[Array, float]:
        """Return the best q of the linear program, and its z."""
        where = np.concatenate(self.rows), np.concatenate(self.columns)
        system: Any = csc_array((np.concatenate(self.entries), where), shape=(self.height, self.aim.size))
        paid: Any = self.paid
        zero = np.zeros(self.height)
        if self.aim.size <= SMALL:
            system, paid = system.toarray(), paid.toarray()
        solved = linprog(self.aim, system, zero, paid, self.budget, method="highs-ds", options=OPTIONS)
        if solved.x is None or solved.fun is None:
            raise RuntimeError(f"the linear program was not solved: {solved.message}")
        return np.maximum(solved.x[: self.arms], 0.0), -float(solved.fun)

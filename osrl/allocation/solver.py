"""The solver of the max-min programs: `allocate` for Python, `solve` and `solve_from_scratch` for kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from osrl.allocation.interior_point import Solution, solve_interior_point
from osrl.allocation.program import Program, build_program, rough_allocation
from osrl.errors import OsrlError
from osrl.jit import kernel
from osrl.jit.mode import expect, seconds_to_solve
from osrl.model.arrays import Floats
from osrl.model.instance import Given, Instance, read_instance

MAX_ITERATIONS = 200


class Needs(NamedTuple):
    """Evidence that each test needs; 0 leaves it out.

    ``representations`` (G,): against each representation as the best one; ``predictors`` (X, H):
    against each predictor of the best representation. ``pooled`` asks for alternatives of the
    predictor tests that stay in the model class (cost ell) instead of the two-arm cost f.
    """

    representations: Floats
    predictors: Floats
    pooled: bool = False

    @classmethod
    def of(cls, instance: Given, need_g: float, need_h: float, *, pooled: bool = False) -> Needs:
        """Return the same need for all tests of a kind, with the best arms of ``instance`` left out."""
        instance = read_instance(instance)
        tasks, representations, predictors = instance.shape
        best = instance.best
        against_g = np.full(representations, float(need_g))
        against_h = np.full((tasks, predictors), float(need_h))
        against_g[best.representation] = 0.0
        against_h[np.arange(tasks), best.predictors] = 0.0
        return cls(against_g, against_h, pooled)


class DualCertificate(NamedTuple):
    """The proof that no allocation is better: the confusing models that limit it, with their weights.

    For any allocation q of the same budget, the objective is at most sum c.q with c_a the sum of
    weight * kl(mu_a, level) over the models whose pool (arm b, and every arm with a mean above the
    level) contains a. Arm b = (g, h) in task x denotes the model in which b is the best arm of x.
    """

    weights: Floats  # (X, G, H)
    levels: Floats  # (X, G, H), NaN where there is no test


class Allocation(NamedTuple):
    """A distribution of the samples: ``weights`` reach ``lower``, and no weights exceed ``upper``."""

    weights: Floats  # (X, G, H)
    lower: float
    upper: float
    witness: DualCertificate
    iterations: int

    def plot(self) -> Any:
        """Draw the weights as an Altair chart."""
        from osrl.report.notebook import chart

        return chart(self)

    def _repr_html_(self) -> str:
        from osrl.report.notebook import html

        return html(self)

    @property
    def gap(self) -> float:
        """Relative width of the certified interval; 0 when nothing has to be learnt."""
        if math.isinf(self.lower):
            return 0.0
        return (self.upper - self.lower) / abs(self.lower) if self.lower != 0 else math.inf


def program_for(
    instance: Instance,
    needs: Needs,
    *,
    costs: ArrayLike | None = None,
    frequencies: Sequence[float] | None = None,
    sigma: float | None = None,
) -> Program:
    """Return the program of ``instance`` in the form that kernels take, with its input checked."""
    tasks, representations, predictors = instance.shape
    best = instance.best
    n = representations * predictors
    against_g, against_h = _checked_needs(needs, instance)
    if costs is not None and frequencies is not None:
        raise OsrlError("costs and frequencies exclude each other; give frequencies only if tasks arrive")
    if sigma is not None and not (math.isfinite(sigma) and sigma > 0):
        raise OsrlError(f"sigma is {sigma}; give a positive number")
    need_h = np.zeros(instance.shape)
    need_h[:, best.representation, :] = against_h
    leader = np.array([best.representation * predictors + h for h in best.predictors])
    return build_program(
        instance.means.reshape(tasks, n).copy(),
        leader,
        against_g,
        need_h.reshape(tasks, n),
        needs.pooled,
        np.ones((tasks, n)) if costs is None else _checked_costs(costs, instance).reshape(tasks, n),
        np.zeros(tasks, np.int64) if frequencies is None else np.arange(tasks),
        np.ones(1) if frequencies is None else _checked_frequencies(frequencies, instance),
        0.0 if sigma is None else 1.0 / sigma,
        instance.family.noise,
    )


def allocate(
    instance: Given,
    needs: Needs,
    *,
    costs: ArrayLike | None = None,
    frequencies: Sequence[float] | None = None,
    sigma: float | None = None,
    start: Floats | None = None,
    tolerance: float = 1e-6,
) -> Allocation:
    """Return the allocation that meets ``needs`` with the fewest samples.

    maximise z - |q|^2 / (2 sigma) such that every test gathers need * z in one unit of budget: with
    needs kl(delta, 1 - delta), 1 / z is the lower bound on the expected number of samples.

    - ``costs`` (X, G, H): price of a sample of each arm; the budget is then a sum of money.
    - ``frequencies`` (X,): tasks arrive in these proportions instead of being chosen.
    - ``sigma``: the paper's regulariser, which makes the allocation unique.
    - ``start`` (X, G, H): weights of a similar problem, to start near them.
    - ``tolerance``: relative width of the certified interval at which to stop. When it cannot be
      reached, ``gap`` of the result is the width that was.

    >>> paper = Instance.load("paper")
    >>> best = allocate(paper, Needs.of(paper, 1.0, 0.0))
    >>> round(1 / best.lower, 3), best.gap < 1e-6
    (25.539, True)
    >>> best.weights[0].round(2).tolist()
    [[0.19, 0.0], [0.0, 0.0], [0.19, 0.12]]
    """
    instance = read_instance(instance)
    if not 0 < tolerance < 1:
        raise OsrlError(f"tolerance is {tolerance}; give a relative width between 0 and 1, such as 1e-6")
    program = program_for(instance, needs, costs=costs, frequencies=frequencies, sigma=sigma)
    tasks, n = program.mu.shape
    expect(seconds_to_solve(tasks * n))
    if start is None:
        solution = solve_from_scratch(program, tolerance)
    else:
        solution = solve(program, _checked_start(start, instance).reshape(tasks, n), tolerance)
    shape = instance.shape
    witness = DualCertificate(*(part.reshape(shape) for part in _by_arm(program, solution)))
    lower, upper = sorted((float(solution.lower), float(solution.upper)))  # rounding may let them cross
    return Allocation(
        _unsorted(program, solution.q).reshape(shape),
        lower,
        upper,
        witness,
        int(solution.iterations),
    )


@kernel
def solve(program: Program, weights: Floats, tolerance: float) -> Solution:
    """Solve a program from ``weights`` (X, n) over arms; the solution is by rank.

    The start is mixed with the uniform allocation, because the interior-point method needs every
    arm to have some weight.
    """
    tasks, n = weights.shape
    start = np.empty((tasks, n))
    for x in range(tasks):
        for r in range(n):
            start[x, r] = 0.5 * weights[x, program.arm[x, r]] + 0.5 / (tasks * n)
    return solve_interior_point(program, start, tolerance, MAX_ITERATIONS)


@kernel
def solve_from_scratch(program: Program, tolerance: float) -> Solution:
    """Solve a program without a start; the solution is by rank.

    Without any test every allocation is optimal, with an infinite value.
    """
    tasks, n = program.mu.shape
    start = np.full((tasks, n), 1.0 / (tasks * n))
    if not program.piece.any():
        nothing = np.zeros((tasks, n))
        return Solution(start, math.inf, math.inf, np.zeros(0), nothing, nothing, 0)
    return solve_interior_point(program, 0.5 * start + 0.5 * rough_allocation(program), tolerance, MAX_ITERATIONS)


def _unsorted(program: Program, by_rank: Floats) -> Floats:
    """Return an array (X, n) by rank as an array by arm."""
    by_arm = np.empty_like(by_rank)
    np.put_along_axis(by_arm, program.arm, by_rank, axis=1)
    return by_arm


def _by_arm(program: Program, solution: Solution) -> tuple[Floats, Floats]:
    """Return weights and levels of the models that prove the upper bound, by arm."""
    in_cell = program.cell >= 0
    share = np.where(program.piece, solution.share, 0.0)
    total = float(program.need @ solution.test_dual + (program.need_h * share).sum())
    if in_cell.any():
        share = share * np.where(in_cell, solution.test_dual[program.cell], 1.0)
    level = np.where(program.piece, solution.level, np.nan)
    return _unsorted(program, share / total if total > 0 else share), _unsorted(program, level)


def _checked_needs(needs: Needs, instance: Instance) -> tuple[Floats, Floats]:
    """Return the needs as arrays of the right shape; refuse needs against the best arms themselves."""
    best = instance.best
    against_g, against_h = _numbers("needs", needs.representations), _numbers("needs", needs.predictors)
    tasks, representations, predictors = instance.shape
    if against_g.shape != (representations,) or against_h.shape != (tasks, predictors):
        raise OsrlError(
            f"needs have shapes {against_g.shape} and {against_h.shape}; "
            f"give ({representations},) and ({tasks}, {predictors})"
        )
    for array in (against_g, against_h):
        if not (np.isfinite(array) & (array >= 0)).all():
            raise OsrlError("needs must be finite numbers >= 0; use 0 to leave a test out")
    if against_g[best.representation] > 0 or against_h[np.arange(tasks), best.predictors].any():
        raise OsrlError("needs against the best arms cannot be met; set them to 0, or use Needs.of")
    return against_g, against_h


def _numbers(what: str, value: ArrayLike) -> Floats:
    """Return an array of floats, from anything that is one."""
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise OsrlError(f"{what} must be numbers; got {value!r}") from None


def _checked_costs(costs: ArrayLike, instance: Instance) -> Floats:
    array = _numbers("costs", costs)
    if array.shape != instance.shape:
        raise OsrlError(f"costs have shape {array.shape}; give one for each arm, shape {instance.shape}")
    if not (np.isfinite(array) & (array > 0)).all():
        raise OsrlError("costs contain a number that is not positive; give every arm a price")
    return array


def _checked_frequencies(frequencies: Sequence[float], instance: Instance) -> Floats:
    array = _numbers("frequencies", frequencies)
    if array.shape != (len(instance.tasks),):
        raise OsrlError(f"{array.size} frequencies for {len(instance.tasks)} tasks; give one for each task")
    if not (np.isfinite(array) & (array > 0)).all() or abs(array.sum() - 1) > 1e-9:
        raise OsrlError(f"frequencies are {array.tolist()}; give positive numbers that sum to 1")
    return array


def _checked_start(start: Floats, instance: Instance) -> Floats:
    array = _numbers("start", start)
    if array.shape != instance.shape or not (np.isfinite(array) & (array >= 0)).all() or array.sum() <= 0:
        raise OsrlError(f"start does not fit; give weights >= 0 of shape {instance.shape}, not all zero")
    array /= array.sum()
    return array

"""How the paper's algorithm samples: D-tracking of the best allocation, in two phases.

Phase 1 tracks q_sigma*(mu-hat), recomputed every ``period`` rounds (default GHX), with forced exploration
below sqrt(t) - GHX / 2; while the estimate is not in the model class M, the least pulled arm. Phase 2
tracks the best proportions within one task after the other (`osrl.policies.sampling.per_task`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.allocation.program import build_program
from osrl.allocation.solver import solve
from osrl.errors import OsrlError
from osrl.jit.kernel import kernel, kernel_in_place
from osrl.model.arrays import Floats
from osrl.policies.contract import Problem, SamplingRule
from osrl.policies.sampling import per_task as tasks
from osrl.policies.sampling.per_task import TaskWeights, compute_weights, next_arm, weights_due
from osrl.policies.sampling.tracking import least_pulled, track
from osrl.policies.stopping.per_task_test import MEANS, PULLS
from osrl.policies.stopping.phase2 import in_phase_2
from osrl.policies.stopping.two_phase import ROUNDS, Phases, estimated

SIGMA = 1e5
TOLERANCE = 1e-3  # certified gap of the weights that are tracked


class PhaseWeights(NamedTuple):
    """The weights of phase 1, when to compute them again, and those of phase 2."""

    weights: Floats  # (X, n) q_sigma* at the last design
    due: Floats  # (1,) round of the next design
    tasks: TaskWeights
    inverse_sigma: float
    period: int


def new(problem: Problem, draw: float, *, sigma: float = SIGMA, period: int | None = None) -> PhaseWeights:
    """Equal weights."""
    X, G, H = problem.shape
    if not 0 < sigma < math.inf:
        raise OsrlError(f"sigma is {sigma}; give a positive number, such as {SIGMA:g}")
    if period is not None and period < 1:
        raise OsrlError(f"period is {period}; give the rounds between two designs, at least 1")
    return PhaseWeights(
        weights=np.full((X, G * H), 1.0 / (X * G * H)),
        due=np.zeros(1),
        tasks=tasks.new(problem, draw),
        inverse_sigma=1.0 / sigma,
        period=X * G * H if period is None else period,
    )


@kernel_in_place
def wants_design(sampling: PhaseWeights, phases: Phases) -> bool:
    """Whether the weights are old: in phase 1 every ``period`` rounds, if the estimate is in M."""
    if in_phase_2(phases.contests):
        return weights_due(sampling.tasks, phases.contests)
    return bool(phases.times[ROUNDS] >= sampling.due[0] and estimated(phases) >= 0)


@kernel
def design(sampling: PhaseWeights, phases: Phases) -> None:
    """New weights: q_sigma*(mu-hat) in phase 1, those of the task in progress in phase 2."""
    if in_phase_2(phases.contests):
        compute_weights(sampling.tasks, phases.contests)
        return
    weights, arms = sampling.weights, phases.contests.arms
    shape = weights.shape
    need_g = np.ones(phases.glr.total.size)
    need_g[estimated(phases)] = 0.0
    program = build_program(
        arms[MEANS],
        phases.leaders,
        need_g,
        np.zeros(shape),
        False,
        np.ones(shape),
        np.zeros(shape[0], np.int64),
        np.ones(1),
        sampling.inverse_sigma,
        phases.contests.noise,
    )
    solution = solve(program, weights, TOLERANCE)
    for x in range(shape[0]):
        for r in range(shape[1]):
            weights[x, program.arm[x, r]] = solution.q[x, r]
    sampling.due[0] = phases.times[ROUNDS] + sampling.period


@kernel_in_place
def select(sampling: PhaseWeights, phases: Phases, task: int, propensities: Floats) -> int:
    """The arm that lags behind its share, among all in phase 1 and within a task in phase 2."""
    pulls = phases.contests.arms[PULLS]
    if in_phase_2(phases.contests):
        return next_arm(sampling.tasks, phases.contests)
    if estimated(phases) < 0:
        return least_pulled(pulls)
    return track(pulls, sampling.weights, phases.times[ROUNDS])


@kernel_in_place
def weights(sampling: PhaseWeights, out: Floats) -> None:
    """The weights of phase 1."""
    for x in range(out.shape[0]):
        for a in range(out.shape[1]):
            out[x, a] = sampling.weights[x, a]


RULE = SamplingRule(
    name="phases",
    summary="the paper's: D-tracking of the best allocation, first for the representation, then in each task",
    state=PhaseWeights,
    new=new,
    wants_design=wants_design,
    design=design,
    select=select,
    weights=weights,
    draws=False,
    reads="contests",
)

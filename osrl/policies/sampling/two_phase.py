"""Rule `phases`: D-tracking of the best allocation, in the two phases of the paper's algorithm OSRL-SC.

Phase 1 tracks q_sigma*(mu-hat), recomputed every ``period`` rounds, with forced exploration below sqrt(t) - GHX / 2;
while the estimate is not in the model class M, it pulls the least pulled arm. Phase 2 tracks the best proportions
within one task after the other (`osrl.policies.sampling.per_task`).

Parameters:

- ``sigma`` (1e5): the regulariser of the paper's program;
- ``period`` (GHX): rounds between two designs of phase 1.

>>> import osrl
>>> osrl.simulate("paper", policy="osrl-sc", delta=0.1, runs=3).frame["tau"].to_list()
[16256, 19103, 22721]

References: A. Russo and A. Proutiere, On the Sample Complexity of Representation Learning in Multi-task Bandits with
Global and Local Structure, AAAI 2023 (sampling rule). A. Garivier and E. Kaufmann, Optimal Best Arm Identification
with Fixed Confidence, COLT 2016 (D-tracking).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.allocation.program import build_program
from osrl.allocation.solver import solve
from osrl.errors import OsrlError
from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats
from osrl.policies.contract import Problem, SamplingRule
from osrl.policies.sampling import per_task as tasks
from osrl.policies.sampling.per_task import PerTaskSampling, are_weights_due, compute_weights, next_arm
from osrl.policies.sampling.tracking import least_pulled, track
from osrl.policies.stopping.per_task_test import TEST_MEANS, TEST_PULLS
from osrl.policies.stopping.phase2 import in_phase_2
from osrl.policies.stopping.two_phase import PHASE1_ROUNDS, TwoPhaseStopping, estimated_representation

TRACKING_SIGMA = 1e5
TRACKING_MAX_GAP = 1e-3  # certified gap of the weights that are tracked


class TwoPhaseSampling(NamedTuple):
    """The weights of phase 1, when to compute them again, and those of phase 2."""

    weights: Floats  # (X, n) q_sigma* at the last design
    due: Floats  # (1,) round of the next design
    tasks: PerTaskSampling
    inverse_sigma: float
    period: int


def new(problem: Problem, draw: float, *, sigma: float = TRACKING_SIGMA, period: int | None = None) -> TwoPhaseSampling:
    """Return equal weights."""
    X, G, H = problem.shape
    if not 0 < sigma < math.inf:
        raise OsrlError(f"sigma is {sigma}; give a positive number, such as {TRACKING_SIGMA:g}")
    if period is not None and period < 1:
        raise OsrlError(f"period is {period}; give the rounds between two designs, at least 1")
    return TwoPhaseSampling(
        weights=np.full((X, G * H), 1.0 / (X * G * H)),
        due=np.zeros(1),
        tasks=tasks.new(problem, draw),
        inverse_sigma=1.0 / sigma,
        period=X * G * H if period is None else period,
    )


@kernel_in_place
def wants_design(sampling: TwoPhaseSampling, phases: TwoPhaseStopping) -> bool:
    """Tell whether the weights are old: in phase 1 every ``period`` rounds, if the estimate is in M."""
    if in_phase_2(phases.contests):
        return are_weights_due(sampling.tasks, phases.contests)
    return bool(phases.times[PHASE1_ROUNDS] >= sampling.due[0] and estimated_representation(phases) >= 0)


@kernel
def design(sampling: TwoPhaseSampling, phases: TwoPhaseStopping) -> None:
    """Solve for new weights: q_sigma*(mu-hat) in phase 1, those of the task in progress in phase 2."""
    if in_phase_2(phases.contests):
        compute_weights(sampling.tasks, phases.contests)
        return
    weights, arms = sampling.weights, phases.contests.arms
    shape = weights.shape
    need_g = np.ones(phases.glr.total.size)
    need_g[estimated_representation(phases)] = 0.0
    program = build_program(
        arms[TEST_MEANS],
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
    solution = solve(program, weights, TRACKING_MAX_GAP)
    for x in range(shape[0]):
        for r in range(shape[1]):
            weights[x, program.arm[x, r]] = solution.q[x, r]
    sampling.due[0] = phases.times[PHASE1_ROUNDS] + sampling.period


@kernel_in_place
def select(sampling: TwoPhaseSampling, phases: TwoPhaseStopping, task: int, propensities: Floats) -> int:
    """Return the arm furthest behind its share, among all in phase 1 and within a task in phase 2."""
    pulls = phases.contests.arms[TEST_PULLS]
    if in_phase_2(phases.contests):
        return next_arm(sampling.tasks, phases.contests)
    if estimated_representation(phases) < 0:
        return least_pulled(pulls)
    return track(pulls, sampling.weights, phases.times[PHASE1_ROUNDS])


@kernel_in_place
def weights(sampling: TwoPhaseSampling, out: Floats) -> None:
    """Write the weights of phase 1."""
    for x in range(out.shape[0]):
        for a in range(out.shape[1]):
            out[x, a] = sampling.weights[x, a]


RULE = SamplingRule(
    name="phases",
    summary="the paper's: D-tracking of the best allocation, first for the representation, then in each task",
    state=TwoPhaseSampling,
    new=new,
    wants_design=wants_design,
    design=design,
    select=select,
    weights=weights,
    draws=False,
    reads="contests",
)

"""Rule `tasks`: track the best proportions within one task after the other, as track-and-stop does.

The weights are the exact optimal proportions of the current estimate for the test in progress
(`osrl.policies.stopping.per_task_test`), recomputed when it has grown by ``growth``: between two recomputations they
hardly move. By itself it is the sampling of the policies `tas` and `tas-transfer`; the paper's algorithm uses it in its
second phase.

Parameters:

- ``growth`` (0.02): growth of the test after which its proportions are computed again; 0: after every sample.

>>> import osrl
>>> osrl.simulate("paper", policy="tas", delta=0.1, runs=3).frame["tau"].to_list()
[28942, 22064, 22858]

Reference: A. Garivier and E. Kaufmann, Optimal Best Arm Identification with Fixed Confidence, COLT 2016.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from osrl.allocation.single_task import single_task
from osrl.errors import OsrlError
from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import copy_into
from osrl.model.arrays import Floats
from osrl.policies.contract import Problem, SamplingRule
from osrl.policies.sampling.tracking import least_pulled, must_explore, track
from osrl.policies.stopping.per_task_test import (
    ASKED_G,
    ASKED_TASK,
    TEST_MEANS,
    TEST_PULLS,
    PerTaskTest,
    competing_arms,
    unique_leader,
)

DESIGN_GROWTH = 0.02

WEIGHTS_ALL, WEIGHTS_PREDICTORS = range(2)  # rows of `weights`


class PerTaskSampling(NamedTuple):
    """The proportions to follow in each test, and when to compute them again; updated in place."""

    weights: Floats  # (2, X, n) among all arms of a task, and among those of each representation
    due: Floats  # (X, 1 + G) pulls at which to compute them again, of all arms and of each representation
    growth: float


def new(problem: Problem, draw: float, *, growth: float = DESIGN_GROWTH) -> PerTaskSampling:
    """Return equal proportions, to follow until every competing arm could have been tried."""
    if not 0 <= growth < math.inf:
        raise OsrlError(f"growth is {growth}; give a number from 0 on, such as {DESIGN_GROWTH}")
    X, G, H = problem.shape
    tasks = PerTaskSampling(weights=np.empty((2, X, G * H)), due=np.full((X, 1 + G), float(H)), growth=growth)
    tasks.weights[WEIGHTS_ALL] = 1.0 / (G * H)
    tasks.weights[WEIGHTS_PREDICTORS] = 1.0 / H
    tasks.due[:, 0] = float(G * H)
    return tasks


@kernel_in_place
def are_weights_due(tasks: PerTaskSampling, contests: PerTaskTest) -> bool:
    """Tell whether the proportions of the test in progress are to be computed again."""
    x, g = contests.asked[ASKED_TASK], contests.asked[ASKED_G]
    first, last = competing_arms(contests)
    old = contests.rounds[x] >= tasks.due[x, 1 + g]
    return bool(old and unique_leader(contests.arms[TEST_MEANS, x, first:last]) >= 0)


@kernel
def compute_weights(tasks: PerTaskSampling, contests: PerTaskTest) -> None:
    """Compute new proportions for the test in progress."""
    x, g = contests.asked[ASKED_TASK], contests.asked[ASKED_G]
    first, last = competing_arms(contests)
    row = WEIGHTS_ALL if g < 0 else WEIGHTS_PREDICTORS
    best = single_task(contests.arms[TEST_MEANS, x, first:last], contests.noise)
    copy_into(best.weights, tasks.weights[row, x, first:last])
    rounds = contests.rounds[x]
    tasks.due[x, 1 + g] = max(rounds + 1.0, rounds * (1.0 + tasks.growth))


@kernel_in_place
def next_arm(tasks: PerTaskSampling, contests: PerTaskTest) -> int:
    """Return the arm x * n + a to pull; while some share the lead, one of those (Garivier and Kaufmann).

    Forced exploration comes first: rewards that repeat exactly may keep a lead shared for ever.
    """
    x, arms = int(contests.asked[ASKED_TASK]), contests.arms
    first, last = competing_arms(contests)
    row = WEIGHTS_ALL if contests.asked[ASKED_G] < 0 else WEIGHTS_PREDICTORS
    means, pulls = arms[TEST_MEANS, x, first:last], arms[TEST_PULLS, x : x + 1, first:last]
    before = x * int(arms.shape[2]) + first
    if unique_leader(means) >= 0:
        return before + track(pulls, tasks.weights[row, x : x + 1, first:last], contests.rounds[x])
    least = least_pulled(pulls)
    forced = must_explore(pulls[0, least], contests.rounds[x], means.size)
    return before + (least if forced else tied_leader(pulls[0], means))


@kernel_in_place
def tied_leader(pulls: Floats, means: Floats) -> int:
    """Return the least pulled of the arms with the largest mean."""
    best = 0
    for a in range(1, means.size):
        if means[a] > means[best] or (means[a] == means[best] and pulls[a] < pulls[best]):
            best = a
    return best


@kernel_in_place
def wants_design(tasks: PerTaskSampling, stopping: Any) -> bool:
    """Tell whether the proportions of the test in progress are old."""
    return are_weights_due(tasks, stopping.contests)


@kernel
def design(tasks: PerTaskSampling, stopping: Any) -> None:
    """Compute new proportions for the test in progress."""
    compute_weights(tasks, stopping.contests)


@kernel_in_place
def select(tasks: PerTaskSampling, stopping: Any, task: int, propensities: Floats) -> int:
    """Return the arm furthest behind its share in the test in progress."""
    return next_arm(tasks, stopping.contests)


RULE = SamplingRule(
    name="tasks",
    summary="track the best proportions of the task in progress",
    state=PerTaskSampling,
    new=new,
    wants_design=wants_design,
    design=design,
    select=select,
    draws=False,
    reads="contests",
)

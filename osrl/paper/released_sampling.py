"""How the authors' released code samples. Phase 1 differs from `osrl.policies.sampling.two_phase` in this:

- weights come from their mirror ascent (`released_solve`), which stops long before the optimum; the
  next solve starts from where the last one ended; sigma is not used;
- weights are recomputed after K + 1 = XGH + 1 rounds of tracking: rounds of forced exploration do
  not count. They are computed for the first time in the first round of tracking;
- tracking asks for more than an estimate in M, as stopping does (`osrl.paper.released_stopping`). Until then the
  least pulled arm is drawn.

With both rules, phase 1 over 1120 runs (seed 0), at delta = 0.1 / 0.05 / 0.01:

| | mean | std |
|---|---|---|
| Table 1 | 3578 / 3652 / 3830 | 646 / 625 / 685 |
| here | 3566 / 3643 / 3801 | 627 / 636 / 657 |
| here, with exact estimates | 3643 / 3719 / 3881 | 612 / 622 / 644 |

and the proportions of Table 2 to its printed digits; with exact estimates the arms of little use
get 0.026 of the samples each, beside 0.021 and the printed 0.02.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.jit.kernel import kernel, kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.paper.mirror_ascent import ReleasedState, new_released_state, released_solve
from osrl.paper.released_stopping import Released, estimated
from osrl.policies.contract import Problem, SamplingRule
from osrl.policies.sampling import per_task as tasks
from osrl.policies.sampling.per_task import TaskWeights, compute_weights, next_arm, weights_due
from osrl.policies.sampling.tracking import least_pulled, track
from osrl.policies.stopping.per_task_test import MEANS, PULLS
from osrl.policies.stopping.phase2 import in_phase_2


class ReleasedWeights(NamedTuple):
    """Where the mirror ascent of phase 1 stands, and the weights of phase 2."""

    ascent: ReleasedState  # its q is the allocation that is tracked
    tracked: Integers  # (1,) rounds of tracking since the last design
    tasks: TaskWeights

    @property
    def weights(self) -> Floats:
        """The allocation that phase 1 tracks, (X, n)."""
        return self.ascent.q


def new(problem: Problem, draw: float) -> ReleasedWeights:
    """Before the first step of the ascent."""
    X, G, H = problem.shape
    return ReleasedWeights(
        ascent=new_released_state(X, G, H),
        tracked=np.array([X * G * H + 1]),
        tasks=tasks.new(problem, draw),
    )


@kernel_in_place
def tracks(released: Released) -> bool:
    """Whether the next round of phase 1 follows the weights: no arm is forced."""
    pulls = released.contests.arms[PULLS]
    enough = math.sqrt(released.rounds[0]) - 0.5 * pulls.size
    least = least_pulled(pulls)
    fewest = pulls[least // pulls.shape[1], least % pulls.shape[1]]
    return estimated(released) >= 0 and fewest >= enough


@kernel_in_place
def wants_design(sampling: ReleasedWeights, released: Released) -> bool:
    """Whether the weights are needed now and old."""
    if in_phase_2(released.contests):
        return weights_due(sampling.tasks, released.contests)
    return bool(sampling.tracked[0] > sampling.ascent.q.size and tracks(released))


@kernel
def design(sampling: ReleasedWeights, released: Released) -> None:
    """New weights: those of the mirror ascent in phase 1, of the contest in progress in phase 2."""
    if in_phase_2(released.contests):
        compute_weights(sampling.tasks, released.contests)
        return
    contests = released.contests
    released_solve(sampling.ascent, contests.arms[MEANS], estimated(released), contests.noise)
    sampling.tracked[0] = 0


@kernel_in_place
def select(sampling: ReleasedWeights, released: Released, task: int, propensities: Floats) -> int:
    """The arm that lags behind its share, among all in phase 1 and within a task in phase 2."""
    pulls = released.contests.arms[PULLS]
    if in_phase_2(released.contests):
        return next_arm(sampling.tasks, released.contests)
    if estimated(released) < 0:
        return least_pulled(pulls)
    return track(pulls, sampling.ascent.q, float(released.rounds[0]))


@kernel_in_place
def observe(sampling: ReleasedWeights, released: Released, x: int, a: int, reward: float) -> None:
    """Count the rounds of tracking."""
    if not in_phase_2(released.contests) and tracks(released):
        sampling.tracked[0] += 1


RULE = SamplingRule(
    name="released",
    summary="as the released code does: weights from its mirror ascent",
    state=ReleasedWeights,
    new=new,
    wants_design=wants_design,
    design=design,
    draws=False,
    reads="contests",
    select=select,
    observe=observe,
)

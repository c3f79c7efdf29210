"""The authors' released code as a pair of rules: it made the published numbers, and proves nothing.

*Stopping* in phase 1 differs from `osrl.policies.stopping.two_phase` as follows:

- the threshold is beta_2(delta_G) alone: their beta_1 is always 0. It carries no guarantee;
- stopping requires more than an estimate in M: every (x, g) must have one best h, and more than K = XGH
  rounds must have been played;
- an estimate is updated as ((N - 1) mean + reward) / N. Rounding errors then hide most ties between
  equal fractions, and fewer rounds are spent on the least pulled arm;
- phase 1 is cut after 20001 rounds, and answers with the representation of the largest estimate.

*Sampling* in phase 1 differs from `osrl.policies.sampling.two_phase` as follows:

- weights come from their mirror ascent (`released_solve`), which stops long before the optimum; the
  next solve starts from where the last one ended; sigma is not used;
- weights are recomputed after K + 1 = XGH + 1 rounds of tracking: rounds of forced exploration do
  not count. They are computed for the first time in the first round of tracking;
- tracking has the same requirements for an estimate as stopping. Until they are met the least pulled arm is
  drawn.

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

from osrl.glr.statistic import Glr, cheapest, new_glr, update_task
from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.outcome import REPRESENTATION, Outcome, new_outcome
from osrl.paper.mirror_ascent import ReleasedState, new_released_state, released_solve
from osrl.policies.contract import Problem, SamplingRule, StoppingRule
from osrl.policies.sampling import per_task as tasks
from osrl.policies.sampling.per_task import PerTaskSampling, are_weights_due, compute_weights, next_arm
from osrl.policies.sampling.tracking import least_pulled, track
from osrl.policies.stopping.per_task_test import TEST_MEANS, TEST_PULLS, PerTaskTest, new_per_task_test, unique_leader
from osrl.policies.stopping.phase2 import (
    Phase2,
    guess_phase_2,
    in_phase_2,
    keep_phase_1,
    new_phase_2,
    phase_2_observe,
    read_two_phase,
    start_next_test,
    write_phase,
    write_representation,
)
from osrl.policies.stopping.thresholds import beta_2

MAX_PHASE_1_ROUNDS = 20000


class AuthorsStopping(NamedTuple):
    """The samples of the phase in progress, and what ends each phase."""

    contests: PerTaskTest
    rounds: Integers  # (1,) of phase 1
    glr: Glr
    threshold: Floats  # (R,)
    phase2: Phase2
    outcome: Outcome


def new_stopping(problem: Problem, draw: float) -> AuthorsStopping:
    """Return the state before the first sample."""
    X, G, H = problem.shape
    criteria = problem.criteria
    released = AuthorsStopping(
        contests=new_per_task_test(problem.shape, problem.family.noise),
        rounds=np.zeros(1, np.int64),
        glr=new_glr(X, G, H),
        threshold=np.array([beta_2(problem.shape, criterion.delta_g) for criterion in criteria]),
        phase2=new_phase_2(problem),
        outcome=new_outcome(len(criteria), X, G * H),
    )
    if G == 1:
        for r in range(len(criteria)):
            write_representation(released.outcome, r, 0, 0, released.contests.arms[TEST_PULLS])
        start_next_test(released.phase2, released.contests, released.outcome)
    return released


@kernel_in_place
def clear_leader(means: Floats, representations: int) -> int:
    """Return the best representation of all tasks, -1 unless every (x, g) has one best h and tasks agree."""
    tasks, n = means.shape
    predictors = n // representations
    shared = -1
    for x in range(tasks):
        for g in range(representations):
            if unique_leader(means[x, g * predictors : (g + 1) * predictors]) < 0:
                return -1
        best = unique_leader(means[x]) // predictors  # -1 for a tie
        if best < 0 or (x > 0 and best != shared):
            return -1
        shared = best
    return shared


@kernel_in_place
def estimated(released: AuthorsStopping) -> int:
    """Return the best representation under the estimate, or -1 while there is none to track."""
    means = released.contests.arms[TEST_MEANS]
    if released.rounds[0] <= means.size:
        return -1
    return clear_leader(means, released.glr.total.size)


@kernel_in_place
def write_ticket(released: AuthorsStopping, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """Write the phase of the trial to its ticket: its reward may come late."""
    write_phase(released.contests, ticket)


@kernel_in_place
def observe_stopping(released: AuthorsStopping, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Update the statistics with a reward, and stop what can be stopped."""
    contests, phase2, outcome = released.contests, released.phase2, released.outcome
    if in_phase_2(contests):
        phase_2_observe(phase2, contests, outcome, x, a, reward, ticket, False)
        return
    arms, glr = contests.arms, released.glr
    arms[TEST_PULLS, x, a] += 1.0
    count = arms[TEST_PULLS, x, a]
    arms[TEST_MEANS, x, a] = ((count - 1.0) * arms[TEST_MEANS, x, a] + reward) / count
    released.rounds[0] += 1
    update_task(glr, x, arms[TEST_MEANS, x], arms[TEST_PULLS, x], contests.noise)
    g = estimated(released)
    evidence = glr.total[cheapest(glr, g)] if g >= 0 else -math.inf
    cut = released.rounds[0] > MAX_PHASE_1_ROUNDS
    undecided = False
    for r in range(released.threshold.size):
        if outcome.answer[REPRESENTATION, r, 0] < 0:
            if evidence > released.threshold[r] or cut:
                _answer(released, r)
            else:
                undecided = True
    if not undecided:
        keep_phase_1(phase2, contests, False)
        start_next_test(phase2, contests, outcome)


@kernel
def _answer(released: AuthorsStopping, r: int) -> None:
    """End phase 1 for criterion ``r`` with the representation of the largest estimate."""
    arms = released.contests.arms
    best = np.argmax(arms[TEST_MEANS]) % arms.shape[2]
    g = best // released.contests.predictors
    write_representation(released.outcome, r, g, released.rounds[0], arms[TEST_PULLS])


@kernel
def conclude(released: AuthorsStopping, criterion: int) -> None:
    """Write the best guess, as at the cut of phase 1."""
    contests, outcome = released.contests, released.outcome
    if outcome.answer[REPRESENTATION, criterion, 0] < 0:
        _answer(released, criterion)
    means = released.phase2.earlier[TEST_MEANS] if in_phase_2(contests) else contests.arms[TEST_MEANS]
    guess_phase_2(released.phase2, contests, outcome, criterion, means)


@kernel_in_place
def stream(released: AuthorsStopping) -> int:
    """Return the stream of rewards: phase 2 has one of its own."""
    return 1 if in_phase_2(released.contests) else 0


STOPPING_RULE = StoppingRule(
    name="released",
    summary="as the released code does, without a guarantee",
    state=AuthorsStopping,
    new=new_stopping,
    observe=observe_stopping,
    conclude=conclude,
    evidence=read_two_phase,
    ticket_size=lambda released: 1,
    ticket=write_ticket,
    stream=stream,
)


# Sampling -----------------------------------------------------------------------------------------


class AuthorsSampling(NamedTuple):
    """The state of the mirror ascent of phase 1, and the weights of phase 2."""

    ascent: ReleasedState  # its q is the allocation that is tracked
    tracked: Integers  # (1,) rounds of tracking since the last design
    tasks: PerTaskSampling

    @property
    def weights(self) -> Floats:
        """The allocation that phase 1 tracks, (X, n)."""
        return self.ascent.q


def new_sampling(problem: Problem, draw: float) -> AuthorsSampling:
    """Return the state before the first step of the ascent."""
    X, G, H = problem.shape
    return AuthorsSampling(
        ascent=new_released_state(X, G, H),
        tracked=np.array([X * G * H + 1]),
        tasks=tasks.new(problem, draw),
    )


@kernel_in_place
def tracks(released: AuthorsStopping) -> bool:
    """Tell whether the next round of phase 1 follows the weights: no arm is forced."""
    pulls = released.contests.arms[TEST_PULLS]
    enough = math.sqrt(released.rounds[0]) - 0.5 * pulls.size
    least = least_pulled(pulls)
    fewest = pulls[least // pulls.shape[1], least % pulls.shape[1]]
    return estimated(released) >= 0 and fewest >= enough


@kernel_in_place
def wants_design(sampling: AuthorsSampling, released: AuthorsStopping) -> bool:
    """Tell whether the weights are needed now and old."""
    if in_phase_2(released.contests):
        return are_weights_due(sampling.tasks, released.contests)
    return bool(sampling.tracked[0] > sampling.ascent.q.size and tracks(released))


@kernel
def design(sampling: AuthorsSampling, released: AuthorsStopping) -> None:
    """Compute new weights: by mirror ascent in phase 1, for the task at hand in phase 2."""
    if in_phase_2(released.contests):
        compute_weights(sampling.tasks, released.contests)
        return
    contests = released.contests
    released_solve(sampling.ascent, contests.arms[TEST_MEANS], estimated(released), contests.noise)
    sampling.tracked[0] = 0


@kernel_in_place
def select(sampling: AuthorsSampling, released: AuthorsStopping, task: int, propensities: Floats) -> int:
    """Return the arm that lags behind its share, among all in phase 1 and within a task in phase 2."""
    pulls = released.contests.arms[TEST_PULLS]
    if in_phase_2(released.contests):
        return next_arm(sampling.tasks, released.contests)
    if estimated(released) < 0:
        return least_pulled(pulls)
    return track(pulls, sampling.ascent.q, float(released.rounds[0]))


@kernel_in_place
def observe_sampling(sampling: AuthorsSampling, released: AuthorsStopping, x: int, a: int, reward: float) -> None:
    """Count the rounds of tracking."""
    if not in_phase_2(released.contests) and tracks(released):
        sampling.tracked[0] += 1


SAMPLING_RULE = SamplingRule(
    name="released",
    summary="as the released code does: weights from its mirror ascent",
    state=AuthorsSampling,
    new=new_sampling,
    wants_design=wants_design,
    design=design,
    draws=False,
    reads="contests",
    select=select,
    observe=observe_sampling,
)

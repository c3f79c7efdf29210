"""`osrl-sc-released`: what the authors' released code does, for the reproduction of Tables 1 and 2.

It is `osrl-sc` but for these differences, all in phase 1:

- the threshold is beta_2(delta_G) alone: their beta_1 is always 0. It carries no guarantee;
- weights come from their mirror ascent (`released_solve`), which stops long before the optimum; the
  next solve starts from where the last one ended; sigma is not used;
- weights are recomputed after K + 1 = XGH + 1 rounds of tracking: rounds of forced exploration do
  not count. They are computed for the first time in the first round of tracking;
- tracking and stopping ask for more than an estimate in M: every (x, g) must have one best h, and
  more than K rounds must have been played. Until then the least pulled arm is drawn;
- an estimate is updated as ((N - 1) mean + reward) / N. Rounding errors then hide most ties between
  equal fractions, and fewer rounds go to the least pulled arm;
- phase 1 is cut after 20001 rounds, and answers with the representation of the largest estimate.

Phase 1 over 1120 runs (seed 0), at delta = 0.1 / 0.05 / 0.01:

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

from osrl.allocation.mirror_ascent import ReleasedState, new_released_state, released_solve
from osrl.arrays import Floats, Integers
from osrl.compiled import kernel, kernel_in_place
from osrl.glr import Glr, cheapest, new_glr, update_task
from osrl.outcome import REPRESENTATION, Outcome, new_outcome
from osrl.policies.contract import Policy, Problem, register
from osrl.policies.phase2 import (
    Phase2,
    choose_representation,
    conclude_phase_2,
    in_phase_2,
    new_phase_2,
    next_contest,
    phase_2_design,
    phase_2_due,
    phase_2_observe,
    phase_2_select,
    phase_ticket,
)
from osrl.policies.track_and_stop import leader_of
from osrl.policies.tracking import least_pulled, track
from osrl.thresholds import beta_2

CUT = 20000

PULLS, MEANS = range(2)  # rows of `arms`
ROUNDS, TRACKED = range(2)  # places of `clock`


class OsrlScReleasedState(NamedTuple):
    """Estimates of phase 1, where the mirror ascent stands, and phase 2."""

    arms: Floats  # (2, X, n) pulls and means in phase 1
    ascent: ReleasedState  # its q is the allocation that is tracked
    glr: Glr
    threshold: Floats  # (R,)
    clock: Integers  # (2,) rounds of phase 1, rounds of tracking since the last design
    phase2: Phase2
    outcome: Outcome
    noise: float

    @property
    def weights(self) -> Floats:
        """The allocation that phase 1 tracks, (X, n)."""
        return self.ascent.q

    @property
    def means(self) -> Floats:
        """The estimate of phase 1, (X, n)."""
        return self.arms[MEANS, :]


def new(problem: Problem, draw: float) -> OsrlScReleasedState:
    """The state before the first sample."""
    X, G, H = problem.shape
    n = G * H
    columns = problem.columns
    state = OsrlScReleasedState(
        arms=np.zeros((2, X, n)),
        ascent=new_released_state(X, G, H),
        glr=new_glr(X, G, H),
        threshold=np.array([beta_2(problem.shape, column.delta_g) for column in columns]),
        clock=np.array([0, X * n + 1]),
        phase2=new_phase_2(problem),
        outcome=new_outcome(len(columns), X, n),
        noise=problem.family.noise,
    )
    if G == 1:
        for column in range(len(columns)):
            choose_representation(state.outcome, column, 0, 0, state.arms[PULLS])
        next_contest(state.phase2, state.outcome)
    return state


@kernel_in_place
def clear_leader(means: Floats, representations: int) -> int:
    """The best representation of all tasks, -1 unless every (x, g) has one best h and tasks agree."""
    tasks, n = means.shape
    predictors = n // representations
    shared = -1
    for x in range(tasks):
        for g in range(representations):
            if leader_of(means[x, g * predictors : (g + 1) * predictors]) < 0:
                return -1
        best = leader_of(means[x]) // predictors  # -1 for a tie
        if best < 0 or (x > 0 and best != shared):
            return -1
        shared = best
    return shared


@kernel_in_place
def _estimate_of(state: OsrlScReleasedState) -> int:
    """The best representation under the estimate, or -1 while there is none to track."""
    means = state.arms[MEANS]
    if state.clock[ROUNDS] <= means.size:
        return -1
    return clear_leader(means, state.glr.total.size)


@kernel_in_place
def _tracks(state: OsrlScReleasedState) -> bool:
    """Whether the next round of phase 1 follows the weights: no arm is forced."""
    pulls = state.arms[PULLS]
    enough = math.sqrt(state.clock[ROUNDS]) - 0.5 * pulls.size
    least = least_pulled(pulls)
    fewest = pulls[least // pulls.shape[1], least % pulls.shape[1]]
    return _estimate_of(state) >= 0 and fewest >= enough


@kernel_in_place
def wants_design(state: OsrlScReleasedState) -> bool:
    """Whether the weights are needed now and old."""
    if in_phase_2(state.phase2):
        return phase_2_due(state.phase2)
    return bool(state.clock[TRACKED] > state.arms[PULLS].size and _tracks(state))


@kernel
def design(state: OsrlScReleasedState) -> None:
    """New weights: those of the mirror ascent in phase 1, of the contest in progress in phase 2."""
    if in_phase_2(state.phase2):
        phase_2_design(state.phase2)
        return
    released_solve(state.ascent, state.arms[MEANS], _estimate_of(state), state.noise)
    state.clock[TRACKED] = 0


@kernel_in_place
def select(state: OsrlScReleasedState, task: int, propensities: Floats) -> int:
    """The arm that lags behind its share, among all in phase 1 and within a task in phase 2."""
    if in_phase_2(state.phase2):
        return phase_2_select(state.phase2)
    if _estimate_of(state) < 0:
        return least_pulled(state.arms[PULLS])
    return track(state.arms[PULLS], state.ascent.q, float(state.clock[ROUNDS]))


@kernel_in_place
def ticket(state: OsrlScReleasedState, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """Which phase the trial belongs to: its reward may come late."""
    phase_ticket(state.phase2, ticket)


@kernel_in_place
def observe(state: OsrlScReleasedState, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Take in a reward, and stop what can be stopped."""
    if in_phase_2(state.phase2):
        phase_2_observe(state.phase2, state.outcome, x, a, reward, ticket, False)
        return
    if _tracks(state):
        state.clock[TRACKED] += 1
    arms = state.arms
    arms[PULLS, x, a] += 1.0
    count = arms[PULLS, x, a]
    arms[MEANS, x, a] = ((count - 1.0) * arms[MEANS, x, a] + reward) / count
    state.clock[ROUNDS] += 1
    update_task(state.glr, x, arms[MEANS, x], arms[PULLS, x], state.noise)
    g = _estimate_of(state)
    evidence = state.glr.total[cheapest(state.glr, g)] if g >= 0 else -math.inf
    cut = state.clock[ROUNDS] > CUT
    undecided = False
    for r in range(state.threshold.size):
        if state.outcome.answer[REPRESENTATION, r, 0] < 0:
            if evidence > state.threshold[r] or cut:
                _answer(state, r)
            else:
                undecided = True
    if not undecided:
        next_contest(state.phase2, state.outcome)


@kernel
def _answer(state: OsrlScReleasedState, r: int) -> None:
    """Column ``r`` ends phase 1 with the representation of the largest estimate."""
    arms = state.arms
    predictors = state.phase2.contests.arms.shape[2]
    best = np.argmax(arms[MEANS]) % arms.shape[2]
    choose_representation(state.outcome, r, best // predictors, state.clock[ROUNDS], arms[PULLS])


@kernel
def conclude(state: OsrlScReleasedState, column: int) -> None:
    """The best guess, as at the cut of phase 1."""
    if state.outcome.answer[REPRESENTATION, column, 0] < 0:
        _answer(state, column)
    conclude_phase_2(state.phase2, state.outcome, column, state.arms[MEANS])


@kernel
def stream(state: OsrlScReleasedState) -> int:
    """Phase 2 has rewards of its own."""
    return 1 if in_phase_2(state.phase2) else 0


policy = register(
    Policy(
        name="osrl-sc-released",
        summary="the released code's whole behaviour, for the reproduction of the paper's tables",
        state=OsrlScReleasedState,
        new=new,
        wants_design=wants_design,
        design=design,
        select=select,
        observe=observe,
        conclude=conclude,
        ticket_size=lambda state: 1,
        ticket=ticket,
        unproved=("own",),
        stream=stream,
    )
)

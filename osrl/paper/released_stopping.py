"""When the authors' released code stops. Phase 1 differs from `osrl.policies.stopping.two_phase` in this:

- the threshold is beta_2(delta_G) alone: their beta_1 is always 0. It carries no guarantee;
- stopping asks for more than an estimate in M: every (x, g) must have one best h, and more than K = XGH
  rounds must have been played;
- an estimate is updated as ((N - 1) mean + reward) / N. Rounding errors then hide most ties between
  equal fractions, and fewer rounds go to the least pulled arm;
- phase 1 is cut after 20001 rounds, and answers with the representation of the largest estimate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.glr.statistic import Glr, cheapest, new_glr, update_task
from osrl.jit.kernel import kernel, kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.outcome import REPRESENTATION, Outcome, new_outcome
from osrl.policies.contract import Problem, StoppingRule
from osrl.policies.stopping.per_task_test import MEANS, PULLS, Contests, leader_of, new_contests
from osrl.policies.stopping.phase2 import (
    Phase2,
    choose_representation,
    conclude_phase_2,
    in_phase_2,
    keep_phase_1,
    new_phase_2,
    next_contest,
    phase_2_observe,
    write_phase,
)
from osrl.policies.stopping.thresholds import beta_2
from osrl.policies.stopping.trace_readers import read_phases

CUT = 20000


class Released(NamedTuple):
    """The samples of the phase in progress, and what ends each phase."""

    contests: Contests
    rounds: Integers  # (1,) of phase 1
    glr: Glr
    threshold: Floats  # (R,)
    phase2: Phase2
    outcome: Outcome


def new(problem: Problem, draw: float) -> Released:
    """Nothing known yet."""
    X, G, H = problem.shape
    criteria = problem.criteria
    released = Released(
        contests=new_contests(problem.shape, problem.family.noise),
        rounds=np.zeros(1, np.int64),
        glr=new_glr(X, G, H),
        threshold=np.array([beta_2(problem.shape, criterion.delta_g) for criterion in criteria]),
        phase2=new_phase_2(problem),
        outcome=new_outcome(len(criteria), X, G * H),
    )
    if G == 1:
        for r in range(len(criteria)):
            choose_representation(released.outcome, r, 0, 0, released.contests.arms[PULLS])
        next_contest(released.phase2, released.contests, released.outcome)
    return released


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
def estimated(released: Released) -> int:
    """The best representation under the estimate, or -1 while there is none to track."""
    means = released.contests.arms[MEANS]
    if released.rounds[0] <= means.size:
        return -1
    return clear_leader(means, released.glr.total.size)


@kernel_in_place
def ticket(released: Released, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """Which phase the trial belongs to: its reward may come late."""
    write_phase(released.contests, ticket)


@kernel_in_place
def observe(released: Released, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Take in a reward, and stop what can be stopped."""
    contests, phase2, outcome = released.contests, released.phase2, released.outcome
    if in_phase_2(contests):
        phase_2_observe(phase2, contests, outcome, x, a, reward, ticket, False)
        return
    arms, glr = contests.arms, released.glr
    arms[PULLS, x, a] += 1.0
    count = arms[PULLS, x, a]
    arms[MEANS, x, a] = ((count - 1.0) * arms[MEANS, x, a] + reward) / count
    released.rounds[0] += 1
    update_task(glr, x, arms[MEANS, x], arms[PULLS, x], contests.noise)
    g = estimated(released)
    evidence = glr.total[cheapest(glr, g)] if g >= 0 else -math.inf
    cut = released.rounds[0] > CUT
    undecided = False
    for r in range(released.threshold.size):
        if outcome.answer[REPRESENTATION, r, 0] < 0:
            if evidence > released.threshold[r] or cut:
                _answer(released, r)
            else:
                undecided = True
    if not undecided:
        keep_phase_1(phase2, contests, False)
        next_contest(phase2, contests, outcome)


@kernel
def _answer(released: Released, r: int) -> None:
    """Criterion ``r`` ends phase 1 with the representation of the largest estimate."""
    arms = released.contests.arms
    best = np.argmax(arms[MEANS]) % arms.shape[2]
    g = best // released.contests.predictors
    choose_representation(released.outcome, r, g, released.rounds[0], arms[PULLS])


@kernel
def conclude(released: Released, criterion: int) -> None:
    """The best guess, as at the cut of phase 1."""
    contests, outcome = released.contests, released.outcome
    if outcome.answer[REPRESENTATION, criterion, 0] < 0:
        _answer(released, criterion)
    means = released.phase2.earlier[MEANS] if in_phase_2(contests) else contests.arms[MEANS]
    conclude_phase_2(released.phase2, contests, outcome, criterion, means)


@kernel_in_place
def stream(released: Released) -> int:
    """Phase 2 has rewards of its own."""
    return 1 if in_phase_2(released.contests) else 0


RULE = StoppingRule(
    name="released",
    summary="as the released code does, without a guarantee",
    state=Released,
    new=new,
    observe=observe,
    conclude=conclude,
    evidence=read_phases,
    ticket_size=lambda released: 1,
    ticket=ticket,
    stream=stream,
)

"""Phase 2: the representation is chosen, and a contest finds the predictor of each task.

Shared by the paper's algorithm, its released version and `tas-transfer`. One pass of contests for each
representation that some criterion has chosen, task after task, among the H arms of that representation and
with threshold ln(2 t (H - 1) / delta_H), or by evidence from counts. Criteria that chose the same
representation share its contests.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.hypotheses.state import survivor
from osrl.jit.kernel import kernel, kernel_in_place
from osrl.jit.reductions import copy_to
from osrl.model.arrays import Flags, Floats
from osrl.model.outcome import (
    DECIDED,
    EXHAUSTED,
    PREDICTOR,
    REPRESENTATION,
    STATUS,
    TAU,
    TAU_G,
    WITHIN,
    Outcome,
)
from osrl.policies.contract import Problem
from osrl.policies.stopping.epsilon_counts import Near, new_near, parts_of, predictor_near
from osrl.policies.stopping.per_task_test import (
    MEANS,
    OF_G,
    OF_X,
    PULLS,
    SUMS,
    Contests,
    best_of,
    competing,
    contest_evidence,
    contest_observe,
    contest_stops,
    contest_thresholds,
    note_lead,
)
from osrl.policies.stopping.sharp_counts import Counting, count_predictors, look_due, new_counting


class Phase2(NamedTuple):
    """When the contests for predictors are over (arrays are updated in place)."""

    threshold: Floats  # (R, 3) terms of each criterion
    stopped: Flags  # (R, X) whether the predictor of the task is known
    earlier: Floats  # (6, X, n) the arms of phase 1: what counts of them (nothing without reuse), and means
    counting: Counting  # for criteria that stop by counts
    near: Near  # and within a tolerance, in both phases


def new_phase_2(problem: Problem) -> Phase2:
    """Phase 2 before it begins."""
    X, G, H = problem.shape
    criteria, noise = problem.criteria, problem.family.noise
    deltas = tuple(criterion.delta_h for criterion in criteria)
    exact = tuple(parts_of(problem.epsilon).exact_h * delta for delta in deltas)
    return Phase2(
        threshold=contest_thresholds(H, deltas, noise),
        stopped=np.zeros((len(criteria), X), np.bool_),
        earlier=np.zeros((6, X, G * H)),
        counting=new_counting(criteria, exact, (X, H), H, noise),
        near=new_near(problem),
    )


@kernel_in_place
def choose_representation(outcome: Outcome, r: int, g: int, rounds: int, pulls: Floats) -> None:
    """Criterion ``r`` has found representation ``g`` after ``rounds`` rounds with ``pulls`` (X, n)."""
    outcome.reached[TAU_G, r] = rounds
    outcome.reached[TAU, r] = rounds
    for x in range(pulls.shape[0]):
        outcome.answer[REPRESENTATION, r, x] = g
        for a in range(pulls.shape[1]):
            outcome.pulls[r, x, a] = np.int64(pulls[x, a])


@kernel_in_place
def in_phase_2(contests: Contests) -> bool:
    """Whether phase 2 has begun."""
    return bool(contests.asked[OF_G] >= 0)


@kernel_in_place
def write_phase(contests: Contests, ticket: Floats) -> None:
    """Write down the phase of a trial: 0 before phase 2, then 1 + the representation in progress."""
    ticket[0] = 1.0 + contests.asked[OF_G]


@kernel_in_place
def phase_2_observe(
    phase: Phase2,
    contests: Contests,
    outcome: Outcome,
    x: int,
    a: int,
    reward: float,
    ticket: Floats,
    reuse: bool,
) -> None:
    """Take in a reward; on to the next contest when no criterion needs this one any more.

    The late reward of a trial of phase 1, or of another representation, says nothing here; with ``reuse``
    those of phase 1 count, where their arm is in the contest.
    """
    g = contests.asked[OF_G]
    if a // contests.predictors != g or (ticket[0] != 1.0 + g and not reuse):
        return
    if phase.counting.wanted:
        note_lead(contests, x, a, reward)
    contest_observe(contests, x, a, reward)
    if not _goes_on(phase, contests, outcome, x):
        next_contest(phase, contests, outcome)


@kernel_in_place
def _goes_on(phase: Phase2, contests: Contests, outcome: Outcome, x: int) -> bool:
    """Note the criteria for which the predictor of task ``x`` is known; whether there are others."""
    counting, stopped, near, g = phase.counting, phase.stopped, phase.near, contests.asked[OF_G]
    looked = look_due(counting, x, contests.rounds[x])
    if looked:
        count_predictors(counting, x, contests, near)
    evidence = contest_evidence(contests, x, phase.threshold)
    undecided = False
    for r in range(stopped.shape[0]):
        if outcome.answer[REPRESENTATION, r, x] == g and not stopped[r, x]:
            if counting.limit[r] < math.inf:
                best = survivor(counting.possible[r, x])
                if best < 0 and looked and near.local.shape[2] > 0:
                    first, last = competing(contests)
                    means = contests.arms[MEANS, x, first:last]
                    best = predictor_near(near.local[r, x], means, counting.possible[r, x])
                    near.used[r] = near.used[r] or best >= 0
            elif contest_stops(contests, x, evidence, phase.threshold[r]):
                best = best_of(contests, x) - int(g) * contests.predictors
            else:
                best = -1
            if best >= 0:
                _note_predictor(phase, contests, outcome, r, x, best)
                stop_task(phase, outcome, r, x)
            else:
                undecided = True
    return undecided


@kernel_in_place
def stop_task(phase: Phase2, outcome: Outcome, r: int, x: int) -> None:
    """For criterion ``r`` the predictor of task ``x`` is known; it is met when all of them are."""
    phase.stopped[r, x] = True
    if np.all(phase.stopped[r]):
        outcome.reached[STATUS, r] = WITHIN if phase.near.used[r] else DECIDED


@kernel_in_place
def _note_predictor(phase: Phase2, contests: Contests, outcome: Outcome, r: int, x: int, best: int) -> None:
    """Write down the predictor ``best`` of task ``x`` for criterion ``r`` and what it has cost."""
    predictors = contests.predictors
    outcome.answer[PREDICTOR, r, x] = best
    for h in range(predictors):
        a = outcome.answer[REPRESENTATION, r, x] * predictors + h
        spent = np.int64(contests.arms[PULLS, x, a] - phase.earlier[PULLS, x, a])
        outcome.pulls[r, x, a] += spent
        outcome.reached[TAU, r] += spent


@kernel
def keep_phase_1(phase: Phase2, contests: Contests, reuse: bool) -> None:
    """Keep the means of phase 1, for a best guess; with ``reuse``, all its samples count in phase 2."""
    copy_to(contests.arms[MEANS], phase.earlier[MEANS])
    if reuse:
        copy_to(contests.arms[:MEANS], phase.earlier[:MEANS])


@kernel_in_place
def next_contest(phase: Phase2, contests: Contests, outcome: Outcome) -> None:
    """Begin the next contest, the first one too; without one left, every criterion is met.

    A single predictor needs no contest, and neither does a task that earlier samples decide.
    """
    alone = contests.predictors == 1
    for r in range(phase.stopped.shape[0]):
        for x in range(phase.stopped.shape[1]):
            if phase.stopped[r, x]:
                continue
            if alone:
                outcome.answer[PREDICTOR, r, x] = 0
                stop_task(phase, outcome, r, x)
                continue
            if outcome.answer[REPRESENTATION, r, x] != contests.asked[OF_G]:
                _begin_contests(phase, contests, outcome.answer[REPRESENTATION, r, x])
            contests.asked[OF_X] = x
            if _goes_on(phase, contests, outcome, x):
                return


@kernel_in_place
def _begin_contests(phase: Phase2, contests: Contests, g: int) -> None:
    """Set up the contests among the arms of ``g``, with the samples that count from the start."""
    arms, predictors = contests.arms, contests.predictors
    phase.counting.possible[:] = True
    phase.counting.due[:] = 0.0
    phase.near.local[:] = False
    contests.asked[OF_G] = g
    for x in range(arms.shape[1]):
        contests.rounds[x] = 0.0
        for a in range(g * predictors, (g + 1) * predictors):
            for row in range(MEANS):
                arms[row, x, a] = phase.earlier[row, x, a]
            arms[MEANS, x, a] = arms[SUMS, x, a] / max(arms[PULLS, x, a], 1.0)
            contests.rounds[x] += arms[PULLS, x, a]


@kernel
def conclude_phase_2(phase: Phase2, contests: Contests, outcome: Outcome, r: int, means: Floats) -> None:
    """The best guess of every task: by its samples in phase 2, without any by ``means`` (X, n) of phase 1."""
    predictors = contests.predictors
    for x in range(phase.stopped.shape[1]):
        if phase.stopped[r, x]:
            continue
        g = outcome.answer[REPRESENTATION, r, x]
        if g == contests.asked[OF_G] and contests.rounds[x] > 0.0:
            _note_predictor(phase, contests, outcome, r, x, best_of(contests, x) - g * predictors)
        else:
            outcome.answer[PREDICTOR, r, x] = np.argmax(means[x, g * predictors : (g + 1) * predictors])
    outcome.reached[STATUS, r] = EXHAUSTED

"""Phase 2: the representation is chosen, and a test finds the predictor of each task.

It is shared by the paper's algorithm, its released version and `tas-transfer`. There is one pass of tests for each
representation that some criterion has chosen, task after task, among the H arms of that representation and with
threshold ln(2 t (H - 1) / delta_H), or by evidence from counts. Criteria that chose the same representation share its
tests.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import copy_into
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
    sole_survivor,
)
from osrl.policies.contract import Problem
from osrl.policies.stopping.per_task_test import (
    ASKED_G,
    ASKED_TASK,
    TEST_MEANS,
    TEST_PULLS,
    TEST_SUMS,
    PerTaskTest,
    best_competing_arm,
    competing_arms,
    count_reward,
    exceeds_threshold,
    leader_evidence,
    note_leading_reward,
    read_leader_ratios,
    track_and_stop_terms,
)
from osrl.policies.stopping.sharp_counts import (
    EpsilonPairs,
    SharpCounts,
    epsilon_predictor,
    judge_predictors,
    new_epsilon_pairs,
    new_sharp_counts,
    recount_due,
    split_risks,
)


class Phase2(NamedTuple):
    """The tests for predictors, and which of them are over (arrays are updated in place)."""

    threshold: Floats  # (R, 3) terms of each criterion
    stopped: Flags  # (R, X) whether the predictor of the task is known
    earlier: Floats  # (6, X, n) the arms of phase 1: the samples that count (none without reuse), and means
    counting: SharpCounts  # for criteria that stop by counts
    near: EpsilonPairs  # and within a tolerance, in both phases


def new_phase_2(problem: Problem) -> Phase2:
    """Return phase 2 before it starts."""
    X, G, H = problem.shape
    criteria, noise = problem.criteria, problem.family.noise
    deltas = tuple(criterion.delta_h for criterion in criteria)
    exact = tuple(split_risks(problem.epsilon).exact_h * delta for delta in deltas)
    return Phase2(
        threshold=track_and_stop_terms(H, deltas, noise),
        stopped=np.zeros((len(criteria), X), np.bool_),
        earlier=np.zeros((6, X, G * H)),
        counting=new_sharp_counts(criteria, exact, (X, H), H, noise),
        near=new_epsilon_pairs(problem),
    )


@kernel_in_place
def write_representation(outcome: Outcome, r: int, g: int, rounds: int, pulls: Floats) -> None:
    """Write that criterion ``r`` has found ``g`` after ``rounds`` rounds with ``pulls`` (X, n)."""
    outcome.reached[TAU_G, r] = rounds
    outcome.reached[TAU, r] = rounds
    for x in range(pulls.shape[0]):
        outcome.answer[REPRESENTATION, r, x] = g
        for a in range(pulls.shape[1]):
            outcome.pulls[r, x, a] = np.int64(pulls[x, a])


@kernel_in_place
def in_phase_2(contests: PerTaskTest) -> bool:
    """Tell whether phase 2 has started."""
    return bool(contests.asked[ASKED_G] >= 0)


@kernel_in_place
def write_phase(contests: PerTaskTest, ticket: Floats) -> None:
    """Write the phase of a trial: 0 before phase 2, then 1 + the representation in progress."""
    ticket[0] = 1.0 + contests.asked[ASKED_G]


@kernel_in_place
def phase_2_observe(
    phase: Phase2,
    contests: PerTaskTest,
    outcome: Outcome,
    x: int,
    a: int,
    reward: float,
    ticket: Floats,
    reuse: bool,
) -> None:
    """Add a reward; start the next test when no criterion needs this one any more.

    The late reward of a trial of phase 1, or of another representation, does not count; with ``reuse``
    those of phase 1 count, where their arm is in the test.
    """
    g = contests.asked[ASKED_G]
    if a // contests.predictors != g or (ticket[0] != 1.0 + g and not reuse):
        return
    if phase.counting.wanted:
        note_leading_reward(contests, x, a, reward)
    count_reward(contests, x, a, reward)
    if not _is_undecided(phase, contests, outcome, x):
        start_next_test(phase, contests, outcome)


@kernel_in_place
def _is_undecided(phase: Phase2, contests: PerTaskTest, outcome: Outcome, x: int) -> bool:
    """Write the predictor of task ``x`` for the criteria that are met; tell whether others are left."""
    counting, stopped, near, g = phase.counting, phase.stopped, phase.near, contests.asked[ASKED_G]
    looked = recount_due(counting, x, contests.rounds[x])
    if looked:
        judge_predictors(counting, x, contests, near)
    evidence = leader_evidence(contests, x, phase.threshold)
    undecided = False
    for r in range(stopped.shape[0]):
        if outcome.answer[REPRESENTATION, r, x] == g and not stopped[r, x]:
            if counting.limit[r] < math.inf:
                best = sole_survivor(counting.possible[r, x], 0, contests.predictors)
                if best < 0 and looked and near.local.shape[2] > 0:
                    first, last = competing_arms(contests)
                    means = contests.arms[TEST_MEANS, x, first:last]
                    best = epsilon_predictor(near.local[r, x], means, counting.possible[r, x])
                    near.used[r] = near.used[r] or best >= 0
            elif exceeds_threshold(contests, x, evidence, phase.threshold[r]):
                best = best_competing_arm(contests, x) - int(g) * contests.predictors
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
    """Write that criterion ``r`` is met in task ``x``, and in all when no task is left."""
    phase.stopped[r, x] = True
    if np.all(phase.stopped[r]):
        outcome.reached[STATUS, r] = WITHIN if phase.near.used[r] else DECIDED


@kernel_in_place
def _note_predictor(phase: Phase2, contests: PerTaskTest, outcome: Outcome, r: int, x: int, best: int) -> None:
    """Write the predictor ``best`` of task ``x`` for criterion ``r`` and its cost."""
    predictors = contests.predictors
    outcome.answer[PREDICTOR, r, x] = best
    for h in range(predictors):
        a = outcome.answer[REPRESENTATION, r, x] * predictors + h
        spent = np.int64(contests.arms[TEST_PULLS, x, a] - phase.earlier[TEST_PULLS, x, a])
        outcome.pulls[r, x, a] += spent
        outcome.reached[TAU, r] += spent


@kernel
def keep_phase_1(phase: Phase2, contests: PerTaskTest, reuse: bool) -> None:
    """Keep the means of phase 1, for a best guess; with ``reuse``, all its samples count in phase 2."""
    copy_into(contests.arms[TEST_MEANS], phase.earlier[TEST_MEANS])
    if reuse:
        copy_into(contests.arms[:TEST_MEANS], phase.earlier[:TEST_MEANS])


@kernel_in_place
def start_next_test(phase: Phase2, contests: PerTaskTest, outcome: Outcome) -> None:
    """Start the next test, the first one too; without one left, every criterion is met.

    A single predictor needs no test, and neither does a task that earlier samples decide.
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
            if outcome.answer[REPRESENTATION, r, x] != contests.asked[ASKED_G]:
                _start_tests(phase, contests, outcome.answer[REPRESENTATION, r, x])
            contests.asked[ASKED_TASK] = x
            if _is_undecided(phase, contests, outcome, x):
                return


@kernel_in_place
def _start_tests(phase: Phase2, contests: PerTaskTest, g: int) -> None:
    """Set up the tests among the arms of ``g``, with the samples that count from the start."""
    arms, predictors = contests.arms, contests.predictors
    phase.counting.possible[:] = True
    phase.counting.due[:] = 0.0
    phase.near.local[:] = False
    contests.asked[ASKED_G] = g
    for x in range(arms.shape[1]):
        contests.rounds[x] = 0.0
        for a in range(g * predictors, (g + 1) * predictors):
            for row in range(TEST_MEANS):
                arms[row, x, a] = phase.earlier[row, x, a]
            arms[TEST_MEANS, x, a] = arms[TEST_SUMS, x, a] / max(arms[TEST_PULLS, x, a], 1.0)
            contests.rounds[x] += arms[TEST_PULLS, x, a]


@kernel
def guess_phase_2(phase: Phase2, contests: PerTaskTest, outcome: Outcome, r: int, means: Floats) -> None:
    """Write the best guess of every task: by its samples in phase 2, otherwise by ``means`` (X, n) of phase 1."""
    predictors = contests.predictors
    for x in range(phase.stopped.shape[1]):
        if phase.stopped[r, x]:
            continue
        g = outcome.answer[REPRESENTATION, r, x]
        if g == contests.asked[ASKED_G] and contests.rounds[x] > 0.0:
            _note_predictor(phase, contests, outcome, r, x, best_competing_arm(contests, x) - g * predictors)
        else:
            outcome.answer[PREDICTOR, r, x] = np.argmax(means[x, g * predictors : (g + 1) * predictors])
    outcome.reached[STATUS, r] = EXHAUSTED


@kernel
def read_two_phase(phases: Any, of_g: Floats, of_h: Floats) -> None:
    """Write C(g) of phase 1, and the likelihood ratios of phase 2."""
    for g in range(of_g.size):
        of_g[g] = phases.glr.total[g]
    read_leader_ratios(phases.contests, of_h)

"""Phase 2: the representation is chosen, and track-and-stop finds the predictor of each task.

Shared by the paper's algorithm, its released version and `tas-transfer`. One pass of contests for
each representation that some column has chosen, task after task, among the H arms of that
representation and with threshold ln(2 t (H - 1) / delta_H), or by evidence from counts. Columns that
chose the same representation share its contests.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.arrays import Flags, Floats, Integers
from osrl.compiled import kernel, kernel_in_place
from osrl.hypotheses.possible import survivor
from osrl.outcome import DECIDED, EXHAUSTED, PREDICTOR, REPRESENTATION, STATUS, TAU, TAU_G, Outcome
from osrl.policies.contract import Problem
from osrl.policies.sharp import Counting, count_predictors, look_due, new_counting
from osrl.policies.track_and_stop import (
    DUE,
    MEANS,
    PULLS,
    ROUNDS,
    SUMS,
    WEIGHTS,
    Contests,
    contest_design,
    contest_due,
    contest_evidence,
    contest_observe,
    contest_select,
    contest_stops,
    new_contests,
)

G_NOW, X_NOW = range(2)  # places of `now`


class Phase2(NamedTuple):
    """The contests for predictors, and where they stand (arrays are updated in place)."""

    contests: Contests  # among the arms of the representation in progress
    stopped: Flags  # (R, X) whether the column has found the predictor of the task
    now: Integers  # (2,) representation (-1 before phase 2) and task in progress
    earlier: Floats  # (5, X, n) rows of `Contests.arms` that count from the start: zeros without reuse
    counting: Counting  # for columns that stop by counts


def new_phase_2(problem: Problem) -> Phase2:
    """Phase 2 before it begins."""
    X, G, H = problem.shape
    columns, noise = problem.columns, problem.family.noise
    deltas = tuple(column.delta_h for column in columns)
    return Phase2(
        contests=new_contests(X, H, deltas, noise),
        stopped=np.zeros((len(columns), X), np.bool_),
        now=np.array([-1, 0]),
        earlier=np.zeros((5, X, G * H)),
        counting=new_counting(columns, deltas, (X, H), H, noise),
    )


@kernel_in_place
def choose_representation(outcome: Outcome, r: int, g: int, rounds: int, pulls: Floats) -> None:
    """Column ``r`` has found representation ``g`` after ``rounds`` rounds with ``pulls`` (X, n)."""
    outcome.reached[TAU_G, r] = rounds
    outcome.reached[TAU, r] = rounds
    for x in range(pulls.shape[0]):
        outcome.answer[REPRESENTATION, r, x] = g
        for a in range(pulls.shape[1]):
            outcome.pulls[r, x, a] = np.int64(pulls[x, a])


@kernel_in_place
def in_phase_2(phase: Phase2) -> bool:
    """Whether phase 2 has begun."""
    return bool(phase.now[G_NOW] >= 0)


@kernel_in_place
def phase_2_due(phase: Phase2) -> bool:
    """Whether the weights of the contest in progress are old."""
    return contest_due(phase.contests, phase.now[X_NOW])


@kernel
def phase_2_design(phase: Phase2) -> None:
    """New weights for the contest in progress."""
    contest_design(phase.contests, phase.now[X_NOW])


@kernel_in_place
def phase_2_select(phase: Phase2) -> int:
    """The arm x * n + a that lags behind its share in the contest in progress."""
    x, g, predictors = int(phase.now[X_NOW]), int(phase.now[G_NOW]), int(phase.contests.arms.shape[2])
    return x * int(phase.earlier.shape[2]) + g * predictors + contest_select(phase.contests, x)


@kernel_in_place
def phase_ticket(phase: Phase2, ticket: Floats) -> None:
    """Write down the phase of a trial: 0 before phase 2, then 1 + the representation in progress."""
    ticket[0] = 1.0 + phase.now[G_NOW]


@kernel_in_place
def phase_2_observe(
    phase: Phase2, outcome: Outcome, x: int, a: int, reward: float, ticket: Floats, reuse: bool
) -> None:
    """Take in a reward; on to the next contest when no column needs this one any more.

    The late reward of a trial of phase 1, or of another representation, says nothing here; with ``reuse``
    those of phase 1 count, where their arm is in the contest.
    """
    contests, g = phase.contests, phase.now[G_NOW]
    predictors = contests.arms.shape[2]
    if a // predictors != g or (ticket[0] != 1.0 + g and not reuse):
        return
    contest_observe(contests, x, a % predictors, reward)
    if not _goes_on(phase, outcome, x):
        next_contest(phase, outcome)


@kernel_in_place
def _goes_on(phase: Phase2, outcome: Outcome, x: int) -> bool:
    """Note the columns that have found the predictor of task ``x``; whether others are still looking."""
    contests, counting, stopped = phase.contests, phase.counting, phase.stopped
    if look_due(counting, x, contests.tasks[ROUNDS, x]):
        count_predictors(counting, x, contests.arms)
    evidence = contest_evidence(contests, x)
    undecided = False
    for r in range(stopped.shape[0]):
        if outcome.answer[REPRESENTATION, r, x] == phase.now[G_NOW] and not stopped[r, x]:
            if counting.limit[r] < math.inf:
                best = survivor(counting.possible[r, x])
            else:
                best = (
                    int(np.argmax(contests.arms[MEANS, x])) if contest_stops(contests, x, evidence, r) else -1
                )
            if best >= 0:
                _note_predictor(phase, outcome, r, x, best)
                stop_task(phase, outcome, r, x)
            else:
                undecided = True
    return undecided


@kernel_in_place
def stop_task(phase: Phase2, outcome: Outcome, r: int, x: int) -> None:
    """Column ``r`` has the predictor of task ``x``; it is decided when it has all of them."""
    phase.stopped[r, x] = True
    if np.all(phase.stopped[r]):
        outcome.reached[STATUS, r] = DECIDED


@kernel_in_place
def _note_predictor(phase: Phase2, outcome: Outcome, r: int, x: int, best: int) -> None:
    """Write down the predictor ``best`` of task ``x`` for column ``r`` and what it has cost."""
    arms = phase.contests.arms
    predictors = arms.shape[2]
    outcome.answer[PREDICTOR, r, x] = best
    for h in range(predictors):
        a = outcome.answer[REPRESENTATION, r, x] * predictors + h
        spent = np.int64(arms[PULLS, x, h] - phase.earlier[PULLS, x, a])
        outcome.pulls[r, x, a] += spent
        outcome.reached[TAU, r] += spent


@kernel_in_place
def next_contest(phase: Phase2, outcome: Outcome) -> None:
    """Begin the next contest, the first one too; without one left, every column is decided.

    A single predictor needs no contest, and neither does a task that earlier samples decide.
    """
    alone = phase.contests.arms.shape[2] == 1
    for r in range(phase.stopped.shape[0]):
        for x in range(phase.stopped.shape[1]):
            if phase.stopped[r, x]:
                continue
            if alone:
                outcome.answer[PREDICTOR, r, x] = 0
                stop_task(phase, outcome, r, x)
                continue
            if outcome.answer[REPRESENTATION, r, x] != phase.now[G_NOW]:
                _begin_contests(phase, outcome.answer[REPRESENTATION, r, x])
            phase.now[X_NOW] = x
            if _goes_on(phase, outcome, x):
                return


@kernel_in_place
def _begin_contests(phase: Phase2, g: int) -> None:
    """Set up the contests among the arms of ``g``, with the samples that count from the start."""
    arms, tasks = phase.contests.arms, phase.contests.tasks
    predictors = arms.shape[2]
    phase.counting.possible[:] = True
    phase.counting.due[:] = 0.0
    phase.now[G_NOW] = g
    for x in range(arms.shape[1]):
        for h in range(predictors):
            a = g * predictors + h
            for row in range(phase.earlier.shape[0]):
                arms[row, x, h] = phase.earlier[row, x, a]
            arms[MEANS, x, h] = arms[SUMS, x, h] / max(arms[PULLS, x, h], 1.0)
            arms[WEIGHTS, x, h] = 1.0 / predictors
        tasks[ROUNDS, x] = arms[PULLS, x].sum()
        tasks[DUE, x] = max(tasks[ROUNDS, x], float(predictors))


@kernel
def conclude_phase_2(phase: Phase2, outcome: Outcome, r: int, means: Floats) -> None:
    """The best guess of every task: by its samples in phase 2, without any by ``means`` (X, n) of phase 1."""
    contests = phase.contests
    predictors = contests.arms.shape[2]
    for x in range(phase.stopped.shape[1]):
        if phase.stopped[r, x]:
            continue
        g = outcome.answer[REPRESENTATION, r, x]
        if g == phase.now[G_NOW] and contests.tasks[ROUNDS, x] > 0.0:
            _note_predictor(phase, outcome, r, x, int(np.argmax(contests.arms[MEANS, x])))
        else:
            outcome.answer[PREDICTOR, r, x] = np.argmax(means[x, g * predictors : (g + 1) * predictors])
    outcome.reached[STATUS, r] = EXHAUSTED

"""Phase 2: the representation is chosen, and track-and-stop finds the predictor of each task.

Shared by the paper's algorithm, its released version and `tas-transfer`. One pass of contests for
each representation that some column has chosen, task after task, among the H arms of that
representation and with threshold ln(2 t (H - 1) / delta_H), or by evidence from counts. Columns that
chose the same representation share its contests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.arrays import Flags, Floats, Integers
from osrl.compiled import kernel, kernel_in_place
from osrl.policies.contest import (
    Contests,
    contest_design,
    contest_due,
    contest_evidence,
    contest_observe,
    contest_select,
    contest_stops,
    new_contests,
)
from osrl.policies.contract import DECIDED, EXHAUSTED, Outcome, Problem
from osrl.policies.counting import (
    Counting,
    count_predictors,
    left,
    look_due,
    new_counting,
    note_first,
)

REPRESENTATION, TASK = 0, 1


class Phase2(NamedTuple):
    """The contests for predictors, and where they stand (arrays are updated in place)."""

    contests: Contests  # among the arms of representation place[REPRESENTATION]
    stopped: Flags  # (R, X) whether the column has found the predictor of the task
    place: Integers  # representation (-1 before phase 2) and task in progress
    earlier_pulls: Floats  # (X, n) samples that count from the start: zeros, unless phase 1 is reused
    earlier_sums: Floats  # (X, n)
    earlier_first: Floats  # (X, n)
    counting: Counting  # for columns that stop by counts


def new_phase_2(problem: Problem) -> Phase2:
    """Phase 2 before it begins."""
    X, G, H = problem.shape
    columns, noise = problem.columns, problem.family.noise
    deltas = tuple(column.delta_h for column in columns)
    return Phase2(
        new_contests(X, H, deltas, noise),
        np.zeros((len(columns), X), np.bool_),
        np.array([-1, 0]),
        np.zeros((X, G * H)),
        np.zeros((X, G * H)),
        np.zeros((X, G * H)),
        new_counting(columns, deltas, (X, H), H, noise),
    )


@kernel_in_place
def choose_representation(outcome: Outcome, r: int, g: int, rounds: int, pulls: Floats) -> None:
    """Column ``r`` has found representation ``g`` after ``rounds`` rounds with ``pulls`` (X, n)."""
    outcome.tau_g[r] = rounds
    outcome.tau[r] = rounds
    for x in range(pulls.shape[0]):
        outcome.representation[r, x] = g
        for a in range(pulls.shape[1]):
            outcome.pulls[r, x, a] = np.int64(pulls[x, a])


@kernel_in_place
def in_phase_2(phase: Phase2) -> bool:
    """Whether phase 2 has begun."""
    place = phase.place
    return bool(place[REPRESENTATION] >= 0)


@kernel_in_place
def phase_2_due(phase: Phase2) -> bool:
    """Whether the weights of the contest in progress are old."""
    contests, place = phase.contests, phase.place
    return contest_due(contests, place[TASK])


@kernel
def phase_2_design(phase: Phase2) -> None:
    """New weights for the contest in progress."""
    contest_design(phase.contests, phase.place[TASK])


@kernel_in_place
def phase_2_select(phase: Phase2) -> int:
    """The arm x * n + a that lags behind its share in the contest in progress."""
    contests, place, (_, n) = phase.contests, phase.place, phase.earlier_pulls.shape
    x, g, predictors = int(place[TASK]), int(place[REPRESENTATION]), int(contests.pulls.shape[1])
    return x * int(n) + g * predictors + contest_select(contests, x)


@kernel_in_place
def phase_ticket(phase: Phase2, room: Floats) -> int:
    """Write down the phase of a trial: 0 before phase 2, then 1 + the representation in progress."""
    room[0] = 1.0 + phase.place[REPRESENTATION]
    return 1


@kernel_in_place
def phase_2_observe(
    phase: Phase2, outcome: Outcome, x: int, a: int, reward: float, ticket: Floats, reuse: bool
) -> None:
    """Take in a reward; on to the next contest when no column needs this one any more.

    The late reward of a trial of phase 1, or of another representation, says nothing here; with ``reuse``
    those of phase 1 count, where their arm is in the contest.
    """
    contests = phase.contests
    predictors = contests.pulls.shape[1]
    h = a % predictors
    g = phase.place[REPRESENTATION]
    if a // predictors != g or (ticket[0] != 1.0 + g and not reuse):
        return
    note_first(phase.counting, x, h, contests.pulls[x, h], reward)
    contest_observe(contests, x, h, reward)
    if not _goes_on(phase, outcome, x):
        next_contest(phase, outcome)


@kernel_in_place
def _goes_on(phase: Phase2, outcome: Outcome, x: int) -> bool:
    """Note the columns that have found the predictor of task ``x``; whether others are still looking."""
    contests, stopped, representation = phase.contests, phase.stopped, outcome.representation
    counting, g = phase.counting, phase.place[REPRESENTATION]
    if look_due(counting, x, contests.rounds[x]):
        count_predictors(counting, x, contests.pulls[x], contests.sums[x])
    evidence = contest_evidence(contests, x)
    undecided = False
    for r in range(stopped.shape[0]):
        if representation[r, x] == g and not stopped[r, x]:
            if counting.sharp[r]:
                found = left(counting.against[x], counting.limit[r])
            else:
                found = int(np.argmax(contests.means[x])) if contest_stops(contests, x, evidence, r) else -1
            if found >= 0:
                _note_predictor(phase, outcome, r, x, found)
                stop_task(phase, outcome, r, x)
            else:
                undecided = True
    return undecided


@kernel_in_place
def stop_task(phase: Phase2, outcome: Outcome, r: int, x: int) -> None:
    """Column ``r`` has the predictor of task ``x``; it is decided when it has all of them."""
    phase.stopped[r, x] = True
    if np.all(phase.stopped[r]):
        outcome.status[r] = DECIDED


@kernel_in_place
def _note_predictor(phase: Phase2, outcome: Outcome, r: int, x: int, found: int) -> None:
    """Write down the predictor ``found`` of task ``x`` for column ``r`` and what it has cost."""
    contests = phase.contests
    predictors = contests.pulls.shape[1]
    outcome.predictor[r, x] = found
    for h in range(predictors):
        a = outcome.representation[r, x] * predictors + h
        spent = np.int64(contests.pulls[x, h] - phase.earlier_pulls[x, a])
        outcome.pulls[r, x, a] += spent
        outcome.tau[r] += spent


@kernel_in_place
def next_contest(phase: Phase2, outcome: Outcome) -> None:
    """Begin the next contest, the first one too; without one left, every column is decided.

    A single predictor needs no contest, and neither does a task that earlier samples decide.
    """
    alone = phase.contests.pulls.shape[1] == 1
    for r in range(phase.stopped.shape[0]):
        for x in range(phase.stopped.shape[1]):
            if phase.stopped[r, x]:
                continue
            if alone:
                outcome.predictor[r, x] = 0
                stop_task(phase, outcome, r, x)
                continue
            if outcome.representation[r, x] != phase.place[REPRESENTATION]:
                _begin_contests(phase, outcome.representation[r, x])
            phase.place[TASK] = x
            if _goes_on(phase, outcome, x):
                return


@kernel_in_place
def _begin_contests(phase: Phase2, g: int) -> None:
    """Set up the contests among the arms of ``g``, with the samples that count from the start."""
    contests, counting = phase.contests, phase.counting
    tasks, predictors = contests.pulls.shape
    counting.against[:] = 0.0
    counting.due[:] = 0.0
    phase.place[REPRESENTATION] = g
    for x in range(tasks):
        for h in range(predictors):
            a = g * predictors + h
            contests.pulls[x, h] = phase.earlier_pulls[x, a]
            contests.sums[x, h] = phase.earlier_sums[x, a]
            contests.means[x, h] = contests.sums[x, h] / max(contests.pulls[x, h], 1.0)
            contests.weights[x, h] = 1.0 / predictors
            counting.first[x, h] = phase.earlier_first[x, a]
        contests.rounds[x] = contests.pulls[x].sum()
        contests.due[x] = max(contests.rounds[x], float(predictors))


@kernel
def conclude_phase_2(phase: Phase2, outcome: Outcome, r: int, means: Floats) -> None:
    """The best guess of every task: by its samples in phase 2, without any by ``means`` (X, n) of phase 1."""
    predictors = phase.contests.pulls.shape[1]
    for x in range(phase.stopped.shape[1]):
        if phase.stopped[r, x]:
            continue
        g = outcome.representation[r, x]
        if g == phase.place[REPRESENTATION] and phase.contests.rounds[x] > 0.0:
            _note_predictor(phase, outcome, r, x, int(np.argmax(phase.contests.means[x])))
        else:
            outcome.predictor[r, x] = np.argmax(means[x, g * predictors : (g + 1) * predictors])
    outcome.status[r] = EXHAUSTED

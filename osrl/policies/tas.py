"""`tas`: track-and-stop on each task with all G * H arms, the baseline of the paper.

Tasks are independent of each other and are finished one after the other; the number of samples
is the sum over tasks, with threshold ln(2 t (GH - 1) / delta) in each. Nothing is shared, so tasks
may even disagree about the representation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.arrays import Floats, Integers
from osrl.compiled import kernel, kernel_in_place
from osrl.outcome import (
    DECIDED,
    EXHAUSTED,
    PREDICTOR,
    REPRESENTATION,
    STATUS,
    TAU,
    TAU_G,
    Outcome,
    new_outcome,
)
from osrl.policies.contract import Policy, Problem, register
from osrl.policies.track_and_stop import (
    GROWTH,
    MEANS,
    PULLS,
    ROUNDS,
    Contests,
    contest_design,
    contest_due,
    contest_evidence,
    contest_observe,
    contest_select,
    contest_stops,
    new_contests,
)


class TasState(NamedTuple):
    """One contest for each task, all arms in it."""

    contests: Contests
    current: Integers  # (1,) the task in progress
    stopped: Integers  # (R, X) pulls of the task when it stopped, 0 before
    outcome: Outcome
    predictors: int


def new(problem: Problem, draw: float, *, growth: float = GROWTH) -> TasState:
    """The state before the first sample. A risk is that of the whole answer of a task: delta_g."""
    X, G, H = problem.shape
    deltas = tuple(column.delta_g for column in problem.columns)
    return TasState(
        contests=new_contests(X, G * H, deltas, problem.family.noise, growth),
        current=np.zeros(1, np.int64),
        stopped=np.zeros((len(deltas), X), np.int64),
        outcome=new_outcome(len(deltas), X, G * H),
        predictors=H,
    )


@kernel_in_place
def wants_design(state: TasState) -> bool:
    """Whether the weights of the current task are old."""
    return contest_due(state.contests, state.current[0])


@kernel
def design(state: TasState) -> None:
    """New weights for the current task."""
    contest_design(state.contests, state.current[0])


@kernel_in_place
def select(state: TasState, task: int, propensities: Floats) -> int:
    """The arm that lags behind its share in the current task."""
    x = int(state.current[0])
    return x * int(state.contests.arms.shape[2]) + contest_select(state.contests, x)


@kernel_in_place
def observe(state: TasState, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Take in a reward; on to the next task when every column has stopped in this one."""
    contests, stopped = state.contests, state.stopped
    contest_observe(contests, x, a, reward)
    evidence = contest_evidence(contests, x)
    undecided = False
    for r in range(stopped.shape[0]):
        if stopped[r, x] == 0:
            if contest_stops(contests, x, evidence, r):
                _note(state, r, x)
                stopped[r, x] = np.int64(contests.tasks[ROUNDS, x])
                if x == stopped.shape[1] - 1:
                    state.outcome.reached[STATUS, r] = DECIDED
            else:
                undecided = True
    if not undecided and x == state.current[0] and x + 1 < stopped.shape[1]:
        state.current[0] = x + 1


@kernel_in_place
def _note(state: TasState, r: int, x: int) -> None:
    """Write down the answer of task ``x`` and what it has used."""
    contests, outcome = state.contests, state.outcome
    best = np.argmax(contests.arms[MEANS, x])
    outcome.answer[REPRESENTATION, r, x] = best // state.predictors
    outcome.answer[PREDICTOR, r, x] = best % state.predictors
    outcome.reached[TAU, r] += np.int64(contests.tasks[ROUNDS, x])
    outcome.reached[TAU_G, r] = outcome.reached[TAU, r]
    for a in range(contests.arms.shape[2]):
        outcome.pulls[r, x, a] = np.int64(contests.arms[PULLS, x, a])


@kernel
def conclude(state: TasState, column: int) -> None:
    """The best guess of every task that is not finished."""
    for x in range(state.stopped.shape[1]):
        if state.stopped[column, x] == 0:
            _note(state, column, x)
    state.outcome.reached[STATUS, column] = EXHAUSTED


policy = register(
    Policy(
        name="tas",
        summary="track-and-stop on each task with all arms: the paper's baseline",
        state=TasState,
        new=new,
        wants_design=wants_design,
        design=design,
        select=select,
        observe=observe,
        conclude=conclude,
    )
)

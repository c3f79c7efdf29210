"""`tas-transfer`: learn the representation in one task alone, and reuse it in the others.

Track-and-stop on one task, drawn by the seed, with all G * H arms and threshold
ln(2 t (GH - 1) / delta_G) finds a representation and the predictor of that task. The other tasks
then find theirs among the H arms of that representation, with threshold ln(2 t (H - 1) / delta_H)
(`osrl.policies.phase2`). What `osrl-sc` gains over it is the price of not combining tasks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.arrays import Floats
from osrl.compiled import kernel, kernel_in_place
from osrl.outcome import PREDICTOR, REPRESENTATION, TAU, TAU_G, Outcome, new_outcome
from osrl.policies.contract import Policy, Problem, register
from osrl.policies.phase2 import (
    Phase2,
    conclude_phase_2,
    in_phase_2,
    new_phase_2,
    next_contest,
    phase_2_design,
    phase_2_due,
    phase_2_observe,
    phase_2_select,
    phase_ticket,
    stop_task,
)
from osrl.policies.track_and_stop import (
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


class TasTransferState(NamedTuple):
    """The contest of the first task, with all arms, and those of the other tasks."""

    first: Contests  # of one task
    phase2: Phase2
    outcome: Outcome
    first_task: int


def new(problem: Problem, draw: float) -> TasTransferState:
    """The state before the first sample; ``draw`` in [0, 1) picks the first task."""
    X, G, H = problem.shape
    deltas = tuple(column.delta_g for column in problem.columns)
    return TasTransferState(
        first=new_contests(1, G * H, deltas, problem.family.noise),
        phase2=new_phase_2(problem),
        outcome=new_outcome(len(deltas), X, G * H),
        first_task=int(draw * X),
    )


@kernel_in_place
def wants_design(state: TasTransferState) -> bool:
    """Whether the weights of the contest in progress are old."""
    first, phase2 = state.first, state.phase2
    if in_phase_2(phase2):
        return phase_2_due(phase2)
    return contest_due(first, 0)


@kernel
def design(state: TasTransferState) -> None:
    """New weights for the contest in progress."""
    first, phase2 = state.first, state.phase2
    if in_phase_2(phase2):
        phase_2_design(phase2)
    else:
        contest_design(first, 0)


@kernel_in_place
def select(state: TasTransferState, task: int, propensities: Floats) -> int:
    """The arm that lags behind its share in the contest in progress."""
    first, phase2 = state.first, state.phase2
    if in_phase_2(phase2):
        return phase_2_select(phase2)
    return state.first_task * int(first.arms.shape[2]) + contest_select(first, 0)


@kernel_in_place
def ticket(state: TasTransferState, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """Which phase the trial belongs to: its reward may come late."""
    phase_ticket(state.phase2, ticket)


@kernel_in_place
def observe(state: TasTransferState, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Take in a reward; on to the other tasks when every column has stopped in the first one."""
    first, phase2, outcome = state.first, state.phase2, state.outcome
    representation = outcome.answer[REPRESENTATION]
    if in_phase_2(phase2):
        phase_2_observe(phase2, outcome, x, a, reward, ticket, False)
        return
    contest_observe(first, 0, a, reward)
    evidence = contest_evidence(first, 0)
    undecided = False
    for r in range(representation.shape[0]):
        if representation[r, 0] < 0:
            if contest_stops(first, 0, evidence, r):
                _answer(state, r)
            else:
                undecided = True
    if not undecided:
        next_contest(phase2, outcome)


@kernel_in_place
def _answer(state: TasTransferState, r: int) -> None:
    """Column ``r`` takes the leader of the first task: its predictor, and its representation for all."""
    outcome, first, x = state.outcome, state.first, state.first_task
    predictors = state.phase2.contests.arms.shape[2]
    best = np.argmax(first.arms[MEANS, 0])
    outcome.answer[REPRESENTATION, r] = best // predictors
    outcome.answer[PREDICTOR, r, x] = best % predictors
    outcome.reached[TAU_G, r] = np.int64(first.tasks[ROUNDS, 0])
    outcome.reached[TAU, r] = outcome.reached[TAU_G, r]
    for a in range(first.arms.shape[2]):
        outcome.pulls[r, x, a] = np.int64(first.arms[PULLS, 0, a])
    stop_task(state.phase2, outcome, r, x)


@kernel
def conclude(state: TasTransferState, column: int) -> None:
    """The best guess; the first predictor in a task without samples."""
    if state.outcome.answer[REPRESENTATION, column, 0] < 0:
        _answer(state, column)
    nothing = np.zeros(state.phase2.earlier.shape[1:])
    conclude_phase_2(state.phase2, state.outcome, column, nothing)


policy = register(
    Policy(
        name="tas-transfer",
        summary="track-and-stop on one task; the others reuse its representation",
        state=TasTransferState,
        new=new,
        wants_design=wants_design,
        design=design,
        select=select,
        observe=observe,
        conclude=conclude,
        ticket_size=lambda state: 1,
        ticket=ticket,
    )
)

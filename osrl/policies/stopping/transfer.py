"""Rule `transfer`: learn the representation in one task alone, and reuse it in the others.

One task, drawn by the seed, is decided with all G * H arms and threshold ln(2 t (GH - 1) / delta), delta the smaller
of both risks: this gives a representation and the predictor of that task. The other tasks then find theirs among the
H arms of that representation, with threshold ln(2 t (H - 1) / delta_H) (`osrl.policies.stopping.phase2`). The gain of
the paper's algorithm over it is the price of not combining tasks. There are no parameters.

>>> import osrl
>>> osrl.simulate("paper", policy="tas-transfer", delta=0.1, runs=3).frame["tau"].to_list()
[26220, 17185, 20836]

Reference: A. Garivier and E. Kaufmann, Optimal Best Arm Identification with Fixed Confidence, COLT 2016 (Theorem 10).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats
from osrl.model.outcome import PREDICTOR, REPRESENTATION, TAU, TAU_G, Outcome, new_outcome
from osrl.policies.contract import Problem, StoppingRule
from osrl.policies.stopping.per_task_test import (
    ASKED_TASK,
    TEST_MEANS,
    TEST_PULLS,
    PerTaskTest,
    best_competing_arm,
    count_reward,
    exceeds_threshold,
    leader_evidence,
    new_per_task_test,
    read_per_task,
    risk_of_arm,
    track_and_stop_terms,
)
from osrl.policies.stopping.phase2 import (
    Phase2,
    guess_phase_2,
    in_phase_2,
    new_phase_2,
    phase_2_observe,
    start_next_test,
    stop_task,
    write_phase,
)


class TransferStopping(NamedTuple):
    """The test of the first task, with all arms, then those of the other tasks."""

    contests: PerTaskTest
    threshold: Floats  # (R, 3) terms of each criterion, in the first task
    phase2: Phase2
    outcome: Outcome


def new(problem: Problem, draw: float) -> TransferStopping:
    """Return the state before the first sample; ``draw`` in [0, 1) picks the first task."""
    X, G, H = problem.shape
    deltas = tuple(risk_of_arm(criterion, problem.shape) for criterion in problem.criteria)
    noise = problem.family.noise
    return TransferStopping(
        contests=new_per_task_test(problem.shape, noise, task=int(draw * X)),
        threshold=track_and_stop_terms(G * H, deltas, noise),
        phase2=new_phase_2(problem),
        outcome=new_outcome(len(deltas), X, G * H),
    )


@kernel_in_place
def ticket(transfer: TransferStopping, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """Write the phase of the trial: its reward may come late."""
    write_phase(transfer.contests, ticket)


@kernel_in_place
def observe(transfer: TransferStopping, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Add a reward; start the other tasks when every criterion is met in the first one."""
    contests, phase2, outcome = transfer.contests, transfer.phase2, transfer.outcome
    representation = outcome.answer[REPRESENTATION]
    if in_phase_2(contests):
        phase_2_observe(phase2, contests, outcome, x, a, reward, ticket, False)
        return
    count_reward(contests, x, a, reward)
    evidence = leader_evidence(contests, x, transfer.threshold)
    undecided = False
    for r in range(representation.shape[0]):
        if representation[r, 0] < 0:
            if exceeds_threshold(contests, x, evidence, transfer.threshold[r]):
                _answer(transfer, r)
            else:
                undecided = True
    if not undecided:
        start_next_test(phase2, contests, outcome)


@kernel_in_place
def _answer(transfer: TransferStopping, r: int) -> None:
    """Write the leader of the first task for criterion ``r``: its predictor, and its representation for all."""
    outcome, contests, x = transfer.outcome, transfer.contests, int(transfer.contests.asked[ASKED_TASK])
    best = best_competing_arm(contests, x)
    outcome.answer[REPRESENTATION, r] = best // contests.predictors
    outcome.answer[PREDICTOR, r, x] = best % contests.predictors
    outcome.reached[TAU_G, r] = np.int64(contests.rounds[x])
    outcome.reached[TAU, r] = outcome.reached[TAU_G, r]
    for a in range(contests.arms.shape[2]):
        outcome.pulls[r, x, a] = np.int64(contests.arms[TEST_PULLS, x, a])
    stop_task(transfer.phase2, outcome, r, x)


@kernel
def conclude(transfer: TransferStopping, criterion: int) -> None:
    """Write the best guess; the first predictor in a task without samples."""
    if transfer.outcome.answer[REPRESENTATION, criterion, 0] < 0:
        _answer(transfer, criterion)
    nothing = transfer.phase2.earlier[TEST_MEANS]
    guess_phase_2(transfer.phase2, transfer.contests, transfer.outcome, criterion, nothing)


RULE = StoppingRule(
    name="transfer",
    summary="one task with all arms; the others with those of its representation",
    state=TransferStopping,
    new=new,
    observe=observe,
    conclude=conclude,
    evidence=read_per_task,
    proofs={"own": "Garivier and Kaufmann (2016, Theorem 10), the first task at the smaller risk"},
    ticket_size=lambda transfer: 1,
    ticket=ticket,
)

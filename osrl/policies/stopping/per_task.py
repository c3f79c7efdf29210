"""Rule `tasks`: stop in each task by itself, with all its arms, one task after the other; as track-and-stop does.

Tasks are independent of each other; the number of samples is the sum over tasks, with threshold ln(2 t (GH - 1) /
delta) in each. Nothing is shared, so tasks may even disagree about the representation.

A task that stops names its best arm, representation and predictor at once, and the arm is wrong with probability at
most delta = min(delta_G, delta_H) (where there is one predictor, or one representation, the risk of the other): so is
each of the two in this task. That the representation is wrong in *some* of X tasks has probability at most X delta.
There are no parameters.

>>> import osrl
>>> osrl.simulate("paper", policy="tas", delta=0.1, runs=3).frame["tau"].to_list()
[28942, 22064, 22858]

Reference: A. Garivier and E. Kaufmann, Optimal Best Arm Identification with Fixed Confidence, COLT 2016 (Theorem 10).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.outcome import DECIDED, EXHAUSTED, PREDICTOR, REPRESENTATION, STATUS, TAU, TAU_G, Outcome, new_outcome
from osrl.policies.contract import Problem, StoppingRule
from osrl.policies.stopping.per_task_test import (
    ASKED_TASK,
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


class PerTaskStopping(NamedTuple):
    """One test for each task, with all its arms."""

    contests: PerTaskTest
    threshold: Floats  # (R, 3) terms of each criterion
    stopped: Integers  # (R, X) pulls of the task when it stopped, 0 before
    outcome: Outcome


def new(problem: Problem, draw: float) -> PerTaskStopping:
    """Return the state before the first sample. The smaller risk is that of the whole answer of a task."""
    X, G, H = problem.shape
    deltas = tuple(risk_of_arm(criterion, problem.shape) for criterion in problem.criteria)
    noise = problem.family.noise
    return PerTaskStopping(
        contests=new_per_task_test(problem.shape, noise, task=0),
        threshold=track_and_stop_terms(G * H, deltas, noise),
        stopped=np.zeros((len(deltas), X), np.int64),
        outcome=new_outcome(len(deltas), X, G * H),
    )


@kernel_in_place
def observe(tasks: PerTaskStopping, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Add a reward; start the next task when every criterion is met in this one."""
    contests, stopped = tasks.contests, tasks.stopped
    count_reward(contests, x, a, reward)
    evidence = leader_evidence(contests, x, tasks.threshold)
    undecided = False
    for r in range(stopped.shape[0]):
        if stopped[r, x] == 0:
            if exceeds_threshold(contests, x, evidence, tasks.threshold[r]):
                _note(tasks, r, x)
                stopped[r, x] = np.int64(contests.rounds[x])
                if np.all(stopped[r]):
                    tasks.outcome.reached[STATUS, r] = DECIDED
            else:
                undecided = True
    if not undecided and x == contests.asked[ASKED_TASK] and x + 1 < stopped.shape[1]:
        contests.asked[ASKED_TASK] = x + 1


@kernel_in_place
def _note(tasks: PerTaskStopping, r: int, x: int) -> None:
    """Write the answer of task ``x`` and the samples it has used."""
    contests, outcome = tasks.contests, tasks.outcome
    best = best_competing_arm(contests, x)
    outcome.answer[REPRESENTATION, r, x] = best // contests.predictors
    outcome.answer[PREDICTOR, r, x] = best % contests.predictors
    outcome.reached[TAU, r] += np.int64(contests.rounds[x])
    outcome.reached[TAU_G, r] = outcome.reached[TAU, r]
    for a in range(contests.arms.shape[2]):
        outcome.pulls[r, x, a] = np.int64(contests.arms[TEST_PULLS, x, a])


@kernel
def conclude(tasks: PerTaskStopping, criterion: int) -> None:
    """Write the best guess of every task that is not finished."""
    for x in range(tasks.stopped.shape[1]):
        if tasks.stopped[criterion, x] == 0:
            _note(tasks, criterion, x)
    tasks.outcome.reached[STATUS, criterion] = EXHAUSTED


RULE = StoppingRule(
    name="tasks",
    summary="each task by itself, with the threshold of track-and-stop",
    state=PerTaskStopping,
    new=new,
    observe=observe,
    conclude=conclude,
    evidence=read_per_task,
    proofs={"own": "Garivier and Kaufmann (2016, Theorem 10), each task at the smaller risk"},
)

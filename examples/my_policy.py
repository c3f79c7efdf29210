"""`round-robin`: a policy in one small file, to copy and change.

It samples all arms in turn. A task is finished when its leading arm is clearly ahead of every other
one, by the stopping rule of track-and-stop: threshold ln(2 t (n - 1) / delta) for n = GH arms. That
rule is valid whatever the sampling, so in each task the answer is wrong with probability at most
delta_g. Without `@kernel` it works too, at the speed of Python.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.arrays import Floats
from osrl.compiled import kernel
from osrl.outcome import DECIDED, EXHAUSTED, Outcome, answer_task, end_run, has_answer, new_outcome
from osrl.policies.contract import Policy, Problem, register
from osrl.policies.track_and_stop import (
    MEANS,
    PULLS,
    Contests,
    contest_evidence,
    contest_observe,
    contest_stops,
    new_contests,
)
from osrl.policies.tracking import least_pulled


class RoundRobinState(NamedTuple):
    """All that the next step needs: arrays, which are updated in place, and constants."""

    contests: Contests  # pulls, sums and means of every task, and the thresholds of every column
    outcome: Outcome  # every state has this: what is decided, for each column
    predictors: int


def new(problem: Problem, draw: float) -> RoundRobinState:
    """The state before the first sample. Keywords after ``draw`` would be options of the policy."""
    X, G, H = problem.shape
    risks = tuple(column.delta_g for column in problem.columns)
    contests = new_contests(X, G * H, risks, problem.family.noise)
    return RoundRobinState(contests, new_outcome(len(risks), X, G * H), H)


@kernel
def select(state: RoundRobinState, task: int, propensities: Floats) -> int:
    """The next arm, x * n + a with a = g * H + h. It must not change the state.

    A randomised policy fills ``propensities`` (X, n) and returns -1: the driver draws.
    """
    return least_pulled(state.contests.arms[PULLS])


@kernel
def observe(state: RoundRobinState, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Take in a reward, and write down in the outcome what is decided by it."""
    contests, outcome = state.contests, state.outcome
    contest_observe(contests, x, a, reward)
    evidence = contest_evidence(contests, x)
    for r in range(outcome.pulls.shape[0]):
        if not has_answer(outcome, r, x) and contest_stops(contests, x, evidence, r):
            answer(state, r, x)
            if np.all(outcome.answer[:, r] >= 0):
                end_run(outcome, r, DECIDED, contests.arms[PULLS])


@kernel
def answer(state: RoundRobinState, r: int, x: int) -> None:
    """Column ``r`` answers task ``x`` with its leading arm."""
    best = np.argmax(state.contests.arms[MEANS, x])
    answer_task(state.outcome, r, x, best // state.predictors, best % state.predictors)


@kernel
def conclude(state: RoundRobinState, column: int) -> None:
    """The best guess, for a run that is cut short."""
    for x in range(state.contests.arms.shape[1]):
        if not has_answer(state.outcome, column, x):
            answer(state, column, x)
    end_run(state.outcome, column, EXHAUSTED, state.contests.arms[PULLS])


policy = register(
    Policy(
        name="round-robin",
        summary="all arms in turn, with the stopping rule of track-and-stop",
        state=RoundRobinState,
        new=new,
        select=select,
        observe=observe,
        conclude=conclude,
    )
)

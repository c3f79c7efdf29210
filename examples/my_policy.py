"""`round-robin`: a policy in one small file, to copy and change.

It samples all arms in turn. A task is finished when its leading arm is clearly ahead of every other
one, by the stopping rule of track-and-stop: threshold ln(2 t (n - 1) / delta) for n = GH arms. That
rule is valid whatever the sampling, so in each task the answer is wrong with probability at most
delta_g.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.arrays import Flags, Floats
from osrl.compiled import kernel
from osrl.policies.contest import Contests, contest_evidence, contest_observe, contest_stops, new_contests
from osrl.policies.contract import (
    DECIDED,
    EXHAUSTED,
    RUNNING,
    Outcome,
    Policy,
    Problem,
    new_outcome,
    no_ticket,
    one_stream,
    register,
)
from osrl.policies.tracking import least_pulled


class RoundRobinState(NamedTuple):
    """All that the next step needs: arrays, which kernels update in place, and constants."""

    contests: Contests  # pulls, sums and means of every task, and the thresholds of every column
    finished: Flags  # (R, X) for each column, the tasks whose answer is known
    outcome: Outcome  # every state has this field: what is decided, for each column
    predictors: int


def new(problem: Problem, draw: float) -> RoundRobinState:
    """The state before the first sample. Keywords after ``draw`` would be options of the policy."""
    X, G, H = problem.shape
    risks = tuple(column.delta_g for column in problem.columns)
    return RoundRobinState(
        new_contests(X, G * H, risks, problem.family.noise),
        np.zeros((len(risks), X), np.bool_),
        new_outcome(len(risks), X, G * H),
        H,
    )


@kernel
def wants_design(state: RoundRobinState) -> bool:
    """Whether it is time to solve for new weights: never, nothing is tracked."""
    return False


@kernel
def design(state: RoundRobinState) -> None:
    """Solve for new weights."""


@kernel
def select(state: RoundRobinState, task: int, propensities: Floats) -> int:
    """The next arm, x * n + a with a = g * H + h. It must not change the state.

    A randomised policy fills ``propensities`` (X, n) and returns -1: the driver draws.
    """
    return least_pulled(state.contests.pulls)


@kernel
def observe(state: RoundRobinState, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Take in a reward, and write down in ``state.outcome`` what is decided by it."""
    contests, finished, outcome = state.contests, state.finished, state.outcome
    contest_observe(contests, x, a, reward)
    evidence = contest_evidence(contests, x)
    for r in range(finished.shape[0]):
        if not finished[r, x] and contest_stops(contests, x, evidence, r):
            finished[r, x] = True
            _answer(state, r, x)
        if outcome.status[r] == RUNNING and np.all(finished[r]):
            outcome.status[r] = DECIDED
            _count(state, r)


@kernel
def _answer(state: RoundRobinState, r: int, x: int) -> None:
    """Column ``r`` answers task ``x`` with its leading arm."""
    best = np.argmax(state.contests.means[x])
    state.outcome.representation[r, x] = best // state.predictors
    state.outcome.predictor[r, x] = best % state.predictors


@kernel
def _count(state: RoundRobinState, r: int) -> None:
    """Column ``r`` ends here: write down what it has used."""
    pulls, outcome = state.contests.pulls, state.outcome
    for x in range(pulls.shape[0]):
        for a in range(pulls.shape[1]):
            outcome.pulls[r, x, a] = np.int64(pulls[x, a])
    outcome.tau[r] = outcome.pulls[r].sum()
    outcome.tau_g[r] = outcome.tau[r]


@kernel
def conclude(state: RoundRobinState, column: int) -> None:
    """The best guess, for a run that is cut short."""
    for x in range(state.finished.shape[1]):
        if not state.finished[column, x]:
            _answer(state, column, x)
    _count(state, column)
    state.outcome.status[column] = EXHAUSTED


policy = register(
    Policy(
        name="round-robin",
        summary="all arms in turn, with the stopping rule of track-and-stop",
        state=RoundRobinState,
        new=new,
        wants_design=wants_design,
        design=design,
        select=select,
        observe=observe,
        conclude=conclude,
        ticket=no_ticket,  # a reward is judged by itself
        stream=one_stream,  # all rewards come from one stream
    )
)

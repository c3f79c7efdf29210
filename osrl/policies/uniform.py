"""`uniform`: every arm with the same probability, with the evidence of `osrl`.

The plainest way to sample with which that evidence works: what `osrl` gains over it is what an
adaptive allocation is worth. Given a task, every arm of it with the same probability.
"""

from __future__ import annotations

from typing import NamedTuple

from osrl.arrays import Floats
from osrl.compiled import kernel, kernel_in_place
from osrl.evidence.betting import new_bets
from osrl.policies.betting import clear_trials, forfeit_trial, pend_trial, take_reward, take_ticket
from osrl.policies.contract import Outcome, Policy, Problem, one_stream, register
from osrl.policies.hypotheses import Tests, best_guess, new_tests


class UniformState(NamedTuple):
    """The tests alone: sampling depends on nothing."""

    tests: Tests
    outcome: Outcome


def new(
    problem: Problem,
    draw: float,
    *,
    smallest: float = 0.1,
    largest: float = 1.6,
    points: int = 5,
    power: float = 0.5,
    plugged: float = 0.1,
    idle: float = 0.25,
    shrinkage: float = 20.0,
    safe: float = 0.98,
) -> UniformState:
    """The state before the first sample; the options of the bets are those of `new_bets`."""
    tests = new_tests(problem, new_bets(smallest, largest, points, power, plugged, idle, shrinkage, safe))
    return UniformState(tests, tests.outcome)


@kernel_in_place
def wants_design(state: UniformState) -> bool:
    """Never: the weights are fixed."""
    return False


@kernel_in_place
def design(state: UniformState) -> None:
    """Nothing to solve."""


@kernel_in_place
def select(state: UniformState, task: int, propensities: Floats) -> int:
    """The same probability for every arm, or for every arm of the given task."""
    tasks, n = propensities.shape
    for x in range(tasks):
        for a in range(n):
            propensities[x, a] = 1.0 / (tasks * n) if task < 0 else 1.0 / n if x == task else 0.0
    return -1


@kernel_in_place
def ticket(state: UniformState, x: int, a: int, propensities: Floats, room: Floats) -> int:
    """The terms of the bets on this trial."""
    return take_ticket(state.tests, x, a, propensities[x], room)


@kernel_in_place
def observe(state: UniformState, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Settle the bets, and reject what can be rejected."""
    take_reward(state.tests, x, a, reward, ticket)


@kernel
def conclude(state: UniformState, column: int) -> None:
    """The best guess."""
    best_guess(state.tests)


@kernel
def clear_pending(state: UniformState) -> None:
    """Forget which trials have not reported."""
    clear_trials(state.tests)


@kernel_in_place
def pend(state: UniformState, x: int, a: int, ticket: Floats) -> None:
    """Count a trial that has not reported by its worst factor."""
    pend_trial(state.tests, x, a, ticket)


@kernel_in_place
def forfeit(state: UniformState, x: int, a: int, ticket: Floats) -> None:
    """A trial that will never report keeps its worst factor."""
    forfeit_trial(state.tests, x, a, ticket)


policy = register(
    Policy(
        name="uniform",
        summary="every arm with the same probability, with the evidence of osrl",
        state=UniformState,
        new=new,
        wants_design=wants_design,
        design=design,
        select=select,
        observe=observe,
        conclude=conclude,
        ticket=ticket,
        stream=one_stream,
        given_tasks=True,
        shares_runs=lambda options: False,
        clear_pending=clear_pending,
        pend=pend,
        forfeit=forfeit,
    )
)

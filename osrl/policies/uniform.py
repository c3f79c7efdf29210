"""`uniform`: every arm with the same probability, with the evidence of `osrl`.

The plainest way to sample with which that evidence works: what `osrl` gains over it is what an
adaptive allocation is worth. Given a task, every arm of it with the same probability.
"""

from __future__ import annotations

from typing import NamedTuple

from osrl.arrays import Floats
from osrl.compiled import kernel, kernel_in_place
from osrl.evidence.betting import new_bets
from osrl.hypotheses.possible import Hypotheses, best_guess, new_hypotheses
from osrl.hypotheses.trials import (
    clear_trials,
    forfeit_trial,
    pend_trial,
    take_reward,
    take_ticket,
    ticket_size,
)
from osrl.outcome import Outcome
from osrl.policies.contract import Policy, Problem, register


class UniformState(NamedTuple):
    """The hypotheses alone: sampling depends on nothing."""

    hypotheses: Hypotheses

    @property
    def outcome(self) -> Outcome:
        """What is decided."""
        return self.hypotheses.outcome


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
    column = problem.columns[0]
    bets = new_bets(smallest, largest, points, power, plugged, idle, shrinkage, safe)
    risks = (column.delta_g, column.delta_h)
    return UniformState(new_hypotheses(problem.shape, problem.family, risks, bets, epsilon=problem.epsilon))


@kernel_in_place
def select(state: UniformState, task: int, propensities: Floats) -> int:
    """The same probability for every arm, or for every arm of the given task."""
    tasks, n = propensities.shape
    for x in range(tasks):
        for a in range(n):
            propensities[x, a] = 1.0 / (tasks * n) if task < 0 else 1.0 / n if x == task else 0.0
    return -1


@kernel_in_place
def ticket(state: UniformState, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """The terms of the bets on this trial."""
    take_ticket(state.hypotheses, x, a, propensities, ticket)


@kernel_in_place
def observe(state: UniformState, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Settle the bets, and rule out what can be."""
    take_reward(state.hypotheses, x, a, reward, ticket)


@kernel
def conclude(state: UniformState, column: int) -> None:
    """The best guess."""
    best_guess(state.hypotheses)


policy = register(
    Policy(
        name="uniform",
        summary="every arm with the same probability, with the evidence of osrl",
        state=UniformState,
        new=new,
        select=select,
        observe=observe,
        conclude=conclude,
        ticket_size=lambda state: ticket_size(state.hypotheses),
        ticket=ticket,
        given_tasks=True,
        tolerant=("own",),
        shares_runs=lambda options: False,
        clear_pending=lambda state: clear_trials(state.hypotheses),
        pend=lambda state, x, a, ticket: pend_trial(state.hypotheses, x, a, ticket),
        forfeit=lambda state, x, a, ticket: forfeit_trial(state.hypotheses, x, a, ticket),
    )
)

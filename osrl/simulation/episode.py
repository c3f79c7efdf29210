"""One simulated run: the compiled loop that drives a policy until it has decided.

The k-th reward of an arm is a function of (seed, run, stream, arm, k), and the n-th choice of a
randomised policy one of (seed, run, n): a run is the same whoever computes it, and a risk gives
the same run alone or in a list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osrl.arrays import Floats
from osrl.compiled import kernel_in_place
from osrl.contract import State, loop_for, policy_of
from osrl.draws import Key
from osrl.instance import Instance
from osrl.outcome import RUNNING, STATUS, Outcome, is_open
from osrl.policies.round import (
    World,
    conclude,
    deal,
    design,
    design_of,
    draw_reward,
    new_ticket,
    new_world,
    settle,
    stream,
    wants_design,
)


def episode(state: State, instance: Instance, key: Key, budget: int) -> int:
    """Drive ``state`` until every criterion is decided, or for ``budget`` rounds; the rounds played.

    What was decided is in ``state.outcome``.
    """
    world = new_world(instance, key)
    loop = loop_for(play, policy_of(state))
    propensities, ticket = np.zeros(world.means.shape), new_ticket(state)
    return loop(state, state.outcome, world, propensities, ticket, design_of(state), budget)


@kernel_in_place
def play(
    state: Any,
    outcome: Outcome,
    world: World,
    propensities: Floats,
    ticket: Floats,
    pointer: Any,
    budget: int,
) -> int:
    """The rounds of `episode`."""
    n = propensities.shape[1]
    rounds = 0
    while rounds < budget and is_open(outcome):
        if wants_design(state):
            design(state, pointer)
        arm = deal(state, -1, world.key, rounds, propensities, ticket)
        x, a = arm // n, arm % n
        settle(state, x, a, draw_reward(world, stream(state), x, a), ticket)
        rounds += 1
    for criterion in range(outcome.reached.shape[1]):
        if outcome.reached[STATUS, criterion] == RUNNING:
            conclude(state, criterion)
    return rounds

"""One simulated run: the compiled loop that drives a policy until it has decided.

The k-th reward of an arm is a function of (seed, run, stream, arm, k), and the n-th choice of a
randomised policy one of (seed, run, n): a run is the same whoever computes it, and a risk gives
the same run alone or in a list.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from osrl.arrays import Floats, Integers
from osrl.compiled import kernel_in_place
from osrl.draws import CHOICES, FIRST_REWARD_LANE, Key, pick, reward, uniform
from osrl.families import Family
from osrl.policies.contract import (
    RUNNING,
    conclude,
    design,
    is_open,
    loop_for,
    observe,
    policy_of,
    room_for,
    select,
    stream,
    ticket,
    wants_design,
)

STREAMS = 2


class Room(NamedTuple):
    """What the loop writes down on its way."""

    propensities: Floats  # (X, n)
    drawn: Integers  # (STREAMS, X, n) how many rewards of every arm have been drawn
    ticket: Floats


def episode(state: Any, means: Floats, family: Family, key: Key, budget: int) -> int:
    """Drive ``state`` until every column is decided, or for ``budget`` rounds; the rounds played.

    ``means`` (X, n) are the true means. What was decided is in ``state.outcome``.
    """
    tasks, n = means.shape
    room = Room(np.zeros((tasks, n)), np.zeros((STREAMS, tasks, n), np.int64), room_for(n))
    loop = loop_for(play, policy_of(state))
    return loop(state, means, family.noise, family.name == "bounded", key, budget, room)


@kernel_in_place
def play(state: Any, means: Floats, noise: float, bounded: bool, key: Key, budget: int, room: Room) -> int:
    """The rounds of `episode`."""
    propensities, drawn, terms = room
    status = state.outcome.status
    tasks, n = means.shape
    rounds = 0
    while rounds < budget and is_open(status):
        if wants_design(state):
            design(state)
        chosen = select(state, -1, propensities)
        if chosen < 0:
            chosen = pick(propensities, uniform(key, CHOICES, rounds))
        x, a = chosen // n, chosen % n
        size = ticket(state, x, a, propensities, terms)
        s = stream(state)
        lane = FIRST_REWARD_LANE + 2 * ((s * tasks + x) * n + a)
        value = reward(key, lane, drawn[s, x, a], means[x, a], noise, bounded)
        drawn[s, x, a] += 1
        observe(state, x, a, value, terms[:size])
        rounds += 1
    for column in range(status.size):
        if status[column] == RUNNING:
            conclude(state, column)
    return rounds

"""One simulated run: the compiled loop that drives a policy until it has decided.

The k-th reward of an arm is a function of (seed, run, stream, arm, k), and the n-th choice of a
randomised policy one of (seed, run, n): a run is the same whoever computes it, and a risk gives
the same run alone or in a list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osrl.alternatives import Floats
from osrl.compiled import kernel
from osrl.draws import CHOICES, FIRST_REWARD_LANE, Key, pick, reward, uniform
from osrl.policies.contract import (
    RUNNING,
    conclude,
    design,
    is_open,
    observe,
    select,
    stream,
    ticket,
    wants_design,
)

STREAMS = 2


@kernel
def episode(state: Any, means: Floats, noise: float, bounded: bool, key: Key, budget: int) -> int:
    """Drive ``state`` until every column is decided, or for ``budget`` rounds; the rounds played.

    ``means`` (X, n) are the true means. What was decided is in ``state.outcome``.
    """
    tasks, n = means.shape
    propensities = np.zeros((tasks, n))
    drawn = np.zeros((STREAMS, tasks, n), np.int64)
    rounds = 0
    while rounds < budget and is_open(state.outcome):
        if wants_design(state):
            design(state)
        chosen = select(state, -1, propensities)
        if chosen < 0:
            chosen = pick(propensities, uniform(key, CHOICES, rounds))
        x, a = chosen // n, chosen % n
        trial = ticket(state, x, a, propensities)
        s = stream(state)
        lane = FIRST_REWARD_LANE + 2 * ((s * tasks + x) * n + a)
        value = reward(key, lane, drawn[s, x, a], means[x, a], noise, bounded)
        drawn[s, x, a] += 1
        observe(state, x, a, value, trial)
        rounds += 1
    for column in range(state.outcome.status.size):
        if state.outcome.status[column] == RUNNING:
            conclude(state, column)
    return rounds

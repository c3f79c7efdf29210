"""The environment of a run: where its rewards come from.

The k-th reward of an arm is a function of the run's key, the stream, the arm and k. So policies that sample
in different orders are given the same rewards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.jit import kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.instance import Instance
from osrl.model.rng import FIRST_REWARD_LANE, Key, reward

STREAMS = 2


class Environment(NamedTuple):
    """Where the rewards of a run come from: the true means, and how many of every arm have been drawn."""

    means: Floats  # (X, n)
    drawn: Integers  # (STREAMS, X, n)
    recorded: Floats  # (STREAMS, X, n, L) rewards of one's own in place of the family's; L = 0: none
    ready: Integers  # (STREAMS, X, n) how many of these are there
    noise: float
    bounded: bool
    key: Key


def new_environment(instance: Instance, key: Key) -> Environment:
    """Return the rewards of the run with this key."""
    tasks = instance.shape[0]
    means = instance.means.reshape(tasks, -1)
    drawn, ready = np.zeros((2, STREAMS, *means.shape), np.int64)
    recorded = np.zeros((STREAMS, *means.shape, 0))
    family = instance.family
    return Environment(means, drawn, recorded, ready, family.noise, family.name == "bounded", key)


def reward_lane(shape: tuple[int, int], stream: int, x: int, a: int) -> int:
    """Return the lane of the draws for the rewards of an arm; ``shape`` = (X, n)."""
    return FIRST_REWARD_LANE + 2 * ((stream * shape[0] + x) * shape[1] + a)


@kernel_in_place
def reward_available(environment: Environment, stream: int, x: int, a: int) -> bool:
    """Tell whether the next reward of an arm can be drawn now; recorded rewards may have run out."""
    return environment.recorded.shape[3] == 0 or bool(environment.drawn[stream, x, a] < environment.ready[stream, x, a])


@kernel_in_place
def draw_reward(environment: Environment, stream: int, x: int, a: int) -> float:
    """Return the next reward of an arm: the k-th of a stream is a function of (key, stream, arm, k)."""
    means, drawn = environment.means, environment.drawn
    tasks, n = means.shape
    number = drawn[stream, x, a]
    drawn[stream, x, a] += 1
    if environment.recorded.shape[3] > 0:
        return float(environment.recorded[stream, x, a, number])
    lane = FIRST_REWARD_LANE + 2 * ((stream * tasks + x) * n + a)
    return reward(environment.key, lane, number, means[x, a], environment.noise, environment.bounded)

"""Custom rewards in place of the family's: a function, or recorded rewards.

A function is called as ``sample(task, arm, draw)`` with the number of the task, that of the arm in it
(g * H + h) and a random number in [0, 1); the k-th reward of an arm depends on the seed, the run, the arm and
k alone, as those of a family do. Recorded rewards are drawn with replacement, those of each arm by itself.
The loop stays compiled: it returns to Python when an arm has used up the rewards that are ready.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from osrl.errors import OsrlError
from osrl.model.environment import Environment, reward_lane
from osrl.model.families import Family
from osrl.model.instance import Instance
from osrl.model.rng import uniform
from osrl.policies.fingerprint import FingerprintError, fingerprint

Sample = Callable[[int, int, float], float]
FIRST_REWARDS = 64  # rewards of an arm that are made at once; then as many as there are


class Rewards(NamedTuple):
    """A source of rewards; ``version`` identifies it, None where that is impossible."""

    sample: Sample
    family: Family
    version: str | None


class Recorded:
    """A source that draws from recorded rewards, with replacement."""

    def __init__(self, values: list[list[Any]]) -> None:
        self.values = values

    def __call__(self, task: int, arm: int, draw: float) -> float:
        """Return the reward that a number in [0, 1) picks."""
        values = self.values[task][arm]
        return float(values[int(draw * len(values))])


def read_rewards(given: Any, instance: Instance) -> Rewards:
    """Read rewards from a function, or from a frame with task, representation, predictor and reward."""
    if isinstance(given, Rewards):
        return given
    if callable(given):
        try:
            version: str | None = fingerprint(given)
        except FingerprintError:
            version = None
        return Rewards(given, instance.family, version)
    if not isinstance(given, pl.DataFrame):
        raise OsrlError(
            f"rewards are {type(given).__name__}; give a function of task, arm and a draw, or a polars frame "
            "with the columns task, representation, predictor and reward"
        )
    values = _recorded(given, instance)
    digest = hashlib.sha256()
    for task in values:
        for arm in task:
            digest.update(len(arm).to_bytes(8, "little") + arm.tobytes())
    return Rewards(Recorded(values), instance.family, digest.hexdigest()[:16])


def _recorded(frame: pl.DataFrame, instance: Instance) -> list[list[Any]]:
    """Return the rewards of every arm."""
    for column in ("task", "representation", "predictor", "reward"):
        if column not in frame.columns:
            raise OsrlError(f"the recorded rewards have no column {column!r}; it has {', '.join(frame.columns)}")
    arms = frame.group_by("task", "representation", "predictor", maintain_order=True).agg("reward").rows()
    known = {(str(x), str(g), str(h)): np.array(rewards, float) for x, g, h, rewards in arms}
    found: list[list[Any]] = []
    for x in instance.tasks:
        found.append([])
        for g in instance.representations:
            for h in instance.predictors:
                if not len(known.get((x, g, h), ())):
                    raise OsrlError(f"no reward of ({x}, {g}, {h}) was recorded; every arm needs at least one")
                for value in known[x, g, h]:
                    _check(value, instance.family, "a recorded reward")
                found[-1].append(known[x, g, h])
    return found


def _check(value: Any, family: Family, what: str) -> float:
    """Return a reward that the family can have; refuse others."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not family.accepts_reward(number):
        raise OsrlError(f"{what} is {value!r}; rewards of the {family.name} family are {family.reward_range}")
    return number


def add_rewards(environment: Environment, rewards: Rewards, stream: int, arm: int) -> Environment:
    """Return the environment with twice as many rewards of an arm ready as before."""
    n = environment.means.shape[1]
    x, a = arm // n, arm % n
    before = int(environment.ready[stream, x, a])
    after = max(FIRST_REWARDS, 2 * before)
    recorded = environment.recorded
    if after > recorded.shape[3]:
        longer = np.zeros((*recorded.shape[:3], after))
        longer[..., : recorded.shape[3]] = recorded
        recorded = longer
    lane = reward_lane(environment.means.shape, stream, x, a)
    for k in range(before, after):
        value = _call(rewards, x, a, uniform(environment.key, lane, k))
        recorded[stream, x, a, k] = value
    environment.ready[stream, x, a] = after
    return environment._replace(recorded=recorded)


def _call(rewards: Rewards, x: int, a: int, draw: float) -> float:
    try:
        value = rewards.sample(x, a, draw)
    except Exception as error:
        words = f"the rewards of task {x}, arm {a} cannot be drawn: {type(error).__name__}: {error}"
        raise OsrlError(f"{words}; give a function of task, arm and a draw") from error
    return _check(value, rewards.family, f"the reward of task {x}, arm {a}")

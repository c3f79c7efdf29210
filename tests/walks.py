"""Long walks under true nulls, with the troubles of a real experiment: how often is what is true rejected?"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from osrl.arrays import Floats
from osrl.compiled import kernel
from osrl.draws import CHOICES, FIRST_REWARD_LANE, Key, new_key, pick, reward, uniform
from osrl.instance import Instance
from osrl.policies import osrl as own
from osrl.policies import uniform as even
from osrl.policies.betting import clear_trials, estimate, forfeit_trial, pend_trial
from osrl.policies.contract import ROOM, Policy, design, is_open, observe, select, ticket, wants_design
from osrl.testing import new_state
from tests.instances import Array

LOSSES = 1  # lane of the draws that decide who drops out; policies do not use it


class Trouble(NamedTuple):
    """What goes wrong on the way. Everything here depends on the rewards."""

    hunted: bool = False  # tasks are given: the one that hurts the first representation most
    delay: int = 0  # a reward below 1/2 is reported only so many trials later
    lost: float = 0.0  # share of rewards below 1/2 that are never reported
    peek: bool = False  # a deliberate mistake: the reward is in the means that the bet is made with


@kernel
def walk(state: Any, means: Floats, bounded: bool, key: Key, rounds: int, trouble: Trouble) -> None:
    """Play ``rounds`` rounds, or until the policy is done."""
    tasks, n = means.shape
    hunted, delay, lost, peek = trouble.hunted, trouble.delay, trouble.lost, trouble.peek
    propensities = np.zeros((tasks, n))
    drawn = np.zeros((tasks, n), np.int64)
    slots = delay + 1
    due, arm, value = np.full(slots, -1), np.zeros(slots, np.int64), np.zeros(slots)
    room = np.empty(ROOM * (n + 1))
    tickets = np.zeros((slots, room.size))
    for t in range(rounds):
        if not is_open(state.outcome.status):
            break
        if wants_design(state):
            design(state)
        select(state, int(np.argmax(state.tests.shared.least[:, 0])) if hunted else -1, propensities)
        chosen = pick(propensities, uniform(key, CHOICES, t))
        x, a = chosen // n, chosen % n
        lane = FIRST_REWARD_LANE + 2 * chosen
        y = reward(key, lane, drawn[x, a], means[x, a], 0.0, bounded)
        drawn[x, a] += 1
        pulls, sums = state.tests.pulls, state.tests.sums
        if peek:
            pulls[x, a] += 1.0
            sums[x, a] += y
            estimate(state.tests, x, a)
        size = ticket(state, x, a, propensities, room)
        if peek:
            pulls[x, a] -= 1.0
            sums[x, a] -= y
            estimate(state.tests, x, a)
        if y < 0.5 and uniform(key, LOSSES, t) < lost:
            forfeit_trial(state.tests, x, a, room[:size])
            continue
        free = np.argmin(due)
        due[free] = t + delay if y < 0.5 else t
        arm[free], value[free] = chosen, y
        tickets[free, :size] = room[:size]
        for k in range(slots):
            if 0 <= due[k] <= t:
                due[k] = -1
                if delay > 0:
                    clear_trials(state.tests)
                    for i in range(slots):
                        if due[i] >= 0:
                            pend_trial(state.tests, arm[i] // n, arm[i] % n, tickets[i, :size])
                observe(state, arm[k] // n, arm[k] % n, value[k], tickets[k, :size])


class Rejections(NamedTuple):
    """In how many of the runs each null was rejected."""

    representation: Array  # (G,)
    predictor: Array  # (X, n)


def rejections(
    policy: Policy, instance: Instance, risk: float, runs: int, rounds: int, trouble: Trouble, seed: int = 0
) -> Rejections:
    """Walk ``runs`` times, on all cores."""
    means = instance.means.reshape(instance.shape[0], -1).copy()
    columns = policy.columns([(risk, risk)])

    def one(run: int) -> tuple[Array, Array]:
        key = new_key(seed, run)
        state = new_state(policy, instance, columns, key)
        walk(state, means, instance.family.name == "bounded", key, rounds, trouble)
        return ~state.tests.possible_g, ~state.tests.possible_h

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(one, range(runs)))
    return Rejections(*(np.sum(each, axis=0) for each in zip(*found, strict=True)))


RISK = 0.1
FALSE_ALARM = 1e-6
EQUAL = np.full((2, 3, 2), 0.4)
NEARLY = EQUAL - 0.004 * np.array([[[0, 1], [1, 2], [2, 2]], [[1, 0], [2, 1], [1, 2]]])
CASES = {
    "equal arms": (own.policy, Instance.bernoulli(EQUAL), Trouble()),
    "nearly equal arms": (own.policy, Instance.bernoulli(NEARLY), Trouble()),
    "rewards in [0, 1]": (own.policy, Instance.bounded(EQUAL), Trouble()),
    "tasks given to hurt": (own.policy, Instance.bernoulli(EQUAL), Trouble(hunted=True)),
    "late failures": (own.policy, Instance.bernoulli(EQUAL), Trouble(delay=5)),
    "failures drop out": (own.policy, Instance.bernoulli(EQUAL), Trouble(lost=0.1)),
    "even sampling": (even.policy, Instance.bernoulli(EQUAL), Trouble()),
}


def true_nulls(instance: Instance, found: Rejections) -> tuple[list[int], list[int]]:
    """In how many runs each true null was rejected: about representations, about predictors."""
    means = instance.means
    X, G, H = means.shape
    best = means.max(axis=(1, 2), keepdims=True)
    of_g = (means == best).any(axis=2).all(axis=0)
    of_h = (means == means.max(axis=2, keepdims=True)).reshape(X, G * H)
    return found.representation[of_g].tolist(), found.predictor[of_h].tolist()


def most_allowed(runs: int, risk: float = RISK) -> int:
    """What a test that keeps its risk exceeds with probability `FALSE_ALARM` at most."""
    return int(binom.isf(FALSE_ALARM, runs, risk))

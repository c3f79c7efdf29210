"""Long walks under true nulls, with the troubles of a real experiment: how often is what is true rejected?"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from osrl.hypotheses.state import HYP_PULLS, HYP_SUMS, Hypotheses
from osrl.hypotheses.trials import (
    clear_pending,
    forfeit_trial,
    pend_trial,
    ticket_size,
    update_estimates,
    write_trial_ticket,
)
from osrl.jit import kernel
from osrl.model.arrays import Flags
from osrl.model.environment import Environment, draw_reward, new_environment
from osrl.model.instance import Instance
from osrl.model.outcome import is_open
from osrl.model.rng import new_key, uniform
from osrl.policies.builtin import OSRL, UNIFORM
from osrl.policies.contract import Policy
from osrl.policies.steps import apply_reward, design, design_of, issue_trial, wants_design
from osrl.testing import new_state
from tests.support.instances import Array

LOSSES = 1  # lane of the draws that decide who drops out; policies do not use it


class Trouble(NamedTuple):
    """What goes wrong on the way. Everything here depends on the rewards."""

    hunted: bool = False  # tasks are given: mostly the one that hurts the first representation most
    delay: int = 0  # a reward below 1/2 is reported only so many trials later
    batch: int = 1  # so many trials are handed out, then all of them report
    lost: float = 0.0  # share of rewards below 1/2 that are never reported
    peek: bool = False  # a deliberate mistake: the reward is in the means that the bet is made with


@kernel
def walk(
    state: Any, hypotheses: Hypotheses, environment: Environment, size: int, rounds: int, trouble: Trouble, pointer: Any
) -> None:
    """Play ``rounds`` rounds, or until the policy is done; a ticket has ``size`` numbers."""
    tasks, n = environment.means.shape
    hunted, delay, batch, lost, peek = (
        trouble.hunted,
        trouble.delay,
        trouble.batch,
        trouble.lost,
        trouble.peek,
    )
    propensities, arms = np.zeros((tasks, n)), hypotheses.arms
    slots = delay + batch
    due, arm, value = np.full(slots, -1), np.zeros(slots, np.int64), np.zeros(slots)
    ticket, tickets = np.zeros(size), np.zeros((slots, size))
    for t in range(rounds):
        if not is_open(hypotheses.outcome):
            break
        if wants_design(state):
            design(state, pointer)
        task = int(np.argmax(hypotheses.against[:tasks, 0, -1])) if hunted else -1
        if hunted and t % 8 == 0:
            task = t // 8 % tasks  # or a task that is settled could be given for ever
        chosen = issue_trial(state, task, environment.key, t, propensities, ticket)
        x, a = chosen // n, chosen % n
        y = draw_reward(environment, 0, x, a)
        if peek:
            arms[HYP_PULLS, x, a] += 1.0
            arms[HYP_SUMS, x, a] += y
            update_estimates(hypotheses, x, a)
            write_trial_ticket(hypotheses, x, a, propensities[x], ticket)
            arms[HYP_PULLS, x, a] -= 1.0
            arms[HYP_SUMS, x, a] -= y
            update_estimates(hypotheses, x, a)
        if y < 0.5 and uniform(environment.key, LOSSES, t) < lost:
            forfeit_trial(hypotheses, x, a, ticket)
            continue
        free = np.argmin(due)
        due[free] = t // batch * batch + batch - 1 + (delay if y < 0.5 else 0)
        arm[free], value[free] = chosen, y
        tickets[free] = ticket
        for k in range(slots):
            if 0 <= due[k] <= t:
                due[k] = -1
                if slots > 1:
                    clear_pending(hypotheses)
                    for i in range(slots):
                        if due[i] >= 0:
                            pend_trial(hypotheses, arm[i] // n, arm[i] % n, tickets[i])
                apply_reward(state, arm[k] // n, arm[k] % n, value[k], tickets[k])


class Rejections(NamedTuple):
    """In how many of the runs each null was rejected."""

    representation: Array  # (G,)
    predictor: Array  # (X, n)


def rejections(
    policy: Policy, instance: Instance, risk: float, runs: int, rounds: int, trouble: Trouble, seed: int = 0
) -> Rejections:
    """Walk ``runs`` times, on all cores."""
    criteria = policy.criteria([(risk, risk)])

    def one(run: int) -> tuple[Flags, Flags]:
        key = new_key(seed, run)
        state = new_state(policy, instance, criteria, key)
        hypotheses: Hypotheses = state.stopping
        walk(
            state,
            hypotheses,
            new_environment(instance, key),
            ticket_size(hypotheses),
            rounds,
            trouble,
            design_of(state),
        )
        return ~hypotheses.possible_g, ~hypotheses.possible_h

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(one, range(runs)))
    return Rejections(*(np.sum(each, axis=0) for each in zip(*found, strict=True)))


RISK = 0.1
FALSE_ALARM = 1e-6
EQUAL = np.full((2, 3, 2), 0.4)
NEARLY = EQUAL - 0.004 * np.array([[[0, 1], [1, 2], [2, 2]], [[1, 0], [2, 1], [1, 2]]])
CASES = {
    "equal arms": (OSRL, Instance.bernoulli(EQUAL), Trouble()),
    "nearly equal arms": (OSRL, Instance.bernoulli(NEARLY), Trouble()),
    "rewards in [0, 1]": (OSRL, Instance.bounded(EQUAL), Trouble()),
    "tasks given to hurt": (OSRL, Instance.bernoulli(EQUAL), Trouble(hunted=True)),
    "late failures": (OSRL, Instance.bernoulli(EQUAL), Trouble(delay=5)),
    "failures drop out": (OSRL, Instance.bernoulli(EQUAL), Trouble(lost=0.1)),
    "even sampling": (UNIFORM, Instance.bernoulli(EQUAL), Trouble()),
}


def true_nulls(instance: Instance, found: Rejections) -> tuple[list[int], list[int]]:
    """Count the runs in which each true null was rejected: about representations, about predictors."""
    means = instance.means
    X, G, H = means.shape
    best = means.max(axis=(1, 2), keepdims=True)
    of_g = (means == best).any(axis=2).all(axis=0)
    of_h = (means == means.max(axis=2, keepdims=True)).reshape(X, G * H)
    return found.representation[of_g].tolist(), found.predictor[of_h].tolist()


def most_allowed(runs: int, risk: float = RISK) -> int:
    """Return the count that a test which keeps its risk exceeds with probability `FALSE_ALARM` at most."""
    return int(binom.isf(FALSE_ALARM, runs, risk))

"""Rounds of a simulated experiment: tasks that arrive, results that are late, come in batches, or never come.

One loop plays them all. In a simulation of a policy the policy chooses the task, and each result comes at once. Results
come back in the order of hand-out. So what a policy knows is what the first trials brought, and no trial has to be
counted by its worst reward because it is late; one that is lost has to.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from osrl.jit import kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.environment import Environment, draw_reward, new_environment, reward_available
from osrl.model.instance import Instance
from osrl.model.outcome import Outcome, is_open
from osrl.model.rng import Key, uniform
from osrl.policies.contract import State
from osrl.policies.registry import loop_for, policy_of
from osrl.policies.steps import (
    apply_loss,
    apply_reward,
    conclude_all,
    design,
    design_of,
    issue_trial,
    new_ticket,
    stream,
    wants_design,
)

ARRIVALS, FATES = 2, 3  # lanes of draws: which task arrives, and what becomes of a trial
OLDEST, WAITING, HANDED_OUT, ENDED = range(4)  # places of `PendingQueue.place`
WHY, OF_STREAM, OF_ARM, REWARD = range(4)  # places of a note: the last two are of the last trial
WANTS_REWARDS = 1  # why the loop came back, besides what a rule can get wrong (`osrl.policies.steps`)


class TrialProtocol(NamedTuple):
    """How trials go out and come back.

    ``shares``: those of the tasks that arrive; empty where the policy chooses. A result comes after ``delay``
    more trials were handed out, ``batch`` at a time. A trial is lost with probability ``loss`` and counts by
    its worst reward; with probability ``ignored`` it is lost and left out.
    """

    shares: Floats
    loss: float = 0.0
    ignored: float = 0.0
    delay: int = 0
    batch: int = 1


AT_ONCE = TrialProtocol(np.zeros(0))  # each result before the next trial, none lost


class PendingQueue(NamedTuple):
    """Trials that have not reported, in a ring."""

    arms: Integers  # (room,) x * n + a
    tickets: Floats  # (room, size)
    place: Integers  # (4,) where the oldest is, how many wait; trials handed out, and ended


def new_queue(state: State, conditions: TrialProtocol) -> PendingQueue:
    """Return an empty queue for the trials of a state."""
    room = conditions.delay + conditions.batch
    return PendingQueue(np.zeros(room, np.int64), np.zeros((room, new_ticket(state).size)), np.zeros(4, np.int64))


class SimulatedExperiment(NamedTuple):
    """A simulated experiment under way: it may be played on, a part at a time."""

    state: State
    environment: Environment
    conditions: TrialProtocol
    queue: PendingQueue

    def play(self, until: int) -> bool:
        """Continue until so many trials were handed out from its start; tell whether all is decided."""
        state, environment, conditions, queue = self
        propensities, pointer, note = np.zeros(environment.means.shape), design_of(state), np.zeros(4)
        loop = loop_for(play, policy_of(state))
        loop(state, state.outcome, environment, conditions, queue, propensities, pointer, note, until, False)
        return not is_open(state.outcome)

    @property
    def handed_out(self) -> int:
        """Return the number of trials handed out since its start."""
        return int(self.queue.place[HANDED_OUT])


def new_experiment(state: State, instance: Instance, key: Key, conditions: TrialProtocol) -> SimulatedExperiment:
    """Return an experiment that continues from ``state``, which is copied."""
    return SimulatedExperiment(
        copy.deepcopy(state), new_environment(instance, key), conditions, new_queue(state, conditions)
    )


@kernel_in_place
def arrival(shares: Floats, draw: float) -> int:
    """Return the task that a number in [0, 1) picks."""
    for x in range(shares.size):
        draw -= shares[x]
        if draw < 0.0:
            return x
    return shares.size - 1


@kernel_in_place
def play(
    state: Any,
    outcome: Outcome,
    environment: Environment,
    conditions: TrialProtocol,
    queue: PendingQueue,
    propensities: Floats,
    pointer: Any,
    note: Floats,
    until: int,
    concludes: bool,
) -> None:
    """Play rounds until all is decided, or ``until`` trials were handed out and those that are due have ended.

    ``concludes``: best guesses are written then for what is still open. Where Python has to help first, the ``note``
    (4,) has the reason, and the loop is to be called again.
    """
    n = propensities.shape[1]
    arms, tickets, place, shares = queue.arms, queue.tickets, queue.place, conditions.shares
    key, room, lost, left_out = environment.key, arms.size, conditions.loss, conditions.loss + conditions.ignored
    while is_open(outcome):
        if place[WAITING] > conditions.delay:
            slot = place[OLDEST]
            x, a = arms[slot] // n, arms[slot] % n
            fate = uniform(key, FATES, place[ENDED]) if left_out > 0.0 else 1.0
            if fate < lost:
                apply_loss(state, x, a, tickets[slot])
            elif fate >= left_out:
                source = stream(state)
                if not reward_available(environment, source, x, a):
                    note[WHY], note[OF_STREAM], note[OF_ARM] = WANTS_REWARDS, source, arms[slot]
                    return
                value = draw_reward(environment, source, x, a)
                apply_reward(state, x, a, value, tickets[slot])
                note[OF_ARM], note[REWARD] = arms[slot], value
            place[OLDEST] = (slot + 1) % room
            place[WAITING] -= 1
            place[ENDED] += 1
        elif place[HANDED_OUT] < until:
            for _ in range(conditions.batch):
                if wants_design(state):
                    design(state, pointer)
                number = place[HANDED_OUT]
                task = arrival(shares, uniform(key, ARRIVALS, number)) if shares.size > 0 else -1
                slot = (place[OLDEST] + place[WAITING]) % room
                arm = issue_trial(state, task, key, number, propensities, tickets[slot])
                if arm < 0:
                    note[WHY] = arm
                    return
                arms[slot] = arm
                place[WAITING] += 1
                place[HANDED_OUT] += 1
        else:
            break
    if concludes:
        conclude_all(state, outcome)

"""Rounds as an experiment has them: tasks that arrive, results that are late, come in batches, or never come.

Results come back in the order of hand-out. So what a policy knows is what the first trials brought, and no
trial has to be counted by its worst reward because it is late; one that is lost has to.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from osrl.jit import kernel_in_place
from osrl.jit.kernels import has_machine_code
from osrl.model.arrays import Floats, Integers
from osrl.model.environment import World, draw_reward, new_world
from osrl.model.instance import Instance
from osrl.model.outcome import Outcome, is_open
from osrl.model.rng import Key, uniform
from osrl.policies.contract import State
from osrl.policies.registry import loop_for, policy_of
from osrl.policies.steps import deal, design, design_of, forfeit, new_ticket, settle, stream, wants_design

ARRIVALS, FATES = 2, 3  # lanes of draws: which task arrives, and what becomes of a trial
FIRST, WAITING, HANDED_OUT, ENDED = range(4)  # places of `Queue.place`


class Conditions(NamedTuple):
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


class Queue(NamedTuple):
    """Trials that have not reported, in a ring."""

    arms: Integers  # (room,) x * n + a
    tickets: Floats  # (room, size)
    place: Integers  # (4,) where the first is, how many wait; trials handed out, and ended


class Pending(NamedTuple):
    """A trial that has not reported: its task, its arm in the task, what its reward will be judged with."""

    x: int
    a: int
    ticket: Floats


class Course(NamedTuple):
    """An experiment under way in a world: it may be played on, a part at a time."""

    state: State
    world: World
    conditions: Conditions
    queue: Queue

    def play(self, until: int) -> bool:
        """Go on until so many trials were handed out from its start; whether all is decided."""
        loop_for(play_on, policy_of(self.state))(*self._arguments(until))
        return not is_open(self.state.outcome)

    def _arguments(self, until: int) -> tuple[Any, ...]:
        """What `play_on` takes."""
        state, world, conditions, queue = self
        propensities = np.zeros(world.means.shape)
        return state, state.outcome, world, conditions, queue, propensities, design_of(state), until

    @property
    def is_compiled(self) -> bool:
        """Whether there is machine code to play it with: its rounds may be too many for the interpreter."""
        policy, arguments = policy_of(self.state), self._arguments(0)
        if policy.outside is None and arguments[6] is None:
            return False
        return not policy.compiled or has_machine_code(loop_for(play_on, policy), *arguments)

    @property
    def handed_out(self) -> int:
        """Trials handed out since its start."""
        return int(self.queue.place[HANDED_OUT])


def new_course(
    state: State, instance: Instance, key: Key, conditions: Conditions, pending: Sequence[Pending] = ()
) -> Course:
    """An experiment that goes on from ``state``, which is copied; the ``pending`` trials report first."""
    state = copy.deepcopy(state)
    room = max(len(pending), conditions.delay) + conditions.batch
    queue = Queue(np.zeros(room, np.int64), np.zeros((room, new_ticket(state).size)), np.zeros(4, np.int64))
    n = instance.means[0].size
    for i, trial in enumerate(pending):
        queue.arms[i] = trial.x * n + trial.a
        queue.tickets[i] = trial.ticket
    queue.place[WAITING] = len(pending)
    return Course(state, new_world(instance, key), conditions, queue)


@kernel_in_place
def arrival(shares: Floats, draw: float) -> int:
    """The task that a number in [0, 1) picks; -1 where the policy chooses."""
    for x in range(shares.size):
        draw -= shares[x]
        if draw < 0.0:
            return x
    return shares.size - 1


@kernel_in_place
def play_on(
    state: Any,
    outcome: Outcome,
    world: World,
    conditions: Conditions,
    queue: Queue,
    propensities: Floats,
    pointer: Any,
    until: int,
) -> None:
    """The rounds of `Course.play`."""
    n = propensities.shape[1]
    arms, tickets, place = queue.arms, queue.tickets, queue.place
    key, room = world.key, arms.size
    while is_open(outcome) and place[HANDED_OUT] < until:
        for _ in range(conditions.batch):
            if wants_design(state):
                design(state, pointer)
            number = place[HANDED_OUT]
            task = arrival(conditions.shares, uniform(key, ARRIVALS, number))
            slot = (place[FIRST] + place[WAITING]) % room
            arms[slot] = deal(state, task, key, number, propensities, tickets[slot])
            place[WAITING] += 1
            place[HANDED_OUT] += 1
        while is_open(outcome) and place[WAITING] > conditions.delay:
            slot = place[FIRST]
            x, a = arms[slot] // n, arms[slot] % n
            fate = uniform(key, FATES, place[ENDED])
            if fate < conditions.loss:
                forfeit(state, x, a, tickets[slot])
            elif fate >= conditions.loss + conditions.ignored:
                settle(state, x, a, draw_reward(world, stream(state), x, a), tickets[slot])
            place[FIRST] = (slot + 1) % room
            place[WAITING] -= 1
            place[ENDED] += 1

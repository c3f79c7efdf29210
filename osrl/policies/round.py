"""One round: new weights when they are due, a trial is dealt, its reward drawn and settled.

Every driver plays these: the compiled loop, traces, the contract test, and the study one at a time. Which
functions act on a state is found by its type: by the interpreter in the table of policies, by the
compiler through `numba.extending.overload`, which asks the same table when a driver is compiled. (Kernels
passed as arguments would be compiled anew in every process.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from osrl.arrays import Floats, Integers
from osrl.compiled import kernel_in_place
from osrl.draws import CHOICES, FIRST_REWARD_LANE, Key, pick, reward, uniform
from osrl.instance import Instance
from osrl.policies.contract import policy_of, policy_of_type

STREAMS = 2


class World(NamedTuple):
    """Where the rewards of a run come from: the true means, and how many of every arm have been drawn."""

    means: Floats  # (X, n)
    drawn: Integers  # (STREAMS, X, n)
    noise: float
    bounded: bool
    key: Key


def new_world(instance: Instance, key: Key) -> World:
    """The rewards of the run with this key."""
    tasks = instance.shape[0]
    means = instance.means.reshape(tasks, -1)
    drawn = np.zeros((STREAMS, *means.shape), np.int64)
    return World(means, drawn, instance.family.noise, instance.family.name == "bounded", key)


@kernel_in_place
def draw_reward(world: World, stream: int, x: int, a: int) -> float:
    """The next reward of an arm: the k-th of a stream is a function of (key, stream, arm, k)."""
    means, drawn = world.means, world.drawn
    tasks, n = means.shape
    lane = FIRST_REWARD_LANE + 2 * ((stream * tasks + x) * n + a)
    value = reward(world.key, lane, drawn[stream, x, a], means[x, a], world.noise, world.bounded)
    drawn[stream, x, a] += 1
    return value


def wants_design(state: Any) -> bool:
    """Whether it is time to solve for new weights."""
    rule = policy_of(state).wants_design
    return rule is not None and rule(state)


def design(state: Any) -> None:
    """Solve for new weights."""
    rule = policy_of(state).design
    if rule is not None:
        rule(state)


def deal(state: Any, task: int, key: Key, number: int, propensities: Floats, ticket: Floats) -> int:
    """The next trial: its arm x * n + a, and what its reward will be judged with, written to ``ticket``.

    Where it is left to chance, draw ``number`` of the run picks it from the ``propensities`` (X, n), which
    are written; otherwise those stay as they are.
    """
    arm = policy_of(state).select(state, task, propensities)
    if arm < 0:
        arm = pick(propensities, uniform(key, CHOICES, number))
    n = propensities.shape[1]
    write_ticket(state, arm // n, arm % n, propensities[arm // n], ticket)
    return arm


def write_ticket(state: Any, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """What the reward of a trial will be judged with, drawn with the ``propensities`` (n,) of its task."""
    write = policy_of(state).ticket
    if write is not None:
        write(state, x, a, propensities, ticket)


def settle(state: Any, x: int, a: int, reward: float, ticket: Floats) -> None:
    """The reward of a trial comes in."""
    policy_of(state).observe(state, x, a, reward, ticket)


def stream(state: Any) -> int:
    """Which stream of rewards the next trial draws from."""
    choose = policy_of(state).stream
    return 0 if choose is None else choose(state)


def conclude(state: Any, column: int) -> None:
    """Write down the best guess of a run that is cut short."""
    policy_of(state).conclude(state, column)


def new_ticket(state: Any) -> Floats:
    """Room for the ticket of one trial."""
    return np.zeros(policy_of(state).ticket_size(state))


# The same for the compiler: each calls the kernel of the policy, and counts no references itself.

_IN_PLACE: Any = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "_nrt": False}


@overload(wants_design, jit_options=_IN_PLACE)
def _wants_design(state):  # type: ignore[no-untyped-def]
    rule = policy_of_type(state).wants_design
    return (lambda state: False) if rule is None else (lambda state: rule(state))


@overload(design, jit_options=_IN_PLACE)
def _design(state):  # type: ignore[no-untyped-def]
    rule = policy_of_type(state).design
    return (lambda state: None) if rule is None else (lambda state: rule(state))


@overload(deal, jit_options=_IN_PLACE)
def _deal(state, task, key, number, propensities, ticket):  # type: ignore[no-untyped-def]
    select = policy_of_type(state).select

    def deal(state, task, key, number, propensities, ticket):  # type: ignore[no-untyped-def]
        arm = select(state, task, propensities)
        if arm < 0:
            arm = pick(propensities, uniform(key, CHOICES, number))
        n = propensities.shape[1]
        write_ticket(state, arm // n, arm % n, propensities[arm // n], ticket)
        return arm

    return deal


@overload(write_ticket, jit_options=_IN_PLACE)
def _write_ticket(state, x, a, propensities, ticket):  # type: ignore[no-untyped-def]
    rule = policy_of_type(state).ticket
    if rule is None:
        return lambda state, x, a, propensities, ticket: None
    return lambda state, x, a, propensities, ticket: rule(state, x, a, propensities, ticket)


@overload(settle, jit_options=_IN_PLACE)
def _settle(state, x, a, reward, ticket):  # type: ignore[no-untyped-def]
    rule = policy_of_type(state).observe

    def settle(state, x, a, reward, ticket):  # type: ignore[no-untyped-def]
        rule(state, x, a, reward, ticket)

    return settle


@overload(stream, jit_options=_IN_PLACE)
def _stream(state):  # type: ignore[no-untyped-def]
    rule = policy_of_type(state).stream
    return (lambda state: 0) if rule is None else (lambda state: rule(state))


@overload(conclude, jit_options=_IN_PLACE)
def _conclude(state, column):  # type: ignore[no-untyped-def]
    rule = policy_of_type(state).conclude
    return lambda state, column: rule(state, column)

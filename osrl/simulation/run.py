"""A simulated run: a policy driven until it has decided.

The k-th reward of an arm is a function of (seed, run, stream, arm, k), and the n-th choice of a
randomised policy one of (seed, run, n): a run is the same whoever computes it, and a risk gives
the same run alone or in a list.

The loop comes back to Python when a rule is wrong, when it needs more rewards of one's own
(`osrl.simulation.rewards`), and when the room for a trace is used up; it is then told to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from osrl.jit.kernels import compiler_errors
from osrl.jit.mode import compile_now
from osrl.model.environment import Environment, new_environment
from osrl.model.instance import Instance
from osrl.model.rng import Key
from osrl.policies.contract import State
from osrl.policies.registry import loop_for, policy_of
from osrl.policies.steps import design_of
from osrl.policies.validation import compile_error, dry_run, invalid_choice
from osrl.simulation.protocol import AT_ONCE, HANDED_OUT, OF_ARM, OF_STREAM, WANTS_REWARDS, WHY, new_queue, play
from osrl.simulation.rewards import Rewards, add_rewards

NO_ROOM = 2  # why the loop came back, besides `WANTS_REWARDS` and what a rule can get wrong


def episode(state: State, instance: Instance, key: Key, budget: int, rewards: Rewards | None = None) -> int:
    """Drive ``state`` until every criterion is decided, or for ``budget`` rounds; return the rounds played.

    What was decided is in ``state.outcome``. ``rewards`` come in place of the family's.
    """
    return drive(play, state, instance, key, budget, rewards)


def drive(
    loop: Callable[..., None],
    state: State,
    instance: Instance,
    key: Key,
    budget: int,
    rewards: Rewards | None = None,
    trace: Any = None,
    more_room: Callable[[Any], Any] = lambda trace: trace,
) -> int:
    """Play a run with ``loop``, provide what it comes back for, and return the rounds played."""
    compile_now()
    policy = policy_of(state)
    environment = new_environment(instance, key)
    if rewards is not None:
        environment = add_rewards(environment, rewards, 0, 0)
    propensities, note, queue = np.zeros(environment.means.shape), np.zeros(4), new_queue(state, AT_ONCE)
    extra: tuple[Any, ...] = () if trace is None else (trace,)
    if policy.compiled:
        dry_run(policy, state)
    played, pointer = loop_for(loop, policy), design_of(state)
    while True:
        try:
            played(state, state.outcome, environment, AT_ONCE, queue, propensities, pointer, note, budget, True, *extra)
        except compiler_errors() as error:
            raise compile_error(policy, error) from None
        if note[WHY] == 0:
            break
        if note[WHY] == WANTS_REWARDS:
            assert rewards is not None
            environment = add_rewards(environment, rewards, int(note[OF_STREAM]), int(note[OF_ARM]))
        elif note[WHY] == NO_ROOM:
            extra = (more_room(extra[0]),)
        else:
            raise invalid_choice(policy, state, propensities, int(queue.place[HANDED_OUT]))
        note[WHY] = 0.0
    _no_answer(state, environment)
    return int(queue.place[HANDED_OUT])


def _no_answer(state: State, environment: Environment) -> None:
    """Write down the samples of a run whose rule does not guess."""
    outcome = state.outcome
    for criterion in np.flatnonzero((outcome.tau == 0) & (outcome.representation[:, 0] < 0)):
        pulls = environment.drawn.sum(axis=0)
        outcome.pulls[criterion] = pulls
        outcome.tau[criterion] = outcome.tau_g[criterion] = pulls.sum()

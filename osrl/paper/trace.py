"""Phase 1 by itself: the pulls when it ends, and how its estimate and its weights move on the way.

The same rounds as in `osrl.simulation.run`, for a policy with a first phase. Rewards are those of
the run with the same seed and number, so phase 1 ends here exactly when it ends there. Nothing is
recorded unless it is asked for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from osrl.glr.statistic import cheapest, glr_of
from osrl.jit.kernel import kernel
from osrl.model.arrays import Floats
from osrl.model.environment import World, draw_reward
from osrl.model.outcome import REPRESENTATION, Outcome
from osrl.policies.steps import deal, design, settle, wants_design

# What is recorded of each round. A change is that from the round before.
RATE, RATE_CHANGE, MEANS, MEANS_CHANGE, WEIGHTS, WEIGHTS_CHANGE, LARGEST, LARGEST_CHANGE, DISTANCE = range(9)
SERIES = 9
CHANGES = (RATE_CHANGE, MEANS_CHANGE, WEIGHTS_CHANGE, LARGEST_CHANGE)


@kernel
def play(state: Any, world: World, propensities: Floats, ticket: Floats) -> None:
    """One round of phase 1 with the weights as they are."""
    arm = deal(state, -1, world.key, 0, propensities, ticket)
    x, a = arm // propensities.shape[1], arm % propensities.shape[1]
    settle(state, x, a, draw_reward(world, 0, x, a), ticket)


@kernel
def in_phase_1(outcome: Outcome) -> bool:
    """Whether some criterion is still looking for the representation."""
    for r in range(outcome.answer.shape[1]):
        if outcome.answer[REPRESENTATION, r, 0] < 0:
            return True
    return False


@kernel
def phase_1(state: Any, outcome: Outcome, world: World, pointer: Any) -> None:
    """Drive ``state`` to the end of its first phase: its outcome has tau_g, and the pulls until then."""
    propensities, ticket = np.zeros(world.means.shape), np.zeros(1)
    while in_phase_1(outcome):
        if wants_design(state):
            design(state, pointer)
        play(state, world, propensities, ticket)


@kernel
def information(mu: Floats, q: Floats, representations: int, noise: float, sigma: float) -> float:
    """rho(q, mu) - |q|^2 / (2 sigma) for means (X, n) in the class M; C_sigma^-1(mu) is its largest value."""
    tasks, n = mu.shape
    shape = (tasks, representations, n // representations)
    glr = glr_of(mu.copy().reshape(shape), q.copy().reshape(shape), noise)
    best = np.argmax(mu[0]) // shape[2]
    return float(glr.total[cheapest(glr, best)] - norm(q) ** 2 / (2.0 * sigma))


@kernel
def norm(values: Floats) -> float:
    """The 2-norm of an array of any shape."""
    total = 0.0
    for value in values.flat:
        total += value * value
    return math.sqrt(total)


@kernel
def trace(
    state: Any,
    weights: Floats,
    estimate: Floats,
    world: World,
    pointer: Any,
    target: Floats,
    sigma: float,
    rounds: int,
) -> Floats:
    """The course of phase 1 over ``rounds`` rounds, (SERIES, rounds); ``weights``, ``estimate`` are its own.

    - RATE: C_sigma^-1 of the estimate, as the weights in use reach it; 0 before the first design.
      Its change is relative to the larger of the two, which may be below 0 while nothing is known;
    - MEANS, WEIGHTS: 2-norms of mu-hat_t and q_t; their changes are divided by sqrt(XGH);
    - LARGEST: the sup-norm of q_t, and of its change;
    - DISTANCE: |q_t - target|_2 / |target|_2, with ``target`` (X, n) the allocation of the true means.

    The criteria of ``state`` must not end phase 1 earlier.
    """
    propensities, ticket = np.zeros(weights.shape), np.zeros(1)
    scale = math.sqrt(weights.size)
    series = np.zeros((SERIES, rounds))
    before = weights.copy()
    rate = 0.0
    for t in range(rounds):
        before[:] = weights
        rate_before = rate
        if wants_design(state):
            design(state, pointer)
            rate = information(estimate, weights, state.stopping.glr.total.size, world.noise, sigma)
        estimated = estimate.copy()
        play(state, world, propensities, ticket)
        change = weights - before
        series[RATE, t] = rate
        series[RATE_CHANGE, t] = abs(rate - rate_before) / max(abs(rate), abs(rate_before), 1e-12)
        series[MEANS, t] = norm(estimate)
        series[MEANS_CHANGE, t] = norm(estimate - estimated) / scale
        series[WEIGHTS, t] = norm(weights)
        series[WEIGHTS_CHANGE, t] = norm(change) / scale
        series[LARGEST, t] = weights.max()
        series[LARGEST_CHANGE, t] = np.abs(change).max()
        series[DISTANCE, t] = norm(weights - target) / norm(target)
    return series

"""Phase 1 by itself: the pulls when it ends, and how its estimate and its weights move, averaged over runs.

Phase 1 is played as in `osrl.simulation.run`, with the rewards of the run with the same seed and number, so it
ends here exactly when it ends there. The averages are the curves of the paper's figures on C_sigma, mu-hat and
q_sigma. Changes from round to round are low-pass filtered, run by run, by the paper's Butterworth filter, forwards
and backwards so that the curve is not delayed. Sampling does not depend on the risk, so every run is followed for
the same number of rounds, whenever it would have stopped.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.signal import butter, sosfiltfilt

from osrl.glr.statistic import cheapest, glr_of
from osrl.jit import kernel
from osrl.model.arrays import Floats
from osrl.model.environment import Environment, draw_reward, new_environment
from osrl.model.outcome import REPRESENTATION, Outcome
from osrl.model.rng import Key
from osrl.paper.experiment import Experiment
from osrl.paper.published import FILTER_FREQUENCY, FILTER_ORDER, SIGMA
from osrl.policies.contract import Criterion
from osrl.policies.registry import find
from osrl.policies.steps import apply_reward, design, design_of, issue_trial, wants_design
from osrl.policies.stopping.per_task_test import TEST_MEANS
from osrl.simulation.runs import Z975

SERIES = (  # what is recorded of each round; a change is that from the round before
    "rate",
    "rate_change",
    "means_norm",
    "means_change",
    "weights_norm",
    "weights_change",
    "weights_largest",
    "weights_largest_change",
    "weights_distance",
)
(
    RATE,
    RATE_CHANGE,
    MEANS_NORM,
    MEANS_CHANGE,
    WEIGHTS_NORM,
    WEIGHTS_CHANGE,
    WEIGHTS_LARGEST,
    WEIGHTS_LARGEST_CHANGE,
    WEIGHTS_DISTANCE,
) = range(9)
CHANGES = (RATE_CHANGE, MEANS_CHANGE, WEIGHTS_CHANGE, WEIGHTS_LARGEST_CHANGE)
TRACED_ROUNDS = 4000
POLICIES = ("osrl-sc", "osrl-sc-released")
NEVER = 1e-300  # a risk at which phase 1 does not end while it is watched
_FILTER = butter(FILTER_ORDER, FILTER_FREQUENCY, output="sos")


@kernel
def play_round(state: Any, environment: Environment, propensities: Floats, ticket: Floats) -> None:
    """Play one round of phase 1 with the weights as they are."""
    arm = issue_trial(state, -1, environment.key, 0, propensities, ticket)
    x, a = arm // propensities.shape[1], arm % propensities.shape[1]
    apply_reward(state, x, a, draw_reward(environment, 0, x, a), ticket)


@kernel
def in_phase_1(outcome: Outcome) -> bool:
    """Tell whether some criterion has not decided on the representation yet."""
    for r in range(outcome.answer.shape[1]):
        if outcome.answer[REPRESENTATION, r, 0] < 0:
            return True
    return False


@kernel
def play_phase_1(state: Any, outcome: Outcome, environment: Environment, pointer: Any) -> None:
    """Drive ``state`` to the end of its first phase: its outcome has tau_g, and the pulls until then."""
    propensities, ticket = np.zeros(environment.means.shape), np.zeros(1)
    while in_phase_1(outcome):
        if wants_design(state):
            design(state, pointer)
        play_round(state, environment, propensities, ticket)


@kernel
def information(mu: Floats, q: Floats, representations: int, noise: float, sigma: float) -> float:
    """Return rho(q, mu) - |q|^2 / (2 sigma) for means (X, n) in M; C_sigma^-1(mu) is its largest value."""
    tasks, n = mu.shape
    shape = (tasks, representations, n // representations)
    glr = glr_of(mu.copy().reshape(shape), q.copy().reshape(shape), noise)
    best = np.argmax(mu[0]) // shape[2]
    return float(glr.total[cheapest(glr, best)] - norm(q) ** 2 / (2.0 * sigma))


@kernel
def norm(values: Floats) -> float:
    """Return the 2-norm of an array of any shape."""
    total = 0.0
    for value in values.flat:
        total += value * value
    return math.sqrt(total)


@kernel
def trace_phase_1(
    state: Any,
    weights: Floats,
    estimate: Floats,
    environment: Environment,
    pointer: Any,
    target: Floats,
    sigma: float,
    rounds: int,
) -> Floats:
    """Return the course of phase 1, (SERIES, rounds); ``weights`` and ``estimate`` are views of ``state``.

    - RATE: C_sigma^-1 of the estimate, as the weights in use reach it; 0 before the first design.
      Its change is relative to the larger of the two, which may be below 0 while nothing is known;
    - MEANS_NORM, WEIGHTS_NORM: 2-norms of mu-hat_t and q_t; their changes are divided by sqrt(XGH);
    - WEIGHTS_LARGEST: the sup-norm of q_t, and of its change;
    - WEIGHTS_DISTANCE: |q_t - target|_2 / |target|_2, with ``target`` (X, n) the allocation of the true means.

    The criteria of ``state`` must not end phase 1 earlier.
    """
    propensities, ticket = np.zeros(weights.shape), np.zeros(1)
    scale = math.sqrt(weights.size)
    series = np.zeros((WEIGHTS_DISTANCE + 1, rounds))
    before = weights.copy()
    rate = 0.0
    for t in range(rounds):
        before[:] = weights
        rate_before = rate
        if wants_design(state):
            design(state, pointer)
            rate = information(estimate, weights, state.stopping.glr.total.size, environment.noise, sigma)
        estimated = estimate.copy()
        play_round(state, environment, propensities, ticket)
        change = weights - before
        series[RATE, t] = rate
        series[RATE_CHANGE, t] = abs(rate - rate_before) / max(abs(rate), abs(rate_before), 1e-12)
        series[MEANS_NORM, t] = norm(estimate)
        series[MEANS_CHANGE, t] = norm(estimate - estimated) / scale
        series[WEIGHTS_NORM, t] = norm(weights)
        series[WEIGHTS_CHANGE, t] = norm(change) / scale
        series[WEIGHTS_LARGEST, t] = weights.max()
        series[WEIGHTS_LARGEST_CHANGE, t] = np.abs(change).max()
        series[WEIGHTS_DISTANCE, t] = norm(weights - target) / norm(target)
    return series


class Dynamics(NamedTuple):
    """Averages over runs for rounds 1, 2, ..., and the half-width of their 97.5 % intervals."""

    policy: str
    runs: int
    mean: Floats  # (SERIES, rounds)
    ci975: Floats  # (SERIES, rounds)

    def frame(self) -> pl.DataFrame:
        """Return one row for each round."""
        columns: dict[str, Floats] = {}
        for i, name in enumerate(SERIES):
            columns[name] = self.mean[i]
            columns[f"{name}_ci975"] = self.ci975[i]
        rounds = np.arange(1, self.mean.shape[1] + 1)
        return pl.DataFrame({"policy": [self.policy] * rounds.size, "round": rounds, **columns})


def follow(experiment: Experiment, policy: str, target: Floats, rounds: int = TRACED_ROUNDS) -> Dynamics:
    """Record phase 1 of ``policy`` in every run; ``target`` (X, n) is q_sigma* of the true means."""
    criterion = (Criterion(find(policy).thresholds[0], NEVER, 0.5),)

    def measure(key: Key) -> Floats:
        state = experiment.new_state(policy, criterion, key)
        environment = new_environment(experiment.instance, key)
        estimate = state.stopping.contests.arms[TEST_MEANS]
        series = trace_phase_1(
            state, state.sampling.weights, estimate, environment, design_of(state), target, SIGMA, rounds
        )
        series[list(CHANGES)] = low_pass(series[list(CHANGES)])
        return series

    mean, std = experiment.average(f"runs of {policy}, recorded", measure)
    return Dynamics(policy, experiment.runs, mean, Z975 * np.nan_to_num(std) / math.sqrt(experiment.runs))


def low_pass(changes: Floats) -> Floats:
    """Apply the paper's filter along the last axis."""
    return np.asarray(sosfiltfilt(_FILTER, changes, axis=-1), dtype=np.float64)

"""How phase 1 moves, averaged over runs: the curves of the paper's figures on C_sigma, mu-hat and q_sigma.

Changes from round to round are low-pass filtered, run by run, by the paper's Butterworth filter,
forwards and backwards so that the curve is not delayed. Sampling does not depend on the risk, so
every run is followed for the same number of rounds, whenever it would have stopped.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.signal import butter, sosfiltfilt

from osrl.model.arrays import Floats
from osrl.model.environment import new_world
from osrl.model.rng import Key
from osrl.paper.experiment import Experiment
from osrl.paper.published import FILTER_FREQUENCY, FILTER_ORDER, SIGMA
from osrl.paper.trace import CHANGES, trace
from osrl.policies.contract import Criterion, find
from osrl.policies.steps import design_of
from osrl.policies.stopping.per_task_test import MEANS
from osrl.simulation.runs import Z975

ROUNDS = 4000
POLICIES = ("osrl-sc", "osrl-sc-released")
NAMES = (  # of the series of `osrl.paper.trace`
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
NEVER = 1e-300  # a risk at which phase 1 does not end while it is watched
_FILTER = butter(FILTER_ORDER, FILTER_FREQUENCY, output="sos")


class Dynamics(NamedTuple):
    """Averages over runs for rounds 1, 2, ..., and the half-width of their 97.5 % intervals."""

    policy: str
    runs: int
    mean: Floats  # (SERIES, rounds)
    ci975: Floats  # (SERIES, rounds)

    def frame(self) -> pl.DataFrame:
        """One row for each round."""
        columns: dict[str, Floats] = {}
        for i, name in enumerate(NAMES):
            columns[name] = self.mean[i]
            columns[f"{name}_ci975"] = self.ci975[i]
        rounds = np.arange(1, self.mean.shape[1] + 1)
        return pl.DataFrame({"policy": [self.policy] * rounds.size, "round": rounds, **columns})


def follow(experiment: Experiment, policy: str, target: Floats, rounds: int = ROUNDS) -> Dynamics:
    """Watch phase 1 of ``policy`` in every run; ``target`` (X, n) is q_sigma* of the true means."""
    criterion = (Criterion(find(policy).thresholds[0], NEVER, 0.5),)

    def measure(key: Key) -> Floats:
        state = experiment.new_state(policy, criterion, key)
        world = new_world(experiment.instance, key)
        estimate = state.stopping.contests.arms[MEANS]
        series = trace(state, state.sampling.weights, estimate, world, design_of(state), target, SIGMA, rounds)
        series[list(CHANGES)] = low_pass(series[list(CHANGES)])
        return series

    mean, std = experiment.average(f"runs of {policy}, recorded", measure)
    return Dynamics(policy, experiment.runs, mean, Z975 * np.nan_to_num(std) / math.sqrt(experiment.runs))


def low_pass(changes: Floats) -> Floats:
    """The paper's filter along the last axis."""
    return np.asarray(sosfiltfilt(_FILTER, changes, axis=-1), dtype=np.float64)

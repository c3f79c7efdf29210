"""When the tasks share no representation, the verdict says so, soon; when they do, it hardly ever does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import osrl
from osrl.instance import Instance

DISAGREE = {
    "two tasks": [[[0.8, 0.4], [0.5, 0.3]], [[0.4, 0.3], [0.5, 0.8]]],
    "two of four tasks": [
        [[0.7, 0.4], [0.4, 0.3], [0.2, 0.3]],
        [[0.8, 0.4], [0.4, 0.3], [0.2, 0.3]],
        [[0.4, 0.3], [0.4, 0.7], [0.2, 0.3]],
        [[0.8, 0.5], [0.4, 0.3], [0.2, 0.3]],
    ],
    "one predictor each": [[[0.7], [0.4]], [[0.4], [0.7]]],
}


@pytest.mark.parametrize("policy", ["osrl", "uniform"])
@pytest.mark.parametrize("case", DISAGREE)
def test_the_verdict_comes_with_bounded_samples(policy: str, case: str) -> None:
    found = osrl.simulate(Instance.bernoulli(DISAGREE[case]), policy, 0.1, 200, budget=20_000).frame
    verdicts = (found["verdict"] == "no shared representation").sum()
    assert verdicts >= 150  # in the others a representation looked right in every task
    tau = found["tau"].to_numpy()
    assert tau.max() < 20_000
    assert np.median(tau) < 2_500


def test_gaussian_tasks_that_disagree() -> None:
    instance = Instance.gaussian([[[2.0, 0.0], [0.5, 0.0]], [[0.5, 0.0], [2.0, 0.0]]], noise_sd=1.5)
    found = osrl.simulate(instance, "osrl", 0.1, 40, budget=20_000).frame
    assert (found["verdict"] == "no shared representation").sum() >= 32


def test_false_alarms_stay_below_the_risk() -> None:
    """Tasks that do share one, with gaps so small that much could go wrong."""
    means = [[[0.6, 0.45], [0.5, 0.45]], [[0.45, 0.6], [0.45, 0.5]]]
    found = osrl.simulate(Instance.bernoulli(means), "osrl", 0.2, 1000).frame
    alarms = (found["verdict"] == "no shared representation").sum()
    wrong = 1000 - (found["correct_g"] & (found["verdict"] == "decided")).sum()
    assert alarms <= wrong <= binom.isf(1e-6, 1000, 0.2)
    assert (found["verdict"] != "budget exhausted").all()

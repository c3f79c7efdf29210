"""When the tasks share no representation, the verdict says so, soon; when they do, it hardly ever does."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import osrl
from osrl.model.instance import Instance

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


@pytest.mark.slow
def test_gaussian_tasks_that_disagree() -> None:
    instance = Instance.gaussian([[[2.0, 0.0], [0.5, 0.0]], [[0.5, 0.0], [2.0, 0.0]]], noise_sd=1.5)
    found = osrl.simulate(instance, "osrl", 0.1, 40, budget=20_000).frame
    assert (found["verdict"] == "no shared representation").sum() >= 32


def test_a_false_alarm_is_an_error_about_the_representation() -> None:
    """In the class M it is wrong that none is shared, whatever the guesses; no predictor is judged then."""
    means = [[[0.6, 0.45], [0.5, 0.45]], [[0.45, 0.6], [0.45, 0.5]]]
    runs = osrl.simulate(Instance.bernoulli(means), "osrl", delta_g=0.9, delta_h=0.9, runs=400)
    none = runs.frame["verdict"] == "no shared representation"
    row = runs.summary().to_dicts()[0]
    guesses = [set(each) == {"g1"} for each in runs.frame["representations"]]
    assert (none & pl.Series(guesses)).sum() > 0, "an instance without such a case shows nothing"
    assert not runs.frame.filter(none)["correct_g"].any()
    assert row["no_shared"] == none.sum()
    wrong_g = int((~runs.frame["correct_g"]).sum())
    assert row["error_g"] == wrong_g / 400 and wrong_g >= none.sum()
    named = runs.frame.filter(~none & pl.Series(guesses))
    wrong = ~np.array(named["correct_h"].to_list())
    assert row["error_h"] == wrong.sum(axis=0).max() / 400


def test_the_verdict_is_counted_where_it_is_right() -> None:
    runs = osrl.simulate(Instance.bernoulli(DISAGREE["one predictor each"]), "osrl", 0.1, 50, budget=20_000)
    row = runs.summary().to_dicts()[0]
    assert row["no_shared"] == (runs.frame["verdict"] == "no shared representation").sum() > 0
    assert row["error_g"] is None


@pytest.mark.slow
def test_false_alarms_stay_below_the_risk() -> None:
    """Tasks that do share one, with gaps so small that much could go wrong."""
    means = [[[0.6, 0.45], [0.5, 0.45]], [[0.45, 0.6], [0.45, 0.5]]]
    found = osrl.simulate(Instance.bernoulli(means), "osrl", 0.2, 1000).frame
    alarms = (found["verdict"] == "no shared representation").sum()
    wrong = 1000 - (found["correct_g"] & (found["verdict"] == "decided")).sum()
    assert alarms <= wrong <= binom.isf(1e-6, 1000, 0.2)
    assert (found["verdict"] != "budget exhausted").all()

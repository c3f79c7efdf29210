"""E-processes as objects: what they say, when they refuse, and that they stay sound over many rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from osrl.evidence.processes import Betting, Counts, Pairs, Pooled, Universal
from osrl.model.families import Family
from tests.support.instances import refused

COUNTS: list[type[Counts]] = [Pairs, Pooled, Universal]


def flip(evidence: Betting | Counts, means: list[float], trials: int, seed: int = 0) -> None:
    """Draw arms evenly at random, with rewards 0 and 1."""
    rng = np.random.default_rng(seed)
    n = len(means)
    for _ in range(trials):
        arm = int(rng.integers(n))
        reward = float(rng.random() < means[arm])
        if isinstance(evidence, Betting):
            evidence.observe(arm, reward, [1 / n] * n)
        else:
            evidence.observe(arm, reward)


@pytest.mark.parametrize("kind", [Betting, *COUNTS])
def test_false_nulls_are_rejected_and_the_true_one_is_not(kind: type[Betting] | type[Counts]) -> None:
    evidence = kind(3)
    flip(evidence, [0.8, 0.3, 0.2], 400)
    assert (evidence.p_value[1:] < 0.01).all()
    assert evidence.p_value[0] > 0.1
    assert evidence.lacking(0.01).tolist()[1:] == [0.0, 0.0]
    assert evidence.lacking(0.01)[0] >= math.log(100) - 1e-9
    assert evidence.trials_to_reject(0.01)[0] == math.inf


@pytest.mark.parametrize("kind", [Betting, *COUNTS])
def test_what_is_lacking_and_the_trials_it_takes(kind: type[Betting] | type[Counts]) -> None:
    evidence = kind(2)
    flip(evidence, [0.9, 0.3], 60, seed=1)
    delta = 1e-12
    value, lacking = evidence.log_value[1], evidence.lacking(delta)[1]
    assert value > 0
    assert lacking == pytest.approx(math.log(1 / delta) - value)
    assert evidence.trials_to_reject(delta)[1] == math.ceil(lacking * 60 / value)


def test_a_p_value_never_rises_again() -> None:
    evidence = Pairs(2)
    for arm, reward in [(0, 1.0), (1, 0.0)] * 10 + [(0, 0.0), (1, 1.0)] * 30:
        before = evidence.p_value
        evidence.observe(arm, reward)
        assert (evidence.p_value <= before).all()
    assert evidence.log_value[1] == -math.inf
    assert evidence.p_value[1] < 0.05


def test_gaussian_rewards() -> None:
    rng = np.random.default_rng(2)
    for kind in COUNTS:
        evidence = kind(2, Family("gaussian", 2.0))
        for t in range(300):
            evidence.observe(t % 2, float(rng.normal([5.0, 3.0][t % 2], 2.0)))
        assert evidence.p_value[1] < 0.01 < evidence.p_value[0]


def test_wealth_stays_a_number_over_a_million_bad_rounds() -> None:
    """Rewards at the edge, always the worst one: the wealth of every bet falls, and its logarithm says so."""
    evidence = Betting(2)
    flip(evidence, [0.9, 0.1], 200)
    for _ in range(3000):
        evidence.observe(0, 0.0, [0.5, 0.5])
        evidence.observe(1, 1.0, [0.5, 0.5])
    assert np.isfinite(evidence.wealth).all()
    assert np.isfinite(evidence.log_value).all()


def test_bad_input_is_refused_and_changes_nothing() -> None:
    evidence = Betting(2)
    with refused("arm 2 of 2"):
        evidence.observe(2, 1.0, [0.5, 0.5])
    for reward in (math.nan, -0.1, 1.1):
        with refused(f"the reward is {reward}"):
            evidence.observe(0, reward, [0.5, 0.5])
    for propensities in ([0.5, 0.6], [1.0], [0.0, 1.0], [math.nan, 1.0], [1.5, -0.5]):
        with refused("propensities"):
            evidence.observe(0, 1.0, propensities)
    with refused("the reward is 0.5"):
        Pairs(2).observe(0, 0.5)
    with refused("1 arms"):
        Pooled(1)
    Pooled(2, Family("bounded")).observe(0, 0.5)
    with refused("the risk is 0"):
        evidence.lacking(0)
    assert evidence.trials == 0
    assert (evidence.wealth == 0).all()

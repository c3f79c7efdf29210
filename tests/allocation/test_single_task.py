"""Exact track-and-stop weights of one task: published values, optimality, and arms at the edge."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from osrl.allocation import single_task
from tests.oracle import bounds as oracle_bounds
from tests.oracle import paper as oracle
from tests.support.instances import Array

pytestmark = pytest.mark.nojit


def evidence(weights: Array, mu: Array, noise: float) -> Array:
    """Return what ``weights`` gather in one sample against each arm but the best."""
    best = int(mu.argmax())
    return np.array(
        [oracle.two_arm_cost(weights[best], mu[best], weights[a], mu[a], noise) for a in range(mu.size) if a != best]
    )


@pytest.mark.parametrize(
    ("means", "time", "weights"),
    [
        ([0.6, 0.5], 197.65, [0.5017, 0.4983]),
        ([0.5, 0.45, 0.43, 0.4], 989.79, [0.4165, 0.3903, 0.1362, 0.0570]),
        ([0.3, 0.21, 0.2, 0.19, 0.18], 326.64, [0.3359, 0.2515, 0.1766, 0.1324, 0.1036]),
    ],
)
def test_published_values(means: list[float], time: float, weights: list[float]) -> None:
    """THEORY, section 3, to every digit printed."""
    found = single_task(np.array(means), 0.0)
    assert round(found.time, 2) == time
    assert found.weights.round(4).tolist() == weights


tasks = st.lists(st.floats(0.01, 0.99), min_size=2, max_size=7)


@given(tasks, st.sampled_from([0.0, 0.25]))
def test_equals_the_oracle(means: list[float], noise: float) -> None:
    top, *others = sorted(means, reverse=True)
    assume(top - others[0] > 1e-3)
    found = single_task(np.array([top, *others]), noise)
    time, weights = oracle_bounds.characteristic_time(top, others, noise)
    assert found.time == pytest.approx(time, rel=1e-7)
    np.testing.assert_allclose(found.weights, weights, atol=1e-4)


@given(st.lists(st.sampled_from([0.0, 1.0]) | st.floats(1e-4, 1 - 1e-4), min_size=2, max_size=7))
@example([1.0, 0.0])
@example([0.5, 0.0, 0.0])
@example([1e-3, 0.0])
@example([1.0, 0.999])
@example([0.999, 0.99, 0.0])
def test_conditions_of_optimality(means: list[float]) -> None:
    """Optimal: equal evidence 1 / T* against all, and sum of kl(mu_1, m_a) / kl(mu_a, m_a) = 1."""
    mu = np.array(means)
    top = np.sort(mu)[-1]
    assume(top - np.sort(mu)[-2] > 1e-4)
    weights, time = single_task(mu, 0.0)
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(evidence(weights, mu, 0.0) * time, 1.0, rtol=1e-7)
    best = int(mu.argmax())
    levels = (weights[best] * top + weights * mu) / (weights[best] + weights)
    ratios = [oracle.kl(top, levels[a]) / oracle.kl(mu[a], levels[a]) for a in range(mu.size) if a != best]
    assert math.fsum(ratios) == pytest.approx(1.0, rel=1e-6)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.floats(0.1, 10))
def test_gaussian_weights_do_not_depend_on_the_noise(means: list[float], noise: float) -> None:
    mu = np.sort(np.array(means))
    assume(mu[-1] - mu[-2] > 1e-3)
    found, unit = single_task(mu, noise), single_task(mu, 1.0)
    assert found.time == pytest.approx(noise * unit.time, rel=1e-9)
    np.testing.assert_allclose(found.weights, unit.weights, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(evidence(unit.weights, mu, 1.0) * unit.time, 1.0, rtol=1e-7)


def test_two_gaussian_arms_share_evenly() -> None:
    weights, time = single_task(np.array([3.0, 1.0]), 0.5)
    assert weights.tolist() == pytest.approx([0.5, 0.5], rel=1e-9)
    assert time == pytest.approx(8 * 0.5 / 2.0**2, rel=1e-12)


def test_a_sure_win_against_sure_losses() -> None:
    """[1, 0]: both arms become coins of mean 1/2, so T* = 1 / log 2."""
    weights, time = single_task(np.array([0.0, 1.0]), 0.0)
    assert time == pytest.approx(1 / math.log(2), rel=1e-9)
    assert weights.tolist() == pytest.approx([0.5, 0.5], rel=1e-7)
    small = single_task(np.array([1e-9, 0.0]), 0.0)
    assert 1 / small.time == pytest.approx(1e-9 * math.exp(-1), rel=1e-6)


@given(tasks)
def test_the_order_of_arms_does_not_matter(means: list[float]) -> None:
    mu = np.array(means)
    assume(np.sort(mu)[-1] - np.sort(mu)[-2] > 1e-3)
    order = np.random.default_rng(len(means)).permutation(mu.size)
    found, shuffled = single_task(mu, 0.0), single_task(mu[order], 0.0)
    assert shuffled.time == pytest.approx(found.time, rel=1e-9)
    np.testing.assert_allclose(shuffled.weights, found.weights[order], rtol=1e-6)


def test_nothing_to_find() -> None:
    one = single_task(np.array([0.4]), 0.0)
    assert one.time == 0.0 and one.weights.tolist() == [1.0]
    for noise in (0.0, 1.0):
        tied = single_task(np.array([0.5, 0.2, 0.5]), noise)
        assert tied.time == math.inf and tied.weights.tolist() == pytest.approx([1 / 3] * 3)


def test_more_rivals_take_longer() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        mu = np.array([0.8, *rng.uniform(0, 0.75, 5)])
        times = [single_task(mu[: k + 1], 0.0).time for k in range(1, 6)]
        assert (np.diff(times) > 0).all()

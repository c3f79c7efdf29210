"""The closest confusing model of one task, against the printed set U and against its own properties."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osrl.glr.transport_cost import (
    Alternatives,
    alternatives,
    gradient,
    pool_sizes,
    reference_mean,
    sort_by_mean,
    sorted_costs,
)
from tests.oracle import paper as oracle
from tests.support.instances import Array, Weighted, weighted

pytestmark = pytest.mark.nojit


def task(case: Weighted, x: int) -> tuple[Array, Array, Alternatives]:
    """Return means, weights and alternatives of one task, flattened."""
    mu, q = case.means[x].ravel().copy(), case.weights[x].ravel().copy()
    return mu, q, alternatives(mu, q, case.noise)


def rounding(case: Weighted, x: int) -> float:
    """Return what rounding may change in a cost: some units in the last place of q kl, and kl is at most 30."""
    spread = 30.0 if case.noise == 0 else 1.0 + np.ptp(case.means[x]) ** 2 / case.noise
    return float(1e-13 * spread * case.weights[x].sum())


def pool(found: Alternatives, b: int) -> set[int]:
    return {b, *found.order[: found.size[b]].tolist()}


@given(weighted())
def test_costs_equal_the_printed_set_U(case: Weighted) -> None:
    X, G, H = case.means.shape
    for x in range(X):
        _, _, found = task(case, x)
        for g, h in itertools.product(range(G), range(H)):
            expected = oracle.ell(case.weights, case.means, x, g, h, case.noise)
            assert found.cost[g * H + h] == pytest.approx(expected, rel=1e-9, abs=rounding(case, x))


@given(weighted())
def test_pools_and_levels_equal_the_printed_set_U(case: Weighted) -> None:
    """Up to arms that change nothing: those without samples, and those whose mean is the level."""
    X, G, H = case.means.shape
    for x in range(X):
        mu, q, found = task(case, x)
        for g, h in itertools.product(range(G), range(H)):
            b = g * H + h
            if q[b] == 0.0:
                assert found.cost[b] == 0.0
                continue
            printed = oracle.confusing_arms(case.weights, case.means, x, (g, h))
            level = oracle.pooled_mean(case.weights, case.means, x, printed)
            assert found.level[b] == pytest.approx(level, rel=1e-12, abs=1e-12)
            matters = [a for a in range(mu.size) if q[a] > 0 and abs(mu[a] - level) > 1e-9]
            expected = {a for a in matters if (a // H, a % H) in printed}
            assert pool(found, b) & set(matters) == expected


@given(weighted())
def test_pool_is_the_arm_and_every_arm_above_the_level(case: Weighted) -> None:
    mu, q, found = task(case, 0)
    for b in range(mu.size):
        if q[b] > 0:
            above = {a for a in range(mu.size) if mu[a] > found.level[b] + 1e-9}
            below = {a for a in range(mu.size) if mu[a] < found.level[b] - 1e-9}
            assert above <= pool(found, b)
            assert not (below - {b}) & pool(found, b)


@given(weighted(zeros=False))
def test_gradient_is_the_divergence_from_the_level_on_the_pool(case: Weighted) -> None:
    mu, q, found = task(case, 0)
    for b in range(mu.size):
        slope = gradient(found, mu, case.noise, b)
        expected = np.zeros(mu.size)
        for a in pool(found, b):
            expected[a] = oracle.kl(mu[a], found.level[b], case.noise)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-14)
        # Euler: a homogeneous function is its gradient times its argument
        assert slope @ q == pytest.approx(found.cost[b], rel=1e-8, abs=rounding(case, 0))


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_gradient_equals_finite_differences_of_the_oracle(noise: float) -> None:
    rng = np.random.default_rng(5)
    for shape in ((1, 2, 1), (1, 3, 2), (1, 4, 4)):
        means = rng.normal(size=shape) if noise > 0 else rng.uniform(0.05, 0.95, shape)
        weights = rng.uniform(0.2, 1.0, shape)
        mu, _, found = task(Weighted(means, weights, noise), 0)
        for g, h in oracle.arms_of(means):
            expected = oracle.ell_gradient(weights, means, 0, g, h, noise).ravel()
            np.testing.assert_allclose(gradient(found, mu, noise, g * shape[2] + h), expected, atol=1e-5)


@given(weighted(zeros=False), st.integers(0, 2**32 - 1))
def test_cost_is_concave_and_homogeneous(case: Weighted, seed: int) -> None:
    """The tangent at q lies above the cost everywhere, and doubling the samples doubles the cost."""
    mu, q, found = task(case, 0)
    other = np.random.default_rng(seed).permutation(q) * 1.5
    at_other = alternatives(mu, other, case.noise)
    tolerance = 10 * rounding(case, 0)
    for b in range(mu.size):
        assert at_other.cost[b] <= gradient(found, mu, case.noise, b) @ other + tolerance
    middle = alternatives(mu, 0.5 * (q + other), case.noise)
    assert (middle.cost >= 0.5 * (found.cost + at_other.cost) - tolerance).all()
    twice = alternatives(mu, 2.0 * q, case.noise)
    np.testing.assert_allclose(twice.cost, 2.0 * found.cost, rtol=1e-9, atol=tolerance)


@given(weighted(), st.randoms(use_true_random=False))
def test_the_order_of_arms_does_not_matter(case: Weighted, random: Random) -> None:
    mu, q, found = task(case, 0)
    order = list(range(mu.size))
    random.shuffle(order)
    shuffled = alternatives(mu[order], q[order], case.noise)
    np.testing.assert_allclose(shuffled.cost, found.cost[order], rtol=1e-9, atol=rounding(case, 0))


@given(weighted())
def test_the_best_arm_costs_nothing_and_more_samples_cost_more(case: Weighted) -> None:
    mu, q, found = task(case, 0)
    assert found.cost[mu == mu.max()].max() == pytest.approx(0.0, abs=rounding(case, 0))
    assert (found.cost >= 0.0).all()
    more = alternatives(mu, q + np.arange(mu.size), case.noise)
    assert (more.cost >= found.cost - 10 * rounding(case, 0)).all()


def test_nothing_sampled_costs_nothing() -> None:
    found = alternatives(np.array([1.0, 0.0, 0.5]), np.zeros(3), 0.0)
    assert found.cost.tolist() == [0.0, 0.0, 0.0]
    assert np.isfinite(found.level).all()


def test_close_means_keep_their_digits() -> None:
    """Two arms 1e-7 apart: the cost is 2 (d/2)^2 / (2 var) to first order, about 1e-14."""
    for middle in (0.5, 0.01, 0.99):
        mu = middle + np.array([0.5e-7, -0.5e-7])
        cost = alternatives(mu, np.ones(2), 0.0).cost[1]
        assert cost == pytest.approx((mu[0] - mu[1]) ** 2 / (4 * middle * (1 - middle)), rel=1e-6)


def test_extreme_means() -> None:
    """A sure win against a sure loss, one sample each: both become coins of mean 1/2, at log 2 apiece."""
    found = alternatives(np.array([1.0, 0.0]), np.ones(2), 0.0)
    assert found.cost[1] == pytest.approx(2 * math.log(2), rel=1e-7)
    assert found.level[1] == 0.5
    assert reference_mean(1.0, 0.0) < 1.0 and reference_mean(0.0, 0.0) > 0.0
    assert reference_mean(1.0, 1.0) == 1.0 and reference_mean(0.3, 0.0) == 0.3


@given(weighted())
def test_kernels_on_sorted_arms_agree_with_each_other(case: Weighted) -> None:
    mu, q, found = task(case, 0)
    n = mu.size
    order = np.arange(n)[::-1].copy()
    sort_by_mean(mu, order)
    assert (np.diff(mu[order]) <= 0).all() and sorted(order.tolist()) == list(range(n))
    level, mass, cost = np.empty(n), np.empty(n), np.empty(n)
    size = np.empty(n, np.int64)
    sums = np.empty((4, n + 1))
    sorted_costs(mu[order], q[order], case.noise, sums, level, size, mass, cost)
    np.testing.assert_allclose(cost, found.cost[order], rtol=1e-9, atol=rounding(case, 0))
    for b in range(n):
        assert mass[b] == pytest.approx(q[order[: size[b]]].sum() + q[order[b]], rel=1e-12, abs=1e-12)
    again = np.empty(n), np.empty(n, np.int64), np.empty(n)
    pool_sizes(mu[order], q[order], sums, *again)
    assert (again[0] == level).all() and (again[1] == size).all() and (again[2] == mass).all()

"""The oracle against itself: two independent computations, or a published number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.oracle import bounds as oracle_bounds
from tests.oracle import paper as oracle

Shape = tuple[int, int, int]


def random_case(rng: np.random.Generator, shape: Shape, noise: float) -> tuple[oracle.Array, oracle.Array]:
    """Means, and weights over several orders of magnitude, some of them zero."""
    means = rng.normal(size=shape) if noise > 0.0 else rng.uniform(0.03, 0.97, shape)
    weights = rng.uniform(size=shape) ** 4 * rng.choice([1.0, 1e4]) * (rng.uniform(size=shape) > 0.15)
    return means, weights


def shared(rng: np.random.Generator, shape: Shape, noise: float) -> oracle.Array:
    """Means of a system in the class M: the best arm of every task is moved to the last representation."""
    means, _ = random_case(rng, shape, noise)
    for x in range(shape[0]):
        g, h = np.unravel_index(means[x].argmax(), shape[1:])
        means[x, [g, -1], h] = means[x, [-1, g], h]
    return means


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_printed_pool_attains_the_infimum(noise: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(25):
        means, weights = random_case(rng, (1, 2, 3), noise)
        weights[0, 0, 0] += 0.1
        for g, h in oracle.arms_of(means):
            printed = oracle.ell(weights, means, 0, g, h, noise) / weights.sum()
            level = oracle.ell_by_level(weights, means, 0, g, h, noise) / weights.sum()
            infimum = oracle.ell_by_infimum(weights, means, 0, g, h, noise) / weights.sum()
            assert printed == pytest.approx(level, rel=1e-9, abs=1e-14)
            assert printed == pytest.approx(infimum, rel=1e-6, abs=1e-10)


def test_arms_without_samples_cost_nothing() -> None:
    means = np.array([[[0.9, 0.0], [0.4, 1.0]]])
    assert oracle.ell(np.zeros_like(means), means, 0, 1, 0) == 0.0
    unsampled = np.array([[[5.0, 3.0], [0.0, 2.0]]])
    assert oracle.ell(unsampled, means, 0, 1, 0) == pytest.approx(0.0, abs=1e-15)
    pair = np.array([[[5.0, 0.0], [2.0, 0.0]]])
    assert oracle.ell(pair, means, 0, 1, 0) == pytest.approx(oracle.two_arm_cost(5.0, 0.9, 2.0, 0.4))
    assert oracle.f(np.zeros_like(means), means, 0, 1, 0, 0) == 0.0


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_gradient_is_the_divergence_to_the_pooled_mean(noise: float) -> None:
    means, weights = random_case(np.random.default_rng(2), (2, 2, 3), noise)
    weights = weights / weights.max() + 0.01
    for g, h in oracle.arms_of(means):
        pool = oracle.confusing_arms(weights, means, 1, (g, h))
        m = oracle.pooled_mean(weights, means, 1, pool)
        expected = np.zeros(means.shape[1:])
        for arm in pool:
            expected[arm] = oracle.kl(means[1][arm], m, noise)
        found = oracle.ell_gradient(weights, means, 1, g, h, noise)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_class_membership_and_witness() -> None:
    assert oracle.best_arms(oracle.PAPER) == (0, (0, 0))
    tie, split = oracle.PAPER.copy(), oracle.PAPER.copy()
    tie[0, 0, 1] = 0.5
    split[1, 2, 1] = 0.6
    assert oracle.in_class(oracle.PAPER) and not oracle.in_class(tie) and not oracle.in_class(split)
    uniform = np.full(oracle.PAPER.shape, 1.0 / 12.0)
    rival = oracle.rho(uniform, oracle.PAPER)
    assert (rival.gbar, rival.hbar) == (1, (0, 0))
    assert rival == oracle.psi(uniform, oracle.PAPER, 0)
    by_hand = sum(oracle.ell_by_level(uniform, oracle.PAPER, x, 1, 0) for x in range(2))
    assert rival.value == pytest.approx(by_hand)
    assert oracle.psi(uniform, oracle.PAPER, 1).value == pytest.approx(0.0, abs=1e-15)


def test_largest_rho_of_the_paper_instance() -> None:
    needs = np.ones(3), np.zeros((2, 2))
    weights, lower, upper = oracle_bounds.cutting_planes(oracle.PAPER, 0.0, *needs, 0, (0, 0), tolerance=1e-8)
    assert lower <= upper <= lower * (1 + 1e-8)
    assert lower == pytest.approx(0.0391558, abs=5e-8) and 1.0 / lower == pytest.approx(25.539, abs=5e-4)
    assert oracle.rho(weights, oracle.PAPER).value == pytest.approx(lower, rel=1e-12)
    expected = [[0.1925, 0.0], [0.0, 0.0], [0.1923, 0.1151]]
    np.testing.assert_allclose(weights, [expected, [expected[g] for g in (0, 2, 1)]], atol=2e-3)


@pytest.mark.parametrize(
    ("delta", "K_G", "K_H", "K"),
    [
        (0.1, 44.892, 2804.23, 2820.98),
        (0.05, 67.678, 4227.60, 4252.85),
        (0.01, 115.008, 7184.10, 7227.00),
    ],
)
def test_lower_bounds_of_the_paper_instance(delta: float, K_G: float, K_H: float, K: float) -> None:
    bounds = oracle_bounds.lower_bounds(oracle.PAPER, delta, delta)
    for name, value, digits in (("K_G", K_G, 5e-4), ("K_H", K_H, 5e-3), ("K", K, 5e-3)):
        lower, upper = bounds[name]
        assert lower - digits <= value <= upper + digits
        assert upper <= lower * (1 + 1.1e-6)
    assert bounds["K_G"][0] <= oracle_bounds.proposition_2(oracle.PAPER, delta)[0] * (1 + 1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.25])
@pytest.mark.parametrize("shape", [(1, 3, 1), (2, 2, 2), (3, 3, 2)])
def test_lower_bounds_agree_with_single_tasks_and_no_allocation_beats_them(shape: Shape, noise: float) -> None:
    X, G, H = shape
    rng = np.random.default_rng(3)
    means = shared(rng, shape, noise)
    best = oracle.best_arms(means)
    assert best is not None
    bounds = oracle_bounds.lower_bounds(means, 0.1, 0.1, noise)
    k = oracle.kl(0.1, 0.9)
    tasks = [
        oracle_bounds.characteristic_time(
            means[x, best.g, best.h[x]], list(np.delete(means[x, best.g], best.h[x])), noise
        )
        for x in range(X)
    ]
    assert bounds["K_H"][1] == pytest.approx(k * sum(time for time, _ in tasks), rel=2e-6)
    assert max(bounds["K_G"][0], bounds["K_H"][0]) <= bounds["K"][1] * (1 + 1e-9)
    assert bounds["K"][0] <= bounds["K_G"][1] + bounds["K_H"][1]
    assert bounds["K_G"][0] <= oracle_bounds.proposition_2(means, 0.1, noise)[0] * (1 + 1e-9)
    for q in rng.dirichlet(np.full(means.size, 0.3), size=50).reshape(-1, *shape):
        assert oracle.rho(q, means, noise).value <= k / bounds["K_G"][0] * (1 + 1e-9)
        joint = oracle_bounds.objective(q, means, noise, np.full(G, k), np.full((X, H), k), best.g, best.h)
        assert joint <= 1.0 / bounds["K"][0] * (1 + 1e-9)


def test_one_task_with_one_predictor_is_best_arm_identification() -> None:
    means = np.array([[[0.3], [0.21], [0.2], [0.19], [0.18]]])
    time, _ = oracle_bounds.characteristic_time(0.3, [0.21, 0.2, 0.19, 0.18])
    assert oracle_bounds.proposition_2(means, 0.1)[0] == pytest.approx(time * oracle.kl(0.1, 0.9))
    assert oracle_bounds.lower_bounds(means, 0.1, 0.1)["K_H"] == (0.0, 0.0)


@pytest.mark.parametrize(
    ("means", "time", "weights"),
    [
        ([0.6, 0.5], 197.65, [0.5017, 0.4983]),
        ([0.5, 0.45, 0.43, 0.4], 989.79, [0.4165, 0.3903, 0.1362, 0.0570]),
        ([0.3, 0.21, 0.2, 0.19, 0.18], 326.64, [0.3359, 0.2515, 0.1766, 0.1324, 0.1036]),
    ],
)
def test_published_characteristic_times(means: list[float], time: float, weights: list[float]) -> None:
    found, allocation = oracle_bounds.characteristic_time(means[0], means[1:])
    assert found == pytest.approx(time, abs=0.006)
    np.testing.assert_allclose(allocation, weights, atol=6e-5)


def test_p_tilde_is_an_upper_bound_of_the_minimum_it_stands_for() -> None:
    """As printed it exceeds min_{1 < u <= z} u (x - ln ln u) between p(1 / ln z) and p^-1(1 / ln z) only."""
    z = 1.5
    u = 1.0 + (z - 1.0) * np.linspace(0.0, 1.0, 20_001)[1:]
    corner = 1.0 / math.log(z)
    for x in np.linspace(0.1, 9.0, 60):
        least = float((u * (x - np.log(np.log(u)))).min())
        printed = oracle.p_tilde(z, x)
        if corner - math.log(corner) < x < oracle.p_inverse(corner):
            assert printed >= least
        else:
            assert printed == pytest.approx(least, rel=1e-6)

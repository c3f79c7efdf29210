"""The generalised likelihood ratio: against the oracle, kept up to date arm by arm, and its witness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osrl.glr.statistic import Confusion, Glr, cheapest, glr_of, new_glr, rho, update_task
from osrl.model.instance import Instance
from tests.oracle import paper as oracle
from tests.support.instances import (
    PAPER,
    Array,
    Shape,
    Weighted,
    random_instance,
    refused,
    relabelled,
    weighted,
)

pytestmark = pytest.mark.nojit

# Table 2 of the paper, the row q*_sigma
PRINTED = np.array(
    [
        [[0.18, 5e-3], [6e-4, 7e-4], [0.13, 0.18]],
        [[0.18, 5e-3], [0.13, 0.18], [6e-4, 7e-4]],
    ]
)


def rounding(case: Weighted) -> float:
    spread = 30.0 if case.noise == 0 else 1.0 + np.ptp(case.means) ** 2 / case.noise
    return float(1e-12 * spread * case.weights.sum())


def cost_of(case: Weighted, representation: int, predictors: tuple[int, ...]) -> float:
    """Return what the model with these best arms costs, by the oracle."""
    return math.fsum(
        oracle.ell(case.weights, case.means, x, representation, h, case.noise) for x, h in enumerate(predictors)
    )


def same(one: Glr, other: Glr, tolerance: float) -> bool:
    """Tell whether two GLRs agree; witnesses may differ where costs tie."""
    return all(
        np.allclose(a, b, rtol=1e-9, atol=tolerance)
        for a, b in ((one.cost, other.cost), (one.least, other.least), (one.total, other.total))
    )


@given(weighted())
def test_equals_the_oracle_with_its_witness(case: Weighted) -> None:
    X, G, H = case.means.shape
    glr = glr_of(case.means, case.weights, case.noise)
    tolerance = rounding(case)
    for g in range(G):
        expected = oracle.representation_cost(case.weights, case.means, g, case.noise)
        assert glr.total[g] == pytest.approx(expected.value, rel=1e-9, abs=tolerance)
        witness = tuple(glr.predictor[:, g].tolist())
        assert cost_of(case, g, witness) == pytest.approx(expected.value, rel=1e-9, abs=tolerance)
        psi = oracle.psi(case.weights, case.means, g, case.noise)
        rival = cheapest(glr, g)
        assert rival != g
        assert glr.total[rival] == pytest.approx(psi.value, rel=1e-9, abs=tolerance)
    for x in range(X):
        for g in range(G):
            assert glr.least[x, g] == glr.cost[x, g * H + glr.predictor[x, g]]


@given(weighted())
def test_second_smallest_cost_is_the_largest_psi(case: Weighted) -> None:
    glr = glr_of(case.means, case.weights, case.noise)
    believed = cheapest(glr, -1)
    assert glr.total[believed] == glr.total.min()
    second = glr.total[cheapest(glr, believed)]
    assert second == np.sort(glr.total)[1]
    largest = max(oracle.psi(case.weights, case.means, g, case.noise).value for g in range(case.means.shape[1]))
    assert second == pytest.approx(largest, rel=1e-9, abs=rounding(case))


def test_without_samples_every_belief_is_free() -> None:
    glr = new_glr(2, 3, 2)
    assert same(glr, glr_of(np.full((2, 3, 2), 0.5), np.zeros((2, 3, 2)), 0.0), 0.0)
    assert glr.total.tolist() == [0.0, 0.0, 0.0]
    assert cheapest(glr, 0) == 1 and cheapest(glr, -1) == 0
    assert cheapest(new_glr(2, 1, 2), 0) == -1


shapes = st.tuples(st.integers(1, 4), st.integers(2, 4), st.integers(1, 4))


@given(shapes, st.sampled_from([0.0, 0.5]), st.integers(0, 2**32 - 1))
def test_one_reward_at_a_time_equals_from_scratch_and_the_oracle(shape: Shape, noise: float, seed: int) -> None:
    """Running means of 0/1 rewards tie often, and cross each other: the order is kept up to date too."""
    rng = np.random.default_rng(seed)
    X, G, H = shape
    glr = new_glr(*shape)
    pulls, sums, means = (np.zeros((X, G * H)) for _ in range(3))
    for _ in range(30):
        x, a = int(rng.integers(X)), int(rng.integers(G * H))
        pulls[x, a] += 1
        sums[x, a] += rng.normal() if noise > 0 else rng.integers(2)
        means[x, a] = sums[x, a] / pulls[x, a]
        update_task(glr, x, means[x], pulls[x], noise)
        scratch = glr_of(means.reshape(shape), pulls.reshape(shape), noise)
        assert same(glr, scratch, 1e-11)
        assert (np.diff(means[x][glr.order[x]]) <= 0).all()
    case = Weighted(means.reshape(shape), pulls.reshape(shape), noise)
    for g in range(G):
        expected = oracle.representation_cost(case.weights, case.means, g, noise).value
        assert glr.total[g] == pytest.approx(expected, rel=1e-9, abs=1e-11)
        assert cost_of(case, g, tuple(glr.predictor[:, g].tolist())) == pytest.approx(expected, abs=1e-10)


# rho ------------------------------------------------------------------------------------------------------


def weights_for(instance: Instance, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(instance.means.size, 0.5)).reshape(instance.shape)


@pytest.mark.parametrize("noise_sd", [None, 0.5])
@pytest.mark.parametrize("shape", [(1, 2, 1), (2, 3, 2), (3, 2, 4), (4, 4, 4)])
def test_rho_equals_the_oracle(shape: Shape, noise_sd: float | None) -> None:
    for seed in range(5):
        instance = random_instance(seed, shape, noise_sd)
        weights = weights_for(instance, seed)
        found = rho(instance, weights)
        noise = instance.family.noise
        assert found.value == pytest.approx(oracle.rho(weights, instance.means, noise).value, rel=1e-9)
        case = Weighted(instance.means, weights, noise)
        assert found.representation != instance.best.representation
        assert cost_of(case, found.representation, found.predictors) == pytest.approx(found.value, rel=1e-9)


@pytest.mark.parametrize("noise_sd", [None, 0.5])
def test_rho_is_concave_and_homogeneous(noise_sd: float | None) -> None:
    for seed in range(20):
        instance = random_instance(seed, (3, 3, 2), noise_sd)
        one, two = weights_for(instance, seed), weights_for(instance, seed + 1000)
        both = rho(instance, one).value, rho(instance, two).value
        for share in (0.1, 0.5, 0.9):
            mixed = rho(instance, share * one + (1 - share) * two).value
            assert mixed >= share * both[0] + (1 - share) * both[1] - 1e-15
        assert rho(instance, 7.0 * one).value == pytest.approx(7.0 * both[0], rel=1e-12)


def test_rho_does_not_depend_on_labels() -> None:
    for seed in range(20):
        instance = random_instance(seed, (3, 4, 3))
        other, order = relabelled(instance, seed)
        weights = weights_for(instance, seed)
        found, expected = rho(other, weights[np.ix_(*order)]), rho(instance, weights)
        assert found.value == pytest.approx(expected.value, rel=1e-12)
        assert order[1][found.representation] == expected.representation


def test_rho_of_the_printed_allocation() -> None:
    """THEORY, section 1: Table 2 prints an allocation that is not the best one (its digits sum to 0.9926)."""
    printed = PRINTED / PRINTED.sum()
    assert rho(Instance.load("paper"), printed).value == pytest.approx(0.0305, abs=5e-5)
    assert oracle.rho(printed, np.array(PAPER)).value == pytest.approx(0.0305, abs=5e-5)


def test_rho_of_an_instance_with_one_representation_is_infinite() -> None:
    instance = Instance.bernoulli([[[0.4, 0.5]], [[0.7, 0.1]]])
    assert rho(instance, np.full((2, 1, 2), 0.25)) == Confusion(math.inf, 0, (1, 0))


def test_rho_accepts_pulls_and_lists() -> None:
    paper = Instance.load("paper")
    pulls = np.arange(12).reshape(2, 3, 2)
    expected = rho(paper, pulls.astype(float))
    assert rho(paper, pulls) == rho(paper, pulls.tolist()) == expected  # type: ignore[arg-type]
    assert rho(paper, np.asfortranarray(pulls.astype(float))) == expected


def test_rho_outside_the_model_class_is_refused() -> None:
    with refused("task x1 has 2 best arms"):
        rho(Instance.bernoulli([[[0.5, 0.5], [0.1, 0.2]]]), np.full((1, 2, 2), 0.25))

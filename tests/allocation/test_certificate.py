"""Certified intervals: narrow on random instances, and proved again from the witness alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from osrl.allocation import Needs, allocate, single_task
from osrl.model.instance import Instance
from tests.oracle import bounds as oracle_bounds
from tests.support.certificates import Terms, check, reached
from tests.support.instances import Shape, random_instance

PROGRAMS = {"phase 1": (1.0, 0.0), "phase 2": (0.0, 1.0), "joint": (1.0, 1.0)}
programs = pytest.mark.parametrize("needs", PROGRAMS.values(), ids=PROGRAMS.keys())


# Gaps on random instances ---------------------------------------------------------------------------------


@programs
@pytest.mark.parametrize(("shape", "count"), [((2, 3, 2), 200), ((5, 5, 5), 200), ((10, 10, 10), 20)])
def test_random_instances_are_certified_to_1e_6(shape: Shape, count: int, needs: tuple[float, float]) -> None:
    wide = {}
    for seed in range(count):
        instance = random_instance(seed, shape)
        wanted = Needs.of(instance, *needs)
        found = allocate(instance, wanted)
        # the oracle takes a second for an allocation of 1000 arms
        check(instance, wanted, found, slow=instance.means.size < 20 or (seed < 2 and shape == (5, 5, 5)))
        if not found.gap <= 1e-6:
            wide[seed] = found.gap
    assert not wide


@programs
def test_small_gaps_are_certified_to_1e_6(needs: tuple[float, float]) -> None:
    """All means within 0.05 of 1/2, so that some best arms win by a hair."""
    for seed in range(50):
        instance = Instance.bernoulli(0.5 + 0.1 * (random_instance(seed, (5, 5, 5)).means - 0.5))
        wanted = Needs.of(instance, *needs)
        found = allocate(instance, wanted)
        check(instance, wanted, found, slow=False)
        assert found.gap <= 1e-6


@programs
def test_a_large_instance_is_certified_to_1e_5(needs: tuple[float, float]) -> None:
    instance = random_instance(0, (20, 22, 22))
    wanted = Needs.of(instance, *needs)
    found = allocate(instance, wanted)
    check(instance, wanted, found, slow=False)
    assert found.gap <= 1e-5


@programs
@pytest.mark.parametrize("shape", [(2, 3, 2), (4, 4, 4)])
def test_gaussian_instances(shape: Shape, needs: tuple[float, float]) -> None:
    for seed in range(20):
        instance = random_instance(seed, shape, noise_sd=0.5)
        wanted = Needs.of(instance, *needs)
        found = allocate(instance, wanted)
        check(instance, wanted, found, slow=seed < 5)
        assert found.gap <= 1e-6


@pytest.mark.parametrize("needs", [(1.0, 1.0), (0.0, 1.0), (1.0, 8.0), (8.0, 1.0)])
@pytest.mark.parametrize("noise_sd", [None, 0.5])
def test_pooled_predictor_tests(noise_sd: float | None, needs: tuple[float, float]) -> None:
    """The programs of K_valid. A pooled test gathers at least what the two-arm one does."""
    for seed in range(20):
        instance = random_instance(seed, (3, 3, 3), noise_sd)
        wanted = Needs.of(instance, *needs, pooled=True)
        found = allocate(instance, wanted)
        check(instance, wanted, found, slow=seed < 5)
        assert found.gap <= 1e-6
        assert found.upper >= allocate(instance, wanted._replace(pooled=False)).lower


@programs
@pytest.mark.parametrize("sigma", [1e5, 10.0, 1.0, 0.1])
def test_regularised_programs(sigma: float, needs: tuple[float, float]) -> None:
    for seed in range(10):
        instance = random_instance(seed, (3, 3, 2))
        wanted = Needs.of(instance, *needs)
        found = allocate(instance, wanted, sigma=sigma)
        check(instance, wanted, found, Terms(sigma=sigma))
        assert found.gap <= 1e-6
        assert found.lower <= allocate(instance, wanted).upper


@programs
def test_priced_samples(needs: tuple[float, float]) -> None:
    for seed in range(20):
        instance = random_instance(seed, (3, 3, 2))
        costs = np.random.default_rng(seed).lognormal(size=instance.shape)
        wanted = Needs.of(instance, *needs)
        found = allocate(instance, wanted, costs=costs)
        check(instance, wanted, found, Terms(costs=costs))
        assert found.gap <= 1e-6


@programs
def test_tasks_that_arrive(needs: tuple[float, float]) -> None:
    for seed in range(20):
        instance = random_instance(seed, (3, 3, 2))
        frequencies = np.random.default_rng(seed).dirichlet(np.ones(3)).tolist()
        wanted = Needs.of(instance, *needs)
        found = allocate(instance, wanted, frequencies=frequencies)
        check(instance, wanted, found, Terms(frequencies=frequencies))
        assert found.gap <= 1e-6
        assert found.lower <= allocate(instance, wanted).upper


@pytest.mark.parametrize("sigma", [10.0, 0.1])
def test_regularised_programs_with_prices_or_arrivals(sigma: float) -> None:
    for seed in range(5):
        instance = random_instance(seed, (3, 3, 2))
        wanted = Needs.of(instance, 1.0, 1.0)
        costs = np.random.default_rng(seed).lognormal(size=instance.shape)
        for terms in (Terms(costs=costs, sigma=sigma), Terms(frequencies=[0.2, 0.3, 0.5], sigma=sigma)):
            found = allocate(instance, wanted, **terms._asdict())
            check(instance, wanted, found, terms)
            assert found.gap <= 1e-6


def different_needs(instance: Instance, seed: int, pooled: bool = False) -> Needs:
    """Return another need for every test, over two orders of magnitude, a third of them zero."""
    rng = np.random.default_rng([seed, 1])
    X, G, H = instance.shape
    best = instance.best
    need_g, need_h = (10 ** rng.uniform(-1, 1, n) * (rng.uniform(size=n) > 1 / 3) for n in (G, (X, H)))
    need_g[best.representation] = 0.0
    need_h[np.arange(X), best.predictors] = 0.0
    return Needs(need_g, need_h, pooled)


@pytest.mark.parametrize("pooled", [False, True])
def test_every_test_may_have_its_own_need(pooled: bool) -> None:
    for seed in range(30):
        instance = random_instance(seed, (3, 4, 3))
        wanted = different_needs(instance, seed, pooled)
        found = allocate(instance, wanted)
        check(instance, wanted, found, slow=seed < 10)
        assert found.gap <= 1e-6


# The same value by another method -------------------------------------------------------------------------


@programs
@pytest.mark.parametrize("shape", [(1, 2, 1), (1, 3, 3), (2, 2, 2), (2, 3, 2), (3, 3, 1)])
def test_cutting_planes_find_the_same_value(shape: Shape, needs: tuple[float, float]) -> None:
    for seed, noise_sd in ((0, None), (1, None), (2, 0.5)):
        instance = random_instance(seed, shape, noise_sd)
        agree_with_cutting_planes(instance, Needs.of(instance, *needs))


def test_cutting_planes_find_the_same_value_for_different_needs() -> None:
    for seed in range(5):
        instance = random_instance(seed, (2, 3, 2))
        agree_with_cutting_planes(instance, different_needs(instance, seed))


def agree_with_cutting_planes(instance: Instance, needs: Needs) -> None:
    best = instance.best
    found = allocate(instance, needs)
    _, lower, upper = oracle_bounds.cutting_planes(
        instance.means,
        instance.family.noise,
        needs.representations,
        needs.predictors,
        best.representation,
        best.predictors,
        tolerance=1e-5,
    )
    assert found.lower <= upper * (1 + 1e-8) and lower <= found.upper * (1 + 1e-8)


@pytest.mark.nojit
@programs
def test_no_random_allocation_beats_the_upper_bound(needs: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    for seed in range(5):
        instance = random_instance(seed, (2, 3, 2))
        wanted = Needs.of(instance, *needs)
        found = allocate(instance, wanted)
        check(instance, wanted, found)
        assert found.gap <= 1e-6
        for _ in range(20):
            near = found.weights * rng.lognormal(sigma=rng.choice([0.01, 1.0]), size=instance.shape)
            assert reached(instance, wanted, near / near.sum()) <= found.upper


# What cannot be certified to the end ----------------------------------------------------------------------


def is_honest(instance: Instance, needs: Needs, truth: float, known: float = 1e-9) -> None:
    """Assert that the interval contains the truth, ``known`` to this precision, and that ``gap`` is its width."""
    found = allocate(instance, needs)
    assert 0 < found.lower <= truth * (1 + known)
    assert truth * (1 - known) <= found.upper < math.inf
    assert found.gap == pytest.approx((found.upper - found.lower) / found.lower)
    assert found.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-7, 1e-9, 1e-12])
@pytest.mark.parametrize("top", [0.5, 0.9, 0.01])
def test_nearly_tied_arms_give_an_honest_interval(top: float, distance: float) -> None:
    """The two close arms share the samples: d^2 / (8 variance) to first order in their distance d."""
    row = np.array([top, top - distance, 0.2 * top])
    d = row[0] - row[1]
    truth, known = d**2 / (8 * top * (1 - top)), 2 * d / (top * (1 - top)) + 1e-4 * (1e-12 / d)
    one_task = Instance.bernoulli(row.reshape(1, 3, 1))
    is_honest(one_task, Needs.of(one_task, 1.0, 0.0), truth, known)
    predictors = Instance.bernoulli(row.reshape(1, 1, 3))
    is_honest(predictors, Needs.of(predictors, 0.0, 1.0), truth, known)


@pytest.mark.nojit
@pytest.mark.parametrize(
    "row", [[1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.5, 0.0], [0.5, 0.0, 0.0], [1e-9, 0.0], [1.0, 1 - 1e-6]]
)
def test_means_at_zero_and_one(row: list[float]) -> None:
    instance = Instance.bernoulli(np.reshape(row, (1, -1, 1)))
    is_honest(instance, Needs.of(instance, 1.0, 0.0), 1 / single_task(np.array(row), 0.0).time)


def test_a_gap_that_cannot_be_closed_is_reported() -> None:
    """Nothing is known about arms that differ by one unit in the last place: the width says so."""
    instance = Instance.bernoulli([[[0.5], [0.5 - 2**-53], [0.1]]])
    found = allocate(instance, Needs.of(instance, 1.0, 0.0))
    assert found.lower <= found.upper
    assert found.gap > 1e-6


def test_tasks_with_nothing_to_offer_do_not_spoil_the_certificate() -> None:
    """In phase 1 the second task gets no mass in the limit, so its levels are of the form 0 / 0."""
    for distance in (1e-2, 1e-3, 1e-4):
        useful = [[0.6, 0.3], [0.4, 0.3], [0.5, 0.2]]
        useless = [
            [0.5, 0.5 - distance / 3],
            [0.5 - distance, 0.5 - distance],
            [0.5 - distance, 0.5 - distance],
        ]
        instance = Instance.bernoulli([useful, useless])
        wanted = Needs.of(instance, 1.0, 0.0)
        found = allocate(instance, wanted)
        check(instance, wanted, found)
        assert found.gap <= 1e-6
        alone = Instance.bernoulli([useful])
        assert found.upper >= allocate(alone, Needs.of(alone, 1.0, 0.0)).lower

"""Lower bounds: published values, the relations between them, Proposition 2, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from osrl.allocation import Needs, allocate, partition
from osrl.bounds.lower import Bound, LowerBound, lower_bound
from osrl.model.instance import Instance
from tests.oracle import bounds as oracle_bounds
from tests.oracle import paper as oracle
from tests.support.instances import Shape, random_instance, refused, relabelled

SHAPES = [(1, 2, 1), (2, 3, 2), (3, 2, 3), (3, 4, 2)]


def overlap(one: Bound, other: Bound, factor: float = 1.0) -> bool:
    """Tell whether both intervals can hold one value (times ``factor`` in the other)."""
    slack = 1 + 1e-9
    return one.lower <= factor * other.upper * slack and factor * other.lower <= one.upper * slack


def intervals(bound: LowerBound) -> dict[str, Bound]:
    names = ("K", "K_valid", "K_sharp", "K_G", "K_H")
    return {name: getattr(bound, name) for name in names}


@pytest.mark.parametrize(
    ("delta", "K_G", "K_H", "K"),
    [
        (0.1, 44.892, 2804.23, 2820.98),
        (0.05, 67.678, 4227.60, 4252.85),
        (0.01, 115.008, 7184.10, 7227.00),
    ],
)
@pytest.mark.nojit
def test_published_bounds_of_the_paper_instance(delta: float, K_G: float, K_H: float, K: float) -> None:
    """THEORY, section 1, to every digit printed."""
    found = lower_bound(Instance.load("paper"), delta=delta)
    assert round(found.K_G.lower, 3) == round(found.K_G.upper, 3) == K_G
    for bound, value in ((found.K_H, K_H), (found.K, K)):
        assert bound.lower - 0.005 <= value <= bound.upper + 0.005
        assert bound.upper <= bound.lower * (1 + 1e-6)
    assert found.best == (0, (0, 0))
    assert (found.delta_g, found.delta_h) == (delta, delta)
    assert found.K_G_sigma.C_sigma == pytest.approx(25.539, abs=1e-3)


@pytest.mark.parametrize("noise_sd", [None, 0.5])
@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_equal_the_oracle(shape: Shape, noise_sd: float | None) -> None:
    instance = random_instance(7, shape, noise_sd)
    found = lower_bound(instance, delta_g=0.1, delta_h=0.02)
    expected = oracle_bounds.lower_bounds(instance.means, 0.1, 0.02, instance.family.noise, tolerance=1e-5)
    for name in ("K", "K_G", "K_H", "K_sharp"):
        bound = intervals(found)[name]
        assert bound.lower <= expected[name][1] * (1 + 1e-8)
        assert expected[name][0] <= bound.upper * (1 + 1e-8)


@pytest.mark.parametrize("noise_sd", [None, 0.5])
@pytest.mark.parametrize("shape", [*SHAPES, (5, 5, 5)])
def test_relations_between_the_bounds(shape: Shape, noise_sd: float | None) -> None:
    for seed in range(5):
        instance = random_instance(seed, shape, noise_sd)
        found = lower_bound(instance, delta_g=0.2, delta_h=0.05)
        for bound in intervals(found).values():
            assert bound.lower <= bound.upper <= bound.lower * (1 + 1e-6)
            assert bound.allocation.shape == shape
            assert bound.allocation.sum() == pytest.approx(1.0)
        assert max(found.K_G.lower, found.K_H.lower) <= found.K.upper
        assert found.K.lower <= found.K_G.upper + found.K_H.upper
        assert found.K_valid.lower <= min(found.K.upper, found.K_sharp.upper)
        assert found.K_G.lower <= found.K_sharp.upper
        assert found.K_G.lower <= found.L_G.value * (1 + 1e-9)
        assert found.K_G.lower <= found.K_G_sigma.value
        assert found.K_G_sigma.value <= found.K_G.upper * 1.01


def test_bounds_do_not_depend_on_labels() -> None:
    for seed in range(10):
        instance = random_instance(seed, (3, 4, 3))
        other, order = relabelled(instance, seed)
        found, again = lower_bound(instance, delta=0.1), lower_bound(other, delta=0.1)
        for name, bound in intervals(found).items():
            assert overlap(bound, intervals(again)[name])
        assert again.L_G.value == pytest.approx(found.L_G.value, rel=1e-9)
        assert again.K_G_sigma.value == pytest.approx(found.K_G_sigma.value, rel=2e-6)
        assert order[1][again.best.representation] == found.best.representation


def test_bounds_grow_with_the_evidence_that_the_risk_asks_for() -> None:
    """Both risks equal: K is k(delta) times a number that does not depend on delta, down to 1e-300."""
    instance = random_instance(0, (2, 3, 2))
    unit = lower_bound(instance, delta=0.1)
    for delta in (0.3, 0.01, 1e-5, 1e-20, 1e-300):
        found = lower_bound(instance, delta=delta)
        factor = oracle.kl(1 - delta, delta) / oracle.kl(0.9, 0.1)
        assert overlap(found.K, unit.K, factor) and overlap(found.K_G, unit.K_G, factor)
        assert overlap(found.K_H, unit.K_H, factor)
        assert found.L_G.value == pytest.approx(factor * unit.L_G.value)
        assert found.K_valid.lower <= found.K.upper < math.inf


# What the proof of Theorem 1 implies ----------------------------------------------------------------------


@pytest.mark.parametrize("risks", [(0.1, 0.1), (0.01, 0.2), (0.3, 0.05), (0.6, 0.1), (0.4, 0.3), (0.7, 0.2)])
def test_valid_bound_has_the_needs_of_the_proof(risks: tuple[float, float]) -> None:
    delta_g, delta_h = risks
    right = 1 - delta_g - delta_h
    need_g = oracle.kl(delta_g, 1 - delta_g) if delta_g < 0.5 else 0.0
    need_h = 0.0
    if delta_g + 2 * delta_h < 1:
        need_h = max(oracle.kl(right, delta_h), oracle.kl(delta_h, right))
    for seed in range(3):
        instance = random_instance(seed, (2, 3, 3))
        found = lower_bound(instance, delta_g=delta_g, delta_h=delta_h).K_valid
        expected = allocate(instance, Needs.of(instance, need_g, need_h, pooled=True))
        assert found.lower <= (1 + 1e-9) / expected.lower and found.upper >= (1 - 1e-9) / expected.upper
    if delta_g + 2 * delta_h < 1 and delta_g < 0.5:
        assert 0 < found.lower < lower_bound(instance, delta_g=delta_g, delta_h=delta_h).K.lower


@pytest.mark.nojit
def test_valid_bound_vanishes_for_risks_of_one_half() -> None:
    paper = Instance.load("paper")
    for delta_g, delta_h in ((0.5, 0.5), (0.9, 0.6), (0.5, 0.25)):
        found = lower_bound(paper, delta_g=delta_g, delta_h=delta_h).K_valid
        assert (found.lower, found.upper) == (0.0, 0.0)
        assert found.allocation.sum() == pytest.approx(1.0)


def test_valid_bound_is_monotone_in_each_risk() -> None:
    instance = random_instance(1, (2, 3, 2))
    grid = [1e-3, 0.01, 0.1, 0.2, 0.3, 0.4, 0.49, 0.6]
    for other in (0.01, 0.2):
        by_g = [lower_bound(instance, delta_g=delta, delta_h=other).K_valid for delta in grid]
        by_h = [lower_bound(instance, delta_g=other, delta_h=delta).K_valid for delta in grid]
        for bounds in (by_g, by_h):
            for strict, loose in zip(bounds, bounds[1:], strict=False):
                assert loose.lower <= strict.upper * (1 + 1e-9)


# Proposition 2 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise_sd", [None, 0.5])
@pytest.mark.parametrize("shape", [(1, 3, 2), (2, 2, 1), (2, 3, 2), (3, 4, 2)])
def test_partition_bound_equals_every_assignment_tried(shape: Shape, noise_sd: float | None) -> None:
    for seed in range(2):
        instance = random_instance(seed, shape, noise_sd)
        found = lower_bound(instance, delta=0.1).L_G
        value, assignment = oracle_bounds.proposition_2(instance.means, 0.1, instance.family.noise)
        assert found.exact
        assert found.value == pytest.approx(value, rel=1e-6)
        assert found.assignment == assignment


def wrong_arms(instance: Instance) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the best means of the tasks, and the means of all other representations, as the kernels take them."""
    best = instance.best
    top = np.array([instance.means[x, best.representation, h] for x, h in enumerate(best.predictors)])
    return top, np.delete(instance.means, best.representation, axis=1).copy()


def test_local_search_is_never_better_than_exact_and_mostly_as_good() -> None:
    equal = 0
    for seed in range(40):
        top, rivals = wrong_arms(random_instance(seed, (3, 6, 2)))
        exact, assignment = partition._every_partition(top, rivals, 0.0)
        local, moved = partition._local_search(top, rivals, 0.0)
        assert local >= exact * (1 - 1e-9)
        for time, tasks in ((exact, assignment), (local, moved)):
            parts = [partition._time_against(top[x], rivals[x], (tasks == x).astype(int), 0.0) for x in range(3)]
            assert math.fsum(parts) == pytest.approx(time, rel=1e-9)
        equal += local <= exact * (1 + 1e-9)
    assert equal >= 30


def test_many_representations_give_a_bound_that_is_not_exact() -> None:
    instance = random_instance(0, (3, 13, 2))
    found = lower_bound(instance, delta=0.1)
    assert not found.L_G.exact
    assert found.L_G.value >= found.K_G.lower
    assert sorted(found.L_G.assignment) == [g for g in range(13) if g != found.best.representation]
    assert set(found.L_G.assignment.values()) <= {0, 1, 2}
    assert lower_bound(random_instance(0, (2, 12, 1)), delta=0.1).L_G.exact


# One of anything, regulariser -----------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 1), (1, 1, 3), (3, 1, 2), (1, 3, 1), (2, 3, 1), (1, 2, 2)])
def test_one_of_anything_is_a_valid_problem(shape: Shape) -> None:
    _, G, H = shape
    found = lower_bound(random_instance(0, shape), delta=0.1)
    for bound in intervals(found).values():
        assert bound.allocation.sum() == pytest.approx(1.0)
    if G == 1:
        assert (found.K_G.lower, found.K_G.upper) == (0.0, 0.0)
        assert found.L_G.value == found.K_G_sigma.value == 0.0 and found.L_G.assignment == {}
    if H == 1:
        assert (found.K_H.lower, found.K_H.upper) == (0.0, 0.0)
    assert (found.K.lower > 0) == (G > 1 or H > 1)


def test_regularised_bound_grows_when_sigma_shrinks() -> None:
    paper = Instance.load("paper")
    found = [lower_bound(paper, delta=0.1, sigma=sigma) for sigma in (1e6, 1e5, 100.0, 10.0)]
    values = [bound.K_G_sigma.value for bound in found]
    assert values == sorted(values)
    assert values[0] >= found[0].K_G.lower
    k = oracle.kl(0.1, 0.9)
    for bound in found:
        sigma, value, C_sigma, q = bound.K_G_sigma
        assert value == pytest.approx(k * C_sigma)
        reached = oracle.rho(q, paper.means).value - (q**2).sum() / (2 * sigma)
        assert 1 / C_sigma == pytest.approx(reached, rel=1e-9)
    assert lower_bound(paper, delta=0.1, sigma=0.1).K_G_sigma.value == math.inf


def test_tolerance_is_the_width_of_the_intervals() -> None:
    instance = random_instance(2, (3, 3, 3))
    tight, loose = (lower_bound(instance, delta=0.1, tolerance=t) for t in (1e-6, 0.2))
    for name, bound in intervals(loose).items():
        assert bound.upper <= bound.lower * 1.2 * (1 + 1e-9)
        assert overlap(bound, intervals(tight)[name])
    assert loose.K.upper - loose.K.lower > tight.K.upper - tight.K.lower


# Refusals -------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("risks", "message"),
    [
        ({}, "no risk given; set delta for both, or delta_g and delta_h"),
        ({"delta_g": 0.1}, "no risk given; set delta for both, or delta_g and delta_h"),
        ({"delta_h": 0.1}, "no risk given; set delta for both, or delta_g and delta_h"),
        ({"delta": 0.1, "delta_g": 0.1}, "delta sets both risks; give either delta, or delta_g and delta_h"),
        ({"delta": 0.1, "delta_h": 0.1}, "delta sets both risks; give either delta, or delta_g and delta_h"),
        ({"delta": 0.0}, "delta_g is 0.0; a risk is a number between 0 and 1"),
        ({"delta": 1.0}, "delta_g is 1.0; a risk is a number between 0 and 1"),
        ({"delta": -0.1}, "delta_g is -0.1; a risk is a number between 0 and 1"),
        ({"delta": math.nan}, "delta_g is nan; a risk is a number between 0 and 1"),
        ({"delta_g": 0.1, "delta_h": 2.0}, "delta_h is 2.0; a risk is a number between 0 and 1"),
        ({"delta": 0.1, "sigma": 0.0}, "sigma is 0.0; give a positive number"),
        ({"delta": 0.1, "sigma": -1.0}, "sigma is -1.0; give a positive number"),
    ],
)
def test_refuses_risks_that_are_none(risks: dict[str, Any], message: str) -> None:
    with refused(message):
        lower_bound(Instance.load("paper"), **risks)


@pytest.mark.nojit
def test_refuses_an_instance_outside_the_model_class() -> None:
    with refused("task x1 has 2 best arms"):
        lower_bound(Instance.bernoulli([[[0.5, 0.5], [0.1, 0.2]]]), delta=0.1)
    split = Instance.bernoulli([[[0.5, 0.1], [0.1, 0.2]], [[0.1, 0.1], [0.6, 0.2]]])
    with refused("one representation must be best in every task"):
        lower_bound(split, delta=0.1)

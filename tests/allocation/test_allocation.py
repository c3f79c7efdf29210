"""Optimal allocations: published values, known special cases, invariances, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from osrl.allocation import Allocation, Needs, allocate, single_task
from osrl.glr.statistic import rho
from osrl.model.instance import Instance
from tests.support.certificates import check
from tests.support.instances import PAPER, Array, Shape, random_instance, random_means, refused, relabelled

PROGRAMS = {"phase 1": (1.0, 0.0), "phase 2": (0.0, 1.0), "joint": (1.0, 1.0)}
programs = pytest.mark.parametrize("needs", PROGRAMS.values(), ids=PROGRAMS.keys())


def agree(one: Allocation, other: Allocation, factor: float = 1.0) -> bool:
    """Tell whether both intervals can hold one value (times ``factor`` in the other)."""
    slack = 1e-9 * abs(one.upper)
    return one.lower <= other.upper * factor + slack and other.lower * factor <= one.upper + slack


# THEORY, section 1 ----------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_phase_1_of_the_paper_instance() -> None:
    paper = Instance.load("paper")
    found = allocate(paper, Needs.of(paper, 1.0, 0.0), tolerance=1e-7)
    for value in (found.lower, found.upper):
        assert value == pytest.approx(0.0391558, abs=5e-8)
        assert 1 / value == pytest.approx(25.539, abs=5e-4)
    assert rho(paper, found.weights).value == pytest.approx(found.lower, rel=1e-12)


@pytest.mark.nojit
def test_optimal_weights_of_the_paper_instance() -> None:
    """Printed as 0.1925, 0.1923, 0.1151 and 0; they are known to 1e-4, because the optimum is flat."""
    paper = Instance.load("paper")
    weights = allocate(paper, Needs.of(paper, 1.0, 0.0), tolerance=1e-9).weights
    task = np.array([[0.1925, 0.0], [0.0, 0.0], [0.1923, 0.1151]])
    np.testing.assert_allclose(weights, [task, task[[0, 2, 1]]], atol=1e-4)


def test_the_regulariser_of_the_paper_changes_nothing_visible() -> None:
    """sigma = 1e5 (THEORY, section 1): |q|^2 / (2 sigma) is at most 5e-6, and weights agree to 1e-4."""
    paper = Instance.load("paper")
    plain = allocate(paper, Needs.of(paper, 1.0, 0.0))
    regular = allocate(paper, Needs.of(paper, 1.0, 0.0), sigma=1e5)
    assert plain.upper - 5e-6 <= regular.upper and regular.lower <= plain.upper
    np.testing.assert_allclose(regular.weights, plain.weights, atol=1e-3)


# Special cases with a known answer ------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("noise_sd", [None, 0.5])
def test_one_task_with_one_predictor_is_best_arm_identification(noise_sd: float | None) -> None:
    for seed in range(10):
        instance = random_instance(seed, (1, 2 + seed % 5, 1), noise_sd)
        exact = single_task(instance.means.ravel().copy(), instance.family.noise)
        found = allocate(instance, Needs.of(instance, 1.0, 0.0), tolerance=1e-8)
        assert found.lower <= (1 + 1e-9) / exact.time and (1 - 1e-9) / exact.time <= found.upper
        np.testing.assert_allclose(found.weights.ravel(), exact.weights, atol=1e-3)


@pytest.mark.nojit
@pytest.mark.parametrize("noise_sd", [None, 0.5])
def test_predictors_alone_are_one_best_arm_problem_for_each_task(noise_sd: float | None) -> None:
    """The budgets of the tasks add up: z* = 1 / sum of their characteristic times."""
    for seed in range(10):
        instance = random_instance(seed, (3, 2, 3), noise_sd)
        rows = instance.means[:, instance.best.representation, :]
        total = sum(single_task(row.copy(), instance.family.noise).time for row in rows)
        found = allocate(instance, Needs.of(instance, 0.0, 1.0))
        assert found.lower <= (1 + 1e-9) / total and (1 - 1e-9) / total <= found.upper
        assert found.weights[:, instance.best.representation].sum() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.nojit
@pytest.mark.parametrize("copies", [2, 4])
def test_identical_tasks_are_worth_one(copies: int) -> None:
    """Evidence about the shared representation adds up over copies of a task, however samples are split."""
    for seed in range(10):
        one = random_instance(seed, (1, 3, 2))
        many = Instance.bernoulli(np.repeat(one.means, copies, axis=0))
        wanted = Needs.of(many, 1.0, 0.0)
        found = allocate(many, wanted)
        check(many, wanted, found)
        assert found.gap <= 1e-6
        assert agree(found, allocate(one, Needs.of(one, 1.0, 0.0)))


def test_identical_tasks_share_the_samples_of_their_predictors() -> None:
    one = random_instance(3, (1, 3, 4))
    many = Instance.bernoulli(np.repeat(one.means, 5, axis=0))
    found = allocate(many, Needs.of(many, 0.0, 1.0))
    assert agree(found, allocate(one, Needs.of(one, 0.0, 1.0)), factor=1 / 5)
    np.testing.assert_allclose(found.weights.sum(axis=(1, 2)), 1 / 5, rtol=1e-3)


@pytest.mark.nojit
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 1), (1, 1, 3), (3, 1, 2), (1, 3, 1), (3, 3, 1), (1, 2, 2)])
@programs
def test_one_of_anything_is_a_valid_problem(shape: Shape, needs: tuple[float, float]) -> None:
    """With one representation or one predictor tests are missing; without any, all is optimal."""
    X, G, H = shape
    instance = random_instance(0, shape)
    wanted = Needs.of(instance, *needs)
    found = allocate(instance, wanted)
    assert found.weights.shape == shape
    assert found.weights.sum() == pytest.approx(1.0)
    if (G == 1 or needs[0] == 0) and (H == 1 or needs[1] == 0):
        assert found.lower == found.upper == math.inf
        assert found.gap == 0.0
        assert (found.weights > 0).all()
    else:
        check(instance, wanted, found)
        assert found.gap <= 1e-6


@pytest.mark.nojit
def test_a_test_without_need_is_left_out() -> None:
    """Without the test against g3 the first task has nothing left to refute."""
    paper = Instance.load("paper")
    found = allocate(paper, Needs(np.array([0.0, 1.0, 0.0]), np.zeros((2, 2))))
    assert found.weights[0].sum() < 1e-4
    one = Instance.bernoulli([PAPER[1]])
    alone = allocate(one, Needs(np.array([0.0, 1.0, 0.0]), np.zeros((1, 2))))
    assert agree(found, alone)


def test_identical_means_of_rivals() -> None:
    """Ties among the arms that are not best change nothing in the certificate."""
    for top in (0.5, 1.0):
        means = np.full((2, 3, 2), 0.3)
        means[:, 0, 0] = top
        instance = Instance.bernoulli(means)
        for needs in PROGRAMS.values():
            wanted = Needs.of(instance, *needs)
            found = allocate(instance, wanted)
            check(instance, wanted, found)
            assert found.gap <= 1e-6


# Invariances and scaling ----------------------------------------------------------------------------------


@programs
def test_the_value_does_not_depend_on_labels(needs: tuple[float, float]) -> None:
    for seed in range(20):
        instance = random_instance(seed, (3, 4, 3))
        other, _ = relabelled(instance, seed)
        found = allocate(instance, Needs.of(instance, *needs))
        again = allocate(other, Needs.of(other, *needs))
        assert agree(found, again)
        assert again.lower == pytest.approx(found.lower, rel=2e-6)


def test_regularised_weights_follow_their_labels() -> None:
    """Strong concavity: weights within upper - lower of the best value are within
    sqrt(2 sigma (upper - lower)) of the best weights, whatever the order of the arms."""
    sigma = 1.0
    for seed in range(10):
        instance = random_instance(seed, (3, 4, 3))
        other, order = relabelled(instance, seed)
        found = allocate(instance, Needs.of(instance, 1.0, 1.0), sigma=sigma)
        again = allocate(other, Needs.of(other, 1.0, 1.0), sigma=sigma)
        distance = np.linalg.norm(again.weights - found.weights[np.ix_(*order)])
        slack = sum(math.sqrt(2 * sigma * (a.upper - a.lower)) for a in (found, again))
        assert distance <= slack + 1e-9


def test_needs_and_costs_scale_the_value() -> None:
    for seed in range(5):
        instance = random_instance(seed, (2, 3, 2))
        wanted = Needs.of(instance, 1.0, 2.0)
        found = allocate(instance, wanted)
        harder = allocate(instance, Needs.of(instance, 10.0, 20.0))
        assert agree(found, harder, factor=10.0)
        dear = allocate(instance, wanted, costs=np.full(instance.shape, 4.0))
        assert agree(found, dear, factor=4.0)
        assert (dear.weights * 4.0).sum() == pytest.approx(1.0)


def test_the_best_frequencies_are_those_of_the_free_allocation() -> None:
    """Tasks that arrive as often as they would be chosen cost nothing; others cost something."""
    for seed in range(10):
        instance = random_instance(seed, (3, 3, 3))
        wanted = Needs.of(instance, 1.0, 1.0)
        free = allocate(instance, wanted, tolerance=1e-8)
        shares = free.weights.sum(axis=(1, 2))
        assert (shares > 1e-6).all()
        same = allocate(instance, wanted, frequencies=(shares / shares.sum()).tolist())
        assert same.upper >= free.lower * (1 - 1e-9) and same.lower <= free.upper * (1 + 1e-9)
        even = allocate(instance, wanted, frequencies=[1 / 3] * 3)
        assert even.lower < free.lower


def test_gaussian_noise_scales_the_value() -> None:
    means = random_means(np.random.default_rng(0), (2, 3, 3), noise=1.0)
    small, large = Instance.gaussian(means, 0.5), Instance.gaussian(means, 5.0)
    needs = Needs.of(small, 1.0, 1.0)
    assert agree(allocate(small, needs), allocate(large, needs), factor=100.0)
    shifted = Instance.gaussian(10 * means + 7, 5.0)
    assert agree(allocate(small, needs), allocate(shifted, needs))


def test_bounded_rewards_are_measured_as_coins() -> None:
    coins, bounded = Instance.bernoulli(PAPER), Instance.bounded(PAPER)
    one, two = (allocate(i, Needs.of(i, 1.0, 1.0)) for i in (coins, bounded))
    assert (one.lower, one.upper) == (two.lower, two.upper)


# How the search is asked ----------------------------------------------------------------------------------


@programs
def test_a_start_changes_the_path_and_not_the_value(needs: tuple[float, float]) -> None:
    for seed in range(10):
        instance = random_instance(seed, (3, 3, 3))
        wanted = Needs.of(instance, *needs)
        found = allocate(instance, wanted)
        corner = np.zeros(instance.shape)
        corner[0, 0, 0] = 5.0
        for start in (found.weights, corner):
            again = allocate(instance, wanted, start=start)
            check(instance, wanted, again, slow=False)
            assert again.gap <= 1e-6
            assert agree(found, again)


def test_a_looser_tolerance_stops_sooner() -> None:
    tight, loose = [], []
    for seed in range(10):
        instance = random_instance(seed, (3, 3, 3))
        wanted = Needs.of(instance, 1.0, 1.0)
        narrow, wide = allocate(instance, wanted), allocate(instance, wanted, tolerance=0.1)
        check(instance, wanted, wide)
        assert wide.gap <= 0.1
        assert agree(narrow, wide)
        tight.append(narrow.iterations)
        loose.append(wide.iterations)
    assert sum(loose) < sum(tight)


@pytest.mark.nojit
def test_needs_of_an_instance_leave_its_best_arms_out() -> None:
    instance = Instance.bernoulli([[[0.1, 0.2], [0.5, 0.4]], [[0.1, 0.2], [0.4, 0.5]]])
    needs = Needs.of(instance, 2, 3)
    assert needs.representations.tolist() == [2.0, 0.0]
    assert needs.predictors.tolist() == [[0.0, 3.0], [3.0, 0.0]]
    assert needs.representations.dtype == needs.predictors.dtype == np.float64
    assert not needs.pooled and Needs.of(instance, 2, 3, pooled=True).pooled


def test_the_witness_has_no_level_where_there_is_no_test() -> None:
    paper = Instance.load("paper")
    witness = allocate(paper, Needs.of(paper, 1.0, 0.0)).witness
    assert np.isnan(witness.levels[:, 0]).all() and (witness.weights[:, 0] == 0).all()
    assert np.isfinite(witness.levels[:, 1:]).all()
    joint = allocate(paper, Needs.of(paper, 1.0, 1.0)).witness
    assert np.argwhere(np.isnan(joint.levels)).tolist() == [[0, 0, 0], [1, 0, 0]]


# Refusals -------------------------------------------------------------------------------------------------

ONES = np.ones((2, 3, 2))


def changed(value: float) -> Array:
    costs = ONES.copy()
    costs[1, 2, 0] = value
    return costs


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"sigma": 0.0}, "sigma is 0.0; give a positive number"),
        ({"sigma": -1.0}, "sigma is -1.0; give a positive number"),
        ({"sigma": math.nan}, "sigma is nan; give a positive number"),
        ({"sigma": math.inf}, "sigma is inf; give a positive number"),
        ({"costs": ONES[0]}, "costs have shape (3, 2); give one for each arm, shape (2, 3, 2)"),
        ({"costs": changed(0.0)}, "costs contain a number that is not positive"),
        ({"costs": changed(-1.0)}, "costs contain a number that is not positive"),
        ({"costs": changed(math.nan)}, "costs contain a number that is not positive"),
        ({"costs": changed(math.inf)}, "costs contain a number that is not positive"),
        ({"frequencies": [1.0]}, "1 frequencies for 2 tasks; give one for each task"),
        ({"frequencies": [0.5, 0.6]}, "frequencies are [0.5, 0.6]; give positive numbers that sum to 1"),
        ({"frequencies": [0.0, 1.0]}, "frequencies are [0.0, 1.0]; give positive numbers that sum to 1"),
        ({"frequencies": [1.5, -0.5]}, "frequencies are [1.5, -0.5]; give positive numbers that sum to 1"),
        ({"frequencies": [0.5, math.nan]}, "frequencies are [0.5, nan]; give positive numbers"),
        ({"frequencies": [0.5, 0.5], "costs": ONES}, "costs and frequencies exclude each other; give"),
        ({"start": ONES[0]}, "start does not fit; give weights >= 0 of shape (2, 3, 2), not all zero"),
        ({"start": 0 * ONES}, "start does not fit"),
        ({"start": changed(-1.0)}, "start does not fit"),
        ({"start": changed(math.nan)}, "start does not fit"),
        ({"start": changed(math.inf)}, "start does not fit"),
    ],
)
def test_refuses_terms_that_do_not_fit(terms: dict[str, Any], message: str) -> None:
    paper = Instance.load("paper")
    with refused(message):
        allocate(paper, Needs.of(paper, 1.0, 1.0), **terms)


@pytest.mark.nojit
def test_refuses_an_instance_outside_the_model_class() -> None:
    needs = Needs(np.array([0.0, 1.0]), np.zeros((1, 2)))
    with refused("task x1 has 2 best arms"):
        allocate(Instance.bernoulli([[[0.5, 0.5], [0.1, 0.2]]]), needs)
    split = Instance.bernoulli([[[0.5, 0.1], [0.1, 0.2]], [[0.1, 0.1], [0.6, 0.2]]])
    with refused("one representation must be best in every task"):
        Needs.of(split, 1.0, 1.0)

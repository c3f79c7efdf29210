"""The bound that is proved: its needs, its values, and a policy between it and K."""

from __future__ import annotations

import math

import numpy as np
import pytest

from osrl.allocation import Needs, allocate
from osrl.bounds.lower import lower_bound
from osrl.model.instance import Instance
from tests.support.instances import random_instance
from tests.validation.attacks import allowed
from tests.validation.attacks_bound import Early, below, play_early

RISKS = [(0.1, 0.1), (0.01, 0.2), (0.3, 0.05), (0.6, 0.1), (0.4, 0.3), (0.7, 0.2)]


@pytest.mark.parametrize(("delta", "K"), [(0.1, 2673), (0.05, 4177), (0.01, 7212)])
def test_the_sharp_bound_of_the_paper_instance(delta: float, K: float) -> None:
    found = lower_bound("paper", delta=delta).K_sharp
    assert found.lower <= found.upper <= found.lower * (1 + 1e-6)
    assert round(found.lower) == K


def least_divergence(delta_g: float, delta_h: float, step: int = 60) -> tuple[float, float]:
    """Return the needs by trial: the least divergence of answers under the truth from those at the boundary.

    For a representation, answers are the right one and others: at the boundary each has probability delta_g
    at most, and the rest of the runs do not end. For a predictor they are the right arm (delta_h), another
    representation (delta_g) and another predictor of the right one (delta_h).
    """

    def term(p: float, q: float) -> float:
        return p * math.log(p / q) if p > 0 else 0.0

    of_g = min(term(1 - wrong, min(delta_g, 1.0)) + term(wrong, delta_g) for wrong in np.linspace(0, delta_g, step))
    of_h = min(
        term(1 - g - h, delta_h) + term(g, delta_g) + term(h, delta_h)
        for g in np.linspace(0, delta_g, step)
        for h in np.linspace(0, delta_h, step)
        if g + h < 1
    )
    return of_g, of_h


@pytest.mark.parametrize("risks", RISKS)
def test_the_sharp_bound_has_the_needs_of_its_proof(risks: tuple[float, float]) -> None:
    """Where the risks are small, the least divergence is that of a policy which uses all of them."""
    delta_g, delta_h = risks
    of_g, of_h = least_divergence(delta_g, delta_h)
    need_g = of_g if delta_g < 0.5 else 0.0
    need_h = of_h if delta_g + 2 * delta_h < 1 else 0.0
    for seed in range(3):
        instance = random_instance(seed, (2, 3, 3))
        found = lower_bound(instance, delta_g=delta_g, delta_h=delta_h)
        expected = allocate(instance, Needs.of(instance, need_g, need_h, pooled=True))
        assert found.K_sharp.lower <= (1 + 1e-9) / expected.lower
        assert found.K_sharp.upper >= (1 - 1e-9) / expected.upper
        assert found.K_valid.lower <= found.K_sharp.upper


def test_the_sharp_bound_is_never_below_the_valid_one() -> None:
    grid = [1e-4, 0.01, 0.1, 0.2, 0.3, 0.4, 0.49, 0.6, 0.9]
    instance = random_instance(1, (2, 3, 2))
    for delta_g in grid:
        for delta_h in grid:
            found = lower_bound(instance, delta_g=delta_g, delta_h=delta_h)
            assert found.K_valid.lower <= found.K_sharp.upper * (1 + 1e-9)


def test_a_policy_that_keeps_its_risks_needs_fewer_samples_than_K() -> None:
    """Risks 0.3 and 0.1: K is 2,200, K_sharp 1,349."""
    mean, error, bound = below(G=4, gap=0.02, runs=2000)
    assert mean + 5 * error < bound.K.lower, "K is no bound for every policy"
    assert mean + 5 * error > bound.K_sharp.lower


@pytest.mark.parametrize(
    "means",
    [(0.52, 0.48, 0.02), (0.48, 0.52, 0.02), (0.02, 0.1, 0.9), (0.5, 0.5001, 0.02), (0.02, 0.02, 0.5)],
)
def test_the_policy_below_K_keeps_its_risks(means: tuple[float, float, float]) -> None:
    """Representation 1 has the first two means, 2 the third and half of it, 3 and 4 a fifth of it."""
    one, two, other = means
    truth = np.array([[one, two], [other, other / 2], [other / 5, other / 5], [other / 5, other / 5]])
    policy = Early(0.1, np.array([[0.52, 0.48], [0.02, 0.02], [0.02, 0.02], [0.02, 0.02]]))
    runs, rng = 150, np.random.default_rng(1)
    g, h = divmod(int(truth.argmax()), 2)
    answers = [play_early(policy, truth, rng)[1] for _ in range(runs)]
    ended = [answer for answer in answers if answer is not None]
    assert sum(answer[0] != g for answer in ended) <= allowed(runs, policy.delta_g)
    assert sum(answer[0] == g and answer[1] != h for answer in ended) <= allowed(runs, policy.delta_h)


def test_no_bound_for_one_arm_or_for_guesses() -> None:
    assert lower_bound(Instance.bernoulli([[[0.5]]]), delta=0.1).K_sharp.upper == 0.0
    assert lower_bound("paper", delta_g=0.5, delta_h=0.25).K_sharp.upper == 0.0

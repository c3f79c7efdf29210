"""The lower bound with a tolerance, beside a slow search over models and allocations."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from osrl.bounds import tolerance as within
from osrl.bounds.lower import lower_bound
from osrl.bounds.tolerance import bound_within, good_answers
from osrl.errors import OsrlError
from osrl.model.instance import Instance
from tests.support.instances import Array

RISKS = (0.1, 0.05)
COINS = Instance.bernoulli([[[0.7, 0.4], [0.3, 0.2]], [[0.3, 0.8], [0.4, 0.1]]])
NORMAL = Instance.gaussian([[[0.7, 0.4], [0.3, 0.2]], [[0.3, 0.8], [0.4, 0.1]]], noise_sd=0.5)


def kl(p: float, q: float, noise: float) -> float:
    if noise > 0:
        return (p - q) ** 2 / (2 * noise)
    return float(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))


def cost_in_task(instance: Instance, q: Array, x: int, b: int, c: int, epsilon: float) -> float:
    """Return the least cost over levels m of a model of task x in which b is best, and better than c by epsilon."""
    mu, noise = instance.means[x].ravel(), instance.family.noise
    top = 0.999 if noise == 0 else mu.max() + epsilon + 0.5
    found = np.inf
    for m in np.linspace(max(mu[b], epsilon + 1e-3), top, 400):
        total = q[x, b] * kl(mu[b], m, noise)
        for a in range(mu.size):
            level = min(mu[a], m - epsilon if a == c else m)
            if a != b:
                total += q[x, a] * kl(mu[a], level, noise)
        found = min(found, total)
    return found


def worst_model(instance: Instance, q: Array, epsilon: tuple[float, float], risks: tuple[float, float]) -> float:
    """Return the least cost of a model in which an answer is too bad, in parts of what the risks ask for."""
    X, G, H = instance.shape
    best, right = instance.best, 1 - sum(risks)
    found = np.inf
    for x in range(X):
        c = best.representation * H + best.predictors[x]
        for b in range(G * H):
            g = b // H
            if g == best.representation and b != c:
                cost = cost_in_task(instance, q, x, b, c, epsilon[1])
                found = min(found, cost / kl(right, risks[1], 0.0))
            elif g != best.representation:
                cost = cost_in_task(instance, q, x, b, c, epsilon[0])
                for z in range(X):
                    own = range(g * H, (g + 1) * H)
                    cost += 0.0 if z == x else min(cost_in_task(instance, q, z, a, -1, 0.0) for a in own)
                found = min(found, cost / kl(right, risks[0], 0.0))
    return found


@pytest.mark.parametrize("instance", [COINS, NORMAL])
@pytest.mark.parametrize("epsilon", [(0.05, 0.1), (0.2, 0.02)])
def test_no_allocation_beats_the_bound_and_some_reach_it(instance: Instance, epsilon: tuple[float, float]) -> None:
    found = bound_within(instance, RISKS, epsilon)
    assert found.known and found.lower <= found.upper <= 1.011 * found.lower
    rng = np.random.default_rng(0)
    close = lower_bound(instance, delta_g=RISKS[0], delta_h=RISKS[1]).K_valid.allocation
    reached = 0.0
    for i in range(20):
        mixed = 0.9 * close.ravel() + 0.1 * rng.dirichlet(np.ones(8)) if i else close.ravel()
        reached = max(reached, worst_model(instance, mixed.reshape(2, 4), epsilon, RISKS))
    assert found.lower <= 1 / reached * (1 + 1e-9)  # whatever is reached takes that long at least
    assert 1 / reached <= 1.5 * found.upper


def test_a_tolerance_makes_it_easier_and_a_tiny_one_changes_little() -> None:
    uppers = [bound_within(COINS, (0.1, 0.1), (e, e)).upper for e in (1e-6, 0.05, 0.1, 0.2)]
    assert all(one > other for one, other in zip(uppers, uppers[1:], strict=False))
    exact = lower_bound(COINS, delta=0.1).K_valid  # with a need for representations that is a little larger
    assert 0.9 * exact.lower < uppers[0] <= 1.01 * exact.upper


def test_tasks_with_several_good_answers_say_nothing() -> None:
    assert good_answers(COINS, 0, (0.4, 0.1)) == [(0, 0), (1, 0)]
    assert good_answers(COINS, 1, (0.4, 0.1)) == [(0, 1), (1, 0)]
    assert bound_within(COINS, RISKS, (0.35, 0.1)).tasks == (0, 1)
    some = bound_within(COINS, RISKS, (0.1, 0.35))
    assert some.tasks == (1,) and some.lower > 0
    none = bound_within(COINS, RISKS, (0.5, 0.5))
    assert not none.known and none.lower == 0
    assert not bound_within(COINS, (0.4, 0.4), (0.01, 0.01)).known  # a guess would do


def test_the_bound_is_part_of_the_others() -> None:
    assert lower_bound(COINS, delta=0.1).K_epsilon is None
    found = lower_bound(COINS, delta=0.1, epsilon_g=0.05).K_epsilon
    assert found is not None and (found.epsilon_g, found.epsilon_h) == (0.05, 0.0)
    with pytest.raises(OsrlError, match="epsilon_g is"):
        lower_bound(COINS, delta=0.1, epsilon=-1)


def clear(shape: tuple[int, int, int]) -> Instance:
    """Return an instance of this shape in which the first arm is the best by far."""
    means = np.random.default_rng(0).uniform(0.1, 0.5, shape)
    means[:, 0, 0] = 0.8
    return Instance.bernoulli(means)


def test_the_interval_is_narrow_where_there_are_many_arms() -> None:
    found = bound_within(clear((5, 5, 5)), RISKS, (0.05, 0.05))
    assert found.lower <= found.upper <= 1.1 * found.lower


def test_models_are_not_all_kept_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(within, "MAX_CUT_ROUNDS", 2)
    instance = clear((12, 12, 12))
    tracemalloc.start()
    try:
        assert bound_within(instance, RISKS, (0.05, 0.05)).lower > 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16e6  # every model as what each arm tells of it: 24 MB

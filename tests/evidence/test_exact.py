"""No stopping rule makes money from a true null: exact values over all reward sequences of a short horizon.

The expected evidence is computed under every null of a grid, for the *best* stopping rule and, where the
evidence allows any sampling rule, for the best sampling rule as well. It must not exceed 1.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from osrl.evidence.betting import log_mixture, new_bets, rank, settle, write_ticket
from osrl.evidence.counts import against, rises_of, samples_of, universal
from osrl.evidence.exponential_tilts import SHARE_MIXTURE, TILT_DOWN, TILT_LOCAL, TILT_PAIR, TILT_UP, new_tilts
from osrl.evidence.pairs import against_best, pair_log_evidence
from osrl.hypotheses.product import evidence_against, evidence_of_vector
from osrl.hypotheses.state import IN_TASK, TASK_WEALTH, new_hypotheses
from osrl.hypotheses.trials import observe_reward, ticket_size, write_trial_ticket
from osrl.model.families import Family
from tests.oracle import evidence as oracle
from tests.support.instances import Array

LEVELS = (0.02, 0.3, 0.5, 0.85)


def counts_evidence(kind: str, counts: tuple[float, ...], epsilon: float = 0.0) -> float:
    """Evidence against "arm 0 is the best, by epsilon".

    ``counts`` = (pulls, sum of rewards, those while it looked best: number, sum) of each arm in turn.
    """
    pulls, sums, led, led_sum = np.array(counts, float).reshape(-1, 4).T.copy()
    samples, tilts = samples_of(pulls, sums, np.zeros(pulls.size), led, led_sum, 0.0), new_tilts(0.0)
    if kind == "pairs":
        found = against_best(samples, tilts, 0.0)[0]
    elif kind == "a pair":
        found = pair_log_evidence(samples, 1, 0, tilts, 0.0, epsilon)
    elif kind == "pooled":
        found = against(
            samples, 0, tilts, rises_of(tilts), TILT_LOCAL, 0.0, epsilon, np.arange(pulls.size) > 0, -np.inf
        )
    else:
        found = universal(samples, 0.0)[0]
    return float(np.exp(found))


def after(counts: tuple[float, ...], arm: int, reward: float) -> tuple[float, ...]:
    """The counts after one more reward; of arms that look equally good, the first leads.

    Of two arms, nobody asks which one led.
    """
    found, (pulls, sums) = list(counts), (counts[::4], counts[1::4])
    means = [s / max(n, 1) for n, s in zip(pulls, sums, strict=True)]
    leads = len(means) > 2 and means.index(max(means)) == arm
    for place in (0, 2) if leads else (0,):
        found[4 * arm + place] += 1
        found[4 * arm + place + 1] += reward
    return tuple(found)


def best_expectation(
    evidence: Callable[[tuple[float, ...]], float],
    chances: tuple[float, ...],
    horizon: int,
    rewards: tuple[float, float] = (0.0, 1.0),
) -> float:
    """The largest expected evidence over all sampling and stopping rules.

    An arm yields the larger reward with its chance.
    """

    @cache
    def value(counts: tuple[float, ...]) -> float:
        best = evidence(counts)
        if sum(counts[::4]) == horizon:
            return best
        for a, chance in enumerate(chances):
            low, high = (value(after(counts, a, reward)) for reward in rewards)
            best = max(best, chance * high + (1 - chance) * low)
        return best

    return value((0.0,) * 4 * len(chances))


@pytest.mark.parametrize(
    ("kind", "arms", "horizon", "epsilon"),
    [
        ("pairs", 2, 14, 0.0),
        ("pairs", 3, 6, 0.0),
        ("a pair", 2, 12, 0.15),
        ("pooled", 2, 14, 0.0),
        ("pooled", 2, 12, 0.15),
        ("pooled", 3, 6, 0.0),
        ("pooled", 3, 6, 0.15),
        ("universal", 2, 14, 0.0),
        ("universal", 3, 6, 0.0),
    ],
)
def test_counts_under_any_sampling_rule(kind: str, arms: int, horizon: int, epsilon: float) -> None:
    @cache
    def evidence(counts: tuple[float, ...]) -> float:
        return counts_evidence(kind, counts, epsilon)

    largest = 0.0
    for rivals in itertools.combinations_with_replacement(LEVELS, arms - 1):
        for best in {*LEVELS, max(rivals) + epsilon}:
            if max(rivals) + epsilon <= best <= 1.0:
                largest = max(largest, best_expectation(evidence, (best, *rivals), horizon))
    assert 0.5 < largest <= 1 + 1e-9
    assert best_expectation(evidence, (0.3,) + (0.9,) * (arms - 1), horizon) > 1  # and false nulls do pay
    if epsilon > 0.0:  # the margin is what is tested: without it, equal arms pay
        assert best_expectation(evidence, (0.85,) * arms, horizon) > largest


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.9), (0.0, 0.6)])
@pytest.mark.parametrize("kind", ["pairs", "pooled", "universal"])
def test_counts_of_rewards_that_are_no_coins(kind: str, low: float, high: float) -> None:
    """Two arms, rewards low and high only: the best sampling and stopping rule earns nothing either."""

    @cache
    def evidence(counts: tuple[float, ...]) -> float:
        return counts_evidence(kind, counts)

    for chances in ((0.5, 0.5), (0.9, 0.9), (0.7, 0.3), (0.1, 0.1)):
        assert best_expectation(evidence, chances, 8, (low, high)) <= 1 + 1e-9


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_gaussian_counts_lie_below_a_supermartingale(seed: int, epsilon: float) -> None:
    """After every reward of a history: what one more of any arm is expected to do, at the true means."""
    rng, noise, arms = np.random.default_rng(seed), 0.49, 3
    tilts = new_tilts(noise)
    mixed = oracle.Mixed(
        list(zip(tilts.grid[TILT_UP], tilts.grid[TILT_DOWN], np.exp(tilts.grid[TILT_LOCAL]), strict=True)),
        float(np.exp(tilts.shares[TILT_LOCAL - TILT_PAIR, SHARE_MIXTURE])),
    )
    behind = np.array([False, True, False])
    truth = [0.4, 0.4 - epsilon, -0.1]
    levels = [0.4, 0.4 - epsilon, 0.4]
    samples: list[list[float]] = [[rng.normal(mean, 0.7) for _ in range(3)] for mean in truth]
    led: list[list[float]] = [[0.2], [0.1, 0.5], []]
    grid = np.linspace(-9.0, 9.0, 181)

    def value() -> float:
        return float(np.exp(oracle.log_terms(samples, led, 0, mixed, noise, levels, truth)))

    for _ in range(3):
        now, leader = value(), int(np.argmax([np.mean(each) for each in samples]))
        counts = [np.array([f(each) for each in rows], float) for rows in (samples, led) for f in (len, sum)]
        first = np.array([each[0] for each in samples])
        told = samples_of(counts[0], counts[1], first, counts[2], counts[3], noise)
        assert (
            against(told, 0, tilts, rises_of(tilts), TILT_LOCAL, noise, epsilon, behind, -np.inf) <= np.log(now) + 1e-9
        )
        for arm in range(arms):
            places = [samples[arm], led[arm]] if arm == leader else [samples[arm]]
            expected = 0.0
            for y in grid:
                for each in places:
                    each.append(y)
                expected += value() * norm.pdf(y, truth[arm], 0.7) * (grid[1] - grid[0])
                for each in places:
                    each.pop()
            assert expected <= now * (1 + 1e-6)
        arm = int(rng.integers(arms))
        reward = float(rng.normal(truth[arm], 0.7))
        samples[arm].append(reward)
        if arm == leader:
            led[arm].append(reward)


def weights_of(rule: int, pulls: Array, sums: Array) -> Array:
    """Three ways to choose the probabilities from the past: even, greedy, and nearly without chance."""
    n = pulls.size
    if rule == 0:
        return np.full(n, 1 / n)
    means = (sums + 0.5) / (pulls + 1)
    weights = means**4 if rule == 1 else np.where(np.arange(n) == np.argmin(means), 0.97, 0.03 / (n - 1))
    return np.asarray(weights / weights.sum())


def betting_value(rule: int, means: tuple[float, ...], horizon: int, b: int, rewards: tuple[float, float]) -> float:
    """The largest expected wealth against "b is the best" over all stopping rules."""
    bets = new_bets(shrinkage=2.0)

    def value(pulls: Array, sums: Array, wealth: Array, left: int) -> float:
        now = float(np.exp(log_mixture(wealth, bets.local)))
        if left == 0:
            return now
        weights = weights_of(rule, pulls, sums)
        estimates, order = np.empty(len(means)), np.arange(len(means))
        rank(pulls, sums, bets.shrinkage, estimates, order)
        later = 0.0
        for a, mean in enumerate(means):
            ticket = np.empty((len(means), 4))
            write_ticket(estimates, order, weights, a, bets.safe, np.ones(1, np.bool_), ticket)
            low, high = rewards
            for reward, chance in ((high, (mean - low) / (high - low)), (low, (high - mean) / (high - low))):
                then, more, total = wealth.copy(), pulls.copy(), sums.copy()
                settle(then, ticket[b], bets.beta, reward)
                more[a] += 1
                total[a] += reward
                later += weights[a] * chance * value(more, total, then, left - 1)
        return max(now, later)

    start = np.zeros(len(means))
    return value(start, start.copy(), np.zeros(bets.beta.size), horizon)


@pytest.mark.parametrize("rule", [0, 1, 2])
@pytest.mark.parametrize("rewards", [(0.0, 1.0), (0.2, 0.9)])
def test_bets_under_any_stopping_rule(rule: int, rewards: tuple[float, float]) -> None:
    for means, horizon in [((0.5, 0.5), 5), ((0.6, 0.3), 5), ((0.25, 0.25, 0.25), 4), ((0.8, 0.8, 0.3), 4)]:
        assert betting_value(rule, means, horizon, 0, rewards) <= 1 + 1e-12
    assert betting_value(rule, (0.25, 0.85), 5, 0, rewards) > 1


@pytest.mark.parametrize("vector", [None, 1])
def test_bets_on_a_representation_over_two_tasks_under_any_order_of_tasks(vector: int | None) -> None:
    """g = 0 is the best in both tasks, with one predictor here and the other there; tasks come to hurt.

    The evidence is the least over predictors in each task, or that against the true vector, which is 1.
    """
    truth = np.array([[0.5, 0.3, 0.5, 0.4], [0.2, 0.6, 0.6, 0.6]])
    bets = new_bets(shrinkage=2.0)
    hypotheses = new_hypotheses((2, 2, 2), Family("bernoulli"), (1e-9, 1e-9), bets)
    ticket = np.zeros(ticket_size(hypotheses))

    def value(tests: Any, left: int) -> float:
        if vector is None:
            now = evidence_against(tests.against, tests.bets, 0)
        else:
            of_arms, held = tests.evidence[IN_TASK, :, :2], tests.wealth[TASK_WEALTH, :, :2]
            room = np.empty(held.shape[2])
            now = evidence_of_vector(of_arms, held, tests.bets, vector, -math.inf, room)
        best = float(np.exp(now))
        if left == 0:
            return best
        for x in range(2):
            weights = weights_of(1, tests.pulls[x], tests.sums[x])
            later = 0.0
            for a in range(4):
                for reward in (0.0, 1.0):
                    after = copy.deepcopy(tests)
                    write_trial_ticket(after, x, a, weights, ticket)
                    observe_reward(after, x, a, reward, ticket)
                    chance = truth[x, a] if reward else 1 - truth[x, a]
                    later += weights[a] * chance * value(after, left - 1)
            best = max(best, later)
        return best

    assert 1.0 <= value(hypotheses, 3) <= 1 + 1e-12

"""No stopping rule makes money from a true null: exact values over all reward sequences of a short horizon.

The expected evidence is computed under every null of a grid, for the *best* stopping rule and, where the
evidence allows any sampling rule, for the best sampling rule as well. It must not exceed 1.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from osrl.evidence.betting import log_mixture, new_bets, rank, settle, write_ticket
from osrl.evidence.counts import pooled, samples_of, universal
from osrl.evidence.pairs import against_best, new_tilts
from osrl.families import Family
from osrl.hypotheses.possible import new_hypotheses
from osrl.hypotheses.shared import evidence_against
from osrl.hypotheses.trials import take_reward, take_ticket, ticket_size
from tests.instances import Array

LEVELS = (0.02, 0.3, 0.5, 0.85)


def counts_evidence(kind: str, counts: tuple[float, ...]) -> Array:
    """Log evidence against each arm as the best; ``counts`` = (pulls, successes) of each arm in turn."""
    table = np.array(counts, float).reshape(-1, 2)
    samples = samples_of(table[:, 0].copy(), table[:, 1].copy(), np.zeros(len(table)), 0.0)
    if kind == "pairs":
        return against_best(samples, new_tilts(0.0), 0.0)
    return pooled(samples, 0.0) if kind == "pooled" else universal(samples, 0.0)


def best_expectation(
    evidence: Callable[[tuple[int, ...]], float], means: tuple[float, ...], horizon: int
) -> float:
    """The largest expected evidence over all sampling and stopping rules."""

    @cache
    def value(counts: tuple[int, ...]) -> float:
        best = evidence(counts)
        if sum(counts[::2]) == horizon:
            return best
        for a, mean in enumerate(means):
            after = list(counts)
            after[2 * a] += 1
            failure = value(tuple(after))
            after[2 * a + 1] += 1
            best = max(best, mean * value(tuple(after)) + (1 - mean) * failure)
        return best

    return value((0, 0) * len(means))


@pytest.mark.parametrize(("arms", "horizon"), [(2, 14), (3, 7)])
@pytest.mark.parametrize("kind", ["pairs", "pooled", "universal"])
def test_counts_under_any_sampling_rule(kind: str, arms: int, horizon: int) -> None:
    @cache
    def evidence(counts: tuple[int, ...]) -> float:
        return float(np.exp(counts_evidence(kind, counts)[0]))

    largest = 0.0
    for rivals in itertools.combinations_with_replacement(LEVELS, arms - 1):
        for best in LEVELS:
            if best >= max(rivals):
                largest = max(largest, best_expectation(evidence, (best, *rivals), horizon))
    assert 0.5 < largest <= 1 + 1e-9
    assert best_expectation(evidence, (0.3,) + (0.9,) * (arms - 1), horizon) > 1  # and false nulls do pay


@pytest.mark.parametrize("kind", ["pairs", "pooled", "universal"])
@pytest.mark.parametrize(("low", "high"), [(0.2, 0.9), (0.0, 0.6)])
def test_counts_of_rewards_that_are_no_coins(kind: str, low: float, high: float) -> None:
    """Two arms, rewards low and high only: the best sampling and stopping rule earns nothing either."""

    def largest(chances: tuple[float, float]) -> float:
        @cache
        def value(pulls: tuple[int, int], highs: tuple[int, int]) -> float:
            sums = (low * n + (high - low) * k for n, k in zip(pulls, highs, strict=True))
            counts = tuple(each for pair in zip(pulls, sums, strict=True) for each in pair)
            best = float(np.exp(counts_evidence(kind, counts)[0]))
            if sum(pulls) == 8:
                return best
            for a, chance in enumerate(chances):
                more = (pulls[0] + (a == 0), pulls[1] + (a == 1))
                up = (highs[0] + (a == 0), highs[1] + (a == 1))
                best = max(best, chance * value(more, up) + (1 - chance) * value(more, highs))
            return best

        return value((0, 0), (0, 0))

    for chances in ((0.5, 0.5), (0.9, 0.9), (0.7, 0.3), (0.1, 0.1)):
        assert largest(chances) <= 1 + 1e-9


def weights_of(rule: int, pulls: Array, sums: Array) -> Array:
    """Three ways to choose the probabilities from the past: even, greedy, and nearly without chance."""
    n = pulls.size
    if rule == 0:
        return np.full(n, 1 / n)
    means = (sums + 0.5) / (pulls + 1)
    weights = means**4 if rule == 1 else np.where(np.arange(n) == np.argmin(means), 0.97, 0.03 / (n - 1))
    return np.asarray(weights / weights.sum())


def betting_value(
    rule: int, means: tuple[float, ...], horizon: int, b: int, rewards: tuple[float, float]
) -> float:
    """The largest expected wealth against "b is the best" over all stopping rules."""
    bets = new_bets(shrinkage=2.0)

    def value(pulls: Array, sums: Array, wealth: Array, left: int) -> float:
        now = float(np.exp(log_mixture(wealth, bets.local)))
        if left == 0:
            return now
        weights = weights_of(rule, pulls, sums)
        estimates, order, work = np.empty(len(means)), np.arange(len(means)), np.empty((5, len(means) + 1))
        rank(pulls, sums, bets.shrinkage, estimates, order)
        later = 0.0
        for a, mean in enumerate(means):
            ticket = np.empty((len(means), 4))
            write_ticket(estimates, order, weights, a, bets.safe, work, ticket)
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


def test_bets_on_a_representation_over_two_tasks_under_any_order_of_tasks() -> None:
    """g = 0 is the best in both tasks, with one predictor here and the other there; tasks come to hurt."""
    truth = np.array([[0.5, 0.3, 0.5, 0.4], [0.2, 0.6, 0.6, 0.6]])
    bets = new_bets(shrinkage=2.0)
    hypotheses = new_hypotheses((2, 2, 2), Family("bernoulli"), (1e-9, 1e-9), bets)
    ticket = np.zeros(ticket_size(hypotheses))

    def value(tests: Any, left: int) -> float:
        best = float(np.exp(evidence_against(tests.against, tests.bets, 0)))
        if left == 0:
            return best
        for x in range(2):
            weights = weights_of(1, tests.pulls[x], tests.sums[x])
            later = 0.0
            for a in range(4):
                for reward in (0.0, 1.0):
                    after = copy.deepcopy(tests)
                    take_ticket(after, x, a, weights, ticket)
                    take_reward(after, x, a, reward, ticket)
                    chance = truth[x, a] if reward else 1 - truth[x, a]
                    later += weights[a] * chance * value(after, left - 1)
            best = max(best, later)
        return best

    assert 1.0 <= value(hypotheses, 3) <= 1 + 1e-12

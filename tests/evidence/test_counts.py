"""Evidence from counts: equal to its definitions, strong where counts are unequal, and hard to fool."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import binom

from osrl.evidence.counts import Samples, pooled, samples_of, universal
from osrl.evidence.exponential_tilts import TILT_DOWN, TILT_LOCAL, TILT_PAIR, TILT_TASK, TILT_UP, Tilts, new_tilts
from osrl.evidence.pairs import against_best, pair_log_evidence
from osrl.evidence.processes import COUNT_SHRINKAGE, Pooled
from osrl.model.families import Family, divergence
from tests.oracle import evidence as oracle

seeds = st.integers(0, 99)
RATIOS = (1.0, 2.0, 4.0, 7.3, 20.0)


def mixed(tilts: Tilts, row: int) -> oracle.Mixed:
    weights = np.exp(tilts.grid[row])
    mixture, idle = np.exp(tilts.shares[row - TILT_PAIR])
    return oracle.Mixed(list(zip(tilts.grid[TILT_UP], tilts.grid[TILT_DOWN], weights, strict=True)), mixture, idle)


def summarised(samples: list[list[float]], noise: float, led: list[list[float]] | None = None) -> Samples:
    led = [[] for _ in samples] if led is None else led
    number, total = (np.array([f(each) for each in samples], float) for f in (len, sum))
    first = np.array([each[0] if each else 0.0 for each in samples])
    lead, lead_sum = (np.array([f(each) for each in led], float) for f in (len, sum))
    return samples_of(number, total, first, lead, lead_sum, noise)


def drawn(rng: np.random.Generator, mean: float, n: int, noise: float) -> list[float]:
    """Rewards of an arm; of a coin at least one 0 and one 1, since the oracle stays inside (0, 1)."""
    if noise > 0:
        return [float(each) for each in rng.normal(mean, math.sqrt(noise), n)]
    return [0.0, 1.0, *(float(each) for each in rng.random(n) < mean)]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.floats(0.05, 0.95)), min_size=2, max_size=4),
    st.sampled_from([0.0, 0.49]),
    st.sampled_from([TILT_TASK, TILT_LOCAL]),
    st.sampled_from([0.0, 0.1]),
    seeds,
)
def test_pooled_evidence_is_the_minimum_of_its_definition(
    arms: list[Any], noise: float, row: int, epsilon: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    samples = [drawn(rng, p, n, noise) for n, p in arms]
    led = [each[: rng.integers(len(each) + 1)] for each in samples]
    tilts, behind = new_tilts(noise), rng.random(len(arms)) < 0.5
    found = pooled(summarised(samples, noise, led), tilts, row, noise, epsilon, behind)
    for b in range(len(samples)):
        marked = np.flatnonzero(behind).tolist()
        wanted = oracle.pooled(samples, led, b, mixed(tilts, row), noise, epsilon, marked)
        assert found[b] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.49])
@pytest.mark.parametrize("epsilon", [0.0, 0.07])
@pytest.mark.parametrize("seed", range(8))
def test_the_evidence_of_a_pair_is_the_minimum_of_its_definition(noise: float, epsilon: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [
        drawn(rng, mean, n, noise) for n, mean in zip(rng.integers(3, 200, 2), rng.uniform(0.2, 0.8, 2), strict=True)
    ]
    told, tilts = summarised(samples, noise), new_tilts(noise)
    for a, b in ((0, 1), (1, 0)):
        wanted = oracle.pair(samples[a], samples[b], mixed(tilts, TILT_PAIR), noise, epsilon)
        assert pair_log_evidence(told, a, b, tilts, noise, epsilon) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.49])
def test_a_process_counts_the_rewards_of_whoever_looked_best(noise: float) -> None:
    rng = np.random.default_rng(4)
    family = Family("gaussian", math.sqrt(noise)) if noise else Family("bernoulli")
    process, means = Pooled(3, family), (0.7, 0.5, 0.2)
    trials = [(a, drawn(rng, means[a], 2, noise)[-1]) for a in rng.integers(3, size=60).tolist()]
    trials[:6] = [(a, y) for a in range(3) for y in (0.0, 1.0)]
    for arm, reward in trials:
        process.observe(arm, reward)
    led = oracle.rewards_of_leaders(trials, 3, COUNT_SHRINKAGE)
    assert process.led.tolist() == [len(each) for each in led]
    assert process.led_sum == pytest.approx([sum(each) for each in led])
    samples = [[y for a, y in trials if a == arm] for arm in range(3)]
    for b in range(3):
        wanted = oracle.pooled(samples, led, b, mixed(process.tilts, TILT_TASK), noise)
        assert process.log_value[b] == pytest.approx(wanted, abs=1e-6)


def at_ratio(ratio: float, top: float, low: float, noise: float, nats: float) -> Samples:
    """Counts whose likelihood ratio against "the second arm is the better one" is ``nats``."""
    level = (ratio * top + low) / (ratio + 1)
    each = ratio * divergence(top, level, noise) + divergence(low, level, noise)
    number, mean = nats / each * np.array([ratio, 1.0]), np.array([top, low])
    if noise > 0:  # the first reward is not judged
        return samples_of(number + 1, (number + 1) * mean, mean, np.zeros(2), np.zeros(2), noise)
    return samples_of(number, number * mean, np.zeros(2), np.zeros(2), np.zeros(2), noise)


@pytest.mark.parametrize("noise", [0.0, 0.25])
@pytest.mark.parametrize("ratio", [*RATIOS, *(1 / ratio for ratio in RATIOS[1:])])
def test_unequal_counts_are_worth_as_much_as_equal_ones(ratio: float, noise: float) -> None:
    """A likelihood ratio of 8 nats; with the same tilt on both sides, 6.6, 3.1, 0.8, -0.9, -3.1 were left.

    Pooled, the rival leads, and mostly has the larger count.
    """
    tilts, samples = new_tilts(noise), at_ratio(ratio, 0.5, 0.45, noise, 8.0)
    assert pair_log_evidence(samples, 0, 1, tilts, noise, 0.0) > 4.5
    for row, leading, trailing in ((TILT_LOCAL, 4.5, 4.0), (TILT_TASK, 4.7, 3.7)):
        found = pooled(samples, tilts, row, noise, 0.0, np.zeros(2, np.bool_))[1]
        assert found > (leading if ratio >= 1 else trailing)


@pytest.mark.parametrize("noise", [0.0, 0.25])
@pytest.mark.parametrize("rivals", [2, 5, 35])
def test_many_arms_cost_no_more_than_two(rivals: int, noise: float) -> None:
    """The same 8 nats between the leader and an arm, beside others that nobody has sampled much."""
    tilts, n = new_tilts(noise), rivals + 1
    two = at_ratio(4.0, 0.5, 0.4, noise, 8.0)
    number, mean, excess = np.ones(n), np.full(n, 0.4), np.zeros(n)
    number[:2], mean[:2], excess[:2] = two.number, two.mean, two.excess
    led = np.where(np.arange(n) == 0, number, 0.0)
    samples = Samples(number, mean, excess, led, led * mean)
    assert pooled(samples, tilts, TILT_LOCAL, noise, 0.0, np.zeros(n, np.bool_))[1] > 4.5


def test_a_margin_is_a_gap_that_need_not_be_seen() -> None:
    """Arms that look equal are evidence against "b is better by epsilon", as much as a gap would be."""
    noise, tilts, behind = 0.25, new_tilts(0.25), np.array([True, False])
    equal, apart = (at_ratio(2.0, top, 0.4, noise, 8.0) for top in (0.4 + 1e-12, 0.5))
    level = Samples(apart.number, np.full(2, 0.4), np.array(apart.excess), equal.led, equal.led_sum)
    assert pair_log_evidence(level, 0, 1, tilts, noise, 0.1) == pytest.approx(
        pair_log_evidence(apart, 0, 1, tilts, noise, 0.0), abs=1e-6
    )
    assert pooled(level, tilts, TILT_LOCAL, noise, 0.1, behind)[1] == pytest.approx(
        pooled(apart, tilts, TILT_LOCAL, noise, 0.0, behind)[1], abs=1e-6
    )
    assert pair_log_evidence(level, 0, 1, tilts, noise, 0.0) == -math.inf


def test_against_the_best_of_several_is_the_average_over_rivals() -> None:
    told = summarised([[0, 1, 1, 0, 1], [0, 0, 1], [1, 1, 1, 0], [0, 1]], 0.0)
    tilts = new_tilts(0.0)
    for b, found in enumerate(against_best(told, tilts, 0.0)):
        rivals = [pair_log_evidence(told, a, b, tilts, 0.0, 0.0) for a in range(4) if a != b]
        assert found == pytest.approx(logsumexp(rivals) - math.log(3))


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_universal_inference_is_the_likelihood_ratio_of_its_definition(noise: float) -> None:
    """Mixture of all rewards over the largest likelihood under "b is the best"."""
    rng = np.random.default_rng(3)
    samples = [(rng.random(n) < 0.5).astype(float).tolist() for n in (7, 12, 9)]
    told = summarised(samples, noise)
    judged = [oracle.judged(each, noise) for each in samples]
    mixtures = sum(oracle.log_mixture(each, noise) for each in samples)
    for b in range(3):
        levels = np.linspace(0.01, 0.99, 9801)
        pooled_means = [np.minimum(np.mean(each), levels) if a != b else levels for a, each in enumerate(judged)]
        likelihood = np.sum(
            [
                [oracle.log_likelihood(each, m, noise) for m in means]
                for each, means in zip(judged, pooled_means, strict=True)
            ],
            axis=0,
        )
        assert universal(told, noise)[b] == pytest.approx(mixtures - np.max(likelihood), abs=1e-5)


@pytest.mark.parametrize("sums", [0.0, 1e7, 5e6, 4999.0])
def test_ten_million_rewards_and_rewards_that_never_vary_are_no_trouble(sums: float) -> None:
    pulls, total, none = np.array([1e7, 1e7]), np.array([sums, 5e6]), np.zeros(2)
    told, tilts = samples_of(pulls, total, none, none, none, 0.0), new_tilts(0.0)
    assert (told.excess <= 0).all()
    for found in (
        pooled(told, tilts, TILT_TASK, 0.0, 0.0, np.zeros(2, np.bool_)),
        universal(told, 0.0),
        against_best(told, tilts, 0.0),
    ):
        assert not np.isnan(found).any()
        assert (found < 1e8).all()
        if sums != 5e6:
            assert found[0 if sums < 5e6 else 1] > 1000


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize(("arms", "epsilon"), [(2, 0.0), (3, 0.0), (3, 0.1)])
def test_true_nulls_are_rarely_rejected_by_a_rule_that_hunts_for_it(arms: int, epsilon: float, noise: float) -> None:
    """Equal arms, or arm 0 better by epsilon; always the arm that looks better against the null.

    Looked at after every sample.
    """
    delta, runs, rejected = 0.1, 300, 0
    rng = np.random.default_rng(0)
    tilts, behind = new_tilts(noise), np.arange(arms) > 0
    for _ in range(runs):
        number, total, first, led, led_sum = np.zeros((5, arms))
        for t in range(80):
            means = total / np.maximum(number, 1.0)
            rival = 1 + int(np.argmax(means[1:]))
            a = t % arms if t < 2 * arms else rival if means[rival] > means[0] else 0
            mean = 0.4 + (epsilon if a == 0 else 0.0)
            reward = rng.normal(mean) if noise else float(rng.random() < mean)
            first[a] = reward if number[a] == 0 else first[a]
            if a == np.argmax(means):
                led[a] += 1
                led_sum[a] += reward
            number[a] += 1
            total[a] += reward
            samples = samples_of(number, total, first, led, led_sum, noise)
            if pooled(samples, tilts, TILT_LOCAL, noise, epsilon, behind)[0] >= math.log(1 / delta):
                rejected += 1
                break
    assert rejected <= binom.ppf(0.999, runs, delta)

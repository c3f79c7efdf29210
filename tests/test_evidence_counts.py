"""Evidence from counts: equal to its definitions, and hard to fool."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import betaln, logsumexp
from scipy.stats import binom, norm

from osrl.evidence.counts import Samples, pooled, samples_of, universal
from osrl.evidence.pairs import against_best, new_tilts, pair
from tests.instances import Array

seeds = st.integers(0, 99)


def literal_pooled(samples: list[list[float]], b: int, noise: float) -> float:
    """The definition, with a search over a fine grid that is then refined."""
    share = 1 / max(len(samples), 2)

    def log_f(a: int, level: float) -> float:
        rewards = samples[a]
        if noise > 0:
            first, rest = rewards[:1], np.array(rewards[1:])
            if not len(rest):
                return 0.0
            log_p = norm.logpdf(rest, level, math.sqrt(noise)).sum()
            covariance = noise * (np.eye(len(rest)) + 1)
            residual = rest - first[0]
            _, log_det = np.linalg.slogdet(2 * math.pi * covariance)
            log_m = -0.5 * (log_det + residual @ np.linalg.solve(covariance, residual))
        else:
            ones, zeros = sum(rewards), len(rewards) - sum(rewards)
            log_m = betaln(ones + 0.5, zeros + 0.5) - betaln(0.5, 0.5)
            log_p = (ones * math.log(level) if ones else 0.0) + (zeros * math.log1p(-level) if zeros else 0.0)
        return math.log(1 - share + share * math.exp(log_m - log_p))

    def estimate(a: int) -> float:
        judged = samples[a][1:] if noise > 0 else samples[a]
        return float(np.mean(judged)) if judged else float(np.mean(samples[a] or [0.0]))

    def total(m: float) -> float:
        others = [a for a in range(len(samples)) if a != b]
        return log_f(b, m) + sum(log_f(a, min(estimate(a), m)) for a in others)

    low, high = (-9.0, 9.0) if noise > 0 else (1e-9, 1 - 1e-9)
    return float(minimize_scalar(total, bounds=(low, high), method="bounded", options={"xatol": 1e-10}).fun)


def summarised(samples: list[list[float]], noise: float) -> Samples:
    number, total = (np.array([f(each) for each in samples], float) for f in (len, sum))
    first = np.array([each[0] if each else 0.0 for each in samples])
    return samples_of(number, total, first, noise)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.floats(0.05, 0.95)), min_size=2, max_size=4), st.integers(0, 99)
)
def test_pooled_bernoulli_evidence_is_the_minimum_of_its_definition(arms: list[Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [(rng.random(n) < p).astype(float).tolist() for n, p in arms]
    # The search of the definition stays inside (0, 1), so estimates must too.
    samples = [[*each, 0.0, 1.0] for each in samples]
    found = pooled(summarised(samples, 0.0), 0.0)
    for b in range(len(samples)):
        assert found[b] == pytest.approx(literal_pooled(samples, b, 0.0), abs=1e-6)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 8), st.floats(-2, 2)), min_size=2, max_size=4), seeds)
def test_pooled_gaussian_evidence_is_the_minimum_of_its_definition(arms: list[Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [rng.normal(mean, 0.7, n).tolist() for n, mean in arms]
    found = pooled(summarised(samples, 0.49), 0.49)
    for b in range(len(samples)):
        assert found[b] == pytest.approx(literal_pooled(samples, b, 0.49), abs=1e-6)


def literal_pair(samples: list[list[float]], a: int, b: int, noise: float) -> float:
    """The definition of the evidence for "a is better than b", minimised over a grid and refined."""
    tilts = new_tilts(noise)
    one, other = (np.array(samples[i][1:] if noise > 0 else samples[i]) for i in (a, b))
    both = [
        summarised([samples[i]], noise).excess[0] + log_likelihood(each, each.mean(), noise)
        for i, each in ((a, one), (b, other))
    ]

    def cumulant(theta: float, s: float) -> float:
        return s * theta + s * s * noise / 2 if noise > 0 else math.log(1 - theta + theta * math.exp(s))

    def log_value(theta: float) -> float:
        terms = [
            weight
            + s * one.sum()
            - one.size * cumulant(theta, s)
            - s * other.sum()
            - other.size * cumulant(theta, -s)
            for s, weight in zip(tilts.half, tilts.weight, strict=True)
        ]
        likelihood = log_likelihood(one, theta, noise) + log_likelihood(other, theta, noise)
        return float(logsumexp([*terms, tilts.mixture + sum(both) - likelihood]))

    grid = np.linspace(-9, 9, 2001) if noise > 0 else np.linspace(1e-6, 1 - 1e-6, 2001)
    start = int(np.argmin([log_value(theta) for theta in grid]))
    bounds = grid[max(start - 1, 0)], grid[min(start + 1, grid.size - 1)]
    return float(minimize_scalar(log_value, bounds=bounds, method="bounded", options={"xatol": 1e-10}).fun)


def log_likelihood(rewards: Array, mean: float, noise: float) -> float:
    if noise > 0:
        return float(norm.logpdf(rewards, mean, math.sqrt(noise)).sum())
    return float(np.log(np.where(rewards == 1, mean, 1 - mean)).sum())


@pytest.mark.parametrize("noise", [0.0, 0.49])
@pytest.mark.parametrize("seed", range(12))
def test_the_evidence_of_a_pair_is_the_minimum_of_its_definition(noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, means = rng.integers(3, 200, 2), rng.uniform(0.2, 0.8, 2)
    samples = [
        rng.normal(mean, math.sqrt(noise), n).tolist()
        if noise
        else [0.0, 1.0, *(rng.random(n) < mean).astype(float)]
        for n, mean in zip(sizes, means, strict=True)
    ]
    told = summarised(samples, noise)
    a, b = (0, 1) if told.mean[0] > told.mean[1] else (1, 0)
    assert pair(told, a, b, new_tilts(noise), noise) == pytest.approx(
        literal_pair(samples, a, b, noise), abs=1e-6
    )
    assert pair(told, b, a, new_tilts(noise), noise) == -math.inf


def test_against_the_best_of_several_is_the_average_over_rivals() -> None:
    told = summarised([[0, 1, 1, 0, 1], [0, 0, 1], [1, 1, 1, 0], [0, 1]], 0.0)
    tilts = new_tilts(0.0)
    for b, found in enumerate(against_best(told, tilts, 0.0)):
        rivals = [pair(told, a, b, tilts, 0.0) for a in range(4) if a != b]
        assert found == pytest.approx(logsumexp(rivals) - math.log(3))


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_universal_inference_is_the_likelihood_ratio_of_its_definition(noise: float) -> None:
    """Mixture of all rewards over the largest likelihood under "b is the best"."""
    rng = np.random.default_rng(3)
    samples = [(rng.random(n) < 0.5).astype(float).tolist() for n in (7, 12, 9)]
    told = summarised(samples, noise)
    judged = [np.array(each[1:] if noise else each) for each in samples]
    mixtures = sum(told.excess[a] + log_likelihood(each, each.mean(), noise) for a, each in enumerate(judged))
    for b in range(3):
        levels = np.linspace(0.01, 0.99, 9801)
        pooled_means = [
            np.minimum(each.mean(), levels) if a != b else levels for a, each in enumerate(judged)
        ]
        likelihood = sum(
            np.array([log_likelihood(each, m, noise) for m in means])
            for each, means in zip(judged, pooled_means, strict=True)
        )
        assert universal(told, noise)[b] == pytest.approx(mixtures - np.max(likelihood), abs=1e-5)


@pytest.mark.parametrize("sums", [0.0, 1e7, 5e6, 4999.0])
def test_ten_million_rewards_and_rewards_that_never_vary_are_no_trouble(sums: float) -> None:
    pulls, total = np.array([1e7, 1e7]), np.array([sums, 5e6])
    told = samples_of(pulls, total, np.zeros(2), 0.0)
    assert (told.excess <= 0).all()
    for found in (pooled(told, 0.0), universal(told, 0.0), against_best(told, new_tilts(0.0), 0.0)):
        assert not np.isnan(found).any()
        assert (found < 1e8).all()
        if sums != 5e6:
            assert found[0 if sums < 5e6 else 1] > 1000


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_true_nulls_are_rarely_rejected_by_a_rule_that_hunts_for_it(noise: float) -> None:
    """Two equal arms; always the arm that looks better against the null. Looked at after every sample."""
    delta, runs, rejected = 0.1, 300, 0
    rng = np.random.default_rng(0)
    for _ in range(runs):
        number, total, first = np.zeros(2), np.zeros(2), np.zeros(2)
        for t in range(60):
            a = t % 2 if t < 4 else int(total[1] / number[1] > total[0] / number[0])
            reward = rng.normal() if noise else float(rng.random() < 0.4)
            first[a] = reward if number[a] == 0 else first[a]
            number[a] += 1
            total[a] += reward
            samples = samples_of(number, total, first, noise)
            if pooled(samples, noise)[0] >= math.log(1 / delta):
                rejected += 1
                break
    assert rejected <= binom.ppf(0.999, runs, delta)

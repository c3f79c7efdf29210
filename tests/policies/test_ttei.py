"""Top-two expected improvement and the posterior that stops it, choice by choice, against literal forms."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from osrl.errors import OsrlError
from osrl.model.families import Family
from osrl.model.instance import Instance
from osrl.model.outcome import DECIDED
from osrl.model.rng import new_key
from osrl.policies.contract import Problem
from osrl.policies.registry import pair, sampling_rules
from osrl.policies.sampling.common import BASE_ROUNDS
from osrl.policies.stopping.arm_stats import ARM_MEANS, ARM_PULLS, ARM_SUMS, chance_of_largest, largest_with_confidence
from osrl.testing import new_state
from tests.oracle import rules as oracle

pytestmark = pytest.mark.nojit

NOISE = {"gaussian": 0.25, "bernoulli": 0.0}
OF_REPRESENTATIONS, OF_PREDICTORS = 0, 2  # samples after which a question of this kind is next

Counts = NDArray[np.int64]


def instance_of(family: str, shape: tuple[int, int, int]) -> Instance:
    means = np.random.default_rng(5).uniform(0.2, 0.8, shape)
    return Instance.gaussian(means, 0.5) if family == "gaussian" else Instance.bernoulli(means)


def tallies(family: str, shape: tuple[int, int, int], seed: int) -> tuple[Counts, Any]:
    """Pulls and sums (X, n): no arm so rare that it has to be explored."""
    rng = np.random.default_rng(seed)
    pulls = rng.integers(10, 25, (shape[0], shape[1] * shape[2]))
    sums = rng.binomial(pulls, rng.uniform(0.3, 0.7, pulls.shape)).astype(float)
    return pulls, sums + rng.normal(0, 0.1, pulls.shape) if family == "gaussian" else sums


def beliefs_of(pulls: Counts, sums: Any, noise: float) -> list[list[NormalDist]]:
    """The posterior of every arm, as printed: normal, or with the moments of Beta(1 + s, 1 + n - s)."""

    def belief(n: float, s: float) -> NormalDist:
        if noise:
            return NormalDist(s / n, math.sqrt(noise / n))
        a, b = 1 + s, 1 + n - s
        return NormalDist(a / (a + b), math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1))))

    return [[belief(n, s) for n, s in zip(*rows, strict=True)] for rows in zip(pulls, sums, strict=True)]


def chosen(family: str, shape: tuple[int, int, int], pulls: Counts, sums: Any, rounds: int) -> list[int]:
    """Leader and challenger: what `ttei` samples where beta is 1, and where it is next to nothing."""
    rule, policy, found = sampling_rules()["ttei"], pair("ttei", "counts"), []
    instance, criteria = instance_of(family, shape), policy.criteria([(0.1, 0.1)])
    state = new_state(policy, instance, criteria, new_key(0, 0))
    for beta in (1.0, 1e-300):
        arms = state.sampling.arms
        arms[ARM_PULLS], arms[ARM_SUMS], arms[ARM_MEANS] = pulls, sums, sums / pulls
        state.sampling.numbers[BASE_ROUNDS] = rounds
        sampling = state.sampling._replace(beta=beta)
        found.append(int(rule.select(sampling, state.stopping, -1, np.zeros(pulls.shape))))
    return found


@pytest.mark.parametrize("family", NOISE)
def test_in_one_task_the_pair_is_that_of_the_paper(family: str) -> None:
    for seed in range(40):
        pulls, sums = tallies(family, (1, 1, 5), seed)
        [beliefs] = beliefs_of(pulls, sums, NOISE[family])
        assert chosen(family, (1, 1, 5), pulls, sums, 0) == list(oracle.ttei_pair(beliefs)), seed


@pytest.mark.parametrize("family", NOISE)
def test_of_several_tasks_the_one_whose_challenger_promises_most(family: str) -> None:
    for seed in range(20):
        pulls, sums = tallies(family, (3, 1, 3), seed)
        pairs = [(beliefs, *oracle.ttei_pair(beliefs)) for beliefs in beliefs_of(pulls, sums, NOISE[family])]
        gains = [oracle.expected_improvement(beliefs[j] - beliefs[i]) for beliefs, i, j in pairs]
        x = gains.index(max(gains))
        assert chosen(family, (3, 1, 3), pulls, sums, OF_PREDICTORS) == [3 * x + a for a in pairs[x][1:]]


@pytest.mark.parametrize("family", NOISE)
def test_representations_are_compared_by_the_sum_of_their_best_means(family: str) -> None:
    for seed in range(40):
        pulls, sums = tallies(family, (2, 3, 2), seed)
        beliefs = beliefs_of(pulls, sums, NOISE[family])
        values = []
        for g in range(3):
            best = [max(row[2 * g : 2 * g + 2], key=lambda belief: belief.mean) for row in beliefs]
            values.append(best[0] + best[1])
        leader, rival = oracle.ttei_pair(values)
        pairs, told = [], []
        for x, row in enumerate(beliefs):
            a = 2 * leader + oracle.ttei_pair(row[2 * leader : 2 * leader + 2])[0]
            b = max((2 * rival, 2 * rival + 1), key=lambda b: oracle.expected_improvement(row[b] - row[a]))
            pairs.append([6 * x + a, 6 * x + b])
            one, other = row[a].mean, row[b].mean
            middle = (one + other) / 2
            coins = oracle.kl(one, middle) + oracle.kl(other, middle) if family == "bernoulli" else 0.0
            told.append(coins if family == "bernoulli" else abs(one - other))
        assert chosen(family, (2, 3, 2), pulls, sums, OF_REPRESENTATIONS) == pairs[told.index(max(told))]


@pytest.mark.parametrize("beta", [0.0, 1.5, math.nan])
def test_beta_is_a_share(beta: float) -> None:
    policy = pair("ttei", "glr")
    problem = Problem((1, 1, 2), Family("bernoulli"), policy.criteria([(0.1, 0.1)]))
    with pytest.raises(OsrlError, match="give the leader's share of the samples"):
        policy.new(problem, 0.5, beta=beta)


def test_the_posterior_probability_is_the_integral() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        size = int(rng.integers(2, 7))
        means, variances = rng.normal(0, 1, size), rng.uniform(0.2, 1.0, size) ** 2
        beliefs = [NormalDist(m, math.sqrt(v)) for m, v in zip(means, variances, strict=True)]
        best = int(np.argmax(means))
        exact = oracle.probability_of_best(beliefs, best)
        assert chance_of_largest(means, variances, 0, size, best) == pytest.approx(exact, abs=1e-9)
        for risk in (*rng.uniform(0, 1, 3), 0.999 * (1 - exact), 1.001 * (1 - exact)):
            assert largest_with_confidence(means, variances, 0, size, risk) == (best if 1 - exact <= risk else -1)


def test_it_stops_when_every_arm_was_tried_and_the_answer_is_probable() -> None:
    policy = pair("uniform", "posterior")
    state = new_state(policy, instance_of("gaussian", (2, 2, 2)), policy.criteria([(0.1, 0.05)]), new_key(0, 0))
    rng, nothing = np.random.default_rng(3), np.zeros(0)
    pulls, sums = np.zeros((2, 4), int), np.zeros((2, 4))
    known = -1
    for t in range(2000):
        x, a = divmod(t % 8, 4)
        reward = float(rng.normal([[1.0, 0.6, 0.5, 0.2], [0.2, 0.8, 0.4, 0.5]][x][a], 0.5))
        policy.stopping.observe(state.stopping, x, a, reward, nothing)
        pulls[x, a] += 1
        sums[x, a] += reward
        if t < 7:
            assert state.outcome.status[0] != DECIDED
            continue
        beliefs = beliefs_of(pulls, sums, 0.25)
        if known < 0:
            best = [[max(row[2 * g : 2 * g + 2], key=lambda b: b.mean) for row in beliefs] for g in (0, 1)]
            values = [one + other for one, other in best]
            g = int(values[1].mean > values[0].mean)
            known = g if oracle.probability_of_best(values, g) >= 0.9 else -1
            assert (state.outcome.tau_g[0] == t + 1) == (known >= 0)
        if state.outcome.status[0] == DECIDED:
            break
    assert known == 0 and t > 8 and state.outcome.predictor[0].tolist() == [0, 1]
    for row in beliefs:
        own = row[:2]
        assert oracle.probability_of_best(own, int(own[1].mean > own[0].mean)) > 0.9

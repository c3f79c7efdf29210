"""Rules `ttts`, `t3c`, `eb-tci` and `ttei`: sample a leader or a challenger.

- `ttts`: the leader is the answer of a sample from the posterior, the challenger that of another sample with another
  answer. Such samples become rare: after `MAX_RESAMPLES` the challenger is that of T3C;
- `t3c`: the challenger is the answer that is cheapest to believe in instead;
- `eb-tci`: the leader is the answer of the estimate, the challenger the one with the least transportation cost plus
  ln N;
- `ttei`: the leader is expected to improve most on the best posterior mean, E max(theta_i - max_j m_j, 0), the
  challenger on the leader, E max(theta_j - theta_I, 0). With beta = 1 it is expected improvement (EI), which is too
  greedy to stop soon.

Posteriors are normal (`osrl.policies.stopping.arm_stats`). The answer of a sample is the g with the largest sum over
tasks of its best means, and its best predictors; expected improvements of representations are of these sums too. The
transportation cost of a representation is C(g) of `osrl.glr.statistic`; N is then that of its witness, on average over
tasks. Two representations are compared in the task where a sample is most informative.

Parameters:

- ``beta`` (0.5): the leader's share of the samples.

>>> import osrl
>>> runs = osrl.simulate("paper", sample=["ttts", "t3c", "eb-tci", "ttei"], stop="glr-gk", delta=0.1, runs=1)
>>> runs.frame["tau"].to_list()
[11370, 11615, 11653, 11677]

References: D. Russo, Simple Bayesian Algorithms for Best Arm Identification, COLT 2016 (TTTS). X. Shang, R. de Heide,
P. Menard, E. Kaufmann and M. Valko, Fixed-Confidence Guarantees for Bayesian Best-Arm Identification, AISTATS 2020
(T3C). M. Jourdan, R. Degenne, D. Baudry, R. de Heide and E. Kaufmann, Top Two Algorithms Revisited, NeurIPS 2022
(EB-TCI). C. Qin, D. Klabjan and D. Russo, Improving the Expected Improvement Algorithm, NeurIPS 2017 (TTEI).
"""

from __future__ import annotations

import math
from typing import Any

from osrl.jit import kernel_in_place
from osrl.model.rng import threefry
from osrl.policies.sampling.common import (
    BASE_ROUNDS,
    EB_TCI,
    TTEI,
    TTTS,
    BaselineSampling,
    decided_representation,
    information_about_order,
    is_task_open,
    is_turn_of_representations,
    leading_representation,
    round_uniform,
)
from osrl.policies.stopping.arm_stats import (
    ARM_MEANS,
    ARM_PULLS,
    likelihood_ratio,
    normal_cdf,
    posterior,
    value_of_representation,
)

MAX_RESAMPLES = 2
_SMALL = 1.0 / 4294967296.0  # 2^-32


@kernel_in_place
def plausible_mean(sampling: BaselineSampling, number: int, x: int, a: int) -> float:
    """Return the mean of an arm in posterior sample ``number`` of this round; for EB-TCI and TTEI the estimate."""
    arms, key = sampling.arms, sampling.key
    if sampling.rule == EB_TCI:
        return float(arms[ARM_MEANS, x, a])
    mean, variance = posterior(arms, x, a, sampling.noise)
    if sampling.rule == TTEI:
        return float(mean)
    _, tasks, n = arms.shape
    lane = 16 + (number * tasks + x) * n + a
    one, other = threefry(key.low, key.high, lane, int(sampling.numbers[BASE_ROUNDS]))
    normal = math.sqrt(-2.0 * math.log((one + 0.5) * _SMALL)) * math.cos(2.0 * math.pi * other * _SMALL)
    return float(mean + normal * math.sqrt(variance))


@kernel_in_place
def expected_improvement(gap: float, variance: float) -> float:
    """Return E max(D, 0) of a normal D with this mean and variance."""
    spread = math.sqrt(variance)
    z = gap / spread
    return spread * (z * normal_cdf(z) + math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi))


@kernel_in_place
def most_improving_arm(sampling: BaselineSampling, x: int, first: int, last: int, than: float, doubt: float) -> int:
    """Return the arm of first .. last - 1 that is expected to improve most on a mean with this variance."""
    found, most = first, -1.0
    for a in range(first, last):
        mean, variance = posterior(sampling.arms, x, a, sampling.noise)
        gain = expected_improvement(mean - than, variance + doubt)
        if gain > most:
            found, most = a, gain
    return found


@kernel_in_place
def plausible_best_arm(sampling: BaselineSampling, number: int, x: int, first: int, last: int) -> int:
    """Return the best of the arms first .. last - 1 of task ``x`` in a sample; for TTEI the one to try."""
    best, most = first, -math.inf
    for a in range(first, last):
        value = plausible_mean(sampling, number, x, a)
        if value > most:
            best, most = a, value
    if sampling.rule == TTEI:
        return most_improving_arm(sampling, x, first, last, most, 0.0)
    return best


@kernel_in_place
def most_improving_representation(
    sampling: BaselineSampling, stopping: Any, leader: int, than: float, doubt: float
) -> int:
    """Return the possible representation expected to improve most, other than the leader (-1: of all)."""
    possible_g = stopping.possible_g
    predictors = sampling.arms.shape[2] // possible_g.size
    found, most = -1, -1.0
    for g in range(possible_g.size):
        if possible_g[g] and g != leader:
            mean, variance = value_of_representation(
                sampling.arms, g * predictors, (g + 1) * predictors, sampling.noise
            )
            gain = expected_improvement(mean - than, variance + doubt)
            if gain > most:
                found, most = g, gain
    return found


@kernel_in_place
def plausible_representation(sampling: BaselineSampling, stopping: Any, number: int) -> int:
    """Return the best possible representation in a sample; for TTEI the one to try."""
    possible_g = stopping.possible_g
    _, tasks, n = sampling.arms.shape
    predictors = n // possible_g.size
    found, most = -1, -math.inf
    for g in range(possible_g.size):
        if not possible_g[g]:
            continue
        total = 0.0
        for x in range(tasks):
            best = -math.inf
            for a in range(g * predictors, (g + 1) * predictors):
                best = max(best, plausible_mean(sampling, number, x, a))
            total += best
        if total > most:
            found, most = g, total
    if sampling.rule == TTEI:
        return most_improving_representation(sampling, stopping, -1, most, 0.0)
    return found


@kernel_in_place
def leading_for_predictors(sampling: BaselineSampling, stopping: Any) -> int:
    """Return the representation whose predictors are compared: the one that is cheapest to believe in."""
    possible_g, total = stopping.possible_g, sampling.glr.total
    if sampling.rule == TTEI:
        return leading_representation(sampling, stopping)
    found = decided_representation(stopping)
    if found >= 0:
        return found
    for g in range(possible_g.size):
        if possible_g[g] and (found < 0 or total[g] < total[found]):
            found = g
    return found


@kernel_in_place
def challenger_of(sampling: BaselineSampling, stopping: Any, leader: int) -> int:
    """Return the challenger of a representation."""
    possible_g, glr, pulls = stopping.possible_g, sampling.glr, sampling.arms[ARM_PULLS]
    predictors = pulls.shape[1] // possible_g.size
    if sampling.rule == TTEI:
        mean, variance = value_of_representation(
            sampling.arms, leader * predictors, (leader + 1) * predictors, sampling.noise
        )
        return most_improving_representation(sampling, stopping, leader, mean, variance)
    if sampling.rule == TTTS:
        for number in range(1, 1 + MAX_RESAMPLES):
            other = plausible_representation(sampling, stopping, number)
            if other != leader:
                return other
    found, least = -1, math.inf
    for g in range(possible_g.size):
        if g != leader and possible_g[g]:
            cost = glr.total[g]
            if sampling.rule == EB_TCI:
                for x in range(pulls.shape[0]):
                    tried = max(pulls[x, g * predictors + glr.predictor[x, g]], 1.0)
                    cost += math.log(tried) / pulls.shape[0]
            if cost < least:
                found, least = g, cost
    return found


@kernel_in_place
def pair_of_representations(sampling: BaselineSampling, stopping: Any) -> tuple[int, int]:
    """Return the arms x * n + a of two representations to compare, the leader's first."""
    glr, noise = sampling.glr, sampling.noise
    _, tasks, n = sampling.arms.shape
    predictors = n // stopping.possible_g.size
    if sampling.rule == EB_TCI:
        leader = leading_for_predictors(sampling, stopping)
    else:
        leader = plausible_representation(sampling, stopping, 0)
    rival = challenger_of(sampling, stopping, leader)
    one, other, most = 0, 0, -1.0
    for x in range(tasks):
        a = plausible_best_arm(sampling, 0, x, leader * predictors, (leader + 1) * predictors)
        if sampling.rule == TTEI:
            mean, variance = posterior(sampling.arms, x, a, noise)
            b = most_improving_arm(sampling, x, rival * predictors, (rival + 1) * predictors, mean, variance)
        else:
            b = rival * predictors + int(glr.predictor[x, rival])
        told = information_about_order(
            _inside(plausible_mean(sampling, 0, x, a), noise), _inside(plausible_mean(sampling, 0, x, b), noise), noise
        )
        if told > most:
            one, other, most = x * n + a, x * n + b, told
    return one, other


@kernel_in_place
def _inside(mean: float, noise: float) -> float:
    """Return the closest mean that coins can have."""
    return mean if noise > 0.0 else min(max(mean, 0.0), 1.0)


@kernel_in_place
def pair_of_predictors(sampling: BaselineSampling, stopping: Any, g: int) -> tuple[int, int]:
    """Return the arms of two predictors of ``g`` to compare, in an open task, the leader's first."""
    arms, possible_h = sampling.arms, stopping.possible_h
    _, tasks, n = arms.shape
    predictors = n // stopping.possible_g.size
    first, last = g * predictors, (g + 1) * predictors
    known = decided_representation(stopping)
    if sampling.rule == TTTS:
        offset = int(sampling.numbers[BASE_ROUNDS])
        for i in range(tasks):
            x = (i + offset) % tasks
            if is_task_open(stopping, known, x):
                a = plausible_best_arm(sampling, 0, x, first, last)
                for number in range(1, 1 + MAX_RESAMPLES):
                    b = plausible_best_arm(sampling, number, x, first, last)
                    if a != b:
                        return x * n + a, x * n + b
    one, other, least = -1, -1, math.inf
    for x in range(tasks):
        if not is_task_open(stopping, known, x):
            continue
        leader = plausible_best_arm(sampling, 0, x, first, last)
        mean, variance = posterior(arms, x, leader, sampling.noise)
        for b in range(first, last):
            if b == leader or not possible_h[x, b]:
                continue
            if sampling.rule == TTEI:
                hope, doubt = posterior(arms, x, b, sampling.noise)
                cost = -expected_improvement(hope - mean, doubt + variance)
            else:
                cost = max(likelihood_ratio(arms, x, leader, b, sampling.noise), 0.0)
            if sampling.rule == EB_TCI:
                cost += math.log(max(arms[ARM_PULLS, x, b], 1.0))
            if cost < least:
                one, other, least = x * n + leader, x * n + b, cost
    return one, other


@kernel_in_place
def top_two(sampling: BaselineSampling, stopping: Any) -> tuple[int, int]:
    """Return the two arms x * n + a to compare now, the leader's first; -1 where there is no question."""
    g = leading_for_predictors(sampling, stopping)
    if is_turn_of_representations(sampling, stopping, g):
        return pair_of_representations(sampling, stopping)
    return pair_of_predictors(sampling, stopping, g)


@kernel_in_place
def is_leader_sampled(sampling: BaselineSampling) -> bool:
    """Tell by a coin whether the leader is sampled."""
    return round_uniform(sampling, 0) < sampling.beta

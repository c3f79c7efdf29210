"""Rules `tas`, `c-tracking` and `oracle`: follow the best proportions for the open questions.

The weights are those of the joint program of Theorem 1 at the estimate: each open question at the same need, and while
the representation is open, half of them as if nothing else were asked. They are solved again when the run has grown by
``growth``, and when something was decided.

- `tas` (D-tracking) pulls the arm that is furthest behind its present share;
- `c-tracking` pulls the arm that is furthest behind the sum of all shares so far, each mixed with
  1/2 (K^2 + t)^-1/2 on every arm. Where weights jump, because two tasks are equally informative, it follows their
  average, while D-tracking may starve arms of small weight;
- `oracle` does D-tracking with the true means, to measure the cost of not knowing them. Only simulations have it.

Parameters:

- ``growth`` (0.05): growth of the run after which weights are solved again.

>>> import osrl
>>> runs = osrl.simulate("paper", sample=["tas", "c-tracking", "oracle"], stop="glr-gk", delta=0.1, runs=2)
>>> runs.frame["tau"].to_list()
[10814, 3471, 10828, 5191, 10824, 5206]

Reference: A. Garivier and E. Kaufmann, Optimal Best Arm Identification with Fixed Confidence, COLT 2016 (both
trackings).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from osrl.allocation.residual import PRIOR_SAMPLES, enforce_margin
from osrl.evidence.betting import shrunk_means
from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import any_nonzero
from osrl.model.arrays import Floats
from osrl.policies.sampling.common import (
    ARM_CREDIT,
    ARM_TARGET,
    BASE_DESIGN_DUE,
    BASE_POSSIBILITIES,
    BASE_ROUNDS,
    C_TRACKING,
    ORACLE,
    BaselineSampling,
    decided_representation,
    is_anything_open,
    is_arm_open,
    is_task_open,
    least_pulled_open,
)
from osrl.policies.sampling.residual_needs import cheapest_possible, solve_program
from osrl.policies.stopping.arm_stats import ARM_PULLS, ARM_SUMS


@kernel_in_place
def count_possibilities(stopping: Any) -> float:
    """Count the representations and predictors that are possible."""
    possible_g, possible_h = stopping.possible_g, stopping.possible_h
    tasks, n = possible_h.shape
    count = 0.0
    for g in range(possible_g.size):
        count += 1.0 if possible_g[g] else 0.0
    for x in range(tasks):
        for a in range(n):
            count += 1.0 if possible_h[x, a] else 0.0
    return count


@kernel_in_place
def are_proportions_due(sampling: BaselineSampling, stopping: Any) -> bool:
    """Tell whether the weights are old, or something was decided since they were made."""
    numbers = sampling.numbers
    if sampling.rule != ORACLE and numbers[BASE_ROUNDS] >= numbers[BASE_DESIGN_DUE]:
        return True
    return bool(numbers[BASE_POSSIBILITIES] != count_possibilities(stopping) and is_anything_open(stopping))


@kernel
def solve_proportions(sampling: BaselineSampling, stopping: Any) -> None:
    """Solve for new weights for the open questions."""
    arms, numbers, noise = sampling.arms, sampling.numbers, sampling.noise
    possible_g, possible_h = stopping.possible_g, stopping.possible_h
    tasks, n = possible_h.shape
    predictors = n // possible_g.size
    pulls, sums = arms[ARM_PULLS].copy(), arms[ARM_SUMS].copy()
    means = np.empty((tasks, n))
    for x in range(tasks):
        if sampling.rule == ORACLE:
            means[x], pulls[x], sums[x] = sampling.truth[x], 1e9, 1e9 * sampling.truth[x]
        else:
            shrunk_means(pulls[x], sums[x], PRIOR_SAMPLES, means[x])
    g = cheapest_possible(means, pulls, possible_g, noise)
    leader = np.empty(tasks, np.int64)
    need_g, need_h = np.zeros(possible_g.size), np.zeros((tasks, n))
    for other in range(possible_g.size):
        if other != g and possible_g[other]:
            need_g[other] = 1.0
    for x in range(tasks):
        leader[x] = -1
        for a in range(g * predictors, (g + 1) * predictors):
            if possible_h[x, a] and (leader[x] < 0 or means[x, a] > means[x, leader[x]]):
                leader[x] = a
        enforce_margin(means[x], pulls[x], sums[x], leader[x], noise)
        for a in range(g * predictors, (g + 1) * predictors):
            if a != leader[x] and possible_h[x, a]:
                need_h[x, a] = 1.0
    numbers[BASE_DESIGN_DUE] = max(numbers[BASE_ROUNDS] + 4.0, numbers[BASE_ROUNDS] * (1.0 + sampling.growth))
    numbers[BASE_POSSIBILITIES] = count_possibilities(stopping)
    if not any_nonzero(need_g) and not any_nonzero(need_h):
        return
    weights = arms[ARM_TARGET].copy()
    solve_program(means, leader, need_g, need_h, noise, weights)
    alone = weights.copy()
    if any_nonzero(need_g) and any_nonzero(need_h):
        solve_program(means, leader, need_g, np.zeros((tasks, n)), noise, alone)
    for x in range(tasks):
        for a in range(n):
            arms[ARM_TARGET, x, a] = 0.5 * (weights[x, a] + alone[x, a])


@kernel_in_place
def add_credit(sampling: BaselineSampling) -> None:
    """Add the weights of a round to their running sum."""
    arms, rounds = sampling.arms, sampling.numbers[BASE_ROUNDS]
    _, tasks, n = arms.shape
    K = float(tasks * n)
    share = 0.5 / math.sqrt(K * K + rounds)
    for x in range(tasks):
        for a in range(n):
            arms[ARM_CREDIT, x, a] += (1.0 - K * share) * arms[ARM_TARGET, x, a] + share


@kernel_in_place
def track_proportions(sampling: BaselineSampling, stopping: Any) -> int:
    """Return the open arm x * n + a that is furthest behind its share."""
    arms = sampling.arms
    forced = least_pulled_open(sampling, stopping)
    if forced >= 0:
        return forced
    _, tasks, n = arms.shape
    g, samples = decided_representation(stopping), 0.0
    for x in range(tasks):
        task = is_task_open(stopping, g, x)
        for a in range(n):
            if is_arm_open(stopping, True, task, a):
                samples += arms[ARM_PULLS, x, a]
    lagging, furthest = 0, -math.inf
    for x in range(tasks):
        task = is_task_open(stopping, g, x)
        for a in range(n):
            if is_arm_open(stopping, True, task, a):
                due = arms[ARM_CREDIT, x, a] if sampling.rule == C_TRACKING else samples * arms[ARM_TARGET, x, a]
                if due - arms[ARM_PULLS, x, a] > furthest:
                    lagging, furthest = x * n + a, due - arms[ARM_PULLS, x, a]
    return lagging


@kernel_in_place
def write_proportions(sampling: BaselineSampling, propensities: Floats) -> None:
    """Write the weights as probabilities."""
    arms = sampling.arms
    for x in range(arms.shape[1]):
        for a in range(arms.shape[2]):
            propensities[x, a] = arms[ARM_TARGET, x, a]

"""Rules `kl-lucb`, `ugape`, `racing` and `chernoff-racing`: sample arms whose confidence intervals overlap.

The interval of an arm holds the means m with N kl(muhat, m) <= ln((ln t + 1) / delta), the rate of Garivier and
Kaufmann's experiments. It only steers the sampling: the proof of a risk is a matter of the stopping rule.

- `kl-lucb` samples the leader of the estimate and its rival with the largest upper end, alternately;
- `ugape` takes as leader the arm that can lose least, max_b U_b - L_a, and samples the one of the two with fewer
  samples;
- `racing` samples all arms that are not eliminated in turn. After each round it eliminates an arm whose upper end is
  below the lower end of another one of its representation, and a representation all of whose arms are beaten in some
  task;
- `chernoff-racing` eliminates by the likelihood ratio of the two arms instead of their intervals.

Two representations are compared in the task where the rival is closest to being eliminated. There are no parameters.

>>> import osrl
>>> runs = osrl.simulate("paper", sample=["kl-lucb", "ugape"], stop="intervals-gk", delta=0.1, runs=2)
>>> runs.frame["tau"].to_list()
[21683, 4744, 22048, 4759]

References: E. Kaufmann and S. Kalyanakrishnan, Information Complexity in Bandit Subset Selection, COLT 2013 (KL-LUCB,
KL racing). V. Gabillon, M. Ghavamzadeh and A. Lazaric, Best Arm Identification: A Unified Approach to Fixed Budget
and Fixed Confidence, NeurIPS 2012 (UGapE). A. Garivier and E. Kaufmann, Optimal Best Arm Identification with Fixed
Confidence, COLT 2016 (Chernoff racing).
"""

from __future__ import annotations

import math
from typing import Any

from osrl.jit import kernel_in_place
from osrl.policies.sampling.common import (
    BASE_INTERVALS_DUE,
    BASE_ROUNDS,
    CHERNOFF_RACING,
    UGAPE,
    BaselineSampling,
    decided_representation,
    is_task_open,
    is_turn_of_representations,
    leading_representation,
)
from osrl.policies.stopping.arm_stats import (
    ARM_LOWER,
    ARM_MEANS,
    ARM_PULLS,
    ARM_UPPER,
    INTERVAL_GROWTH,
    best_mean,
    likelihood_ratio,
    lower_bound,
    upper_bound,
)


@kernel_in_place
def exploration_rate(sampling: BaselineSampling) -> float:
    """Return ln((ln t + 1) / delta)."""
    return sampling.rate + math.log(math.log(max(sampling.numbers[BASE_ROUNDS], 1.0)) + 1.0)


@kernel_in_place
def refresh_intervals(sampling: BaselineSampling, x: int, a: int) -> None:
    """Update the interval of the arm that was sampled, and from time to time all of them."""
    numbers, arms = sampling.numbers, sampling.arms
    _look(sampling, x, a)
    if numbers[BASE_ROUNDS] >= numbers[BASE_INTERVALS_DUE]:
        numbers[BASE_INTERVALS_DUE] = numbers[BASE_ROUNDS] * (1.0 + INTERVAL_GROWTH) + 1.0
        for y in range(arms.shape[1]):
            for b in range(arms.shape[2]):
                _look(sampling, y, b)


@kernel_in_place
def _look(sampling: BaselineSampling, x: int, a: int) -> None:
    arms, rate = sampling.arms, exploration_rate(sampling)
    arms[ARM_UPPER, x, a] = upper_bound(arms[ARM_MEANS, x, a], arms[ARM_PULLS, x, a], rate, sampling.noise)
    arms[ARM_LOWER, x, a] = lower_bound(arms[ARM_MEANS, x, a], arms[ARM_PULLS, x, a], rate, sampling.noise)


@kernel_in_place
def most_optimistic(sampling: BaselineSampling, x: int, first: int, last: int, except_for: int) -> int:
    """Return the arm with the largest upper end of first .. last - 1 other than ``except_for``, or -1."""
    ends, found = sampling.arms[ARM_UPPER, x], -1
    for a in range(first, last):
        if a != except_for and (found < 0 or ends[a] > ends[found]):
            found = a
    return found


@kernel_in_place
def leader_for_pair(sampling: BaselineSampling, x: int, first: int, last: int) -> int:
    """Return the leader among the arms first .. last - 1 of task ``x``."""
    arms = sampling.arms
    if sampling.rule != UGAPE:
        return best_mean(arms, x, first, last)
    top = most_optimistic(sampling, x, first, last, -1)
    second = most_optimistic(sampling, x, first, last, top)
    found, least = first, math.inf
    for a in range(first, last):
        other = second if a == top else top
        loss = (arms[ARM_UPPER, x, other] if other >= 0 else 0.0) - arms[ARM_LOWER, x, a]
        if loss < least:
            found, least = a, loss
    return found


@kernel_in_place
def optimistic_pair(sampling: BaselineSampling, stopping: Any) -> tuple[int, int]:
    """Return the two arms x * n + a to compare now, the leader's first; -1 where there is no question."""
    arms, possible_g, possible_h = sampling.arms, stopping.possible_g, stopping.possible_h
    _, tasks, n = arms.shape
    predictors = n // possible_g.size
    g = leading_representation(sampling, stopping)
    one, other, widest = -1, -1, -math.inf
    if is_turn_of_representations(sampling, stopping, g):
        for rival in range(possible_g.size):
            if rival == g or not possible_g[rival]:
                continue
            a, b, closest = -1, -1, math.inf
            for x in range(tasks):
                mine = leader_for_pair(sampling, x, g * predictors, (g + 1) * predictors)
                theirs = most_optimistic(sampling, x, rival * predictors, (rival + 1) * predictors, -1)
                gap = arms[ARM_UPPER, x, theirs] - arms[ARM_LOWER, x, mine]
                if gap < closest or a < 0:
                    a, b, closest = x * n + mine, x * n + theirs, gap
            if closest > widest or one < 0:
                one, other, widest = a, b, closest
        return one, other
    known = decided_representation(stopping)
    for x in range(tasks):
        if not is_task_open(stopping, known, x):
            continue
        mine = leader_for_pair(sampling, x, g * predictors, (g + 1) * predictors)
        for b in range(g * predictors, (g + 1) * predictors):
            if b != mine and possible_h[x, b]:
                gap = arms[ARM_UPPER, x, b] - arms[ARM_LOWER, x, mine]
                if gap > widest or one < 0:
                    one, other, widest = x * n + mine, x * n + b, gap
    return one, other


@kernel_in_place
def next_of_pair(sampling: BaselineSampling, one: int, other: int) -> int:
    """Return which of two arms is next: the one with fewer samples for UGapE, otherwise they alternate."""
    pulls = sampling.arms[ARM_PULLS]
    n = pulls.shape[1]
    if sampling.rule == UGAPE:
        fewer = pulls[one // n, one % n] <= pulls[other // n, other % n]
        return one if fewer else other
    return one if int(sampling.numbers[BASE_ROUNDS]) % 2 == 0 else other


@kernel_in_place
def eliminates(sampling: BaselineSampling, x: int, a: int, b: int) -> bool:
    """Tell whether arm ``a`` eliminates arm ``b``."""
    arms = sampling.arms
    if sampling.rule == CHERNOFF_RACING:
        return likelihood_ratio(arms, x, a, b, sampling.noise) > exploration_rate(sampling)
    return bool(arms[ARM_LOWER, x, a] > arms[ARM_UPPER, x, b])


@kernel_in_place
def eliminate(sampling: BaselineSampling, representations: int, x: int) -> None:
    """Eliminate the arms and representations that are beaten in task ``x``."""
    arms, alive = sampling.arms, sampling.alive
    _, tasks, n = arms.shape
    predictors = n // representations
    best = best_mean(arms, x, 0, n)
    for g in range(representations):
        first, last = g * predictors, (g + 1) * predictors
        own = best_mean(arms, x, first, last)
        lost = g != best // predictors
        for b in range(first, last):
            lost = lost and eliminates(sampling, x, best, b)
            if b != own and eliminates(sampling, x, own, b):
                alive[x, b] = False
        if lost:
            for y in range(tasks):
                for b in range(first, last):
                    alive[y, b] = False


@kernel_in_place
def is_racing(sampling: BaselineSampling, stopping: Any, x: int, a: int) -> bool:
    """Tell whether an arm of a task in the race is alive and possible."""
    predictors = sampling.alive.shape[1] // stopping.possible_g.size
    return bool(sampling.alive[x, a] and stopping.possible_g[a // predictors])


@kernel_in_place
def is_task_racing(sampling: BaselineSampling, stopping: Any, x: int) -> bool:
    """Tell whether a task has open questions and several racing arms."""
    runners = 0
    for a in range(sampling.alive.shape[1]):
        if is_racing(sampling, stopping, x, a):
            runners += 1
    return runners > 1 and is_task_open(stopping, decided_representation(stopping), x)


@kernel_in_place
def least_pulled_racing(sampling: BaselineSampling, stopping: Any) -> int:
    """Return the racing arm x * n + a with the fewest pulls, or -1 when the race is over."""
    pulls = sampling.arms[ARM_PULLS]
    tasks, n = pulls.shape
    found, fewest = -1, math.inf
    for x in range(tasks):
        if is_task_racing(sampling, stopping, x):
            for a in range(n):
                if pulls[x, a] < fewest and is_racing(sampling, stopping, x, a):
                    found, fewest = x * n + a, pulls[x, a]
    return found


@kernel_in_place
def is_round_over(sampling: BaselineSampling, stopping: Any, x: int, a: int) -> bool:
    """Tell whether the arm just sampled was the last one of its round."""
    pulls = sampling.arms[ARM_PULLS]
    last = least_pulled_racing(sampling, stopping)
    return last < 0 or bool(pulls[last // pulls.shape[1], last % pulls.shape[1]] >= pulls[x, a])


@kernel_in_place
def next_racing(sampling: BaselineSampling, stopping: Any) -> int:
    """Return the next racing arm x * n + a; when the race is over, the next of those that are open.

    The stopping rule may need more evidence than the race: then all arms that it has left open are sampled.
    """
    found, fewest = least_pulled_racing(sampling, stopping), math.inf
    if found >= 0:
        return found
    pulls = sampling.arms[ARM_PULLS]
    tasks, n = pulls.shape
    predictors = n // stopping.possible_g.size
    known = decided_representation(stopping)
    for x in range(tasks):
        open_still = is_task_open(stopping, known, x)
        for a in range(n):
            if pulls[x, a] < fewest and open_still and stopping.possible_g[a // predictors]:
                found, fewest = x * n + a, pulls[x, a]
    return found

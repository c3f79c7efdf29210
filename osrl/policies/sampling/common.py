"""The state that the published sampling rules share: arm statistics, the open questions, and a pair of arms to compare.

Each of these rules was published for one task. Here the question is shared: which representation is best in all tasks,
and which of its predictors in each. All rules are lifted in the same way. There are two kinds of questions, and half of
the samples go to each while both are open (the shared choice must not wait for two predictors that are nearly equal):

- *representations*: a leading g and a challenger g', compared in the task where that is quickest;
- *predictors*: in one task, two predictors of the leading g.

A rule names the two arms of a question; either is sampled. The open questions are read from the stopping rule,
``possible_g`` (G,) and ``possible_h`` (X, n): any stopping rule whose state has these can be paired with it. Arms
with fewer than sqrt(t) - K / 2 samples come first, as in track-and-stop; where TTEI compares only predictors, only
those that were never tried, because it explores by itself.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.glr.statistic import Glr, new_glr
from osrl.jit import kernel_in_place
from osrl.model.arrays import Flags, Floats
from osrl.model.families import divergence
from osrl.model.outcome import sole_survivor
from osrl.model.rng import CHOICE_LANE, Key, new_key, uniform
from osrl.policies.contract import Problem
from osrl.policies.sampling.tracking import must_explore
from osrl.policies.stopping.arm_stats import ARM_LOWER, ARM_MEANS, ARM_PULLS, ARM_UPPER, best_mean

ARM_TARGET, ARM_CREDIT = 5, 6  # rows of `arms` after those of `osrl.policies.stopping.arm_stats`
BASE_ROUNDS, BASE_DESIGN_DUE, BASE_POSSIBILITIES, BASE_INTERVALS_DUE = range(4)  # places of `numbers`

D_TRACKING, C_TRACKING, ORACLE, TTTS, T3C, EB_TCI, TTEI, KL_LUCB, UGAPE, RACING, CHERNOFF_RACING = range(11)


class BaselineSampling(NamedTuple):
    """Arm statistics and the quantities that rules derive from them (arrays are updated in place)."""

    arms: Floats  # (7, X, n) pulls, sums, means; ends of intervals; weights to follow, and their running sums
    glr: Glr  # of these statistics
    alive: Flags  # (X, n) arms that a race has not eliminated
    numbers: Floats  # (4,) samples; when to solve, and the possibilities then; when to update intervals
    truth: Floats  # (X, n) the true means, for the oracle; otherwise 0
    key: Key  # of posterior samples
    rule: int
    drawn: bool  # whether arms are drawn with known probabilities
    rate: float  # log(1 / delta)
    growth: float
    beta: float  # the share of the leader in the samples of a top-two rule
    noise: float


def new_baseline(problem: Problem, draw: float, rule: int, growth: float, beta: float) -> BaselineSampling:
    """Return the state before the first sample."""
    X, G, H = problem.shape
    n = G * H
    if not 0 < growth < math.inf:
        raise OsrlError(f"growth is {growth}; give a positive number, such as 0.05")
    if not 0 < beta <= 1:
        raise OsrlError(f"beta is {beta}; give the leader's share of the samples, above 0 and at most 1")
    if rule == ORACLE and problem.truth is None:
        raise OsrlError("the oracle samples by the true means; only a simulation knows them")
    truth = np.zeros((X, n)) if problem.truth is None else problem.truth.reshape(X, n).copy()
    sampling = BaselineSampling(
        arms=np.zeros((7, X, n)),
        glr=new_glr(X, G, H),
        alive=np.ones((X, n), np.bool_),
        numbers=np.zeros(4),
        truth=truth,
        key=new_key(int(draw * 2**53), 0),
        rule=rule,
        drawn=problem.draws,
        rate=math.log(1.0 / min(problem.criteria[0][1:])),
        growth=growth,
        beta=float(beta),
        noise=problem.family.noise,
    )
    sampling.arms[ARM_TARGET] = 1.0 / (X * n)
    sampling.arms[ARM_UPPER] = math.inf if problem.family.noise else 1.0
    sampling.arms[ARM_LOWER] = -math.inf if problem.family.noise else 0.0
    sampling.numbers[BASE_DESIGN_DUE] = X * n
    return sampling


@kernel_in_place
def decided_representation(stopping: Any) -> int:
    """Return the representation that is decided, or -1."""
    return sole_survivor(stopping.possible_g, 0, stopping.possible_g.size)


@kernel_in_place
def is_task_open(stopping: Any, g: int, x: int) -> bool:
    """Tell whether task ``x`` has an open question, where representation ``g`` is decided (-1: none)."""
    predictors = stopping.possible_h.shape[1] // stopping.possible_g.size
    return g < 0 or sole_survivor(stopping.possible_h[x], g * predictors, (g + 1) * predictors) < 0


@kernel_in_place
def is_anything_open(stopping: Any) -> bool:
    """Tell whether some question is open."""
    g = decided_representation(stopping)
    for x in range(stopping.possible_h.shape[0]):
        if is_task_open(stopping, g, x):
            return True
    return False


@kernel_in_place
def is_arm_open(stopping: Any, anything: bool, task: bool, a: int) -> bool:
    """Tell whether an arm still matters, given whether ``anything`` and its ``task`` are open.

    Where nothing is (the answer of a stopping rule may have to look right first) every arm counts.
    """
    predictors = stopping.possible_h.shape[1] // stopping.possible_g.size
    return not anything or (task and stopping.possible_g[a // predictors])


@kernel_in_place
def least_pulled_open(sampling: BaselineSampling, stopping: Any) -> int:
    """Return the open arm x * n + a with the fewest pulls if it must be explored now, otherwise -1."""
    pulls = sampling.arms[ARM_PULLS]
    tasks, n = pulls.shape
    found, fewest, samples, arms = -1, math.inf, 0.0, 0
    anything, g = is_anything_open(stopping), decided_representation(stopping)
    for x in range(tasks):
        task = is_task_open(stopping, g, x)
        for a in range(n):
            if is_arm_open(stopping, anything, task, a):
                samples += pulls[x, a]
                arms += 1
                if pulls[x, a] < fewest:
                    found, fewest = x * n + a, pulls[x, a]
    due = fewest < 1.0 if sampling.rule == TTEI and g >= 0 else must_explore(fewest, samples, arms)
    return found if due or not anything else -1


@kernel_in_place
def leading_representation(sampling: BaselineSampling, stopping: Any) -> int:
    """Return the decided representation, otherwise the possible one with the largest estimates."""
    possible_g, arms = stopping.possible_g, sampling.arms
    n = arms.shape[2]
    predictors = n // possible_g.size
    found, most = 0, -math.inf
    for g in range(possible_g.size):
        if possible_g[g]:
            total = 0.0
            for x in range(arms.shape[1]):
                total += arms[ARM_MEANS, x, best_mean(arms, x, g * predictors, (g + 1) * predictors)]
            if total > most:
                found, most = g, total
    return found


@kernel_in_place
def information_about_order(one: float, other: float, noise: float) -> float:
    """Return the information of a sample about which of two means is larger, with equal counts."""
    middle = 0.5 * (one + other)
    return 0.5 * (divergence(one, middle, noise) + divergence(other, middle, noise))


@kernel_in_place
def is_turn_of_representations(sampling: BaselineSampling, stopping: Any, g: int) -> bool:
    """Tell whether this sample is for representations: two in four while predictors of ``g`` are open too."""
    if decided_representation(stopping) >= 0:
        return False
    several = False
    for x in range(stopping.possible_h.shape[0]):
        several = several or is_task_open(stopping, g, x)
    return not several or int(sampling.numbers[BASE_ROUNDS]) // 2 % 2 == 0


@kernel_in_place
def round_uniform(sampling: BaselineSampling, number: int) -> float:
    """Return the ``number``-th random number in [0, 1) of this round."""
    return uniform(sampling.key, CHOICE_LANE + number, int(sampling.numbers[BASE_ROUNDS]))


@kernel_in_place
def mix_exploration(sampling: BaselineSampling, stopping: Any, propensities: Floats) -> None:
    """Mix exploration into probabilities (X, n): min(1/2, sqrt(K / 4t)) on open arms, as 1 / (1 + N)."""
    pulls = sampling.arms[ARM_PULLS]
    tasks, n = pulls.shape
    anything, g = is_anything_open(stopping), decided_representation(stopping)
    total, mass = 0.0, 0.0
    for x in range(tasks):
        task = is_task_open(stopping, g, x)
        for a in range(n):
            mass += propensities[x, a]
            if is_arm_open(stopping, anything, task, a):
                total += 1.0 / (1.0 + pulls[x, a])
    share = min(0.5, math.sqrt(pulls.size / (4.0 * max(sampling.numbers[BASE_ROUNDS], 1.0))))
    if mass <= 0.0:
        share, mass = 1.0, 1.0
    for x in range(tasks):
        task = is_task_open(stopping, g, x)
        for a in range(n):
            own = (1.0 - share) * propensities[x, a] / mass
            if is_arm_open(stopping, anything, task, a):
                own += share / ((1.0 + pulls[x, a]) * total)
            propensities[x, a] = own

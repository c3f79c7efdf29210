"""Stop as soon as the samples of all arms answer both questions: the representation, and its predictors.

One phase: every sample counts for every test, whatever rule has chosen it. The representation is decided
when every other one is beaten; from then on, or at once, the predictor of a task is decided when its rivals
among the arms of that representation are. What is decided stays decided.

- ``glr``: generalised likelihood ratios, with the thresholds of `osrl.policies.stopping.levels`;
- ``race``: the same, but who was beaten once is out, as in a race: not all have to be at the same time;
- ``intervals``: confidence intervals that no longer overlap, as LUCB and racing stop;
- ``posterior``: the posterior probability of a wrong answer (`osrl.policies.stopping.posterior`), without a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from osrl.glr.statistic import Glr, cheapest, new_glr, update_task
from osrl.jit.kernel import kernel, kernel_in_place
from osrl.jit.reductions import least_of
from osrl.model.arrays import Flags, Floats, Integers
from osrl.model.outcome import (
    DECIDED,
    EXHAUSTED,
    PREDICTOR,
    REPRESENTATION,
    STATUS,
    TAU,
    TAU_G,
    Outcome,
    new_outcome,
)
from osrl.policies.contract import Problem, StoppingRule
from osrl.policies.stopping.arm_stats import MEANS, PULLS, add, best_mean, lower, only, ratio, upper
from osrl.policies.stopping.levels import (
    BAYES,
    CONFIDENCE,
    COSTS,
    ELIMINATION,
    GLR,
    INTERVALS,
    PAIRS,
    POSTERIOR,
    PROOFS,
    RACE,
    Maker,
)
from osrl.policies.stopping.pairwise_glr import compare
from osrl.policies.stopping.per_task_test import leader_of
from osrl.policies.stopping.posterior import sure_predictor, sure_representation
from osrl.policies.stopping.thresholds import exploration

UPPER, LOWER = 3, 4  # rows of `arms` after those of a tally: the ends of intervals
OF_G, OF_H = range(2)  # rows of `levels`
CONSTANT, EXPLORED, LOG_T, LOG_LOG_T = range(4)  # columns of it
ROUNDS, PRICES, DUE = range(3)  # places of `numbers`
PATIENCE = 0.01  # growth of the number of samples between two looks at intervals of arms that do not change


class Joint(NamedTuple):
    """Samples, what they say against each arm, and what is still possible; arrays are updated in place."""

    arms: Floats  # (5, X, n) pulls, sums, means; ends of the intervals, or moments of the posterior
    glr: Glr  # C(g)
    beaten: Floats  # (X, n) by how much the arm that beats it most does, prices taken off
    by: Integers  # (X, n) which arm that is
    leaders: Integers  # (X,) the best arm of each task under the estimate, -1 for a tie
    possible_g: Flags  # (G,)
    possible_h: Flags  # (X, n)
    levels: Floats  # (2, 4)
    numbers: Floats  # (3,) samples, the sum of all prices, when to look at every interval again
    values: Floats  # (2, G) mean and variance of what a representation is worth, for `posterior`
    outcome: Outcome
    form: int
    noise: float


def _new(problem: Problem, makers: dict[str, Maker]) -> Joint:
    X, G, H = problem.shape
    criterion = problem.criteria[0]
    levels = makers[criterion.threshold](problem, criterion.delta_g, criterion.delta_h)
    joint = Joint(
        arms=np.zeros((5, X, G * H)),
        glr=new_glr(X, G, H),
        beaten=np.zeros((X, G * H)),
        by=np.zeros((X, G * H), np.int64),
        leaders=np.full(X, -1),
        possible_g=np.ones(G, np.bool_),
        possible_h=np.ones((X, G * H), np.bool_),
        levels=np.array([levels.representation, levels.predictor]),
        numbers=np.zeros(3),
        values=np.zeros((2, G)),
        outcome=new_outcome(1, X, G * H),
        form=levels.form,
        noise=problem.family.noise,
    )
    noise = problem.family.noise
    joint.arms[UPPER], joint.arms[LOWER] = upper(0.0, 0.0, 0.0, noise), lower(0.0, 0.0, 0.0, noise)
    if G == 1:
        _decide(joint)
    return joint


def new_glr_rule(problem: Problem, draw: float) -> Joint:
    """Nothing known yet."""
    return _new(problem, GLR)


def new_race(problem: Problem, draw: float) -> Joint:
    """Nobody is out yet."""
    return _new(problem, RACE)


def new_intervals(problem: Problem, draw: float) -> Joint:
    """Nothing known yet: every interval holds all means."""
    return _new(problem, CONFIDENCE)


def new_posterior(problem: Problem, draw: float) -> Joint:
    """Nothing known yet."""
    return _new(problem, BAYES)


@kernel_in_place
def height(levels: Floats, row: int, prices: float, rounds: float) -> float:
    """The threshold of a row now."""
    log_t = math.log(max(rounds, 1.0))
    value = levels[row, CONSTANT] + levels[row, EXPLORED] * prices + levels[row, LOG_T] * log_t
    return float(value + levels[row, LOG_LOG_T] * math.log(log_t + 1.0))


@kernel_in_place
def observe(joint: Joint, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Take in a reward, and decide what can be."""
    arms, numbers, n = joint.arms, joint.numbers, joint.beaten.shape[1]
    numbers[PRICES] -= exploration(arms[PULLS, x, a])
    add(arms, x, a, reward)
    numbers[PRICES] += exploration(arms[PULLS, x, a])
    numbers[ROUNDS] += 1.0
    g = only(joint.possible_g, 0, joint.possible_g.size)
    if joint.form == INTERVALS:
        look(joint, x, a, g)
    if g < 0:
        joint.leaders[x] = leader_of(arms[MEANS, x])
        if joint.form == COSTS:
            update_task(joint.glr, x, arms[MEANS, x], arms[PULLS, x], joint.noise)
        elif joint.form < INTERVALS:
            compare(arms, joint.beaten[x], joint.by[x], x, a, joint.levels[OF_G, EXPLORED], joint.noise)
        if not rule_out_representations(joint, x):
            return
        g = only(joint.possible_g, 0, joint.possible_g.size)
        joint.outcome.reached[TAU_G, 0] = np.int64(numbers[ROUNDS])
        if joint.form == INTERVALS:
            for y in range(arms.shape[1]):
                look_at_task(joint, y, g)
        for y in range(arms.shape[1]):
            rule_out_predictors(joint, y, g)
    elif a // (n // joint.possible_g.size) == g:
        rule_out_predictors(joint, x, g)
    _decide(joint)


@kernel_in_place
def estimated(joint: Joint) -> int:
    """The representation that holds the best arm of every task under the estimate, or -1."""
    leaders, n = joint.leaders, joint.beaten.shape[1]
    predictors = n // joint.possible_g.size
    for x in range(leaders.size):
        if leaders[x] < 0 or leaders[x] // predictors != leaders[0] // predictors:
            return -1
    return int(leaders[0] // predictors)


@kernel_in_place
def rule_out_representations(joint: Joint, x: int) -> bool:
    """Whether one representation is left: all others are beaten, at once or one after the other."""
    arms, possible_g = joint.arms, joint.possible_g
    n = joint.beaten.shape[1]
    predictors = n // possible_g.size
    if joint.form == INTERVALS:
        most = -math.inf
        for a in range(n):
            most = max(most, arms[LOWER, x, a])
        for g in range(possible_g.size):
            if possible_g[g] and highest(arms[UPPER, x], g * predictors, (g + 1) * predictors) < most:
                possible_g[g] = False
        return only(possible_g, 0, possible_g.size) >= 0
    if joint.form == ELIMINATION:
        for g in range(possible_g.size):
            if possible_g[g] and excess(joint, g) > 0.0 and only(possible_g, 0, possible_g.size) < 0:
                possible_g[g] = False
        return only(possible_g, 0, possible_g.size) >= 0
    if joint.form == POSTERIOR:
        g = sure_representation(arms, joint.values, joint.levels[OF_G, CONSTANT], joint.noise)
        for other in range(possible_g.size):
            possible_g[other] = g < 0 or other == g
        return g >= 0
    g = estimated(joint)
    if g < 0:
        return False
    for other in range(possible_g.size):
        if other != g and not excess(joint, other) > 0.0:
            return False
    for other in range(possible_g.size):
        possible_g[other] = other == g
    return True


@kernel_in_place
def excess(joint: Joint, g: int) -> float:
    """By how much the statistic against a representation exceeds its threshold."""
    levels, numbers = joint.levels, joint.numbers
    tasks, n = joint.beaten.shape
    predictors = n // joint.possible_g.size
    if joint.form == COSTS:
        return float(joint.glr.total[g] - height(levels, OF_G, numbers[PRICES], numbers[ROUNDS]))
    total, most = 0.0, -math.inf
    for x in range(tasks):
        least = joint.beaten[x, g * predictors]
        for b in range(g * predictors + 1, (g + 1) * predictors):
            least = min(least, joint.beaten[x, b])
        total += least
        if joint.form != PAIRS:
            samples = 0.0
            for b in range(n):
                samples += joint.arms[PULLS, x, b]
            most = max(most, least - height(levels, OF_G, 0.0, samples))
    return float(total - height(levels, OF_G, 0.0, numbers[ROUNDS]) if joint.form == PAIRS else most)


@kernel_in_place
def highest(values: Floats, first: int, last: int) -> float:
    """The largest of the values first .. last - 1."""
    most = values[first]
    for i in range(first + 1, last):
        most = max(most, values[i])
    return float(most)


@kernel_in_place
def rule_out_predictors(joint: Joint, x: int, g: int) -> None:
    """Decide the predictor of task ``x`` among the arms of ``g``, if it can be."""
    arms, possible = joint.arms, joint.possible_h[x]
    predictors = joint.beaten.shape[1] // joint.possible_g.size
    first, last = g * predictors, (g + 1) * predictors
    if only(possible, first, last) >= 0:
        return
    if joint.form == INTERVALS:
        most = highest(arms[LOWER, x], first, last)
        for a in range(first, last):
            possible[a] = possible[a] and arms[UPPER, x, a] >= most
        return
    if joint.form == POSTERIOR:
        best = sure_predictor(arms, x, first, last, joint.levels[OF_H, CONSTANT], joint.noise)
        for a in range(first, last):
            possible[a] = best < 0 or a == best
        return
    samples = 0.0
    for a in range(first, last):
        samples += arms[PULLS, x, a]
    best = best_mean(arms, x, first, last)
    if joint.form == ELIMINATION:
        best = -1
        for a in range(first, last):
            if possible[a] and (best < 0 or arms[MEANS, x, a] > arms[MEANS, x, best]):
                best = a
        for a in range(first, last):
            if possible[a] and ratio(arms, x, best, a, joint.noise) > height(joint.levels, OF_H, 0.0, samples):
                possible[a] = False
        return
    for a in range(first, last):
        if a != best:
            prices = exploration(arms[PULLS, x, a]) + exploration(arms[PULLS, x, best])
            if not ratio(arms, x, best, a, joint.noise) > height(joint.levels, OF_H, prices, samples):
                return
    for a in range(first, last):
        possible[a] = a == best


@kernel_in_place
def look(joint: Joint, x: int, a: int, g: int) -> None:
    """Bring the interval of the sampled arm up to date, and those of the others when they are old."""
    numbers = joint.numbers
    look_at_arm(joint, x, a, g)
    if joint.levels[OF_G, LOG_LOG_T] > 0.0 and numbers[ROUNDS] >= numbers[DUE]:
        numbers[DUE] = numbers[ROUNDS] * (1.0 + PATIENCE) + 1.0
        for y in range(joint.leaders.size):
            look_at_task(joint, y, g)


@kernel_in_place
def look_at_task(joint: Joint, x: int, g: int) -> None:
    """Bring the intervals of all arms of a task up to date."""
    for a in range(joint.beaten.shape[1]):
        look_at_arm(joint, x, a, g)


@kernel_in_place
def look_at_arm(joint: Joint, x: int, a: int, g: int) -> None:
    """The interval of an arm: for the representation, or where that is ``g`` for its predictors."""
    arms, row = joint.arms, OF_G if g < 0 else OF_H
    rate = height(joint.levels, row, exploration(arms[PULLS, x, a]), joint.numbers[ROUNDS])
    arms[UPPER, x, a] = upper(arms[MEANS, x, a], arms[PULLS, x, a], rate, joint.noise)
    arms[LOWER, x, a] = lower(arms[MEANS, x, a], arms[PULLS, x, a], rate, joint.noise)


@kernel_in_place
def _decide(joint: Joint) -> None:
    """Write down the answer when nothing is open."""
    possible_h = joint.possible_h
    tasks, n = possible_h.shape
    predictors = n // joint.possible_g.size
    g = only(joint.possible_g, 0, joint.possible_g.size)
    for x in range(tasks):
        if g < 0 or only(possible_h[x], g * predictors, (g + 1) * predictors) < 0:
            return
    _answer(joint, g, DECIDED)


@kernel_in_place
def _answer(joint: Joint, g: int, status: int) -> None:
    """The predictors of ``g`` that are possible and look best."""
    arms, outcome = joint.arms, joint.outcome
    tasks, n = joint.possible_h.shape
    predictors = n // joint.possible_g.size
    for x in range(tasks):
        best = only(joint.possible_h[x], g * predictors, (g + 1) * predictors)
        if best < 0:
            best = best_mean(arms, x, g * predictors, (g + 1) * predictors)
        outcome.answer[REPRESENTATION, 0, x] = g
        outcome.answer[PREDICTOR, 0, x] = best % predictors
        for a in range(n):
            outcome.pulls[0, x, a] = np.int64(arms[PULLS, x, a])
    outcome.reached[TAU, 0] = np.int64(joint.numbers[ROUNDS])
    outcome.reached[STATUS, 0] = status


@kernel
def conclude(joint: Joint, criterion: int) -> None:
    """The best guess: the representation that is cheapest to believe in, and its best predictors."""
    arms, g = joint.arms, only(joint.possible_g, 0, joint.possible_g.size)
    if g < 0:
        for x in range(joint.leaders.size):
            update_task(joint.glr, x, arms[MEANS, x], arms[PULLS, x], joint.noise)
        g = cheapest(joint.glr, -1)
        joint.outcome.reached[TAU_G, 0] = np.int64(joint.numbers[ROUNDS])
    _answer(joint, g, EXHAUSTED)


@kernel
def read(joint: Joint, of_g: Floats, of_h: Floats) -> None:
    """The statistic against each representation, and the lead of the best predictor over the others."""
    tasks, n = joint.beaten.shape
    predictors = n // of_g.size
    for g in range(of_g.size):
        if joint.form == COSTS:
            of_g[g] = joint.glr.total[g]
        elif joint.form < INTERVALS:
            of_g[g] = 0.0
            for x in range(tasks):
                least = least_of(joint.beaten[x, g * predictors : (g + 1) * predictors])
                of_g[g] = of_g[g] + least if joint.form == PAIRS else max(of_g[g], least)
        for x in range(tasks):
            best = best_mean(joint.arms, x, g * predictors, (g + 1) * predictors)
            for a in range(g * predictors, (g + 1) * predictors):
                if a != best:
                    of_h[x, a] = ratio(joint.arms, x, best, a, joint.noise)


def _rule(
    name: str,
    summary: str,
    new: Callable[..., Joint],
    thresholds: dict[str, Maker],
    proofs: Mapping[str, str],
) -> StoppingRule:
    return StoppingRule(
        name=name,
        summary=summary,
        state=Joint,
        new=new,
        observe=observe,
        conclude=conclude,
        evidence=read,
        thresholds=tuple(thresholds),
        proofs=proofs,
        shares_runs=lambda options: False,
    )


RULES = (
    _rule("glr", "likelihood ratios of the whole question, in one phase", new_glr_rule, GLR, PROOFS["glr"]),
    _rule("race", "likelihood ratios; what was beaten once is out, as in a race", new_race, RACE, PROOFS["race"]),
    _rule(
        "intervals",
        "confidence intervals that no longer overlap, as LUCB stops",
        new_intervals,
        CONFIDENCE,
        PROOFS["intervals"],
    ),
    _rule("posterior", "the posterior probability of a wrong answer", new_posterior, BAYES, {}),
)

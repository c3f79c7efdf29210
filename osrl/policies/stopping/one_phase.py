"""Rules `glr`, `race`, `intervals` and `posterior`: stop as soon as the samples of all arms answer both questions.

There is one phase: every sample counts for every test, whatever rule has chosen it. The representation is decided
when every other one is beaten; from then on, or at once, the predictor of a task is decided when its rivals among the
arms of that representation are. A decision is final.

- `glr`: generalised likelihood ratios;
- `race`: the same, but whatever was beaten once is out, as in a race: not all have to be beaten at the same time;
- `intervals`: confidence intervals that no longer overlap, as LUCB and racing stop;
- `posterior`: the posterior probability of a wrong answer is at most delta, as Bayesian experiments stop. That holds
  on average over the prior. For fixed means no risk is proved, and looking at the probability after every sample
  makes wrong answers more frequent.

`osrl.policies.stopping.thresholds` has the thresholds of each rule (`glr-tas`, `glr-kk` ...) and their proofs. The
rules have no parameters.

>>> import osrl
>>> runs = osrl.simulate("paper", sample="tas", stop=["glr-gk", "race-gk", "intervals-gk"], delta=0.1, runs=2)
>>> runs.frame["tau"].to_list()
[10814, 3471, 10763, 3473, 22043, 4773]

References: A. Garivier and E. Kaufmann, Optimal Best Arm Identification with Fixed Confidence, COLT 2016. E. Kaufmann
and W. M. Koolen, Mixture Martingales Revisited with Applications to Sequential Tests and Confidence Intervals,
Journal of Machine Learning Research 22, 2021. C. Qin, D. Klabjan and D. Russo, Improving the Expected Improvement
Algorithm, NeurIPS 2017 (`posterior`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.glr.statistic import Glr, cheapest, new_glr, update_task
from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import minimum
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
    sole_survivor,
)
from osrl.policies.contract import Problem, StoppingRule
from osrl.policies.stopping.arm_stats import (
    ARM_LOWER,
    ARM_MEANS,
    ARM_PULLS,
    ARM_UPPER,
    INTERVAL_GROWTH,
    add_reward_to,
    best_mean,
    confident_predictor,
    confident_representation,
    likelihood_ratio,
    lower_bound,
    update_beaten,
    upper_bound,
)
from osrl.policies.stopping.per_task_test import shared_representation, unique_leader
from osrl.policies.stopping.thresholds import (
    BY_COSTS,
    BY_ELIMINATION,
    BY_INTERVALS,
    BY_PAIRS,
    BY_POSTERIOR,
    GLR_THRESHOLDS,
    INTERVAL_THRESHOLDS,
    ONE_PHASE_PROOFS,
    POSTERIOR_THRESHOLDS,
    RACE_THRESHOLDS,
    TERM_CONSTANT,
    TERM_EXPLORED,
    TERM_LOG_LOG_T,
    TERM_LOG_T,
    ThresholdMaker,
    exploration_cost,
)

TERMS_G, TERMS_H = range(2)  # rows of `levels`
RUN_SAMPLES, RUN_EXPLORATION_COST, RUN_INTERVALS_DUE = range(3)  # places of `numbers`


class OnePhaseStopping(NamedTuple):
    """Samples, the evidence against each arm, and what is still possible (arrays are updated in place)."""

    arms: Floats  # (5, X, n) pulls, sums, means; ends of the intervals, or moments of the posterior
    glr: Glr  # C(g)
    beaten: Floats  # (X, n) by how much another arm beats it at most, less exploration costs
    by: Integers  # (X, n) the arm that does
    leaders: Integers  # (X,) the best arm of each task under the estimate, -1 for a tie
    possible_g: Flags  # (G,)
    possible_h: Flags  # (X, n)
    levels: Floats  # (2, 4)
    numbers: Floats  # (3,) samples, the sum of all exploration costs, when to update every interval
    values: Floats  # (2, G) mean and variance of the value of a representation, for `posterior`
    outcome: Outcome
    form: int
    noise: float


def _new(problem: Problem, makers: dict[str, ThresholdMaker]) -> OnePhaseStopping:
    X, G, H = problem.shape
    criterion = problem.criteria[0]
    levels = makers[criterion.threshold](problem, criterion.delta_g, criterion.delta_h)
    state = OnePhaseStopping(
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
    state.arms[ARM_UPPER], state.arms[ARM_LOWER] = upper_bound(0.0, 0.0, 0.0, noise), lower_bound(0.0, 0.0, 0.0, noise)
    if G == 1:
        _decide(state)
    return state


@kernel_in_place
def threshold_now(levels: Floats, row: int, explored: float, rounds: float) -> float:
    """Return the present threshold of a row."""
    log_t = math.log(max(rounds, 1.0))
    value = levels[row, TERM_CONSTANT] + levels[row, TERM_EXPLORED] * explored + levels[row, TERM_LOG_T] * log_t
    return float(value + levels[row, TERM_LOG_LOG_T] * math.log(log_t + 1.0))


@kernel_in_place
def observe(state: OnePhaseStopping, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Add a reward, and decide what can be decided."""
    arms, numbers, n = state.arms, state.numbers, state.beaten.shape[1]
    numbers[RUN_EXPLORATION_COST] -= exploration_cost(arms[ARM_PULLS, x, a])
    add_reward_to(arms, x, a, reward)
    numbers[RUN_EXPLORATION_COST] += exploration_cost(arms[ARM_PULLS, x, a])
    numbers[RUN_SAMPLES] += 1.0
    g = sole_survivor(state.possible_g, 0, state.possible_g.size)
    if state.form == BY_INTERVALS:
        refresh_intervals(state, x, a, g)
    if g < 0:
        state.leaders[x] = unique_leader(arms[ARM_MEANS, x])
        if state.form == BY_COSTS:
            update_task(state.glr, x, arms[ARM_MEANS, x], arms[ARM_PULLS, x], state.noise)
        elif state.form < BY_INTERVALS:
            update_beaten(arms, state.beaten[x], state.by[x], x, a, state.levels[TERMS_G, TERM_EXPLORED], state.noise)
        if not rule_out_representations(state, x):
            return
        g = sole_survivor(state.possible_g, 0, state.possible_g.size)
        state.outcome.reached[TAU_G, 0] = np.int64(numbers[RUN_SAMPLES])
        if state.form == BY_INTERVALS:
            for y in range(arms.shape[1]):
                refresh_task_intervals(state, y, g)
        for y in range(arms.shape[1]):
            rule_out_predictors(state, y, g)
    elif a // (n // state.possible_g.size) == g:
        rule_out_predictors(state, x, g)
    _decide(state)


@kernel_in_place
def rule_out_representations(state: OnePhaseStopping, x: int) -> bool:
    """Rule out what is beaten, at once or one after the other; return whether one representation is left."""
    arms, possible_g = state.arms, state.possible_g
    n = state.beaten.shape[1]
    predictors = n // possible_g.size
    if state.form == BY_INTERVALS:
        most = -math.inf
        for a in range(n):
            most = max(most, arms[ARM_LOWER, x, a])
        for g in range(possible_g.size):
            if possible_g[g] and largest_between(arms[ARM_UPPER, x], g * predictors, (g + 1) * predictors) < most:
                possible_g[g] = False
        return sole_survivor(possible_g, 0, possible_g.size) >= 0
    if state.form == BY_ELIMINATION:
        for g in range(possible_g.size):
            if (
                possible_g[g]
                and margin_over_threshold(state, g) > 0.0
                and sole_survivor(possible_g, 0, possible_g.size) < 0
            ):
                possible_g[g] = False
        return sole_survivor(possible_g, 0, possible_g.size) >= 0
    if state.form == BY_POSTERIOR:
        g = confident_representation(arms, state.values, state.levels[TERMS_G, TERM_CONSTANT], state.noise)
        for other in range(possible_g.size):
            possible_g[other] = g < 0 or other == g
        return g >= 0
    g = shared_representation(state.leaders, predictors)
    if g < 0:
        return False
    for other in range(possible_g.size):
        if other != g and not margin_over_threshold(state, other) > 0.0:
            return False
    for other in range(possible_g.size):
        possible_g[other] = other == g
    return True


@kernel_in_place
def margin_over_threshold(state: OnePhaseStopping, g: int) -> float:
    """Return by how much the statistic against a representation exceeds its threshold."""
    levels, numbers = state.levels, state.numbers
    tasks, n = state.beaten.shape
    predictors = n // state.possible_g.size
    if state.form == BY_COSTS:
        return float(
            state.glr.total[g] - threshold_now(levels, TERMS_G, numbers[RUN_EXPLORATION_COST], numbers[RUN_SAMPLES])
        )
    total, most = 0.0, -math.inf
    for x in range(tasks):
        least = state.beaten[x, g * predictors]
        for b in range(g * predictors + 1, (g + 1) * predictors):
            least = min(least, state.beaten[x, b])
        total += least
        if state.form != BY_PAIRS:
            samples = 0.0
            for b in range(n):
                samples += state.arms[ARM_PULLS, x, b]
            most = max(most, least - threshold_now(levels, TERMS_G, 0.0, samples))
    return float(total - threshold_now(levels, TERMS_G, 0.0, numbers[RUN_SAMPLES]) if state.form == BY_PAIRS else most)


@kernel_in_place
def largest_between(values: Floats, first: int, last: int) -> float:
    """Return the largest of the values first .. last - 1."""
    most = values[first]
    for i in range(first + 1, last):
        most = max(most, values[i])
    return float(most)


@kernel_in_place
def rule_out_predictors(state: OnePhaseStopping, x: int, g: int) -> None:
    """Decide the predictor of task ``x`` among the arms of ``g``, if it can be."""
    arms, possible = state.arms, state.possible_h[x]
    predictors = state.beaten.shape[1] // state.possible_g.size
    first, last = g * predictors, (g + 1) * predictors
    if sole_survivor(possible, first, last) >= 0:
        return
    if state.form == BY_INTERVALS:
        most = largest_between(arms[ARM_LOWER, x], first, last)
        for a in range(first, last):
            possible[a] = possible[a] and arms[ARM_UPPER, x, a] >= most
        return
    if state.form == BY_POSTERIOR:
        best = confident_predictor(arms, x, first, last, state.levels[TERMS_H, TERM_CONSTANT], state.noise)
        for a in range(first, last):
            possible[a] = best < 0 or a == best
        return
    samples = 0.0
    for a in range(first, last):
        samples += arms[ARM_PULLS, x, a]
    best = best_mean(arms, x, first, last)
    if state.form == BY_ELIMINATION:
        best = -1
        for a in range(first, last):
            if possible[a] and (best < 0 or arms[ARM_MEANS, x, a] > arms[ARM_MEANS, x, best]):
                best = a
        for a in range(first, last):
            if possible[a] and likelihood_ratio(arms, x, best, a, state.noise) > threshold_now(
                state.levels, TERMS_H, 0.0, samples
            ):
                possible[a] = False
        return
    for a in range(first, last):
        if a != best:
            explored = exploration_cost(arms[ARM_PULLS, x, a]) + exploration_cost(arms[ARM_PULLS, x, best])
            if not likelihood_ratio(arms, x, best, a, state.noise) > threshold_now(
                state.levels, TERMS_H, explored, samples
            ):
                return
    for a in range(first, last):
        possible[a] = a == best


@kernel_in_place
def refresh_intervals(state: OnePhaseStopping, x: int, a: int, g: int) -> None:
    """Update the interval of the sampled arm, and those of the others when they are old."""
    numbers = state.numbers
    refresh_interval(state, x, a, g)
    if state.levels[TERMS_G, TERM_LOG_LOG_T] > 0.0 and numbers[RUN_SAMPLES] >= numbers[RUN_INTERVALS_DUE]:
        numbers[RUN_INTERVALS_DUE] = numbers[RUN_SAMPLES] * (1.0 + INTERVAL_GROWTH) + 1.0
        for y in range(state.leaders.size):
            refresh_task_intervals(state, y, g)


@kernel_in_place
def refresh_task_intervals(state: OnePhaseStopping, x: int, g: int) -> None:
    """Update the intervals of all arms of a task."""
    for a in range(state.beaten.shape[1]):
        refresh_interval(state, x, a, g)


@kernel_in_place
def refresh_interval(state: OnePhaseStopping, x: int, a: int, g: int) -> None:
    """Update the interval of an arm: for the representation, or where that is ``g`` for its predictors."""
    arms, row = state.arms, TERMS_G if g < 0 else TERMS_H
    rate = threshold_now(state.levels, row, exploration_cost(arms[ARM_PULLS, x, a]), state.numbers[RUN_SAMPLES])
    arms[ARM_UPPER, x, a] = upper_bound(arms[ARM_MEANS, x, a], arms[ARM_PULLS, x, a], rate, state.noise)
    arms[ARM_LOWER, x, a] = lower_bound(arms[ARM_MEANS, x, a], arms[ARM_PULLS, x, a], rate, state.noise)


@kernel_in_place
def _decide(state: OnePhaseStopping) -> None:
    """Write the answer when nothing is open."""
    possible_h = state.possible_h
    tasks, n = possible_h.shape
    predictors = n // state.possible_g.size
    g = sole_survivor(state.possible_g, 0, state.possible_g.size)
    for x in range(tasks):
        if g < 0 or sole_survivor(possible_h[x], g * predictors, (g + 1) * predictors) < 0:
            return
    _answer(state, g, DECIDED)


@kernel_in_place
def _answer(state: OnePhaseStopping, g: int, status: int) -> None:
    """Write the predictors of ``g`` that are possible and look best."""
    arms, outcome = state.arms, state.outcome
    tasks, n = state.possible_h.shape
    predictors = n // state.possible_g.size
    for x in range(tasks):
        best = sole_survivor(state.possible_h[x], g * predictors, (g + 1) * predictors)
        if best < 0:
            best = best_mean(arms, x, g * predictors, (g + 1) * predictors)
        outcome.answer[REPRESENTATION, 0, x] = g
        outcome.answer[PREDICTOR, 0, x] = best % predictors
        for a in range(n):
            outcome.pulls[0, x, a] = np.int64(arms[ARM_PULLS, x, a])
    outcome.reached[TAU, 0] = np.int64(state.numbers[RUN_SAMPLES])
    outcome.reached[STATUS, 0] = status


@kernel
def conclude(state: OnePhaseStopping, criterion: int) -> None:
    """Write the best guess: the representation that is cheapest to believe in, and its best predictors."""
    arms, g = state.arms, sole_survivor(state.possible_g, 0, state.possible_g.size)
    if g < 0:
        for x in range(state.leaders.size):
            update_task(state.glr, x, arms[ARM_MEANS, x], arms[ARM_PULLS, x], state.noise)
        g = cheapest(state.glr, -1)
        state.outcome.reached[TAU_G, 0] = np.int64(state.numbers[RUN_SAMPLES])
    _answer(state, g, EXHAUSTED)


@kernel
def read(state: OnePhaseStopping, of_g: Floats, of_h: Floats) -> None:
    """Write the statistic against each representation, and the lead of the best predictor over the others."""
    tasks, n = state.beaten.shape
    predictors = n // of_g.size
    for g in range(of_g.size):
        if state.form == BY_COSTS:
            of_g[g] = state.glr.total[g]
        elif state.form < BY_INTERVALS:
            of_g[g] = 0.0
            for x in range(tasks):
                least = minimum(state.beaten[x, g * predictors : (g + 1) * predictors])
                of_g[g] = of_g[g] + least if state.form == BY_PAIRS else max(of_g[g], least)
        for x in range(tasks):
            best = best_mean(state.arms, x, g * predictors, (g + 1) * predictors)
            for a in range(g * predictors, (g + 1) * predictors):
                if a != best:
                    of_h[x, a] = likelihood_ratio(state.arms, x, best, a, state.noise)


def _rule(name: str, summary: str, thresholds: dict[str, ThresholdMaker]) -> StoppingRule:
    """Return one of the rules; they differ in their thresholds."""

    def new(problem: Problem, draw: float) -> OnePhaseStopping:
        return _new(problem, thresholds)

    return StoppingRule(
        name=name,
        summary=summary,
        state=OnePhaseStopping,
        new=new,
        observe=observe,
        conclude=conclude,
        evidence=read,
        thresholds=tuple(thresholds),
        proofs=ONE_PHASE_PROOFS.get(name, {}),
        shares_runs=lambda options: False,
    )


RULES = (
    _rule("glr", "likelihood ratios of the whole question, in one phase", GLR_THRESHOLDS),
    _rule("race", "likelihood ratios; what was beaten once is out, as in a race", RACE_THRESHOLDS),
    _rule("intervals", "confidence intervals that no longer overlap, as LUCB stops", INTERVAL_THRESHOLDS),
    _rule("posterior", "the posterior probability of a wrong answer", POSTERIOR_THRESHOLDS),
)

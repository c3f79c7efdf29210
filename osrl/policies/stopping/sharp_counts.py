"""Threshold ``sharp`` of the paper's algorithm: stop by evidence from counts, exactly or within a tolerance.

The algorithm does not randomise, so there is nothing to bet on; but evidence from counts holds for any sampling rule
(`osrl.evidence.counts`, `pairs`). As in `osrl.hypotheses`, every null is tested at the whole risk, a rejection is
permanent, and a test is over when one possibility is left, for each criterion by itself. Evidence is recomputed
when there are 2 % more samples: for all tasks at the same time, where the evidence of tasks is multiplied.

**With a tolerance**, as in `osrl.hypotheses.tolerance`, the nulls are "b is better than c by at least epsilon", for
pairs of arms of a task, and the evidence is that of a pair of arms (`osrl.evidence.pairs`). The run can then end

- *in phase 1*, with arms c_x of a representation against which every other arm of their tasks is out: arms of
  representations that are ruled out exactly, and others because their null against c_x is. Then there is no phase 2;
- *in phase 2*, of a representation that phase 1 has found exactly, when in each task all predictors but one are
  out, exactly or because their null against it is ruled out.

**Risk.** Let b* = (g*, h*) be the best arm of a task. An answer c of another representation that is too bad
needs g* to be ruled out exactly, or the null (b*, c) in phase 1, for one of (G - 1) H answers c. An answer c
of g* needs the null (b*, c) to be ruled out in phase 1, or in phase 2, for one of H - 1 answers each, or h*
to be ruled out exactly in phase 2. `split_risks` shares the risks out among these.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.evidence.counts import Samples, pooled, samples_of
from osrl.evidence.exponential_tilts import TILT_LOCAL, TILT_TASK, Tilts, new_tilts
from osrl.evidence.pairs import against_best, pair_log_evidence
from osrl.hypotheses.state import RECOUNT_GROWTH, rule_out
from osrl.hypotheses.tolerance import EPSILON_G, EPSILON_H
from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import maximum, minimum
from osrl.model.arrays import Flags, Floats
from osrl.policies.contract import Criterion, Problem
from osrl.policies.stopping.per_task_test import (
    TEST_FIRST,
    TEST_LED,
    TEST_LED_SUM,
    TEST_PULLS,
    TEST_SUMS,
    PerTaskTest,
    competing_arms,
)

SHARP = "sharp"  # the threshold that stops by counts
LIMIT_ACROSS, LIMIT_PHASE1, LIMIT_PHASE2 = range(3)  # rows of `limits`


class RiskSplit(NamedTuple):
    """The shares of the risks: of delta_g in the first two, of delta_h in the others."""

    exact_g: float
    across: float  # representations, in phase 1
    first: float  # predictors of one representation, in phase 1
    exact_h: float
    second: float  # predictors, in phase 2


class EpsilonPairs(NamedTuple):
    """Which arms are out against which answers (arrays are updated in place); empty without a tolerance."""

    limits: Floats  # (3, R) of the evidence; infinite where nothing is compared
    epsilon: Floats  # (2,) epsilon_g and epsilon_h
    within: Flags  # (R, X, n, n) [., x, b, c]: "b is better than c by epsilon" is ruled out in phase 1
    local: Flags  # (R, X, H, H) and among the predictors of phase 2
    used: Flags  # (R,) whether the tolerance has ended something


def split_risks(epsilon: tuple[float, float]) -> RiskSplit:
    """Return how the risks are shared out for these tolerances."""
    if epsilon[0] > 0.0:
        return RiskSplit(0.75, 0.25, 0.25, *((0.25, 0.5) if epsilon[1] > 0.0 else (0.75, 0.0)))
    return RiskSplit(1.0, 0.0, 0.0, *((0.25, 0.75) if epsilon[1] > 0.0 else (1.0, 0.0)))


def new_epsilon_pairs(problem: Problem) -> EpsilonPairs:
    """Return pairs of which none is ruled out."""
    X, G, H = problem.shape
    R = len(problem.criteria)
    n, m = (G * H, H) if max(problem.epsilon) > 0.0 else (0, 0)
    limits = np.stack([_limits(criterion, problem) for criterion in problem.criteria], axis=1)
    return EpsilonPairs(
        limits=limits,
        epsilon=np.array(problem.epsilon, float),
        within=np.zeros((R, X, n, n), np.bool_),
        local=np.zeros((R, X, m, m), np.bool_),
        used=np.zeros(R, np.bool_),
    )


def _limits(criterion: Criterion, problem: Problem) -> Floats:
    """Return the limits (3,) of a criterion."""
    _, G, H = problem.shape
    parts = split_risks(problem.epsilon)
    risks = np.array(
        [
            parts.across * criterion.delta_g / max((G - 1) * H, 1),
            parts.first * criterion.delta_h / max(H - 1, 1),
            parts.second * criterion.delta_h / max(H - 1, 1),
        ]
    )
    if criterion.threshold != SHARP:
        risks[:] = 0.0
    with np.errstate(divide="ignore"):
        limits: Floats = np.log(1.0 / risks)
    return limits


@kernel
def rule_out_pairs(
    within: Flags,
    x: int,
    samples: Samples,
    limits: Floats,
    epsilon: Floats,
    predictors: int,
    tilts: Tilts,
    noise: float,
) -> None:
    """Rule out what the evidence allows among the pairs of arms (R, X, n, n) of task ``x``.

    ``limits`` (2, R) are those for pairs of different representations, and of the same one. An answer c that
    looks worse than the best arm by more than the tolerance and its error is passed over.
    """
    number, mean = samples.number, samples.mean
    lead = maximum(mean) - maximum(epsilon)
    for c in range(mean.size):
        if mean[c] + math.sqrt(max(noise, 1.0) / (1.0 + number[c])) < lead:
            continue
        for b in range(mean.size):
            row = 1 if b // predictors == c // predictors else 0
            least = math.inf
            for r in range(within.shape[0]):
                if not within[r, x, b, c]:
                    least = min(least, limits[row, r])
            if b == c or least == math.inf:
                continue
            found = pair_log_evidence(samples, c, b, tilts, noise, epsilon[EPSILON_H if row == 1 else EPSILON_G])
            for r in range(within.shape[0]):
                within[r, x, b, c] = within[r, x, b, c] or found >= limits[row, r]


@kernel_in_place
def epsilon_answer(within: Flags, means: Floats, possible: Flags, g: int, predictors: int) -> int:
    """Return the best-looking arm of ``g`` in a task against which all others are out, or -1.

    ``within`` (n, n) is that of a task; ``possible`` (n // predictors,) are the representations left.
    """
    best = -1
    for c in range(g * predictors, (g + 1) * predictors):
        if best >= 0 and means[c] <= means[best]:
            continue
        good = True
        for b in range(means.size):
            same = b // predictors == g
            good = good and (b == c or within[b, c] or not (same or possible[b // predictors]))
        if good:
            best = c
    return best


@kernel_in_place
def epsilon_predictor(within: Flags, means: Floats, possible: Flags) -> int:
    """Return the best-looking possible predictor against which all others are out, or -1; ``within`` (H, H)."""
    best = -1
    for c in range(within.shape[0]):
        if not possible[c] or (best >= 0 and means[c] <= means[best]):
            continue
        good = True
        for b in range(within.shape[0]):
            good = good and (b == c or not possible[b] or within[b, c])
        if good:
            best = c
    return best


class SharpCounts(NamedTuple):
    """The possibilities left for the criteria that stop by counts (arrays are updated in place)."""

    limit: Floats  # (R,) log(1 / delta); infinite for the criteria that do not stop by counts
    possible: Flags  # (R, X, m) in each test; phase 1 is one test
    due: Floats  # (X,) samples of each test at which to evaluate it again
    tilts: Tilts
    noise: float
    wanted: bool  # whether any criterion stops by counts


def new_sharp_counts(
    criteria: tuple[Criterion, ...],
    deltas: tuple[float, ...],
    arms: tuple[int, int],
    tests: int,
    noise: float,
) -> SharpCounts:
    """Return counts with everything possible; ``arms`` = (X, n), and ``tests`` possibilities in each test."""
    sharp = np.array([criterion.threshold == SHARP for criterion in criteria])
    return SharpCounts(
        limit=np.where(sharp, np.log(1.0 / np.array(deltas)), math.inf),
        possible=np.ones((len(criteria), arms[0], tests), np.bool_),
        due=np.full(arms[0], float(arms[1])),
        tilts=new_tilts(noise),
        noise=noise,
        wanted=bool(sharp.any()),
    )


@kernel_in_place
def recount_due(counting: SharpCounts, i: int, samples: float) -> bool:
    """Tell whether to evaluate the counts of test ``i`` after so many samples; then schedule the next time."""
    due = counting.due
    if not counting.wanted or samples < due[i]:
        return False
    due[i] = max(samples + 1.0, samples * (1.0 + RECOUNT_GROWTH))
    return True


@kernel
def judge_representations(counting: SharpCounts, arms: Floats, near: EpsilonPairs) -> None:
    """Rule out representations by the counts of all tasks, E_g = prod_x min_h E_{x,(g,h)}; compare arms."""
    evidence, behind = np.zeros(counting.possible.shape[2]), np.zeros(arms.shape[2], np.bool_)
    predictors = arms.shape[2] // evidence.size
    for x in range(arms.shape[1]):
        samples = _samples(counting, arms[:, x].copy())
        of_arms = pooled(samples, counting.tilts, TILT_TASK, counting.noise, 0.0, behind)
        if near.within.shape[2] > 0:
            limits = near.limits[LIMIT_ACROSS:LIMIT_PHASE2]
            rule_out_pairs(near.within, x, samples, limits, near.epsilon, predictors, counting.tilts, counting.noise)
        for g in range(evidence.size):
            evidence[g] += minimum(of_arms[g * predictors : (g + 1) * predictors])
    _rule_out(counting, 0, evidence)


@kernel
def judge_predictors(counting: SharpCounts, x: int, contests: PerTaskTest, near: EpsilonPairs) -> None:
    """Rule out predictors by the counts of the test of task ``x``; compare them."""
    first, last = competing_arms(contests)
    tilts, noise = counting.tilts, counting.noise
    samples = _samples(counting, contests.arms[:, x, first:last].copy())
    if tilts.by_pairs:
        _rule_out(counting, x, against_best(samples, tilts, noise))
    else:
        behind = np.zeros(last - first, np.bool_)
        _rule_out(counting, x, pooled(samples, tilts, TILT_LOCAL, noise, 0.0, behind))
    if near.local.shape[2] > 0:
        limits = near.limits[LIMIT_PHASE1:]
        rule_out_pairs(near.local, x, samples, limits, near.epsilon, last - first, tilts, noise)


@kernel
def _samples(counting: SharpCounts, arms: Floats) -> Samples:
    """Return the samples of the ``arms`` (rows, n) of a task."""
    return samples_of(
        arms[TEST_PULLS], arms[TEST_SUMS], arms[TEST_FIRST], arms[TEST_LED], arms[TEST_LED_SUM], counting.noise
    )


@kernel
def _rule_out(counting: SharpCounts, i: int, evidence: Floats) -> None:
    """Rule out what the evidence allows in test ``i``, for every criterion; the last possibility stays."""
    for r in range(counting.limit.size):
        rule_out(counting.possible[r, i], evidence, counting.limit[r], True)

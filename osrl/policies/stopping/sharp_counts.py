"""When the paper's algorithm stops by counts (threshold ``sharp``): what the counts have ruled out.

Its sampling leaves nothing to chance, so there is nothing to bet on; but evidence from counts holds for any
sampling rule (`osrl.evidence.counts`, `pairs`). As in `osrl.hypotheses`, and by the same rule, every null
is tested at the whole risk, a rejection is permanent, and the test is over when one possibility is left,
for each criterion by itself. Counts are looked at again when there are 2 % more samples: those of all tasks
at the same time, where the evidence of tasks is multiplied. With a tolerance there is another way to end
(`osrl.policies.stopping.epsilon_counts`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.evidence.counts import Samples, pooled, samples_of
from osrl.evidence.exponential_tilts import LOCAL, TASK, Tilts, new_tilts
from osrl.evidence.pairs import against_best
from osrl.hypotheses.state import PATIENCE, rule_out
from osrl.jit.kernel import kernel, kernel_in_place
from osrl.jit.reductions import least_of
from osrl.model.arrays import Flags, Floats
from osrl.policies.contract import Criterion
from osrl.policies.stopping.epsilon_counts import ACROSS, SECOND, SHARP, Near, compare
from osrl.policies.stopping.per_task_test import FIRST, LED, LED_SUM, PULLS, SUMS, Contests, competing


class Counting(NamedTuple):
    """What is possible for the criteria that stop by counts (arrays are updated in place)."""

    limit: Floats  # (R,) log(1 / delta); infinite for the criteria that do not stop by counts
    possible: Flags  # (R, X, m) in each contest; phase 1 is one contest
    due: Floats  # (X,) samples of each contest at which to look again
    tilts: Tilts
    noise: float
    wanted: bool  # whether any criterion stops by counts


def new_counting(
    criteria: tuple[Criterion, ...],
    deltas: tuple[float, ...],
    arms: tuple[int, int],
    tests: int,
    noise: float,
) -> Counting:
    """Everything is possible; ``arms`` = (X, n), and ``tests`` possibilities in each contest."""
    sharp = np.array([criterion.threshold == SHARP for criterion in criteria])
    return Counting(
        limit=np.where(sharp, np.log(1.0 / np.array(deltas)), math.inf),
        possible=np.ones((len(criteria), arms[0], tests), np.bool_),
        due=np.full(arms[0], float(arms[1])),
        tilts=new_tilts(noise),
        noise=noise,
        wanted=bool(sharp.any()),
    )


@kernel_in_place
def look_due(counting: Counting, i: int, samples: float) -> bool:
    """Whether to look at the counts of contest ``i`` after so many samples; then not again soon."""
    due = counting.due
    if not counting.wanted or samples < due[i]:
        return False
    due[i] = max(samples + 1.0, samples * (1.0 + PATIENCE))
    return True


@kernel
def count_representations(counting: Counting, arms: Floats, near: Near) -> None:
    """Rule out representations by the counts of all tasks, E_g = prod_x min_h E_{x,(g,h)}; compare arms."""
    evidence, behind = np.zeros(counting.possible.shape[2]), np.zeros(arms.shape[2], np.bool_)
    predictors = arms.shape[2] // evidence.size
    for x in range(arms.shape[1]):
        samples = _samples(counting, arms[:, x].copy())
        of_arms = pooled(samples, counting.tilts, TASK, counting.noise, 0.0, behind)
        if near.within.shape[2] > 0:
            limits = near.limits[ACROSS:SECOND]
            compare(near.within, x, samples, limits, near.epsilon, predictors, counting.tilts, counting.noise)
        for g in range(evidence.size):
            evidence[g] += least_of(of_arms[g * predictors : (g + 1) * predictors])
    _rule_out(counting, 0, evidence)


@kernel
def count_predictors(counting: Counting, x: int, contests: Contests, near: Near) -> None:
    """Rule out predictors by the counts of the contest of task ``x``; compare them."""
    first, last = competing(contests)
    tilts, noise = counting.tilts, counting.noise
    samples = _samples(counting, contests.arms[:, x, first:last].copy())
    if tilts.by_pairs:
        _rule_out(counting, x, against_best(samples, tilts, noise))
    else:
        behind = np.zeros(last - first, np.bool_)
        _rule_out(counting, x, pooled(samples, tilts, LOCAL, noise, 0.0, behind))
    if near.local.shape[2] > 0:
        limits = near.limits[SECOND - 1 :]
        compare(near.local, x, samples, limits, near.epsilon, last - first, tilts, noise)


@kernel
def _samples(counting: Counting, arms: Floats) -> Samples:
    """What the rewards of the ``arms`` (rows, n) of a task say."""
    return samples_of(arms[PULLS], arms[SUMS], arms[FIRST], arms[LED], arms[LED_SUM], counting.noise)


@kernel
def _rule_out(counting: Counting, i: int, evidence: Floats) -> None:
    """Rule out what can be in contest ``i``, for every criterion; the last possibility stays."""
    for r in range(counting.limit.size):
        rule_out(counting.possible[r, i], evidence, counting.limit[r], True)

"""What traces read of a stopping rule: the evidence against each representation and each arm.

| state | against a representation | against an arm |
|---|---|---|
| `Hypotheses` (bets, counts) | log E_g | log E of the predictor, among those of its representation |
| `Phases`, `Released` | C(g), in phase 1 | in phase 2 the likelihood ratio of the leader against it |
| `Tasks`, `Transfer` | | the likelihood ratio of the leader against it |

A run ends when those that are not the answer exceed their limit. Reading changes nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from osrl.evidence.betting import LOCAL, log_mixture
from osrl.hypotheses.product import evidence_against
from osrl.hypotheses.refresh import count_predictors, count_task, told
from osrl.hypotheses.state import LOCAL_PENDING, LOCAL_WEALTH, Hypotheses
from osrl.jit.kernel import kernel
from osrl.model.arrays import Floats
from osrl.model.families import divergence
from osrl.policies.stopping.per_task_test import MEANS, OF_X, PULLS, SUMS, Contests, best_of, competing


@kernel
def read_hypotheses(hypotheses: Hypotheses, of_g: Floats, of_h: Floats) -> None:
    """Log evidence; that of counts is counted again."""
    if hypotheses.by_counts:
        of_g[:] = 0.0
        for x in range(of_h.shape[0]):
            samples, of_task = told(hypotheses, x), np.empty(of_h.shape[1])
            for g in range(of_g.size):
                of_g[g] += count_task(hypotheses, samples, g, -math.inf, of_task)[0]
                count_predictors(hypotheses, samples, x, g, -math.inf, of_h[x])
        return
    for g in range(of_g.size):
        of_g[g] = evidence_against(hypotheses.against, hypotheses.bets, g)
    wealth = hypotheses.wealth
    for x in range(of_h.shape[0]):
        for a in range(of_h.shape[1]):
            held = wealth[LOCAL_WEALTH, x, a] + wealth[LOCAL_PENDING, x, a]
            of_h[x, a] = log_mixture(held, hypotheses.bets.grid[LOCAL])


@kernel
def read_contest(contests: Contests, of_h: Floats) -> None:
    """The likelihood ratios of the contest in progress; nothing while all tasks are asked together."""
    x, arms = int(contests.asked[OF_X]), contests.arms
    if x < 0:
        return
    first, last = competing(contests)
    best = best_of(contests, x)
    for b in range(first, last):
        if b != best and arms[PULLS, x, best] > 0.0 and arms[PULLS, x, b] > 0.0:
            m = (arms[SUMS, x, best] + arms[SUMS, x, b]) / (arms[PULLS, x, best] + arms[PULLS, x, b])
            value = arms[PULLS, x, best] * divergence(arms[MEANS, x, best], m, contests.noise)
            of_h[x, b] = value + arms[PULLS, x, b] * divergence(arms[MEANS, x, b], m, contests.noise)


@kernel
def read_phases(phases: Any, of_g: Floats, of_h: Floats) -> None:
    """C(g) of phase 1, and the contest of phase 2."""
    for g in range(of_g.size):
        of_g[g] = phases.glr.total[g]
    read_contest(phases.contests, of_h)


@kernel
def read_tasks(tasks: Any, of_g: Floats, of_h: Floats) -> None:
    """The contest in progress."""
    read_contest(tasks.contests, of_h)

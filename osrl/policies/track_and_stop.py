"""Track-and-stop in one task: a contest of n arms for the best one, at several risks at once.

Used by phase 2 of the paper's algorithm and by its baselines. Weights are the exact optimal
proportions of the current estimate, recomputed when the contest has grown by ``growth`` (between
two recomputations they hardly move); sampling does not depend on the risk, so one contest serves
all columns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.allocation.single_task import single_task
from osrl.arrays import Floats
from osrl.compiled import kernel, kernel_in_place
from osrl.errors import OsrlError
from osrl.families import divergence
from osrl.policies.tracking import explores, least_pulled, track
from osrl.thresholds import track_and_stop

GROWTH = 0.02


PULLS, SUMS, FIRST, LED, LED_SUM, MEANS, WEIGHTS = range(7)  # rows of `arms`
ROUNDS, DUE = range(2)  # rows of `tasks`


class Contests(NamedTuple):
    """One contest for each task; arrays are updated in place."""

    arms: (
        Floats  # (7, X, n) pulls, sums and first of the rewards, number and sum of those that came while the
    )
    # arm led, means, proportions to follow
    tasks: Floats  # (2, X) pulls of the task, and at how many to recompute the proportions
    threshold: Floats  # (R, 3) terms of each column
    growth: float
    noise: float


def new_contests(
    tasks: int, arms: int, deltas: tuple[float, ...], noise: float, growth: float = GROWTH
) -> Contests:
    """Contests of ``arms`` arms in each task, to be stopped at the risks ``deltas``."""
    if not 0 <= growth < math.inf:
        raise OsrlError(f"growth is {growth}; give a number from 0 on, such as {GROWTH}")
    contests = Contests(
        arms=np.zeros((7, tasks, arms)),
        tasks=np.zeros((2, tasks)),
        threshold=np.array([track_and_stop(arms, delta, noise).terms for delta in deltas]),
        growth=growth,
        noise=noise,
    )
    contests.arms[WEIGHTS] = 1.0 / arms
    contests.tasks[DUE] = float(arms)
    return contests


@kernel_in_place
def leader_of(means: Floats) -> int:
    """The arm with the largest mean, or -1 when two share it."""
    best, unique = 0, True
    for a in range(1, means.size):
        if means[a] > means[best]:
            best, unique = a, True
        elif means[a] == means[best]:
            unique = False
    return best if unique else -1


@kernel_in_place
def contest_due(contests: Contests, x: int) -> bool:
    """Whether the weights of task ``x`` are to be recomputed."""
    tasks = contests.tasks
    return tasks[ROUNDS, x] >= tasks[DUE, x] and leader_of(contests.arms[MEANS, x]) >= 0


@kernel
def contest_design(contests: Contests, x: int) -> None:
    """Recompute the weights of task ``x``."""
    arms, tasks = contests.arms, contests.tasks
    arms[WEIGHTS, x] = single_task(arms[MEANS, x], contests.noise).weights
    tasks[DUE, x] = max(tasks[ROUNDS, x] + 1.0, tasks[ROUNDS, x] * (1.0 + contests.growth))


@kernel_in_place
def contest_select(contests: Contests, x: int) -> int:
    """The arm to pull in task ``x``; while some share the lead, one of those (Garivier and Kaufmann).

    Forced exploration comes first: rewards that repeat exactly may keep a lead shared for ever.
    """
    one = slice(x, x + 1)
    arms, rounds = contests.arms, contests.tasks[ROUNDS, x]
    pulls, weights, means = arms[PULLS, one], arms[WEIGHTS, one], arms[MEANS, x]
    if leader_of(means) >= 0:
        return track(pulls, weights, rounds)
    least = least_pulled(pulls)
    return least if explores(pulls[0, least], rounds, means.size) else tied_leader(pulls[0], means)


@kernel_in_place
def tied_leader(pulls: Floats, means: Floats) -> int:
    """The least pulled of the arms with the largest mean."""
    best = 0
    for a in range(1, means.size):
        if means[a] > means[best] or (means[a] == means[best] and pulls[a] < pulls[best]):
            best = a
    return best


@kernel_in_place
def contest_observe(contests: Contests, x: int, a: int, reward: float) -> None:
    """Take in a reward of arm ``a`` of task ``x``."""
    add_reward(contests.arms, x, a, reward)
    contests.tasks[ROUNDS, x] += 1.0


@kernel_in_place
def add_reward(arms: Floats, x: int, a: int, reward: float) -> None:
    """Bring pulls, sums, first rewards, those of the leader, and means up to date."""
    if arms[PULLS, x, a] == 0.0:
        arms[FIRST, x, a] = reward
    if np.argmax(arms[MEANS, x]) == a:
        arms[LED, x, a] += 1.0
        arms[LED_SUM, x, a] += reward
    arms[PULLS, x, a] += 1.0
    arms[SUMS, x, a] += reward
    arms[MEANS, x, a] = arms[SUMS, x, a] / arms[PULLS, x, a]


@kernel_in_place
def contest_evidence(contests: Contests, x: int) -> float:
    """How clearly the leader of task ``x`` leads: the least two-arm likelihood ratio, or -1 for a tie.

    min over b of N_1 kl(mu_1, m) + N_b kl(mu_b, m), m their pooled mean; -1 while an arm is untried.
    """
    pulls, sums, means = contests.arms[PULLS, x], contests.arms[SUMS, x], contests.arms[MEANS, x]
    noise = contests.noise
    leader = leader_of(means)
    if leader < 0:
        return -1.0
    least = math.inf
    for b in range(means.size):
        if pulls[b] < 1.0:
            return -1.0
        if b == leader:
            continue
        m = (sums[leader] + sums[b]) / (pulls[leader] + pulls[b])
        value = pulls[leader] * divergence(means[leader], m, noise)
        value += pulls[b] * divergence(means[b], m, noise)
        least = min(least, value)
    return least


@kernel_in_place
def contest_stops(contests: Contests, x: int, evidence: float, column: int) -> bool:
    """Whether the evidence of task ``x`` exceeds the threshold of ``column``."""
    terms, rounds = contests.threshold[column], contests.tasks[ROUNDS, x]
    return bool(evidence > terms[0] + terms[2] * math.log(max(rounds, 1.0)))

"""A contest: which arm of a task is best, among all of its arms or among the predictors of a representation.

What track-and-stop keeps of it, in the paper's algorithm and in its baselines: what is asked now, the
samples that count for that, and how clearly the leader leads. Tracking rules (`osrl.policies.sampling`) read it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.jit.kernel import kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.families import divergence
from osrl.policies.contract import Criterion
from osrl.policies.stopping.thresholds import track_and_stop

PULLS, SUMS, FIRST, LED, LED_SUM, MEANS = range(6)  # rows of `arms`
OF_G, OF_X = range(2)  # places of `asked`


class Contests(NamedTuple):
    """The question in progress and the samples that count for it; arrays are updated in place."""

    arms: Floats  # (6, X, n) pulls, sums, first reward; number and sum of those that came while it led; means
    rounds: Floats  # (X,) pulls of a task that count
    asked: Integers  # (2,) representation whose predictors compete, -1: all arms; the task, -1: all together
    predictors: int
    noise: float


def new_contests(shape: tuple[int, int, int], noise: float, task: int = -1) -> Contests:
    """No samples yet; the first question is about the arms of ``task``, or of all tasks together."""
    X, G, H = shape
    return Contests(
        arms=np.zeros((6, X, G * H)),
        rounds=np.zeros(X),
        asked=np.array([-1, task]),
        predictors=H,
        noise=noise,
    )


def contest_thresholds(arms: int, deltas: tuple[float, ...], noise: float) -> Floats:
    """The terms of the thresholds of contests of ``arms`` arms at the risks ``deltas``, (R, 3)."""
    return np.array([track_and_stop(arms, delta, noise).terms for delta in deltas])


def risk_of_arm(criterion: Criterion, shape: tuple[int, int, int]) -> float:
    """Return the risk of an answer that names representation and predictor at once: both have to be kept."""
    _, G, H = shape
    if H == 1:
        return criterion.delta_g
    return criterion.delta_h if G == 1 else min(criterion.delta_g, criterion.delta_h)


@kernel_in_place
def competing(contests: Contests) -> tuple[int, int]:
    """The arms that compete now: the first one, and one past the last one."""
    g, predictors = contests.asked[OF_G], contests.predictors
    if g < 0:
        return 0, contests.arms.shape[2]
    return g * predictors, (g + 1) * predictors


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
def best_of(contests: Contests, x: int) -> int:
    """The competing arm of task ``x`` with the largest mean; of several, the first."""
    means = contests.arms[MEANS, x]
    first, last = competing(contests)
    best = first
    for a in range(first + 1, last):
        if means[a] > means[best]:
            best = a
    return best


@kernel_in_place
def leads(contests: Contests, x: int, a: int) -> bool:
    """Whether an arm of task ``x`` has a larger mean than every other one that competes and was tried."""
    pulls, means = contests.arms[PULLS, x], contests.arms[MEANS, x]
    first, last = competing(contests)
    for b in range(first, last):
        if b != a and pulls[b] > 0.0 and means[b] >= means[a]:
            return False
    return bool(pulls[a] > 0.0)


@kernel_in_place
def contest_observe(contests: Contests, x: int, a: int, reward: float) -> None:
    """Take in a reward of arm ``a`` of task ``x``."""
    add_reward(contests, x, a, reward)
    contests.rounds[x] += 1.0


@kernel_in_place
def add_reward(contests: Contests, x: int, a: int, reward: float) -> None:
    """Bring pulls, sums and means up to date."""
    arms = contests.arms
    arms[PULLS, x, a] += 1.0
    arms[SUMS, x, a] += reward
    arms[MEANS, x, a] = arms[SUMS, x, a] / arms[PULLS, x, a]


@kernel_in_place
def note_lead(contests: Contests, x: int, a: int, reward: float) -> None:
    """What evidence from counts needs of a reward, before it is added: the first one, those of a leader."""
    arms = contests.arms
    if arms[PULLS, x, a] == 0.0:
        arms[FIRST, x, a] = reward
    if leads(contests, x, a):
        arms[LED, x, a] += 1.0
        arms[LED_SUM, x, a] += reward


@kernel_in_place
def contest_evidence(contests: Contests, x: int, thresholds: Floats) -> float:
    """How clearly the leader of task ``x`` leads: the least likelihood ratio of it and another arm.

    -1 where that is not above the least of the ``thresholds`` (R, 3), for a tie, and while an arm is untried.
    The arm with the next largest mean mostly has the least one, so it comes first.
    """
    first, last = competing(contests)
    means, pulls = contests.arms[MEANS, x, first:last], contests.arms[PULLS, x, first:last]
    leader = leader_of(means)
    if leader < 0:
        return -1.0
    enough = math.inf
    for r in range(thresholds.shape[0]):
        enough = min(enough, contest_threshold(contests, x, thresholds[r]))
    next_best = -1
    for b in range(means.size):
        if pulls[b] < 1.0:
            return -1.0
        if b != leader and (next_best < 0 or means[b] > means[next_best]):
            next_best = b
    if next_best < 0:
        return math.inf
    least = _ratio(contests, x, first + leader, first + next_best)
    for b in range(means.size):
        if least <= enough:
            return -1.0
        if b != leader and b != next_best:
            least = min(least, _ratio(contests, x, first + leader, first + b))
    return least if least > enough else -1.0


@kernel_in_place
def _ratio(contests: Contests, x: int, a: int, b: int) -> float:
    """N_a kl(mu_a, m) + N_b kl(mu_b, m), m the pooled mean of the two arms."""
    pulls, sums = contests.arms[PULLS, x], contests.arms[SUMS, x]
    means, noise = contests.arms[MEANS, x], contests.noise
    m = (sums[a] + sums[b]) / (pulls[a] + pulls[b])
    return float(pulls[a] * divergence(means[a], m, noise) + pulls[b] * divergence(means[b], m, noise))


@kernel_in_place
def contest_stops(contests: Contests, x: int, evidence: float, terms: Floats) -> bool:
    """Whether the evidence of task ``x`` exceeds the threshold with these ``terms``."""
    return evidence >= 0.0 and evidence > contest_threshold(contests, x, terms)


@kernel_in_place
def contest_threshold(contests: Contests, x: int, terms: Floats) -> float:
    """The threshold with these ``terms`` for task ``x``."""
    return float(terms[0] + terms[2] * math.log(max(contests.rounds[x], 1.0)))

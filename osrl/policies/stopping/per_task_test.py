"""The test of one task: which of its arms is best, among all of them or among the predictors of a representation.

It holds the state of track-and-stop, in the paper's algorithm and in its baselines: the question in progress, the
samples that count for it, and how clearly the leader leads. Tracking rules (`osrl.policies.sampling`) read it. In the
states of stopping rules, in logs and in snapshots the field is called ``contests``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.families import divergence
from osrl.policies.contract import Criterion
from osrl.policies.stopping.thresholds import TERM_CONSTANT, TERM_LOG_LOG_T, TERM_LOG_T, track_and_stop

TEST_PULLS, TEST_SUMS, TEST_FIRST, TEST_LED, TEST_LED_SUM, TEST_MEANS = range(6)  # rows of `arms`
ASKED_G, ASKED_TASK = range(2)  # places of `asked`


class PerTaskTest(NamedTuple):
    """The question in progress and the samples that count for it; arrays are updated in place."""

    arms: Floats  # (6, X, n) pulls, sums, first reward; number and sum of those that came while it led; means
    rounds: Floats  # (X,) pulls of a task that count
    asked: Integers  # (2,) representation whose predictors compete, -1: all arms; the task, -1: all together
    predictors: int
    noise: float


def new_per_task_test(shape: tuple[int, int, int], noise: float, task: int = -1) -> PerTaskTest:
    """Return a test without samples; the first question is about the arms of ``task``, or of all tasks together."""
    X, G, H = shape
    return PerTaskTest(
        arms=np.zeros((6, X, G * H)),
        rounds=np.zeros(X),
        asked=np.array([-1, task]),
        predictors=H,
        noise=noise,
    )


def track_and_stop_terms(arms: int, deltas: tuple[float, ...], noise: float) -> Floats:
    """Return the threshold terms of tests of ``arms`` arms at the risks ``deltas``, (R, 3)."""
    return np.array([track_and_stop(arms, delta, noise).terms[:TERM_LOG_LOG_T] for delta in deltas])


def risk_of_arm(criterion: Criterion, shape: tuple[int, int, int]) -> float:
    """Return the risk of an answer that names representation and predictor at once: both have to be kept."""
    _, G, H = shape
    if H == 1:
        return criterion.delta_g
    return criterion.delta_h if G == 1 else min(criterion.delta_g, criterion.delta_h)


@kernel_in_place
def competing_arms(contests: PerTaskTest) -> tuple[int, int]:
    """Return the first competing arm, and one past the last."""
    g, predictors = contests.asked[ASKED_G], contests.predictors
    if g < 0:
        return 0, contests.arms.shape[2]
    return g * predictors, (g + 1) * predictors


@kernel_in_place
def unique_leader(means: Floats) -> int:
    """Return the arm with the largest mean, or -1 when two share it."""
    best, unique = 0, True
    for a in range(1, means.size):
        if means[a] > means[best]:
            best, unique = a, True
        elif means[a] == means[best]:
            unique = False
    return best if unique else -1


@kernel_in_place
def shared_representation(leaders: Integers, predictors: int) -> int:
    """Return the representation of all leaders, or -1 when they disagree or a task has none."""
    if leaders[0] < 0:
        return -1
    g = int(leaders[0]) // predictors
    for x in range(1, leaders.size):
        if leaders[x] < 0 or leaders[x] // predictors != g:
            return -1
    return g


@kernel_in_place
def best_competing_arm(contests: PerTaskTest, x: int) -> int:
    """Return the competing arm of task ``x`` with the largest mean; of several, the first."""
    means = contests.arms[TEST_MEANS, x]
    first, last = competing_arms(contests)
    best = first
    for a in range(first + 1, last):
        if means[a] > means[best]:
            best = a
    return best


@kernel_in_place
def is_leading(contests: PerTaskTest, x: int, a: int) -> bool:
    """Tell whether an arm of task ``x`` has a larger mean than every other competing arm that was tried."""
    pulls, means = contests.arms[TEST_PULLS, x], contests.arms[TEST_MEANS, x]
    first, last = competing_arms(contests)
    for b in range(first, last):
        if b != a and pulls[b] > 0.0 and means[b] >= means[a]:
            return False
    return bool(pulls[a] > 0.0)


@kernel_in_place
def count_reward(contests: PerTaskTest, x: int, a: int, reward: float) -> None:
    """Add a reward of arm ``a`` of task ``x``, and count the round."""
    add_reward(contests, x, a, reward)
    contests.rounds[x] += 1.0


@kernel_in_place
def add_reward(contests: PerTaskTest, x: int, a: int, reward: float) -> None:
    """Update pulls, sums and means."""
    arms = contests.arms
    arms[TEST_PULLS, x, a] += 1.0
    arms[TEST_SUMS, x, a] += reward
    arms[TEST_MEANS, x, a] = arms[TEST_SUMS, x, a] / arms[TEST_PULLS, x, a]


@kernel_in_place
def note_leading_reward(contests: PerTaskTest, x: int, a: int, reward: float) -> None:
    """Count a reward for evidence from counts, before it is added: the first one, and those of a leader."""
    arms = contests.arms
    if arms[TEST_PULLS, x, a] == 0.0:
        arms[TEST_FIRST, x, a] = reward
    if is_leading(contests, x, a):
        arms[TEST_LED, x, a] += 1.0
        arms[TEST_LED_SUM, x, a] += reward


@kernel_in_place
def leader_evidence(contests: PerTaskTest, x: int, thresholds: Floats) -> float:
    """Return the least likelihood ratio of the leader of task ``x`` and another arm.

    -1 where that is not above the least of the ``thresholds`` (R, 3), for a tie, and while an arm is untried.
    The arm with the next largest mean mostly has the least one, so it comes first.
    """
    first, last = competing_arms(contests)
    means, pulls = contests.arms[TEST_MEANS, x, first:last], contests.arms[TEST_PULLS, x, first:last]
    leader = unique_leader(means)
    if leader < 0:
        return -1.0
    enough = math.inf
    for r in range(thresholds.shape[0]):
        enough = min(enough, threshold_of_task(contests, x, thresholds[r]))
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
def _ratio(contests: PerTaskTest, x: int, a: int, b: int) -> float:
    """Return N_a kl(mu_a, m) + N_b kl(mu_b, m), m the pooled mean of the two arms."""
    pulls, sums = contests.arms[TEST_PULLS, x], contests.arms[TEST_SUMS, x]
    means, noise = contests.arms[TEST_MEANS, x], contests.noise
    m = (sums[a] + sums[b]) / (pulls[a] + pulls[b])
    return float(pulls[a] * divergence(means[a], m, noise) + pulls[b] * divergence(means[b], m, noise))


@kernel_in_place
def exceeds_threshold(contests: PerTaskTest, x: int, evidence: float, terms: Floats) -> bool:
    """Tell whether the evidence of task ``x`` exceeds the threshold with these ``terms``."""
    return evidence >= 0.0 and evidence > threshold_of_task(contests, x, terms)


@kernel_in_place
def threshold_of_task(contests: PerTaskTest, x: int, terms: Floats) -> float:
    """Return the threshold with these ``terms`` for task ``x``."""
    return float(terms[TERM_CONSTANT] + terms[TERM_LOG_T] * math.log(max(contests.rounds[x], 1.0)))


@kernel
def read_leader_ratios(contests: PerTaskTest, of_h: Floats) -> None:
    """Write the likelihood ratios of the test in progress; nothing while all tasks are tested together."""
    x, arms = int(contests.asked[ASKED_TASK]), contests.arms
    if x < 0:
        return
    first, last = competing_arms(contests)
    best = best_competing_arm(contests, x)
    for b in range(first, last):
        if b != best and arms[TEST_PULLS, x, best] > 0.0 and arms[TEST_PULLS, x, b] > 0.0:
            of_h[x, b] = _ratio(contests, x, best, b)


@kernel
def read_per_task(tasks: Any, of_g: Floats, of_h: Floats) -> None:
    """Write the likelihood ratios of the test in progress."""
    read_leader_ratios(tasks.contests, of_h)

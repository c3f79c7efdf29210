"""Refuting each wrong representation in one task: the partition of Proposition 2.

Each representation g other than the best is given to one task x, which has to separate its best arm
from all arms (g, h) given to it; that takes the characteristic time c(x, B_x) of the best arm of
x against the arms of B_x. The partition minimises sum_x c(x, B_x).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.allocation.single_task import single_task
from osrl.jit import kernel
from osrl.jit.mode import expect
from osrl.jit.reductions import sequential_sum
from osrl.model.arrays import Floats, Integers
from osrl.model.instance import Instance

MAX_EXACT_REPRESENTATIONS = 12  # representations up to which every partition is considered


class Partition(NamedTuple):
    """The least total time, the task of each wrong representation, and whether it is exact."""

    time: float
    assignment: dict[int, int]
    exact: bool


def best_partition(instance: Instance) -> Partition:
    """Find the cheapest way to refute every wrong representation, each in a single task.

    Exact by dynamic programming over subsets for up to 12 representations; beyond, each is given
    to its own cheapest task and then moved one at a time while that helps.

    >>> best_partition(Instance.load("paper")).assignment
    {1: 1, 2: 0}
    """
    best = instance.best
    wrong = np.array([g for g in range(instance.shape[1]) if g != best.representation], np.int64)
    if wrong.size == 0:
        return Partition(0.0, {}, True)
    top = np.array([instance.means[x, best.representation, h] for x, h in enumerate(best.predictors)])
    rivals = instance.means[:, wrong, :].copy()
    exact = instance.shape[1] <= MAX_EXACT_REPRESENTATIONS
    search = _every_partition if exact else _local_search
    expect(_seconds_to_search(instance.shape, exact))
    time, tasks = search(top, rivals, instance.family.noise)
    return Partition(float(time), {int(g): int(x) for g, x in zip(wrong, tasks, strict=True)}, exact)


def _seconds_to_search(shape: tuple[int, int, int], exact: bool) -> float:
    """Estimate how long the interpreter takes to search."""
    tasks, representations, predictors = shape
    wrong, arm, part = representations - 1, 2e-4, 1e-6  # seconds for an arm of a single task, and for a part
    if not exact:
        return 3.0 * wrong * (wrong * predictors + tasks) * arm
    return tasks * (2.0**wrong * wrong * predictors / 2 * arm + 3.0**wrong * part)


@kernel
def _time_against(top: float, rivals: Floats, members: Integers, noise: float) -> float:
    """Return the characteristic time of an arm of mean ``top`` against the rows of ``rivals`` in ``members``."""
    predictors = rivals.shape[1]
    count = 0
    mu = np.empty(1 + members.size * predictors)
    mu[0] = top
    for i in range(members.size):
        if members[i]:
            for h in range(predictors):
                count += 1
                mu[count] = rivals[i, h]
    return single_task(mu[: count + 1], noise).time


@kernel
def _every_partition(top: Floats, rivals: Floats, noise: float) -> tuple[float, Integers]:
    """Find the best partition by dynamic programming over subsets of the wrong representations."""
    tasks, wrong, _ = rivals.shape
    subsets = 1 << wrong
    best = np.full((tasks + 1, subsets), math.inf)  # [x, S]: S refuted in the first x tasks
    taken = np.zeros((tasks, subsets), np.int64)
    best[0, 0] = 0.0
    members = np.zeros(wrong, np.int64)
    for x in range(tasks):
        time = np.zeros(subsets)
        for s in range(1, subsets):
            for i in range(wrong):
                members[i] = (s >> i) & 1
            time[s] = _time_against(top[x], rivals[x], members, noise)
        for s in range(subsets):
            part = s
            while True:
                value = best[x, s ^ part] + time[part]
                if value < best[x + 1, s]:
                    best[x + 1, s] = value
                    taken[x, s] = part
                if part == 0:
                    break
                part = (part - 1) & s
    assignment = np.zeros(wrong, np.int64)
    left = subsets - 1
    for x in range(tasks - 1, -1, -1):
        for i in range(wrong):
            if (taken[x, left] >> i) & 1:
                assignment[i] = x
        left ^= taken[x, left]
    return best[tasks, subsets - 1], assignment


@kernel
def _local_search(top: Floats, rivals: Floats, noise: float) -> tuple[float, Integers]:
    """Find a partition that no move of a single representation improves."""
    tasks, wrong, _ = rivals.shape
    assignment = np.zeros(wrong, np.int64)
    members = np.zeros(wrong, np.int64)
    for i in range(wrong):
        members[:] = 0
        members[i] = 1
        least = math.inf
        for x in range(tasks):
            alone = _time_against(top[x], rivals[x], members, noise)
            if alone < least:
                least = alone
                assignment[i] = x
    time = np.zeros(tasks)
    for x in range(tasks):
        members[:] = assignment == x
        time[x] = _time_against(top[x], rivals[x], members, noise)
    improved = True
    while improved:
        improved = False
        for i in range(wrong):
            source = assignment[i]
            members[:] = assignment == source
            members[i] = 0
            without = _time_against(top[source], rivals[source], members, noise)
            for x in range(tasks):
                if x == assignment[i]:
                    continue
                members[:] = assignment == x
                members[i] = 1
                joined = _time_against(top[x], rivals[x], members, noise)
                if without + joined < (time[source] + time[x]) * (1 - 1e-12):
                    time[source], time[x] = without, joined
                    assignment[i] = x
                    improved = True
                    break
    return sequential_sum(time), assignment

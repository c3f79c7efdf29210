"""The bound without sharing: every task finds its best arm on its own.

A policy that treats the tasks separately has to be right about the representation and the
predictor of each task from the samples of that task alone. It needs at least the sum of the bounds
K of the instances that hold one task each. K of the whole instance is never larger: sharing helps,
or costs nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from osrl.allocation import Needs, allocate
from osrl.model.families import divergence
from osrl.model.instance import Instance


class SeparateTasks(NamedTuple):
    """A certified interval: lower <= sum of K over instances of one task <= upper."""

    lower: float
    upper: float


def separate_tasks(instance: Instance, delta_g: float, delta_h: float, *, tolerance: float) -> SeparateTasks:
    """Return how many samples are needed in total when no task learns from another."""
    k_g, k_h = (float(divergence(1 - delta, delta, 0.0)) for delta in (delta_g, delta_h))
    lower = upper = 0.0
    for x, task in enumerate(instance.tasks):
        alone = Instance(
            instance.means[x : x + 1],
            instance.family,
            [task],
            instance.representations,
            instance.predictors,
        )
        allocation = allocate(alone, Needs.of(alone, k_g, k_h), tolerance=tolerance)
        lower += 1 / allocation.upper
        upper += 1 / allocation.lower if allocation.lower > 0 else math.inf
    return SeparateTasks(lower, upper)

"""Every arm with the same probability; in a given task, every arm of it.

The plainest way to sample with which evidence by bets works: what an adaptive allocation gains over it is
what that allocation is worth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from osrl.jit.kernel import kernel_in_place
from osrl.model.arrays import Floats
from osrl.policies.contract import Problem, SamplingRule


class UniformSampling(NamedTuple):
    """Nothing to remember but how many arms there are."""

    arms: int


def new(problem: Problem, draw: float) -> UniformSampling:
    """Before the first sample."""
    X, G, H = problem.shape
    return UniformSampling(X * G * H)


@kernel_in_place
def select(even: UniformSampling, stopping: Any, task: int, propensities: Floats) -> int:
    """The same probability for every arm, or for every arm of the given task."""
    tasks, n = propensities.shape
    for x in range(tasks):
        for a in range(n):
            propensities[x, a] = 1.0 / even.arms if task < 0 else 1.0 / n if x == task else 0.0
    return -1


RULE = SamplingRule(
    name="even",
    summary="every arm with the same probability",
    state=UniformSampling,
    new=new,
    select=select,
    given_tasks=True,
    draws=True,
)

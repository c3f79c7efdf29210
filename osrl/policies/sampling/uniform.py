"""Rule `uniform`: sample every arm with the same probability; in a given task, every arm of it.

It is the simplest sampling rule that works with bets: the gain of an adaptive allocation is measured against it. It
has no parameters.

>>> import osrl
>>> osrl.simulate("paper", policy="uniform", delta=0.1, runs=3).frame["tau"].to_list()
[35734, 18541, 17231]

Reference: R. E. Bechhofer, A Single-Sample Multiple Decision Procedure for Ranking Means of Normal Populations with
Known Variances, Annals of Mathematical Statistics 25, 1954 (equal samples of all populations).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from osrl.jit import kernel_in_place
from osrl.model.arrays import Floats
from osrl.policies.contract import Problem, SamplingRule


class UniformSampling(NamedTuple):
    """The number of arms."""

    arms: int


def new(problem: Problem, draw: float) -> UniformSampling:
    """Return the state before the first sample."""
    X, G, H = problem.shape
    return UniformSampling(X * G * H)


@kernel_in_place
def select(even: UniformSampling, stopping: Any, task: int, propensities: Floats) -> int:
    """Write the same probability for every arm, or for every arm of the given task."""
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

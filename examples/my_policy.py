"""`round-robin`: a sampling rule in one small file, to copy and change.

It samples the arms of a task in turn. When to stop, and what to answer, is left to a rule of the package: one
task after the other, by the threshold of track-and-stop. That rule is valid whatever the sampling, so in each
task the answer is wrong with probability at most min(delta_g, delta_h). Without `@kernel` it works too, at
Python's speed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.jit import kernel
from osrl.model.arrays import Floats
from osrl.policies import Policy, Problem, SamplingRule, register
from osrl.policies.stopping import per_task
from osrl.policies.stopping.per_task_test import ASKED_TASK


class RoundRobin(NamedTuple):
    """All that the rule needs to know: arrays, which are updated in place, and constants."""

    pulls: Floats  # (X, n)


def new(problem: Problem, draw: float) -> RoundRobin:
    """Return the state before the first sample. Keywords after ``draw`` would be options of the policy."""
    X, G, H = problem.shape
    return RoundRobin(np.zeros((X, G * H)))


@kernel
def select(robin: RoundRobin, stopping: per_task.PerTaskStopping, task: int, propensities: Floats) -> int:
    """Return the next arm, x * n + a with a = g * H + h. It must not change the state.

    A randomised rule fills ``propensities`` (X, n) and returns -1: the driver draws.
    """
    x = stopping.contests.asked[ASKED_TASK]  # the task in progress
    return x * robin.pulls.shape[1] + np.argmin(robin.pulls[x])


@kernel
def observe(robin: RoundRobin, stopping: per_task.PerTaskStopping, x: int, a: int, reward: float) -> None:
    """Update the state with a reward; the stopping rule observes it afterwards."""
    robin.pulls[x, a] += 1.0


policy = register(
    Policy(
        name="round-robin",
        summary="the arms of a task in turn, with the stopping rule of track-and-stop",
        sampling=SamplingRule(
            name="round-robin",
            summary="the arms of the task in progress in turn",
            state=RoundRobin,
            new=new,
            select=select,
            observe=observe,
        ),
        stopping=per_task.RULE,
    )
)

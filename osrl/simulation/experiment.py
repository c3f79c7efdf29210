"""The protocol of an experiment: losses, delays and tasks that arrive, and when they make an answer impossible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from osrl.allocation import Needs, allocate
from osrl.errors import OsrlError
from osrl.model.instance import Instance
from osrl.simulation.protocol import TrialProtocol

BOTTLENECK_RATIO = 0.8  # a task is named as the bottleneck if without it so much or less would do
_TOO_LITTLE = (
    "too little for so many losses: those of the one may all have been successes, and those of the other "
    "failures. Follow up, so that fewer are lost, allow a tolerance, or say --ignorable if a loss tells "
    "nothing about the reward"
)


class ExperimentProtocol(NamedTuple):
    """The losses, delays, batches and arrivals of an experiment, and the costs of its trials.

    A trial is lost with probability ``loss``, and counts by its worst reward, or is left out where losses are
    ``ignorable``; a result comes after ``delay`` more trials, which are handed out ``batch`` at a time;
    ``shares`` are those of the tasks that arrive, and empty where the policy chooses. ``per_day``: trials in
    a day. ``costs``: of each task, or of each arm.
    """

    loss: float = 0.0
    delay: int = 0
    batch: int = 1
    shares: tuple[float, ...] = ()
    per_day: float | None = None
    costs: tuple[float, ...] = ()
    ignorable: bool = False

    @property
    def conditions(self) -> TrialProtocol:
        """The same, for the rounds of a policy."""
        worst, left_out = (0.0, self.loss) if self.ignorable else (self.loss, 0.0)
        return TrialProtocol(np.array(self.shares, float), worst, left_out, self.delay, self.batch)

    @property
    def plain(self) -> bool:
        """Whether every result comes at once, in tasks that the policy chooses."""
        return not (self.loss or self.delay or self.shares or self.costs) and self.batch == 1


class Bottleneck(NamedTuple):
    """A task that arrives too rarely: most of the time is spent waiting for it.

    ``trials``: the median without it, of all that arrive, those of the task among them.
    """

    task: str
    share: float
    trials: int


def read_protocol(
    instance: Instance,
    loss: float,
    delay: int,
    batch: int,
    shares: Sequence[float],
    per_day: float | None,
    costs: Sequence[float],
    ignorable: bool,
) -> ExperimentProtocol:
    """Return the protocol of these numbers; refuse those that make no sense."""
    X, n = len(instance.tasks), instance.means[0].size
    if not 0 <= loss < 1:
        raise OsrlError(f"loss is {loss}; give the share of trials that are lost, such as 0.05")
    if loss and instance.family.noise and not ignorable:
        raise OsrlError(
            "Gaussian rewards have no worst case, so a loss has to be ignorable; add --ignorable, or leave --loss out"
        )
    if delay < 0 or batch < 1:
        raise OsrlError(f"delay is {delay} and batch is {batch}; give whole numbers, 0 and 1 or more")
    if per_day is not None and not per_day > 0:
        raise OsrlError(f"per_day is {per_day}; give how many trials there are in a day")
    if len(shares) not in (0, X) or any(not share >= 0 for share in shares) or (shares and not sum(shares) > 0):
        raise OsrlError(f"shares are {list(shares)}; give one for each of the {X} tasks, 0 or more")
    if len(costs) not in (0, X, X * n) or any(not cost >= 0 for cost in costs):
        raise OsrlError(f"costs are {list(costs)}; give one for each of the {X} tasks, or for each of all {X * n} arms")
    total = sum(shares)
    of_all = tuple(share / total for share in shares)
    return ExperimentProtocol(loss, delay, batch, of_all, per_day, tuple(costs), ignorable)


# What cannot be, and what it waits for -----------------------------------------------------------------


def impossibility(
    instance: Instance, protocol: ExperimentProtocol, epsilon: tuple[float, float], unit: float = 1.0
) -> str | None:
    """Return why no number of trials decides, whatever the policy, and what would help; None where they may.

    Means and tolerances are in [0, 1], and shown in units of rewards: 1 is then ``unit``.

    With a share l of trials lost, whatever the reason, an arm that is worse by d could be the better one by
    l - d (1 - l): the lost trials of the one may all have been successes, and those of the other failures.
    """
    for task, share in zip(instance.tasks, protocol.shares, strict=False):
        if share == 0 and len(instance.predictors) > 1:
            return f"no trial arrives in {task}, where predictors are to be found; plan without it"
    if protocol.ignorable or protocol.loss == 0:
        return None
    best = int(instance.means.max(axis=2).sum(axis=0).argmax())
    reasons = [
        _hidden_by_losses(instance, g, protocol.loss, epsilon, unit) for g in range(len(instance.representations))
    ]
    return None if None in reasons else reasons[best]


def _hidden_by_losses(instance: Instance, g: int, loss: float, epsilon: tuple[float, float], unit: float) -> str | None:
    """Return why representation ``g`` cannot be known to be the answer; None where it may."""
    of_g = instance.means[:, g]
    apart = of_g.max(axis=1, keepdims=True) - instance.means.max(axis=2)  # (X, G)
    for other, gap in enumerate(apart.max(axis=0)):
        if other != g and gap * (1 - loss) <= loss - epsilon[0]:
            one, another = (instance.representations[i] for i in (g, other))
            return f"{one} and {another} differ by at most {unit * gap:.3g} in every task, {_TOO_LITTLE}"
    for x, task in enumerate(instance.tasks):
        first, *others = np.argsort(-of_g[x], kind="stable")
        for h in others:
            gap = of_g[x, first] - of_g[x, h]
            if gap * (1 - loss) <= loss - epsilon[1]:
                one, another = (instance.predictors[i] for i in (first, h))
                return f"{one} and {another} differ by {unit * gap:.3g} in {task}, {_TOO_LITTLE}"
    return None


def rarest_task(instance: Instance, protocol: ExperimentProtocol, risks: tuple[float, float]) -> int | None:
    """Return the task without which the bound is lowest, if it is much lower; None where tasks are chosen."""
    if min(protocol.shares, default=0) <= 0 or len(protocol.shares) < 2 or not instance.in_model_class:
        return None
    needs = [math.log(1 / risk) for risk in risks]

    def least(some: Instance, shares: Sequence[float]) -> float:
        return 1 / allocate(some, Needs.of(some, *needs), frequencies=shares, tolerance=1e-3).upper

    def least_without(x: int) -> float:
        some, own = without_task(instance, protocol, x)
        return least(some, own.shares) / (1 - protocol.shares[x])

    first = min(range(len(protocol.shares)), key=least_without)
    return first if least_without(first) < BOTTLENECK_RATIO * least(instance, protocol.shares) else None


def without_task(instance: Instance, protocol: ExperimentProtocol, x: int) -> tuple[Instance, ExperimentProtocol]:
    """Return the experiment in the other tasks."""
    stay = [i for i in range(len(instance.tasks)) if i != x]
    rest = 1 - protocol.shares[x]
    costs = np.array(protocol.costs).reshape(len(instance.tasks), -1)[stay].ravel() if protocol.costs else ()
    some = replace(instance, means=instance.means[stay], tasks=tuple(instance.tasks[i] for i in stay))
    shares = tuple(protocol.shares[i] / rest for i in stay)
    return some, protocol._replace(shares=shares, costs=tuple(costs))

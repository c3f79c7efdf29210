"""What the trials of every arm have brought: how many were told, their sum, how many were lost.

Counted by name, for the whole study: also what comes after the verdict, and arms that were withdrawn.
"""

from __future__ import annotations

import math

import numpy as np

from osrl.model.arrays import Floats, Integers
from osrl.study.log.events import Asked, Created

TOLD, SUM, LOST, LEFT_OUT = range(4)  # rows of `counts`: lost trials count by their worst, or are left out

ArmNames = tuple[str, str, str]  # task, representation, predictor


def share_of_group(k: int) -> float:
    """The share of the k-th group of arms, 6 / (pi k)^2: over all k they sum to 1."""
    return 6.0 / (math.pi * k) ** 2


class ArmTotals:
    """Counts (4, arms) of the ``arms``."""

    def __init__(self, created: Created) -> None:
        self.arms: dict[ArmNames, int] = {}
        self.shares: list[float] = []  # of each arm in the risk of all intervals; they sum to 1 at most
        self._groups = 0  # of arms that came at the same time
        self.counts: Floats = np.zeros((4, 0))
        self.begin_stage(created)

    def begin_stage(self, created: Created) -> None:
        """These arms are used from now on; those that are new have brought nothing."""
        names = [(x, g, h) for x in created.tasks for g in created.representations for h in created.predictors]
        new_arms = [arm for arm in names if arm not in self.arms]
        self._groups += bool(new_arms)
        for arm in new_arms:
            self.arms[arm] = len(self.arms)
            self.shares.append(share_of_group(self._groups) / len(new_arms))
        new = np.zeros((4, len(self.arms)))
        new[:, : self.counts.shape[1]] = self.counts
        self.counts = new
        place = [self.arms[arm] for arm in names]
        self.place: Integers = np.array(place, np.int64).reshape(len(created.tasks), -1)  # (X, n)

    def tell(self, asked: Asked, reward: float) -> None:
        """A trial has brought a reward."""
        column = self._column(asked)
        self.counts[TOLD, column] += 1.0
        self.counts[SUM, column] += reward

    def tell_all(self, tasks: Integers, arms: Integers, rewards: Floats) -> None:
        """Trials of this stage, in order, by their indices."""
        columns = self.place[tasks, arms]
        np.add.at(self.counts[TOLD], columns, 1.0)
        np.add.at(self.counts[SUM], columns, rewards)

    def lose(self, asked: Asked, ignorable: bool) -> None:
        """A trial will never report."""
        self.counts[LEFT_OUT if ignorable else LOST, self._column(asked)] += 1.0

    def _column(self, asked: Asked) -> int:
        return self.arms[asked.task, asked.representation, asked.predictor]

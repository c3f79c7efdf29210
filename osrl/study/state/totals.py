"""Totals over the whole study: what every arm has brought, which tasks have arrived, how late results are.

**Arms** are counted by name: also what comes after the verdict, and arms that were withdrawn.

**The best guess** of a study whose arms have changed uses the results of all stages. Evidence begins again with a
stage, and for a while says next to nothing. What the arms have brought before is no evidence in the new stage, but
it is the best there is to guess by: the representation that is cheapest to believe in by the means and numbers of
all its results (`osrl.glr.statistic`), with the predictors whose means are largest. A guess has no risk that could
be kept or broken; what can be claimed of it rests on the evidence of the stage alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from osrl.glr.statistic import glr_of
from osrl.model.arrays import Flags, Floats, Integers
from osrl.study.log.events import Asked, Created

TOLD, SUM, LOST, LEFT_OUT = range(4)  # rows of `counts`: lost trials count by their worst, or are left out

ArmNames = tuple[str, str, str]  # task, representation, predictor


def share_of_group(k: int) -> float:
    """Return the share of the k-th group of arms, 6 / (pi k)^2: over all k they sum to 1."""
    return 6.0 / (math.pi * k) ** 2


class ArmTotals:
    """The results of every arm that the study has had: ``counts`` (4, arms)."""

    def __init__(self, created: Created) -> None:
        self.arms: dict[ArmNames, int] = {}
        self.shares: list[float] = []  # of each arm in the risk of all intervals; they sum to 1 at most
        self._groups = 0  # of arms that came at the same time
        self.counts: Floats = np.zeros((4, 0))
        self.begin_stage(created)

    def begin_stage(self, created: Created) -> None:
        """Use these arms from now on; those that are new have brought nothing."""
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
        """Count the reward of a trial."""
        column = self._column(asked)
        self.counts[TOLD, column] += 1.0
        self.counts[SUM, column] += reward

    def tell_block(self, tasks: Integers, arms: Integers, rewards: Floats) -> None:
        """Count the rewards of trials of this stage, given by their indices."""
        columns = self.place[tasks, arms]
        np.add.at(self.counts[TOLD], columns, 1.0)
        np.add.at(self.counts[SUM], columns, rewards)

    def lose(self, asked: Asked, ignorable: bool) -> None:
        """Count a trial that will never report."""
        self.counts[LEFT_OUT if ignorable else LOST, self._column(asked)] += 1.0

    def _column(self, asked: Asked) -> int:
        return self.arms[asked.task, asked.representation, asked.predictor]


class ArrivalStats:
    """Which tasks arrive and how late results are: what a forecast uses besides the rewards."""

    def __init__(self, tasks: int) -> None:
        self.arrivals = np.zeros(tasks, np.int64)  # tasks that were given
        self.behind = 0  # trials handed out after one and before its end, summed over all that ended
        self.began: int | None = None  # when the first trial went out, in microseconds since 1970

    def begin_stage(self, before: Sequence[str], tasks: Sequence[str]) -> None:
        """Use these tasks from now on; a new one has never arrived."""
        arrived = dict(zip(before, self.arrivals.tolist(), strict=True))
        self.arrivals = np.array([arrived.get(task, 0) for task in tasks], np.int64)

    def issue(self, x: int, given: bool, at: int) -> None:
        """Count a trial that is issued."""
        if given:
            self.arrivals[x] += 1
        if self.began is None:
            self.began = at

    def issue_block(self, tasks: Integers, given: Flags, at: int) -> None:
        """Count trials of which each was told before the next; the first at time ``at``."""
        np.add.at(self.arrivals, tasks[given], 1)
        if self.began is None:
            self.began = at

    def end(self, behind: int) -> None:
        """Count the end of a trial after which ``behind`` others were issued."""
        self.behind += behind

    def facts(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {"arrivals": self.arrivals.tolist(), "behind": self.behind, "began": self.began}

    def set(self, arrivals: list[int], behind: int, began: int | None) -> None:
        """Restore what `facts` returned."""
        self.arrivals[:] = arrivals
        self.behind, self.began = behind, began


def guess_arms(
    totals: ArmTotals, noise: float, possible_g: Flags, possible_h: Flags, shared: bool
) -> tuple[Integers, Integers]:
    """Return the representation (X,) and the predictor (X,) that look best over all stages.

    ``possible_g`` (G,) and ``possible_h`` (X, G, H) are what the stage has not ruled out. ``shared``: one
    representation for all tasks. An arm without a result is guessed only where no other will do.
    """
    told, total = totals.counts[[TOLD, SUM]][:, totals.place].reshape(2, *possible_h.shape)
    with np.errstate(invalid="ignore"):
        means = np.where(told > 0, total / told, 0.0 if noise else 0.5)
    allowed = possible_h & possible_g[:, None]
    marks = np.where(allowed, np.where(told > 0, means, -np.inf), np.nan)  # nan: never; -inf: if need be
    if not shared:
        best = _best(marks.reshape(len(told), -1))
        return best // told.shape[2], best % told.shape[2]
    g = _representation(means, told, noise, possible_g)
    return np.full(len(told), g), _best(marks[:, g])


def _representation(means: Floats, told: Floats, noise: float, possible: Flags) -> int:
    """Return the possible representation that is cheapest to believe in, of those with results where others have."""
    cost = np.asarray(glr_of(means, told, noise).total)
    tried = told.sum(axis=2) > 0  # (X, G)
    known = possible & tried[tried.any(axis=1)].all(axis=0)
    pool = np.flatnonzero(known if known.any() else possible)
    sums = np.where(told > 0, means, -np.inf).max(axis=2).sum(axis=0)
    return int(pool[np.lexsort((-sums[pool], cost[pool]))[0]])


def _best(marks: Floats) -> Integers:
    """Return the place of the largest in each row; one that is nan only where all are."""
    best: Integers = np.argmax(np.where(np.isnan(marks), -np.inf, np.maximum(marks, -1e300)), axis=1)
    return best

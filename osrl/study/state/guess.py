"""The best guess of a study whose arms have changed: by the results of all stages.

Evidence begins again with a stage, and for a while says next to nothing. What the arms have brought before
is no evidence in the new stage, but it is the best there is to guess by: the representation that is cheapest
to believe in by the means and numbers of all its results (`osrl.glr.statistic`), with the predictors whose means are
largest. A guess has no risk that could be kept or broken; what can be claimed of it rests on the evidence of
the stage alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.glr.statistic import glr_of
from osrl.model.arrays import Flags, Floats, Integers
from osrl.study.state.arm_totals import SUM, TOLD, ArmTotals


class Possible(NamedTuple):
    """What the stage has not ruled out: representations (G,), and predictors (X, G, H)."""

    g: Flags
    h: Flags


def guess_arms(totals: ArmTotals, noise: float, possible: Possible, shared: bool) -> tuple[Integers, Integers]:
    """Return the representation (X,) and the predictor (X,) that look best over all stages.

    ``shared``: one representation for all tasks. An arm without a result is guessed only where no other
    will do, and what is ruled out never.
    """
    told, total = totals.counts[[TOLD, SUM]][:, totals.place].reshape(2, *possible.h.shape)
    with np.errstate(invalid="ignore"):
        means = np.where(told > 0, total / told, 0.0 if noise else 0.5)
    allowed = possible.h & possible.g[:, None]
    marks = np.where(allowed, np.where(told > 0, means, -np.inf), np.nan)  # nan: never; -inf: if need be
    if not shared:
        best = _best(marks.reshape(len(told), -1))
        return best // told.shape[2], best % told.shape[2]
    g = _representation(means, told, noise, possible.g)
    return np.full(len(told), g), _best(marks[:, g])


def _representation(means: Floats, told: Floats, noise: float, possible: Flags) -> int:
    """The possible representation that is cheapest to believe in, of those with results where others have."""
    cost = np.asarray(glr_of(means, told, noise).total)
    tried = told.sum(axis=2) > 0  # (X, G)
    known = possible & tried[tried.any(axis=1)].all(axis=0)
    pool = np.flatnonzero(known if known.any() else possible)
    sums = np.where(told > 0, means, -np.inf).max(axis=2).sum(axis=0)
    return int(pool[np.lexsort((-sums[pool], cost[pool]))[0]])


def _best(marks: Floats) -> Integers:
    """The largest of each row; what is nan only where all is."""
    best: Integers = np.argmax(np.where(np.isnan(marks), -np.inf, np.maximum(marks, -1e300)), axis=1)
    return best

"""The tilts that evidence from counts is mixed of: up for a rival, down for the arm that is tested.

A pair of tilts is a difference beta of natural parameters, shared between the two sides: beta / (1 + r) up
and beta r / (1 + r) down. That is what a likelihood ratio does when the rival has r times the samples: the
side with many samples hardly moves. With the same tilt on both sides, unequal counts would be worth next to
nothing, so a few ratios r are mixed as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.evidence.betting import check_mixture
from osrl.model.arrays import Floats

TILT_UP, TILT_DOWN = range(2)  # rows of `Tilts.grid`; then the log weights:
TILT_PAIR, TILT_TASK, TILT_LOCAL = range(2, 5)  # of two arms, in the evidence of a task, among predictors
SHARE_MIXTURE, SHARE_IDLE = range(2)  # columns of `Tilts.shares`, whose rows are PAIR, TASK, LOCAL less PAIR

TILT_RATIOS = (1 / 20, 20**-0.5, 1.0, 20**0.5, 20.0)
# Their weights. Two arms mostly have equal counts, and a leader mostly has more than the others.
RATIO_WEIGHTS = ((1.0, 1.0, 4.0, 1.0, 1.0), (0.7, 1.0, 3.0, 3.0, 2.0), (0.7, 1.0, 4.0, 2.0, 1.2))
MIXTURE_SHARES = ((0.05, 0.0), (0.1, 0.12), (0.05, 0.0))  # of the mixtures, and of idling


class Tilts(NamedTuple):
    """Tilts and their log weights; beside them, mixtures over the mean of every arm, and idling."""

    grid: Floats  # (5, J) tilts up, tilts down, log weights
    shares: Floats  # (3, 2) log weights of the mixtures, and of 1
    by_pairs: bool  # whether predictors are judged by the average over rivals, as osrl 0.1 did


def new_tilts(
    noise: float,
    smallest: float = 0.1,
    largest: float = 1.6,
    points: int = 5,
    power: float = 0.25,
    ratios: Sequence[float] = TILT_RATIOS,
    of_ratios: Sequence[Sequence[float]] = RATIO_WEIGHTS,
    shares: Sequence[tuple[float, float]] = MIXTURE_SHARES,
) -> Tilts:
    """Return a grid of ``points`` differences beta with weights as beta^-power, for each ratio of the counts.

    Weights of the ratios, and shares of the mixtures and of idling, are for pairs, tasks, predictors.

    They are given for rewards 0 and 1; for Gaussian rewards the same gaps in standard deviations (of a
    fair coin) are meant.
    """
    made = _made(noise, smallest, largest, points, power, tuple(ratios), tuple(map(tuple, of_ratios)), tuple(shares))
    return made._replace(grid=made.grid.copy(), shares=made.shares.copy())  # a study writes to its own


@lru_cache(maxsize=64)
def _made(
    noise: float,
    smallest: float,
    largest: float,
    points: int,
    power: float,
    ratios: tuple[float, ...],
    of_ratios: tuple[tuple[float, ...], ...],
    shares: tuple[tuple[float, ...], ...],
) -> Tilts:
    """Return the tilts of `new_tilts`, computed once for many runs."""
    scale = 1.0 if noise == 0.0 else 0.5 / math.sqrt(noise)
    beta, r = np.geomspace(smallest, largest, points), np.array(ratios)[:, None]
    rows = [scale * beta / (1.0 + r), scale * beta * r / (1.0 + r)]
    for of_ratio, beside in zip(of_ratios, shares, strict=True):
        weight = beta**-power * np.array(of_ratio)[:, None]
        rows.append(np.log((1.0 - sum(beside)) * weight / weight.sum()))
    with np.errstate(divide="ignore"):
        tilts = Tilts(np.stack([row.ravel() for row in rows]), np.log(np.array(shares)), False)
    check_tilts(tilts)
    return tilts


def check_tilts(tilts: Tilts) -> None:
    """Refuse tilts that could break the risk: a mixture of more than one, or a tilt that is no number."""
    sizes = tilts.grid[:TILT_PAIR]
    if not (np.all(np.isfinite(sizes)) and np.all(sizes > 0.0)):
        raise OsrlError(f"the tilts are {sizes.tolist()}; give positive numbers")
    for row, name in ((TILT_PAIR, "pairs"), (TILT_TASK, "task"), (TILT_LOCAL, "predictors")):
        weights = np.append(tilts.grid[row], tilts.shares[row - TILT_PAIR])
        check_mixture(f"the weights of the tilts ({name})", weights)

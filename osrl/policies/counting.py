"""When the paper's algorithm stops by counts (threshold ``sharp``): which arms the counts have ruled out.

Its sampling leaves nothing to chance, so there is nothing to bet on; but evidence from counts holds for any
sampling rule (`osrl.evidence.counts`, `pairs`). As in `osrl.policies.hypotheses`, every null is tested at
the whole risk, a rejection is permanent, and the test is over when one possibility is left. What is kept is
the largest evidence so far, so that columns with other risks read it too. Counts are looked at again when
there are 2 % more samples: those of all tasks at the same time, where the evidence of tasks is multiplied.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.arrays import Flags, Floats
from osrl.compiled import kernel, kernel_in_place
from osrl.evidence.counts import pooled, samples_of
from osrl.evidence.pairs import Tilts, against_best, new_tilts
from osrl.policies.contract import Column

SHARP = "sharp"
PATIENCE = 0.02


class Counting(NamedTuple):
    """The columns that stop by counts, and the evidence for them (arrays are updated in place)."""

    sharp: Flags  # (R,) which columns they are
    limit: Floats  # (R,) log(1 / delta)
    first: Floats  # (X, n) first reward of every arm
    least: Floats  # (X, m) evidence of each task: against representations, or against predictors
    against: Floats  # (X, m) the largest so far; of all tasks together in row 0, against representations
    due: Floats  # (X,) samples of each contest at which to look again; phase 1 is one contest
    tilts: Tilts
    noise: float


def new_counting(
    columns: tuple[Column, ...], deltas: tuple[float, ...], arms: tuple[int, int], tests: int, noise: float
) -> Counting:
    """No evidence yet; ``arms`` = (X, n), and ``tests`` possibilities."""
    return Counting(
        np.array([column.threshold == SHARP for column in columns]),
        np.log(1.0 / np.array(deltas)),
        np.zeros(arms),
        np.zeros((arms[0], tests)),
        np.zeros((arms[0], tests)),
        np.full(arms[0], float(arms[1])),
        new_tilts(noise),
        noise,
    )


@kernel_in_place
def note_first(counting: Counting, x: int, a: int, pulls: float, reward: float) -> None:
    """Remember the first reward of an arm, which had ``pulls`` before this one."""
    first = counting.first
    if pulls == 0.0:
        first[x, a] = reward


@kernel_in_place
def look_due(counting: Counting, i: int, samples: float) -> bool:
    """Whether to look at the counts of contest ``i`` after so many samples; then not again soon."""
    sharp, due = counting.sharp, counting.due
    wanted = False
    for r in range(sharp.size):
        wanted = wanted or sharp[r]
    if not wanted or samples < due[i]:
        return False
    due[i] = max(samples + 1.0, samples * (1.0 + PATIENCE))
    return True


@kernel
def count_representations(counting: Counting, pulls: Floats, sums: Floats) -> None:
    """Evidence against representations from the counts (X, n): E_g = prod_x min_h E_{x,(g,h)}."""
    first, least, against, noise = counting.first, counting.least, counting.against, counting.noise
    tasks, representations = least.shape
    for x in range(tasks):
        evidence = pooled(samples_of(pulls[x], sums[x], first[x], noise), noise)
        predictors = evidence.size // representations
        for g in range(representations):
            least[x, g] = evidence[g * predictors : (g + 1) * predictors].min()
    for g in range(representations):
        against[0, g] = max(against[0, g], least[:, g].sum())


@kernel
def count_predictors(counting: Counting, x: int, pulls: Floats, sums: Floats) -> None:
    """Evidence against predictors from the counts (H,) of task ``x``."""
    first, against, tilts, noise = counting.first[x], counting.against[x], counting.tilts, counting.noise
    evidence = against_best(samples_of(pulls, sums, first, noise), tilts, noise)
    for h in range(evidence.size):
        against[h] = max(against[h], evidence[h])


@kernel_in_place
def left(against: Floats, limit: float) -> int:
    """The one possibility that is not ruled out, or -1 while there are several; the last one stays."""
    found = -1
    least = math.inf
    several = False
    for i in range(against.size):
        if against[i] < limit:
            several = several or found >= 0
            found = i
    if several:
        return -1
    if found < 0:
        for i in range(against.size):
            if against[i] < least:
                found, least = i, against[i]
    return found

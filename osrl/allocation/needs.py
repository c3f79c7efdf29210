"""What tests still lack, and the means for which weights are made: for `osrl` and for forecasts."""

from __future__ import annotations

import math

from osrl.arrays import Floats
from osrl.compiled import kernel

PRIOR = 3.0  # samples by which estimates are drawn to their mean
LEAST_NEED = 0.7  # of a test that is nearly done
LEAST_EVIDENCE = -5.0  # below which a test is not said to lack even more
LEAST_GAP = 0.02  # in standard deviations of a reward, by which the best arm is taken to lead


@kernel
def lacking(limit: float, evidence: float) -> float:
    """What a test still lacks, and a little more, because the last step goes beyond the limit."""
    return max(limit + 1.0 - max(evidence, LEAST_EVIDENCE), LEAST_NEED)


@kernel
def least_gap(noise: float) -> float:
    """The least distance that is taken to lie between two means; that of coins by a fair one."""
    return LEAST_GAP * (math.sqrt(noise) if noise > 0.0 else 0.5)


@kernel
def separate(means: Floats, leader: int, gaps: Floats, noise: float) -> None:
    """Make ``leader`` the best arm by ``gaps`` (n,) at least; means of coins stay inside (0, 1)."""
    top = means[leader] if noise > 0.0 else min(max(means[leader], 0.02), 0.99)
    for a in range(means.size):
        means[a] = min(means[a], top - gaps[a])
        if noise == 0.0:
            means[a] = min(max(means[a], 0.005), 0.985)
    means[leader] = top

"""Residual needs of tests during a run, and the means for which weights are computed: for `osrl` and forecasts."""

from __future__ import annotations

import math

from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import sequential_sum
from osrl.model.arrays import Floats

PRIOR_SAMPLES = 10.0  # samples by which estimates are drawn to their mean
MIN_NEED = 0.7  # of a test that is nearly done
MIN_EVIDENCE = -5.0  # evidence below this does not increase the need
MIN_GAP = 0.02  # in standard deviations of a reward, by which the best arm is taken to lead


@kernel
def residual_need(limit: float, evidence: float) -> float:
    """Return the evidence that a test still needs, and a little more, because the last step overshoots the limit."""
    return max(limit + 1.0 - max(evidence, MIN_EVIDENCE), MIN_NEED)


@kernel_in_place
def enforce_margin(means: Floats, pulls: Floats, sums: Floats, leader: int, noise: float) -> None:
    """Make ``leader`` the best arm of a task (n,), by a standard error at least; coins stay inside (0, 1).

    Arms with similar estimates are assumed to differ by as much as could have been missed so far: otherwise a
    comparison that is close by chance would draw samples as if it were really close.
    """
    if noise > 0.0:
        top, spread = means[leader], noise
        least = MIN_GAP * math.sqrt(noise)
    else:
        centre = (1.0 + sequential_sum(sums)) / (2.0 + sequential_sum(pulls))
        top, spread = min(max(means[leader], 0.02), 0.99), centre * (1.0 - centre)
        least = 0.5 * MIN_GAP
    for a in range(means.size):
        error = math.sqrt(spread * (1.0 / (1.0 + pulls[a]) + 1.0 / (1.0 + pulls[leader])))
        means[a] = min(means[a], top - max(error, least))
        if noise == 0.0:
            means[a] = min(max(means[a], 0.005), 0.985)
    means[leader] = top

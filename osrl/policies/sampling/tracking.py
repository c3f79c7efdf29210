"""D-tracking with forced exploration: the tracking rule of the paper's algorithm and its baselines.

Every arm is pulled once. Then, when some arm has fewer than sqrt(t) - K / 2 pulls, the least pulled one is next;
otherwise the arm that is furthest behind its share, argmax t q_a - N_a.

Reference: A. Garivier and E. Kaufmann, Optimal Best Arm Identification with Fixed Confidence, COLT 2016.
"""

from __future__ import annotations

import math

from osrl.jit import kernel_in_place
from osrl.model.arrays import Floats


@kernel_in_place
def least_pulled(pulls: Floats) -> int:
    """Return the first arm with the fewest pulls, x * n + a of an array (X, n)."""
    tasks, n = pulls.shape
    found, least = 0, math.inf
    for x in range(tasks):
        for a in range(n):
            if pulls[x, a] < least:
                found, least = x * n + a, pulls[x, a]
    return found


@kernel_in_place
def must_explore(fewest: float, rounds: float, arms: int) -> bool:
    """Tell whether an arm with ``fewest`` pulls, of ``rounds``, has to be pulled."""
    return fewest < 1.0 or fewest < math.sqrt(rounds) - 0.5 * arms


@kernel_in_place
def track(pulls: Floats, weights: Floats, rounds: float) -> int:
    """Return the arm x * n + a to pull after ``rounds`` pulls, to follow ``weights`` (X, n), sum 1."""
    tasks, n = pulls.shape
    least, fewest = 0, math.inf
    lagging, furthest = 0, -math.inf
    for x in range(tasks):
        for a in range(n):
            if pulls[x, a] < fewest:
                least, fewest = x * n + a, pulls[x, a]
            behind = rounds * weights[x, a] - pulls[x, a]
            if behind > furthest:
                lagging, furthest = x * n + a, behind
    return least if must_explore(fewest, rounds, pulls.size) else lagging

"""Intervals for the mean of an arm that hold at all times at once, whatever rule has chosen the arm.

The n-th reward of an arm has mean lambda given everything before it: which arm is sampled, and when one
stops, may depend on the past. So at the true mean the likelihood of a mixture over that of lambda,

    M_n(lambda) = (integral of L_n(p) dPi(p)) / L_n(lambda),

is a martingale that starts at 1, and by Ville's inequality it ever reaches 1 / level with probability at most
``level``. The interval is the set of all lambda with M_n(lambda) < 1 / level.

- Rewards in [0, 1]: L_n(p) = p^S (1 - p)^(n - S) with S their sum, and Pi = Beta(1/2, 1/2). For rewards that
  are no coins, L(p) / L(lambda) of one reward is convex in it, hence below its chord, whose expectation is 1:
  M_n is a supermartingale then.
- Gaussian rewards of known variance: Pi is normal around lambda, with the weight of `INTERVAL_PRIOR` rewards.

**Rewards that are missing** (late or lost) count by their worst. With n all trials of the arm, in the order
of hand-out, S lies between the sum with zeros in their place and the sum with ones. As a function of S,
ln M_n(lambda) is convex (ln Gamma is), and at S = n lambda it is at most 0, since no mixture is more likely
than the best p. So where it is positive with S > n lambda it grows with S: what the smaller sum excludes from
below, the larger one excludes too. The lower end of the smallest sum and the upper end of the largest hold
whatever is missing, and why.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from osrl.model.arrays import Floats

INTERVAL_PRIOR = 10.0  # rewards that the mixture of Gaussian means weighs
_STEPS = 60  # halvings of an interval of length 1


def mean_intervals(
    number: Floats, least: Floats, most: Floats, level: Floats | float, noise: float
) -> tuple[Floats, Floats]:
    """Return lower and upper ends for each arm, whose ``number`` rewards have a sum from ``least`` to ``most``.

    ``noise`` is the variance of Gaussian rewards, 0.0 for rewards in [0, 1]; ``level`` the risk of each arm.
    """
    if noise > 0.0:
        n = np.maximum(number, 1.0)
        wide = 2 * np.log(1 / level) + np.log1p(n / INTERVAL_PRIOR)
        radius = np.where(number > 0, np.sqrt(noise * (n + INTERVAL_PRIOR) * wide) / n, np.inf)
        return least / n - radius, most / n + radius
    return _lower(number, least, level), 1.0 - _lower(number, number - most, level)


def _lower(number: Floats, total: Floats, level: Floats | float) -> Floats:
    """Return the lower end for coins, approached from the excluded side."""
    failures = number - total
    evidence = betaln(total + 0.5, failures + 0.5) - betaln(0.5, 0.5) + np.log(level)
    excluded, open_still = np.zeros_like(total), total / np.maximum(number, 1.0)
    for _ in range(_STEPS):
        middle = (excluded + open_still) / 2
        out = evidence >= xlogy(total, middle) + xlog1py(failures, -middle)
        excluded = np.where(out, middle, excluded)
        open_still = np.where(out, open_still, middle)
    return excluded

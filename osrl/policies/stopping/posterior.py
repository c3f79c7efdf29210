"""Normal posteriors, and whether one of several is probably enough the best.

The posterior of an arm is normal: with a flat prior for Gaussian rewards, and with the mean and the variance
of the Beta posterior (uniform prior) for coins. A representation is worth the sum over tasks of its best
means, and their variances add up.

Stopping where the posterior probability of a wrong answer is at most delta is what Bayesian experiments do,
such as those of Qin, Klabjan and Russo (2017). It holds on average over the prior. For fixed means nobody has
proved a risk, and looking at the probability after every sample makes wrong answers more frequent.
"""

from __future__ import annotations

import math

from osrl.jit.kernel import kernel_in_place
from osrl.model.arrays import Floats
from osrl.policies.stopping.arm_stats import MEANS, PULLS, SUMS

MEAN, VARIANCE = 3, 4  # rows of `arms` after those of a tally: of the posterior
REACH, NODES = 8.0, 129  # of the integral, in standard deviations of the leader


@kernel_in_place
def posterior(arms: Floats, x: int, a: int, noise: float) -> tuple[float, float]:
    """Mean and variance of an arm."""
    pulls = arms[PULLS, x, a]
    if noise > 0.0:
        return arms[MEANS, x, a], noise / max(pulls, 1.0)
    mean = (arms[SUMS, x, a] + 1.0) / (pulls + 2.0)
    return mean, mean * (1.0 - mean) / (pulls + 3.0)


@kernel_in_place
def worth(arms: Floats, first: int, last: int, noise: float) -> tuple[float, float]:
    """Mean and variance of the sum over tasks of the best of the arms first .. last - 1."""
    total, variance = 0.0, 0.0
    for x in range(arms.shape[1]):
        best, doubt = posterior(arms, x, first, noise)
        for a in range(first + 1, last):
            mean, own = posterior(arms, x, a, noise)
            if mean > best:
                best, doubt = mean, own
        total += best
        variance += doubt
    return total, variance


@kernel_in_place
def below(z: float) -> float:
    """The distribution function of a standard normal variable."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@kernel_in_place
def chance(means: Floats, variances: Floats, first: int, last: int, one: int) -> float:
    """The probability that of independent normal variables first .. last - 1 ``one`` is the largest.

    E[prod_j Phi((Z - m_j) / s_j)] over Z, ``one``, by the trapezoidal rule, which for such integrands is
    exact to many digits unless ``one`` is known far worse than the others.
    """
    step, spread, total = 2.0 * REACH / (NODES - 1), math.sqrt(variances[one]), 0.0
    for node in range(NODES):
        z = node * step - REACH
        part = math.exp(-0.5 * z * z) * step / math.sqrt(2.0 * math.pi)
        for j in range(first, last):
            if j != one:
                part *= below((means[one] + z * spread - means[j]) / math.sqrt(variances[j]))
        total += part
    return total


@kernel_in_place
def surely_largest(means: Floats, variances: Floats, first: int, last: int, risk: float) -> int:
    """The one of the variables first .. last - 1 that is the largest but for this risk, or -1.

    That it is not is at most as probable as the sum of P(j is larger), and at least as the largest of them:
    only in between is there something to integrate.
    """
    one = first
    for j in range(first + 1, last):
        if means[j] > means[one]:
            one = j
    most, total = 0.0, 0.0
    for j in range(first, last):
        if j != one:
            larger = below((means[j] - means[one]) / math.sqrt(variances[j] + variances[one]))
            most = max(most, larger)
            total += larger
    if total > risk and (most > risk or 1.0 - chance(means, variances, first, last, one) > risk):
        return -1
    return one


@kernel_in_place
def sure_representation(arms: Floats, values: Floats, risk: float, noise: float) -> int:
    """The representation that is the best but for this risk, or -1; ``values`` (2, G) is room to work in."""
    _, tasks, n = arms.shape
    predictors = n // values.shape[1]
    for x in range(tasks):
        for a in range(n):
            if arms[PULLS, x, a] == 0.0:
                return -1
    for g in range(values.shape[1]):
        values[0, g], values[1, g] = worth(arms, g * predictors, (g + 1) * predictors, noise)
    return surely_largest(values[0], values[1], 0, values.shape[1], risk)


@kernel_in_place
def sure_predictor(arms: Floats, x: int, first: int, last: int, risk: float, noise: float) -> int:
    """The arm of first .. last - 1 that is the best in task ``x`` but for this risk, or -1."""
    for a in range(first, last):
        if arms[PULLS, x, a] == 0.0:
            return -1
        arms[MEAN, x, a], arms[VARIANCE, x, a] = posterior(arms, x, a, noise)
    return surely_largest(arms[MEAN, x], arms[VARIANCE, x], first, last, risk)

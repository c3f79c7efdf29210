"""Statistics of arms: pulls, sums and means; likelihood ratios of two arms, intervals, and normal posteriors.

The stopping rules of `one_phase` and the sampling rules of `osrl.policies.sampling.baselines` keep such an array
each, so that any of them can be paired.

**Posteriors.** The posterior of an arm is normal: with a flat prior for Gaussian rewards, and with the mean and the
variance of the Beta posterior (uniform prior) for coins. The value of a representation is the sum over tasks of its
best means, and their variances add up.
"""

from __future__ import annotations

import math

from osrl.jit import kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.families import divergence
from osrl.policies.stopping.thresholds import exploration_cost

ARM_POSTERIOR_MEAN, ARM_POSTERIOR_VARIANCE = 3, 4  # rows of `arms` where a rule keeps posteriors instead of intervals
INTEGRAL_REACH, INTEGRAL_NODES = 8.0, 129  # of the integral, in standard deviations of the leader

# Rows of `arms` in the states of one-phase stopping rules and baseline sampling rules.
ARM_PULLS, ARM_SUMS, ARM_MEANS, ARM_UPPER, ARM_LOWER = range(5)
INTERVAL_GROWTH = 0.01  # growth of the run between two updates of the intervals of arms that were not sampled


@kernel_in_place
def add_reward_to(arms: Floats, x: int, a: int, reward: float) -> None:
    """Add a reward of arm ``a`` of task ``x``."""
    arms[ARM_PULLS, x, a] += 1.0
    arms[ARM_SUMS, x, a] += reward
    arms[ARM_MEANS, x, a] = arms[ARM_SUMS, x, a] / arms[ARM_PULLS, x, a]


@kernel_in_place
def likelihood_ratio(arms: Floats, x: int, a: int, b: int, noise: float) -> float:
    """Return N_a kl(mu_a, m) + N_b kl(mu_b, m) of two arms of a task, m their pooled mean.

    It is negative when the second one leads, and 0 while one of them is untried.
    """
    one, other = arms[ARM_PULLS, x, a], arms[ARM_PULLS, x, b]
    if one == 0.0 or other == 0.0:
        return 0.0
    m = (arms[ARM_SUMS, x, a] + arms[ARM_SUMS, x, b]) / (one + other)
    value = one * divergence(arms[ARM_MEANS, x, a], m, noise) + other * divergence(arms[ARM_MEANS, x, b], m, noise)
    return float(value if arms[ARM_MEANS, x, a] >= arms[ARM_MEANS, x, b] else -value)


@kernel_in_place
def upper_bound(mean: float, pulls: float, rate: float, noise: float) -> float:
    """Return the largest m with N kl(mean, m) <= rate, or a little more; infinite, or 1, without samples.

    Newton's method for a convex function, from above: by Pinsker's inequality, or because m <= 1.
    """
    if noise > 0.0:
        return mean + math.sqrt(2.0 * noise * rate / pulls) if pulls > 0.0 else math.inf
    if pulls == 0.0 or mean >= 1.0:
        return 1.0
    allowed = rate / pulls
    rest = allowed - (mean * math.log(mean) if mean > 0.0 else 0.0)
    m = min(mean + math.sqrt(0.5 * allowed), 1.0 - (1.0 - mean) * math.exp(-rest / (1.0 - mean)))
    if m >= 1.0:
        return 1.0
    for _ in range(30):
        change = (divergence(mean, m, 0.0) - allowed) * m * (1.0 - m) / (m - mean)
        m -= change
        if not change > 1e-9:
            break
    return m


@kernel_in_place
def lower_bound(mean: float, pulls: float, rate: float, noise: float) -> float:
    """Return the smallest m with N kl(mean, m) <= rate, or a little less."""
    if noise > 0.0:
        return -upper_bound(-mean, pulls, rate, noise)
    return 1.0 - upper_bound(1.0 - mean, pulls, rate, 0.0)


@kernel_in_place
def best_mean(arms: Floats, x: int, first: int, last: int) -> int:
    """Return the arm with the largest mean among first .. last - 1 of task ``x``; of several, the first."""
    best = first
    for a in range(first + 1, last):
        if arms[ARM_MEANS, x, a] > arms[ARM_MEANS, x, best]:
            best = a
    return best


@kernel_in_place
def update_beaten(arms: Floats, beaten: Floats, by: Integers, x: int, a: int, charged: float, noise: float) -> None:
    """Update by how much each arm of task ``x`` is beaten (n,), after a reward of arm ``a``.

    ``by`` (n,) is the arm that beats it most, -1 for none; ``charged`` the factor of the exploration costs.
    """
    beaten[a], by[a] = 0.0, -1
    for b in range(beaten.size):
        if b == a:
            continue
        against = net_lead(arms, x, a, b, charged, noise)
        if -against > beaten[a]:
            beaten[a], by[a] = -against, b
        if against > beaten[b]:
            beaten[b], by[b] = against, a
        elif by[b] == a:
            beaten[b], by[b] = 0.0, -1
            for c in range(beaten.size):
                value = net_lead(arms, x, c, b, charged, noise) if c != b else 0.0
                if value > beaten[b]:
                    beaten[b], by[b] = value, c


@kernel_in_place
def net_lead(arms: Floats, x: int, a: int, b: int, charged: float, noise: float) -> float:
    """Return by how much arm ``a`` beats arm ``b``, less exploration costs; negative when ``b`` does."""
    cost = charged * (exploration_cost(arms[ARM_PULLS, x, a]) + exploration_cost(arms[ARM_PULLS, x, b]))
    value = likelihood_ratio(arms, x, a, b, noise)
    return float(max(value - cost, 0.0) if value > 0.0 else min(value + cost, 0.0))


@kernel_in_place
def posterior(arms: Floats, x: int, a: int, noise: float) -> tuple[float, float]:
    """Return mean and variance of the posterior of an arm."""
    pulls = arms[ARM_PULLS, x, a]
    if noise > 0.0:
        return arms[ARM_MEANS, x, a], noise / max(pulls, 1.0)
    mean = (arms[ARM_SUMS, x, a] + 1.0) / (pulls + 2.0)
    return mean, mean * (1.0 - mean) / (pulls + 3.0)


@kernel_in_place
def value_of_representation(arms: Floats, first: int, last: int, noise: float) -> tuple[float, float]:
    """Return mean and variance of the sum over tasks of the best of the arms first .. last - 1."""
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
def normal_cdf(z: float) -> float:
    """Return the distribution function of a standard normal variable."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@kernel_in_place
def chance_of_largest(means: Floats, variances: Floats, first: int, last: int, one: int) -> float:
    """Return the probability that ``one`` of the independent normal variables first .. last - 1 is the largest.

    E[prod_j Phi((Z - m_j) / s_j)] over Z, ``one``, by the trapezoidal rule, which for such integrands is
    exact to many digits unless ``one`` is known far worse than the others.
    """
    step, spread, total = 2.0 * INTEGRAL_REACH / (INTEGRAL_NODES - 1), math.sqrt(variances[one]), 0.0
    for node in range(INTEGRAL_NODES):
        z = node * step - INTEGRAL_REACH
        part = math.exp(-0.5 * z * z) * step / math.sqrt(2.0 * math.pi)
        for j in range(first, last):
            if j != one:
                part *= normal_cdf((means[one] + z * spread - means[j]) / math.sqrt(variances[j]))
        total += part
    return total


@kernel_in_place
def largest_with_confidence(means: Floats, variances: Floats, first: int, last: int, risk: float) -> int:
    """Return the variable of first .. last - 1 that is the largest but for this risk, or -1.

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
            larger = normal_cdf((means[j] - means[one]) / math.sqrt(variances[j] + variances[one]))
            most = max(most, larger)
            total += larger
    if total > risk and (most > risk or 1.0 - chance_of_largest(means, variances, first, last, one) > risk):
        return -1
    return one


@kernel_in_place
def confident_representation(arms: Floats, values: Floats, risk: float, noise: float) -> int:
    """Return the best representation but for this risk, or -1; ``values`` (2, G) is work space."""
    _, tasks, n = arms.shape
    predictors = n // values.shape[1]
    for x in range(tasks):
        for a in range(n):
            if arms[ARM_PULLS, x, a] == 0.0:
                return -1
    for g in range(values.shape[1]):
        values[0, g], values[1, g] = value_of_representation(arms, g * predictors, (g + 1) * predictors, noise)
    return largest_with_confidence(values[0], values[1], 0, values.shape[1], risk)


@kernel_in_place
def confident_predictor(arms: Floats, x: int, first: int, last: int, risk: float, noise: float) -> int:
    """Return the arm of first .. last - 1 that is the best in task ``x`` but for this risk, or -1."""
    for a in range(first, last):
        if arms[ARM_PULLS, x, a] == 0.0:
            return -1
        arms[ARM_POSTERIOR_MEAN, x, a], arms[ARM_POSTERIOR_VARIANCE, x, a] = posterior(arms, x, a, noise)
    return largest_with_confidence(arms[ARM_POSTERIOR_MEAN, x], arms[ARM_POSTERIOR_VARIANCE, x], first, last, risk)

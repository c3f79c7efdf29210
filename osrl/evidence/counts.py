"""Evidence from counts alone: valid whatever rule chose the arms, as long as it did not see the future.

Means have to stay the same. Rewards y in [0, 1] that are no coins are allowed: with the likelihood
lambda^y (1 - lambda)^(1 - y), every ratio below is convex in y, hence at most its chord, and its
expectation at most that of a coin with the same mean.

**Mixtures.** M_a is the probability of the rewards of arm a under a mixture over its mean: Krichevsky and
Trofimov's for rewards 0 and 1, a normal one for Gaussian rewards, centred at the first reward of the arm.
With p_lambda the likelihood, ``excess`` = log M_a - log p_{muhat_a} <= 0, and

    log M_a / p_lambda = excess_a + N_a kl(muhat_a, lambda).

**Tilts.** A mixture pays for every mean that it does not know. A tilt, exp(s S - N Lambda(theta, s)) with
Lambda the log moment generating function of a reward with mean theta, only asks how far arms are apart.

**Pooled.** For a set of arms and the null "b is the best of them", the evidence is the minimum over the
level m of

    idle  +  sum_j pi_j  exp( u_j S_L - N_L Lambda(m, u_j) )  exp( -d_j S_b - N_b Lambda(m, -d_j) )
          +  rho  f_b(m)  prod over a != b of f_a(min(muhat_a, m)),
    f_a(lambda) = 1 - eps + eps M_a / p_lambda.

N_L and S_L count the rewards of *whoever led*: those of each arm a != b that came while a looked best before
them. So the best rival need not be known, and no average over rivals is paid for. (Of two arms, the
other one is the rival all the time.)

*Why the null cannot be beaten*: let lambda_b be the largest mean, and m = lambda_b. A reward of b multiplies
the j-th term by a factor of expectation 1, and one of a leader a by exp(u y - Lambda(m, u)), of expectation
at most 1 since lambda_a <= m. Who leads is known before the reward, so the term is a supermartingale whatever
rule chooses the arms. f_a(min(muhat_a, m)) <= f_a(lambda_a), because f_a falls up to muhat_a; and the product
of the f_a(lambda_a) is a martingale, because a round changes one of them. The minimum lies below the value at
m = lambda_b. Every term is log-convex in m, so Newton's method finds the minimum, and tangents a lower bound
of it: that is the evidence.

**A margin.** For the null "b is the best, and better by epsilon than some of the arms", these have the level
m - epsilon in place of m: the proof is the same.

**Universal** (universal inference, for reference): log E_b = sum_a excess_a + ell(N; b), the likelihood ratio
of `osrl.glr.transport_cost` less what the mixtures cost in all arms.

**Searching for the minimum.** A search starts with `new_bracket`, evaluates the convex function at a level, narrows
the bracket by its slope there, and asks `next_level` for the next one. The bracket's two tangents give a lower bound
of the minimum at all times (`lower_tangent_bound`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.evidence.exponential_tilts import SHARE_IDLE, SHARE_MIXTURE, TILT_DOWN, TILT_PAIR, TILT_UP, Tilts
from osrl.glr.transport_cost import alternatives
from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import sequential_sum
from osrl.model.arrays import Flags, Floats
from osrl.model.families import divergence, variance

NEGLIGIBLE_TILT = 30.0  # nats by which a tilt that matters at the first look is not behind the others
RIVAL_NUMBER, RIVAL_SUM = range(2)  # columns of the rewards of whoever led, see `rivals_of`
MAX_LOG_EVIDENCE = 1e6  # log evidence of one arm; where it is infinite, this is a lower bound

MAX_SEARCH_STEPS = 100  # of a search, at most
SEARCH_PRECISION = 1e-10  # where it ends: the bound lies below the minimum by no more than this
NEWTON_OVERSHOOT = 1.1  # times the step of Newton's method, while the minimum was seen from one side only


class Point(NamedTuple):
    """A convex function at a point; the value is -inf where it is not known."""

    value: float
    slope: float
    bend: float  # the second derivative, or nearly


class Bracket(NamedTuple):
    """Two ends with the minimum between them, and the function there."""

    low: float
    below: Point
    high: float
    above: Point


@kernel_in_place
def new_bracket(low: float, high: float) -> Bracket:
    """Return a bracket between two ends at which the function is not known yet."""
    return Bracket(low, Point(-math.inf, -1.0, 0.0), high, Point(-math.inf, 1.0, 0.0))


@kernel_in_place
def narrow_bracket(between: Bracket, level: float, here: Point) -> Bracket:
    """Return the bracket after the evaluation at ``level``: the minimum lies where the function falls from there."""
    if here.slope < 0.0:
        return Bracket(level, here, between.high, between.above)
    return Bracket(between.low, between.below, level, here)


@kernel_in_place
def lower_tangent_bound(between: Bracket) -> float:
    """Return a lower bound of the function in the bracket, from its two tangents."""
    below, above = between.below, between.above
    width = between.high - between.low
    if below.value == -math.inf or above.value == -math.inf:
        return max(below.value + below.slope * width, above.value - above.slope * width)
    crossing = (above.value - below.value - above.slope * width) / (below.slope - above.slope)
    return below.value + below.slope * crossing


@kernel_in_place
def next_level(between: Bracket, level: float, step: int, stride: float) -> float:
    """Return the next level to evaluate.

    ``level`` is the end that was evaluated last. Use Newton's method from there; every fourth time, or where
    that leads outside, in the middle, or outwards while one end was not looked at.
    """
    low, below, high, above = between
    here, known = below, below.value > -math.inf and above.value > -math.inf
    if level == high:
        here = above
    if step % 4 < 3 and here.bend > 0.0:
        found = level - (1.0 if known else NEWTON_OVERSHOOT) * here.slope / here.bend
        if low < found < high:
            return found
    if above.value == -math.inf and low + stride < high:
        return low + stride
    if below.value == -math.inf and high - stride > low:
        return high - stride
    return 0.5 * (low + high)


class Samples(NamedTuple):
    """Sufficient statistics of the rewards of some arms, arrays of the same shape."""

    number: Floats  # of rewards that are judged
    mean: Floats  # of those
    excess: Floats  # log M - log p at the mean: at most 0
    led: Floats  # number of rewards that came while the arm looked best
    led_sum: Floats  # of those


@kernel
def samples_of(pulls: Floats, sums: Floats, first: Floats, led: Floats, led_sum: Floats, noise: float) -> Samples:
    """Return the samples of arms (n,) from number, sum and first of their rewards, and those while it led.

    The first reward of an arm is judged only where rewards are 0 and 1: the normal mixture, with
    the variance of a reward, is centred there.
    """
    number, mean, excess = np.empty(pulls.size), np.empty(pulls.size), np.empty(pulls.size)
    for a in range(pulls.size):
        if noise > 0.0:
            k = max(pulls[a] - 1.0, 0.0)
            number[a] = k
            mean[a] = (sums[a] - first[a]) / k if k > 0.0 else first[a]
            gap = mean[a] - first[a]
            excess[a] = -0.5 * math.log1p(k) - gap * gap * k / (2.0 * noise * (1.0 + k))
        else:
            k, s = pulls[a], sums[a]
            number[a] = k
            mean[a] = s / max(k, 1.0)
            mixture = math.lgamma(s + 0.5) + math.lgamma(k - s + 0.5) - math.lgamma(k + 1.0) - math.log(math.pi)
            likelihood = 0.0
            if s > 0.0:
                likelihood += s * math.log(mean[a])
            if s < k:
                likelihood += (k - s) * math.log1p(-mean[a])
            excess[a] = min(mixture - likelihood, 0.0)
    return Samples(number, mean, excess, led, led_sum)


@kernel_in_place
def cumulant(theta: float, s: float, rise: float, noise: float) -> tuple[float, float]:
    """Return Lambda(theta, s), the log moment generating function of a reward with mean theta, and its slope.

    ``rise`` is exp(s) - 1.
    """
    if noise > 0.0:
        return s * theta + 0.5 * s * s * noise, s
    grown = 1.0 + theta * rise
    return math.log(grown), rise / grown


@kernel
def pooled(samples: Samples, tilts: Tilts, row: int, noise: float, epsilon: float, behind: Flags) -> Floats:
    """Return log evidence (n,) against each of n arms as the best, by ``epsilon`` better than those ``behind``.

    ``row`` of the tilts selects the weights: `TILT_TASK` or `TILT_LOCAL`.
    """
    found, rises = np.empty(samples.mean.size), rises_of(tilts)
    for b in range(found.size):
        found[b] = against(samples, b, tilts, rises, row, noise, epsilon, behind, -math.inf)
    return found


@kernel
def rises_of(tilts: Tilts) -> Floats:
    """Return exp(u) - 1 for the tilts up and exp(-d) - 1 for those down, (2, J)."""
    rises = np.empty((2, tilts.grid.shape[1]))
    for j in range(rises.shape[1]):
        rises[TILT_UP, j] = math.expm1(tilts.grid[TILT_UP, j])
        rises[TILT_DOWN, j] = math.expm1(-tilts.grid[TILT_DOWN, j])
    return rises


@kernel
def against(
    samples: Samples,
    b: int,
    tilts: Tilts,
    rises: Floats,
    row: int,
    noise: float,
    epsilon: float,
    behind: Flags,
    enough: float,
) -> float:
    """Return log evidence against arm ``b``, see `pooled`: a lower bound of the minimum over the level.

    ``rises`` are those of the tilts (`rises_of`). Where the evidence is less than ``enough``, the search ends
    as soon as that is known, and gives an upper bound that is less, too.
    """
    number, mean = samples.number, samples.mean
    rival = rivals_of(samples, b, behind)
    tilted = number[b] > 0.0 and sequential_sum(rival[:, RIVAL_NUMBER]) > 0.0 and tilts.grid[row, 0] > -math.inf
    top, least = mean[b], -math.inf if noise > 0.0 else 0.0
    for a in range(mean.size):
        if a != b:
            top = max(top, mean[a] + (epsilon if behind[a] else 0.0))
            least = max(least, epsilon if behind[a] and noise == 0.0 else least)
    if tilted:
        low, high = least, math.inf if noise > 0.0 else 1.0
    else:  # the mixtures alone have their minimum between the estimates
        low = max(mean[b], least)
        high = max(top, low)
    weight, other = max(number[b], 1e-9), max(sequential_sum(rival[:, RIVAL_NUMBER]), 1.0)
    level = min(max((weight * mean[b] + other * top) / (weight + other), low), high)
    if not low < level < high:
        level = 0.5 * (low + high)
    stride = math.sqrt(max(variance(level, noise), 1e-4) / (weight + other))
    between = new_bracket(low, high)
    logs = np.zeros(rises.shape[1] if tilted else 0)
    for step in range(MAX_SEARCH_STEPS):
        here = _look(samples, b, level, rival, tilts, rises, logs, row, noise, epsilon, behind)
        if here.slope == 0.0 or here.value < enough:
            return here.value
        for j in range(logs.size):
            if step == 0 and logs[j] < here.value - NEGLIGIBLE_TILT:
                logs[j] = -math.inf
        between = narrow_bracket(between, level, here)
        least = lower_tangent_bound(between)
        level = next_level(between, level, step, stride)
        stride *= 2.0
        if least > here.value - SEARCH_PRECISION or not between.low < level < between.high:
            break
    return least


@kernel
def rivals_of(samples: Samples, b: int, behind: Flags) -> Floats:
    """Return number and sum of the rewards of whoever led against ``b``, then of those ``behind``, (2, 2)."""
    number, mean, led, led_sum = samples.number, samples.mean, samples.led, samples.led_sum
    rival = np.zeros((2, 2))
    for a in range(mean.size):
        if a != b:
            group = 1 if behind[a] else 0
            rival[group, RIVAL_NUMBER] += led[a] if mean.size > 2 else number[a]
            rival[group, RIVAL_SUM] += led_sum[a] if mean.size > 2 else number[a] * mean[a]
    return rival


@kernel_in_place
def _look(
    samples: Samples,
    b: int,
    m: float,
    rival: Floats,
    tilts: Tilts,
    rises: Floats,
    logs: Floats,
    row: int,
    noise: float,
    epsilon: float,
    behind: Flags,
) -> Point:
    """Evaluate the logarithm of the function to minimise at the level ``m`` of the null "b is the best".

    ``logs`` (J,) has those of the tilts; where it is -inf, a tilt is left out, which only makes less of it.
    """
    number, mean = samples.number, samples.mean
    curved = 0.0 if noise > 0.0 else 1.0
    value, slope, bend = _mixtures(samples, b, m, noise, epsilon, behind)
    top = value + tilts.shares[row - TILT_PAIR, SHARE_MIXTURE]
    total, steep, bent = 1.0, slope, bend + slope * slope
    idle = tilts.shares[row - TILT_PAIR, SHARE_IDLE]
    if idle > -math.inf:
        if idle > top:
            shrink = math.exp(top - idle)
            total, steep, bent, top = total * shrink, steep * shrink, bent * shrink, idle
        total += math.exp(idle - top)
    for j in range(logs.size):
        if logs[j] == -math.inf:
            continue
        down, fall = cumulant(m, -tilts.grid[TILT_DOWN, j], rises[TILT_DOWN, j], noise)
        log = tilts.grid[row, j] - number[b] * (tilts.grid[TILT_DOWN, j] * mean[b] + down)
        slope, bend = -number[b] * fall, number[b] * fall * fall
        for group in range(2):
            if rival[group, RIVAL_NUMBER] > 0.0:
                level = m - epsilon if group == 1 else m
                up, rise = cumulant(level, tilts.grid[TILT_UP, j], rises[TILT_UP, j], noise)
                log += tilts.grid[TILT_UP, j] * rival[group, RIVAL_SUM] - rival[group, RIVAL_NUMBER] * up
                slope -= rival[group, RIVAL_NUMBER] * rise
                bend += rival[group, RIVAL_NUMBER] * rise * rise
        logs[j] = log
        if log > top:
            shrink = math.exp(top - log)
            total, steep, bent, top = total * shrink, steep * shrink, bent * shrink, log
        share = math.exp(log - top)
        total += share
        steep += share * slope
        bent += share * (curved * bend + slope * slope)
    slope = steep / total
    return Point(top + math.log(total), slope, bent / total - slope * slope)


@kernel_in_place
def _mixtures(samples: Samples, b: int, m: float, noise: float, epsilon: float, behind: Flags) -> Point:
    """Return log f_b(m) and the log f_a(min(muhat_a, m)), summed."""
    number, mean, excess = samples.number, samples.mean, samples.excess
    share = 1.0 / max(mean.size, 2)
    alone, log_share = math.log1p(-share), math.log(share)
    value, slope, bend = 0.0, 0.0, 0.0
    for a in range(mean.size):
        level = m - epsilon if a != b and behind[a] else m
        moves = number[a] > 0.0 and (a == b or mean[a] > level)
        gain = number[a] * divergence(mean[a], level, noise) if moves else 0.0
        mixed = log_share + min(excess[a] + gain, MAX_LOG_EVIDENCE)
        top = max(alone, mixed)
        total = top + math.log(math.exp(alone - top) + math.exp(mixed - top))
        value += total
        if moves:
            share_now = math.exp(mixed - total)
            each = number[a] / max(variance(level, noise), 1e-300)
            steep = each * (level - mean[a]) if level != mean[a] else 0.0
            slope += share_now * steep
            bend += share_now * (each + (1.0 - share_now) * steep * steep)
    return Point(value, slope, bend)


@kernel
def universal(samples: Samples, noise: float) -> Floats:
    """Return log evidence (n,) against each of n arms as the best of them, by universal inference."""
    found: Floats = sequential_sum(samples.excess) + alternatives(samples.mean, samples.number, noise).cost
    return found

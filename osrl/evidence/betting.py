"""Betting against "arm b is the best of this set", when arms are drawn with known probabilities.

Before a draw, let mu~ be estimates from the past and w the probabilities of the arms. Move b and the
better-looking arms to one level: the pool U and its w-weighted mean m (as in `osrl.glr.transport_cost`,
with q = w), and let xi_a = (mu~_a - m) / (mu~_top - mu~_b) on U. When arm A of U yields y in [0, 1],
the wealth of a bet beta >= 0 is multiplied by

    1 + beta xi_A (y - m),

and stays as it is when A is not in U. *Why the null cannot be beaten*: sum_U w_a xi_a = 0, and
xi_a >= 0 for a != b; so the expected factor is 1 + beta sum_U w_a xi_a (lambda_a - m) =
1 + beta sum_U w_a xi_a (lambda_a - lambda_b) <= 1 when no arm is better than b. Only the weights
relative to each other matter, and mu~, w, beta may depend on the past in any way.

An arm b that looks like the best one is bet against too, on behalf of the runner-up s (or all that share
this place, with w_s their sum): then U = {b, s}, xi_s = w_b / (w_b + w_s) and xi_b = -w_s / (w_b + w_s).
The proof holds for any xi with these signs whose w-weighted sum is zero, and in a close contest the order
of the estimates is often the wrong one.

Bets are mixed: none at all, a geometric grid, and the growth-optimal (mu~_top - mu~_b) / (m (1 - m)).
They are clipped so that no factor falls below 1 - ``safe``. What a trial will be judged with is its
*ticket*, fixed before the reward is known: for each null, the numbers xi_A, m, the growth-optimal bet
and the largest one that is allowed (the growth-optimal one is 0 where b leads).

**With a tolerance** the null is "b is better than c by at least epsilon". The bet is on the two alone, on
behalf of c: xi_c = w_b / (w_b + w_c), xi_b = -w_c / (w_b + w_c), and the wealth is multiplied by

    1 + beta ( xi_A (y - m) + epsilon w_b w_c / (w_b + w_c)^2 )     when A is b or c.

The w-weighted sum of xi is zero, so the expected factor is 1 + beta w_b w_c / (w_b + w_c)^2 times
(lambda_c - lambda_b + epsilon), which is at most 1 under the null; the other arms do not matter. The shift is
not negative, so the largest bet without it is safe with it. On A = c it is the same as a level m lower by
epsilon w_c / (w_b + w_c), on A = b as one higher by epsilon w_b / (w_b + w_c): a ticket holds these levels.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.glr.transport_cost import sort_by_mean
from osrl.jit import kernel_in_place
from osrl.model.arrays import Flags, Floats, Integers

NEGLIGIBLE_LOG = 40.0  # logarithms this far below another are not seen beside it
MAX_GRID_POINTS = 1000  # of the grid of bets
MAX_WEIGHT_POWER = 20  # of a bet, in its weight
BET_SIZES, BET_TASK, BET_SHARED, BET_LOCAL = range(4)  # rows of `Bets.grid`
TICKET_TERMS = 4  # numbers of a ticket for each null
TICKET_XI, TICKET_LEVEL, TICKET_OPTIMAL, TICKET_LARGEST = range(TICKET_TERMS)  # xi of the drawn arm, level, two bets
_MASS, _SUM, _GAP = range(3)  # columns of a ticket in which sums over the arms before wait for its terms


class Bets(NamedTuple):
    """The bets that are mixed. The first is 0, and the last, -1, stands for the growth-optimal bet."""

    grid: Floats  # (4, J) the bets, and their log weights: in a task, in all tasks alike, among predictors
    shrinkage: float  # samples by which estimates are drawn to their mean
    safe: float  # a factor never falls below 1 - safe

    @property
    def beta(self) -> Floats:
        """The bets (J,)."""
        return self.grid[BET_SIZES, :]

    @property
    def task(self) -> Floats:
        """Log weights (J,) in the evidence of one task."""
        return self.grid[BET_TASK, :]

    @property
    def shared(self) -> Floats:
        """Log weights (J,) where one bet is used in all tasks."""
        return self.grid[BET_SHARED, :]

    @property
    def local(self) -> Floats:
        """Log weights (J,) in the evidence about predictors."""
        return self.grid[BET_LOCAL, :]


def new_bets(
    smallest: float = 0.1,
    largest: float = 0.8,
    points: int = 4,
    power: float = 1.0,
    plugged: float = 0.1,
    idle: float = 0.1,
    shrinkage: float = 60.0,
    safe: float = 0.98,
    peak: float = 0.2,
) -> Bets:
    """Return a grid of ``points`` bets, the growth-optimal one, and none at all.

    Weights fall on both sides of ``peak``: as beta^-power above it, as beta^power below. ``plugged``: weight
    of the growth-optimal bet, twice that within a task; ``idle``: weight of not betting, in a task that may
    have nothing to say about a representation.
    """
    made = _made(smallest, largest, points, power, plugged, idle, shrinkage, safe, peak)
    return made._replace(grid=made.grid.copy())  # a study writes the bets of its log to its own


@lru_cache(maxsize=64)
def _made(
    smallest: float,
    largest: float,
    points: int,
    power: float,
    plugged: float,
    idle: float,
    shrinkage: float,
    safe: float,
    peak: float,
) -> Bets:
    """Return the bets of `new_bets`, computed once for many runs."""
    if not (0 < smallest < largest < math.inf and 1 < points <= MAX_GRID_POINTS and abs(power) <= MAX_WEIGHT_POWER):
        raise OsrlError(
            f"a grid of {points} bets from {smallest} to {largest}, weights as their power -{power}; give "
            f"0 < smallest < largest, 2 to {MAX_GRID_POINTS} points, and a power of at most {MAX_WEIGHT_POWER}"
        )
    if not 0 < plugged <= 0.5:
        raise OsrlError(f"plugged is {plugged}; give a number above 0 and at most 1/2: it counts twice in a task")
    if not 0 < idle < 1:
        raise OsrlError(f"idle is {idle}; give a number between 0 and 1")
    if not 0 <= peak < math.inf:
        raise OsrlError(f"peak is {peak}; give the bet with the largest weight, or 0 for the smallest one")
    grid = np.geomspace(smallest, largest, points)
    with np.errstate(all="ignore"):  # what overflows is refused below
        weights = np.where(grid < peak, (grid / peak**2) ** power if peak else 0.0, grid**-power)
        even = weights / weights.sum()

    def mixed(idle: float, plugged: float) -> Floats:
        with np.errstate(divide="ignore"):
            bets = np.concatenate([[idle], (1 - idle) * (1 - plugged) * even, [(1 - idle) * plugged]])
            logs: Floats = np.log(bets)
        return logs

    beta = np.concatenate([[0.0], grid, [-1.0]])
    rows = [beta, mixed(idle, 2 * plugged), mixed(0.0, 0.6), mixed(0.0, plugged)]
    bets = Bets(grid=np.stack(rows), shrinkage=shrinkage, safe=safe)
    check_bets(bets)
    return bets


def check_bets(bets: Bets) -> None:
    """Refuse bets that could break the risk: weights that sum to more than one, stakes or factors < 0."""
    beta = bets.beta
    if not (beta[0] == 0.0 and beta[-1] == -1.0 and np.all(np.isfinite(beta)) and np.all(beta[1:-1] > 0.0)):
        raise OsrlError(f"the bets are {beta.tolist()}; give 0, positive numbers, and -1 for the growth-optimal")
    for name in ("task", "shared", "local"):
        check_mixture(f"the weights of the bets ({name})", getattr(bets, name))
    if not 0 < bets.safe < 1:
        raise OsrlError(f"safe is {bets.safe}; give a number between 0 and 1")
    if not 0 < bets.shrinkage < math.inf:
        raise OsrlError(f"shrinkage is {bets.shrinkage}; give a positive number")


def check_mixture(what: str, log_weights: Floats) -> None:
    """Refuse weights that do not sum to one: a mixture of evidence with larger ones is no evidence."""
    total = float(np.exp(log_weights).sum())
    if not abs(total - 1.0) <= 1e-9:
        raise OsrlError(f"{what} sum to {total:.12g}; they have to sum to 1")


def no_bets() -> Bets:
    """Return an empty set of bets, for unbounded rewards, on which no bet is safe."""
    return Bets(grid=np.zeros((4, 0)), shrinkage=20.0, safe=0.5)


@kernel_in_place
def shrunk_means(pulls: Floats, sums: Floats, prior: float, means: Floats) -> None:
    """Write estimates shrunk towards the mean of all arms, as if each arm had ``prior`` samples of it."""
    count, total = 2.0, 1.0
    for a in range(pulls.size):
        count += pulls[a]
        total += sums[a]
    centre = total / count
    for a in range(pulls.size):
        means[a] = (sums[a] + prior * centre) / (pulls[a] + prior)


@kernel_in_place
def rank(pulls: Floats, sums: Floats, prior: float, means: Floats, order: Integers) -> None:
    """Update `shrunk_means` and the order of the arms by them."""
    shrunk_means(pulls, sums, prior, means)
    sort_by_mean(means, order)


@kernel_in_place
def write_ticket(
    means: Floats,
    order: Integers,
    weights: Floats,
    drawn: int,
    safe: float,
    possible: Flags,
    ticket: Floats,
) -> None:
    """Fill ``ticket`` (n, 4): the terms of every null "b is the best of these n arms" for this draw.

    ``order`` is that of the arms by decreasing mean. The arms form groups of one size; ``possible`` (groups,)
    says which may hold the best one. There are no bets against the others: they need no more evidence.

    Sums over the arms before the r-th wait in the row of its terms. Terms are written from the last arm to
    the first, and a pool reaches no further down than its arm: nothing is overwritten that is still wanted.
    """
    n = means.size
    together = n // possible.size
    position = 0
    weight, total = 0.0, 0.0
    for r in range(n):
        b = order[r]
        ticket[b, _MASS], ticket[b, _SUM], ticket[b, _GAP] = weight, total, total - weight * means[b]
        weight += weights[b]
        total += weights[b] * means[b]
        if b == drawn:
            position = r
    for r in range(n - 1, -1, -1):
        b = order[r]
        if n == 1 or not possible[b // together]:
            _leave_alone(ticket[b])
        elif means[order[0]] - means[b] > 1e-9:
            _against_others(means, order, weights, r, position, safe, ticket)
        else:
            _against_leader(means, order, weights, r, position, safe, ticket[b])


@kernel_in_place
def _leave_alone(terms: Floats) -> None:
    """Write terms (4,) that leave the wealth unchanged."""
    for k in range(TICKET_TERMS):
        terms[k] = 0.0


@kernel_in_place
def _joins(means: Floats, order: Integers, weights: Floats, r: int, k: int, ticket: Floats) -> bool:
    """Tell whether the k-th arm is in the pool of the r-th, k < r (see `osrl.glr.transport_cost.pool_sizes`)."""
    above, b = order[k], order[r]
    return bool(ticket[above, _GAP] < weights[b] * (means[above] - means[b]))


@kernel_in_place
def _against_others(
    means: Floats, order: Integers, weights: Floats, r: int, position: int, safe: float, ticket: Floats
) -> None:
    """Write the terms against the r-th arm and its pool, when the arm at ``position`` is drawn."""
    b = order[r]
    if position > r or (position < r and not _joins(means, order, weights, r, position, ticket)):
        _leave_alone(ticket[b])
        return
    size, end = position + 1 if position < r else 0, r
    while size < end:
        middle = (size + end) // 2
        if _joins(means, order, weights, r, middle, ticket):
            size = middle + 1
        else:
            end = middle
    last = order[size]
    mass = ticket[last, _MASS] + weights[b]
    m = (ticket[last, _SUM] + weights[b] * means[b]) / mass if mass > 0.0 else means[b]
    _leave_alone(ticket[b])
    if 0.0 < m < 1.0:
        top = means[order[0]]
        span = top - means[b]
        ticket[b, TICKET_XI] = (means[order[position]] - m) / span
        ticket[b, TICKET_LEVEL] = m
        ticket[b, TICKET_OPTIMAL] = span / (m * (1.0 - m))
        ticket[b, TICKET_LARGEST] = safe * span / max((top - m) * m, (m - means[b]) * (1.0 - m))


@kernel_in_place
def _against_leader(
    means: Floats, order: Integers, weights: Floats, r: int, position: int, safe: float, terms: Floats
) -> None:
    """Write the terms (4,) against the r-th arm, which looks best, on behalf of the runners-up."""
    _leave_alone(terms)
    b = order[r]
    least = means[order[1] if r == 0 else order[0]] - 1e-9
    if position != r and means[order[position]] < least:
        return
    rivals, m = 0.0, weights[b] * means[b]
    for s in range(order.size):
        a = order[s]
        if means[a] < least:
            break
        if s != r:
            rivals += weights[a]
            m += weights[a] * means[a]
    both = weights[b] + rivals
    if both <= 0.0:
        return
    m /= both
    if 0.0 < m < 1.0:
        terms[TICKET_XI] = (-rivals if position == r else weights[b]) / both
        terms[TICKET_LEVEL] = m
        terms[TICKET_LARGEST] = safe * both / max(weights[b] * m, rivals * (1.0 - m))


@kernel_in_place
def write_comparison(
    means: Floats, weights: Floats, b: int, c: int, drawn: int, epsilon: float, safe: float, terms: Floats
) -> None:
    """Write the terms (4,) against "b is better than c by at least epsilon", when one of the two is drawn."""
    both = weights[b] + weights[c]
    if weights[b] <= 0.0 or weights[c] <= 0.0:
        return
    share = weights[b] / both
    m = share * means[b] + (1.0 - share) * means[c]
    if 0.0 < m < 1.0:
        terms[TICKET_XI] = share if drawn == c else share - 1.0
        terms[TICKET_LEVEL] = m + epsilon * (share - 1.0 if drawn == c else share)
        terms[TICKET_OPTIMAL] = max(means[c] - means[b] + epsilon, 0.0) / (m * (1.0 - m))
        terms[TICKET_LARGEST] = safe / max(share * m, (1.0 - share) * (1.0 - m))


@kernel_in_place
def settle(wealth: Floats, terms: Floats, beta: Floats, reward: float) -> None:
    """Multiply the wealth (J, logarithms) of a null by its factors for this reward."""
    edge = terms[TICKET_XI] * (reward - terms[TICKET_LEVEL])
    optimal, most = terms[TICKET_OPTIMAL], terms[TICKET_LARGEST]
    for j in range(1, beta.size):
        bet = optimal if beta[j] < 0.0 else beta[j]
        wealth[j] += math.log1p(min(bet, most) * edge)


@kernel_in_place
def settle_worst(wealth: Floats, terms: Floats, beta: Floats) -> None:
    """Multiply the wealth (J,) of a null by the smallest factors that any reward could bring."""
    settle(wealth, terms, beta, 0.0 if terms[TICKET_XI] > 0.0 else 1.0)


@kernel_in_place
def log_mixture(logs: Floats, log_weights: Floats) -> float:
    """Return log sum_j weight_j exp(log_j), without the terms that are negligible in the sum."""
    top = -math.inf
    for j in range(logs.size):
        top = max(top, logs[j] + log_weights[j])
    if top == -math.inf:
        return top
    total = 0.0
    for j in range(logs.size):
        if logs[j] + log_weights[j] > top - NEGLIGIBLE_LOG:
            total += math.exp(logs[j] + log_weights[j] - top)
    return top + math.log(total)

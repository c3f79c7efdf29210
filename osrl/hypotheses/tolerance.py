"""Arms that are as good as the answer, within a tolerance: what ends a study although some arms tie.

Nulls, for each task and each pair of its arms: "b is better than c by at least epsilon". When c is to be the
answer of a task, every other arm b has to be out, exactly (`osrl.hypotheses.state`) or because this null
is ruled out *against c*. So the shift is measured against the answer: were it used to eliminate arms one
after the other, each might fall for one that is a little worse, and the last one be worse by many epsilons.

**Risk.** A part of each risk belongs to the exact nulls, the rest to these. In a task whose best arm is
b* = (g*, h*), an answer c that is worse by more than epsilon needs a null (b*, c) to be ruled out: (G - 1) H
answers of other representations share the rest of delta_g, and H - 1 predictors of g* that of delta_h. That
is the only union: over answers, not over rivals, and over no task. (`docs/guarantee.md` has the proof.)

The evidence is that of bets on the two arms (`osrl.evidence.betting`); with counts, that of a pair of arms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.evidence.betting import (
    BET_LOCAL,
    BET_SIZES,
    NEGLIGIBLE_LOG,
    TICKET_XI,
    Bets,
    new_bets,
    settle,
    settle_worst,
    write_comparison,
)
from osrl.evidence.counts import MAX_LOG_EVIDENCE, Samples
from osrl.evidence.exponential_tilts import Tilts
from osrl.evidence.pairs import pair_log_evidence
from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Flags, Floats

# Parts of delta_g and delta_h that exact nulls have where there is a tolerance. A representation is mostly
# refuted exactly, by several tasks together; of two predictors the tolerance is always the shorter way.
EXACT_SHARES = (0.75, 0.25)
MAX_PAIR_NUMBERS = 2 * 10**7  # that comparisons of all pairs may take

PAIR_WEALTH, PAIR_PENDING = range(2)  # rows of `wealth`
EPSILON_G, EPSILON_H, PAIR_LIMIT_G, PAIR_LIMIT_H = range(4)  # places of `numbers`


class PairTests(NamedTuple):
    """The comparisons of all pairs of arms (arrays are updated in place); empty without a tolerance."""

    numbers: Floats  # (4,) epsilon_g, epsilon_h, limits for arms of another representation and of the same
    wealth: Floats  # (2, X, n, n, J) [., x, b, c] of bets on the trials that ended, and on those pending
    within: Flags  # (X, n, n) whether "b is better than c by epsilon" is ruled out
    bets: Bets

    @property
    def epsilon(self) -> tuple[float, float]:
        """The tolerances epsilon_g and epsilon_h."""
        return float(self.numbers[EPSILON_G]), float(self.numbers[EPSILON_H])

    @property
    def limits(self) -> Floats:
        """The limits of the evidence: against arms of other representations, and of the same one."""
        return self.numbers[PAIR_LIMIT_G:]


def new_tolerance(
    shape: tuple[int, int, int],
    epsilon: tuple[float, float],
    risks: tuple[float, float],
    bets: Bets,
    by_counts: bool,
) -> PairTests:
    """Return comparisons without samples. ``bets`` are those of the exact nulls; a small epsilon needs smaller ones."""
    X, G, H = shape
    n = G * H if max(epsilon) > 0.0 else 0
    used = _bets_for(epsilon, bets, by_counts)
    numbers = 2 * X * n * n * used.beta.size
    if numbers > MAX_PAIR_NUMBERS:
        raise OsrlError(
            f"a tolerance compares all pairs of the {n} arms of {X} tasks, which takes {numbers:,} numbers; "
            "use fewer representations or predictors, or no epsilon"
        )
    answers = max((G - 1) * H, 1), max(H - 1, 1)
    limits = [math.log(answers[i] / ((1 - EXACT_SHARES[i]) * risks[i])) for i in range(2)]
    return PairTests(
        numbers=np.array([*epsilon, *limits]),
        wealth=np.zeros((2, X, n, n, used.beta.size)),
        within=np.zeros((X, n, n), np.bool_),
        bets=used,
    )


def _bets_for(epsilon: tuple[float, float], bets: Bets, by_counts: bool) -> Bets:
    """Return bets that double, from that of equal coins on; with counts a single number."""
    least = min((each for each in epsilon if each > 0.0), default=0.0)
    if by_counts or least == 0.0:
        return Bets(grid=np.zeros((4, 1 if by_counts else 0)), shrinkage=20.0, safe=0.5)
    largest = bets.beta[-2]
    smallest = min(4.0 * least, 0.5 * largest)
    points = math.ceil(math.log2(largest / smallest) - 1e-9) + 1
    return new_bets(smallest, largest, points, power=0.5, shrinkage=bets.shrinkage, safe=bets.safe, peak=0.0)


def exact_risks(risks: tuple[float, float], epsilon: tuple[float, float]) -> tuple[float, float]:
    """Return the parts of delta_g and delta_h that exact nulls have: all, where there is no tolerance."""
    of_g, of_h = (EXACT_SHARES[i] * risks[i] if epsilon[i] > 0.0 else risks[i] for i in range(2))
    return of_g, of_h


@kernel_in_place
def write_comparisons(
    tolerance: PairTests,
    x: int,
    a: int,
    arms: tuple[Floats, Floats, Floats],
    possible: tuple[Flags, Flags],
    safe: float,
    terms: Floats,
) -> None:
    """Fill ``terms`` (2 n, 4) for a draw of ``a``: against "a is better than c", then "b is better than a".

    ``arms``: estimates, pulls and probabilities (n,); ``possible``: which representations (G,), and which
    arms among those of their representation (n,). There are no bets on an answer c that is out already, or
    looks worse than the best by more than epsilon and its error: another one will be given.
    """
    means, pulls, weights = arms
    possible_g, possible_h = possible
    within, numbers = tolerance.within[x], tolerance.numbers
    n = means.size
    predictors = n // possible_g.size
    lead = means[0]
    for c in range(1, n):
        lead = max(lead, means[c])
    lead -= max(numbers[EPSILON_G], numbers[EPSILON_H])
    for o in range(n):
        for k in range(4):
            terms[o, k] = 0.0
            terms[n + o, k] = 0.0
        same = o // predictors == a // predictors
        epsilon = numbers[EPSILON_H] if same else numbers[EPSILON_G]
        if o == a or epsilon == 0.0 or not (possible_g[o // predictors] and possible_g[a // predictors]):
            continue
        if same and not (possible_h[o] and possible_h[a]):
            continue
        if not within[a, o] and possible_h[o] and means[o] + 1.0 / math.sqrt(1.0 + pulls[o]) >= lead:
            write_comparison(means, weights, a, o, a, epsilon, safe, terms[o])
        if not within[o, a] and possible_h[a] and means[a] + 1.0 / math.sqrt(1.0 + pulls[a]) >= lead:
            write_comparison(means, weights, o, a, a, epsilon, safe, terms[n + o])


@kernel_in_place
def settle_comparisons(tolerance: PairTests, x: int, a: int, predictors: int, reward: float, terms: Floats) -> int:
    """Settle the bets of `write_comparisons` for this reward; return how many nulls it rules out."""
    wealth, beta = tolerance.wealth, tolerance.bets.grid[BET_SIZES]
    n = terms.shape[0] // 2
    ruled_out = 0
    for i in range(2 * n):
        if terms[i, TICKET_XI] != 0.0:
            b, c = (a, i) if i < n else (i - n, a)
            settle(wealth[PAIR_WEALTH, x, b, c], terms[i], beta, reward)
            ruled_out += _judge(tolerance, x, b, c, predictors)
    return ruled_out


@kernel_in_place
def worst_comparisons(tolerance: PairTests, x: int, a: int, row: int, terms: Floats) -> None:
    """Multiply a row of the wealth by the worst factors of a trial."""
    wealth, beta = tolerance.wealth, tolerance.bets.grid[BET_SIZES]
    n = terms.shape[0] // 2
    for i in range(2 * n):
        if terms[i, TICKET_XI] != 0.0:
            b, c = (a, i) if i < n else (i - n, a)
            settle_worst(wealth[row, x, b, c], terms[i], beta)


@kernel_in_place
def _judge(tolerance: PairTests, x: int, b: int, c: int, predictors: int) -> bool:
    """Rule out "b is better than c by epsilon" if its evidence has reached the limit; return whether it was.

    The evidence itself is computed only where a bound of it comes close.
    """
    held, pending = tolerance.wealth[PAIR_WEALTH, x, b, c], tolerance.wealth[PAIR_PENDING, x, b, c]
    weights = tolerance.bets.grid[BET_LOCAL]
    limit = tolerance.numbers[PAIR_LIMIT_H if b // predictors == c // predictors else PAIR_LIMIT_G]
    most = -math.inf
    for j in range(held.size):
        most = max(most, held[j] + pending[j] + weights[j])
    if most + math.log(float(held.size)) < limit or pair_evidence(tolerance, x, b, c) < limit:
        return False
    tolerance.within[x, b, c] = True
    return True


@kernel_in_place
def pair_evidence(tolerance: PairTests, x: int, b: int, c: int) -> float:
    """Return log evidence against "b is better than c by epsilon"."""
    held, pending = tolerance.wealth[PAIR_WEALTH, x, b, c], tolerance.wealth[PAIR_PENDING, x, b, c]
    weights = tolerance.bets.grid[BET_LOCAL]
    top = -math.inf
    for j in range(held.size):
        top = max(top, held[j] + pending[j] + weights[j])
    total = 0.0
    for j in range(held.size):
        below = held[j] + pending[j] + weights[j] - top
        if below > -NEGLIGIBLE_LOG:
            total += math.exp(below)
    return top + math.log(total)


@kernel
def judge_comparisons(tolerance: PairTests, x: int, predictors: int) -> int:
    """Rule out what the evidence allows among all pairs of a task; return how many nulls."""
    within = tolerance.within[x]
    ruled_out = 0
    for b in range(within.shape[0]):
        for c in range(within.shape[0]):
            if b != c and not within[b, c]:
                ruled_out += _judge(tolerance, x, b, c, predictors)
    return ruled_out


@kernel
def count_comparisons(
    tolerance: PairTests, x: int, predictors: int, samples: Samples, tilts: Tilts, noise: float
) -> None:
    """Write the evidence of the counts of task ``x`` against every "b is better than c by epsilon"."""
    within, numbers = tolerance.within[x], tolerance.numbers
    for b in range(within.shape[0]):
        for c in range(within.shape[0]):
            epsilon = numbers[EPSILON_H if b // predictors == c // predictors else EPSILON_G]
            if b != c and epsilon > 0.0 and not within[b, c]:
                found = pair_log_evidence(samples, c, b, tilts, noise, epsilon)
                tolerance.wealth[PAIR_WEALTH, x, b, c, 0] = max(found, -MAX_LOG_EVIDENCE)  # -inf would not do in sums


@kernel_in_place
def is_ruled_out(tolerance: PairTests, x: int, b: int, c: int, possible_g: Flags, possible_h: Flags) -> bool:
    """Tell whether arm b is out when c is the answer of task ``x``: exactly, or not better by epsilon."""
    predictors = possible_h.size // possible_g.size
    same = b // predictors == c // predictors
    possible = possible_h[b] if same else possible_g[b // predictors]
    return not possible or bool(tolerance.within.shape[1] > 0 and tolerance.within[x, b, c])


@kernel_in_place
def answer_within_tolerance(
    tolerance: PairTests, x: int, g: int, means: Floats, possible_g: Flags, possible_h: Flags
) -> int:
    """Return the best-looking arm of ``g`` in task ``x`` against which all others are out, or -1."""
    n = means.size
    predictors = n // possible_g.size
    best = -1
    for c in range(g * predictors, (g + 1) * predictors):
        if not possible_h[c] or (best >= 0 and means[c] <= means[best]):
            continue
        good = True
        for b in range(n):
            if b != c and not is_ruled_out(tolerance, x, b, c, possible_g, possible_h):
                good = False
                break
        if good:
            best = c
    return best

"""The model check: positive evidence in every task that the answer is not beaten there by more than a margin.

The tests of representations assume that one is the best in every task. Where that is not so, the answer may
be a bad one in some task, and nothing in those tests says so. With a check, a run does not end with the
answer c of task x before, for every other arm b of x, "b is better than c by at least the margin" is ruled
out. These nulls are about two arms of one task, so nothing is assumed about what tasks share.

**Risk.** Let b* be the best arm of a task. An answer c that is worse than b* by the margin or more is given
only if the null (b*, c) was ruled out, and it is a true one. There are at most n - 1 such c, and each null is
tested at delta_g / (n - 1): in each task the risk is delta_g, for any means whatever. (`docs/guarantee.md`.)

The evidence is that of comparisons (`osrl.hypotheses.tolerance`), with larger bets: rivals of the answer are
mostly worse than it by much more than a margin. Without a check there is None in its place, and nothing of
this is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from osrl.errors import OsrlError
from osrl.evidence.betting import Bets, new_bets, write_comparison
from osrl.evidence.counts import Samples
from osrl.evidence.exponential_tilts import Tilts
from osrl.hypotheses.tolerance import (
    EPSILON_G,
    MAX_PAIR_NUMBERS,
    PAIR_PENDING,
    PairTests,
    count_comparisons,
    judge_comparisons,
    settle_comparisons,
    worst_comparisons,
)
from osrl.jit import kernel_in_place
from osrl.jit.kernels import specialise
from osrl.model.arrays import Flags, Floats

R = TypeVar("R")
LARGEST_CHECK_BET = 3.2  # bet; the others are half of the next larger one, down to that of equal coins


def new_check(
    shape: tuple[int, int, int], margin: float, delta_g: float, bets: Bets, by_counts: bool
) -> PairTests | None:
    """Return a check without samples; None where the ``margin`` is 0. ``bets`` are those of the other tests."""
    X, G, H = shape
    n = G * H
    if margin == 0.0:
        return None
    if not 0.0 < margin < math.inf:
        raise OsrlError(f"the margin of the model check is {margin!r}; give a positive number such as 0.1")
    used = _bets_for(margin, bets, by_counts)
    numbers = 2 * X * n * n * used.beta.size
    if numbers > MAX_PAIR_NUMBERS:
        raise OsrlError(
            f"the model check compares all pairs of the {n} arms of {X} tasks, which takes {numbers:,} "
            "numbers; use fewer representations or predictors, or no model check"
        )
    limit = math.log(max(n - 1, 1) / delta_g)
    return PairTests(
        numbers=np.array([margin, margin, limit, limit]),
        wealth=np.zeros((2, X, n, n, used.beta.size)),
        within=np.zeros((X, n, n), np.bool_),
        bets=used,
    )


def _bets_for(margin: float, bets: Bets, by_counts: bool) -> Bets:
    """Return bets that double, from that of equal coins on; with counts a single number."""
    if by_counts:
        return Bets(grid=np.zeros((4, 1)), shrinkage=20.0, safe=0.5)
    smallest = min(4.0 * margin, 0.5 * LARGEST_CHECK_BET)
    points = math.ceil(math.log2(LARGEST_CHECK_BET / smallest) - 1e-9) + 1
    return new_bets(smallest, LARGEST_CHECK_BET, points, 0.0, shrinkage=bets.shrinkage, safe=bets.safe, peak=0.0)


def if_checked(checked: Callable[..., R], otherwise: R) -> Callable[..., R]:
    """Return a function that calls ``checked`` where there is a check, and returns ``otherwise`` where it is None.

    Without a check, ``checked`` is not compiled.
    """

    def call(check: PairTests | None, *rest: Any) -> R:
        return otherwise if check is None else checked(check, *rest)

    def without(check: None, *rest: Any) -> R:
        return otherwise

    def compiled(check: Any, *rest: Any) -> Callable[..., R]:
        chosen: Any = checked
        return chosen.py_func if hasattr(check, "fields") else without

    specialise(call, compiled)
    return call


@kernel_in_place
def _write(
    check: PairTests,
    x: int,
    a: int,
    arms: tuple[Floats, Floats, Floats],
    possible: tuple[Flags, Flags],
    safe: float,
    terms: Floats,
) -> None:
    """Fill ``terms`` (2 n, 4) for a draw of ``a``: against "a is better than c", then "b is better than a".

    As `osrl.hypotheses.tolerance.write_comparisons`, but an arm b counts although its representation is ruled
    out: that it is, was concluded from what the check is to confirm.
    """
    means, pulls, weights = arms
    possible_g, possible_h = possible
    within, margin = check.within[x], check.numbers[EPSILON_G]
    n = means.size
    predictors = n // possible_g.size
    lead = means[0]
    for c in range(1, n):
        lead = max(lead, means[c])
    lead -= margin
    may_answer = possible_g[a // predictors] and possible_h[a]
    may_answer = may_answer and means[a] + 1.0 / math.sqrt(1.0 + pulls[a]) >= lead
    for o in range(n):
        for k in range(4):
            terms[o, k] = 0.0
            terms[n + o, k] = 0.0
        if o == a:
            continue
        other = possible_g[o // predictors] and possible_h[o]
        if other and not within[a, o] and means[o] + 1.0 / math.sqrt(1.0 + pulls[o]) >= lead:
            write_comparison(means, weights, a, o, a, margin, safe, terms[o])
        if may_answer and not within[o, a]:
            write_comparison(means, weights, o, a, a, margin, safe, terms[n + o])


@kernel_in_place
def _settle(check: PairTests, x: int, a: int, reward: float, terms: Floats) -> int:
    """Settle the bets for this reward; return how many nulls it rules out."""
    return settle_comparisons(check, x, a, 1, reward, terms)


@kernel_in_place
def _clear(check: PairTests) -> None:
    """Forget which trials have not reported."""
    pending = check.wealth[PAIR_PENDING]
    for i in range(pending.size):
        pending.flat[i] = 0.0


@kernel_in_place
def _judge(check: PairTests, x: int) -> int:
    """Rule out what the evidence allows among all pairs of a task; return how many nulls."""
    return judge_comparisons(check, x, 1)


@kernel_in_place
def _count(check: PairTests, x: int, samples: Samples, tilts: Tilts, noise: float) -> None:
    """Write the evidence of the counts of task ``x``."""
    count_comparisons(check, x, 1, samples, tilts, noise)


@kernel_in_place
def _lacks(check: PairTests, x: int, c: int) -> bool:
    """Tell whether some arm of task ``x`` may still be better than its answer ``c`` by the margin."""
    within = check.within[x]
    for b in range(within.shape[0]):
        if b != c and not within[b, c]:
            return True
    return False


write_checks = if_checked(_write, None)
settle_checks = if_checked(_settle, 0)
worst_checks = if_checked(worst_comparisons, None)
clear_checks = if_checked(_clear, None)
judge_checks = if_checked(_judge, 0)
count_checks = if_checked(_count, None)
is_check_open = if_checked(_lacks, False)

"""Trials that have not reported: the sums of their worst factors, kept up to date as trials go out and end.

A sum of floating-point numbers depends on the order in which they are added, and what was added cannot be
taken away again exactly. So the logarithm of a worst factor is rounded down to a whole number of `STEP`, and
whole numbers are summed: whatever the order in which trials go out and end, the sum is that of the trials
that are pending now, bit for bit. What an ask or a tell costs does not grow with their number.

Rounding down leaves less evidence, by at most `STEP` for each pending trial. No logarithm lies below -37 (a
factor is at least 1 - `safe`, and that is a number of the machine): there is room for 3.6 million pending
trials with the worst bets of all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.evidence.betting import BETA, TICKET
from osrl.hypotheses.model_check import if_checked
from osrl.hypotheses.state import (
    LOCAL_PENDING,
    LOCAL_WEALTH,
    OF_G,
    OF_TASK,
    PENDING,
    WEALTH,
    Hypotheses,
)
from osrl.hypotheses.tolerance import HELD, Tolerance
from osrl.hypotheses.tolerance import PENDING as NOT_REPORTED
from osrl.hypotheses.trials import after_comparisons, refresh_task
from osrl.jit.kernel import kernel_in_place
from osrl.model.arrays import Flags, Floats, Integers

STEP = 2.0**-36
OUT, BACK = 1, -1  # a trial goes out, and ends


class Late(NamedTuple):
    """The sums, in units of `STEP` (arrays are updated in place)."""

    sums: Integers  # (2, X, n, J) of the bets against each arm, in the task and in its representation
    compared: Integers  # (X, n, n, J) with a tolerance
    checked: Integers  # (X, n, n, J) with a model check
    stale: Flags  # (X,) tasks of which the hypotheses may hold something else
    moved: Floats  # (n, 1) room for `write_late`: not zero for arms whose sums have changed


def new_late(hypotheses: Hypotheses) -> Late:
    """Nothing is pending."""
    _, tasks, n, bets = hypotheses.wealth.shape
    check = hypotheses.check
    return Late(
        sums=np.zeros((2, tasks, n, bets), np.int64),
        compared=np.zeros(hypotheses.tolerance.wealth.shape[1:], np.int64),
        checked=np.zeros((tasks, 0, 0, 0) if check is None else check.wealth.shape[1:], np.int64),
        stale=np.ones(tasks, np.bool_),
        moved=np.zeros((n, 1)),
    )


@kernel_in_place
def count_late(hypotheses: Hypotheses, late: Late, x: int, a: int, ticket: Floats, way: int) -> None:
    """Add the worst factors of a trial to the sums when it goes ``OUT``, or take them away: ``BACK``."""
    sums, beta = late.sums, hypotheses.bets.grid[BETA]
    n = sums.shape[2]
    predictors = n // hypotheses.possible_g.size
    terms = ticket.reshape(ticket.size // TICKET, TICKET)
    first = a // predictors * predictors
    late.stale[x] = True
    for i in range(min(n + predictors, terms.shape[0])):
        if terms[i, 0] == 0.0:
            continue
        if i < n:
            _add_worst(sums[OF_TASK, x, i], terms[i], beta, way)
        else:
            _add_worst(sums[OF_G, x, first + i - n], terms[i], beta, way)
    if terms.shape[0] > n + predictors:
        checked = after_comparisons(hypotheses)
        _count_pairs(hypotheses.tolerance, late.compared[x], a, terms[n + predictors : checked], way)
        _count_checks(hypotheses.check, late.checked[x], a, terms[checked:], way)


@kernel_in_place
def _count_pairs(tolerance: Tolerance, compared: Integers, a: int, terms: Floats, way: int) -> None:
    """The same for the comparisons of ``a`` with every arm, either way."""
    beta, n = tolerance.bets.grid[BETA], terms.shape[0] // 2
    for i in range(terms.shape[0]):
        if terms[i, 0] != 0.0:
            b, c = (a, i) if i < n else (i - n, a)
            _add_worst(compared[b, c], terms[i], beta, way)


@kernel_in_place
def _count_nothing(check: None, checked: Integers, a: int, terms: Floats, way: int) -> None:
    pass


_count_checks = if_checked(_count_pairs, _count_nothing)


@kernel_in_place
def _add_worst(sums: Integers, terms: Floats, beta: Floats, way: int) -> None:
    """Add the smallest factors that any reward could bring, see `osrl.evidence.betting.settle_worst`."""
    edge, optimal, most = terms[0] * ((0.0 if terms[0] > 0.0 else 1.0) - terms[1]), terms[2], terms[3]
    for j in range(1, beta.size):
        bet = optimal if beta[j] < 0.0 else beta[j]
        sums[j] += way * math.floor(math.log1p(min(bet, most) * edge) / STEP)


@kernel_in_place
def _write_pairs(tolerance: Tolerance, compared: Integers, x: int) -> None:
    """Let the comparisons of a task count every pending trial by its worst factors."""
    wealth = tolerance.wealth
    for b in range(compared.shape[0]):
        for c in range(compared.shape[1]):
            for j in range(compared.shape[2]):
                wealth[NOT_REPORTED, x, b, c, j] = compared[b, c, j] * STEP


@kernel_in_place
def _write_nothing(check: None, checked: Integers, x: int) -> None:
    pass


_write_checks = if_checked(_write_pairs, _write_nothing)


@kernel_in_place
def write_late(hypotheses: Hypotheses, late: Late) -> None:
    """Let the hypotheses count every pending trial by its worst factors, where they do not yet."""
    sums, stale, moved, wealth = late.sums, late.stale, late.moved, hypotheses.wealth
    n, tried = sums.shape[2], sums.shape[3]
    for x in range(stale.size):
        if not stale[x]:
            continue
        stale[x] = False
        for b in range(n):
            moved[b, 0] = 0.0
            for j in range(tried):
                now = sums[OF_TASK, x, b, j] * STEP
                if wealth[PENDING, x, b, j] != now:
                    wealth[PENDING, x, b, j] = now
                    moved[b, 0] = 1.0
                wealth[LOCAL_PENDING, x, b, j] = sums[OF_G, x, b, j] * STEP
        refresh_task(hypotheses, x, moved)
        _write_pairs(hypotheses.tolerance, late.compared[x], x)
        _write_checks(hypotheses.check, late.checked[x], x)


def forfeit_late(hypotheses: Hypotheses, late: Late) -> None:
    """Let every pending trial stay at its worst factors for ever, like `forfeit_trial`."""
    wealth = hypotheses.wealth
    wealth[WEALTH] += late.sums[OF_TASK] * STEP
    wealth[LOCAL_WEALTH] += late.sums[OF_G] * STEP
    hypotheses.tolerance.wealth[HELD] += late.compared * STEP
    if hypotheses.check is not None:
        hypotheses.check.wealth[HELD] += late.checked * STEP
    everything = np.ones((wealth.shape[2], 1))
    for x in range(wealth.shape[1]):
        refresh_task(hypotheses, x, everything)

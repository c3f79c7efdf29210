"""The life of a trial: its ticket, its reward, its loss, and its worst factors while it is pending.

The ticket holds the terms of the bets, fixed when the trial is handed out (`osrl.evidence.betting`). A
reward settles them; a trial that has not reported, or never will, counts by its worst factors. Gaussian
rewards have no ticket: their counts are evaluated again when there are 2 % more samples.

**Pending trials.** A study keeps the sums of their worst factors up to date as trials go out and end. A sum of
floating-point numbers depends on the order in which they are added, and what was added cannot be taken away again
exactly. So the logarithm of a worst factor is rounded down to a whole number of `LOG_STEP`, and whole numbers are
summed: whatever the order in which trials go out and end, the sum is that of the trials that are pending now, bit
for bit. The cost of an ask or a tell does not grow with their number.

Rounding down leaves less evidence, by at most `LOG_STEP` for each pending trial. No logarithm lies below -37 (a
factor is at least 1 - `safe`, which is a floating-point number): there is room for 3.6 million pending trials with
the worst bets of all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.evidence.betting import (
    BET_LOCAL,
    BET_SIZES,
    TICKET_LARGEST,
    TICKET_LEVEL,
    TICKET_OPTIMAL,
    TICKET_TERMS,
    TICKET_XI,
    rank,
    settle,
    settle_worst,
    write_ticket,
)
from osrl.hypotheses.model_check import clear_checks, if_checked, settle_checks, worst_checks, write_checks
from osrl.hypotheses.product import refresh_product
from osrl.hypotheses.refresh import recount_if_counted
from osrl.hypotheses.state import (
    HYP_FIRST,
    HYP_LED,
    HYP_LED_SUM,
    HYP_LIMIT_G,
    HYP_LIMIT_H,
    HYP_LOCAL_LED,
    HYP_LOCAL_LED_SUM,
    HYP_LOCAL_MEANS,
    HYP_MEANS,
    HYP_PULLS,
    HYP_RECOUNT_DUE,
    HYP_RULED_OUT,
    HYP_SAMPLES,
    HYP_SUMS,
    HYP_WAITING,
    IN_REPRESENTATION,
    IN_TASK,
    LOCAL_PENDING,
    LOCAL_WEALTH,
    RECOUNT_GROWTH,
    TASK_PENDING,
    TASK_WEALTH,
    Hypotheses,
    rule_out_by_evidence,
    should_strike_vectors,
    update_verdict,
)
from osrl.hypotheses.tolerance import PAIR_PENDING as NOT_REPORTED
from osrl.hypotheses.tolerance import PAIR_WEALTH, PairTests, settle_comparisons, worst_comparisons, write_comparisons
from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Flags, Floats, Integers
from osrl.model.outcome import sole_survivor

LOG_STEP = 2.0**-36
TRIAL_ISSUED, TRIAL_ENDED = 1, -1  # directions of `count_pending`


def ticket_size(hypotheses: Hypotheses) -> int:
    """Return how many numbers a ticket has: four for each arm of the task, then of the representation.

    With a tolerance, and with a model check, four more for each arm of the task that the drawn one is
    compared with, either way.
    """
    if hypotheses.by_counts:
        return 0
    n: int = hypotheses.possible_h.shape[1]
    compared: int = hypotheses.tolerance.within.shape[1]
    compared += 0 if hypotheses.check is None else n
    return (n + n // hypotheses.possible_g.size + 2 * compared) * TICKET_TERMS


@kernel_in_place
def write_trial_ticket(hypotheses: Hypotheses, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """Write the terms of the bets on this trial, drawn with the ``propensities`` (n,) of its task."""
    arms, order = hypotheses.arms, hypotheses.order
    possible_g, possible_h, safe = hypotheses.possible_g, hypotheses.possible_h[x], hypotheses.bets.safe
    if hypotheses.by_counts:
        return
    n = propensities.size
    predictors = n // possible_g.size
    terms = ticket.reshape(ticket.size // TICKET_TERMS, TICKET_TERMS)
    write_ticket(arms[HYP_MEANS, x], order[IN_TASK, x], propensities, a, safe, possible_g, terms[:n])
    first = a // predictors * predictors
    own = slice(first, first + predictors)
    local = terms[n : n + predictors]
    means, drawn = arms[HYP_LOCAL_MEANS, x, own], propensities[own]
    write_ticket(means, order[IN_REPRESENTATION, x, own], drawn, a - first, safe, possible_h[own], local)
    if terms.shape[0] > n + predictors:
        of_arms = (arms[HYP_MEANS, x], arms[HYP_PULLS, x], propensities)
        possible = (possible_g, possible_h)
        checked = check_row(hypotheses)
        if checked > n + predictors:
            more = terms[n + predictors : checked]
            write_comparisons(hypotheses.tolerance, x, a, of_arms, possible, safe, more)
        write_checks(hypotheses.check, x, a, of_arms, possible, safe, terms[checked:])


@kernel_in_place
def check_row(hypotheses: Hypotheses) -> int:
    """Return the row of a ticket at which the terms of the model check begin."""
    n = hypotheses.possible_h.shape[1]
    return int(n + n // hypotheses.possible_g.size + 2 * hypotheses.tolerance.within.shape[1])


@kernel_in_place
def update_estimates(hypotheses: Hypotheses, x: int, a: int) -> None:
    """Update the estimates after a reward of arm ``a`` in task ``x``."""
    arms, order, prior = hypotheses.arms, hypotheses.order, hypotheses.bets.shrinkage
    predictors = order.shape[2] // hypotheses.possible_g.size
    own = slice(a // predictors * predictors, (a // predictors + 1) * predictors)
    rank(arms[HYP_PULLS, x], arms[HYP_SUMS, x], prior, arms[HYP_MEANS, x], order[IN_TASK, x])
    rank(
        arms[HYP_PULLS, x, own],
        arms[HYP_SUMS, x, own],
        prior,
        arms[HYP_LOCAL_MEANS, x, own],
        order[IN_REPRESENTATION, x, own],
    )


@kernel_in_place
def count_leading_reward(hypotheses: Hypotheses, x: int, a: int, reward: float) -> None:
    """Count a reward of an arm that looked best before it, in the task or in the representation."""
    arms, order = hypotheses.arms, hypotheses.order
    predictors = order.shape[2] // hypotheses.possible_g.size
    if order[IN_TASK, x, 0] == a:
        arms[HYP_LED, x, a] += 1.0
        arms[HYP_LED_SUM, x, a] += reward
    if order[IN_REPRESENTATION, x, a // predictors * predictors] == a % predictors:
        arms[HYP_LOCAL_LED, x, a] += 1.0
        arms[HYP_LOCAL_LED_SUM, x, a] += reward


@kernel_in_place
def observe_reward(hypotheses: Hypotheses, x: int, a: int, reward: float, ticket: Floats) -> bool:
    """Settle the bets on a trial with its reward and rule out what can be; return whether anything was.

    The evidence itself is computed only where a bound of it comes close to the limit.
    """
    arms, wealth, numbers, bets = hypotheses.arms, hypotheses.wealth, hypotheses.numbers, hypotheses.bets
    if arms[HYP_PULLS, x, a] == 0.0:
        arms[HYP_FIRST, x, a] = reward
    arms[HYP_PULLS, x, a] += 1.0
    arms[HYP_SUMS, x, a] += reward
    numbers[HYP_SAMPLES] += 1.0
    if hypotheses.by_counts:
        count_leading_reward(hypotheses, x, a, reward)
    update_estimates(hypotheses, x, a)
    if hypotheses.by_counts:
        if numbers[HYP_SAMPLES] < numbers[HYP_RECOUNT_DUE]:
            return False
        numbers[HYP_RECOUNT_DUE] = max(numbers[HYP_SAMPLES] + 1.0, numbers[HYP_SAMPLES] * (1.0 + RECOUNT_GROWTH))
        return recount_if_counted(hypotheses)
    n = arms.shape[2]
    predictors = n // hypotheses.possible_g.size
    terms = ticket.reshape(ticket.size // TICKET_TERMS, TICKET_TERMS)
    beta, local, tried = bets.grid[BET_SIZES], bets.grid[BET_LOCAL], bets.grid.shape[1]
    for b in range(n):
        if terms[b, TICKET_XI] != 0.0:
            settle(wealth[TASK_WEALTH, x, b], terms[b], beta, reward)
    close = refresh_task_product(hypotheses, x, terms[:n]) >= numbers[HYP_LIMIT_G]
    first = a // predictors * predictors
    for h in range(predictors):
        if terms[n + h, TICKET_XI] != 0.0:
            held, pending = wealth[LOCAL_WEALTH, x, first + h], wealth[LOCAL_PENDING, x, first + h]
            settle(held, terms[n + h], beta, reward)
            most = -math.inf
            for j in range(1, tried):
                most = max(most, held[j] + pending[j] + local[j])
            close = close or most + math.log(float(tried)) >= numbers[HYP_LIMIT_H]
    if numbers[HYP_WAITING] > 0.0:
        update_verdict(hypotheses)
    changed = (close or should_strike_vectors(hypotheses)) and rule_out_by_evidence(
        hypotheses, x, first, first + predictors
    )
    if terms.shape[0] == n + predictors:
        return changed
    checked = check_row(hypotheses)
    more = terms[n + predictors : checked]
    ruled_out = settle_checks(hypotheses.check, x, a, reward, terms[checked:])
    if ruled_out > 0 and sole_survivor(hypotheses.possible_g, 0, hypotheses.possible_g.size) >= 0:
        numbers[HYP_RULED_OUT] += ruled_out  # the others wait for samples that would go here
    if settle_comparisons(hypotheses.tolerance, x, a, predictors, reward, more) + ruled_out == 0:
        return changed
    update_verdict(hypotheses)
    return True


@kernel_in_place
def refresh_task_product(hypotheses: Hypotheses, x: int, changed: Floats) -> float:
    """Update the evidence of a task about representations, see `refresh_product`."""
    wealth = hypotheses.wealth
    held, pending = wealth[TASK_WEALTH, x], wealth[TASK_PENDING, x]
    return refresh_product(
        hypotheses.against, hypotheses.evidence[IN_TASK, x], held, pending, hypotheses.bets, x, changed
    )


@kernel_in_place
def forfeit_trial(hypotheses: Hypotheses, x: int, a: int, ticket: Floats) -> None:
    """Count a trial that will never report by its worst factors, permanently."""
    _worst(hypotheses, x, a, ticket, TASK_WEALTH, LOCAL_WEALTH)


@kernel_in_place
def pend_trial(hypotheses: Hypotheses, x: int, a: int, ticket: Floats) -> None:
    """Count a trial that has not reported by its worst factors."""
    _worst(hypotheses, x, a, ticket, TASK_PENDING, LOCAL_PENDING)


@kernel_in_place
def _worst(hypotheses: Hypotheses, x: int, a: int, ticket: Floats, row: int, local_row: int) -> None:
    """Multiply rows of the wealth by the worst factors of a trial."""
    if ticket.size == 0:
        return
    wealth, beta = hypotheses.wealth, hypotheses.bets.grid[BET_SIZES]
    n = wealth.shape[2]
    predictors = n // hypotheses.possible_g.size
    terms = ticket.reshape(ticket.size // TICKET_TERMS, TICKET_TERMS)
    first = a // predictors * predictors
    for b in range(n + predictors):
        if terms[b, TICKET_XI] != 0.0:
            settle_worst(wealth[row, x, b] if b < n else wealth[local_row, x, first + b - n], terms[b], beta)
    refresh_task_product(hypotheses, x, terms[:n])
    if terms.shape[0] > n + predictors:
        checked, row = check_row(hypotheses), PAIR_WEALTH if row == TASK_WEALTH else NOT_REPORTED
        worst_comparisons(hypotheses.tolerance, x, a, row, terms[n + predictors : checked])
        worst_checks(hypotheses.check, x, a, row, terms[checked:])


@kernel
def clear_pending(hypotheses: Hypotheses) -> None:
    """Forget which trials have not reported."""
    wealth = hypotheses.wealth
    if wealth[TASK_PENDING].any():
        wealth[TASK_PENDING] = 0.0
        everything = np.ones((wealth.shape[2], 1))
        for x in range(wealth.shape[1]):
            refresh_task_product(hypotheses, x, everything)
    wealth[LOCAL_PENDING] = 0.0
    hypotheses.tolerance.wealth[NOT_REPORTED] = 0.0
    clear_checks(hypotheses.check)


class PendingSums(NamedTuple):
    """The summed worst factors of pending trials, in units of `LOG_STEP` (arrays are updated in place)."""

    sums: Integers  # (2, X, n, J) of the bets against each arm, in the task and in its representation
    compared: Integers  # (X, n, n, J) with a tolerance
    checked: Integers  # (X, n, n, J) with a model check
    stale: Flags  # (X,) tasks of which the hypotheses may hold something else
    moved: Floats  # (n, 1) work space of `write_pending`: not zero for arms whose sums have changed


def new_pending_sums(hypotheses: Hypotheses) -> PendingSums:
    """Return the sums before the first trial."""
    _, tasks, n, bets = hypotheses.wealth.shape
    check = hypotheses.check
    return PendingSums(
        sums=np.zeros((2, tasks, n, bets), np.int64),
        compared=np.zeros(hypotheses.tolerance.wealth.shape[1:], np.int64),
        checked=np.zeros((tasks, 0, 0, 0) if check is None else check.wealth.shape[1:], np.int64),
        stale=np.ones(tasks, np.bool_),
        moved=np.zeros((n, 1)),
    )


@kernel_in_place
def count_pending(hypotheses: Hypotheses, late: PendingSums, x: int, a: int, ticket: Floats, way: int) -> None:
    """Add the worst factors of a trial at `TRIAL_ISSUED`, and take them away at `TRIAL_ENDED`."""
    sums, beta = late.sums, hypotheses.bets.grid[BET_SIZES]
    n = sums.shape[2]
    predictors = n // hypotheses.possible_g.size
    terms = ticket.reshape(ticket.size // TICKET_TERMS, TICKET_TERMS)
    first = a // predictors * predictors
    late.stale[x] = True
    for i in range(min(n + predictors, terms.shape[0])):
        if terms[i, TICKET_XI] == 0.0:
            continue
        if i < n:
            _add_worst(sums[IN_TASK, x, i], terms[i], beta, way)
        else:
            _add_worst(sums[IN_REPRESENTATION, x, first + i - n], terms[i], beta, way)
    if terms.shape[0] > n + predictors:
        checked = check_row(hypotheses)
        _count_pairs(hypotheses.tolerance, late.compared[x], a, terms[n + predictors : checked], way)
        _count_checks(hypotheses.check, late.checked[x], a, terms[checked:], way)


@kernel_in_place
def _count_pairs(tolerance: PairTests, compared: Integers, a: int, terms: Floats, way: int) -> None:
    """Do the same for the comparisons of ``a`` with every arm, in both directions."""
    beta, n = tolerance.bets.grid[BET_SIZES], terms.shape[0] // 2
    for i in range(terms.shape[0]):
        if terms[i, TICKET_XI] != 0.0:
            b, c = (a, i) if i < n else (i - n, a)
            _add_worst(compared[b, c], terms[i], beta, way)


_count_checks = if_checked(_count_pairs, None)


@kernel_in_place
def _add_worst(sums: Integers, terms: Floats, beta: Floats, way: int) -> None:
    """Add the smallest factors that any reward could bring, see `osrl.evidence.betting.settle_worst`."""
    xi, optimal, most = terms[TICKET_XI], terms[TICKET_OPTIMAL], terms[TICKET_LARGEST]
    edge = xi * ((0.0 if xi > 0.0 else 1.0) - terms[TICKET_LEVEL])
    for j in range(1, beta.size):
        bet = optimal if beta[j] < 0.0 else beta[j]
        sums[j] += way * math.floor(math.log1p(min(bet, most) * edge) / LOG_STEP)


@kernel_in_place
def _write_pairs(tolerance: PairTests, compared: Integers, x: int) -> None:
    """Write the worst factors of the pending trials into the comparisons of a task."""
    wealth = tolerance.wealth
    for b in range(compared.shape[0]):
        for c in range(compared.shape[1]):
            for j in range(compared.shape[2]):
                wealth[NOT_REPORTED, x, b, c, j] = compared[b, c, j] * LOG_STEP


_write_checks = if_checked(_write_pairs, None)


@kernel_in_place
def write_pending(hypotheses: Hypotheses, late: PendingSums) -> None:
    """Write the worst factors of all pending trials into the hypotheses, where they have changed."""
    sums, stale, moved, wealth = late.sums, late.stale, late.moved, hypotheses.wealth
    n, tried = sums.shape[2], sums.shape[3]
    for x in range(stale.size):
        if not stale[x]:
            continue
        stale[x] = False
        for b in range(n):
            moved[b, 0] = 0.0
            for j in range(tried):
                now = sums[IN_TASK, x, b, j] * LOG_STEP
                if wealth[TASK_PENDING, x, b, j] != now:
                    wealth[TASK_PENDING, x, b, j] = now
                    moved[b, 0] = 1.0
                wealth[LOCAL_PENDING, x, b, j] = sums[IN_REPRESENTATION, x, b, j] * LOG_STEP
        refresh_task_product(hypotheses, x, moved)
        _write_pairs(hypotheses.tolerance, late.compared[x], x)
        _write_checks(hypotheses.check, late.checked[x], x)


def forfeit_pending(hypotheses: Hypotheses, late: PendingSums) -> None:
    """Count every pending trial by its worst factors permanently, like `forfeit_trial`."""
    wealth = hypotheses.wealth
    wealth[TASK_WEALTH] += late.sums[IN_TASK] * LOG_STEP
    wealth[LOCAL_WEALTH] += late.sums[IN_REPRESENTATION] * LOG_STEP
    hypotheses.tolerance.wealth[PAIR_WEALTH] += late.compared * LOG_STEP
    if hypotheses.check is not None:
        hypotheses.check.wealth[PAIR_WEALTH] += late.checked * LOG_STEP
    everything = np.ones((wealth.shape[2], 1))
    for x in range(wealth.shape[1]):
        refresh_task_product(hypotheses, x, everything)

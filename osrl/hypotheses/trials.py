"""What a trial does to the hypotheses: its ticket, its reward, its loss, or that it has not reported.

The ticket holds the terms of the bets, fixed when the trial is handed out (`osrl.evidence.betting`). A
reward settles them; a trial that has not reported, or never will, counts by its worst factors. Gaussian
rewards have no ticket: their counts are looked at again when there are 2 % more samples.
"""

from __future__ import annotations

import math

import numpy as np

from osrl.evidence.betting import BETA, LOCAL, TICKET, rank, settle, settle_worst, write_ticket
from osrl.hypotheses.model_check import clear_checks, settle_checks, worst_checks, write_checks
from osrl.hypotheses.product import refresh
from osrl.hypotheses.refresh import recount_if_counted
from osrl.hypotheses.state import (
    DUE,
    FIRST,
    LED,
    LED_SUM,
    LIMIT_G,
    LIMIT_H,
    LOCAL_LED,
    LOCAL_LED_SUM,
    LOCAL_MEANS,
    LOCAL_PENDING,
    LOCAL_WEALTH,
    MEANS,
    OF_G,
    OF_TASK,
    PATIENCE,
    PENDING,
    PULLS,
    RULED_OUT,
    SAMPLES,
    SUMS,
    WAITING,
    WEALTH,
    Hypotheses,
    reject,
    settle_verdict,
    should_strike,
    survivor,
)
from osrl.hypotheses.tolerance import HELD, settle_comparisons, worst_comparisons, write_comparisons
from osrl.hypotheses.tolerance import PENDING as NOT_REPORTED
from osrl.jit.kernel import kernel, kernel_in_place
from osrl.model.arrays import Floats


def ticket_size(hypotheses: Hypotheses) -> int:
    """How many numbers a ticket has: four for each arm of the task, then of the representation.

    With a tolerance, and with a model check, four more for each arm of the task that the drawn one is
    compared with, either way.
    """
    if hypotheses.by_counts:
        return 0
    n: int = hypotheses.possible_h.shape[1]
    compared: int = hypotheses.tolerance.within.shape[1]
    compared += 0 if hypotheses.check is None else n
    return (n + n // hypotheses.possible_g.size + 2 * compared) * TICKET


@kernel_in_place
def take_ticket(hypotheses: Hypotheses, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """Write the terms of the bets on this trial, drawn with the ``propensities`` (n,) of its task."""
    arms, order = hypotheses.arms, hypotheses.order
    possible_g, possible_h, safe = hypotheses.possible_g, hypotheses.possible_h[x], hypotheses.bets.safe
    if hypotheses.by_counts:
        return
    n = propensities.size
    predictors = n // possible_g.size
    terms = ticket.reshape(ticket.size // TICKET, TICKET)
    write_ticket(arms[MEANS, x], order[OF_TASK, x], propensities, a, safe, possible_g, terms[:n])
    first = a // predictors * predictors
    own = slice(first, first + predictors)
    local = terms[n : n + predictors]
    means, drawn = arms[LOCAL_MEANS, x, own], propensities[own]
    write_ticket(means, order[OF_G, x, own], drawn, a - first, safe, possible_h[own], local)
    if terms.shape[0] > n + predictors:
        of_arms = (arms[MEANS, x], arms[PULLS, x], propensities)
        possible = (possible_g, possible_h)
        checked = after_comparisons(hypotheses)
        if checked > n + predictors:
            more = terms[n + predictors : checked]
            write_comparisons(hypotheses.tolerance, x, a, of_arms, possible, safe, more)
        write_checks(hypotheses.check, x, a, of_arms, possible, safe, terms[checked:])


@kernel_in_place
def after_comparisons(hypotheses: Hypotheses) -> int:
    """The row of a ticket at which the terms of the model check begin."""
    n = hypotheses.possible_h.shape[1]
    return int(n + n // hypotheses.possible_g.size + 2 * hypotheses.tolerance.within.shape[1])


@kernel_in_place
def estimate(hypotheses: Hypotheses, x: int, a: int) -> None:
    """Bring the estimates up to date after a reward of arm ``a`` in task ``x``."""
    arms, order, prior = hypotheses.arms, hypotheses.order, hypotheses.bets.shrinkage
    predictors = order.shape[2] // hypotheses.possible_g.size
    own = slice(a // predictors * predictors, (a // predictors + 1) * predictors)
    rank(arms[PULLS, x], arms[SUMS, x], prior, arms[MEANS, x], order[OF_TASK, x])
    rank(arms[PULLS, x, own], arms[SUMS, x, own], prior, arms[LOCAL_MEANS, x, own], order[OF_G, x, own])


@kernel_in_place
def count_leaders(hypotheses: Hypotheses, x: int, a: int, reward: float) -> None:
    """A reward of an arm that looked best before it, in the task or in the representation, counts as such."""
    arms, order = hypotheses.arms, hypotheses.order
    predictors = order.shape[2] // hypotheses.possible_g.size
    if order[OF_TASK, x, 0] == a:
        arms[LED, x, a] += 1.0
        arms[LED_SUM, x, a] += reward
    if order[OF_G, x, a // predictors * predictors] == a % predictors:
        arms[LOCAL_LED, x, a] += 1.0
        arms[LOCAL_LED_SUM, x, a] += reward


@kernel_in_place
def take_reward(hypotheses: Hypotheses, x: int, a: int, reward: float, ticket: Floats) -> bool:
    """Judge a reward by the ticket of its trial and rule out what can be; whether anything was.

    The evidence itself is computed only where a bound of it comes close to the limit.
    """
    arms, wealth, numbers, bets = hypotheses.arms, hypotheses.wealth, hypotheses.numbers, hypotheses.bets
    if arms[PULLS, x, a] == 0.0:
        arms[FIRST, x, a] = reward
    arms[PULLS, x, a] += 1.0
    arms[SUMS, x, a] += reward
    numbers[SAMPLES] += 1.0
    if hypotheses.by_counts:
        count_leaders(hypotheses, x, a, reward)
    estimate(hypotheses, x, a)
    if hypotheses.by_counts:
        if numbers[SAMPLES] < numbers[DUE]:
            return False
        numbers[DUE] = max(numbers[SAMPLES] + 1.0, numbers[SAMPLES] * (1.0 + PATIENCE))
        return recount_if_counted(hypotheses)
    n = arms.shape[2]
    predictors = n // hypotheses.possible_g.size
    terms = ticket.reshape(ticket.size // TICKET, TICKET)
    beta, local, tried = bets.grid[BETA], bets.grid[LOCAL], bets.grid.shape[1]
    for b in range(n):
        if terms[b, 0] != 0.0:
            settle(wealth[WEALTH, x, b], terms[b], beta, reward)
    close = refresh_task(hypotheses, x, terms[:n]) >= numbers[LIMIT_G]
    first = a // predictors * predictors
    for h in range(predictors):
        if terms[n + h, 0] != 0.0:
            held, pending = wealth[LOCAL_WEALTH, x, first + h], wealth[LOCAL_PENDING, x, first + h]
            settle(held, terms[n + h], beta, reward)
            most = -math.inf
            for j in range(1, tried):
                most = max(most, held[j] + pending[j] + local[j])
            close = close or most + math.log(float(tried)) >= numbers[LIMIT_H]
    if numbers[WAITING] > 0.0:
        settle_verdict(hypotheses)
    changed = (close or should_strike(hypotheses)) and reject(hypotheses, x, first, first + predictors)
    if terms.shape[0] == n + predictors:
        return changed
    checked = after_comparisons(hypotheses)
    more = terms[n + predictors : checked]
    ruled_out = settle_checks(hypotheses.check, x, a, reward, terms[checked:])
    if ruled_out > 0 and survivor(hypotheses.possible_g) >= 0:
        numbers[RULED_OUT] += ruled_out  # the others wait for samples that would go here
    if settle_comparisons(hypotheses.tolerance, x, a, predictors, reward, more) + ruled_out == 0:
        return changed
    settle_verdict(hypotheses)
    return True


@kernel_in_place
def refresh_task(hypotheses: Hypotheses, x: int, changed: Floats) -> float:
    """Bring the evidence of a task about representations up to date, see `refresh`."""
    wealth = hypotheses.wealth
    held, pending = wealth[WEALTH, x], wealth[PENDING, x]
    return refresh(hypotheses.against, hypotheses.evidence[OF_TASK, x], held, pending, hypotheses.bets, x, changed)


@kernel_in_place
def forfeit_trial(hypotheses: Hypotheses, x: int, a: int, ticket: Floats) -> None:
    """A trial that will never report stays at its worst factors for ever."""
    _worst(hypotheses, x, a, ticket, WEALTH, LOCAL_WEALTH)


@kernel_in_place
def pend_trial(hypotheses: Hypotheses, x: int, a: int, ticket: Floats) -> None:
    """A trial that has not reported counts by its worst factors."""
    _worst(hypotheses, x, a, ticket, PENDING, LOCAL_PENDING)


@kernel_in_place
def _worst(hypotheses: Hypotheses, x: int, a: int, ticket: Floats, row: int, local_row: int) -> None:
    """Multiply rows of the wealth by the worst factors of a trial."""
    if ticket.size == 0:
        return
    wealth, beta = hypotheses.wealth, hypotheses.bets.grid[BETA]
    n = wealth.shape[2]
    predictors = n // hypotheses.possible_g.size
    terms = ticket.reshape(ticket.size // TICKET, TICKET)
    first = a // predictors * predictors
    for b in range(n + predictors):
        if terms[b, 0] != 0.0:
            settle_worst(wealth[row, x, b] if b < n else wealth[local_row, x, first + b - n], terms[b], beta)
    refresh_task(hypotheses, x, terms[:n])
    if terms.shape[0] > n + predictors:
        checked, row = after_comparisons(hypotheses), HELD if row == WEALTH else NOT_REPORTED
        worst_comparisons(hypotheses.tolerance, x, a, row, terms[n + predictors : checked])
        worst_checks(hypotheses.check, x, a, row, terms[checked:])


@kernel
def clear_trials(hypotheses: Hypotheses) -> None:
    """Forget which trials have not reported."""
    wealth = hypotheses.wealth
    if wealth[PENDING].any():
        wealth[PENDING] = 0.0
        everything = np.ones((wealth.shape[2], 1))
        for x in range(wealth.shape[1]):
            refresh_task(hypotheses, x, everything)
    wealth[LOCAL_PENDING] = 0.0
    hypotheses.tolerance.wealth[NOT_REPORTED] = 0.0
    clear_checks(hypotheses.check)

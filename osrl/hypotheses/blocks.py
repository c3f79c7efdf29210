"""Many trials at a time: what a block of them does to the hypotheses, for forecasts.

All trials of a block are judged by the tickets with which it begins, as if they had been handed out together.
A bet multiplies its wealth by one factor for each high reward of an arm, and by another for each low one, so
a block costs as much as a few trials, however many it has. Hypotheses are ruled out when it ends.
"""

from __future__ import annotations

import math

import numpy as np

from osrl.evidence.betting import BET_SIZES, TICKET_LARGEST, TICKET_LEVEL, TICKET_OPTIMAL, TICKET_TERMS, TICKET_XI
from osrl.hypotheses.model_check import if_checked
from osrl.hypotheses.product import evidence_against, refresh_product
from osrl.hypotheses.refresh import recount_if_counted
from osrl.hypotheses.state import (
    HYP_FIRST,
    HYP_LED,
    HYP_LED_SUM,
    HYP_LIMIT_G,
    HYP_LIMIT_H,
    HYP_LOCAL_LED,
    HYP_LOCAL_LED_SUM,
    HYP_PULLS,
    HYP_RECOUNT_DUE,
    HYP_RULED_OUT,
    HYP_SAMPLES,
    HYP_SUMS,
    HYP_WAITING,
    IN_REPRESENTATION,
    IN_TASK,
    LOCAL_WEALTH,
    RECOUNT_GROWTH,
    TASK_PENDING,
    TASK_WEALTH,
    Hypotheses,
    rule_out,
    rule_out_by_comparisons,
    strike_vectors,
    update_verdict,
    weigh_bets,
)
from osrl.hypotheses.tolerance import PAIR_WEALTH, PairTests
from osrl.hypotheses.trials import check_row, update_estimates, write_trial_ticket
from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats

BLOCK_HIGH, BLOCK_LOW, BLOCK_LOST = range(3)  # rows of `ended`


@kernel
def observe_block(hypotheses: Hypotheses, propensities: Floats, ended: Floats, values: Floats, tickets: Floats) -> None:
    """Settle the bets on trials drawn with ``propensities`` (X, n), and rule out what the evidence allows.

    ``ended`` (3, X, n): how many of each arm brought a high reward, a low one, or were lost; ``values``
    (2, X, n): these rewards. ``tickets`` (X, n, .): work space for those of the block.
    """
    tasks, n = propensities.shape
    numbers = hypotheses.numbers
    for x in range(tasks):
        for a in range(n):
            if ended[BLOCK_HIGH, x, a] + ended[BLOCK_LOW, x, a] + ended[BLOCK_LOST, x, a] > 0.0:
                write_trial_ticket(hypotheses, x, a, propensities[x], tickets[x, a])
    for x in range(tasks):
        for a in range(n):
            if ended[BLOCK_HIGH, x, a] + ended[BLOCK_LOW, x, a] + ended[BLOCK_LOST, x, a] > 0.0:
                _count(hypotheses, x, a, ended[:, x, a], values[:, x, a])
                if not hypotheses.by_counts:
                    _settle(hypotheses, x, a, ended[:, x, a], values[:, x, a], tickets[x, a])
    if hypotheses.by_counts:
        if numbers[HYP_SAMPLES] >= numbers[HYP_RECOUNT_DUE]:
            numbers[HYP_RECOUNT_DUE] = max(numbers[HYP_SAMPLES] + 1.0, numbers[HYP_SAMPLES] * (1.0 + RECOUNT_GROWTH))
            recount_if_counted(hypotheses)
        return
    _rule_out(hypotheses)


@kernel_in_place
def _count(hypotheses: Hypotheses, x: int, a: int, ended: Floats, values: Floats) -> None:
    """Add the rewards of an arm to its statistics."""
    arms, order = hypotheses.arms, hypotheses.order
    number = ended[BLOCK_HIGH] + ended[BLOCK_LOW]
    if number == 0.0:
        return
    total = ended[BLOCK_HIGH] * values[BLOCK_HIGH] + ended[BLOCK_LOW] * values[BLOCK_LOW]
    if arms[HYP_PULLS, x, a] == 0.0:
        arms[HYP_FIRST, x, a] = values[BLOCK_HIGH] if ended[BLOCK_HIGH] > 0.0 else values[BLOCK_LOW]
    arms[HYP_PULLS, x, a] += number
    arms[HYP_SUMS, x, a] += total
    hypotheses.numbers[HYP_SAMPLES] += number
    if hypotheses.by_counts:
        predictors = order.shape[2] // hypotheses.possible_g.size
        if order[IN_TASK, x, 0] == a:
            arms[HYP_LED, x, a] += number
            arms[HYP_LED_SUM, x, a] += total
        if order[IN_REPRESENTATION, x, a // predictors * predictors] == a % predictors:
            arms[HYP_LOCAL_LED, x, a] += number
            arms[HYP_LOCAL_LED_SUM, x, a] += total
    update_estimates(hypotheses, x, a)


@kernel_in_place
def _multiply(wealth: Floats, terms: Floats, beta: Floats, ended: Floats, values: Floats) -> None:
    """Multiply the wealth (J,) of a null by the factors of all trials of an arm, those lost by the worst."""
    worst = 0.0 if terms[TICKET_XI] > 0.0 else 1.0
    for j in range(1, beta.size):
        bet = min(terms[TICKET_OPTIMAL] if beta[j] < 0.0 else beta[j], terms[TICKET_LARGEST])
        for end in range(3):
            if ended[end] > 0.0:
                value = worst if end == BLOCK_LOST else values[end]
                wealth[j] += ended[end] * math.log1p(bet * terms[TICKET_XI] * (value - terms[TICKET_LEVEL]))


@kernel_in_place
def _settle(hypotheses: Hypotheses, x: int, a: int, ended: Floats, values: Floats, ticket: Floats) -> None:
    """Settle all bets on the trials of an arm."""
    wealth, beta = hypotheses.wealth, hypotheses.bets.grid[BET_SIZES]
    n = wealth.shape[2]
    predictors = n // hypotheses.possible_g.size
    terms = ticket.reshape(ticket.size // TICKET_TERMS, TICKET_TERMS)
    first = a // predictors * predictors
    for i in range(n + predictors):
        if terms[i, TICKET_XI] != 0.0:
            held = wealth[TASK_WEALTH, x, i] if i < n else wealth[LOCAL_WEALTH, x, first + i - n]
            _multiply(held, terms[i], beta, ended, values)
    checked = check_row(hypotheses)
    _settle_pairs(hypotheses.tolerance, x, a, terms[n + predictors : checked], ended, values)
    _settle_checks(hypotheses.check, x, a, terms[checked:], ended, values)


@kernel_in_place
def _settle_pairs(compared: PairTests, x: int, a: int, terms: Floats, ended: Floats, values: Floats) -> None:
    """Settle the bets of comparisons: ``terms`` (2 n, 4) as in `write_comparisons`."""
    n = terms.shape[0] // 2
    for i in range(2 * n):
        if terms[i, TICKET_XI] != 0.0:
            b, c = (a, i) if i < n else (i - n, a)
            _multiply(compared.wealth[PAIR_WEALTH, x, b, c], terms[i], compared.bets.grid[BET_SIZES], ended, values)


_settle_checks = if_checked(_settle_pairs, None)


@kernel
def _rule_out(hypotheses: Hypotheses) -> None:
    """Update the evidence of all bets, and rule out what it allows."""
    numbers, possible_g, possible_h = hypotheses.numbers, hypotheses.possible_g, hypotheses.possible_h
    against, evidence, bets, wealth = (
        hypotheses.against,
        hypotheses.evidence,
        hypotheses.bets,
        hypotheses.wealth,
    )
    tasks, n = possible_h.shape
    predictors = n // possible_g.size
    everything = np.ones((n, 1))
    for x in range(tasks):
        refresh_product(
            against, evidence[IN_TASK, x], wealth[TASK_WEALTH, x], wealth[TASK_PENDING, x], bets, x, everything
        )
    if numbers[HYP_WAITING] > 0.0:
        update_verdict(hypotheses)
    for g in range(possible_g.size):
        if possible_g[g]:
            hypotheses.evidence_g[g] = evidence_against(against, bets, g)
    strike_vectors(hypotheses)
    ruled_out = rule_out(possible_g, hypotheses.evidence_g, numbers[HYP_LIMIT_G], False)
    for x in range(tasks):
        weigh_bets(hypotheses, x, 0, n)
        for start in range(0, n, predictors):
            own = slice(start, start + predictors)
            ruled_out += rule_out(possible_h[x, own], evidence[IN_REPRESENTATION, x, own], numbers[HYP_LIMIT_H], True)
    if ruled_out > 0:
        numbers[HYP_RULED_OUT] += ruled_out
        update_verdict(hypotheses)
    for x in range(tasks):
        rule_out_by_comparisons(hypotheses, x)

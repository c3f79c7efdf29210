"""What a trial does to the hypotheses of `osrl` and `uniform`: its ticket, its reward, or its loss.

The ticket holds the terms of the bets, fixed when the trial is handed out (`osrl.evidence.betting`). A
reward settles them; a trial that has not reported, or never will, counts by its worst factors. Gaussian
rewards have no ticket: their counts are looked at again when there are 2 % more samples.
"""

from __future__ import annotations

import math

from osrl.arrays import Floats
from osrl.compiled import kernel, kernel_in_place
from osrl.evidence.betting import TICKET, rank, settle, settle_worst, write_ticket
from osrl.evidence.shared import clear_pending, forfeit_task, pend_task, settle_task
from osrl.policies.hypotheses import Tests, recount, reject, settle_verdict

PATIENCE = 0.02  # growth of the number of samples between two looks at the counts


@kernel_in_place
def take_ticket(tests: Tests, x: int, a: int, weights: Floats, room: Floats) -> int:
    """Write the terms of this trial into ``room``, against arms of the task, then of the representation.

    They are (n + H, 4) numbers; what is behind them is worked in. Counts need none. Gives their number.
    """
    means, order, local_means, local_order = tests.means, tests.order, tests.local_means, tests.local_order
    possible_g, possible_h, safe, noise = tests.possible_g, tests.possible_h[x], tests.bets.safe, tests.noise
    if noise > 0.0:
        return 0
    n = weights.size
    predictors = n // possible_g.size
    rows = n + predictors
    ticket = room[: rows * TICKET].reshape(rows, TICKET)
    work = room[rows * TICKET : rows * TICKET + 5 * (n + 1)].reshape(5, n + 1)
    write_ticket(means[x], order[x], weights, a, safe, work, ticket[:n])
    first = a // predictors * predictors
    own = slice(first, first + predictors)
    write_ticket(local_means[x, own], local_order[x, own], weights[own], a - first, safe, work, ticket[n:])
    for b in range(n):
        if not possible_g[b // predictors]:
            ticket[b, 0] = 0.0  # what is rejected needs no more evidence
    for h in range(predictors):
        if not possible_h[first + h]:
            ticket[n + h, 0] = 0.0
    return rows * TICKET


@kernel_in_place
def estimate(tests: Tests, x: int, a: int) -> None:
    """Bring the estimates up to date after a reward of arm ``a`` in task ``x``."""
    pulls, sums, means, order = tests.pulls[x], tests.sums[x], tests.means[x], tests.order[x]
    local_means, local_order, prior = tests.local_means[x], tests.local_order[x], tests.bets.shrinkage
    predictors = pulls.size // tests.possible_g.size
    own = slice(a // predictors * predictors, (a // predictors + 1) * predictors)
    rank(pulls, sums, prior, means, order)
    rank(pulls[own], sums[own], prior, local_means[own], local_order[own])


@kernel_in_place
def take_reward(tests: Tests, x: int, a: int, reward: float, ticket: Floats) -> bool:
    """Judge a reward by the ticket of its trial and reject what can be rejected; whether anything was.

    The evidence itself is computed only where a bound of it comes close to the limit.
    """
    pulls, sums, first_rewards, looks = tests.pulls, tests.sums, tests.first, tests.looks
    shared, wealth, pending, bets = tests.shared, tests.wealth[x], tests.pending[x], tests.bets
    waiting = tests.waiting
    beta, local, limits, noise = bets.beta, bets.local, tests.limits, tests.noise
    n = pulls.shape[1]
    if pulls[x, a] == 0.0:
        first_rewards[x, a] = reward
    pulls[x, a] += 1.0
    sums[x, a] += reward
    estimate(tests, x, a)
    if noise > 0.0:
        looks[0] += 1.0
        if looks[0] < looks[1]:
            return False
        looks[1] = max(looks[0] + 1.0, looks[0] * (1.0 + PATIENCE))
        return recount(tests)
    predictors = ticket.size // TICKET - n
    terms = ticket.reshape(n + predictors, TICKET)
    first = a // predictors * predictors
    close = settle_task(shared, bets, x, terms[:n], reward) >= limits[0]
    for h in range(predictors):
        if terms[n + h, 0] != 0.0:
            b = first + h
            settle(wealth[b], terms[n + h], beta, reward)
            most = -math.inf
            for j in range(1, beta.size):
                most = max(most, wealth[b, j] + pending[b, j] + local[j])
            close = close or most + math.log(float(beta.size)) >= limits[1]
    if waiting[0]:
        settle_verdict(tests)
    return close and reject(tests, x, first, first + predictors)


@kernel_in_place
def forfeit_trial(tests: Tests, x: int, a: int, ticket: Floats) -> None:
    """A trial that will never report stays at its worst factor for ever."""
    shared, wealth, bets, n = tests.shared, tests.wealth[x], tests.bets, tests.pulls.shape[1]
    if ticket.size > 0:
        forfeit_task(shared, bets, x, ticket[: n * TICKET].reshape(n, TICKET))
        _worst(wealth, n, a, ticket, bets.beta)


@kernel_in_place
def pend_trial(tests: Tests, x: int, a: int, ticket: Floats) -> None:
    """A trial that has not reported counts by its worst factor."""
    shared, pending, bets, n = tests.shared, tests.pending[x], tests.bets, tests.pulls.shape[1]
    if ticket.size > 0:
        pend_task(shared, bets, x, ticket[: n * TICKET].reshape(n, TICKET))
        _worst(pending, n, a, ticket, bets.beta)


@kernel_in_place
def _worst(wealth: Floats, n: int, a: int, ticket: Floats, beta: Floats) -> None:
    """The worst factors of a trial for the predictors of its representation."""
    predictors = ticket.size // TICKET - n
    terms = ticket[n * TICKET :].reshape(predictors, TICKET)
    first = a // predictors * predictors
    for h in range(predictors):
        if terms[h, 0] != 0.0:
            settle_worst(wealth[first + h], terms[h], beta)


@kernel
def clear_trials(tests: Tests) -> None:
    """Forget which trials have not reported."""
    pending = tests.pending
    clear_pending(tests.shared, tests.bets)
    pending[:] = 0.0

"""The tests behind `osrl` and `uniform`: which representations and predictors are still possible.

Nulls: "g is the best representation", each at level delta_g, and for each (task, g) "h is the best
predictor of g", each at delta_h. A rejection is permanent, and the last predictor of a (task, g) is
never rejected. When one representation is left, and in each task one predictor of it, the answer
is known: it is wrong only if the *one* true null was rejected, so there are no union bounds. When
every representation is rejected, the tasks do not share one. (See `docs/guarantee.md`.)

Rewards in [0, 1] are judged by bets (`osrl.evidence.betting`), Gaussian ones by their counts
(`osrl.evidence.counts`, `pairs`): these are looked at again when a task has grown by 2 %.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.alternatives import Flags, Floats, Integers
from osrl.compiled import kernel, kernel_in_place
from osrl.evidence.betting import (
    TICKET,
    Bets,
    log_mixture,
    no_bets,
    rank,
    settle,
    settle_worst,
    shrunk_means,
    write_ticket,
)
from osrl.evidence.counts import Samples, pooled, samples_of
from osrl.evidence.pairs import Tilts, against_best, new_tilts
from osrl.evidence.shared import (
    Shared,
    clear_pending,
    evidence_against,
    forfeit_task,
    new_shared,
    pend_task,
    set_arms,
    settle_task,
)
from osrl.policies.contract import DECIDED, EXHAUSTED, NO_SHARED, Outcome, Problem, new_outcome

CLEAR = 12.0  # samples of an arm before its estimate is believed
PATIENCE = 0.02  # growth of a task between two looks at its counts


class Tests(NamedTuple):
    """Samples, the evidence, and what is still possible (arrays are updated in place)."""

    pulls: Floats  # (X, n)
    sums: Floats  # (X, n)
    first: Floats  # (X, n) first reward of every arm
    means: Floats  # (X, n) shrunk estimates
    order: Integers  # (X, n) arms of a task in decreasing order of them
    local_means: Floats  # (X, n) shrunk estimates within each representation
    local_order: Integers  # (X, n) and the order of its predictors
    shared: Shared  # the evidence about representations
    wealth: Floats  # (X, n, J) of every bet against "this arm is the best of its representation"
    pending: Floats  # (X, n, J) worst factors of trials that have not reported
    possible_g: Flags  # (G,)
    possible_h: Flags  # (X, n)
    evidence_g: Floats  # (G,) log evidence when it was last looked at
    evidence_h: Floats  # (X, n)
    limits: Floats  # (2,) log(1 / delta_g), log(1 / delta_h)
    due: Floats  # (X,) pulls at which to look at the counts of a task again
    waiting: Flags  # (1,) whether there is an answer, but one that does not look right
    bets: Bets
    tilts: Tilts
    outcome: Outcome
    noise: float


def new_tests(problem: Problem, bets: Bets) -> Tests:
    """Nothing sampled, everything possible."""
    X, G, H = problem.shape
    n = G * H
    noise = problem.family.noise
    column = problem.columns[0]
    J = 0 if noise > 0 else bets.beta.size
    tests = Tests(
        np.zeros((X, n)),
        np.zeros((X, n)),
        np.zeros((X, n)),
        np.full((X, n), 0.5),
        np.tile(np.arange(n), (X, 1)),
        np.full((X, n), 0.5),
        np.tile(np.arange(H), (X, G)),
        new_shared(problem.shape, J),
        np.zeros((X, n, J)),
        np.zeros((X, n, J)),
        np.ones(G, np.bool_),
        np.ones((X, n), np.bool_),
        np.zeros(G),
        np.zeros((X, n)),
        np.array([math.log(1 / column.delta_g), math.log(1 / column.delta_h)]),
        np.full(X, float(n)),
        np.zeros(1, np.bool_),
        bets if noise == 0 else no_bets(),
        new_tilts(noise),
        new_outcome(1, X, n),
        noise,
    )
    settle_verdict(tests)
    return tests


@kernel_in_place
def survivor(possible: Flags) -> int:
    """The only possibility left, or -1."""
    found = -1
    for i in range(possible.size):
        if possible[i]:
            if found >= 0:
                return -1
            found = i
    return found


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
    pulls, sums, first_rewards, due = tests.pulls, tests.sums, tests.first, tests.due
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
        total = 0.0
        for b in range(n):
            total += pulls[x, b]
        if total < due[x]:
            return False
        due[x] = max(total + 1.0, total * (1.0 + PATIENCE))
        count(tests, x)
        if waiting[0]:
            settle_verdict(tests)
        return reject(tests, x, 0, n)
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


@kernel
def count(tests: Tests, x: int) -> None:
    """The evidence of the counts of task ``x``."""
    shared, tilts, noise, evidence_h = tests.shared, tests.tilts, tests.noise, tests.evidence_h[x]
    samples = samples_of(tests.pulls[x], tests.sums[x], tests.first[x], noise)
    number, mean, excess = samples.number, samples.mean, samples.excess
    representations = tests.possible_g.size
    predictors = mean.size // representations
    set_arms(shared, x, pooled(samples, noise))
    for g in range(representations):
        own = slice(g * predictors, (g + 1) * predictors)
        evidence_h[own] = against_best(Samples(number[own], mean[own], excess[own]), tilts, noise)


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


@kernel
def look(tests: Tests) -> None:
    """Bring every log evidence up to date."""
    shared, bets, evidence_g, evidence_h = tests.shared, tests.bets, tests.evidence_g, tests.evidence_h
    wealth, pending, noise = tests.wealth, tests.pending, tests.noise
    tasks, n = evidence_h.shape
    for x in range(tasks):
        if noise > 0.0:
            count(tests, x)
        else:
            for a in range(n):
                evidence_h[x, a] = log_mixture(wealth[x, a] + pending[x, a], bets.local)
    for g in range(evidence_g.size):
        evidence_g[g] = evidence_against(shared, bets, g)


@kernel
def reject(tests: Tests, x: int, first: int, last: int) -> bool:
    """Reject what can be: representations, and predictors among the arms first .. last - 1 of task x."""
    possible_g, possible_h = tests.possible_g, tests.possible_h[x]
    limit_g, limit_h = tests.limits[0], tests.limits[1]
    shared, bets, noise = tests.shared, tests.bets, tests.noise
    wealth, pending = tests.wealth[x], tests.pending[x]
    evidence_g, evidence_h = tests.evidence_g, tests.evidence_h[x]
    predictors = evidence_h.size // possible_g.size
    changed = False
    for g in range(possible_g.size):
        if possible_g[g]:
            evidence_g[g] = evidence_against(shared, bets, g)
            if evidence_g[g] >= limit_g:
                possible_g[g] = False
                changed = True
    for a in range(first, last):
        if not possible_h[a]:
            continue
        if noise == 0.0:
            evidence_h[a] = log_mixture(wealth[a] + pending[a], bets.local)
        own = a // predictors * predictors
        if evidence_h[a] >= limit_h and survivor(possible_h[own : own + predictors]) < 0:
            possible_h[a] = False
            changed = True
    if changed:
        settle_verdict(tests)
    return changed


@kernel
def settle_verdict(tests: Tests) -> None:
    """Write down what the rejections so far decide.

    An answer that does not look right waits: either its null is rejected too, because the tasks share no
    representation, or it looks right in the end.
    """
    possible_g, possible_h, pulls, out = tests.possible_g, tests.possible_h, tests.pulls, tests.outcome
    waiting = tests.waiting
    tasks, n = pulls.shape
    predictors = n // possible_g.size
    rounds = int(pulls.sum())
    if not possible_g.any():
        _note(tests, -1, NO_SHARED)
        return
    g = survivor(possible_g)
    if g < 0:
        return
    if out.tau_g[0] == 0 and possible_g.size > 1:
        out.tau_g[0] = rounds
    for x in range(tasks):
        if survivor(possible_h[x, g * predictors : (g + 1) * predictors]) < 0:
            return
    waiting[0] = False
    for x in range(tasks):
        waiting[0] = waiting[0] or doubtful(tests, x, g) >= 0
    if not waiting[0]:
        _note(tests, g, DECIDED)


@kernel_in_place
def doubtful(tests: Tests, x: int, g: int) -> int:
    """The best-looking arm of other representations, if ``g`` does not clearly look better in task ``x``.

    Otherwise -1. Clearly: its estimate is larger, and both arms have been tried ``CLEAR`` times.
    """
    pulls, means = tests.pulls[x], tests.means[x]
    n = pulls.size
    predictors = n // tests.possible_g.size
    own, rival = -1, -1
    for a in range(n):
        if a // predictors != g:
            if rival < 0 or means[a] > means[rival]:
                rival = a
        elif own < 0 or means[a] > means[own]:
            own = a
    if rival < 0 or (means[rival] <= means[own] and min(pulls[rival], pulls[own]) >= CLEAR):
        return -1
    return rival


@kernel
def _note(tests: Tests, g: int, status: int) -> None:
    """The answer: the predictors that look best for ``g``, or the best arms when g = -1."""
    pulls, sums, possible_h, out = tests.pulls, tests.sums, tests.possible_h, tests.outcome
    tasks, n = pulls.shape
    predictors = n // tests.possible_g.size
    out.status[0] = status
    out.tau[0] = int(pulls.sum())
    if survivor(tests.possible_g) < 0:
        out.tau_g[0] = out.tau[0]
    means = np.empty(n)
    for x in range(tasks):
        shrunk_means(pulls[x], sums[x], 1.0, means)
        best = -1
        for a in range(n):
            out.pulls[0, x, a] = int(pulls[x, a])
            fits = g < 0 or (a // predictors == g and possible_h[x, a])
            if fits and (best < 0 or means[a] > means[best]):
                best = a
        out.representation[0, x] = best // predictors
        out.predictor[0, x] = best % predictors


@kernel
def best_guess(tests: Tests) -> None:
    """The answer of a run that is cut short: the least evidence against it, then the best estimates."""
    look(tests)
    possible_g, evidence_g = tests.possible_g, tests.evidence_g
    guess = -1
    for g in range(possible_g.size):
        if not possible_g[g]:
            continue
        if guess < 0 or evidence_g[g] < evidence_g[guess]:
            guess = g
        elif evidence_g[g] == evidence_g[guess] and promise(tests, g) > promise(tests, guess):
            guess = g
    _note(tests, guess, EXHAUSTED)


@kernel_in_place
def promise(tests: Tests, g: int) -> float:
    """The best estimates of ``g``, summed over tasks."""
    means = tests.means
    tasks, n = means.shape
    predictors = n // tests.possible_g.size
    total = 0.0
    for x in range(tasks):
        best = -math.inf
        for a in range(g * predictors, (g + 1) * predictors):
            best = max(best, means[x, a])
        total += best
    return total

"""The tests behind `osrl` and `uniform`: which representations and predictors are still possible.

Nulls: "g is the best representation", each at level delta_g, and for each (task, g) "h is the best
predictor of g", each at delta_h. A rejection is permanent, and the last predictor of a (task, g) is
never rejected. When one representation is left, and in each task one predictor of it, the answer
is known: it is wrong only if the *one* true null was rejected, so there are no union bounds. When
every representation is rejected, the tasks do not share one. (See `docs/guarantee.md`.)

The evidence against g is the product over tasks of the least evidence against its arms; half of it
with bets of their own in each task, half with the same bet in all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.alternatives import Flags, Floats
from osrl.compiled import kernel
from osrl.errors import OsrlError
from osrl.evidence.betting import (
    TICKET,
    Bets,
    log_mixture,
    new_bets,
    settle,
    settle_worst,
    shrunk_means,
    write_ticket,
)
from osrl.policies.contract import DECIDED, EXHAUSTED, NO_SHARED, Outcome, Problem, new_outcome

SHRINKAGE = 20.0


class Tests(NamedTuple):
    """Samples, wealth of every bet, and what is still possible (arrays are updated in place)."""

    pulls: Floats  # (X, n)
    sums: Floats  # (X, n)
    against_g: Floats  # (X, n, J) log wealth against "this arm is the best of its task"
    against_h: Floats  # (X, n, J) log wealth against "this arm is the best of its representation"
    pending_g: Floats  # (X, n, J) worst factors of trials that have not reported
    pending_h: Floats  # (X, n, J)
    possible_g: Flags  # (G,)
    possible_h: Flags  # (X, n)
    evidence_g: Floats  # (G,) log evidence when it was last looked at
    evidence_h: Floats  # (X, n)
    limits: Floats  # (2,) log(1 / delta_g), log(1 / delta_h)
    bets: Bets
    outcome: Outcome


def new_tests(problem: Problem, bets: Bets | None = None) -> Tests:
    """Nothing sampled, everything possible."""
    if problem.family.noise > 0:
        raise OsrlError("betting evidence is for rewards in [0, 1]; use osrl-sc for gaussian rewards")
    X, G, H = problem.shape
    n = G * H
    bets = new_bets() if bets is None else bets
    column = problem.columns[0]
    wealth = np.zeros((4, X, n, bets.beta.size))
    tests = Tests(
        np.zeros((X, n)),
        np.zeros((X, n)),
        wealth[0].copy(),
        wealth[1].copy(),
        wealth[2].copy(),
        wealth[3].copy(),
        np.ones(G, np.bool_),
        np.ones((X, n), np.bool_),
        np.zeros(G),
        np.zeros((X, n)),
        np.array([math.log(1 / column.delta_g), math.log(1 / column.delta_h)]),
        bets,
        new_outcome(1, X, n),
    )
    settle_verdict(tests)
    return tests


@kernel
def survivor(possible: Flags) -> int:
    """The only possibility left, or -1."""
    found = -1
    for i in range(possible.size):
        if possible[i]:
            if found >= 0:
                return -1
            found = i
    return found


@kernel
def take_ticket(tests: Tests, x: int, a: int, weights: Floats) -> Floats:
    """The terms of this trial, ((n + H) * 4,): against arms of the task, then of the representation."""
    pulls, sums = tests.pulls[x], tests.sums[x]
    possible_g, possible_h = tests.possible_g, tests.possible_h[x]
    n = pulls.size
    predictors = n // possible_g.size
    ticket = np.zeros((n + predictors, TICKET))
    write_ticket(shrunk_means(pulls, sums, SHRINKAGE), weights, a, ticket[:n])
    first = a // predictors * predictors
    own = slice(first, first + predictors)
    means = shrunk_means(pulls[own], sums[own], SHRINKAGE)
    write_ticket(means, weights[own], a - first, ticket[n:])
    for b in range(n):
        if not possible_g[b // predictors]:
            ticket[b, 0] = 0.0  # what is rejected needs no more evidence
    for h in range(predictors):
        if not possible_h[first + h]:
            ticket[n + h, 0] = 0.0
    return ticket.reshape(-1)


@kernel
def take_reward(tests: Tests, x: int, a: int, reward: float, ticket: Floats) -> bool:
    """Settle the bets of a trial and reject what can be rejected; whether anything was."""
    pulls, sums, beta = tests.pulls, tests.sums, tests.bets.beta
    against_g, against_h = tests.against_g[x], tests.against_h[x]
    n = pulls.shape[1]
    predictors = ticket.size // TICKET - n
    terms = ticket.reshape(n + predictors, TICKET)
    first = a // predictors * predictors
    settle(against_g, terms[:n], beta, reward)
    settle(against_h[first : first + predictors], terms[n:], beta, reward)
    pulls[x, a] += 1.0
    sums[x, a] += reward
    return reject(tests, x, first)


@kernel
def forfeit_trial(tests: Tests, x: int, a: int, ticket: Floats) -> None:
    """A trial that will never report stays at its worst factor for ever."""
    _settle_worst(tests.against_g[x], tests.against_h[x], a, ticket, tests.bets.beta)


@kernel
def pend_trial(tests: Tests, x: int, a: int, ticket: Floats) -> None:
    """A trial that has not reported counts by its worst factor."""
    _settle_worst(tests.pending_g[x], tests.pending_h[x], a, ticket, tests.bets.beta)


@kernel
def clear_trials(tests: Tests) -> None:
    """Forget which trials have not reported."""
    pending_g, pending_h = tests.pending_g, tests.pending_h
    pending_g[:] = 0.0
    pending_h[:] = 0.0


@kernel
def _settle_worst(wealth_g: Floats, wealth_h: Floats, a: int, ticket: Floats, beta: Floats) -> None:
    n = wealth_g.shape[0]
    predictors = ticket.size // TICKET - n
    terms = ticket.reshape(n + predictors, TICKET)
    first = a // predictors * predictors
    settle_worst(wealth_g, terms[:n], beta)
    settle_worst(wealth_h[first : first + predictors], terms[n:], beta)


@kernel
def evidence_against_g(tests: Tests, g: int) -> float:
    """Log evidence against "g is the best representation"."""
    against, pending = tests.against_g, tests.pending_g
    apart, shared = tests.bets.task, tests.bets.shared
    tasks, n, bets = against.shape
    predictors = n // tests.possible_g.size
    separate = 0.0
    common = np.zeros(bets)
    held = np.empty(bets)
    least_each = np.empty(bets)
    for x in range(tasks):
        least = math.inf
        least_each[:] = math.inf
        for h in range(predictors):
            a = g * predictors + h
            for j in range(bets):
                held[j] = against[x, a, j] + pending[x, a, j]
                least_each[j] = min(least_each[j], held[j])
            least = min(least, log_mixture(held, apart))
        separate += least
        common += least_each
    together = log_mixture(common, shared)
    top = max(separate, together)
    return top + math.log(0.5 * math.exp(separate - top) + 0.5 * math.exp(together - top))


@kernel
def evidence_against_h(tests: Tests, x: int, a: int) -> float:
    """Log evidence against "arm a is the best of its representation in task x"."""
    return log_mixture(tests.against_h[x, a] + tests.pending_h[x, a], tests.bets.local)


@kernel
def look(tests: Tests) -> None:
    """Bring every log evidence up to date."""
    evidence_g, evidence_h = tests.evidence_g, tests.evidence_h
    for g in range(evidence_g.size):
        evidence_g[g] = evidence_against_g(tests, g)
    tasks, n = evidence_h.shape
    for x in range(tasks):
        for a in range(n):
            evidence_h[x, a] = evidence_against_h(tests, x, a)


@kernel
def reject(tests: Tests, x: int, first: int) -> bool:
    """Reject what the last reward allows: representations, and predictors from arm ``first`` of task x.

    The evidence itself is computed only where the largest of its parts comes close to the limit.
    """
    possible_g, possible_h = tests.possible_g, tests.possible_h
    against_g, pending_g = tests.against_g, tests.pending_g
    against_h, pending_h = tests.against_h[x], tests.pending_h[x]
    limit_g, limit_h = tests.limits[0], tests.limits[1]
    apart, shared, local = tests.bets.task, tests.bets.shared, tests.bets.local
    evidence_g, evidence_h = tests.evidence_g, tests.evidence_h[x]
    tasks, n, bets = against_g.shape
    predictors = n // possible_g.size
    margin = math.log(float(bets))
    changed = False
    for g in range(possible_g.size):
        if not possible_g[g]:
            continue
        separate, together = 0.0, -math.inf
        for y in range(tasks):
            least = math.inf
            for h in range(predictors):
                a = g * predictors + h
                most = -math.inf
                for j in range(bets):
                    most = max(most, against_g[y, a, j] + pending_g[y, a, j] + apart[j])
                least = min(least, most)
            separate += least + margin
        for j in range(bets):
            common = shared[j]
            for y in range(tasks):
                least = math.inf
                for h in range(predictors):
                    a = g * predictors + h
                    least = min(least, against_g[y, a, j] + pending_g[y, a, j])
                common += least
            together = max(together, common)
        if max(separate, together + margin) >= limit_g:
            evidence_g[g] = evidence_against_g(tests, g)
            if evidence_g[g] >= limit_g:
                possible_g[g] = False
                changed = True
    left = 0
    for a in range(first, first + predictors):
        left += possible_h[x, a]
    for a in range(first, first + predictors):
        if possible_h[x, a] and left > 1:
            most = -math.inf
            for j in range(bets):
                most = max(most, against_h[a, j] + pending_h[a, j] + local[j])
            if most + margin >= limit_h:
                evidence_h[a] = evidence_against_h(tests, x, a)
                if evidence_h[a] >= limit_h:
                    possible_h[x, a] = False
                    left -= 1
                    changed = True
    if changed:
        settle_verdict(tests)
    elif tests.outcome.tau_g[0] == 0 and survivor(possible_g) >= 0:
        settle_verdict(tests)
    return changed


@kernel
def settle_verdict(tests: Tests) -> None:
    """Write down what the rejections so far decide."""
    possible_g, possible_h, pulls, out = tests.possible_g, tests.possible_h, tests.pulls, tests.outcome
    tasks, n = pulls.shape
    predictors = n // possible_g.size
    rounds = int(pulls.sum())
    if not possible_g.any():
        _note(tests, -1, NO_SHARED)
        return
    g = survivor(possible_g)
    if g < 0:
        return
    if out.tau_g[0] == 0:
        out.tau_g[0] = rounds
    for x in range(tasks):
        if survivor(possible_h[x, g * predictors : (g + 1) * predictors]) < 0:
            return
    _note(tests, g, DECIDED)


@kernel
def _note(tests: Tests, g: int, status: int) -> None:
    """The answer: the predictors that look best for ``g``, or the best arms when g = -1."""
    pulls, sums, possible_h, out = tests.pulls, tests.sums, tests.possible_h, tests.outcome
    tasks, n = pulls.shape
    predictors = n // tests.possible_g.size
    out.status[0] = status
    out.tau[0] = int(pulls.sum())
    if out.tau_g[0] == 0:
        out.tau_g[0] = out.tau[0]
    for x in range(tasks):
        means = shrunk_means(pulls[x], sums[x], 1.0)
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
    """The answer of a run that is cut short: the representation with the least evidence against it."""
    look(tests)
    possible_g, evidence_g = tests.possible_g, tests.evidence_g
    guess = -1
    for g in range(possible_g.size):
        if possible_g[g] and (guess < 0 or evidence_g[g] < evidence_g[guess]):
            guess = g
    _note(tests, guess, EXHAUSTED)

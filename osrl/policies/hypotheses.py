"""The tests behind `osrl` and `uniform`: which representations and predictors are still possible.

Nulls: "g is the best representation", each at level delta_g, and for each (task, g) "h is the best
predictor of g", each at delta_h. A rejection is permanent, and the last predictor of a (task, g) is
never rejected. When one representation is left, and in each task one predictor of it, the answer
is known: it is wrong only if the *one* true null was rejected, so there are no union bounds. When
every representation is rejected, the tasks do not share one. (See `docs/guarantee.md`.)

Rewards in [0, 1] are judged by bets (`osrl.evidence.betting`), Gaussian ones by their counts
(`osrl.evidence.counts`, `pairs`): all tasks are counted again, at the same time, when there are 2 % more
samples. Evidence of several tasks at *different* times must not be multiplied: whoever chooses the tasks
could leave each of them at its luckiest moment.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.arrays import Flags, Floats, Integers
from osrl.compiled import kernel, kernel_in_place
from osrl.evidence.betting import Bets, log_mixture, no_bets, shrunk_means
from osrl.evidence.counts import Samples, pooled, samples_of
from osrl.evidence.pairs import Tilts, against_best, new_tilts
from osrl.evidence.shared import Shared, evidence_against, new_shared, set_arms
from osrl.policies.contract import DECIDED, EXHAUSTED, NO_SHARED, Outcome, Problem, new_outcome

CLEAR = 12.0  # samples of an arm before its estimate is believed


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
    looks: Floats  # (2,) samples so far, and at how many to look at the counts again
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
        np.array([0.0, float(X * n)]),
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


@kernel
def recount(tests: Tests) -> bool:
    """Count every task again, and reject what can be rejected; whether anything was."""
    tasks, n = tests.pulls.shape
    for x in range(tasks):
        count(tests, x)
    if tests.waiting[0]:
        settle_verdict(tests)
    changed = False
    for x in range(tasks):
        changed = reject(tests, x, 0, n) or changed
    return changed


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

"""`analyse`: what a log of trials proves that was collected elsewhere, by any rule.

A log has a row for each trial, in the order in which they were handed out: `task`, `representation`,
`predictor`, `reward`, and where they are known the probabilities of all arms of the task, in columns
`propensity[g,h]`.

- With propensities the evidence is that of betting (`osrl.evidence.betting`), for any rewards in [0, 1]. A
  trial without a reward counts by its worst one, unless dropping out is declared to be ignorable.
- Without, it is that of counts (`osrl.evidence.counts`), for rewards in [0, 1] or Gaussian ones, whatever
  rule has chosen the arms, as long as their means stay the same. Trials without a reward are then left out:
  their dropping out has to be ignorable.

Both may be looked at after every row; a hypothesis that was rejected once stays rejected. What each of them
takes
for granted is watched as far as rows can tell: that the arms of the rows follow the propensities
(`osrl.evidence.watch`), and that means did not drift (`osrl.evidence.drift`). An alarm ends every claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.arrays import Flags, Floats
from osrl.errors import OsrlError
from osrl.evidence.counts import Samples, pooled, samples_of
from osrl.evidence.drift import LEVEL as DRIFT_LEVEL
from osrl.evidence.drift import drift
from osrl.evidence.pairs import against_best, new_tilts
from osrl.evidence.watch import COUNTED, LEFT_OUT, end, evidence_of, hand_out, new_watch, odds_of
from osrl.evidence.watch import LEVEL as WATCH_LEVEL
from osrl.families import Family
from osrl.policies.contract import RUNNING, Column, Problem, find, new_ticket
from osrl.policies.hypotheses import look
from osrl.study.standing import Hypothesis, Objection, find_objections
from osrl.study.table import Table
from osrl.study.trial import Answer

UNDECIDED = "undecided"
GROWTH = 1.03  # of the number of rows between two looks at counts


class Doubt(NamedTuple):
    """What evidence takes for granted, and the log evidence against it; from ``limit`` on nothing is claimed.

    ``about``: ``arms`` (those of the rows follow the propensities) or ``means`` (they stayed the same).
    """

    about: str
    log_evidence: float
    limit: float

    @property
    def alarm(self) -> bool:
        """Whether it is refuted."""
        return self.log_evidence >= self.limit


class Analysis(NamedTuple):
    """What a log proves, by which evidence: ``betting`` or ``counts``; ``missing`` rows have no reward.

    Of these, ``ignored`` rows are left out, because dropping out is declared to be ignorable.
    """

    verdict: str
    best: Answer
    evidence: str
    family: Family
    rows: int
    missing: int
    ignored: int
    decided_after: int | None  # rows
    hypotheses: tuple[Hypothesis, ...]
    objections: tuple[Objection, ...]
    doubt: Doubt
    delta_g: float
    delta_h: float


class _Tests:
    """Which hypotheses are left, and the largest evidence against each so far."""

    def __init__(self, table: Table, delta_g: float, delta_h: float) -> None:
        X, G, H = table.shape
        self.table = table
        self.limit_g, self.limit_h = np.log(1 / delta_g), np.log(1 / delta_h)
        self.against_g = np.zeros(G)
        self.against_h = np.zeros((X, G, H))
        self.by_task = np.zeros((X, G))  # what each task alone says against a representation
        self.possible_g = np.ones(G, bool)
        self.possible_h = np.ones((X, G, H), bool)

    def reject(self) -> None:
        """Reject what the evidence allows; the last predictor of a task is never rejected."""
        self.possible_g &= self.against_g < self.limit_g
        for possible, against in zip(
            self.possible_h.reshape(-1, self.table.shape[2]),
            self.against_h.reshape(-1, self.table.shape[2]),
            strict=True,
        ):
            for h in np.argsort(-against):
                if possible.sum() > 1 and against[h] >= self.limit_h:
                    possible[h] = False

    @property
    def verdict(self) -> str:
        """What is left, in a word."""
        if not self.possible_g.any():
            return "no shared representation"
        if self.possible_g.sum() == 1 and (self.possible_h[:, self.possible_g].sum(axis=2) == 1).all():
            return "decided"
        return UNDECIDED


def analyse(table: Table, *, delta_g: float, delta_h: float, ignorable: bool = False) -> Analysis:
    """What the rows of a table prove at these risks."""
    tests = _Tests(table, delta_g, delta_h)
    missing = np.isnan(table.rewards)
    left_out = missing & (ignorable | table.ignorable)
    if table.propensities is not None and table.family.noise == 0:
        after = _bet(tests, delta_g, delta_h, left_out)
        kind, doubt = "betting", _watch_arms(table, left_out)
    elif left_out.sum() < missing.sum():
        raise OsrlError(
            f"{int(missing.sum())} rows have no reward, and counts have no worst case to fall back on; add "
            "the propensities of all arms, or --ignorable if a missing reward tells nothing about its value"
        )
    else:
        after = _count(tests)
        kind, doubt = "counts", _watch_means(table)
    if doubt.alarm:
        after = None
    return Analysis(
        UNDECIDED if after is None else tests.verdict,
        _answer(tests),
        kind,
        table.family,
        table.rewards.size,
        int(missing.sum()),
        int(left_out.sum()),
        after,
        _hypotheses(tests),
        find_objections(tests.by_task, tests.possible_g, table.task_names, table.representations),
        doubt,
        delta_g,
        delta_h,
    )


def _watch_arms(table: Table, left_out: Flags) -> Doubt:
    """Whether the arms of the rows, and of those that are left out, follow the propensities."""
    assert table.propensities is not None
    X, G, H = table.shape
    watch = new_watch(X, G * H)
    largest = 0.0
    for i in range(table.rewards.size):
        x, a, weights = int(table.tasks[i]), int(table.arms[i]), table.propensities[i]
        odds = odds_of(watch, x, a, weights)
        hand_out(watch, odds)
        end(watch, x, a, weights, odds, LEFT_OUT if left_out[i] else COUNTED)
        largest = max(largest, evidence_of(watch))
    return Doubt("arms", largest, math.log(1 / WATCH_LEVEL))


def _watch_means(table: Table) -> Doubt:
    """Whether the means of the arms have stayed the same."""
    known = ~np.isnan(table.rewards)
    arms = table.tasks * (table.shape[1] * table.shape[2]) + table.arms
    found = drift(arms[known], table.rewards[known], table.family.noise)
    return Doubt("means", max(found, 0.0), math.log(1 / DRIFT_LEVEL))


def _bet(tests: _Tests, delta_g: float, delta_h: float, left_out: Flags) -> int | None:
    """Bet on every row in turn; after which row the answer is known, and looks right."""
    table = tests.table
    policy = find("uniform")  # its tests are those of `osrl`, and nothing else
    state = policy.new(Problem(table.shape, Family("bounded"), (Column("own", delta_g, delta_h),)), 0.0)
    weights = np.zeros((table.shape[0], table.shape[1] * table.shape[2]))
    assert table.propensities is not None
    after = None
    for i in np.flatnonzero(~left_out).tolist():
        x, a, reward = int(table.tasks[i]), int(table.arms[i]), float(table.rewards[i])
        weights[x] = table.propensities[i]
        ticket = new_ticket(state, x, a, weights)
        if np.isnan(reward):
            policy.forfeit(state, x, a, ticket)
        else:
            policy.observe(state, x, a, reward, ticket)
        if state.outcome.status[0] != RUNNING:
            after = i + 1
            break
    found = state.tests
    look(found)
    tests.against_g, tests.possible_g = found.evidence_g, found.possible_g
    tests.by_task = found.shared.least.copy()
    tests.against_h = found.evidence_h.reshape(table.shape)
    tests.possible_h = found.possible_h.reshape(table.shape)
    return after


def _count(tests: _Tests) -> int | None:
    """Look at the counts again and again; after which row the answer is known."""
    table = tests.table
    X, G, H = table.shape
    known = np.flatnonzero(~np.isnan(table.rewards))
    place = (table.tasks * (G * H) + table.arms)[known]
    rewards = table.rewards[known]
    first = np.zeros(X * G * H)
    arms, where = np.unique(place, return_index=True)
    first[arms] = rewards[where]
    number, total = np.zeros((2, X * G * H))
    done = 0
    while done < known.size:
        until = min(max(done + 1, int(done * GROWTH)), known.size)
        np.add.at(number, place[done:until], 1.0)
        np.add.at(total, place[done:until], rewards[done:until])
        done = until
        _weigh(tests, *(each.reshape(X, G * H) for each in (number, total, first)))
        tests.reject()
        if tests.verdict != UNDECIDED:
            return int(known[done - 1]) + 1
    return None


def _weigh(tests: _Tests, number: Floats, total: Floats, first: Floats) -> None:
    """Bring the largest evidence so far up to date with the samples (X, n) of every arm."""
    X, G, H = tests.table.shape
    noise = tests.table.family.noise
    tilts = new_tilts(noise)
    for x in range(X):
        samples = samples_of(number[x], total[x], first[x], noise)
        tests.by_task[x] = pooled(samples, noise).reshape(G, H).min(axis=1)
        for g in range(G):
            own = Samples(*(each[g * H : (g + 1) * H] for each in samples))
            tests.against_h[x, g] = np.maximum(tests.against_h[x, g], against_best(own, tilts, noise))
    tests.against_g = np.maximum(tests.against_g, tests.by_task.sum(axis=0))


def _answer(tests: _Tests) -> Answer:
    """The answer, or the best guess: the least evidence against it, then the best means."""
    table = tests.table
    X, G, H = table.shape
    sums, counts = np.zeros((2, X, G * H))
    known = ~np.isnan(table.rewards)
    np.add.at(counts, (table.tasks[known], table.arms[known]), 1.0)
    np.add.at(sums, (table.tasks[known], table.arms[known]), table.rewards[known])
    means = np.where(counts > 0, sums / np.maximum(counts, 1.0), -np.inf).reshape(X, G, H)
    if not tests.possible_g.any():
        arms = [divmod(int(each.argmax()), H) for each in means.reshape(X, -1)]
        representation = None
    else:
        least = np.where(tests.possible_g, tests.against_g, np.inf)
        promise = np.where(least == least.min(), means.max(axis=2).sum(axis=0), -np.inf)
        g = int(promise.argmax() if np.isfinite(promise.max()) else least.argmin())
        arms = [(g, int(np.where(tests.possible_h[x, g], means[x, g], -np.inf).argmax())) for x in range(X)]
        representation = table.representations[g]
    names = table.task_names
    return Answer(
        representation,
        {names[x]: table.representations[g] for x, (g, _) in enumerate(arms)},
        {names[x]: table.predictors[h] for x, (_, h) in enumerate(arms)},
    )


def _hypotheses(tests: _Tests) -> tuple[Hypothesis, ...]:
    table = tests.table
    found = [
        Hypothesis(None, name, None, float(tests.against_g[g]), float(tests.limit_g), not tests.possible_g[g])
        for g, name in enumerate(table.representations)
    ]
    predictors: Sequence[str] = table.predictors if len(table.predictors) > 1 else ()
    for g in np.flatnonzero(tests.possible_g).tolist():
        for x, task in enumerate(table.task_names):
            for h, predictor in enumerate(predictors):
                evidence, rejected = float(tests.against_h[x, g, h]), not tests.possible_h[x, g, h]
                name = table.representations[g]
                found.append(Hypothesis(task, name, predictor, evidence, float(tests.limit_h), rejected))
    return tuple(found)

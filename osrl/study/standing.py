"""Where the tests of a study stand: the evidence against each hypothesis, and about how much is missing.

For policies whose tests are `osrl.policies.hypotheses.Tests` (`osrl`, `uniform`). Others keep their
evidence to themselves, and have no standing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from osrl.allocation import Needs, allocate
from osrl.arrays import Flags, Floats
from osrl.families import Family
from osrl.instance import Instance
from osrl.policies.hypotheses import Tests, look
from osrl.study.fold import Fold

PRIOR = 3.0  # samples by which the estimates of the forecast are drawn to their mean
LEAST_NEED = 0.7  # of a test that is nearly done
LEAST_EVIDENCE = -5.0  # below which a test is not said to lack even more
GAP = 0.01  # by which the best arm is taken to lead at least; or by its standard error, if that is larger


class Hypothesis(NamedTuple):
    """One hypothesis: rejected when ``log_evidence`` against it has reached ``limit``.

    Without ``predictor``: "this representation is the best". With ``task`` and ``predictor``: "this
    predictor is the best of this representation in this task".
    """

    task: str | None
    representation: str
    predictor: str | None
    log_evidence: float
    limit: float
    rejected: bool


class Claim(NamedTuple):
    """The risks at which the best guess could be claimed now: those of a study that would end here with it.

    1 where nothing speaks against a rival yet.
    """

    representation: float
    predictors: Mapping[str, float]  # task -> risk


class Objection(NamedTuple):
    """The task with the most log evidence against a representation, by which it was ruled out."""

    representation: str
    task: str
    log_evidence: float


class Standing(NamedTuple):
    """All that the tests of a study say."""

    hypotheses: tuple[Hypothesis, ...]
    claim: Claim | None
    objections: tuple[Objection, ...]
    expected_remaining: float | None


def read_standing(fold: Fold) -> Standing:
    """Where the tests stand, with pending trials counted; nothing for policies with evidence of their own."""
    tests = _look(fold)
    if tests is None:
        return Standing((), None, (), None if fold.verdict is None else 0.0)
    remaining = _expected_remaining(fold, tests) if fold.verdict is None else 0.0
    created = fold.created
    against = find_objections(tests.shared.least, tests.possible_g, created.tasks, created.representations)
    return Standing(_hypotheses(fold, tests), _claim(fold, tests), against, remaining)


def _hypotheses(fold: Fold, tests: Tests) -> tuple[Hypothesis, ...]:
    """Every hypothesis, representations first; those about predictors of a rejected one are left out."""
    created, H = fold.created, fold.shape[2]
    limit_g, limit_h = map(float, tests.limits)
    found = [
        Hypothesis(None, name, None, float(tests.evidence_g[g]), limit_g, not tests.possible_g[g])
        for g, name in enumerate(created.representations)
    ]
    for g in np.flatnonzero(tests.possible_g):
        for x, task in enumerate(created.tasks):
            for h, predictor in enumerate(created.predictors if H > 1 else ()):
                a = int(g) * H + h
                rejected = not tests.possible_h[x, a]
                evidence = float(tests.evidence_h[x, a])
                name = created.representations[int(g)]
                found.append(Hypothesis(task, name, predictor, evidence, limit_h, rejected))
    return tuple(found)


def _claim(fold: Fold, tests: Tests) -> Claim | None:
    """By the least evidence against any rival of the best guess. None where there is no shared one."""
    guess = fold.verdict or fold.best_guess()
    if not tests.possible_g.any() or None in guess.representations:
        return None
    H = fold.shape[2]
    g = fold.place(1, str(guess.representations[0]))
    risks = [
        _risk(np.delete(tests.evidence_h[x, g * H : (g + 1) * H], fold.place(2, str(name))))
        for x, name in enumerate(guess.predictors)
    ]
    return Claim(_risk(np.delete(tests.evidence_g, g)), dict(zip(fold.created.tasks, risks, strict=True)))


def _risk(evidence: Floats) -> float:
    """The risk at which all of these are rejected."""
    return float(np.exp(-max(evidence.min(initial=np.inf), 0.0)))


def find_objections(
    by_task: Floats, possible: Flags, tasks: Sequence[str], representations: Sequence[str]
) -> tuple[Objection, ...]:
    """For each representation that is ruled out, the task which says most against it."""
    return tuple(
        Objection(representations[g], tasks[int(by_task[:, g].argmax())], float(by_task[:, g].max()))
        for g in np.flatnonzero(~possible).tolist()
    )


def _expected_remaining(fold: Fold, tests: Tests) -> float | None:
    """About how many more samples the best allocation needs, if the means are as they look now.

    The joint program with residual needs: what each test lacks, log(1 / delta) + 1 - log E. None while
    there are fewer rewards than arms, and nothing looks like anything yet.
    """
    X, G, H = fold.shape
    if tests.pulls.sum() < X * G * H:
        return None
    guess = fold.best_guess()
    g = fold.place(1, guess.representations[0] or fold.created.representations[0])
    best = [fold.place(2, name or fold.created.predictors[0]) for name in guess.predictors]
    need_g = np.where(tests.possible_g, _lacking(tests.limits[0], tests.evidence_g), 0.0)
    need_g[g] = 0.0
    own = slice(g * H, (g + 1) * H)
    need_h = np.where(tests.possible_h[:, own], _lacking(tests.limits[1], tests.evidence_h[:, own]), 0.0)
    need_h[np.arange(X), best] = 0.0
    if not need_g.any() and not need_h.any():
        return 0.0
    means = _plausible_means(tests, g, best).reshape(X, G, H)
    instance = Instance(means, Family("bounded") if tests.noise == 0 else fold.family)
    return 1 / allocate(instance, Needs(need_g, need_h), tolerance=1e-2).lower


def _lacking(limit: float, evidence: Floats) -> Floats:
    """How much evidence tests still need."""
    lacking: Floats = np.maximum(limit + 1 - np.maximum(evidence, LEAST_EVIDENCE), LEAST_NEED)
    return lacking


def evidence_at_design(fold: Fold) -> dict[str, Floats]:
    """The arrays of a design that hold evidence, computed from the rewards so far."""
    if fold.tests is None:
        return {}
    tests = copy.deepcopy(fold.tests)
    look(tests)
    return {"tests.evidence_g": tests.evidence_g, "tests.evidence_h": tests.evidence_h}


def _look(fold: Fold) -> Tests | None:
    """The tests with every evidence up to date: the larger one, with all trials or with the first ones only.

    What was rejected has reached its limit at some time, and is shown with no less.
    """
    if fold.tests is None:
        return None
    now = copy.copy(fold)
    now.state = copy.deepcopy(fold.state)
    if fold.verdict is None:
        now.count_pending()
    tests: Tests = now.state.tests
    look(tests)
    if fold.prefix is not None:
        first_g, first_h = fold.prefix.evidence()
        np.maximum(tests.evidence_g, first_g, out=tests.evidence_g)
        np.maximum(tests.evidence_h, first_h, out=tests.evidence_h)
    for evidence, possible, limit in (
        (tests.evidence_g, tests.possible_g, tests.limits[0]),
        (tests.evidence_h, tests.possible_h, tests.limits[1]),
    ):
        evidence[~possible] = np.maximum(evidence[~possible], limit)
    return tests


def _plausible_means(tests: Tests, g: int, best: list[int]) -> Floats:
    """Estimates (X, n), drawn to their mean, with the guessed arm of each task in the lead."""
    pulls, sums, noise = tests.pulls, tests.sums, tests.noise
    centre = (1 + sums.sum(axis=1, keepdims=True)) / (2 + pulls.sum(axis=1, keepdims=True))
    means: Floats = (sums + PRIOR * centre) / (pulls + PRIOR)
    H = tests.possible_h.shape[1] // tests.possible_g.size
    for x, h in enumerate(best):
        leader = g * H + h
        top = means[x, leader] if noise > 0 else np.clip(means[x, leader], 0.02, 0.99)
        # Arms that look alike are taken to differ by as much as could have been missed so far.
        spread = noise if noise > 0 else centre[x] * (1 - centre[x])
        error = np.sqrt(spread * (1 / (1 + pulls[x]) + 1 / (1 + pulls[x, leader])))
        means[x] = np.minimum(means[x], top - np.maximum(error, GAP))
        if noise == 0:
            means[x] = np.clip(means[x], 0.005, 0.985)
        means[x, leader] = top
    return means

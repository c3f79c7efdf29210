"""Where the hypotheses of a study stand: the evidence against each, and about how much is missing.

For policies that keep `osrl.hypotheses` (`osrl`, `uniform`). Others keep their evidence to themselves, and
have no standing.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from osrl.allocation import Needs, allocate, solve_afresh
from osrl.allocation.needs import PRIOR, lacking, separate
from osrl.allocation.program import build_program
from osrl.arrays import Floats, Integers
from osrl.families import Family
from osrl.hypotheses.possible import LIMIT_G, LIMIT_H, Hypotheses, refresh_evidence
from osrl.hypotheses.routes import aim
from osrl.hypotheses.words import (
    Arm,
    Claim,
    Hypothesis,
    Names,
    Objection,
    claim_of,
    find_as_good,
    find_objections,
    name_hypotheses,
)
from osrl.instance import Instance
from osrl.study.events import Verdict
from osrl.study.progress import Progress


class Standing(NamedTuple):
    """All that the hypotheses of a study say, but for the forecast."""

    hypotheses: tuple[Hypothesis, ...]
    claim: Claim | None
    objections: tuple[Objection, ...]
    as_good: tuple[Arm, ...]


def read_standing(progress: Progress, hypotheses: Hypotheses | None, guess: Verdict) -> Standing:
    """Where the `current` hypotheses stand; ``guess`` is the verdict or the best guess."""
    if hypotheses is None:
        return Standing((), None, (), ())
    created = progress.created
    names = Names(created.tasks, created.representations, created.predictors)
    objections = find_objections(hypotheses.by_task, hypotheses.possible_g, names)
    as_good = () if progress.verdict is None else find_as_good(hypotheses, names)
    return Standing(
        name_hypotheses(hypotheses, names), _claim(progress, hypotheses, guess), objections, as_good
    )


def read_hypotheses(progress: Progress) -> tuple[Hypothesis, ...]:
    """Every hypothesis with the evidence against it."""
    hypotheses, created = current(progress), progress.created
    names = Names(created.tasks, created.representations, created.predictors)
    return () if hypotheses is None else name_hypotheses(hypotheses, names)


def _claim(progress: Progress, hypotheses: Hypotheses, guess: Verdict) -> Claim | None:
    """What can be claimed for the best guess. None where there is no shared one."""
    if not hypotheses.possible_g.any() or None in guess.representations:
        return None
    g = progress.index_of(1, str(guess.representations[0]))
    best = [progress.index_of(2, str(name)) for name in guess.predictors]
    return claim_of(hypotheses, g, best, progress.created.tasks)


def current(progress: Progress) -> Hypotheses | None:
    """A copy of the hypotheses with every evidence up to date, for policies that keep any.

    Of two values the larger counts: with all trials, the pending ones at their worst, or with the first ones.
    """
    if progress.hypotheses is None:
        return None
    now = copy.copy(progress)
    now.state = copy.deepcopy(progress.state)
    if progress.verdict is None:
        now.count_pending()
    hypotheses: Hypotheses = now.state.stopping
    refresh_evidence(hypotheses)
    if progress.prefix is not None:
        first_g, first_h = progress.prefix.evidence()
        np.maximum(hypotheses.evidence_g, first_g, out=hypotheses.evidence_g)
        np.maximum(hypotheses.evidence_h, first_h, out=hypotheses.evidence_h)
    return hypotheses


def evidence_at_design(progress: Progress) -> dict[str, Floats]:
    """The arrays of a design that hold evidence, computed from the rewards so far; by new and old names."""
    if progress.hypotheses is None:
        return {}
    now = copy.deepcopy(progress.hypotheses)
    refresh_evidence(now)
    return {
        "stopping.evidence_g": now.evidence_g,
        "stopping.evidence": now.evidence,
        "hypotheses.evidence_g": now.evidence_g,
        "hypotheses.evidence": now.evidence,
        "tests.evidence_g": now.evidence_g,
        "tests.evidence_h": now.evidence_h,
    }


def expected_remaining(progress: Progress, hypotheses: Hypotheses | None, guess: Verdict) -> float | None:
    """About how many more samples the best allocation needs, if the means are as they look now.

    The joint program with residual needs: what each test lacks, log(1 / delta) + 1 - log E. None while
    there are fewer rewards than arms, and nothing looks like anything yet, and for other policies.
    """
    if progress.verdict is not None:
        return 0.0
    X, G, H = progress.shape
    if hypotheses is None or hypotheses.pulls.sum() < X * G * H:
        return None
    numbers = hypotheses.numbers
    g = progress.index_of(1, guess.representations[0] or progress.created.representations[0])
    best = [progress.index_of(2, name or progress.created.predictors[0]) for name in guess.predictors]
    need_g = np.zeros(G)
    need_h = np.zeros((X, H))
    for other in np.flatnonzero(hypotheses.possible_g):
        need_g[other] = lacking(numbers[LIMIT_G], hypotheses.evidence_g[other])
    for x, h in np.argwhere(hypotheses.possible_h[:, g * H : (g + 1) * H]):
        need_h[x, h] = lacking(numbers[LIMIT_H], hypotheses.evidence_h[x, g * H + h])
    need_g[g] = 0.0
    need_h[np.arange(X), best] = 0.0
    leaders = np.array([g * H + h for h in best])
    means = _plausible_means(hypotheses, leaders)
    if hypotheses.tolerance.within.size:
        return _remaining_within(hypotheses, g, leaders, means, need_g, need_h)
    if not need_g.any() and not need_h.any():
        return 0.0
    instance = Instance(
        means.reshape(X, G, H), Family("bounded") if hypotheses.noise == 0 else progress.family
    )
    return 1 / allocate(instance, Needs(need_g, need_h), tolerance=1e-2).lower


def _remaining_within(
    hypotheses: Hypotheses, g: int, leaders: Integers, means: Floats, need_g: Floats, need_h: Floats
) -> float:
    """The same, where arms may be out by the tolerance if that is shorter."""
    X, n = means.shape
    H = need_h.shape[1]
    needs = np.zeros((X, n))
    needs[:, g * H : (g + 1) * H] = need_h
    aim(hypotheses, g, leaders, means, need_g, needs)
    if not need_g.any() and not needs.any():
        return 0.0
    one_group = (np.ones((X, n)), np.zeros(X, np.int64), np.ones(1))
    program = build_program(means, leaders, need_g, needs, False, *one_group, 0.0, hypotheses.noise)
    return 1 / float(solve_afresh(program, 1e-2).lower)


def _plausible_means(hypotheses: Hypotheses, leaders: Integers) -> Floats:
    """Estimates (X, n), drawn to their mean, with the guessed arm of each task in the lead."""
    pulls, sums, noise = hypotheses.pulls, hypotheses.sums, hypotheses.noise
    centre = (1 + sums.sum(axis=1, keepdims=True)) / (2 + pulls.sum(axis=1, keepdims=True))
    means: Floats = (sums + PRIOR * centre) / (pulls + PRIOR)
    for x, leader in enumerate(leaders):
        separate(means[x], pulls[x], sums[x], leader, noise)
    return means

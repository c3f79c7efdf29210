"""The evidence against each hypothesis of a study, and what could be claimed by it.

It exists for policies that keep `osrl.hypotheses` (`osrl`, `uniform`).
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from osrl.hypotheses.refresh import refresh_evidence
from osrl.hypotheses.state import Hypotheses
from osrl.hypotheses.summary import (
    Arm,
    Claim,
    Hypothesis,
    Names,
    Objection,
    claim_of,
    find_as_good,
    find_objections,
    find_unchecked,
    name_hypotheses,
)
from osrl.model.arrays import Floats
from osrl.study.log.events import Verdict
from osrl.study.state.state import StudyState


class EvidenceReport(NamedTuple):
    """The evidence against every hypothesis of a study, and what could be claimed by it."""

    hypotheses: tuple[Hypothesis, ...]
    claim: Claim | None
    objections: tuple[Objection, ...]
    as_good: tuple[Arm, ...]
    unchecked: tuple[str, ...]


def read_evidence(state: StudyState, hypotheses: Hypotheses | None, guess: Verdict) -> EvidenceReport:
    """Return the evidence against the current hypotheses; ``guess`` is the verdict or the best guess."""
    if hypotheses is None:
        return EvidenceReport((), None, (), (), ())
    created = state.created
    names = Names(created.tasks, created.representations, created.predictors)
    objections = find_objections(hypotheses.by_task, hypotheses.possible_g, names)
    as_good = () if state.verdict is None else find_as_good(hypotheses, names)
    claim: Claim | None = None
    unchecked: tuple[str, ...] = ()
    if hypotheses.possible_g.any() and None not in guess.representations:
        g = state.index_of(1, str(guess.representations[0]))
        best = [state.index_of(2, str(name)) for name in guess.predictors]
        claim = claim_of(hypotheses, g, best, created.tasks)
        unchecked = find_unchecked(hypotheses, g, best, created.tasks)
    return EvidenceReport(name_hypotheses(hypotheses, names), claim, objections, as_good, unchecked)


def share_of_limit(hypothesis: Hypothesis) -> float:
    """Return how much of the evidence that rules out a hypothesis is there, from 0 to 1."""
    return min(max(hypothesis.log_evidence / hypothesis.limit, 0.0), 1.0)


def read_hypotheses(state: StudyState) -> tuple[Hypothesis, ...]:
    """Return every hypothesis with the evidence against it."""
    hypotheses, created = current_hypotheses(state), state.created
    names = Names(created.tasks, created.representations, created.predictors)
    return () if hypotheses is None else name_hypotheses(hypotheses, names)


def current_hypotheses(state: StudyState) -> Hypotheses | None:
    """Return a copy of the hypotheses with all evidence up to date, for policies that keep any.

    Of two values the larger counts: with all trials, the pending ones at their worst, or with the first ones.
    """
    if state.hypotheses is None:
        return None
    now = state.with_own_policy()
    if state.pending_sums is not None:
        now.pending_sums = state.pending_sums._replace(stale=np.ones_like(state.pending_sums.stale))
    if state.verdict is None:
        now.count_pending()
    hypotheses: Hypotheses = now.policy_state.stopping
    refresh_evidence(hypotheses)
    if state.in_order is not None:
        first_g, first_h = state.in_order.evidence()
        np.maximum(hypotheses.evidence_g, first_g, out=hypotheses.evidence_g)
        np.maximum(hypotheses.evidence_h, first_h, out=hypotheses.evidence_h)
    return hypotheses


def evidence_at_design(state: StudyState) -> dict[str, Floats]:
    """Return the arrays of a design that hold evidence, by new and old names, computed from the rewards so far."""
    if state.hypotheses is None:
        return {}
    now = copy.deepcopy(state.hypotheses)
    refresh_evidence(now)
    return {
        "stopping.evidence_g": now.evidence_g,
        "stopping.evidence": now.evidence,
        "hypotheses.evidence_g": now.evidence_g,
        "hypotheses.evidence": now.evidence,
        "tests.evidence_g": now.evidence_g,
        "tests.evidence_h": now.evidence_h,
    }

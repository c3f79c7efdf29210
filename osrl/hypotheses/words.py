"""Hypotheses, claims, objections and answers as people read them: by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from osrl.arrays import Flags, Floats
from osrl.hypotheses.possible import Hypotheses


class Names(NamedTuple):
    """What tasks, representations and predictors are called."""

    tasks: Sequence[str]
    representations: Sequence[str]
    predictors: Sequence[str]


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


class Answer(NamedTuple):
    """The best arms by name; ``representation`` is None where a policy that shares none finds several."""

    representation: str | None
    representations: Mapping[str, str | None]  # task -> representation
    predictors: Mapping[str, str | None]  # task -> predictor


def name_hypotheses(hypotheses: Hypotheses, names: Names) -> tuple[Hypothesis, ...]:
    """Every hypothesis, representations first; those about predictors of a rejected one are left out.

    What was rejected has reached its limit at some time, and is shown with no less.
    """
    limit_g, limit_h = map(float, hypotheses.limits)
    of_g, of_h = shown(hypotheses)
    possible_g, possible_h = hypotheses.possible_g, hypotheses.possible_h
    listed = [
        Hypothesis(None, name, None, float(of_g[g]), limit_g, not possible_g[g])
        for g, name in enumerate(names.representations)
    ]
    several = names.predictors if len(names.predictors) > 1 else ()
    for g in np.flatnonzero(possible_g).tolist():
        for x, task in enumerate(names.tasks):
            for h, predictor in enumerate(several):
                a = g * len(names.predictors) + h
                name, rejected = names.representations[g], not possible_h[x, a]
                listed.append(Hypothesis(task, name, predictor, float(of_h[x, a]), limit_h, rejected))
    return tuple(listed)


def shown(hypotheses: Hypotheses) -> tuple[Floats, Floats]:
    """The log evidence (G,) and (X, n) as it is shown: of what is rejected no less than the limit."""
    limit_g, limit_h = hypotheses.limits
    of_g, of_h = hypotheses.evidence_g.copy(), hypotheses.evidence_h.copy()
    of_g[~hypotheses.possible_g] = np.maximum(of_g[~hypotheses.possible_g], limit_g)
    of_h[~hypotheses.possible_h] = np.maximum(of_h[~hypotheses.possible_h], limit_h)
    return of_g, of_h


def claim_of(hypotheses: Hypotheses, g: int, predictors: Sequence[int], tasks: Sequence[str]) -> Claim:
    """What can be claimed for ``g`` and one of its predictors in each task: the least evidence of a rival."""
    of_g, of_h = shown(hypotheses)
    H = of_h.shape[1] // of_g.size
    own = of_h[:, g * H : (g + 1) * H]
    risks = {task: _risk(np.delete(own[x], predictors[x])) for x, task in enumerate(tasks)}
    return Claim(_risk(np.delete(of_g, g)), risks)


def _risk(evidence: Floats) -> float:
    """The risk at which all of these are rejected."""
    return float(np.exp(-max(evidence.min(initial=np.inf), 0.0)))


def find_objections(by_task: Floats, possible: Flags, names: Names) -> tuple[Objection, ...]:
    """For each representation that is ruled out, the task which says most against it; ``by_task`` (X, G)."""
    return tuple(
        Objection(
            names.representations[g], names.tasks[int(by_task[:, g].argmax())], float(by_task[:, g].max())
        )
        for g in np.flatnonzero(~possible).tolist()
    )

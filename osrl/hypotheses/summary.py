"""Hypotheses, claims, objections and answers as people read them: by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from osrl.hypotheses.model_check import is_check_open
from osrl.hypotheses.state import Hypotheses
from osrl.hypotheses.tolerance import EXACT_SHARES, PAIR_LIMIT_G, PAIR_LIMIT_H, pair_evidence
from osrl.model.arrays import Flags, Floats
from osrl.model.outcome import WITHIN


class Names(NamedTuple):
    """The names of tasks, representations and predictors."""

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


class Arm(NamedTuple):
    """An arm of a task, by name."""

    task: str
    representation: str
    predictor: str


class Answer(NamedTuple):
    """The best arms by name; ``representation`` is None where a policy that shares none finds several."""

    representation: str | None
    representations: Mapping[str, str | None]  # task -> representation
    predictors: Mapping[str, str | None]  # task -> predictor


def name_hypotheses(hypotheses: Hypotheses, names: Names) -> tuple[Hypothesis, ...]:
    """Return every hypothesis by name, representations first, without the predictors of rejected ones.

    What was rejected has reached its limit at some time, and is shown with no less.
    """
    limit_g, limit_h = map(float, hypotheses.limits)
    of_g, of_h = displayed_evidence(hypotheses)
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


def displayed_evidence(hypotheses: Hypotheses) -> tuple[Floats, Floats]:
    """Return the log evidence (G,) and (X, n) to display: no less than the limit for what is rejected."""
    limit_g, limit_h = hypotheses.limits
    of_g, of_h = hypotheses.evidence_g.copy(), hypotheses.evidence_h.copy()
    of_g[~hypotheses.possible_g] = np.maximum(of_g[~hypotheses.possible_g], limit_g)
    of_h[~hypotheses.possible_h] = np.maximum(of_h[~hypotheses.possible_h], limit_h)
    return of_g, of_h


def claim_of(hypotheses: Hypotheses, g: int, predictors: Sequence[int], tasks: Sequence[str]) -> Claim:
    """Return the risks at which ``g`` and one of its predictors in each task can be claimed.

    With a tolerance: that the answer is within it. A rival is then out by the shorter of two ways. With a
    model check, a study would end here only if that were passed at the same risk.
    """
    of_g, of_h = displayed_evidence(hypotheses)
    H = of_h.shape[1] // of_g.size
    own = of_h[:, g * H : (g + 1) * H]
    epsilon_g, epsilon_h = hypotheses.tolerance.epsilon
    if epsilon_g > 0:
        within = _within(hypotheses, g, predictors, PAIR_LIMIT_G).reshape(len(tasks), -1, H).min(axis=(0, 2))
        of_g = np.maximum(of_g + math.log(EXACT_SHARES[0]), within)
    if epsilon_h > 0:
        within = _within(hypotheses, g, predictors, PAIR_LIMIT_H)[:, g * H : (g + 1) * H]
        own = np.maximum(own + math.log(EXACT_SHARES[1]), within)
    risks = {task: _risk(np.delete(own[x], predictors[x])) for x, task in enumerate(tasks)}
    risk = _risk(np.delete(of_g, g))
    if of_g.size > 1:
        risk = max(risk, _unchecked_risk(hypotheses, g, predictors))
    return Claim(risk, risks)


def _unchecked_risk(hypotheses: Hypotheses, g: int, predictors: Sequence[int]) -> float:
    """Return the least risk at which a model check would let this answer pass in every task; 0 without one."""
    check = hypotheses.check
    if check is None:
        return 0.0
    _, X, n, *_ = check.wealth.shape
    least, limit = math.inf, float(check.limits[0])
    for x, b in np.ndindex(X, n):
        c = g * (n // hypotheses.possible_g.size) + predictors[x]
        if b != c:
            evidence = float(pair_evidence(check, x, b, c))
            least = min(least, max(evidence, limit) if check.within[x, b, c] else evidence)
    return float(min(1.0, max(n - 1, 1) * math.exp(-least)))


def find_unchecked(hypotheses: Hypotheses, g: int, predictors: Sequence[int], tasks: Sequence[str]) -> tuple[str, ...]:
    """Return the tasks in which the model check still lacks evidence for this answer; none without a check."""
    first = g * (hypotheses.possible_h.shape[1] // hypotheses.possible_g.size)
    return tuple(task for x, task in enumerate(tasks) if is_check_open(hypotheses.check, x, first + predictors[x]))


def _within(hypotheses: Hypotheses, g: int, predictors: Sequence[int], limit: int) -> Floats:
    """Return for each arm (X, n) ln(1 / risk) at which it is not better than the claimed arm by epsilon."""
    tolerance = hypotheses.tolerance
    X, n = hypotheses.possible_h.shape
    H = n // hypotheses.possible_g.size
    part = 1 - EXACT_SHARES[limit - PAIR_LIMIT_G]
    most = tolerance.numbers[limit]
    answers = max(n - H, 1) if limit == PAIR_LIMIT_G else max(H - 1, 1)
    standing = np.full((X, n), np.inf)
    for x, b in np.ndindex(X, n):
        c = g * H + predictors[x]
        if b != c:
            evidence = float(pair_evidence(tolerance, x, b, c))
            standing[x, b] = max(evidence, most) if tolerance.within[x, b, c] else evidence
    return standing - math.log(answers / part)


def find_as_good(hypotheses: Hypotheses, names: Names) -> tuple[Arm, ...]:
    """Return the arms that are as good as the answer, as far as one can tell, of a study ended by a tolerance.

    They were not ruled out exactly, and do not look worse by more than the tolerance.
    """
    outcome, as_good = hypotheses.outcome, []
    epsilons = hypotheses.tolerance.epsilon
    if outcome.status[0] != WITHIN:
        return ()
    X, n = hypotheses.possible_h.shape
    H = n // len(names.representations)
    for x in range(X):
        g, h = int(outcome.representation[0, x]), int(outcome.predictor[0, x])
        means = hypotheses.sums[x] / np.maximum(hypotheses.pulls[x], 1.0)
        for b in range(n):
            possible = hypotheses.possible_h[x, b] if b // H == g else hypotheses.possible_g[b // H]
            alike = means[b] >= means[g * H + h] - epsilons[1 if b // H == g else 0]
            if possible and alike and b != g * H + h:
                as_good.append(Arm(names.tasks[x], names.representations[b // H], names.predictors[b % H]))
    return tuple(as_good)


def _risk(evidence: Floats) -> float:
    """Return the risk at which all of these are rejected."""
    return float(np.exp(-max(evidence.min(initial=np.inf), 0.0)))


def find_objections(by_task: Floats, possible: Flags, names: Names) -> tuple[Objection, ...]:
    """Return for each ruled-out representation the task with most evidence against it; ``by_task`` (X, G)."""
    return tuple(
        Objection(names.representations[g], names.tasks[int(by_task[:, g].argmax())], float(by_task[:, g].max()))
        for g in np.flatnonzero(~possible).tolist()
    )

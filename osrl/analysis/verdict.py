"""The verdict on a table of trials that was collected elsewhere, by any rule: `analyse` and `judge`.

A table has a row for each trial, in the order in which they were handed out, with the probabilities of all
arms of its task where they are known (`osrl.analysis.trials`).

- With propensities the evidence is that of betting (`osrl.evidence.betting`), for any rewards in [0, 1]. A
  trial without a reward counts by its worst one, unless dropping out is declared to be ignorable.
- Without, it is that of counts (`osrl.evidence.counts`), for rewards in [0, 1] or Gaussian ones, whatever
  rule has chosen the arms, as long as their means stay the same. Trials without a reward are then left out:
  their dropping out has to be ignorable.

Both may be looked at after every row; a hypothesis that was rejected once stays rejected. They are those of a
study (`osrl.hypotheses`), and so is the rule by which they are rejected. The assumptions of each
are tested as far as the rows allow: that the arms of the rows follow the propensities (`osrl.evidence.missingness`),
and that means did not drift (`osrl.evidence.drift`). An alarm ends every claim.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Unpack

import numpy as np

from osrl.analysis.trials import Table, TableOptions, read_table
from osrl.errors import OsrlError
from osrl.evidence.drift import DRIFT_LEVEL, drift_evidence
from osrl.evidence.intervals import mean_intervals
from osrl.evidence.missingness import (
    COUNTED,
    LEFT_OUT,
    end_trial,
    issue_trial,
    log_odds,
    missingness_evidence,
    new_missingness_test,
)
from osrl.evidence.missingness import MISSINGNESS_LEVEL as WATCH_LEVEL
from osrl.hypotheses.refresh import best_guess, recount_all, refresh_evidence
from osrl.hypotheses.state import Hypotheses, new_hypotheses
from osrl.hypotheses.summary import (
    Answer,
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
from osrl.hypotheses.trials import forfeit_trial, observe_reward, ticket_size, write_trial_ticket
from osrl.model.arrays import Flags, Floats
from osrl.model.families import Family
from osrl.model.outcome import NO_SHARED, RUNNING, VERDICTS, WITHIN
from osrl.model.risks import read_risks, read_tolerances
from osrl.study.views.arms import COVERAGE, ArmEstimates, ArmRate, arm_rate, reconcile, tolerances

UNDECIDED = "undecided"


class AssumptionCheck(NamedTuple):
    """An assumption of the evidence, and the log evidence against it; from ``limit`` on nothing is claimed.

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
    """The verdict on a log, and the evidence for it: ``betting`` or ``counts``; ``missing`` rows have no reward.

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
    doubt: AssumptionCheck
    delta_g: float
    delta_h: float
    epsilon: tuple[float, float]
    as_good: tuple[Arm, ...]  # as the answer, within the tolerance
    claim: Claim | None  # for the best guess; None where nothing is claimed
    arms: tuple[ArmRate, ...]  # those with rows
    names: Names
    limits: tuple[float, float]  # of rewards, 0 and 1 but for bounded ones
    of_tasks: tuple[int, ...]  # rows of each task
    remarks: tuple[str, ...]  # for the reader


def analyse(
    log: Any,
    *,
    delta: float | None = None,
    delta_g: float | None = None,
    delta_h: float | None = None,
    epsilon: float | None = None,
    epsilon_g: float | None = None,
    epsilon_h: float | None = None,
    ignorable: bool = False,
    **options: Unpack[TableOptions],
) -> Analysis:
    """Return what a log of trials proves, whatever rule collected it; ``log`` is a frame, or a file.

    ``delta`` is both risks, 0.1 by default, and ``epsilon`` both tolerances. ``ignorable``: a missing reward
    says nothing about its value or, with propensities, about the arm. The other options are those
    of `osrl.analysis.trials.TableOptions`.

    >>> rows = [("north", "new", "a", 1)] * 60 + [("north", "old", "a", 0)] * 60
    >>> names = ["market", "design", "text", "bought"]
    >>> frame = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    >>> roles = dict(zip(("task", "representation", "predictor", "reward"), names))
    >>> analyse(frame, columns=roles).best.representation
    'new'
    """
    risks = read_risks(delta, delta_g, delta_h)
    tolerances = read_tolerances(epsilon, epsilon_g, epsilon_h)
    table = read_table(log, **options)
    return judge(table, delta_g=risks[0], delta_h=risks[1], epsilon=tolerances, ignorable=ignorable)


def judge(
    table: Table,
    *,
    delta_g: float,
    delta_h: float,
    epsilon: tuple[float, float] = (0.0, 0.0),
    ignorable: bool = False,
) -> Analysis:
    """Return what the rows of a table prove at these risks.

    ``epsilon``: the tolerances epsilon_g and epsilon_h, in the unit of the rewards before they were scaled.
    """
    missing = np.isnan(table.rewards)
    left_out = missing & (ignorable | table.ignorable)
    bets = table.propensities is not None and table.family.noise == 0
    if not bets and left_out.sum() < missing.sum():
        number = int(missing.sum())
        raise OsrlError(
            f"{number:,} {'row has' if number == 1 else 'rows have'} no reward, and counts have no worst "
            "case to fall back on; add the propensities of all arms, or --ignorable if a missing "
            "reward tells nothing about its value"
        )
    low, high = table.limits
    scaled = epsilon[0] / (high - low), epsilon[1] / (high - low)
    if table.family.noise == 0 and max(scaled) >= 1:
        raise OsrlError(f"a tolerance is {max(epsilon):g}, and rewards lie in [{low:g}, {high:g}]; give a smaller one")
    hypotheses = new_hypotheses(table.shape, table.family, (delta_g, delta_h), epsilon=scaled, by_counts=not bets)
    after = _replay_rows(hypotheses, table, left_out)
    doubt = _check_arms(table, left_out) if bets else _check_means(table)
    if doubt.alarm:
        after = None
    status = RUNNING if after is None else int(hypotheses.outcome.status[0])
    refresh_evidence(hypotheses)
    names = Names(table.task_names, table.representations, table.predictors)
    best = _answer(hypotheses, names)
    rewarded = _sums(table, ~missing)
    if status == RUNNING:
        best = _known_arms_of(best, rewarded, names)
    as_good = find_as_good(hypotheses, names) if status == WITHIN else ()
    near = scaled if status == WITHIN else (0.0, 0.0)
    return Analysis(
        verdict=UNDECIDED if status == RUNNING else VERDICTS[status],
        best=best,
        evidence="betting" if bets else "counts",
        family=table.family,
        rows=table.rewards.size,
        missing=int(missing.sum()),
        ignored=int(left_out.sum()),
        decided_after=after,
        hypotheses=name_hypotheses(hypotheses, names),
        objections=find_objections(hypotheses.by_task, hypotheses.possible_g, names),
        doubt=doubt,
        delta_g=delta_g,
        delta_h=delta_h,
        epsilon=epsilon,
        as_good=as_good,
        claim=None if doubt.alarm or status == NO_SHARED else _claim(hypotheses, names, best),
        arms=_rates(table, left_out, hypotheses, best, rewarded, near, doubt.alarm),
        names=names,
        limits=table.limits,
        of_tasks=tuple(np.bincount(table.tasks, minlength=table.shape[0]).tolist()),
        remarks=(*table.remarks, *_remarks(table, delta_g, delta_h)),
    )


def _remarks(table: Table, delta_g: float, delta_h: float) -> list[str]:
    """Return what a reader should know before believing an answer."""
    X, G, H = table.shape
    remarks = []
    if G * H == 1:
        remarks.append("there is only one arm, so nothing to find out; are all columns the right ones?")
    elif len(set(zip(table.tasks.tolist(), table.arms.tolist(), strict=True))) < X * G * H:
        remarks.append("some arms have no row in some task, and nothing can be said against them there")
    if max(delta_g, delta_h) > 0.5:
        remarks.append("a risk above 1/2 is worse than a guess between two; 0.05 and 0.1 are common")
    return remarks


def _claim(hypotheses: Hypotheses, names: Names, best: Answer) -> Claim | None:
    """Return the risks at which the best guess could be claimed."""
    if best.representation is None or None in best.predictors.values():
        return None
    predictors = [names.predictors.index(str(best.predictors[task])) for task in names.tasks]
    return claim_of(hypotheses, names.representations.index(best.representation), predictors, names.tasks)


def _check_arms(table: Table, left_out: Flags) -> AssumptionCheck:
    """Test whether the arms of the rows, and of those that are left out, follow the propensities."""
    assert table.propensities is not None
    X, G, H = table.shape
    watch = new_missingness_test(X, G * H)
    largest = 0.0
    for i in range(table.rewards.size):
        x, a, weights = int(table.tasks[i]), int(table.arms[i]), table.propensities[i]
        odds = log_odds(watch, x, a, weights)
        issue_trial(watch, odds)
        end_trial(watch, x, a, weights, odds, LEFT_OUT if left_out[i] else COUNTED)
        largest = max(largest, float(missingness_evidence(watch)))
    return AssumptionCheck("arms", largest, math.log(1 / WATCH_LEVEL))


def _check_means(table: Table) -> AssumptionCheck:
    """Test whether the means of the arms have stayed the same."""
    known = ~np.isnan(table.rewards)
    arms = table.tasks * (table.shape[1] * table.shape[2]) + table.arms
    found = drift_evidence(arms[known], table.rewards[known], table.family.noise)
    return AssumptionCheck("means", max(found, 0.0), math.log(1 / DRIFT_LEVEL))


def _replay_rows(hypotheses: Hypotheses, table: Table, left_out: Flags) -> int | None:
    """Process the rows in order; return after which one the answer is known, and may be believed."""
    ticket = np.zeros(ticket_size(hypotheses))
    outcome = hypotheses.outcome
    rows = np.flatnonzero(~left_out).tolist()
    for i in rows:
        x, a, reward = int(table.tasks[i]), int(table.arms[i]), float(table.rewards[i])
        if table.propensities is not None:
            write_trial_ticket(hypotheses, x, a, table.propensities[i], ticket)
        if np.isnan(reward):
            forfeit_trial(hypotheses, x, a, ticket)
        else:
            observe_reward(hypotheses, x, a, reward, ticket)
        if outcome.status[0] != RUNNING:
            return i + 1
    if rows and hypotheses.by_counts:
        recount_all(hypotheses)
        return int(rows[-1]) + 1 if outcome.status[0] != RUNNING else None
    return None


def _answer(hypotheses: Hypotheses, names: Names) -> Answer:
    """Return the answer, or the best guess."""
    outcome = hypotheses.outcome
    if outcome.status[0] == RUNNING:
        best_guess(hypotheses)
    best_g = [names.representations[g] for g in outcome.representation[0].tolist()]
    best_h = [names.predictors[h] for h in outcome.predictor[0].tolist()]
    shared = outcome.status[0] != NO_SHARED and len(set(best_g)) == 1
    return Answer(
        best_g[0] if shared else None,
        dict(zip(names.tasks, best_g, strict=True)),
        dict(zip(names.tasks, best_h, strict=True)),
    )


# Arms ---------------------------------------------------------------------------------------------


def _sums(table: Table, which: Flags, values: Floats | None = None) -> Floats:
    """Return for each arm (X, n) the number of rows, or the sum of their values."""
    X, G, H = table.shape
    place = table.tasks[which] * (G * H) + table.arms[which]
    weights = None if values is None else values[which]
    return np.bincount(place, weights, minlength=X * G * H).reshape(X, G * H).astype(float)


def _known_arms_of(guess: Answer, rewarded: Floats, names: Names) -> Answer:
    """Return the guess without arms that have no reward in a task: nothing is known of them."""
    known = {task: rewarded[x, _arm(guess, task, names)] > 0 for x, task in enumerate(names.tasks)}
    predictors = {task: h if known[task] else None for task, h in guess.predictors.items()}
    if guess.representation is not None:
        g, H = names.representations.index(guess.representation), len(names.predictors)
        if rewarded[:, g * H : (g + 1) * H].any():
            return guess._replace(predictors=predictors)
    own = {task: g if known[task] else None for task, g in guess.representations.items()}
    return Answer(None, own, predictors)


def _arm(answer: Answer, task: str, names: Names) -> int:
    """Return the index of the answer's arm in a task, -1 where there is none."""
    g, h = answer.representations[task], answer.predictors[task]
    if g is None or h is None:
        return -1
    return names.representations.index(g) * len(names.predictors) + names.predictors.index(h)


def _rates(
    table: Table,
    left_out: Flags,
    hypotheses: Hypotheses,
    best: Answer,
    rewarded: Floats,
    near: tuple[float, float],
    alarm: bool,
) -> tuple[ArmRate, ...]:
    """Return what every arm with rows has brought, with intervals that hold together (`osrl.study.views.arms`).

    A missing reward counts by its worst and its best, unless it is left out; ``near``: by how much an arm may
    be better than the answer. After an alarm there are no intervals.
    """
    names = Names(table.task_names, table.representations, table.predictors)
    rows = np.ones(table.rewards.size, np.bool_)
    missing = _sums(table, np.isnan(table.rewards) & ~left_out)
    total = _sums(table, ~np.isnan(table.rewards), table.rewards)
    number = rewarded + missing
    lower, upper = mean_intervals(number, total, total + missing, (1 - COVERAGE) / rewarded.size, table.family.noise)
    answers = np.array([_arm(best, task, names) for task in names.tasks])
    decided = hypotheses.outcome.status[0] not in (RUNNING, NO_SHARED)
    lower = reconcile(lower, upper, np.where(decided, answers, -1), tolerances(table.shape, answers, near), hypotheses)
    if alarm:
        lower[:], upper[:] = np.nan, np.nan
    with np.errstate(invalid="ignore"):
        means = total / rewarded
    rates = ArmEstimates(*(each.ravel() for each in (_sums(table, rows), rewarded, means, lower, upper)))
    n = rewarded.shape[1]
    found = []
    for i in np.flatnonzero(rates.trials).tolist():
        x, g, h = map(int, np.unravel_index(i, table.shape))
        c = int(x * n + answers[x]) if answers[x] >= 0 and rewarded[x, answers[x]] else None
        arm = names.tasks[x], names.representations[g], names.predictors[h]
        found.append(arm_rate(rates, arm, i, c, table.limits))
    return tuple(found)

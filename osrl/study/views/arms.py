"""The rates of a study: for every arm its trials, its mean, an interval, and the lift over the answer.

All intervals of a study hold at all times at once with probability `COVERAGE`, see `osrl.evidence.intervals`:
arms that came at the same time have equal shares of the rest, and those that came as the k-th group
6 / (pi k)^2 of it together, so that it is enough however many are added. A lift is the difference to the
answer's mean in the same task; its interval is that of the two.

They never contradict what the study has ruled out. Where they would, either a test or an interval is wrong, and it
cannot be known which; then the interval of the arm that was ruled out is extended until it agrees with the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from osrl.evidence.intervals import mean_intervals
from osrl.hypotheses.state import Hypotheses
from osrl.hypotheses.summary import Answer
from osrl.model.arrays import Floats, Integers
from osrl.study.log.events import ANSWERED, WITHIN, Verdict
from osrl.study.state.state import StudyState
from osrl.study.state.totals import LEFT_OUT, LOST, SUM, TOLD

COVERAGE = 0.95


class ArmRate(NamedTuple):
    """The results of an arm; None where nothing is known: no mean, no limit, no answer to compare with."""

    task: str
    representation: str
    predictor: str
    trials: int
    told: int
    mean: float | None
    lower: float | None
    upper: float | None
    lift: float | None
    lift_lower: float | None
    lift_upper: float | None


class ArmEstimates(NamedTuple):
    """Trials, rewards, means and intervals of arms by number; rewards are in [0, 1], or Gaussian."""

    trials: Floats
    told: Floats
    means: Floats
    lower: Floats
    upper: Floats


def estimate_arms(state: StudyState, guess: Verdict) -> tuple[ArmRate, ...]:
    """Return the rates of every arm, those that were withdrawn last; ``guess`` is the verdict or the best guess."""
    tally, noise = state.totals, state.family.noise
    told, total, lost, left_out = tally.counts[[TOLD, SUM, LOST, LEFT_OUT]]
    pending = np.zeros_like(told)
    for one in state.pending.values():
        pending[tally.arms[one.asked.task, one.asked.representation, one.asked.predictor]] += 1.0
    missing = pending + lost + (left_out if state.alarm else 0.0)
    if noise > 0.0:
        missing = np.zeros_like(told)  # they have no worst reward: that they are missing must tell nothing
    level = (1 - COVERAGE) * np.array(tally.shares)
    lower, upper = mean_intervals(told + missing, total, total + missing, level, noise)
    answers = _answers(state, guess)
    lower[tally.place] = reconcile(
        lower[tally.place],
        upper[tally.place],
        answers if state.status in ANSWERED else np.full(len(answers), -1),
        tolerances(state.shape, answers, state.created.tolerances) if state.status == WITHIN else 0.0,
        state.hypotheses,
    )
    rows = zip(state.created.tasks, tally.place, answers, strict=True)
    best = {task: int(place[a]) for task, place, a in rows if a >= 0 and told[place[a]]}
    with np.errstate(invalid="ignore"):
        means = total / told
    rates = ArmEstimates(told + pending + lost + left_out, told, means, lower, upper)
    limits = state.created.low, state.created.high
    found = [arm_rate(rates, names, i, best.get(names[0]), limits) for names, i in tally.arms.items()]
    used = set(tally.place.ravel().tolist())
    return tuple(sorted(found, key=lambda arm: tally.arms[arm[:3]] not in used))


def arm_rate(
    rates: ArmEstimates, names: tuple[str, str, str], i: int, c: int | None, limits: tuple[float, float]
) -> ArmRate:
    """Return the rate of arm ``i`` beside that of the answer ``c``, in the unit that has these limits."""
    trials, told, means, lower, upper = rates
    low, scale = limits[0], limits[1] - limits[0]
    lift: tuple[float, float, float] = (math.nan,) * 3
    if c is not None:
        lift = means[i] - means[c], lower[i] - upper[c], upper[i] - lower[c]
        lift = (0.0, 0.0, 0.0) if i == c else lift
    own = (low + scale * each for each in (means[i], lower[i], upper[i]))
    numbers = (*own, *(scale * each for each in lift))
    known = [float(each) if math.isfinite(each) else None for each in numbers]
    return ArmRate(*names, int(trials[i]), int(told[i]), *known)


def reconcile(
    lower: Floats, upper: Floats, answers: Integers, epsilon: Floats | float, hypotheses: Hypotheses | None
) -> Floats:
    """Return lower ends (X, n) that claim nothing against what is ruled out.

    ``answers`` (X,) are the arms that are answered, -1 where there is none; ``epsilon`` (X, n) by how much
    another arm may be better all the same.
    """
    lower = lower.copy()
    for x, c in enumerate(answers):
        if c >= 0:
            most = upper[x, c] + np.broadcast_to(epsilon, lower.shape)[x]
            others = np.arange(lower.shape[1]) != c
            lower[x, others] = np.minimum(lower[x], most)[others]
    if hypotheses is None:
        return lower
    X, G, H = len(lower), hypotheses.possible_g.size, lower.shape[1] // hypotheses.possible_g.size
    of_g, best = lower.reshape(X, G, H), upper.reshape(X, G, H)
    for x, g, h in np.argwhere(~hypotheses.possible_h.reshape(X, G, H)):
        of_g[x, g, h] = min(of_g[x, g, h], np.delete(best[x, g], h).max())
    for g in np.flatnonzero(~hypotheses.possible_g):
        most = np.delete(best, g, axis=1).max(axis=(1, 2), initial=-np.inf)
        if (of_g[:, g].max(axis=1) > most).all():  # it would be the best in every task
            of_g[:, g] = np.minimum(of_g[:, g], np.where(np.isfinite(most), most, np.inf)[:, None])
    return lower


def _answers(state: StudyState, guess: Verdict) -> Integers:
    """Return the arm of each task that is answered or guessed, -1 where there is none."""
    found = []
    for g, h in zip(guess.representations, guess.predictors, strict=True):
        arm = -1
        if g is not None and h is not None:
            arm = state.index_of(1, g) * state.shape[2] + state.index_of(2, h)
        found.append(arm)
    return np.array(found, np.int64)


def tolerances(shape: tuple[int, int, int], answers: Integers, epsilon: tuple[float, float]) -> Floats:
    """Return by how much each arm of a task may be better than the answer, (X, n)."""
    _, G, H = shape
    same = np.arange(G * H)[None, :] // H == answers[:, None] // H
    return np.where(same, epsilon[1], epsilon[0])


def tasks_beaten(arms: Sequence[ArmRate], best: Answer) -> list[str]:
    """Return the tasks in which another arm has a larger mean reward than that of the guess."""
    found = []
    for task in best.predictors:
        own = _arm_of(arms, best, task)
        means = [arm.mean for arm in arms if arm.task == task and arm.told and arm.mean is not None]
        if own is not None and own.told and own.mean is not None and own.mean < max(means):
            found.append(task)
    return found


def tasks_without_result(arms: Sequence[ArmRate], best: Answer) -> list[str]:
    """Return the tasks in which the arm of the guess has no result yet."""
    arms_of = ((task, _arm_of(arms, best, task)) for task in best.predictors)
    return [task for task, arm in arms_of if arm is None or not arm.told]


def _arm_of(arms: Sequence[ArmRate], best: Answer, task: str) -> ArmRate | None:
    name = task, best.representations[task], best.predictors[task]
    return next((arm for arm in arms if arm[:3] == name), None)

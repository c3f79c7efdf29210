"""Trials, rewards and answers, as people give and get them: by name."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple

from osrl.errors import OsrlError
from osrl.families import Family
from osrl.study.events import Asked, Created, Verdict


class Trial(NamedTuple):
    """A trial that was handed out: run it and tell its reward.

    ``propensity`` is the probability with which its arm was drawn, among the arms of its task.
    """

    id: int
    task: str
    representation: str
    predictor: str
    propensity: float


class Answer(NamedTuple):
    """The best arms by name; ``representation`` is None where a policy that shares none finds several."""

    representation: str | None
    representations: Mapping[str, str | None]  # task -> representation
    predictors: Mapping[str, str | None]  # task -> predictor


def new_trial(asked: Asked, created: Created) -> Trial:
    """The trial of an ask."""
    propensity = 1.0
    if asked.propensities is not None:
        g = created.representations.index(asked.representation)
        h = created.predictors.index(asked.predictor)
        propensity = asked.propensities[g * len(created.predictors) + h] / sum(asked.propensities)
    return Trial(asked.trial, asked.task, asked.representation, asked.predictor, propensity)


def trial_number(trial: object) -> int:
    """The number of a trial, from the trial or its number."""
    number = trial.id if isinstance(trial, Trial) else trial
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise OsrlError(f"the trial is {trial!r}; give a trial that was handed out, or its number")
    return int(number)


def read_reward(reward: Any, family: Family) -> float:
    """The reward as a number that the family can have."""
    try:
        value = None if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None or not family.accepts_reward(value):
        raise OsrlError(
            f"the reward is {reward!r}; give {family.reward_range}, as the {family.name} family has"
        )
    return value + 0.0  # no negative zero


def read_answer(created: Created, verdict: Verdict) -> Answer:
    """The answer of a verdict, or of a best guess."""
    found = set(verdict.representations)
    return Answer(
        found.pop() if len(found) == 1 else None,
        dict(zip(created.tasks, verdict.representations, strict=True)),
        dict(zip(created.tasks, verdict.predictors, strict=True)),
    )

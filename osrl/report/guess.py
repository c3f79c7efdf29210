"""The best guess of a study that is not decided: the answer that the least evidence speaks against.

It need not look best. Evidence is won by comparisons within a task, and multiplied over tasks, so an arm
with the largest mean reward may have more against it, and an arm without a result has nothing against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NAME = "Best guess (the least evidence against it)"

Arms = Sequence[Mapping[str, Any]]


def arms_left(document: Mapping[str, Any]) -> Arms:
    """Return the arms of a status document that were not withdrawn."""
    names = document["representations"], document["predictors"]
    return [arm for arm in document["arms"] if arm["representation"] in names[0] and arm["predictor"] in names[1]]


def looks_best(arms: Arms, best: Mapping[str, Any]) -> bool:
    """Return whether in every task no arm has a larger mean reward than that of the guess."""
    return not without_result(arms, best) and not beaten(arms, best)


def beaten(arms: Arms, best: Mapping[str, Any]) -> list[str]:
    """Return the tasks in which another arm has a larger mean reward than that of the guess."""
    found = []
    for task in best["predictors"]:
        own = _arm_of(arms, best, task)
        most = max((arm["mean"] for arm in arms if arm["task"] == task and arm["told"]), default=None)
        if own is not None and own["told"] and own["mean"] < most:
            found.append(task)
    return found


def without_result(arms: Arms, best: Mapping[str, Any]) -> list[str]:
    """Return the tasks in which the arm of the guess has no result yet."""
    arms_of = ((task, _arm_of(arms, best, task)) for task in best["predictors"])
    return [task for task, arm in arms_of if arm is None or not arm["told"]]


def _arm_of(arms: Arms, best: Mapping[str, Any], task: str) -> Mapping[str, Any] | None:
    name = task, best["representations"][task], best["predictors"][task]
    return next((arm for arm in arms if (arm["task"], arm["representation"], arm["predictor"]) == name), None)

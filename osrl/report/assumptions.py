"""What a claim rests on, in words: the model, and what evidence takes for granted besides it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from osrl.report.numbers import count
from osrl.study.views.status import Alarm, Status
from osrl.text import printable

SHARED = "one representation is the best in every task"
STEADY = "each arm's mean stayed the same"
SILENT = "results that are late or lost are so for reasons that have nothing to do with their value"


def assumed_by_study(status: Status) -> list[str]:
    """What the claims of a study rest on: with counts (Gaussian, tracking rules) more than with bets."""
    settings = status.settings
    by_bets = settings.family != "gaussian" and bool(status.hypotheses)
    assumed = [SHARED] if by_bets else [SHARED, STEADY, SILENT]
    if by_bets and status.left_out and (status.alarm is None or status.alarm.void):
        trials = "1 trial that was" if status.left_out == 1 else f"{status.left_out:,} trials that were"
        assumed.append(
            f"the loss of the {trials} left out depends neither on the reward nor on the arm, given the task"
        )
    return assumed


def describe_check(margin: float | None, unchecked: Sequence[str], verdict: str, delta_g: float) -> str | None:
    """What the model check has shown, or in which tasks it still lacks evidence; None where there is none.

    >>> describe_check(0.1, ["se"], "running", 0.05)
    'Model check: it still lacks evidence in se that no arm there beats the best guess by 0.1 or more'
    >>> describe_check(0.1, [], "decided", 0.05)[:32]
    'Model check passed in every task'
    """
    if margin is None or verdict == "no shared representation":
        return None
    if verdict in ("decided", "decided within the tolerance"):
        return (
            "Model check passed in every task: in each, the chance that the study decides for an answer "
            f"which some arm there beats by {margin:g} or more is at most {delta_g:g}, whether or not one "
            "representation is the best in every task"
        )
    that = f"that no arm there beats the best guess by {margin:g} or more"
    if not unchecked:
        return f"Model check: there is evidence in every task {that}"
    lacks = "still lacks" if verdict == "running" else "lacks"
    return f"Model check: it {lacks} evidence in {', '.join(unchecked)} {that}"


def alarm_document(alarm: Alarm | None) -> dict[str, Any] | None:
    """An alarm as JSON knows it."""
    if alarm is None:
        return None
    suspects = [each._asdict() for each in alarm.suspects]
    return {"log_evidence": alarm.log_evidence, "void": alarm.void, "suspects": suspects}


def describe_alarm(alarm: Alarm) -> str:
    """What is wrong with the losses, how sure that is, and what it means for the claim."""
    arms = "; ".join(
        f"({each.representation}, {each.predictor}) in {each.task}: {each.lost:,} of {each.ended:,} trials"
        for each in alarm.suspects
    )
    meaning = (
        "The verdict rests on these losses being ignorable: its risk is no longer guaranteed"
        if alarm.void
        else "Every loss now counts by its worst reward, so that no claim rests on leaving them out"
    )
    return printable(f"Alarm: losses depend on the arm ({chance(alarm.log_evidence)}). Lost: {arms}. {meaning}")


def chance(log_evidence: float) -> str:
    """How unlikely evidence is that speaks against what is true."""
    odds = math.exp(min(log_evidence, 700.0))
    return f"a chance of less than 1 in {count(odds) if odds < 1e9 else 'a billion'} otherwise"

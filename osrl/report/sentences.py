"""Sentences about studies, analyses and plans that several views share: answers, assumptions, alarms, forecasts.

What is claimed at which risk is in `osrl.report.claims`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from osrl.hypotheses.summary import Answer, Arm, Objection
from osrl.policies.registry import find
from osrl.report.numbers import DAY, count, duration
from osrl.study.log.events import ANSWERED, Created
from osrl.text import printable

if TYPE_CHECKING:  # remarks on a new study need nothing of these, which load much
    from osrl.study.views.forecast import Forecast
    from osrl.study.views.status import MissingnessAlarm, Status

SHARED = "one representation is the best in every task"
STEADY = "each arm's mean stayed the same"
SILENT = "results that are late or lost are so for reasons that have nothing to do with their value"
# It need not look best. Evidence is won by comparisons within a task, and multiplied over tasks, so the arm with the
# largest mean reward may have more against it, and an arm without a result has nothing against it.
LEAST_EVIDENCE_GUESS = "Best guess (the least evidence against it)"
MEANINGS = {
    "running": "the experiment goes on",
    "undecided": "the rows do not prove enough",
    "decided": "the answer is known",
    "decided within the tolerance": "no arm is better than the answer by more than that",
    "no shared representation": "the tasks do not share a best representation",
    "closed": "it was closed, and the answer is a best guess",
    "budget exhausted": "the budget is spent, and the answer is a best guess",
}


def describe_answer(word: str, answer: Answer) -> str:
    """Name an answer, or a guess."""
    if answer.representation is not None:
        arms = ", ".join(f"{h or 'none'} in {x}" for x, h in answer.predictors.items())
        return printable(f"{word}: representation {answer.representation}; predictors {arms}")
    arms = ", ".join(
        f"{'none' if g is None else f'({g}, {answer.predictors[x]})'} in {x}" for x, g in answer.representations.items()
    )
    return printable(f"{word}: {arms}")


def describe_as_good(arms: Sequence[Arm]) -> str:
    """Name the arms that are as good as the answer, within the tolerance."""
    tasks: dict[str, list[str]] = {}
    for arm in arms:
        tasks.setdefault(arm.task, []).append(f"({arm.representation}, {arm.predictor})")
    parts = (f"{', '.join(own)} in {task}" for task, own in tasks.items())
    return printable(f"As good, within the tolerance: {'; '.join(parts)}")


def describe_objections(objections: Sequence[Objection]) -> str:
    """Say which tasks conflict."""
    parts = (
        f"{each.task} speaks against {each.representation} (evidence {each.log_evidence:.2f})" for each in objections
    )
    return printable(f"The tasks pull apart: {'; '.join(parts)}")


def describe_stages(stages: int) -> str:
    """Say what the accepted risks of a study with several stages are about.

    >>> describe_stages(3)
    'The risks are those of this stage, given what went before; for 3 stages together at most 3 times these'
    """
    return (
        "The risks are those of this stage, given what went before; "
        f"for {stages:,} stages together at most {stages:,} times these"
    )


# Assumptions


def assumed_by_study(status: Status) -> list[str]:
    """List what the claims of a study rest on: with counts (Gaussian, tracking rules) more than with bets."""
    by_bets = status.settings.family != "gaussian" and bool(status.hypotheses)
    assumed = [SHARED] if by_bets else [SHARED, STEADY, SILENT]
    if by_bets and status.left_out and (status.alarm is None or status.alarm.void):
        trials = "1 trial that was" if status.left_out == 1 else f"{status.left_out:,} trials that were"
        assumed.append(
            f"the loss of the {trials} left out depends neither on the reward nor on the arm, given the task"
        )
    return assumed


def check_of(status: Status) -> str | None:
    """Say what the model check of a study has shown; None where there is nothing to say."""
    if status.is_void or not status.told:
        return None
    settings = status.settings
    return describe_check(settings.model_check, status.unchecked, status.verdict, settings.delta_g)


def describe_check(margin: float | None, unchecked: Sequence[str], verdict: str, delta_g: float) -> str | None:
    """Say what the model check has shown, or in which tasks it still lacks evidence; None without a check.

    >>> describe_check(0.1, ["se"], "running", 0.05)
    'Model check: it still lacks evidence in se that no arm there beats the best guess by 0.1 or more'
    >>> describe_check(0.1, [], "decided", 0.05)[:32]
    'Model check passed in every task'
    """
    if margin is None or verdict == "no shared representation":
        return None
    if verdict in ANSWERED:
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


def describe_alarm(alarm: MissingnessAlarm) -> str:
    """Say what is wrong with the losses, how sure that is, and what it means for the claim."""
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
    """Say how unlikely evidence against a true hypothesis is."""
    odds = math.exp(min(log_evidence, 700.0))
    return f"a chance of less than 1 in {count(odds) if odds < 1e9 else 'a billion'} otherwise"


def remarks(settings: Created) -> list[str]:
    """List what is odd about the settings of a study, one sentence each."""
    found = []
    if len(settings.representations) == len(settings.predictors) == 1:
        found.append("there is only one arm, so the answer is known before the first trial; add arms to compare")
    risk = max(settings.delta_g, settings.delta_h)
    if risk > 0.5:
        found.append(f"a risk of {risk:g} is worse than tossing a coin; 0.05 or 0.1 is usual")
    by_bets = settings.family != "gaussian" and find(settings.policy).given_tasks
    if settings.seed is not None and by_bets:  # counts are valid whoever chooses the arms
        found.append(
            f"arms are drawn by seed {settings.seed}, which the log shows: whoever knows it and chooses the "
            "tasks can choose the arms, and for such tasks the risks are not kept; "
            "create a study without a seed"
        )
    return found


# Forecasts


def describe_forecast(forecast: Forecast) -> str:
    """Say how long a study will still take.

    >>> from osrl.study.views.forecast import Forecast
    >>> describe_forecast(Forecast(120.0, 400.0, None, None, False, 40.0))
    'About 120 more trials; 40 to 400 in eight of ten simulated futures'
    >>> describe_forecast(Forecast(120.0, 400.0, 1.5, 5.0, False, 40.0, 0.5, 0.25))
    'About 120 more trials; 40 to 400 in eight of ten simulated futures, and the budget is enough in 25 %. \
At the pace so far: about 36 hours; 12 hours to 5 days'
    """
    median = count(forecast.median)
    if forecast.at_least and forecast.median == forecast.q90:
        return f"More than {median} more trials, in most simulated futures"
    said = f"About {median} more trials; {_span(count, forecast.q10, forecast.q90, forecast.at_least)} in "
    said += "eight of ten simulated futures" if forecast.q10 is not None else "nine of ten simulated futures"
    if forecast.in_budget is not None:
        said += f", and the budget is enough in {100 * forecast.in_budget:.0f} %"
    if forecast.days is None or forecast.days_90 is None:
        return said
    span = _span(days, forecast.days_10, forecast.days_90, forecast.at_least)
    return f"{said}. At the pace so far: about {days(forecast.days)}; {span}"


def days(number: float) -> str:
    """Write a number of days in the largest unit that fits."""
    return duration(DAY * number)


def _span(write: Callable[[float], str], low: float | None, high: float, open_above: bool) -> str:
    """Write the range from ``low``, where it is known, to ``high``."""
    if low is None:
        return f"{'over' if open_above else 'at most'} {write(high)}"
    return f"{write(low)} to {'more than ' if open_above else ''}{write(high)}"

"""The status of a study: a JSON document, and a report for the terminal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from osrl.report.assumptions import alarm_document, assumed_by_study, describe_alarm, describe_check
from osrl.report.claims import guarantee_of
from osrl.report.guess import NAME, without_result
from osrl.report.harm import HarmView
from osrl.report.hypotheses import (
    ENDINGS,
    HypothesesView,
    answer_document,
    chosen_by,
    claim_document,
    describe_answer,
    describe_as_good,
    describe_claim,
    describe_objections,
    describe_tolerance,
    hypotheses_document,
    write_risk,
)
from osrl.report.numbers import count
from osrl.report.rates import RatesView
from osrl.report.warnings import remarks
from osrl.study.log.events import as_datetime
from osrl.study.views.arms import COVERAGE
from osrl.study.views.forecast import Forecast
from osrl.study.views.status import PendingTrial, Status
from osrl.text import printable

LISTED = 12  # pending trials that are named

_MEANING = {
    "running": "the experiment goes on",
    "decided": "the answer is known",
    "decided within the tolerance": "no arm is better than the answer by more than that",
    "no shared representation": "the tasks do not share a best representation",
    "closed": "it was closed, and the answer is a best guess",
    "budget exhausted": "the budget is spent, and the answer is a best guess",
}


class StudyReport(NamedTuple):
    """What `osrl study status` shows; ``at`` is the time of looking."""

    place: str
    name: str
    status: Status
    at: datetime

    def document(self) -> dict[str, Any]:
        """The contract of `osrl study status --json`: names for indices, null for what is not known."""
        status, settings = self.status, self.status.settings
        return {
            "study": self.name,
            "place": self.place,
            "verdict": status.verdict,
            "best": answer_document(status.best),
            "trials": {
                "handed_out": status.handed_out,
                "told": status.told,
                "pending": status.waiting,
                "abandoned": status.abandoned,
            },
            "left_out": status.left_out,
            "pending": [pending_document(each) for each in status.pending],
            "pending_next": status.pending_next,
            "pending_ages": status.pending_ages._asdict(),
            "arms": [arm._asdict() for arm in status.arms],
            "coverage": COVERAGE,
            "harm_limit": settings.harm_limit,
            "harm": [each._asdict() for each in status.harm],
            "paused": status.paused,
            "since": status.since,
            "stages": status.stages,
            "without_data": list(status.without_data),
            "evidence": hypotheses_document(status.hypotheses),
            "claim": None if status.claim is None else claim_document(status.claim),
            "alarm": alarm_document(status.alarm),
            "assumed": assumed_by_study(status),
            "as_good": [each._asdict() for each in status.as_good],
            "objections": [each._asdict() for each in status.objections],
            "expected_remaining": status.expected_remaining,
            "remaining_90": None if status.forecast is None else status.forecast.q90,
            "forecast": None if status.forecast is None else status.forecast._asdict(),
            "policy": settings.policy,
            "threshold": settings.threshold,
            "options": dict(settings.options),
            "family": settings.family,
            "noise_sd": settings.noise_sd,
            "low": settings.low if settings.family == "bounded" else None,
            "high": settings.high if settings.family == "bounded" else None,
            "tasks": list(settings.tasks),
            "representations": list(settings.representations),
            "predictors": list(settings.predictors),
            "delta_g": settings.delta_g,
            "delta_h": settings.delta_h,
            "epsilon_g": settings.epsilon_g,
            "epsilon_h": settings.epsilon_h,
            "model_check": settings.model_check,
            "unchecked": list(status.unchecked),
            "seed": settings.seed,
            "budget": settings.budget,
            "remarks": remarks(settings),
            "head": status.head,
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What is decided, what is open, how far, how long still, and who has not reported."""
        yield self._heading()
        yield HypothesesView(self.status.hypotheses, self.status.best.representation)
        if self.status.told:
            yield RatesView(self.status.arms, self.status.best, self.status.verdict in ENDINGS)
        if self.status.harm and self.status.settings.harm_limit is not None:
            yield HarmView(self.status.harm, self.status.settings.harm_limit)
        yield self._pending()

    def _heading(self) -> Text:
        status, settings = self.status, self.status.settings
        verdict = Text.assemble(
            printable(f"Study {self.name} in {self.place}: "),
            (status.verdict, "bold green" if status.verdict in ENDINGS else "bold"),
            f" ({_MEANING[status.verdict]})\n",
        )
        tolerance = describe_tolerance(settings.epsilon_g, settings.epsilon_h)
        of_g = "representation, for each task alone" if settings.policy == "tas" else "representation"
        budget = "" if settings.budget is None else f" of at most {settings.budget:,}"
        lost = f", {status.abandoned:,} abandoned" if status.abandoned else ""
        lost += f" ({status.left_out:,} of them left out)" if status.left_out else ""
        verdict.append(
            f"Policy {settings.policy}; accepted risks {settings.delta_g:g} ({of_g}) and "
            f"{settings.delta_h:g} (each predictor){tolerance}\n"
            f"Trials: {status.handed_out:,}{budget} handed out, {status.told:,} told, "
            f"{status.waiting:,} pending{lost}\n"
        )
        if status.paused is not None and status.verdict == "running":
            verdict.append(printable(f"Paused: {status.paused}"), "bold")
            verdict.append("\n")
        if status.since > 1:
            verdict.append(f"Arms were withdrawn or added: evidence counts from trial {status.since:,} on\n")
            verdict.append(f"{describe_stages(status.stages)}\n")
        guess = NAME if status.hypotheses and status.since == 1 else "Best guess"
        word = "Answer" if status.verdict in ENDINGS else guess
        verdict.append(describe_answer(word, status.best) if status.told else "Nothing is known yet")
        arms = [arm._asdict() for arm in status.arms]
        missing = set(without_result(arms, answer_document(status.best))) - set(status.without_data)
        if status.told and missing:
            verdict.append(printable(f"; it has no result yet in {', '.join(sorted(missing))}"))
        if status.told and status.without_data:
            verdict.append("\n" + printable(f"Nothing was told yet in {', '.join(status.without_data)}"))
        if status.as_good:
            verdict.append(f"\n{describe_as_good(status.as_good)}")
        epsilon = settings.epsilon_g, settings.epsilon_h
        chosen = chosen_by(status.best, settings.predictors, epsilon)
        if status.verdict in ENDINGS and (status.alarm is None or not status.alarm.void):
            shape = (len(settings.tasks), len(settings.representations), len(settings.predictors))
            delta = settings.delta_g, settings.delta_h
            said = guarantee_of(settings.policy, status.verdict, chosen, shape, delta, write_risk)
            verdict.append(f"\n{printable(said)}")
        elif status.verdict not in ENDINGS and chosen is not None and status.told and status.claim is not None:
            verdict.append(f"\n{describe_claim(status.claim, chosen)}")
        if status.verdict == "no shared representation" and status.objections:
            verdict.append(f"\n{describe_objections(status.objections)}")
        if status.verdict == "running" and status.forecast is not None:
            verdict.append(f"\n{describe_forecast(status.forecast)}")
        if status.alarm is not None:
            verdict.append(f"\n{describe_alarm(status.alarm)}", "bold red")
        verdict.append(f"\nThis holds if {'; '.join(assumed_by_study(status))}")
        check = describe_check(settings.model_check, status.unchecked, status.verdict, settings.delta_g)
        if check is not None and status.told and (status.alarm is None or not status.alarm.void):
            verdict.append("\n" + printable(check))
        for remark in remarks(settings):
            verdict.append(f"\nNote: {remark}")
        if not status.hypotheses:
            verdict.append("\nThis policy has no evidence for single hypotheses to show")
        verdict.append(f"\nHead of the log: {status.head}")
        return verdict

    def _pending(self) -> Text:
        pending = self.status.pending
        if not pending:
            return Text("")
        lines = [
            printable(f"  trial {trial.id}: {trial.representation}, {trial.predictor} in {trial.task}, ")
            + f"for {_age(trial, self.at)}{', overdue' if trial.overdue else ''}"
            for trial in pending[:LISTED]
        ]
        if self.status.waiting > len(lines):
            lines.append(f"  and {self.status.waiting - len(lines):,} more")
        return Text("\nNot reported yet, longest first\n" + "\n".join(lines))


def pending_document(trial: PendingTrial) -> dict[str, Any]:
    """A trial that has not reported, as `osrl study status --json` shows it."""
    return {
        "trial": trial.id,
        "task": trial.task,
        "representation": trial.representation,
        "predictor": trial.predictor,
        "propensity": trial.propensity,
        "token": trial.token,
        "key": trial.key,
        "note": None if trial.note is None else dict(trial.note),
        "asked_at": as_datetime(trial.asked_at).isoformat(),
        "until": None if trial.until is None else as_datetime(trial.until).isoformat(),
        "overdue": trial.overdue,
    }


def describe_stages(stages: int) -> str:
    """Say what the accepted risks of a study with several stages are about.

    >>> describe_stages(3)
    'The risks are those of this stage, given what went before; for 3 stages together at most 3 times these'
    """
    return (
        "The risks are those of this stage, given what went before; "
        f"for {stages:,} stages together at most {stages:,} times these"
    )


def describe_forecast(forecast: Forecast) -> str:
    """How long it still takes, in a sentence.

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
    span = _span(_in_days, forecast.days_10, forecast.days_90, forecast.at_least)
    return f"{said}. At the pace so far: about {_in_days(forecast.days)}; {span}"


def _span(write: Callable[[float], str], low: float | None, high: float, open_above: bool) -> str:
    """From ``low``, where it is known, to ``high``."""
    if low is None:
        return f"{'over' if open_above else 'at most'} {write(high)}"
    return f"{write(low)} to {'more than ' if open_above else ''}{write(high)}"


def _in_days(days: float) -> str:
    return in_words(86400 * days)


def _age(trial: PendingTrial, at: datetime) -> str:
    """How long a trial has been out."""
    return in_words(max((at - as_datetime(trial.asked_at)).total_seconds(), 0.0))


def in_words(seconds: float) -> str:
    """A time in the largest unit that fits.

    >>> in_words(1.2), in_words(100), in_words(7200), in_words(0.2)
    ('1 second', '100 seconds', '2 hours', '0 seconds')
    """
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} second{'' if round(seconds) == 1 else 's'}"

"""The status of a study: a JSON document, and a report for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from osrl.hypotheses.summary import Hypothesis
from osrl.report.claims import chosen_by, describe_claim, guarantee_by
from osrl.report.numbers import age, describe_tolerance, finite, risk
from osrl.report.sentences import (
    LEAST_EVIDENCE_GUESS,
    MEANINGS,
    assumed_by_study,
    check_of,
    describe_alarm,
    describe_answer,
    describe_as_good,
    describe_forecast,
    describe_objections,
    describe_stages,
    remarks,
)
from osrl.report.study_tables import ArmsView, HarmView, HypothesesView
from osrl.study.log.events import as_datetime, now
from osrl.study.views.arms import COVERAGE
from osrl.study.views.status import MissingnessAlarm, PendingTrial, Status
from osrl.text import printable

MAX_PENDING_LISTED = 12  # pending trials that are named


class StudyReport(NamedTuple):
    """The status of a study, as `osrl study status` shows it."""

    place: str
    name: str
    status: Status

    def document(self) -> dict[str, Any]:
        """Return the document of `osrl study status --json`: names for indices, null for what is not known."""
        status, settings = self.status, self.status.settings
        return {
            "study": self.name,
            "place": self.place,
            "verdict": status.verdict,
            "best": status.best._asdict(),
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
            "claim": None if status.claim is None else status.claim._asdict(),
            "alarm": _alarm_document(status.alarm),
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
        """Print what is decided, what is open, how far, how long still, and which trials are out."""
        yield self._heading()
        yield HypothesesView(self.status.hypotheses, self.status.best.representation)
        if self.status.told:
            yield ArmsView(self.status.arms, self.status.best, self.status.is_answered)
        if self.status.harm and self.status.settings.harm_limit is not None:
            yield HarmView(self.status.harm, self.status.settings.harm_limit)
        yield self._pending()

    def _heading(self) -> Text:
        status, settings = self.status, self.status.settings
        verdict = Text.assemble(
            printable(f"Study {self.name} in {self.place}: "),
            (status.verdict, "bold green" if status.is_answered else "bold"),
            f" ({MEANINGS[status.verdict]})\n",
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
        guess = LEAST_EVIDENCE_GUESS if status.hypotheses and status.since == 1 else "Best guess"
        word = "Answer" if status.is_answered else guess
        verdict.append(describe_answer(word, status.best) if status.told else "Nothing is known yet")
        if status.told and (missing := status.guess_without_result):
            verdict.append(printable(f"; it has no result yet in {', '.join(sorted(missing))}"))
        if status.told and status.without_data:
            verdict.append("\n" + printable(f"Nothing was told yet in {', '.join(status.without_data)}"))
        if status.as_good:
            verdict.append(f"\n{describe_as_good(status.as_good)}")
        chosen = chosen_by(status)
        if status.is_answered and not status.is_void:
            verdict.append(f"\n{printable(guarantee_by(status, risk))}")
        elif not status.is_answered and chosen is not None and status.told and status.claim is not None:
            verdict.append(f"\n{describe_claim(status.claim, chosen)}")
        if status.verdict == "no shared representation" and status.objections:
            verdict.append(f"\n{describe_objections(status.objections)}")
        if status.verdict == "running" and status.forecast is not None:
            verdict.append(f"\n{describe_forecast(status.forecast)}")
        if status.alarm is not None:
            verdict.append(f"\n{describe_alarm(status.alarm)}", "bold red")
        verdict.append(f"\nThis holds if {'; '.join(assumed_by_study(status))}")
        if (check := check_of(status)) is not None:
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
            + f"for {age(trial.asked_at, now())}{', overdue' if trial.overdue else ''}"
            for trial in pending[:MAX_PENDING_LISTED]
        ]
        if self.status.waiting > len(lines):
            lines.append(f"  and {self.status.waiting - len(lines):,} more")
        return Text("\nNot reported yet, longest first\n" + "\n".join(lines))


def pending_document(trial: PendingTrial) -> dict[str, Any]:
    """Return a trial that has not reported, as `osrl study status --json` has it."""
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


def hypotheses_document(hypotheses: Sequence[Hypothesis]) -> list[dict[str, Any]]:
    """Return the hypotheses as JSON has them: null for infinite evidence."""
    return [{**test._asdict(), "log_evidence": finite(test.log_evidence)} for test in hypotheses]


def _alarm_document(alarm: MissingnessAlarm | None) -> dict[str, Any] | None:
    """Return an alarm as JSON has it."""
    if alarm is None:
        return None
    suspects = [each._asdict() for each in alarm.suspects]
    return {"log_evidence": alarm.log_evidence, "void": alarm.void, "suspects": suspects}

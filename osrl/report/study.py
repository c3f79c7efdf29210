"""The status of a study: a JSON document, and a report for the terminal."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from osrl.report.numbers import count
from osrl.study.standing import Hypothesis
from osrl.study.status import PendingTrial, Status

BAR = 20  # characters of a full bar
LISTED = 12  # pending trials that are named
MOST_PREDICTORS = 40  # tests of predictors up to which all are shown; then only those of the best guess

_MEANING = {
    "running": "the experiment goes on",
    "decided": "the answer is known",
    "no shared representation": "the tasks do not share a best representation",
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
            "best": {
                "representation": status.best.representation,
                "representations": dict(status.best.representations),
                "predictors": dict(status.best.predictors),
            },
            "trials": {
                "handed_out": status.handed_out,
                "told": status.told,
                "pending": len(status.pending),
                "abandoned": status.abandoned,
            },
            "pending": [
                {**each._asdict(), "asked_at": _moment(each.asked_at).isoformat()} for each in status.pending
            ],
            "evidence": [_plain(hypothesis) for hypothesis in status.hypotheses],
            "expected_remaining": _finite(status.expected_remaining),
            "policy": settings.policy,
            "threshold": settings.threshold,
            "options": dict(settings.options),
            "family": settings.family,
            "noise_sd": settings.noise_sd,
            "tasks": list(settings.tasks),
            "representations": list(settings.representations),
            "predictors": list(settings.predictors),
            "delta_g": settings.delta_g,
            "delta_h": settings.delta_h,
            "seed": settings.seed,
            "budget": settings.budget,
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What is decided, what is open, how far, how long still, and who has not reported."""
        yield self._heading()
        full, empty = ("#", ".") if options.ascii_only else ("█", "░")
        for title, tests in self._tests():
            yield Text(f"\n{title}")
            yield _table(tests, full, empty)
        yield self._pending()

    def _heading(self) -> Text:
        status, settings = self.status, self.status.settings
        verdict = Text.assemble(
            f"Study {self.name} in {self.place}: ",
            (status.verdict, "bold green" if status.verdict == "decided" else "bold"),
            f" ({_MEANING[status.verdict]})\n",
        )
        budget = "" if settings.budget is None else f" of at most {settings.budget:,}"
        lost = f", {status.abandoned:,} abandoned" if status.abandoned else ""
        verdict.append(
            f"Policy {settings.policy}; accepted risks {settings.delta_g:g} (representation) and "
            f"{settings.delta_h:g} (each predictor)\n"
            f"Trials: {status.handed_out:,}{budget} handed out, {status.told:,} told, "
            f"{len(status.pending):,} pending{lost}\n"
        )
        verdict.append(self._answer())
        if status.verdict == "running" and status.expected_remaining is not None:
            verdict.append(f"\nAbout {count(status.expected_remaining)} more trials, as it looks now")
        return verdict

    def _answer(self) -> str:
        best = self.status.best
        if self.status.told == 0:
            return "Nothing is known yet"
        word = "Answer" if self.status.verdict == "decided" else "Best guess"
        if best.representation is not None:
            arms = ", ".join(f"{h} in {x}" for x, h in best.predictors.items())
            return f"{word}: representation {best.representation}; predictors {arms}"
        arms = ", ".join(f"({g}, {best.predictors[x]}) in {x}" for x, g in best.representations.items())
        return f"{word}: {arms}"

    def _tests(self) -> list[tuple[str, list[Hypothesis]]]:
        """The tests in the order of reading: representations, then the predictors of those still possible."""
        tests = self.status.hypotheses
        if not tests:
            return []
        groups = [("Which representation is the best?", [test for test in tests if test.predictor is None])]
        predictors = [test for test in tests if test.predictor is not None]
        if len(predictors) > MOST_PREDICTORS:
            predictors = [
                test for test in predictors if test.representation == self.status.best.representation
            ]
        for g in dict.fromkeys(test.representation for test in predictors):
            own = [test for test in predictors if test.representation == g]
            groups.append((f"Which predictor of {g} is the best?", own))
        return groups

    def _pending(self) -> Text:
        pending = self.status.pending
        if not pending:
            return Text("")
        lines = [
            f"  trial {trial.id}: {trial.representation}, {trial.predictor} in {trial.task}, "
            f"for {_age(trial, self.at)}"
            for trial in pending[:LISTED]
        ]
        if len(pending) > LISTED:
            lines.append(f"  and {len(pending) - LISTED:,} more")
        return Text("\nNot reported yet, longest first\n" + "\n".join(lines))


def _table(tests: list[Hypothesis], full: str, empty: str) -> Table:
    """One row for each hypothesis: how close it is to being rejected."""
    table = Table(box=SIMPLE, padding=(0, 2, 0, 0), pad_edge=False)
    if tests[0].predictor is not None:
        table.add_column("task")
    table.add_column("hypothesis", style="bold")
    table.add_column("evidence against", justify="right")
    table.add_column("limit", justify="right")
    table.add_column("")
    table.add_column("")
    for test in tests:
        share = 1.0 if test.rejected else min(max(test.log_evidence / test.limit, 0.0), 1.0)
        bar = round(BAR * share)
        cells = [test.representation if test.predictor is None else test.predictor]
        table.add_row(
            *([] if test.task is None else [test.task]),
            *cells,
            f"{test.log_evidence:.2f}",
            f"{test.limit:.2f}",
            Text(full * bar + empty * (BAR - bar), style="dim" if test.rejected else "blue"),
            "ruled out" if test.rejected else "possible",
        )
    return table


def _plain(hypothesis: Hypothesis) -> dict[str, Any]:
    return {**hypothesis._asdict(), "log_evidence": _finite(hypothesis.log_evidence)}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1e6, UTC)


def _age(trial: PendingTrial, at: datetime) -> str:
    """How long a trial has been out, in the largest unit that fits."""
    seconds = max((at - _moment(trial.asked_at)).total_seconds(), 0.0)
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"

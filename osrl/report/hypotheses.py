"""Hypotheses and answers, as studies and analyses show them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from osrl.study.standing import Hypothesis
from osrl.study.trial import Answer

BAR = 20  # characters of a full bar
MOST_PREDICTORS = 40  # tests of predictors up to which all are shown; then only those of the best guess


class HypothesesView(NamedTuple):
    """How close each hypothesis is to being ruled out; ``best`` is the representation that looks best."""

    hypotheses: Sequence[Hypothesis]
    best: str | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table for the representations, and one for the predictors of each that is left."""
        full, empty = ("#", ".") if options.ascii_only else ("█", "░")
        for title, tests in self._groups():
            yield Text(f"\n{title}")
            yield _table(tests, full, empty)

    def _groups(self) -> list[tuple[str, list[Hypothesis]]]:
        """The tests in the order of reading."""
        representations = [test for test in self.hypotheses if test.predictor is None]
        predictors = [test for test in self.hypotheses if test.predictor is not None]
        if len(predictors) > MOST_PREDICTORS:
            predictors = [test for test in predictors if test.representation == self.best]
        groups = [("Which representation is the best?", representations)] if representations else []
        for g in dict.fromkeys(test.representation for test in predictors):
            own = [test for test in predictors if test.representation == g]
            groups.append((f"Which predictor of {g} is the best?", own))
        return groups


def _table(tests: list[Hypothesis], full: str, empty: str) -> Table:
    """One row for each hypothesis."""
    table = Table(box=SIMPLE, padding=(0, 2, 0, 0), pad_edge=False)
    if tests[0].task is not None:
        table.add_column("task")
    table.add_column("hypothesis", style="bold")
    table.add_column("evidence against", justify="right")
    table.add_column("limit", justify="right")
    table.add_column("")
    table.add_column("")
    for test in tests:
        share = 1.0 if test.rejected else min(max(test.log_evidence / test.limit, 0.0), 1.0)
        bar = round(BAR * share)
        table.add_row(
            *([] if test.task is None else [test.task]),
            test.predictor or test.representation,
            f"{test.log_evidence:.2f}",
            f"{test.limit:.2f}",
            Text(full * bar + empty * (BAR - bar), style="dim" if test.rejected else "blue"),
            "ruled out" if test.rejected else "possible",
        )
    return table


def hypotheses_document(hypotheses: Sequence[Hypothesis]) -> list[dict[str, Any]]:
    """The hypotheses as JSON knows them: null for an infinite evidence."""
    return [{**test._asdict(), "log_evidence": finite(test.log_evidence)} for test in hypotheses]


def answer_document(answer: Answer) -> dict[str, Any]:
    """An answer as JSON knows it."""
    return {
        "representation": answer.representation,
        "representations": dict(answer.representations),
        "predictors": dict(answer.predictors),
    }


def describe_answer(word: str, answer: Answer) -> str:
    """An answer in a sentence."""
    if answer.representation is not None:
        arms = ", ".join(f"{h} in {x}" for x, h in answer.predictors.items())
        return f"{word}: representation {answer.representation}; predictors {arms}"
    arms = ", ".join(f"({g}, {answer.predictors[x]}) in {x}" for x, g in answer.representations.items())
    return f"{word}: {arms}"


def finite(value: float | None) -> float | None:
    """The value, or None where JSON has no word for it."""
    return value if value is not None and math.isfinite(value) else None

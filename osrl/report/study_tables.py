"""Tables of a study on the terminal: hypotheses, arms and harm."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from osrl.hypotheses.summary import Answer, Hypothesis
from osrl.report.numbers import ascii_decimal, ascii_interval, progress_percent
from osrl.report.table import new_table
from osrl.study.state.harm import LEVEL, HarmOf
from osrl.study.views.arms import COVERAGE, ArmRate
from osrl.study.views.evidence import share_of_limit
from osrl.text import printable

BAR = 16  # characters of a full bar
MAX_PREDICTORS = 12  # hypotheses on predictors up to which all are shown; then only those of the best guess
MAX_ARMS = 24  # arms up to which all are shown; then only those of the best guess


class HypothesesView(NamedTuple):
    """Hypotheses and how close each is to being ruled out; ``best`` is the representation of the guess."""

    hypotheses: Sequence[Hypothesis]
    best: str | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print a table for the representations, and one for the predictors of each that is left."""
        full, empty = ("#", ".") if options.ascii_only else ("█", "░")
        for title, tests in self._groups():
            yield Text(f"\n{printable(title)}")
            yield _hypotheses_table(tests, full, empty)

    def _groups(self) -> list[tuple[str, list[Hypothesis]]]:
        """Return the hypotheses in the order of reading."""
        representations = [test for test in self.hypotheses if test.predictor is None]
        predictors = [test for test in self.hypotheses if test.predictor is not None]
        if len(predictors) > MAX_PREDICTORS:
            predictors = [test for test in predictors if test.representation == self.best]
        groups = [("Which representation is the best?", representations)] if representations else []
        for g in dict.fromkeys(test.representation for test in predictors):
            own = [test for test in predictors if test.representation == g]
            groups.append((f"Which predictor of {g} is the best?", own))
        return groups


def _hypotheses_table(tests: list[Hypothesis], full: str, empty: str) -> Table:
    """Return a row for each hypothesis: how close it is to its limit, then the numbers behind that."""
    table = new_table()
    if tests[0].task is not None:
        table.add_column("task")
    table.add_column("hypothesis", style="bold")
    table.add_column("way to the limit", justify="right")
    table.add_column("")
    table.add_column("")
    table.add_column("ln evidence against", justify="right")
    table.add_column("limit", justify="right")
    left = Counter(test.task for test in tests if not test.rejected)
    for test in tests:
        share = 1.0 if test.rejected else min(share_of_limit(test), 0.99)
        bar = round(BAR * share)
        open_still = "possible" if left[test.task] > 1 else "the only one left"
        table.add_row(
            *([] if test.task is None else [Text(printable(test.task))]),
            Text(printable(test.predictor or test.representation)),
            progress_percent(share, test.rejected),
            Text(full * bar + empty * (BAR - bar), style="dim" if test.rejected else "blue"),
            "ruled out" if test.rejected else open_still,
            f"{test.log_evidence:.2f}" if math.isfinite(test.log_evidence) else "-",
            f"{test.limit:.2f}",
        )
    return table


class ArmsView(NamedTuple):
    """The results of every arm; ``best`` is the answer, or the best guess while it is not ``known``."""

    arms: Sequence[ArmRate]
    best: Answer
    known: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print one row for each arm."""
        arms = [arm for arm in self.arms if len(self.arms) <= MAX_ARMS or self._leads(arm)]
        hidden = len(self.arms) - len(arms)
        rest = f"; {hidden} more arms with --json or `export --arms`" if hidden else ""
        yield Text(f"\nWhat the arms have brought ({COVERAGE:.0%} for all intervals together, at all times{rest})")
        table = new_table()
        table.add_column("task")
        table.add_column("arm")
        for title in ("told", "mean", "interval", "lift", "interval of the lift"):
            table.add_column(title, justify="right")
        word = "the answer" if self.known else "best guess"
        for arm in arms:
            answer = self._is_best(arm)
            table.add_row(
                Text(printable(arm.task)),
                Text(printable(f"{arm.representation}, {arm.predictor}"), style="bold" if answer else ""),
                f"{arm.told:,} of {arm.trials:,}",
                ascii_decimal(arm.mean),
                ascii_interval(arm.lower, arm.upper),
                "" if answer else ascii_decimal(arm.lift, "+"),
                word if answer else ascii_interval(arm.lift_lower, arm.lift_upper, "+"),
            )
        yield table

    def _leads(self, arm: ArmRate) -> bool:
        return arm.representation == self.best.representations.get(arm.task)

    def _is_best(self, arm: ArmRate) -> bool:
        return self._leads(arm) and arm.predictor == self.best.predictors.get(arm.task)


class HarmView(NamedTuple):
    """The harm of representations and predictors, beside its limit."""

    harm: Sequence[HarmOf]
    limit: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print one row for each representation, then for each predictor."""
        yield Text(f"\nHarm, at most {self.limit:g} on average (withdrawn at evidence {1 / LEVEL:g} of more)")
        table = new_table()
        table.add_column("")
        for title in ("told", "mean", "not known", "evidence"):
            table.add_column(title, justify="right")
        for each in self.harm:
            mean = "" if each.mean is None else f"{each.mean:.3f}"
            name = Text(printable(f"{each.kind} {each.name}"))
            table.add_row(name, f"{each.told:,}", mean, f"{each.unknown:,}", f"{each.evidence:.3g}")
        yield table

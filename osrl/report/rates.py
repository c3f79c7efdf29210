"""The rates of a study, as a table: what every arm has brought so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from osrl.hypotheses.summary import Answer
from osrl.study.views.arms import COVERAGE, ArmRate
from osrl.text import printable

MOST = 24  # arms that are shown; of more, those of the best guess


class RatesView(NamedTuple):
    """What every arm has brought; ``best`` is the answer, or the best guess while it is not ``known``."""

    arms: Sequence[ArmRate]
    best: Answer
    known: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One row for each arm."""
        arms = [arm for arm in self.arms if len(self.arms) <= MOST or self._leads(arm)]
        hidden = len(self.arms) - len(arms)
        rest = f"; {hidden} more arms with --json or `export --arms`" if hidden else ""
        yield Text(f"\nWhat the arms have brought ({COVERAGE:.0%} for all intervals together, at all times{rest})")
        table = Table(box=SIMPLE, padding=(0, 2, 0, 0), pad_edge=False)
        for title, side in _COLUMNS.items():
            table.add_column(title, justify=side)  # type: ignore[arg-type]
        word = "the answer" if self.known else "best guess"
        for arm in arms:
            answer = self._is_best(arm)
            table.add_row(
                Text(printable(arm.task)),
                Text(printable(f"{arm.representation}, {arm.predictor}"), style="bold" if answer else ""),
                f"{arm.told:,} of {arm.trials:,}",
                _number(arm.mean),
                _interval(arm.lower, arm.upper),
                "" if answer else _number(arm.lift, "+"),
                word if answer else _interval(arm.lift_lower, arm.lift_upper, "+"),
            )
        yield table

    def _leads(self, arm: ArmRate) -> bool:
        return arm.representation == self.best.representations.get(arm.task)

    def _is_best(self, arm: ArmRate) -> bool:
        return self._leads(arm) and arm.predictor == self.best.predictors.get(arm.task)


_COLUMNS = {
    "task": "left",
    "arm": "left",
    "told": "right",
    "mean": "right",
    "interval": "right",
    "lift": "right",
    "interval of the lift": "right",
}


def _number(value: float | None, sign: str = "") -> str:
    if value is None:
        return "-"
    return f"{value:{sign}.3f}" if abs(value) < 10 else f"{value:{sign}.4g}"


def _interval(lower: float | None, upper: float | None, sign: str = "") -> str:
    return "-" if lower is None or upper is None else f"{_number(lower, sign)} to {_number(upper, sign)}"

"""The harm that the choices of a study have done, as a table, where it has a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from osrl.study.state.harm import LEVEL, HarmOf
from osrl.text import printable


class HarmView(NamedTuple):
    """What representations and predictors have done, beside the limit."""

    harm: Sequence[HarmOf]
    limit: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One row for each representation, then for each predictor."""
        yield Text(f"\nHarm, at most {self.limit:g} on average (withdrawn at evidence {1 / LEVEL:g} of more)")
        table = Table(box=SIMPLE, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column("")
        for title in ("told", "mean", "not known", "evidence"):
            table.add_column(title, justify="right")
        for each in self.harm:
            mean = "" if each.mean is None else f"{each.mean:.3f}"
            name = Text(printable(f"{each.kind} {each.name}"))
            table.add_row(name, f"{each.told:,}", mean, f"{each.unknown:,}", f"{each.evidence:.3g}")
        yield table

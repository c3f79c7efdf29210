"""The summary of a simulation: a JSON document, and a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from osrl.model.instance import Instance
from osrl.report.instance import describe
from osrl.report.numbers import count, count_noun, describe_tolerance, two_digits
from osrl.report.table import new_table

Row = dict[str, Any]

SPREAD = ("std", "least", "most")
PHASES = ("for g", "for h")
TOLERANCE = ("too bad", "within")


class SimulationReport(NamedTuple):
    """The summary of a simulation, as `osrl simulate` shows it; ``summary`` is that of `osrl.Runs`."""

    instance: Instance
    summary: pl.DataFrame

    def document(self) -> dict[str, Any]:
        """Return the document of `osrl simulate --json`: one entry for each policy, threshold and risk."""
        return {"results": self.summary.to_dicts()}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the table, and how to read it."""
        rows = self.summary.to_dicts()
        tolerance = describe_tolerance(rows[0]["epsilon_g"], rows[0]["epsilon_h"])
        made = f"{count_noun(rows[0]['runs'], 'run')}, seed {rows[0]['seed']}{tolerance}"
        yield Text(f"{describe(self.instance)}\n{made}")
        for left_out in ((), SPREAD, SPREAD + PHASES):
            table = self._table(rows, left_out)
            if Measurement.get(console, options.update(width=1000), table).maximum <= options.max_width:
                break
        yield table
        yield Text(" ".join(self._notes(rows)))

    def _table(self, rows: list[Row], left_out: tuple[str, ...]) -> Table:
        """Return a table with a line for each entry, without the columns for which there is no room."""
        table = new_table(gap=1)
        table.add_column("policy", style="bold", no_wrap=True)
        table.add_column("threshold", no_wrap=True)
        table.add_column("delta", no_wrap=True)
        cells = [self._cells(row) for row in rows]
        shown = [name for name in cells[0] if name not in left_out]
        if not any(row["no_shared"] for row in rows):
            shown.remove("none shared")
        if not any(row["budget_exhausted"] for row in rows):
            shown.remove("exhausted")
        if all(row["proved"] for row in rows):
            shown.remove("guarantee")
        if rows[0]["error_eps"] is None:
            shown = [name for name in shown if name not in TOLERANCE]
        for name in shown:
            table.add_column(name, justify="right", no_wrap=True)
        for row, cell in zip(rows, cells, strict=True):
            table.add_row(row["policy"], row["threshold"], _risks(row), *(cell[name] for name in shown))
        return table

    def _cells(self, row: Row) -> dict[str, str]:
        """Return the numbers of an entry, by the name of their column."""
        interval = "" if row["ci975"] is None else f" ± {count(row['ci975'])}"
        errors = {"wrong g": _share(row["error_g"]), "wrong h": _share(row["error_h"])}
        return {
            "samples": f"{count(row['mean'])}{interval}",
            "std": "" if row["std"] is None else count(row["std"]),
            "least": f"{row['min']:,}",
            "most": f"{row['max']:,}",
            "for g": count(row["tau_g_mean"]),
            "for h": count(row["tau_h_mean"]),
            **(errors if self.instance.in_model_class else {}),
            "too bad": _share(row["error_eps"]),
            "within": f"{row['within_tolerance']:,}",
            "none shared": f"{row['no_shared']:,}",
            "exhausted": f"{row['budget_exhausted']:,}",
            "guarantee": "proved" if row["proved"] else "none",
        }

    def _notes(self, rows: list[Row]) -> Iterator[str]:
        """Say what the columns mean, and how fast the runs were."""
        yield "Samples: the mean, with a 97.5 % interval. For g: until the representation was decided."
        if self.instance.in_model_class:
            yield "Wrong: the share of runs; for h, those with the right g but a wrong h, in the worst task."
        else:
            yield "The instance is outside the paper's class M: no answer would be right."
        if rows[0]["error_eps"] is not None:
            yield "Too bad: answers worse than the best arm by more than the tolerance, in the worst task."
            yield "Within: runs that ended because of the tolerance."
        if any(row["no_shared"] for row in rows):
            right = "wrong about g" if self.instance.in_model_class else "no error"
            yield f"None shared: runs that said that no representation is shared, {right}."
        if any(row["budget_exhausted"] for row in rows):
            yield "Exhausted: runs that used up the budget; they enter the mean with it, and are never wrong."
        if not all(row["proved"] for row in rows):
            yield "Guarantee: none where nobody has proved that the stopping rule keeps its risks."
        speeds = {row["policy"]: row["rounds"] / row["seconds"] for row in rows if row["seconds"] > 0}
        if speeds:
            each = ", ".join(f"{policy} {two_digits(speed)}" for policy, speed in speeds.items())
            yield f"Rounds per second per core: {each}."


def _risks(row: Row) -> str:
    return f"{row['delta']:g}" if row["delta"] is not None else f"{row['delta_g']:g}, {row['delta_h']:g}"


def _share(value: float | None) -> str:
    return f"{value:.2g}" if value else "0"

"""What risks and tolerances cost: a table, a JSON document and a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from osrl.report.instance import describe
from osrl.report.numbers import count
from osrl.report.plan import PlanReport
from osrl.simulation.plan import Plan

if TYPE_CHECKING:
    from osrl.report.charts import Figure


class SweepReport(NamedTuple):
    """What `osrl plan --risks ... --tolerances ...` found."""

    plans: Sequence[Plan]

    def document(self) -> dict[str, Any]:
        """The document of a sweep: those of its plans."""
        return {"plans": [PlanReport(each).document() for each in self.plans]}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One row for each risk and tolerance."""
        first = self.plans[0]
        played = next((plan.policies[0] for plan in self.plans if plan.policies), None)
        rows = "" if played is None else f"\n{played.runs} simulated experiments for each row, with {played.name}"
        yield Text(f"{describe(first.instance)}{rows}")
        table = Table(box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
        per_day = first.protocol.per_day
        columns = ["tolerance", "risk", "median", "9 in 10", "bound"]
        for name in columns if per_day is None else [*columns, "days", "9 in 10"]:
            table.add_column(name, justify="right", no_wrap=True)
        for plan in self.plans:
            cells = [f"{plan.epsilon[0]:g}", f"{plan.delta[0]:g}"]
            if plan.never is not None:
                table.add_row(*cells, "never", "never")
                continue
            each = plan.policies[0]
            cells += [
                f"> {count(value)}" if value >= plan.budget else count(value) for value in (each.median, each.high)
            ]
            cells.append(count(plan.least) if plan.least > 0 else "-")
            if per_day is not None:
                cells += [count(value / per_day) for value in (each.median, each.high)]
            table.add_row(*cells)
        yield table
        for why in dict.fromkeys(plan.never for plan in self.plans if plan.never is not None):
            yield Text(f"never: {why}")
        yield Text("9 in 10: nine experiments in ten need at most so many; bound: no policy needs fewer on average")


def draw_sweep(plans: Sequence[Plan]) -> Figure:
    """The median against the risk, a line for each tolerance, with a band up to the 90 % quantile."""
    import altair as alt
    import polars as pl

    from osrl.report.charts import Figure

    rows = [
        (plan.delta[0], f"{plan.epsilon[0]:g}", plan.policies[0].median, plan.policies[0].high)
        for plan in plans
        if plan.policies
    ]
    frame = pl.DataFrame(rows, ["risk", "tolerance", "median", "high"], orient="row")
    x = alt.X("risk:Q", title="risk (log scale)").scale(type="log", reverse=True, nice=False)
    y = alt.Y("median:Q", title="trials (log scale)").scale(type="log", nice=False)
    colour = alt.Color("tolerance:N", title="tolerance", sort=None)
    base = alt.Chart(frame)
    chart = alt.layer(
        base.mark_area(opacity=0.18).encode(x, y, alt.Y2("high:Q"), colour),
        base.mark_line(point=True).encode(x, y, colour),
    ).properties(
        width=520,
        height=300,
        title=alt.TitleParams(
            "What certainty costs", subtitle="line: median of the experiments; band: up to the 90 % quantile"
        ),
    )
    return Figure("sweep", "Trials to expect for each risk and tolerance, if the means are as guessed.", chart)

"""The chart of the cost of a simulated round against the number of tasks, representations and predictors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import altair as alt
import polars as pl

COLOURS = ["#4477aa", "#ee6677", "#228833", "#aa3377"]  # told apart by colour-blind readers as well
NAMES = {"X": "X, tasks", "G": "G, representations", "H": "H, predictors"}


class Measured(Protocol):
    """A measured cost: what the chart needs to know of it."""

    @property
    def what(self) -> str:
        """Which policy."""
        ...

    @property
    def grows(self) -> str:
        """Which of X, G and H is varied."""
        ...

    @property
    def arms(self) -> int:
        """K = XGH."""
        ...

    @property
    def seconds(self) -> float:
        """Seconds for a round."""
        ...


def draw_cost(costs: Sequence[Measured], out: Path) -> None:
    """Write simulate.png and simulate.svg: one panel for each size that grows, log-log."""
    rows = [(c.what.replace("`", ""), NAMES[c.grows], c.arms, 1e6 * c.seconds) for c in costs]
    data = pl.DataFrame(rows, schema=["policy", "grows", "arms", "us"], orient="row")
    policies = data["policy"].unique(maintain_order=True).to_list()
    x = alt.X("arms:Q", title="number of arms K = XGH").scale(type="log", domain=[20, 1200], nice=False)
    x = x.axis(values=[25, 50, 100, 250, 500, 1000])
    y = alt.Y("us:Q", title="a round (µs)").scale(type="log", domain=[0.5, 100]).axis(values=[1, 10, 100])
    colour = alt.Color("policy:N", title=None, sort=policies, legend=alt.Legend(orient="top"))
    base = alt.Chart(data, width=230, height=260).encode(
        x, y, colour.scale(domain=policies, range=COLOURS[: len(policies)])
    )
    chart = (
        alt.layer(base.mark_line(strokeWidth=2), base.mark_circle(size=40, opacity=1))
        .facet(column=alt.Column("grows:N", title=None, sort=list(NAMES.values())), spacing=20)
        .configure_axis(gridOpacity=0.4)
        .configure_header(labelFontSize=12)
    )
    chart.save(str(out / "simulate.png"), scale_factor=2)
    chart.save(str(out / "simulate.svg"))

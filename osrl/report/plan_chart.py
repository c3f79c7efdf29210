"""The chart of a plan: the spread of every policy beside the lower bound."""

from __future__ import annotations

import altair as alt
import polars as pl

from osrl.report.charts import BLUE, ORANGE, Figure
from osrl.simulation.plan import Plan


def draw_plan(plan: Plan) -> Figure:
    """Median and quantiles of every policy, on a log scale."""
    names = [each.name for each in plan.policies]
    rows = [(each.name, each.low, each.median, each.high) for each in plan.policies]
    spread = pl.DataFrame(rows, ["policy", "low", "median", "high"], orient="row")
    y = alt.Y("policy:N", sort=names, title=None)
    x = alt.X("low:Q", title="trials (log scale)").scale(type="log", nice=True)
    bars = alt.Chart(spread)
    least = [plan.least] if plan.least > 0 else []  # 0 has no place on a log scale
    labels = ["lower bound of the mean"] * len(least)
    bound = alt.Chart(pl.DataFrame({"bound": least, "label": labels}, {"bound": pl.Float64, "label": pl.String}))
    chart = alt.layer(
        bars.mark_bar(height=9, color=BLUE, opacity=0.45).encode(x, y, alt.X2("high:Q")),
        bars.mark_tick(thickness=3, size=20, color=BLUE).encode(alt.X("median:Q"), y),
        bound.mark_rule(color=ORANGE, strokeDash=[5, 3], strokeWidth=1.5).encode(alt.X("bound:Q")),
        bound.mark_text(color=ORANGE, align="left", dx=4, dy=-4, baseline="bottom").encode(
            alt.X("bound:Q"), alt.Text("label:N"), y=alt.value(0)
        ),
    ).properties(
        width=520,
        height=34 * len(names),
        title=alt.TitleParams(
            "How many trials to expect",
            subtitle="tick: median; bar: from the 10 % to the 90 % quantile",
            offset=22,
        ),
    )
    return Figure("plan", "How many trials to expect if the means are as guessed.", chart)

"""The paper's figures on the dynamics of phase 1: each curve above, its changes from round to round below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import altair as alt
import polars as pl

from osrl.paper.dynamics import Dynamics
from osrl.report.charts import BLUE, ORANGE, Figure

FROM = 50  # first round shown: before it, estimates are made of a few coins
EVERY = 10  # rounds between two points of a curve
DIGITS = 5  # of the numbers in a chart
COLOURS = {"osrl-sc": BLUE, "osrl-sc-released": ORANGE}
WIDTH = 600


class Curve(NamedTuple):
    """One figure: a series of `osrl.paper.dynamics` and its change, with the titles of their axes."""

    name: str
    series: str
    change: str
    title: str
    change_title: str
    truth: str
    caption: str


CURVES = (
    Curve(
        "rate",
        "rate",
        "rate_change",
        "1 / C_sigma of the estimate",
        "relative change",
        "1 / C_sigma of the true means",
        "What the weights in use are worth under the estimate: rho(q, mu-hat) - |q|² / (2 sigma). For "
        "osrl-sc this is 1 / C_sigma(mu-hat), to a certified gap of 0.1 %; the released code's weights "
        "reach less.",
    ),
    Curve(
        "means",
        "means_norm",
        "means_change",
        "2-norm of the estimate",
        "change of a component",
        "2-norm of the true means",
        "The estimated means: 2-norm, and 2-norm of their change in a round divided by sqrt(GHX).",
    ),
    Curve(
        "weights-2-norm",
        "weights_norm",
        "weights_change",
        "2-norm of the weights",
        "change of a component",
        "2-norm of the optimum for the true means",
        "The weights that are tracked: 2-norm, and 2-norm of their change in a round divided by sqrt(GHX).",
    ),
    Curve(
        "weights-sup-norm",
        "weights_largest",
        "weights_largest_change",
        "largest weight",
        "largest change",
        "largest weight of the optimum for the true means",
        "The weights that are tracked: sup-norm, and sup-norm of their change in a round.",
    ),
)


def dynamics_figures(followed: Sequence[Dynamics], truth: dict[str, float]) -> list[Figure]:
    """The four figures; ``truth`` has the value of each series for the true means."""
    data = pl.concat([one.frame() for one in followed]).filter(
        (pl.col("round") >= FROM) & (pl.col("round") % EVERY == 0)
    )
    note = f" Averages over {followed[0].runs:,} runs, 97.5 % intervals shaded; changes are low-pass filtered."
    return [
        Figure(f"dynamics-{curve.name}", curve.caption + note, _draw(data, curve, truth[curve.series]))
        for curve in CURVES
    ]


def _draw(data: pl.DataFrame, curve: Curve, truth: float) -> alt.VConcatChart:
    line = alt.Chart(pl.DataFrame({"truth": [truth]})).mark_rule(strokeDash=[5, 3]).encode(y="truth:Q")
    title = alt.Title(f"dashed: {curve.truth}, {truth:.4g}", fontSize=11, fontWeight="normal")
    above = alt.layer(*_curve(data, curve.series, curve.title, 220, "round"), line).properties(title=title)
    below = alt.layer(*_curve(data, curve.change, curve.change_title, 140, "round"))
    return alt.vconcat(above, below, spacing=14)


def _curve(
    data: pl.DataFrame, series: str, title: str, height: int, x_title: str | None
) -> tuple[alt.Chart, alt.Chart]:
    """A band and a line for each policy."""
    half = pl.col(f"{series}_ci975")
    shown = data.select(
        "policy",
        "round",
        value=pl.col(series).round_sig_figs(DIGITS),
        low=(pl.col(series) - half).clip(lower_bound=0).round_sig_figs(DIGITS),
        high=(pl.col(series) + half).round_sig_figs(DIGITS),
    )
    policies = data["policy"].unique(maintain_order=True).to_list()
    colour = alt.Color(
        "policy:N",
        title=None,
        scale=alt.Scale(domain=policies, range=[COLOURS[policy] for policy in policies]),
        legend=alt.Legend(orient="top", symbolOpacity=1, symbolType="stroke", symbolSize=300),
    )
    last = int(data.select(pl.col("round").max()).item())
    x = alt.X("round:Q", title=x_title, scale=alt.Scale(domain=[0, last]))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
    base = alt.Chart(shown, width=WIDTH, height=height)
    band = base.mark_area(opacity=0.25).encode(x=x, y=alt.Y("low:Q", title=title), y2="high:Q", color=colour)
    return band, base.mark_line().encode(x=x, y=y, color=colour)

"""The paper's figures, drawn from computed values.

Four figures show the dynamics of phase 1: each curve above, its changes from round to round below. Two explain an
idea: `symmetric_tasks` and `pool`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl

from osrl.allocation import Needs, allocate
from osrl.glr.transport_cost import alternatives
from osrl.model.instance import Instance
from osrl.paper.dynamics import Dynamics
from osrl.report.charts import BLUE, GREY, ORANGE, Figure

FIRST_ROUND = 50  # first round shown: before it, estimates are made of a few coins
ROUND_STEP = 10  # rounds between two points of a curve
SIGNIFICANT_DIGITS = 5  # of the numbers in a chart
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
    """Draw the four figures; ``truth`` has the value of each series for the true means."""
    data = pl.concat([one.frame() for one in followed]).filter(
        (pl.col("round") >= FIRST_ROUND) & (pl.col("round") % ROUND_STEP == 0)
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
    """Draw a band and a line for each policy."""
    half = pl.col(f"{series}_ci975")
    shown = data.select(
        "policy",
        "round",
        value=pl.col(series).round_sig_figs(SIGNIFICANT_DIGITS),
        low=(pl.col(series) - half).clip(lower_bound=0).round_sig_figs(SIGNIFICANT_DIGITS),
        high=(pl.col(series) + half).round_sig_figs(SIGNIFICANT_DIGITS),
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


def symmetric_tasks(instance: Instance) -> Figure:
    """Draw two tasks, three representations, one predictor: each task refutes the representation it is good at.

    The means are those of the first predictor of ``instance``, the paper's.
    """
    small = Instance.bernoulli(instance.means[:, :, :1], tasks=instance.tasks, representations=instance.representations)
    both, shares = _time(small)
    alone = [_time(Instance.bernoulli(small.means[x : x + 1]))[0] for x in range(len(small.tasks))]
    best = small.best.representation
    rows = [
        {
            "task": f"task {task}",
            "representation": small.representations[g],
            "mean": float(small.means[x, g, 0]),
            "best": float(small.means[x, best, 0]),
            "label": "best" if g == best else f"gap {small.means[x, best, 0] - small.means[x, g, 0]:.2f}",
            "middle": float((small.means[x, best, 0] + small.means[x, g, 0]) / 2),
            "share": float(shares[x, g, 0]),
        }
        for x, task in enumerate(small.tasks)
        for g in range(len(small.representations))
    ]
    data = pl.DataFrame(rows)
    panels = [
        _task(data.filter(pl.col("task") == task), i) for i, task in enumerate(data["task"].unique(maintain_order=True))
    ]
    caption = (
        "Two symmetric tasks. Above: mean rewards, with the gap to the best representation. Below: the "
        "optimal share of the samples, computed. Task x1 is used against g3 and task x2 against g2, where "
        f"the gaps are largest: {both:.1f} samples for each unit of evidence, against {alone[0]:.1f} in one "
        "task alone."
    )
    return Figure("symmetric-tasks", caption, alt.hconcat(*panels, spacing=30))


def _time(instance: Instance) -> tuple[float, Any]:
    """Return the samples for one unit of evidence about the representation, and how they are spread."""
    optimum = allocate(instance, Needs.of(instance, 1.0, 0.0))
    return 1 / optimum.lower, optimum.weights


def _task(data: pl.DataFrame, number: int) -> alt.VConcatChart:
    """Draw means and shares of one task; only the first has titles on its axes."""
    base = alt.Chart(data, width=270, height=170)
    x = alt.X("representation:N", title=None, axis=alt.Axis(labelAngle=0, labelFontSize=13))
    scale = alt.Scale(domain=[0, 0.6])
    y = alt.Y("mean:Q", title="" if number else "mean reward", scale=scale)
    bars = base.mark_bar(size=34, color=BLUE, opacity=0.85).encode(x=x, y=y)
    top = base.mark_rule(strokeDash=[4, 3], color=GREY).encode(y="max(best):Q")
    gaps = base.transform_filter("datum.best > datum.mean")
    arrows = gaps.mark_rule(color=ORANGE, strokeWidth=2).encode(x=x, y=y, y2="best:Q")
    heads = gaps.mark_point(shape="triangle-down", filled=True, color=ORANGE, size=60, opacity=1).encode(x=x, y=y)
    labels = base.mark_text(dx=8, align="left").encode(x=x, y=alt.Y("middle:Q", scale=scale), text="label:N")
    labels = labels.transform_filter("datum.best > datum.mean")
    share = alt.Y("share:Q", title="" if number else "share of samples", axis=alt.Axis(format="%"))
    spent = alt.Chart(data, width=270, height=90).mark_bar(size=34, color=GREY)
    spent = spent.encode(x=x, y=share.scale(domain=[0, 0.4]))
    labelled = alt.Chart(data).mark_text(dy=-7).encode(x=x, y=alt.Y("share:Q"), text=alt.Text("share:Q", format=".1%"))
    means = (bars + top + arrows + heads + labels).properties(title=data["task"][0])
    return alt.vconcat(means, spent + labelled, spacing=12)


def pool(instance: Instance, x: int = 0, g: int = 2, h: int = 1) -> Figure:
    """Draw the set U of one task: the arms that move to the level m so that (g, h) becomes the best one.

    The allocation is uniform.
    """
    predictors = len(instance.predictors)
    mu = instance.means[x].reshape(-1).copy()
    arm = g * predictors + h
    closest = alternatives(mu, np.full(mu.size, 1 / instance.means.size), instance.family.noise)
    inside = {arm, *closest.order[: closest.size[arm]].tolist()}
    level = float(closest.level[arm])
    names = [f"({r}, {p})" for r in instance.representations for p in instance.predictors]
    data = pl.DataFrame(
        {
            "arm": [names[a] for a in closest.order],
            "mean": [float(mu[a]) for a in closest.order],
            "level": [level] * mu.size,
            "kind": [_kind(a, arm, inside) for a in closest.order],
        }
    )
    chart = _pool_chart(data, level)
    caption = (
        f"The pool U of arm {names[arm]} in task {instance.tasks[x]} under the uniform allocation. Arms "
        f"above the level m = {level:.4f} are in U (shaded), and so is {names[arm]} itself; the closest "
        "model in which it is the best arm moves all of U to m (arrows) and leaves the others where they "
        f"are. That costs {closest.cost[arm]:.5f} for each sample."
    )
    return Figure("pool", caption, chart)


def _kind(a: int, arm: int, inside: set[int]) -> str:
    if a == arm:
        return "the arm that would be best, in U"
    return "in U: moves to the level m" if a in inside else "not in U: stays"


def _pool_chart(data: pl.DataFrame, level: float) -> Any:
    """Draw the arms by decreasing mean; the last but one lies below the level, so there is room for its name."""
    kinds = ["in U: moves to the level m", "the arm that would be best, in U", "not in U: stays"]
    x = alt.X("arm:N", sort=data["arm"].to_list(), title="arms by decreasing mean", axis=alt.Axis(labelAngle=0))
    y = alt.Y("mean:Q", title="mean reward", scale=alt.Scale(domain=[0, 0.6]))
    colour = alt.Color(
        "kind:N",
        title=None,
        scale=alt.Scale(domain=kinds, range=[BLUE, ORANGE, GREY]),
        legend=alt.Legend(orient="top", direction="horizontal"),
    )
    base = alt.Chart(data, width=520, height=300)
    above, below = (base.transform_filter(f"datum.mean {sign} datum.level") for sign in (">", "<="))
    shade = alt.Chart(pl.DataFrame({"low": [level], "high": [0.6]})).mark_rect(color=BLUE, opacity=0.12)
    line = alt.Chart(pl.DataFrame({"level": [level], "label": [f"m = {level:.4f}"]}))
    room = alt.value(520 * (data.height - 1.5) / data.height)
    label = alt.Text("mean:Q", format=".2f")
    return alt.layer(
        shade.encode(y=alt.Y("low:Q", title="mean reward"), y2="high:Q"),
        line.mark_rule(strokeDash=[5, 3]).encode(y="level:Q"),
        line.mark_text(dy=-8, fontWeight="bold").encode(x=room, y="level:Q", text="label:N"),
        base.transform_filter(alt.datum.kind != kinds[2])
        .mark_rule(strokeWidth=2)
        .encode(x=x, y=y, y2="level:Q", color=colour),
        _heads(above, "triangle-down", x, colour),
        _heads(below.transform_filter(alt.datum.kind != kinds[2]), "triangle-up", x, colour),
        base.mark_circle(size=130, opacity=1).encode(x=x, y=y, color=colour),
        above.mark_text(dx=12, dy=-4, align="left").encode(x=x, y=y, text=label),
        below.mark_text(dx=12, dy=6, align="left").encode(x=x, y=y, text=label),
    )


def _heads(chart: alt.Chart, shape: str, x: alt.X, colour: alt.Color) -> Any:
    """Draw the heads of the arrows to the level."""
    return chart.mark_point(shape=shape, filled=True, opacity=1, size=70).encode(x=x, y="level:Q", color=colour)

"""Charts in one theme for files and pages, light and dark.

Charts are made with Altair and carry no theme of their own. Files get the light theme; a page picks
the theme that its reader prefers (`osrl.report.html`). Nothing is loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from osrl.errors import OsrlError
from osrl.files import replace_file
from osrl.model.arrays import Floats
from osrl.model.instance import Instance
from osrl.simulation.plan import Plan

try:
    import altair as alt
    import vl_convert
except ImportError as error:
    raise OsrlError(f"charts need {error.name}, which is not installed; run: pip install 'osrl[charts]'") from None

# Colours that differ for every kind of eyesight, on white and on black (after Okabe and Ito).
BLUE, SKY, ORANGE, GREEN, PURPLE, GREY = "#1f7fc4", "#6fc0ef", "#d55e00", "#009e73", "#cc79a7", "#8c8c8c"

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
PIXELS = 2.0  # of a PNG, for each unit of length
CELL = 52  # units of length of a cell of a heat map


class Figure(NamedTuple):
    """A chart, the name of its files, and a caption."""

    name: str  # fit for a file name and an HTML id
    caption: str
    chart: Any


def theme(*, dark: bool = False) -> dict[str, Any]:
    """Return the fonts, lines and colours of every chart, as a configuration of Vega-Lite."""
    ink, faint, paper = ("#e6e6e6", "#444444", "#16181c") if dark else ("#222222", "#e3e3e3", "#ffffff")
    text = {"labelColor": ink, "titleColor": ink}
    return {
        "background": paper,
        "font": "Helvetica, Arial, 'Liberation Sans', sans-serif",
        "view": {"stroke": None},
        "axis": {
            **text,
            "gridColor": faint,
            "domainColor": ink,
            "tickColor": ink,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
        },
        "legend": {
            **text,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "labelLimit": 400,
            "symbolStrokeWidth": 2,
        },
        "header": {**text, "labelFontSize": 12, "titleFontSize": 12},
        "title": {
            "color": ink,
            "subtitleColor": ink,
            "fontSize": 13,
            "subtitleFontSize": 11,
            "anchor": "start",
            "fontWeight": "bold",
        },
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": ink},
        "line": {"strokeWidth": 1.8},
    }


def specification(figure: Figure) -> dict[str, Any]:
    """Return a figure as Vega-Lite, without a theme."""
    spec: dict[str, Any] = figure.chart.to_dict()
    spec.pop("config", None)
    return spec


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write a figure as PNG and PDF; return the two files."""
    spec, config = specification(figure), theme()
    png = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, config=config, scale=PIXELS)
    pdf = vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE, config=config)
    files = [folder / f"{figure.name}.png", folder / f"{figure.name}.pdf"]
    for path, content in zip(files, (png, pdf), strict=True):
        replace_file(path, content)
    return files


def javascript() -> str:
    """Return Vega, Vega-Lite and Vega-Embed in one script, which defines ``vegaEmbed``."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE))


def draw_instance(instance: Instance) -> Figure:
    """Draw the mean of every arm, the best one of each task in a frame."""
    chart = _heat_map(instance, instance.means, "mean reward", ".3~g", "Mean rewards")
    return Figure("instance", "Mean reward of every arm; a frame marks the best arm of a task.", chart)


def draw_weights(instance: Instance, weights: Floats, title: str) -> Figure:
    """Draw the share of every arm."""
    chart = _heat_map(instance, weights, "share of the samples", ".1%", title)
    return Figure("allocation", "Share of the samples that every arm gets.", chart)


def _heat_map(instance: Instance, values: Floats, what: str, form: str, title: str) -> alt.FacetChart:
    """Draw one panel for each task: rows are representations, columns are predictors."""
    shape = instance.shape
    x, g, h = (index.ravel() for index in np.indices(shape))
    best = np.zeros(shape, bool)
    if instance.in_model_class and values is instance.means:
        best[np.arange(shape[0]), instance.best.representation, instance.best.predictors] = True
    middle = float(values.min() + values.max()) / 2
    data = pl.DataFrame(
        {
            "task": [instance.tasks[i] for i in x],
            "representation": [instance.representations[i] for i in g],
            "predictor": [instance.predictors[i] for i in h],
            "value": values.ravel().round(6),
            "best": best.ravel(),
            "dark": values.ravel() > middle,
        }
    )
    base = alt.Chart(data).encode(
        alt.X("predictor:N", sort=list(instance.predictors), title="predictor").axis(labelAngle=0),
        alt.Y("representation:N", sort=list(instance.representations), title="representation"),
    )
    colour = alt.Color("value:Q", title=what, scale=alt.Scale(scheme="blues")).legend(format=form)
    ink = alt.when("datum.dark").then(alt.value("white")).otherwise(alt.value("black"))
    cells = base.mark_rect().encode(colour)
    frames = base.mark_rect(filled=False, stroke=ORANGE, strokeWidth=2.5).transform_filter("datum.best")
    numbers = base.mark_text(fontSize=11).encode(alt.Text("value:Q", format=form), color=ink)
    return (
        alt.layer(cells, frames, numbers)
        .properties(width=CELL * shape[2], height=0.6 * CELL * shape[1])
        .facet(facet=alt.Facet("task:N", sort=list(instance.tasks), title=None), columns=4)
        .properties(title=title)
    )


def draw_plan(plan: Plan) -> Figure:
    """Draw the median and quantiles of every policy, on a log scale."""
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


def draw_sweep(plans: Sequence[Plan]) -> Figure:
    """Draw the median against the risk, a line for each tolerance, with a band up to the 90 % quantile."""
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


def draw_arms(arms: pl.DataFrame, name: str) -> Figure:
    """Draw the mean of every arm of a study, with an interval that holds at all times."""
    data = arms.with_columns(arm=pl.concat_str("representation", "predictor", separator=" "))
    data = data.select("task", "arm", "told", "mean", "lower", "upper")
    order = data["arm"].unique(maintain_order=True).to_list()
    tasks = data["task"].unique(maintain_order=True).to_list()
    y = alt.Y("arm:N", sort=order, title="representation, predictor")
    base = alt.Chart(data)
    chart = (
        alt.layer(
            base.mark_rule(strokeWidth=2, color=SKY).encode(
                alt.X("lower:Q", title="mean reward, with its interval"), alt.X2("upper:Q"), y
            ),
            base.mark_point(filled=True, size=60, color=BLUE).encode(
                alt.X("mean:Q"), y, tooltip=["task", "arm", "told", "mean", "lower", "upper"]
            ),
        )
        .properties(width=260, height=22 * len(order))
        .facet(facet=alt.Facet("task:N", sort=tasks, title=None), columns=3)
        .properties(title=f"What the arms of {name} have brought")
    )
    return Figure("arms", "Mean reward of every arm, with an interval that holds at all times.", chart)

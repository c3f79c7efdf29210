"""Charts of simulated runs: when they stopped, and traces over time."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from osrl.bounds.lower import lower_bound
from osrl.report.charts import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, Figure
from osrl.simulation.runs import Runs
from osrl.simulation.trace import Trace

COLOURS = [BLUE, ORANGE, GREEN, PURPLE, SKY, GREY, "#e3a008", "#7a3b9a", "#4d4d4d", "#b04a5a"]
CURVE_POINTS = 200  # of a curve
MAX_CHART_ROWS = 4000  # of a chart
SHARED = "representations"  # the panel of what belongs to no task
MAX_RUN_LINES = 12  # runs up to which each has a line of its own
WIDTH, HEIGHT = 380, 240


def draw_runs(runs: Runs) -> Figure:
    """Draw when runs stopped, and with several risks their mean against ln(1 / delta), with the bound K."""
    summary = runs.summary()
    several = len(_labels(summary)) > len(set(summary["delta_g"].to_list()))
    labels = _labels(summary)
    bounds = _bounds(runs, summary)
    colour = alt.Color(
        "policy:N", sort=labels, title=None, scale=alt.Scale(domain=labels, range=_colours(labels))
    ).legend(orient="bottom", columns=4, symbolType="stroke", symbolSize=300)
    panels = [_distribution(runs, colour, bounds)]
    if summary["delta_g"].n_unique() > 1:
        panels.append(_means(summary, colour, bounds))
    chart = alt.hconcat(*panels, spacing=40)
    caption = "Left: the share of runs that have stopped. Right: the mean against the risk, with K."
    return Figure("runs", caption if len(panels) > 1 or several else caption.split(" Right")[0], chart)


def _label(row: dict[str, Any]) -> str:
    return str(row["policy"]) if row["threshold"] == "own" else f"{row['policy']} {row['threshold']}"


def _labels(summary: pl.DataFrame) -> list[str]:
    """Return the policies with their thresholds, in order."""
    return list(dict.fromkeys(map(_label, summary.iter_rows(named=True))))


def _colours(labels: list[str]) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(len(labels))]


def _bounds(runs: Runs, summary: pl.DataFrame) -> dict[tuple[float, float], float]:
    """Return K for each pair of risks, where there is a right answer."""
    pairs = dict.fromkeys(summary.select("delta_g", "delta_h").rows())
    if not runs.instance.in_model_class:
        return {}
    return {
        pair: lower_bound(runs.instance, delta_g=pair[0], delta_h=pair[1], tolerance=1e-3).K.lower for pair in pairs
    }


def _distribution(runs: Runs, colour: alt.Color, bounds: dict[tuple[float, float], float]) -> Any:
    """Draw the share of runs that have stopped by a number of samples, for the first risk."""
    risks = runs.frame.select("delta_g", "delta_h").row(0)
    some = runs.frame.filter(pl.col.delta_g == risks[0], pl.col.delta_h == risks[1])
    rows = []
    for key, group in some.group_by("policy", "threshold", maintain_order=True):
        label = _label({"policy": key[0], "threshold": key[1]})
        taus = np.sort(group["tau"].to_numpy())
        shares = np.arange(1, len(taus) + 1) / len(taus)
        kept = np.unique(np.linspace(0, len(taus) - 1, min(CURVE_POINTS, len(taus))).astype(int))
        rows += [(label, int(taus[0]), 0.0), *((label, int(taus[i]), float(shares[i])) for i in kept)]
    data = pl.DataFrame(rows, ["policy", "tau", "share"], orient="row")
    x = alt.X("tau:Q", title="samples (log scale)").scale(type="log", nice=False)
    curves = (
        alt.Chart(data)
        .mark_line(interpolate="step-after")
        .encode(x, alt.Y("share:Q", title="share of runs that have stopped").axis(format="%"), colour)
    )
    words = f"risk {risks[0]:g}" if risks[0] == risks[1] else f"risks {risks[0]:g}, {risks[1]:g}"
    layers: list[Any] = [curves]
    if risks in bounds:
        layers += _rule("x", bounds[risks])
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=f"When runs stop, {words}")


def _rule(axis: str, value: float) -> list[alt.Chart]:
    """Draw a dashed line at the bound K, with its name."""
    data = alt.Chart(pl.DataFrame({"K": [value], "name": [f"K = {value:,.0f}"]}))
    line = data.mark_rule(strokeDash=[5, 3]).encode(**{axis: alt.X("K:Q") if axis == "x" else alt.Y("K:Q")})
    name = data.mark_text(align="left", dx=4, baseline="top").encode(alt.X("K:Q"), alt.Text("name:N"), y=alt.value(4))
    return [line, name]


def _means(summary: pl.DataFrame, colour: alt.Color, bounds: dict[tuple[float, float], float]) -> Any:
    """Draw the mean number of samples of each policy against ln(1 / delta), with 97.5 % intervals."""
    rows = [
        (
            _label(row),
            math.log(1 / row["delta_g"]),
            row["mean"],
            max(row["mean"] - half, 1.0),
            row["mean"] + half,
        )
        for row in summary.iter_rows(named=True)
        for half in [row["ci975"] or 0.0]
    ]
    data = pl.DataFrame(rows, ["policy", "risk", "mean", "low", "high"], orient="row").sort("risk")
    bound = pl.DataFrame(
        [(math.log(1 / pair[0]), value) for pair, value in bounds.items()],
        {"risk": pl.Float64, "K": pl.Float64},
        orient="row",
    ).sort("risk")
    x = alt.X("risk:Q", title="ln(1 / delta)").scale(zero=False)
    y = alt.Y("mean:Q", title="mean number of samples (log scale)").scale(type="log", nice=False)
    base = alt.Chart(data)
    layers: list[Any] = [
        base.mark_line().encode(x, y, colour),
        base.mark_point(filled=True, size=40).encode(x, y, colour),
        base.mark_rule().encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), colour),
    ]
    if len(bound):
        last = alt.Chart(bound.tail(1).with_columns(name=pl.lit("K")))
        layers.append(alt.Chart(bound).mark_line(strokeDash=[5, 3], color=GREY).encode(x, alt.Y("K:Q")))
        layers.append(last.mark_text(align="left", dx=5, color=GREY).encode(x, alt.Y("K:Q"), alt.Text("name:N")))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title="Mean, with 97.5 % intervals")


_AXES = {
    "pulls": "samples of the arm",
    "means": "mean reward so far",
    "weights": "weight",
    "evidence": "evidence against it",
}


def draw_trace(trace: Trace) -> Figure:
    """Draw a line for each run where there are few, otherwise the mean over the runs that have not stopped."""
    frame = trace.frame.with_columns(
        arm=pl.concat_str("representation", "predictor", separator=" ", ignore_nulls=True),
        panel=pl.col.task.fill_null(SHARED),
        label=_described(trace.frame),
    )
    count, keys = frame["run"].n_unique(), ["label", "panel", "arm", "round"]
    if count > MAX_RUN_LINES:
        frame = frame.group_by(keys, maintain_order=True).agg(pl.col.value.mean(), run=pl.lit(0))
    rounds = frame["round"].unique().sort()
    room = max(MAX_CHART_ROWS * len(rounds) // max(len(frame), 1), 2)
    kept = rounds.gather_every(math.ceil(len(rounds) / room))
    ends = frame.filter(pl.col.round == pl.col.round.max().over("label", "run"))
    data = pl.concat([frame.filter(pl.col.round.is_in(kept.implode())), ends]).unique(maintain_order=True)
    data = data.select(*keys, "run", pl.col.value.round_sig_figs(5)).sort("round")
    arms = data["arm"].unique().sort().to_list()
    colour = alt.Color("arm:N", sort=arms, title="arm").scale(domain=arms, range=_colours(arms))
    last = int(rounds[-1]) if len(rounds) else 1
    rows = []
    for label in data["label"].unique(maintain_order=True):
        own = data.filter(label=label)
        panels = [panel for panel in _panels(trace) if panel in own["panel"]]
        rows.append(
            alt.hconcat(
                *(
                    alt.Chart(own.filter(panel=panel), width=230, height=170, title=f"{label}: {panel}")
                    .mark_line(opacity=0.75, strokeWidth=1.3)
                    .encode(
                        alt.X("round:Q", title="round").scale(domain=[0, last]),
                        alt.Y("value:Q", title=_AXES[trace.name]),
                        colour,
                        alt.Detail("run:N"),
                    )
                    for panel in panels
                )
            ).resolve_scale(y="shared")
        )
    words = f"{count} runs" if count <= MAX_RUN_LINES else f"the mean of {count} runs"
    chart = alt.vconcat(*rows).properties(title=f"{trace.name.capitalize()} on the way: {words}")
    return Figure(f"trace-{trace.name}", "Runs on their way; a line for each, or their mean.", chart)


def _panels(trace: Trace) -> list[str]:
    """Return the titles of the panels: the representations, then every task."""
    return [SHARED, *trace.frame["task"].drop_nulls().unique(maintain_order=True)]


def _described(frame: pl.DataFrame) -> pl.Expr:
    """Return labels of policy, threshold, and the risk where there are several."""
    label = (
        pl.when(pl.col.threshold == "own")
        .then(pl.col.policy)
        .otherwise(pl.concat_str("policy", "threshold", separator=" "))
    )
    if frame["delta_g"].n_unique() == 1:
        return label
    return pl.concat_str(label, pl.lit(", risk "), pl.col.delta_g.cast(pl.String))

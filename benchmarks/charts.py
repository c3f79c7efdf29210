"""The charts of the benchmarks: of the solver, of a simulated round, and of ask and tell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

COLOURS = ["#4477aa", "#ee6677", "#228833", "#aa3377"]  # distinct for colour-blind readers as well
SIZE_NAMES = {"X": "X, tasks", "G": "G, representations", "H": "H, predictors"}


def medians(sizes: Sequence[Any], phase: str) -> dict[int, float]:
    """Return the median time of a program at each number of arms."""
    arms = sorted({size.arms for size in sizes})
    return {
        k: float(np.median([size.seconds for size in sizes if size.phase == phase and size.arms == k])) for k in arms
    }


def growth_exponent(sizes: Sequence[Any], phase: str) -> float:
    """Return the slope of log(median time) against log(number of arms), by least squares."""
    found = medians(sizes, phase)
    slope, _ = np.polyfit(np.log(list(found)), np.log(list(found.values())), 1)
    return float(slope)


def draw_growth(sizes: Sequence[Any], out: Path) -> None:
    """Write solver.png and solver.svg: a point for each instance, a line through the medians, log-log."""
    phases = list(dict.fromkeys(size.phase for size in sizes))
    points = [{"arms": s.arms, "ms": 1e3 * s.seconds, "program": s.phase} for s in sizes]
    lines = [
        {"arms": k, "ms": 1e3 * seconds, "program": phase}
        for phase in phases
        for k, seconds in medians(sizes, phase).items()
    ]
    x = alt.X("arms:Q", title="number of arms K = XGH").scale(type="log", domain=[10, 12_000], nice=False)
    x = x.axis(values=[10, 100, 1000, 10_000])
    y = alt.Y("ms:Q", title="time to a certified gap of 1e-6 (ms)").scale(type="log", domain=[0.02, 1000])
    y = y.axis(values=[0.01, 0.1, 1, 10, 100, 1000])
    colour = alt.Color("program:N", sort=phases).scale(domain=phases, range=COLOURS[: len(phases)])
    exponents = ", ".join(f"K^{growth_exponent(sizes, phase):.2f} {phase}" for phase in phases)
    chart = (
        alt.layer(
            alt.Chart(pl.DataFrame(points)).mark_circle(opacity=0.5, size=26).encode(x, y, colour),
            alt.Chart(pl.DataFrame(lines)).mark_line(strokeWidth=2).encode(x, y, colour),
        )
        .properties(
            title=alt.TitleParams(
                f"Time grows like {exponents}",
                subtitle="points: random instances; lines: medians; one core",
                anchor="start",
            ),
            width=520,
            height=340,
        )
        .configure_axis(gridOpacity=0.4)
    )
    chart.save(str(out / "solver.png"), scale_factor=2)
    chart.save(str(out / "solver.svg"))


def draw_cost(costs: Sequence[Any], out: Path) -> None:
    """Write simulate.png and simulate.svg: one panel for each size that grows, log-log."""
    rows = [(c.what.replace("`", ""), SIZE_NAMES[c.grows], c.arms, 1e6 * c.seconds) for c in costs]
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
        .facet(column=alt.Column("grows:N", title=None, sort=list(SIZE_NAMES.values())), spacing=20)
        .configure_axis(gridOpacity=0.4)
        .configure_header(labelFontSize=12)
    )
    chart.save(str(out / "simulate.png"), scale_factor=2)
    chart.save(str(out / "simulate.svg"))


def draw_log(sizes: Sequence[Any], out: Path) -> None:
    """Write study.png and study.svg: a line for each call, log-log."""
    calls = ["open", "ask", "tell"]
    rows = [{"trials": s.trials, "ms": getattr(s, call), "call": call} for s in sizes for call in calls]
    x = alt.X("trials:Q", title="trials in the log").scale(type="log", domain=[80, 130_000], nice=False)
    y = alt.Y("ms:Q", title="median time (ms)").scale(type="log", domain=[0.1, 1000])
    colour = alt.Color("call:N", sort=calls).scale(domain=calls, range=COLOURS[:3])
    base = alt.Chart(pl.DataFrame(rows)).encode(
        x.axis(values=[100, 1000, 10_000, 100_000]), y.axis(values=[0.1, 1, 10, 100, 1000]), colour
    )
    chart = (
        alt.layer(base.mark_line(strokeWidth=2), base.mark_circle(size=40))
        .properties(
            title=alt.TitleParams(
                "Ask and tell do not slow down as the log grows",
                subtitle="SQLite, every call on the disk before it returns; policy osrl, 12 arms",
                anchor="start",
            ),
            width=520,
            height=300,
        )
        .configure_axis(gridOpacity=0.4)
    )
    chart.save(str(out / "study.png"), scale_factor=2)
    chart.save(str(out / "study.svg"))

"""The chart of the solver's time against the number of arms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import altair as alt
import numpy as np
import polars as pl

COLOURS = ["#4477aa", "#ee6677", "#228833"]  # told apart by colour-blind readers as well


class Timed(Protocol):
    """A timed solve: what the chart needs to know of it."""

    @property
    def arms(self) -> int:
        """K = XGH."""
        ...

    @property
    def phase(self) -> str:
        """Which program."""
        ...

    @property
    def seconds(self) -> float:
        """How long it took."""
        ...


def medians(sizes: Sequence[Timed], phase: str) -> dict[int, float]:
    """The median time of a program at each number of arms."""
    arms = sorted({size.arms for size in sizes})
    return {
        k: float(np.median([size.seconds for size in sizes if size.phase == phase and size.arms == k])) for k in arms
    }


def growth_exponent(sizes: Sequence[Timed], phase: str) -> float:
    """The slope of log(median time) against log(number of arms), by least squares."""
    found = medians(sizes, phase)
    slope, _ = np.polyfit(np.log(list(found)), np.log(list(found.values())), 1)
    return float(slope)


def draw_growth(sizes: Sequence[Timed], out: Path) -> None:
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

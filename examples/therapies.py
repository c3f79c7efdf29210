"""ACTG 175 again: which of four therapies is ruled out after how many patients?

    python examples/therapies.py [ORDERS] [chart.svg]       # needs lifelines, which the extra dev has

2,139 people with HIV were given one of four therapies by lot, each with the same probability, in three
strata: by how long they had been treated before. One therapy is to be chosen for all of them (the shared
representation); the strata are the tasks, and nothing is chosen for each of them.

Two outcomes, each 1 or 0: whether the CD4 count after 20 weeks is at least what it was at the beginning,
which is known of everybody; and whether 96 weeks went by without a fall of that count by half, AIDS or death.
Some people left before 96 weeks; leaving is taken to say nothing about the outcome.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import altair as alt
import polars as pl

import osrl

STRATA = {1: "never treated", 2: "treated up to a year", 3: "treated longer"}
THERAPIES = {
    0: "zidovudine",
    1: "zidovudine and didanosine",
    2: "zidovudine and zalcitabine",
    3: "didanosine",
}
DAYS = 96 * 7
RISK = 0.05
OUTCOMES = {  # 1 is good; null is not known
    "CD4 count held for 20 weeks": (pl.col("cd420") >= pl.col("cd40")).cast(pl.Int8),
    "96 weeks without an event": pl.when(pl.col("days") >= DAYS).then(1).when(pl.col("cens") == 1).then(0),
}
EVERY = 300  # patients between two looks
ORDERS = 4


def patients(outcome: str) -> pl.DataFrame:
    """One row for each patient, as a table of trials."""
    file = Path(str(distribution("lifelines").locate_file("lifelines/datasets/ACTG175.csv")))
    return pl.read_csv(file, null_values="NA").select(
        task=pl.col("strat").replace_strict(STRATA),
        representation=pl.col("arms").replace_strict(THERAPIES),
        predictor=pl.lit("as usual"),
        reward=OUTCOMES[outcome],
    )


def looks(outcome: str, orders: int) -> Iterator[dict[str, object]]:
    """In each random order, after so many patients, for each therapy: is it ruled out?"""
    table = patients(outcome)
    for order in range(orders):
        shuffled = table.sample(fraction=1, shuffle=True, seed=order)
        for number in [*range(EVERY, len(table), EVERY), len(table)]:
            found = osrl.analyse(
                shuffled.head(number),
                delta=RISK,
                uniform=True,
                ignorable=True,
                representations=list(THERAPIES.values()),
            )
            for hypothesis in found.hypotheses:
                if hypothesis.task is None:
                    yield {
                        "outcome": outcome,
                        "patients": number,
                        "therapy": hypothesis.representation,
                        "ruled out": hypothesis.rejected,
                    }


def chart(shares: pl.DataFrame) -> alt.FacetChart:
    """Return the share of the orders in which a therapy is ruled out, by the number of patients."""
    return (
        alt.Chart(shares, width=420, height=220)
        .mark_line(point=True, strokeWidth=2.5)
        .encode(
            x=alt.X("patients:Q", scale=alt.Scale(domain=[0, 2200], nice=False)),
            y=alt.Y("ruled out:Q", title="orders in which it is ruled out", axis=alt.Axis(format="%")),
            color=alt.Color("therapy:N", title=None, sort=list(THERAPIES.values())),
        )
        .facet(row=alt.Row("outcome:N", title=None, sort=list(OUTCOMES), header=alt.Header(orient="top")))
        .properties(background="white")
        .configure_axis(labelFontSize=13, titleFontSize=13)
        .configure_header(labelFontSize=14)
        .configure_legend(orient="top", columns=2, labelLimit=300, labelFontSize=13)
    )


def run(orders: int = ORDERS, file: Path | None = None) -> None:
    """Replay both outcomes, and say what is ruled out in the end."""
    rows = pl.DataFrame([look for outcome in OUTCOMES for look in looks(outcome, orders)])
    shares = rows.group_by("outcome", "patients", "therapy", maintain_order=True).agg(pl.col("ruled out").mean())
    for outcome in OUTCOMES:
        table = patients(outcome)
        missing = table["reward"].null_count()
        print(f"{outcome}: {len(table):,} patients, {missing} of whom left before it was known")
        end = shares.filter(outcome=outcome, patients=len(table))
        good = table.group_by("representation").agg(pl.col("reward").mean())
        for name, share in end.select("therapy", "ruled out").iter_rows():
            rate = good.filter(representation=name)["reward"].item()
            print(f"  {name:26} good in {rate:.0%}, ruled out in {share:.0%} of {orders} orders")
    if file is not None:
        chart(shares).save(file)


if __name__ == "__main__":
    run(
        int(sys.argv[1]) if len(sys.argv) > 1 else ORDERS,
        Path(sys.argv[2]) if len(sys.argv) > 2 else None,
    )

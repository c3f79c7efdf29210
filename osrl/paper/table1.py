"""Table 1: samples of OSRL-SC, in total and in each phase, and of track-and-stop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl

from osrl.paper.experiment import Experiment
from osrl.paper.published import (
    MAX_Z,
    PHASE_1,
    PHASE_2,
    PUBLISHED_RUNS,
    RISKS,
    TABLE_1,
    TAS,
    TOTAL,
    Footnotes,
    Published,
    Verdict,
    compare,
)
from osrl.report.charts import BLUE, GREEN, GREY, ORANGE, SKY, Figure
from osrl.report.table import Cell, Grid
from osrl.simulation.api import simulate
from osrl.simulation.runs import Z975

COLUMNS = {TOTAL: "tau", PHASE_1: "tau_g", PHASE_2: "tau_h", TAS: "tau"}  # in the frame of runs


class Variant(NamedTuple):
    """A policy with a threshold, and why it may differ from what was published."""

    policy: str
    threshold: str
    label: str
    colour: str
    why: str = ""

    @property
    def quantities(self) -> tuple[str, ...]:
        """The rows of Table 1 that it has."""
        return (TAS,) if self.policy == "tas" else (TOTAL, PHASE_1, PHASE_2)


THEOREM = Variant(
    "osrl-sc",
    "theorem",
    "osrl-sc, theorem",
    BLUE,
    "the theorem's threshold has beta_1; in the released code it is 0",
)
SHORTER = Variant(
    "osrl-sc",
    "released",
    "osrl-sc, released",
    SKY,
    "tracks the optimal allocation; the released code stops before it finds it",
)
RELEASED = Variant("osrl-sc-released", "own", "osrl-sc-released", ORANGE)
VARIANTS = (THEOREM, SHORTER, RELEASED, Variant("tas", "own", "tas", GREEN))


class Row(NamedTuple):
    """One number of Table 1: ours, the published one, and whether they agree."""

    delta: float
    quantity: str
    variant: Variant
    runs: int
    ours: Published
    median: float  # of ours: one run whose estimates have two best arms for long bends an average
    published: Published
    verdict: Verdict

    def record(self) -> dict[str, Any]:
        """Return the row for CSV and JSON."""
        return {
            "delta": self.delta,
            "quantity": self.quantity,
            "policy": self.variant.policy,
            "threshold": self.variant.threshold,
            "runs": self.runs,
            **{name: None if math.isnan(value) else value for name, value in self.ours._asdict().items()},
            "median": self.median,
            **{f"published_{name}": value for name, value in self.published._asdict().items()},
            **self.verdict.record(),
        }


def run_table_1(experiment: Experiment, folder: Path | None = None) -> pl.DataFrame:
    """Return the runs behind Table 1, as `simulate` does; keep those that are finished in ``folder``."""
    taking_part = [variant for variant in VARIANTS if experiment.released or variant != RELEASED]
    return pl.concat(
        simulate(
            experiment.instance,
            policy,
            list(RISKS),
            experiment.runs,
            experiment.seed,
            threshold=[variant.threshold for variant in VARIANTS if variant.policy == policy],
            workers=experiment.workers,
            out=None if folder is None else folder / policy,
            progress=experiment.progress_for(f"runs of {policy}"),
        ).frame
        for policy in dict.fromkeys(variant.policy for variant in taking_part)
    )


def table_1(frame: pl.DataFrame) -> list[Row]:
    """Return the rows of Table 1, from the runs of its variants."""
    return [row for delta in RISKS for variant in variants_in(frame) for row in _rows(frame, delta, variant)]


def variants_in(frame: pl.DataFrame) -> list[Variant]:
    """Return the variants that have runs."""
    return [variant for variant in VARIANTS if runs_of(frame, variant, RISKS[0]).height]


def runs_of(frame: pl.DataFrame, variant: Variant, delta: float) -> pl.DataFrame:
    """Return the runs of one variant at one risk."""
    return frame.filter(policy=variant.policy, threshold=variant.threshold, delta_g=delta)


def _rows(frame: pl.DataFrame, delta: float, variant: Variant) -> Iterator[Row]:
    runs = runs_of(frame, variant, delta)
    for quantity in variant.quantities:
        samples, published = runs[COLUMNS[quantity]], TABLE_1[delta, quantity]
        ours, median = summarise(samples), float(np.median(samples.to_numpy()))
        verdict = compare(
            ours.average,
            ours.ci975 / Z975,
            published.average,
            published.ci975 / Z975,
            "" if quantity == PHASE_2 else variant.why,  # variants differ in phase 1 alone
        )
        yield Row(delta, quantity, variant, runs.height, ours, median, published, verdict)


def summarise(samples: pl.Series) -> Published:
    """Return average, interval, range and spread of numbers of samples; one run has no spread."""
    values = samples.to_numpy().astype(float)
    std = float(values.std(ddof=1)) if values.size > 1 else math.nan
    return Published(
        float(values.mean()),
        Z975 * std / math.sqrt(values.size),
        float(values.min()),
        float(values.max()),
        std,
    )


def grid_1(rows: Sequence[Row]) -> Grid:
    """Return Table 1 for the reader: the published row of each quantity, and ours below it."""
    footnotes = Footnotes()
    groups = [
        [*_published_and_ours([row for row in rows if (row.delta, row.quantity) == key], footnotes)] for key in TABLE_1
    ]
    return Grid(
        "Table 1. Samples until the answer",
        ("risk, what, policy", "average", "±", "min", "max", "std", "z", "verdict"),
        groups,
        right=frozenset(range(1, 7)),
        notes=(
            *footnotes.notes(),
            f"Published: {PUBLISHED_RUNS:,} runs; ours: {rows[0].runs:,}. ± is the half-width of a 97.5 % interval, z "
            f"the difference of the averages in standard errors: they agree up to {MAX_Z}. Smallest and "
            "largest are not judged. tas and phase 2 are sums over both tasks.",
        ),
    )


def medians_1(rows: Sequence[Row]) -> Grid:
    """Return the medians of ours, on which a few long runs have no effect."""
    kinds = dict.fromkeys((row.quantity, row.variant) for row in rows)
    own = {(row.quantity, row.variant, row.delta): row.median for row in rows}
    group: list[list[str | Cell]] = [
        [f"{quantity}, {variant.label}", *(f"{own[quantity, variant, delta]:,.0f}" for delta in RISKS)]
        for quantity, variant in kinds
    ]
    return Grid(
        "Table 1, medians of ours",
        ("what, policy", *(f"risk {delta:g}" for delta in RISKS)),
        [group],
        right=frozenset(range(1, len(RISKS) + 1)),
        notes=("Medians were not published. They are below the averages, which a few long runs bend.",),
    )


def _published_and_ours(rows: Sequence[Row], footnotes: Footnotes) -> Iterator[list[str | Cell]]:
    first = rows[0]
    yield [
        Cell(f"{first.delta:g} {first.quantity}, published", "strong"),
        *_numbers(first.published),
        "",
        "",
        "",
    ]
    for row in rows:
        z = "" if row.verdict.z is None else f"{row.verdict.z:+.1f}"
        yield [f"  {row.variant.label}", *_numbers(row.ours), z, footnotes.cell(row.verdict)]


def _numbers(row: Published) -> list[str]:
    return ["-" if math.isnan(value) else f"{value:,.0f}" for value in row]


def figure_1(rows: Sequence[Row]) -> Figure:
    """Draw Table 1: averages with their 97.5 % intervals."""
    colours = {"published": GREY, **{row.variant.label: row.variant.colour for row in rows}}
    points = [
        (f"{row.delta:g}", row.quantity, source, sample.average, np.nan_to_num(sample.ci975))
        for row in rows
        for source, sample in (("published", row.published), (row.variant.label, row.ours))
    ]
    columns = ["risk", "quantity", "source", "average", "half"]
    data = pl.DataFrame(points, schema=columns, orient="row").unique(maintain_order=True)
    data = data.with_columns(low=pl.col("average") - pl.col("half"), high=pl.col("average") + pl.col("half"))
    panels = [_panel(data.filter(quantity=what), what, colours) for what in (PHASE_1, PHASE_2, TOTAL, TAS)]
    chart = alt.hconcat(*panels, spacing=24).resolve_scale(xOffset="independent")
    caption = "Table 1 as a chart: average number of samples, with 97.5 % intervals; scales differ."
    return Figure("table-1", caption, chart)


def _panel(data: pl.DataFrame, quantity: str, colours: dict[str, str]) -> Any:
    """Draw one quantity; side by side at each risk are only the sources that have it."""
    x = alt.X("risk:N", sort=[f"{delta:g}" for delta in RISKS], title="risk", axis=alt.Axis(labelAngle=0))
    offset = alt.XOffset("source:N", sort=data["source"].unique(maintain_order=True).to_list())
    colour = alt.Color(
        "source:N",
        title=None,
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(orient="top"),
    )
    base = alt.Chart(data, width=165, height=230, title=quantity)
    low = alt.Y("low:Q", title="average number of samples")
    average = alt.Y("average:Q", title="average number of samples", scale=alt.Scale(zero=False))
    bars = base.mark_rule(strokeWidth=2).encode(x=x, xOffset=offset, y=low, y2="high:Q", color=colour)
    dots = base.mark_circle(size=50, opacity=1).encode(x=x, xOffset=offset, y=average, color=colour)
    return alt.layer(bars, dots)

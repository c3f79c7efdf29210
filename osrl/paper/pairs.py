"""Every sampling rule with every stopping rule on the paper's instance.

The paper compares whole algorithms, in which sampling and stopping change together. Here every sampling rule
runs with every stopping rule (`docs/rules.md`), so that their effects can be separated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import polars as pl

from osrl.bounds.lower import lower_bound
from osrl.errors import OsrlError
from osrl.paper.experiment import Experiment, subprogress
from osrl.policies.registry import pair, split_stop
from osrl.report.charts import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, Figure
from osrl.report.table import Cell, Grid
from osrl.simulation.api import simulate

PAIRS_RISK = 0.1
MAX_RUNS_OF_A_PAIR = 100
SAMPLING_RULES = ("osrl", "oracle", "tas", "c-tracking", "t3c", "eb-tci", "ttei", "kl-lucb", "racing", "uniform")
STOPPING_RULES = ("bets", "counts", "glr-gk", "glr-tas", "glr-theorem")
COLOURS = (BLUE, GREEN, SKY, ORANGE, PURPLE, GREY)


class Pair(NamedTuple):
    """The samples that a pair needed, and their ratio to the bound K."""

    sampling: str
    stopping: str
    proved: bool
    runs: int
    mean: float
    ci975: float
    median: float
    tau_g_mean: float
    error_g: float
    error_h: float
    over_K: float

    def record(self) -> dict[str, Any]:
        """Return the row for JSON and CSV."""
        return self._asdict()


def run_pairs(
    experiment: Experiment, sampling: Sequence[str] = SAMPLING_RULES, stopping: Sequence[str] = STOPPING_RULES
) -> list[Pair]:
    """Run every pair that fits, at risk 0.1."""
    instance, runs = experiment.instance, min(experiment.runs, MAX_RUNS_OF_A_PAIR)
    K = lower_bound(instance, delta=PAIRS_RISK).K.lower
    wanted = [(one, other) for one in sampling for other in stopping if _fits(one, other)]
    found = []
    for i, (one, other) in enumerate(wanted):
        progress = subprogress(experiment.progress_for("pairs"), i * runs, len(wanted) * runs)
        finished = simulate(
            instance,
            sample=one,
            stop=other,
            delta=PAIRS_RISK,
            runs=runs,
            seed=experiment.seed,
            workers=experiment.workers,
            progress=progress,
        )
        row = finished.summary().row(0, named=True)
        numbers = {name: row[name] for name in ("proved", "runs", "mean", "median", "tau_g_mean")}
        errors = {"ci975": row["ci975"] or 0.0, "error_g": row["error_g"], "error_h": row["error_h"]}
        found.append(Pair(one, other, **numbers, **errors, over_K=row["mean"] / K))
    return found


def _fits(sampling: str, stopping: str) -> bool:
    """Tell whether two rules can be paired."""
    try:
        pair(sampling, split_stop(stopping)[0])
    except OsrlError:
        return False
    return True


def grid_pairs(pairs: Sequence[Pair]) -> Grid:
    """Return mean and median of every pair: rows are sampling rules, columns stopping rules."""
    stops = list(dict.fromkeys(one.stopping for one in pairs))
    proved = {one.stopping: one.proved for one in pairs}
    groups = []
    for sampling in dict.fromkeys(one.sampling for one in pairs):
        own = {one.stopping: one for one in pairs if one.sampling == sampling}
        cells: list[str | Cell] = [Cell(sampling, "strong")]
        for stop in stops:
            one = own.get(stop)
            cells.append("" if one is None else f"{one.mean:,.0f} ({one.median:,.0f})")
        groups.append(cells)
    heads = [stop if proved[stop] else f"{stop}, not proved" for stop in stops]
    return Grid(
        "Sampling or stopping: mean samples (and median) of every pair",
        ("sampling", *heads),
        [groups],
        right=frozenset(range(1, len(heads) + 1)),
        notes=(
            *factors_in_words(pairs),
            f"Risk {PAIRS_RISK:g}, {pairs[0].runs:,} runs of each pair. A blank is a pair that does not fit. The "
            "oracle knows the means. One run with a late start may bend a mean: compare medians too.",
        ),
    )


def factors_in_words(pairs: Sequence[Pair]) -> list[str]:
    """Return sentences: by which factor the rules of each kind differ, the other kind held fixed."""
    words = []
    for kind, other in (("stopping", "sampling"), ("sampling", "stopping")):
        ratios = []
        for fixed in dict.fromkeys(getattr(one, other) for one in pairs):
            means = [one.mean for one in pairs if getattr(one, other) == fixed and one.sampling != "uniform"]
            if len(means) > 1:
                ratios.append(max(means) / min(means))
        if ratios:
            ratios.sort()
            words.append(
                f"With the same {other} rule, the choice of the {kind} rule changes the mean by a factor of "
                f"{ratios[0]:.2g} to {ratios[-1]:.2g} (even sampling left out)."
            )
    return words


def figure_pairs(pairs: Sequence[Pair], K: float) -> Figure:
    """Draw the mean samples of every pair on a log scale, with the bound."""
    data = pl.DataFrame([one.record() for one in pairs]).with_columns(
        low=(pl.col.mean - pl.col.ci975).clip(lower_bound=1), high=pl.col.mean + pl.col.ci975
    )
    rules = data["sampling"].unique(maintain_order=True).to_list()
    stops = data["stopping"].unique(maintain_order=True).to_list()
    y = alt.Y("sampling:N", sort=rules, title="sampling rule")
    x = alt.X("mean:Q", title="mean number of samples (log scale)").scale(type="log", nice=False, padding=16)
    x = x.axis(labelOverlap="greedy", labelSeparation=8)
    colour = alt.Color("stopping:N", sort=stops, title="stopping rule").scale(
        domain=stops, range=list(COLOURS[: len(stops)])
    )
    base = alt.Chart(data, width=560, height=30 * len(rules))
    bound = alt.Chart(pl.DataFrame({"K": [K], "name": [f"K = {K:,.0f}"]}))
    chart = alt.layer(
        base.mark_rule(strokeWidth=1.5).encode(alt.X("low:Q"), y, alt.X2("high:Q"), colour),
        base.mark_point(filled=True, size=70, opacity=1).encode(x, y, colour),
        base.mark_tick(thickness=2, size=14).encode(alt.X("median:Q"), y, colour),
        bound.mark_rule(strokeDash=[5, 3]).encode(alt.X("K:Q")),
        bound.mark_text(align="left", dx=4, baseline="top").encode(alt.X("K:Q"), alt.Text("name:N"), y=alt.value(2)),
    ).properties(title="Sampling or stopping: where do the samples go?")
    caption = (
        "Every sampling rule with every stopping rule on the paper's instance: points are means with 97.5 % "
        "intervals, ticks medians, the dashed line K of Theorem 1, as printed."
    )
    return Figure("pairs", caption, chart)

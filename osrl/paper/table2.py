"""Table 2: the share of each arm in the samples of phase 1, against the optimal allocation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl

from osrl.allocation import Needs, allocate
from osrl.glr.statistic import rho
from osrl.model.arrays import Floats
from osrl.model.environment import new_environment
from osrl.model.instance import Instance
from osrl.model.rng import Key
from osrl.paper.dynamics import play_phase_1
from osrl.paper.experiment import Experiment
from osrl.paper.mirror_ascent import new_released_state, released_solve
from osrl.paper.published import (
    AGREES,
    ALLOCATION,
    ALLOCATION_DIGIT,
    DIFFERS,
    PUBLISHED_RUNS,
    PULLS,
    PULLS_DIGIT,
    SIGMA,
    Footnotes,
    Verdict,
    compare_printed,
)
from osrl.paper.table1 import RELEASED, SHORTER, THEOREM, Variant
from osrl.policies.contract import Criterion
from osrl.policies.steps import design_of
from osrl.report.charts import GREEN, GREY, ORANGE, Figure
from osrl.report.table import Cell, Grid
from osrl.simulation.runs import Z975

RISK = 0.1  # the paper does not say which; shares hardly depend on it
PULLED, OPTIMAL = "pulls", "allocation"
OPTIMUM = "certified optimum"
ASCENT = "released ascent"
EARLY = "the printed allocation is where the released mirror ascent stopped"
TRACKS = "tracks the optimum, not the released mirror ascent"
WHY = {THEOREM: TRACKS, SHORTER: TRACKS, RELEASED: ""}


class Shares(NamedTuple):
    """The distribution of samples over all arms, and the published shares; arrays (X, G, H)."""

    kind: str  # PULLED: averages at tau_G over runs; OPTIMAL: weights computed from the true means
    label: str
    colour: str
    shares: Floats
    ci975: Floats  # 0 for weights
    published: Floats
    verdicts: tuple[Verdict, ...]  # arm by arm

    def records(self, instance: Instance) -> Iterator[dict[str, Any]]:
        """Yield one row for each arm, for CSV and JSON."""
        for i, (x, g, h) in enumerate(np.ndindex(*self.shares.shape)):
            half = float(self.ci975[x, g, h])
            yield {
                "kind": self.kind,
                "source": self.label,
                "task": instance.tasks[x],
                "representation": instance.representations[g],
                "predictor": instance.predictors[h],
                "share": float(self.shares[x, g, h]),
                "ci975": None if math.isnan(half) else half,
                "published_share": float(self.published[x, g, h]),
                **self.verdicts[i].record(),
            }


class Worth(NamedTuple):
    """The value of an allocation: rho, and its part of the certified maximum."""

    label: str
    rho: float
    of_maximum: float

    def record(self) -> dict[str, Any]:
        """Return the row for CSV and JSON."""
        return {"allocation": self.label, "rho": self.rho, "of_maximum": self.of_maximum}


def run_table_2(experiment: Experiment) -> list[Shares]:
    """Return the rows of Table 2: shares of the pulls when phase 1 ends, and optimal allocations."""
    instance = experiment.instance
    pulled = [
        *_pulled(experiment, (THEOREM, SHORTER)),
        *(_pulled(experiment, (RELEASED,)) if experiment.released else ()),
    ]
    optimum = allocate(instance, Needs.of(instance, 1.0, 0.0), sigma=SIGMA).weights
    ascent = new_released_state(*instance.shape)
    released_solve(ascent, experiment.means, instance.best.representation, instance.family.noise)
    return [
        *pulled,
        _weights(OPTIMUM, GREEN, optimum, EARLY),
        _weights(ASCENT, ORANGE, ascent.q.reshape(instance.shape), ""),
    ]


def _pulled(experiment: Experiment, variants: Sequence[Variant]) -> Iterator[Shares]:
    """Yield average shares of the pulls at tau_G, for variants of a policy that are read off the same runs."""
    policy = variants[0].policy
    criteria = tuple(Criterion(variant.threshold, RISK, RISK) for variant in variants)

    def measure(key: Key) -> Floats:
        state = experiment.new_state(policy, criteria, key)
        outcome = state.outcome
        play_phase_1(state, outcome, new_environment(experiment.instance, key), design_of(state))
        return np.asarray(outcome.pulls / outcome.tau_g[:, None, None])

    mean, std = experiment.average(f"runs of {policy}, phase 1", measure)
    for i, variant in enumerate(variants):
        shares, spread = mean[i].reshape(PULLS.shape), std[i].reshape(PULLS.shape)
        # The spread of the published runs is not known; ours stands in for it.
        error = spread * math.sqrt(1 / experiment.runs + 1 / PUBLISHED_RUNS)
        ci975 = Z975 * spread / math.sqrt(experiment.runs)
        verdicts = _verdicts(shares, error, PULLS, np.full(PULLS.shape, PULLS_DIGIT), WHY[variant])
        yield Shares(PULLED, variant.label, variant.colour, shares, ci975, PULLS, verdicts)


def _weights(label: str, colour: str, weights: Floats, why: str) -> Shares:
    """Return weights for the true means, which have no sampling error."""
    nothing = np.zeros(weights.shape)
    verdicts = _verdicts(weights, nothing, ALLOCATION, ALLOCATION_DIGIT, why)
    return Shares(OPTIMAL, label, colour, weights, nothing, ALLOCATION, verdicts)


def _verdicts(ours: Floats, error: Floats, printed: Floats, digit: Floats, why: str) -> tuple[Verdict, ...]:
    """Compare arm by arm."""
    parts = zip(*(part.flat for part in (ours, error, printed, digit)), strict=True)
    return tuple(compare_printed(float(o), float(e), float(p), float(d), why) for o, e, p, d in parts)


def worths(instance: Instance, rows: Sequence[Shares]) -> list[Worth]:
    """Return what the allocations of Table 2 are worth, the printed ones normalised to a sum of 1."""
    most = allocate(instance, Needs.of(instance, 1.0, 0.0)).upper
    shares = {row.label: row.shares for row in rows}
    shares |= {"published pulls": PULLS / PULLS.sum(), "published allocation": ALLOCATION / ALLOCATION.sum()}
    values = {label: rho(instance, each).value for label, each in shares.items()}
    return [Worth(label, value, value / most) for label, value in values.items()]


def grids_2(instance: Instance, rows: Sequence[Shares], values: Sequence[Worth]) -> list[Grid]:
    """Return Table 2 for the reader: one table for each task, as printed, and what the allocations are worth."""
    worth = Grid(
        "What these allocations are worth",
        ("allocation", "rho: information in a sample", "of the certified maximum"),
        [[[value.label, f"{value.rho:.6f}", f"{value.of_maximum:.1%}"] for value in values]],
        right=frozenset((1, 2)),
    )
    return [*(_task_grid(instance, rows, x) for x in range(len(instance.tasks))), worth]


def _task_grid(instance: Instance, rows: Sequence[Shares], x: int) -> Grid:
    arms = [f"{g} {h}" for g in instance.representations for h in instance.predictors]
    footnotes = Footnotes()
    return Grid(
        f"Table 2, task {instance.tasks[x]}. Shares of the samples of phase 1",
        ("", *arms, "verdict"),
        [[*_published_and_ours(rows, kind, x, footnotes)] for kind in (PULLED, OPTIMAL)],
        right=frozenset(range(1, 1 + len(arms))),
        notes=(
            *footnotes.notes(),
            f"Pulls are averages of N / tau_G over runs, at risk {RISK}. A share agrees when it lies within "
            "sampling error of the printed number and its rounding.",
        ),
    )


def _published_and_ours(rows: Sequence[Shares], kind: str, x: int, footnotes: Footnotes) -> Iterator[list[str | Cell]]:
    """Yield the published shares of one task, and ours below them; a row agrees when all its arms do."""
    shown = [row for row in rows if row.kind == kind]
    yield [Cell(f"{kind}, published", "strong"), *map(_share, shown[0].published[x].flat), ""]
    for row in shown:
        n = row.shares[x].size
        judged = row.verdicts[x * n : (x + 1) * n]
        cells = [
            Cell(_share(share), "bad" if verdict.word == DIFFERS else "")
            for share, verdict in zip(row.shares[x].flat, judged, strict=True)
        ]
        worst = next((verdict for verdict in judged if verdict.word != AGREES), judged[0])
        yield [f"  {row.label}", *cells, footnotes.cell(worst)]


def _share(share: float) -> str:
    return f"{share:.3f}" if share >= 1e-3 else f"{share:.0e}".replace("e-0", "e-") if share > 1e-6 else "0"


def figure_2(instance: Instance, rows: Sequence[Shares]) -> Figure:
    """Draw Table 2: published and our shares of the pulls, with the optimum."""
    arms = [f"{g} {h}" for g in instance.representations for h in instance.predictors]
    bars = [("published", GREY, PULLS)]
    bars += [(row.label, row.colour, row.shares) for row in rows if row.kind == PULLED]
    marks = [(row.label, row.colour, row.shares) for row in rows if row.label == OPTIMUM]
    colours = {label: colour for label, colour, _ in bars + marks}
    panels = [
        _panel(_long_frame(arms, bars, x), _long_frame(arms, marks, x), colours).properties(title=f"task {task}")
        for x, task in enumerate(instance.tasks)
    ]
    caption = (
        "Table 2 as a chart: bars are average shares of the pulls when phase 1 ends, lines the optimal "
        "allocation for the true means."
    )
    return Figure("table-2", caption, alt.hconcat(*panels, spacing=24))


def _long_frame(arms: Sequence[str], sources: Sequence[tuple[str, str, Floats]], x: int) -> pl.DataFrame:
    """Return one row for each source and arm of task ``x``."""
    pairs = [
        (label, arm, share) for label, _, shares in sources for arm, share in zip(arms, shares[x].flat, strict=True)
    ]
    return pl.DataFrame(pairs, schema=["source", "arm", "share"], orient="row")


def _panel(bars: pl.DataFrame, marks: pl.DataFrame, colours: dict[str, str]) -> Any:
    """Draw one task."""
    x = alt.X("arm:N", sort=None, title="representation, predictor", axis=alt.Axis(labelAngle=0))
    y = alt.Y("share:Q", title="share of the samples", scale=alt.Scale(domain=[0, 0.2]))
    colour = alt.Color(
        "source:N",
        title=None,
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(orient="top", columns=3, symbolOpacity=1),
    )
    offset = alt.XOffset("source:N", sort=bars["source"].unique(maintain_order=True).to_list())
    pulled = alt.Chart(bars, width=350, height=220).mark_bar().encode(x=x, xOffset=offset, y=y, color=colour)
    optimum = alt.Chart(marks).mark_tick(thickness=3, size=50, orient="horizontal", opacity=1)
    return pulled + optimum.encode(x=x, y=y, color=colour)

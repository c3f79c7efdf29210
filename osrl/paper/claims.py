"""The sentences of the paper about its experiments that contain a number, compared with ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from osrl.paper.dynamics import SERIES, Dynamics
from osrl.paper.published import (
    AGREES,
    DIFFERS,
    DISTANCE,
    DISTANCE_AT,
    GROWTH,
    PHASE_1,
    SUP_CHANGE,
    SUP_CHANGE_FROM,
    TABLE_1,
    Footnotes,
    Verdict,
    compare,
)
from osrl.paper.table1 import Variant, runs_of, variants_in
from osrl.report.table import Cell, Grid
from osrl.simulation.runs import Z975


class Statement(NamedTuple):
    """A sentence of the paper, its number, and ours."""

    text: str
    source: str
    published: str
    ours: float
    verdict: Verdict

    def record(self) -> dict[str, Any]:
        """Return the row for CSV and JSON."""
        return {
            "statement": self.text,
            "source": self.source,
            "published": self.published,
            "ours": self.ours,
            **self.verdict.record(),
        }


def growth(frame: pl.DataFrame) -> Iterator[Statement]:
    """Yield how much longer phase 1 takes at a smaller risk."""
    for (larger, smaller), said in GROWTH.items():
        before, after = TABLE_1[larger, PHASE_1], TABLE_1[smaller, PHASE_1]
        published = after.average / before.average
        error = published * math.hypot(before.ci975 / before.average, after.ci975 / after.average) / Z975
        for variant in variants_in(frame):
            if PHASE_1 in variant.quantities:
                ours, ours_error = _ratio(frame, variant, larger, smaller)
                yield Statement(
                    f"phase 1 takes longer at risk {smaller:g} than at {larger:g}",
                    variant.label,
                    f"roughly {said:.0%}",
                    ours - 1,
                    compare(ours, ours_error, published, error, variant.why),
                )


def _ratio(frame: pl.DataFrame, variant: Variant, larger: float, smaller: float) -> tuple[float, float]:
    """Return the ratio of the averages of phase 1 at two risks, from the same runs, and its standard error."""
    before, after = (runs_of(frame, variant, delta)["tau_g"].to_numpy().astype(float) for delta in (larger, smaller))
    ratio = float(after.mean() / before.mean())
    if before.size < 2:
        return ratio, math.nan
    return ratio, float(np.std(after - ratio * before, ddof=1) / before.mean() / math.sqrt(before.size))


def changes(followed: Sequence[Dynamics], norm: float) -> Iterator[Statement]:
    """Yield how much the weights still move, and how far they are from the optimum; ``norm`` is its 2-norm."""
    ninth, when = "at most about 1/9", f"around round {DISTANCE_AT}"
    for one in followed:
        largest = one.mean[SERIES.index("weights_largest_change"), SUP_CHANGE_FROM - 1 :].max()
        text = f'largest change of a weight in a round, from round {SUP_CHANGE_FROM} ("few dozens") on'
        yield _at_most(text, one.policy, f"below {SUP_CHANGE:.0%}", largest, SUP_CHANGE)
    for one in followed:
        apart = abs(one.mean[SERIES.index("weights_norm"), DISTANCE_AT - 1] / norm - 1)
        text = f"difference between the weights and the optimum, of their 2-norms, {when}"
        yield _at_most(text, one.policy, ninth, apart, DISTANCE)
    for one in followed:
        distance = one.mean[SERIES.index("weights_distance"), DISTANCE_AT - 1]
        text = f"the same, as a distance |q - q*| / |q*|, {when}"
        yield _at_most(text, one.policy, ninth, distance, DISTANCE, "it holds for the norms that the paper plots")


def _at_most(text: str, source: str, said: str, ours: float, limit: float, why: str = "no known reason") -> Statement:
    verdict = Verdict(AGREES) if ours <= limit else Verdict(DIFFERS, None, why)
    return Statement(text, source, said, float(ours), verdict)


def statement_grid(title: str, statements: Sequence[Statement]) -> Grid:
    """Return the statements for the reader, each printed once."""
    footnotes = Footnotes()
    return Grid(
        title,
        ("the paper says", "policy", "published", "ours", "verdict"),
        [
            [*_statement_rows(list(same), footnotes)]
            for _, same in groupby(statements, key=lambda statement: statement.text)
        ],
        right=frozenset((3,)),
        wrapped=frozenset((0,)),
        notes=footnotes.notes(),
    )


def _statement_rows(statements: Sequence[Statement], footnotes: Footnotes) -> Iterator[list[str | Cell]]:
    for i, one in enumerate(statements):
        text = "" if i else one.text
        yield [text, one.source, one.published, f"{one.ours:.1%}", footnotes.cell(one.verdict)]

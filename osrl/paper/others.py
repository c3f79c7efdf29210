"""Published numbers of others, beside ours: Garivier and Kaufmann (2016), Table 1.

*Optimal Best Arm Identification with Fixed Confidence*, section 6: two Bernoulli instances, risk 0.1, the
average number of draws over 3000 experiments. Only averages are printed; theirs are taken to have the
standard deviation of ours.

They were entered without a copy of that paper at hand; docs/paper.md says so to whoever would cite them. What
the strategies do was compared with the code that Kaufmann has published (EmilieKaufmann/BAI_epsBAI_code).
C-tracking and top-two rules run beside them: we know of no published number of theirs on these instances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from osrl.instance import Instance
from osrl.paper.experiment import Experiment, part_of
from osrl.paper.verdicts import NOT_JUDGED, Footnotes, Verdict, compare
from osrl.report.grid import Cell, Grid
from osrl.simulation.simulate import simulate

RISK = 0.1
THEIR_RUNS = 3000
INSTANCES = {"mu1": (0.5, 0.45, 0.43, 0.4), "mu2": (0.3, 0.21, 0.2, 0.19, 0.18)}


class Method(NamedTuple):
    """A strategy: what we call it, and the averages that were published for the two instances, if any."""

    name: str
    sampling: str
    stopping: str
    published: tuple[float, float] | None = None
    why: str = ""


METHODS = (
    Method("Track-and-Stop, D-tracking", "tas", "glr-gk", (4052, 1406)),
    Method("Track-and-Stop, C-tracking", "c-tracking", "glr-gk"),
    Method("Chernoff racing", "chernoff-racing", "race-gk", (4516, 3078)),
    Method("KL-LUCB", "kl-lucb", "intervals-gk", (8437, 2716)),
    Method("KL racing", "racing", "intervals-gk", (9590, 3334)),
    Method("top two: TTTS", "ttts", "glr-gk"),
    Method("top two: T3C", "t3c", "glr-gk"),
    Method("top two: EB-TCI", "eb-tci", "glr-gk"),
)


class Row(NamedTuple):
    """One number of the table."""

    method: Method
    instance: str
    runs: int
    mean: float
    error: float
    median: float
    wrong: float
    published: float | None
    verdict: Verdict

    def record(self) -> dict[str, Any]:
        """For JSON and CSV."""
        return {
            "method": self.method.name,
            "sampling": self.method.sampling,
            "stopping": self.method.stopping,
            "instance": self.instance,
            "runs": self.runs,
            "mean": self.mean,
            "standard_error": self.error,
            "median": self.median,
            "wrong": self.wrong,
            "published": self.published,
            **self.verdict.record(),
        }


def run_others(experiment: Experiment, methods: Sequence[Method] = METHODS) -> list[Row]:
    """Every method on both instances."""
    rows: list[Row] = []
    total = len(methods) * len(INSTANCES) * experiment.runs
    for j, (name, means) in enumerate(INSTANCES.items()):
        instance = Instance.bernoulli([[list(means)]])
        for method in methods:
            told = part_of(experiment.told("numbers of others"), len(rows) * experiment.runs, total)
            found = simulate(
                instance,
                sample=method.sampling,
                stop=method.stopping,
                delta=RISK,
                runs=experiment.runs,
                seed=experiment.seed,
                workers=experiment.workers,
                progress=told,
            )
            row = found.summary().row(0, named=True)
            std = math.nan if row["std"] is None else row["std"]
            ours, theirs = std / math.sqrt(row["runs"]), std / math.sqrt(THEIR_RUNS)
            printed, verdict = None, Verdict(NOT_JUDGED)
            if method.published is not None:
                printed = method.published[j]
                verdict = compare(row["mean"], ours, printed, theirs, method.why)
            numbers = (row["runs"], row["mean"], ours, row["median"], row["error_h"])
            rows.append(Row(method, name, *numbers, printed, verdict))
    return rows


def grid_others(rows: Sequence[Row]) -> Grid:
    """The table for the reader."""
    footnotes = Footnotes()
    groups: list[list[list[str | Cell]]] = []
    for name, means in INSTANCES.items():
        group: list[list[str | Cell]] = []
        for row in rows:
            if row.instance == name:
                z = "" if row.verdict.z is None else f"{row.verdict.z:+.1f}"
                numbers = [
                    "" if row.published is None else f"{row.published:,.0f}",
                    f"{row.mean:,.0f}",
                    f"{row.error:,.0f}",
                    f"{row.median:,.0f}",
                    f"{row.wrong:.3f}",
                ]
                label = f"{row.method.name}, {name} = {list(means)}"
                group.append([label, *numbers, z, footnotes.cell(row.verdict)])
        groups.append(group)
    return Grid(
        "Garivier and Kaufmann (2016), Table 1: average number of draws",
        ("strategy, instance", "published", "ours", "error", "median", "wrong", "z", "verdict"),
        groups,
        right=frozenset(range(1, 7)),
        wrapped=frozenset({0}),
        notes=(
            *footnotes.notes(),
            "Error: standard error of ours. Wrong: the share of wrong answers, of ours. A race that has lost "
            "its best arm goes on between arms that are nearly equal: that bends the mean, not the median.",
        ),
    )

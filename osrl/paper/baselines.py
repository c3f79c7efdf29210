"""Published numbers of other papers, beside ours: one table of track-and-stop and its rivals, one of top two.

- Garivier and Kaufmann, *Optimal Best Arm Identification with Fixed Confidence* (2016), section 6: coins,
  risk 0.1, the average number of draws over 3000 experiments. What the strategies do was compared with the
  code that Kaufmann has published (EmilieKaufmann/BAI_epsBAI_code). C-tracking and top-two rules run beside
  them: we know of no published number of theirs on these instances.
- Qin, Klabjan and Russo, *Improving the Expected Improvement Algorithm* (2017), simulation experiments:
  Gaussian rewards of variance 1, a flat prior, every arm measured once first, stopped when the leading arm is
  the best with posterior probability c; the average number of measurements. EI is TTEI with beta = 1. That
  their averages are over 100 trials is an assumption.

Only averages are printed; theirs are taken to have the standard deviation of ours. All of them were entered
without a copy of the papers at hand; docs/paper.md warns readers who would cite them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from osrl.model.instance import Instance
from osrl.paper.experiment import Experiment, subprogress
from osrl.paper.published import NOT_JUDGED, Footnotes, Verdict, compare
from osrl.report.table import Cell, Grid
from osrl.simulation.api import simulate


class Method(NamedTuple):
    """A strategy: its name here, and the average that was published for each instance, if any."""

    name: str
    sampling: str
    stopping: str
    published: tuple[float, ...] | None = None
    risk: float = 0.1
    options: Mapping[str, float] = {}
    why: str = ""  # what explains a difference


class Source(NamedTuple):
    """A published table."""

    name: str
    what: str  # its numbers are
    runs: int  # over which each of them is an average
    family: str
    instances: Mapping[str, tuple[float, ...]]
    methods: tuple[Method, ...]
    note: str

    def instance(self, name: str) -> Instance:
        """Return one of the instances: one task with one representation."""
        means = [[list(self.instances[name])]]
        return Instance.bernoulli(means) if self.family == "bernoulli" else Instance.gaussian(means, 1.0)


SOLVED = (
    "ours solves for new weights when the run has grown by 5 %, not after every sample; a literal D-tracking "
    "that does so too takes 1,500 ± 32 on mu2"
)
TAIL = (
    "in a literal KL-LUCB a few runs in a thousand lose the best arm and last very long; ours goes on trying "
    "arms that are rare, and has no such runs; see docs/paper.md"
)
TRACK_AND_STOP = Source(
    "Garivier and Kaufmann (2016), Table 1",
    "average number of draws",
    3000,
    "bernoulli",
    {"mu1": (0.5, 0.45, 0.43, 0.4), "mu2": (0.3, 0.21, 0.2, 0.19, 0.18)},
    (
        Method("Track-and-Stop, D-tracking", "tas", "glr-gk", (4052, 1406), why=SOLVED),
        Method("Track-and-Stop, C-tracking", "c-tracking", "glr-gk"),
        Method("Chernoff racing", "chernoff-racing", "race-gk", (4516, 3078)),
        Method("KL-LUCB", "kl-lucb", "intervals-gk", (8437, 2716), why=TAIL),
        Method("KL racing", "racing", "intervals-gk", (9590, 3334)),
        Method("top two: TTTS", "ttts", "glr-gk"),
        Method("top two: T3C", "t3c", "glr-gk"),
        Method("top two: EB-TCI", "eb-tci", "glr-gk"),
        Method("top two: TTEI", "ttei", "glr-gk"),
    ),
    "A race that has lost its best arm goes on between arms that are nearly equal: that bends the mean, not "
    "the median.",
)
TOP_TWO = Source(
    "Qin, Klabjan and Russo (2017)",
    "average number of measurements",
    100,
    "gaussian",
    {"nu1": (5, 4, 1, 1, 1), "nu2": (5, 4, 3, 2, 1), "nu3": (2, 0.8, 0.6, 0.4, 0.2)},
    (
        Method("TTEI, c = 0.95", "ttei", "posterior", (14.60, 16.72, 24.39), 0.05),
        Method("EI, c = 0.95", "ttei", "posterior", (238.50, 384.73, 1525.42), 0.05, {"beta": 1.0}),
        Method("TTEI, c = 0.9999", "ttei", "posterior", (61.97, 66.56, 76.21), 0.0001),
    ),
    "Their numbers are taken to be averages of 100 trials. Where EI leaves out a rival that looked bad at "
    "first, it takes long to come back to it: its mean is that of few runs, the median tells more.",
)
SOURCES = (TRACK_AND_STOP, TOP_TWO)


class Row(NamedTuple):
    """One number of a table."""

    source: Source
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
        """Return the row for JSON and CSV."""
        return {
            "source": self.source.name,
            "method": self.method.name,
            "sampling": self.method.sampling,
            "stopping": self.method.stopping,
            "risk": self.method.risk,
            "instance": self.instance,
            "runs": self.runs,
            "mean": self.mean,
            "standard_error": self.error,
            "median": self.median,
            "wrong": self.wrong,
            "published": self.published,
            **self.verdict.record(),
        }


def run_baselines(experiment: Experiment, sources: Sequence[Source] = SOURCES) -> list[Row]:
    """Run every method of every table on each of its instances."""
    rows: list[Row] = []
    wanted = [(one, name, method) for one in sources for name in one.instances for method in one.methods]
    total = len(wanted) * experiment.runs
    for source, name, method in wanted:
        found = simulate(
            source.instance(name),
            sample=method.sampling,
            stop=method.stopping,
            delta=method.risk,
            runs=experiment.runs,
            seed=experiment.seed,
            workers=experiment.workers,
            options=method.options,
            progress=subprogress(experiment.progress_for("numbers of others"), len(rows) * experiment.runs, total),
        )
        row = found.summary().row(0, named=True)
        std = math.nan if row["std"] is None else row["std"]
        ours, theirs = std / math.sqrt(row["runs"]), std / math.sqrt(source.runs)
        printed, verdict = None, Verdict(NOT_JUDGED)
        if method.published is not None:
            printed = method.published[list(source.instances).index(name)]
            verdict = compare(row["mean"], ours, printed, theirs, method.why)
        numbers = (row["runs"], row["mean"], ours, row["median"], row["error_h"])
        rows.append(Row(source, method, name, *numbers, printed, verdict))
    return rows


def baseline_grids(rows: Sequence[Row]) -> Iterator[Grid]:
    """Yield the tables for the reader."""
    for source in dict.fromkeys(row.source.name for row in rows):
        yield _grid([row for row in rows if row.source.name == source])


def _grid(rows: Sequence[Row]) -> Grid:
    source, footnotes = rows[0].source, Footnotes()
    digits = 2 if source.family == "gaussian" else 0  # as printed
    groups: list[list[list[str | Cell]]] = []
    for name, means in source.instances.items():
        group: list[list[str | Cell]] = []
        for row in rows:
            if row.instance == name:
                z = "" if row.verdict.z is None else f"{row.verdict.z:+.1f}"
                numbers = [
                    "" if row.published is None else f"{row.published:,.{digits}f}",
                    f"{row.mean:,.{digits}f}",
                    f"{row.error:,.{digits}f}",
                    f"{row.median:,.0f}",
                    f"{row.wrong:.3f}",
                ]
                label = f"{row.method.name}, {name} = {list(means)}"
                group.append([label, *numbers, z, footnotes.cell(row.verdict)])
        groups.append(group)
    return Grid(
        f"{source.name}: {source.what}",
        ("strategy, instance", "published", "ours", "error", "median", "wrong", "z", "verdict"),
        groups,
        right=frozenset(range(1, 7)),
        wrapped=frozenset({0}),
        notes=(
            *footnotes.notes(),
            f"Error: standard error of ours. Wrong: the share of wrong answers, of ours. {source.note}",
        ),
    )

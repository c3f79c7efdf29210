"""The results of each part of the paper: its numbers, said as records, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from osrl.allocation import Needs, allocate
from osrl.bounds.lower import lower_bound
from osrl.paper.claims import changes, growth, statement_grid
from osrl.paper.concept_figures import pool, symmetric_tasks
from osrl.paper.dynamics import POLICIES, follow
from osrl.paper.experiment import Experiment
from osrl.paper.figures import dynamics_figures
from osrl.paper.pairs import RISK, figure_pairs, grid_pairs, run_pairs
from osrl.paper.published import SIGMA
from osrl.paper.published_baselines import grids_others, run_others
from osrl.paper.table1 import figure_1, grid_1, medians_1, run_table_1, table_1
from osrl.paper.table2 import figure_2, grids_2, run_table_2, worths
from osrl.report.charts import Figure
from osrl.report.table import Grid

Records = Sequence[Mapping[str, Any]]


class Result(NamedTuple):
    """What came of a part: ``records`` for JSON and CSV files of the same names, ``data`` for CSV alone."""

    title: str
    text: Sequence[str]
    records: Mapping[str, Records]
    grids: Sequence[Grid]
    figures: Sequence[Figure]
    data: Mapping[str, pl.DataFrame] = {}

    def judged(self) -> list[Mapping[str, Any]]:
        """The records of numbers that stand beside a published one."""
        return [record for records in self.records.values() for record in records if "verdict" in record]


def first_table(experiment: Experiment, folder: Path | None = None) -> Result:
    """Table 1, and what the paper says about it in words."""
    frame = run_table_1(experiment, folder)
    rows, said = table_1(frame), list(growth(frame))
    return Result(
        "Table 1",
        (
            "osrl-sc is the paper's algorithm with the optimal allocation: with the threshold of the "
            "theorem, and with the shorter one of the released code. osrl-sc-released behaves as the "
            "released code does, which made the published numbers; it is the one to compare them with. "
            "Phase 2 is the same for all three.",
            "The paper says that each run of track-and-stop picks one task at random. Its numbers are sums "
            "over both tasks, and so are ours.",
        ),
        {"table1": [row.record() for row in rows], "growth": [one.record() for one in said]},
        (grid_1(rows), medians_1(rows), statement_grid("Table 1 in words", said)),
        (figure_1(rows),),
    )


def second_table(experiment: Experiment) -> Result:
    """Table 2, and what its allocations are worth."""
    rows = run_table_2(experiment)
    values = worths(experiment.instance, rows)
    return Result(
        "Table 2",
        (
            "How phase 1 spreads its samples, against the optimal allocation for the true means. The "
            "allocation that was printed as optimal is where the released mirror ascent stops when it "
            "starts from equal weights; the optimum has the two predictors of the refuted representation "
            "the other way round.",
        ),
        {
            "table2": [record for row in rows for record in row.records(experiment.instance)],
            "worth": [value.record() for value in values],
        },
        grids_2(experiment.instance, rows, values),
        (figure_2(experiment.instance, rows),),
    )


def figures(experiment: Experiment) -> Result:
    """The figures on the dynamics of phase 1, and the two that explain."""
    instance = experiment.instance
    optimum = allocate(instance, Needs.of(instance, 1.0, 0.0), sigma=SIGMA)
    target = optimum.weights.reshape(experiment.means.shape)
    norm = math.sqrt(float((target**2).sum()))
    followed = [follow(experiment, policy, target) for policy in POLICIES if experiment.released or policy == "osrl-sc"]
    truth = {
        "rate": optimum.lower,
        "means_norm": math.sqrt(float((experiment.means**2).sum())),
        "weights_norm": norm,
        "weights_largest": float(target.max()),
    }
    said = list(changes(followed, norm))
    return Result(
        "Figures",
        ("The paper prints no numbers of its curves; what it says about them in words is judged below.",),
        {"changes": [one.record() for one in said]},
        (statement_grid("The curves in words", said),),
        (*dynamics_figures(followed, truth), symmetric_tasks(instance), pool(instance)),
        {"dynamics": pl.concat(one.frame() for one in followed)},
    )


def pairs(experiment: Experiment) -> Result:
    """Every sampling rule with every stopping rule on the paper's instance."""
    found = run_pairs(experiment)
    K = lower_bound(experiment.instance, delta=RISK).K.lower
    return Result(
        "Sampling or stopping",
        (
            "The paper compares algorithms in which sampling and stopping change together. Here each "
            "sampling rule of the field runs with each stopping rule, in one phase, on the paper's instance.",
        ),
        {"pairs": [one.record() for one in found]},
        (grid_pairs(found),),
        (figure_pairs(found, K),),
    )


def others(experiment: Experiment) -> Result:
    """Published numbers of others beside ours."""
    rows = run_others(experiment)
    return Result(
        "Published numbers of others",
        (
            "Garivier and Kaufmann (2016), Table 1: Bernoulli arms of one task, risk 0.1, averages over 3000 "
            "experiments. Stopping is at ln((ln t + 1) / delta), which nobody has proved to be safe: by "
            "likelihood ratios for track-and-stop, by intervals for KL-LUCB and KL racing.",
            "Qin, Klabjan and Russo (2017): Gaussian arms of one task, stopped when the leading arm is the "
            "best with posterior probability c, which bounds no risk for fixed means either.",
        ),
        {"others": [row.record() for row in rows]},
        tuple(grids_others(rows)),
        (),
    )

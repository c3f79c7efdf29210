"""The report: each part of the reproduction as records, tables and figures, and the page with all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from osrl.allocation import Needs, allocate
from osrl.bounds.lower import lower_bound
from osrl.paper.baselines import baseline_grids, run_baselines
from osrl.paper.claims import changes, growth, statement_grid
from osrl.paper.dynamics import POLICIES, follow
from osrl.paper.experiment import Experiment
from osrl.paper.figures import dynamics_figures, pool, symmetric_tasks
from osrl.paper.pairs import PAIRS_RISK, figure_pairs, grid_pairs, run_pairs
from osrl.paper.published import SIGMA
from osrl.paper.table1 import figure_1, grid_1, medians_1, run_table_1, table_1
from osrl.paper.table2 import figure_2, grids_2, run_table_2, worths
from osrl.report.charts import Figure
from osrl.report.html import Section, render_page
from osrl.report.table import Grid

Records = Sequence[Mapping[str, Any]]


class ReportPart(NamedTuple):
    """The results of a part: ``records`` for JSON and CSV files of the same names, ``data`` for CSV alone."""

    title: str
    text: Sequence[str]
    records: Mapping[str, Records]
    grids: Sequence[Grid]
    figures: Sequence[Figure]
    data: Mapping[str, pl.DataFrame] = {}

    def judged(self) -> list[Mapping[str, Any]]:
        """Return the records of numbers that stand beside a published one."""
        return [record for records in self.records.values() for record in records if "verdict" in record]


def table_1_part(experiment: Experiment, folder: Path | None = None) -> ReportPart:
    """Reproduce Table 1, and what the paper says about it in words."""
    frame = run_table_1(experiment, folder)
    rows, statements = table_1(frame), list(growth(frame))
    return ReportPart(
        "Table 1",
        (
            "osrl-sc is the paper's algorithm with the optimal allocation: with the threshold of the "
            "theorem, and with the shorter one of the released code. osrl-sc-released behaves as the "
            "released code does, which made the published numbers; it is the one to compare them with. "
            "Phase 2 is the same for all three.",
            "The paper says that each run of track-and-stop picks one task at random. Its numbers are sums "
            "over both tasks, and so are ours.",
        ),
        {"table1": [row.record() for row in rows], "growth": [one.record() for one in statements]},
        (grid_1(rows), medians_1(rows), statement_grid("Table 1 in words", statements)),
        (figure_1(rows),),
    )


def table_2_part(experiment: Experiment) -> ReportPart:
    """Reproduce Table 2, and what its allocations are worth."""
    rows = run_table_2(experiment)
    values = worths(experiment.instance, rows)
    return ReportPart(
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


def figures_part(experiment: Experiment) -> ReportPart:
    """Reproduce the figures on the dynamics of phase 1, and the two that explain."""
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
    statements = list(changes(followed, norm))
    return ReportPart(
        "Figures",
        ("The paper prints no numbers of its curves; what it says about them in words is judged below.",),
        {"changes": [one.record() for one in statements]},
        (statement_grid("The curves in words", statements),),
        (*dynamics_figures(followed, truth), symmetric_tasks(instance), pool(instance)),
        {"dynamics": pl.concat(one.frame() for one in followed)},
    )


def pairs_part(experiment: Experiment) -> ReportPart:
    """Run every sampling rule with every stopping rule on the paper's instance."""
    found = run_pairs(experiment)
    K = lower_bound(experiment.instance, delta=PAIRS_RISK).K.lower
    return ReportPart(
        "Sampling or stopping",
        (
            "The paper compares algorithms in which sampling and stopping change together. Here each "
            "sampling rule of the field runs with each stopping rule, in one phase, on the paper's instance.",
        ),
        {"pairs": [one.record() for one in found]},
        (grid_pairs(found),),
        (figure_pairs(found, K),),
    )


def baselines_part(experiment: Experiment) -> ReportPart:
    """Reproduce published numbers of other papers."""
    rows = run_baselines(experiment)
    return ReportPart(
        "Published numbers of others",
        (
            "Garivier and Kaufmann (2016), Table 1: Bernoulli arms of one task, risk 0.1, averages over 3000 "
            "experiments. Stopping is at ln((ln t + 1) / delta), which nobody has proved to be safe: by "
            "likelihood ratios for track-and-stop, by intervals for KL-LUCB and KL racing.",
            "Qin, Klabjan and Russo (2017): Gaussian arms of one task, stopped when the leading arm is the "
            "best with posterior probability c, which bounds no risk for fixed means either.",
        ),
        {"others": [row.record() for row in rows]},
        tuple(baseline_grids(rows)),
        (),
    )


TITLE = "The paper's experiments, published and run again"
PAPER = "On the Sample Complexity of Representation Learning in Multi-task Bandits with Global and Local Structure"
MADE_WITH = (
    "In the authors' released code the function for beta_1 returns nothing, so that phase 1 stops at beta_2 "
    "alone: sooner than the theorem allows, and without its guarantee.",
    "Its mirror ascent stops when two successive values agree (to a relative 1e-5), long before the "
    "weights have converged: a sample spent as printed in Table 2 is worth about a fifth less than one spent "
    "in the best way. So the optimal weights make phase 1 shorter than published, and the theorem's "
    "threshold makes it longer.",
    "Weights are recomputed after 13 rounds of tracking, sigma is not used, and phase 1 is cut after 20,001 "
    "rounds. None of this changes the numbers much. Phase 2 and track-and-stop are as described.",
)


def page_of(parts: Sequence[ReportPart], runs: int, seed: int, summary: str) -> str:
    """Return the report on ``parts`` as HTML."""
    sections = [Section(part.title, part.text, part.grids, part.figures) for part in parts]
    sections.append(Section("What the published numbers were made with", MADE_WITH))
    introduction = [f"{PAPER}: its tables and figures again, with every published number beside ours.", summary]
    made = f"Made by osrl {version('osrl')}: {runs:,} runs, seed {seed}."
    footer = f"{made} The numbers are also in the CSV files beside this page."
    return render_page(TITLE, introduction, sections, footer)

"""`osrl plan`: how many samples to expect, before an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osrl.cli.arguments import Tolerance, ToleranceG, ToleranceH
from osrl.cli.output import print_json, print_report, progress_bar, working


def plan(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="An instance file with guessed means, or 'paper'.")
    ],
    policy: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Policies to compare.  [default: all with a proof]")
    ] = None,
    delta: Annotated[float | None, typer.Option(metavar="RISK", help="Both risks at once.")] = None,
    delta_g: Annotated[
        float | None, typer.Option(metavar="RISK", help="Risk of a wrong representation.  [default: 0.1]")
    ] = None,
    delta_h: Annotated[
        float | None,
        typer.Option(metavar="RISK", help="Risk of a wrong predictor in a task.  [default: 0.1]"),
    ] = None,
    epsilon: Tolerance = None,
    epsilon_g: ToleranceG = None,
    epsilon_h: ToleranceH = None,
    runs: Annotated[int | None, typer.Option(help="Simulated experiments.  [default: 200]")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same forecast.")] = 0,
    budget: Annotated[
        int | None, typer.Option(help="Stop an experiment after this many samples.  [default: 1000000]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the chart there: plan.png and plan.pdf.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """How many samples to expect, if the means are as guessed."""
    with working("loading ..."):
        # Here, not above: these load kernels, which help and usage errors do not need.
        from osrl.instance import Instance
        from osrl.report.plan import PlanReport
        from osrl.simulation.forecast import BUDGET, RUNS, forecast

        instance = Instance.load(file)
    with progress_bar("runs") as bar:
        planned = forecast(
            instance,
            None if policy is None else policy.split(","),
            delta=delta,
            delta_g=delta_g,
            delta_h=delta_h,
            epsilon=epsilon,
            epsilon_g=epsilon_g,
            epsilon_h=epsilon_h,
            runs=RUNS if runs is None else runs,
            seed=seed,
            budget=BUDGET if budget is None else budget,
            progress=bar.update,
        )
    report = PlanReport(planned)
    if out is not None:
        from osrl.report.charts import save  # first: it says what to install where charts are missing
        from osrl.report.plan_chart import draw_plan

        out.mkdir(parents=True, exist_ok=True)
        save(draw_plan(planned), out)
    if as_json:
        print_json(report.document())
    else:
        print_report(report)

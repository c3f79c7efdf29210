"""`osrl analyse`: what a log of trials proves that was collected elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from osrl.cli.arguments import Tolerance, ToleranceG, ToleranceH
from osrl.cli.output import print_json, print_report, working


def analyse(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="A .csv, .jsonl or .parquet file with columns task, representation, predictor, reward, and "
            "optionally propensity[g,h] for every arm.",
        ),
    ],
    delta: Annotated[float | None, typer.Option(help="Both risks at once.  [default: 0.1]")] = None,
    delta_g: Annotated[float | None, typer.Option(help="Accepted risk of a wrong representation.")] = None,
    delta_h: Annotated[float | None, typer.Option(help="Accepted risk of a wrong predictor.")] = None,
    epsilon: Tolerance = None,
    epsilon_g: ToleranceG = None,
    epsilon_h: ToleranceH = None,
    family: Annotated[
        str | None, typer.Option(help="bernoulli, bounded or gaussian.  [default: read off the rewards]")
    ] = None,
    noise_sd: Annotated[float | None, typer.Option(help="Standard deviation of gaussian rewards.")] = None,
    representations: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="The full list, if some have no rows.")
    ] = None,
    predictors: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="The full list, if some have no rows.")
    ] = None,
    ignorable: Annotated[
        bool,
        typer.Option(
            "--ignorable",
            help="A missing reward says nothing about its value or, with propensities, about the arm.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """What a log of trials proves, whatever rule collected it."""
    with working("reading the log ..."):
        # Here, not above: these load kernels, which help and usage errors do not need.
        from osrl.analysis.analyse import analyse as run
        from osrl.analysis.trials import read_table
        from osrl.report.analysis import AnalysisReport
        from osrl.risks import read_risks, read_tolerances

        risk_g, risk_h = read_risks(delta, delta_g, delta_h)
        tolerances = read_tolerances(epsilon, epsilon_g, epsilon_h)
        table = read_table(
            log,
            family=family,
            noise_sd=noise_sd,
            representations=None if representations is None else representations.split(","),
            predictors=None if predictors is None else predictors.split(","),
        )
        found = run(table, delta_g=risk_g, delta_h=risk_h, epsilon=tolerances, ignorable=ignorable)
        report = AnalysisReport(log, found)
    if as_json:
        print_json(report.document())
    else:
        print_report(report)

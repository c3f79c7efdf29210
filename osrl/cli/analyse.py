"""`osrl analyse`: what a log of trials proves that was collected elsewhere."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osrl.cli.options import (
    Delta,
    DeltaG,
    DeltaH,
    Epsilon,
    EpsilonG,
    EpsilonH,
    Json,
    NoiseSd,
    split_commas,
)
from osrl.cli.output import print_report, working
from osrl.errors import OsrlError


def analyse(
    context: typer.Context,
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="A .csv, .tsv, .jsonl or .parquet file (.gz too) with columns task, representation, "
            "predictor, reward, and optionally propensity, or propensity[g,h] for every arm.",
        ),
    ],
    delta: Delta = None,
    delta_g: DeltaG = None,
    delta_h: DeltaH = None,
    epsilon: Epsilon = None,
    epsilon_g: EpsilonG = None,
    epsilon_h: EpsilonH = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="ROLE=NAME,...", help="Which column is what, such as task=market,reward=paid."),
    ] = None,
    order_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The time of each row.  [default: rows are in order]"),
    ] = None,
    distinct: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A key: rows with the same one are copies, and count once."),
    ] = None,
    uniform: Annotated[
        bool, typer.Option("--uniform", help="Every arm of a task was drawn with the same probability.")
    ] = False,
    tidy: Annotated[bool, typer.Option("--tidy", help="Names that differ only in case or blanks are one.")] = False,
    family: Annotated[
        str | None, typer.Option(help="bernoulli, bounded or gaussian.  [default: read off the rewards]")
    ] = None,
    noise_sd: NoiseSd = None,
    low: Annotated[float | None, typer.Option(help="The smallest bounded reward.  [default: 0]")] = None,
    high: Annotated[float | None, typer.Option(help="The largest bounded reward.  [default: 1]")] = None,
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
    as_json: Json = False,
) -> None:
    """Print what a log of trials proves, whatever rule collected it."""
    with working("reading the log ..."):
        # Here, not above: these load kernels, which help and usage errors do not need.
        from osrl.analysis.verdict import analyse as run
        from osrl.report.analysis import AnalysisReport

        options: Any = {key: value for key, value in context.params.items() if key not in ("log", "as_json")}
        options |= {
            "columns": None if columns is None else dict(map(_role, columns.split(","))),
            "representations": split_commas(representations),
            "predictors": split_commas(predictors),
        }
        report = AnalysisReport(log, run(log, **options))
    print_report(report, as_json)


def _role(given: str) -> tuple[str, str]:
    """Read the role and the name of a column from role=name."""
    key, separator, name = given.partition("=")
    if not separator or not name:
        raise OsrlError(f"--columns has {given!r}; give role=name, such as task=market")
    return key.strip(), name

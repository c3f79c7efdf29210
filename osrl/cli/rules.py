"""`osrl rules`: the sampling and stopping rules that can be paired."""

from __future__ import annotations

from typing import Annotated

import typer

from osrl.cli.output import print_json, print_report, working


def rules(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the rules that osrl simulate --sample and --stop take, and what is proved."""
    with working("loading ..."):
        from osrl.report.rules import RulesReport
    report = RulesReport()
    if as_json:
        print_json(report.document())
    else:
        print_report(report)

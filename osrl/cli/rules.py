"""`osrl rules`: the sampling and stopping rules that can be paired."""

from __future__ import annotations

from osrl.cli.options import Json
from osrl.cli.output import print_report, working


def rules(as_json: Json = False) -> None:
    """List the rules that osrl simulate --sample and --stop take, and what is proved."""
    with working("loading ..."):
        from osrl.report.rules import RulesReport
    print_report(RulesReport(), as_json)

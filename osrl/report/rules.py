"""The rules that can be paired: a JSON document, and two tables for the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

import osrl.policies  # noqa: F401  (registers the rules of the package)
from osrl.errors import OsrlError
from osrl.policies.registry import pair, sampling_rules, split_stop, stop_names, stopping_rules
from osrl.report.table import new_table

DRAWS = {True: "always", False: "never", None: "if asked"}


class RulesReport:
    """Every sampling rule and every stopping rule with its thresholds."""

    def document(self) -> dict[str, Any]:
        """Return the document of `osrl rules --json`."""
        return {"sampling": _sampling(), "stopping": _stopping()}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the two tables, and how they are used."""
        sampling = new_table(gap=1)
        for name in ("--sample", "draws", "what it does"):
            sampling.add_column(name, no_wrap=name != "what it does")
        for row in _sampling():
            sampling.add_row(row["name"], DRAWS[row["draws"]], row["summary"])
        stopping = new_table(gap=1)
        for name in ("--stop", "guarantee", "not with", "what it does"):
            stopping.add_column(name, no_wrap=name in ("--stop", "guarantee"))
        for row in _stopping():
            proved = "proved" if row["proved"] else "none"
            stopping.add_row(row["name"], proved, ", ".join(row["not_with"]), row["summary"])
        yield sampling
        yield stopping
        yield Text(
            "Draws: whether arms are drawn with known probabilities, which bets need. What is proved is a "
            "matter of the stopping rule: it holds with every sampling rule that it can be paired with. A "
            "rule is proved where it says by what; osrl rules --json has the statements (proof)."
        )


def _sampling() -> list[dict[str, Any]]:
    return [{"name": name, "draws": rule.draws, "summary": rule.summary} for name, rule in sampling_rules().items()]


def _stopping() -> list[dict[str, Any]]:
    rows = []
    for name in stop_names():
        rule, threshold = split_stop(name)
        stopping = stopping_rules()[rule]
        rows.append(
            {
                "name": name,
                "rule": rule,
                "threshold": threshold,
                "proved": threshold in stopping.proofs,
                "proof": stopping.proofs.get(threshold),
                "not_with": [sampling for sampling in sampling_rules() if not _fits(sampling, rule)],
                "summary": stopping.summary,
            }
        )
    return rows


def _fits(sampling: str, stopping: str) -> bool:
    """Tell whether two rules can be paired."""
    try:
        pair(sampling, stopping)
    except OsrlError:
        return False
    return True

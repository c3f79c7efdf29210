"""Long walks under true nulls, as a report: `make validate` writes docs/validation/guarantee.md.

python -m tests.validation.report_guarantee FILE [RUNS ROUNDS]
"""

from __future__ import annotations

import sys

from tests.validation.reports import with_progress, write_report, yes_or_no
from tests.validation.walks import CASES, FALSE_ALARM, RISK, most_allowed, rejections, true_nulls

RUNS, ROUNDS = 4000, 20_000


def main(file: str, runs: int = RUNS, rounds: int = ROUNDS) -> int:
    """Walk, write the report; 1 when a null was rejected too often."""
    most = most_allowed(runs)
    lines = [
        "# True nulls that were rejected",
        "",
        f"Made by `make validate`: {runs:,} runs of {rounds:,} rounds (or until the policy was done), both "
        f"risks {RISK}. A test that keeps its risk rejects more than {most:,} times with probability "
        f"{FALSE_ALARM:g} at most (exact binomial tail). Every arm has mean 0.4, or nearly; "
        "`tests/validation/walks.py` says what goes wrong in each case.",
        "",
        "| case | representations, at most | predictors, at most | allowed | kept |",
        "|---|---|---|---|---|",
    ]
    bad = 0
    for name, (policy, instance, trouble) in with_progress(CASES.items()):
        found = rejections(policy, instance, RISK, runs, rounds, trouble)
        g, h = map(max, true_nulls(instance, found))
        bad += max(g, h) > most
        lines.append(f"| {name} | {g:,} | {h:,} | {most:,} | {yes_or_no(max(g, h) <= most)} |")
    write_report(file, "\n".join(lines))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))

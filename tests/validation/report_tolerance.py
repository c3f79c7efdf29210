"""Answers with a tolerance, as a report: `make validate` writes docs/validation/tolerance.md.

python -m tests.validation.report_tolerance FILE [RUNS]
"""

from __future__ import annotations

import sys

from osrl.model.outcome import DECIDED, WITHIN
from tests.validation.reports import with_progress, write_report, yes_or_no
from tests.validation.tolerances import CASES, EPSILON, RISK, answers_of, unfinished
from tests.validation.walks import FALSE_ALARM, most_allowed

RUNS = 4000


def main(file: str, runs: int = RUNS) -> int:
    """Play, write the report; 1 when answers were too bad too often, or a run did not end."""
    most = most_allowed(runs, RISK)
    lines = [
        "# Answers that were worse than the tolerance",
        "",
        f"Made by `make validate`: {runs:,} runs of each case, both risks {RISK}, tolerance {EPSILON}. A "
        f"study that keeps its risks gives more than {most:,} answers that are too bad, of one kind in one "
        f"task, with probability {FALSE_ALARM:g} at most (exact binomial tail). *Wrong g*: the "
        "representation is not a best one (or none was said to be shared); *wrong h*: it is. In the worst "
        "task of each. `tests/validation/tolerances.py` says what goes wrong in each case.",
        "",
        "| case | decided | within the tolerance | wrong g, too bad | wrong h, too bad | allowed | kept |",
        "|---|---|---|---|---|---|---|",
    ]
    bad = 0
    for name, case in with_progress(CASES.items()):
        found = answers_of(case, runs)
        kept = found.worst <= most and unfinished(found) == 0
        bad += not kept
        counts = (
            found.verdicts[DECIDED],
            found.verdicts[WITHIN],
            found.wrong_g.max(),
            found.wrong_h.max(),
            most,
        )
        cells = " | ".join(f"{each:,}" for each in counts)
        lines.append(f"| {name} | {cells} | {yes_or_no(kept)} |")
    write_report(file, "\n".join(lines))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))

"""Wrong answers of every proved pair of rules, as a report: `make validate` writes docs/validation/pairs.md.

python -m tests.validation.report_pairs FILE [RUNS]
"""

from __future__ import annotations

import sys

from osrl.errors import OsrlError
from osrl.policies.registry import pair, sampling_rules, split_stop, stop_names
from tests.validation.pac import FALSE_ALARM, INSTANCES, RISK, SEED, Case, Errors, allowed, errors_of, kept
from tests.validation.reports import with_progress, write_report, yes_or_no

RUNS = 1000
INSTANCE = "small gaps"


def proved() -> dict[str, Case]:
    """Return every pair whose stopping rule is proved to keep its risks."""
    found = {}
    for sampling in sampling_rules():
        for stop in stop_names():
            rule, threshold = split_stop(stop)
            try:
                policy = pair(sampling, rule)
            except OsrlError:
                continue
            if policy.proves(threshold):
                found[f"{sampling}, {stop}"] = Case(policy, threshold)
    return found


def report(found: dict[str, Errors], runs: int) -> str:
    """Return the counts of every pair, as Markdown."""
    most = allowed(runs)
    lines = [
        "# Wrong answers of every proved pair",
        "",
        f"Made by `make validate`: {runs:,} runs of each pair, both risks {RISK}, seed {SEED}, on the "
        f"instance `{INSTANCES[INSTANCE].means.tolist()}`. A pair that keeps its risk gives more than "
        f"{most:,} wrong answers of one kind with probability {FALSE_ALARM:g} at most (exact binomial tail). "
        "Counts are for each task; a wrong predictor is counted where the representation is right. Pairs "
        "without a proof are not here.",
        "",
        "| sampling, stopping | wrong representation | wrong predictor | allowed | kept |",
        "|---|---|---|---|---|",
    ]
    for name, errors in found.items():
        g, h = (", ".join(map(str, counts)) for counts in errors)
        lines.append(f"| {name} | {g} | {h} | {most:,} | {yes_or_no(kept(errors, most))} |")
    return "\n".join(lines) + "\n"


def main(file: str, runs: int = RUNS) -> int:
    """Count, write the report; 1 when a pair has not kept its risk."""
    cases = with_progress(proved().items())
    found = {name: errors_of(case, INSTANCES[INSTANCE], runs) for name, case in cases}
    write_report(file, report(found, runs))
    broken = [name for name, errors in found.items() if not kept(errors, allowed(runs))]
    print(f"{file}: {len(found)} pairs, {len(broken)} above the bound")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))

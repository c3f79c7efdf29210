"""The guarantee over many runs, as a report: `make validate` writes docs/validation/policies.md.

python -m tests.validation.report_policies FILE [RUNS]
"""

from __future__ import annotations

import sys

from tests.validation.pac import CASES, FALSE_ALARM, INSTANCES, RISK, SEED, Errors, allowed, errors_of, kept
from tests.validation.reports import with_progress, write_report, yes_or_no

RUNS = 10_000


def report(found: dict[tuple[str, str], Errors], runs: int) -> str:
    """Return the counts of every policy on every instance, as Markdown."""
    most = allowed(runs)
    lines = [
        "# Wrong answers of every policy",
        "",
        f"Made by `make validate`: {runs:,} runs of each policy on each instance, both risks "
        f"{RISK}, seed {SEED}. "
        f"A policy that keeps its risk gives more than {most:,} wrong answers of one kind with probability "
        f"{FALSE_ALARM:g} at most (exact binomial tail). Counts are for each task; a wrong predictor is "
        "counted where the representation is right. The threshold `released` carries no guarantee and is "
        "left out.",
        "",
        "| instance | policy | wrong representation | wrong predictor | allowed | kept |",
        "|---|---|---|---|---|---|",
    ]
    for (instance, policy), errors in found.items():
        g, h = (", ".join(map(str, counts)) for counts in errors)
        lines.append(f"| {instance} | {policy} | {g} | {h} | {most:,} | {yes_or_no(kept(errors, most))} |")
    lines += ["", "The means of the instances, tasks x representations x predictors:", ""]
    lines += [f"- {name}: `{instance.means.tolist()}`" for name, instance in INSTANCES.items()]
    return "\n".join(lines) + "\n"


def main(file: str, runs: int = RUNS) -> int:
    """Count, write the report; 1 when a policy has not kept its risk."""
    cases = [(f"{name}: {case.name}", (name, case)) for name in INSTANCES for case in CASES]
    found = {}
    for _, (name, case) in with_progress(cases):
        found[name, case.name] = errors_of(case, INSTANCES[name], runs)
    write_report(file, report(found, runs))
    broken = [key for key, errors in found.items() if not kept(errors, allowed(runs))]
    print(f"{file}: {len(found)} cases, {len(broken)} above the bound")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))

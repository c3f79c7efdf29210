"""The guarantee over many runs, as a report: `make validate` writes docs/validation/policies.md.

python -m tests.validation.report_policies FILE [RUNS]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.validation.pac import CASES, FALSE_ALARM, INSTANCES, RISK, SEED, Errors, allowed, errors_of

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
        kept = "yes" if _kept(errors, most) else "**no**"
        lines.append(f"| {instance} | {policy} | {g} | {h} | {most:,} | {kept} |")
    lines += ["", "The means of the instances, tasks x representations x predictors:", ""]
    lines += [f"- {name}: `{instance.means.tolist()}`" for name, instance in INSTANCES.items()]
    return "\n".join(lines) + "\n"


def _kept(errors: Errors, most: int) -> bool:
    return bool(max(errors.representation.max(), errors.predictor.max()) <= most)


def main(file: str, runs: int = RUNS) -> int:
    """Count, write the report; 1 when a policy has not kept its risk."""
    found = {}
    for name, instance in INSTANCES.items():
        for case in CASES:
            began = time.monotonic()
            found[name, case.name] = errors_of(case, instance, runs)
            print(f"{name}: {case.name}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(report(found, runs), encoding="utf-8")
    broken = [key for key, errors in found.items() if not _kept(errors, allowed(runs))]
    print(f"{file}: {len(found)} cases, {len(broken)} above the bound")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))

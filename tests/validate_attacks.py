"""Attacks on the guarantee, as a report: `make validate` writes docs/validation/attacks.md.

python -m tests.validate_attacks FILE [RUNS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests import attacks
from tests.attacks import FALSE_ALARM, RISK, allowed, hostile_run

RUNS = 150


class Attack(NamedTuple):
    """What is tried, what came of it before it was mended, and one run: wrong, and alarm or None."""

    what: str
    before: str
    run: Callable[[int], tuple[bool, bool | None]]


def silent(run: Callable[[int], bool]) -> Callable[[int], tuple[bool, None]]:
    """An attack that raises no alarm, because nothing has to be assumed."""
    return lambda seed: (run(seed), None)


DECLINED = "the best of 8 arms is declined in {:.0%} of its trials, declared ignorable, `{}`"
MENDED = [
    Attack(DECLINED.format(share, policy), before, partial(attacks.declined_arm, policy, share))
    for policy, share, before in (
        ("osrl", 0.9, "150 of 150"),
        ("osrl", 0.5, "19 of 60"),
        ("osrl", 0.2, "0 of 60"),
        ("uniform", 0.9, "20 of 20"),
        ("uniform", 0.5, "20 of 20"),
    )
]
MENDED += [
    Attack("a log without 90 % of the rows of the best arm", "40 of 40", attacks.incomplete_log),
    Attack("`plugged` = 0.9, 20 tasks", "40 of 40", silent(attacks.heavy_mixture)),
    Attack("results of phase 1 come late, `osrl-sc`", "20 of 20", silent(attacks.late_first_phase)),
    Attack("a log of coins: means rise, shares change", "40 of 40", partial(attacks.drifting_log, None)),
    Attack("the same with Gaussian rewards", "40 of 40", partial(attacks.drifting_log, 1.0)),
    Attack(
        "tasks are given by the arm that comes next, 10 tasks",
        "150 of 150",
        silent(lambda seed: attacks.foreseen_arms(None, seed)[1]),
    ),
    Attack("Gaussian: tasks are left at lucky moments", "24 of 24", silent(attacks.stale_counts)),
]
HOSTILE = "failures of rivals come late or never, and so do successes of the victim, `{}`"
HELD = [
    Attack(HOSTILE.format(policy), "held", silent(partial(hostile_run, policy, RISK)))
    for policy in ("osrl", "uniform")
]
HELD += [Attack("equal arms, tasks given to hurt, batches of 8", "held", silent(attacks.hunted_tasks))]
ABOUT = """\
Made by `make validate`: {runs:,} runs of each attack (`tests/attacks.py`), risks {risk}. *Wrong*: what is
true was ruled out, or a wrong answer was given, and no alarm had ended the claim by then. A risk that is
kept is exceeded more often than allowed with probability {tail:g} at most (exact binomial tail). *Alarms*:
runs in which the study or the analysis said that what it takes for granted does not hold. *Before*: counted
with the same attack, or one like it. `tests/test_adversary.py` goes further: hypothesis plays against a
study, and on no path may it show more than the true evidence.
"""


def rows(title: str, tried: list[Attack], runs: int) -> tuple[list[str], bool]:
    """A table of attacks; whether all were survived."""
    most = allowed(runs)
    lines = [
        f"## {title}",
        "",
        "| attack | before | wrong now | allowed | alarms | kept |",
        "|---|---|---|---|---|---|",
    ]
    fine = True
    for attack in tried:
        began = time.monotonic()
        found = [attack.run(seed) for seed in range(runs)]
        wrong = sum(bad for bad, _ in found)
        raised = "" if found[0][1] is None else f"{sum(bool(alarm) for _, alarm in found):,}"
        kept = wrong <= most
        fine &= kept
        lines.append(
            f"| {attack.what} | {attack.before} | {wrong:,} of {runs:,} | {most:,} | {raised} | "
            f"{'yes' if kept else '**no**'} |"
        )
        print(f"{lines[-1]} {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return [*lines, ""], fine


def main(file: str, runs: int = RUNS) -> int:
    """Attack, write the report; 1 when the guarantee did not hold."""
    mended, fine = rows("What broke the guarantee, and was mended", MENDED, runs)
    held, still = rows("What it has always withstood", HELD, runs)
    about = ABOUT.format(runs=runs, risk=RISK, tail=FALSE_ALARM)
    lines = ["# Attacks on the guarantee", "", about, *mended, *held]
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return 0 if fine and still else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))

"""How fast every sampling rule plays with each kind of stopping rule, traces, and rules in plain Python.

    python benchmarks/rules.py           # writes benchmarks/results/rules.md
    python benchmarks/rules.py --quick   # fewer rounds; prints only

The paper's instance, risk 0.1: rounds of whole runs, with all that belongs to them, a second of processor
time of one thread; the best of three turns, because other work on the machine can only slow them down.
Compilation is not counted.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from pairs import fits

import osrl
import osrl.policies  # noqa: F401  (registers the rules of the package)
from osrl.policies.contract import SamplingRule
from osrl.policies.registry import register_rule, sampling_rules

ROOT = Path(__file__).resolve().parents[1]
STOPPING = ("glr-tas", "glr-kk", "glr-theorem", "race-tas", "intervals-kk", "bets", "counts")
DELTA, ROUNDS, TURNS = 0.1, 300_000, 3
WANTED, WANTED_TRACE, WANTED_PYTHON = 300_000, 100_000, 5_000
TRACED = ("pulls", "means", "weights", "evidence")


def play(sampling: str, stopping: str, runs: int, **more: Any) -> dict[str, Any]:
    """Run a pair on the paper's instance, in one thread."""
    done = osrl.simulate(
        "paper",
        sample=sampling,
        stop=stopping,
        delta=DELTA,
        runs=runs,
        seed=1,
        budget=60_000,
        workers=1,
        **more,
    )
    return done.summary().row(0, named=True)


def speed(sampling: str, stopping: str, rounds: int) -> float:
    """Return the rounds a second of processor time."""
    first = play(sampling, stopping, 1)  # compiles
    runs = max(1, round(rounds / first["rounds"]))
    turns = [play(sampling, stopping, runs) for _ in range(TURNS)]
    return max(turn["rounds"] / turn["seconds"] for turn in turns)


def trace_speed(name: str, every: int, rounds: int) -> float:
    """Return the rounds a second while a trace is recorded and made a frame."""
    done = osrl.simulate("paper", "osrl", runs=max(1, rounds // 5_000), seed=1, workers=1)
    done.trace(name, every, runs=1)  # compiles
    fastest = float("inf")
    for _ in range(TURNS):
        began = time.process_time()
        done.trace(name, every)
        fastest = min(fastest, time.process_time() - began)
    return int(done.frame["tau"].sum()) / fastest


def least_pulled(tally: Any, stopping: Any, task: int, propensities: Any) -> int:
    """Return the arm with the fewest pulls: a rule in plain Python."""
    return int(np.argmin(tally.pulls))


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    rounds = ROUNDS // 10 if given.quick else ROUNDS
    register_rule(SamplingRule(name="plain Python", select=least_pulled))
    lines = [
        "# The rules, measured",
        "",
        "Made by `python benchmarks/rules.py`: thousand rounds a second and core on the paper's instance, "
        "whole runs at risk 0.1, the best of three turns. A blank is a pair that does not fit.",
        "",
        f"| sampling | {' | '.join(STOPPING)} |",
        "|---" * (len(STOPPING) + 1) + "|",
    ]
    slow = []
    for sampling in sampling_rules():
        if sampling == "plain Python":
            continue
        cells = []
        for stopping in STOPPING:
            if not fits(sampling, stopping):
                cells.append("")
                continue
            found = speed(sampling, stopping, rounds)
            cells.append(f"{found / 1000:,.0f}")
            print(f"{sampling:16}{stopping:14}{found:12,.0f}", flush=True)
            if found < WANTED:
                slow.append(f"`{sampling}` with `{stopping}`")
        lines.append(f"| `{sampling}` | {' | '.join(cells)} |")
    below = ", ".join(slow) if slow else "none"
    lines += [
        "",
        f"Wanted: {WANTED:,} rounds a second. Below that: {below}.",
        "",
        "## Traces, plain Python",
        "",
    ]
    lines += ["| what | rounds a second | wanted |", "|---|---|---|"]
    for name in TRACED:
        for every in (1, 10):
            found = trace_speed(name, every, rounds // 3)
            lines.append(f"| `trace={name!r}, every={every}` of `osrl` | {found:,.0f} | {WANTED_TRACE:,} |")
            print(lines[-1], flush=True)
    played = play("plain Python", "glr-tas", 1)
    found = played["rounds"] / played["seconds"]
    lines.append(f"| `select` in plain Python, with `glr-tas` | {found:,.0f} | {WANTED_PYTHON:,} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if not given.quick:
        (ROOT / "benchmarks" / "results" / "rules.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

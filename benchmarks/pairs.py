"""Every sampling rule under the same stopping rule, and the reverse, on generated instances: mean / K.

    python benchmarks/pairs.py           # writes benchmarks/results/pairs.md
    python benchmarks/pairs.py --quick   # two shapes and few runs; prints only

The instances are those of `generated.py` with seed 0; nothing was tuned on them. All pairs meet the same
rewards. A run is cut after 200,000 samples; the mean is then larger, marked by ">". The last column is the
geometric mean over the instances.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from generated import generated

import osrl
import osrl.policies  # noqa: F401  (registers the rules of the package)
from osrl.contract import pair, sampling_rules, split_stop, stop_names
from osrl.errors import OsrlError

ROOT = Path(__file__).resolve().parents[1]
SHAPES = [(2, 3, 2), (3, 4, 2), (1, 3, 3), (2, 2, 6), (3, 3, 3), (2, 5, 4), (5, 3, 2)]
DELTA, BUDGET, RUNS, SEED = 0.1, 200_000, 40, 0
FIXED = (("bets", None), ("glr-tas", None), (None, "tas"))  # which rule is held fixed in each table


def fits(sampling: str, stopping: str) -> bool:
    """Whether two rules can be paired."""
    try:
        pair(sampling, split_stop(stopping)[0])
    except OsrlError:
        return False
    return True


def measure(sampling: str, stopping: str, instances: dict[str, Any], runs: int) -> list[tuple[float, bool]]:
    """Mean samples / K of a pair on each instance, and whether a run was cut."""
    found = []
    for instance, K in instances.values():
        done = osrl.simulate(
            instance, sample=sampling, stop=stopping, delta=DELTA, runs=runs, seed=SEED, budget=BUDGET
        )
        row = done.summary().row(0, named=True)
        found.append((row["mean"] / K, row["budget_exhausted"] > 0))
    return found


def table(title: str, rows: dict[str, list[tuple[float, bool]]], names: list[str]) -> str:
    """One table, the best rule first."""
    lines = [f"## {title}", "", f"| rule | {' | '.join(names)} | all |", "|---" * (len(names) + 2) + "|"]
    overall = {name: math.exp(sum(math.log(r) for r, _ in row) / len(row)) for name, row in rows.items()}
    for name in sorted(rows, key=lambda name: overall[name]):
        cells = [f"{'>' if cut else ''}{ratio:.2f}" for ratio, cut in rows[name]]
        lines.append(f"| {name} | {' | '.join(cells)} | {overall[name]:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    runs, shapes = (5, SHAPES[:2]) if given.quick else (given.runs, SHAPES)
    instances: dict[str, Any] = {}
    for shape in shapes:
        instance = generated(shape, SEED)
        instances[str(shape)] = instance, osrl.lower_bound(instance, delta=DELTA).K.lower
    parts = [
        "# Sampling and stopping rules on generated instances",
        f"Made by `python benchmarks/pairs.py`: mean samples / K, risk {DELTA}, {runs} runs of each pair, "
        f"seed {SEED}; runs are cut after {BUDGET:,} samples (>). `glr-gk`, `glr-released` and "
        "`intervals-gk` are not proved.\n",
    ]
    for stop, sample in FIXED:
        rules = [name for name in sampling_rules() if stop and fits(name, stop)] if stop else stop_names()
        rows = {}
        for rule in rules:
            one, other = (rule, stop) if stop else (sample, rule)
            assert one is not None and other is not None
            rows[rule] = measure(one, other, instances, runs)
            print(one, other, [f"{ratio:.2f}" for ratio, _ in rows[rule]], flush=True)
        title = f"Every sampling rule with `{stop}`" if stop else f"Every stopping rule with `{sample}`"
        parts.append(table(title, rows, list(instances)))
    text = "\n".join(parts)
    print(text)
    if not given.quick:
        (ROOT / "benchmarks" / "results" / "pairs.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""How the constants of `osrl` were chosen: each candidate on generated instances, never on the paper's.

    python benchmarks/tune.py           # writes benchmarks/results/tune.md
    python benchmarks/tune.py --quick   # fewer runs; prints only

The score of a candidate is the mean over instances of (mean samples) / K, K the lower bound of Theorem 1. All
candidates meet the same rewards. The instances (seed 1000) are not those of the suite (seed 0).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from generated import SHAPES, generated

import osrl
from osrl.model.instance import Instance

ROOT = Path(__file__).resolve().parents[1]
SEED = 1000
CHOSEN: dict[str, Any] = {}
CANDIDATES: dict[str, dict[str, Any]] = {
    "as chosen": CHOSEN,
    "even weights (power 0)": {"power": 0.0},
    "power 1.5": {"power": 1.5},
    "falling from 0.1 on, power 0.5": {"power": 0.5, "peak": 0.0},
    "falling from 0.1 on, power 1": {"peak": 0.0},
    "grid of 8 points": {"points": 8},
    "grid of 3 points": {"points": 3},
    "grid from 0.05": {"smallest": 0.05, "points": 6},
    "grid from 0.2": {"smallest": 0.2, "points": 4},
    "grid up to 4": {"largest": 4.0, "points": 7},
    "growth-optimal bet 0.3": {"plugged": 0.3},
    "growth-optimal bet 0.02": {"plugged": 0.02},
    "idle 0.05": {"idle": 0.05},
    "idle 0.5": {"idle": 0.5},
    "shrinkage 5": {"shrinkage": 5.0},
    "shrinkage 40": {"shrinkage": 40.0},
    "shrinkage 80": {"shrinkage": 80.0},
    "exploration x 1/2": {"explore": 0.5},
    "exploration x 2": {"explore": 2.0},
    "new weights after 3 %": {"growth": 0.03},
    "new weights after 10 %": {"growth": 0.1},
}


def score(instances: list[Instance], options: dict[str, Any], delta: float, runs: int) -> float:
    """Mean over instances of mean samples / K."""
    ratios = []
    for instance in instances:
        bound = osrl.lower_bound(instance, delta_g=delta, delta_h=delta).K.lower
        found = osrl.simulate(instance, "osrl", delta, runs, seed=SEED, options=options, budget=10**6)
        ratios.append(found.summary()["mean"][0] / bound)
    return float(np.mean(ratios))


def main() -> None:
    """Score every candidate and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer instances and runs; prints only")
    quick = parser.parse_args().quick
    runs = 20 if quick else 100
    instances = [generated(shape, SEED) for shape in SHAPES if np.prod(shape) <= 40]
    instances = instances[:4] if quick else instances
    lines = [
        "# The constants of `osrl`",
        "",
        f"Mean over {len(instances)} generated instances (seed {SEED}) of mean samples / K, {runs} runs",
        "each. Lower is better; differences below 0.02 are noise.",
        "",
        "| candidate | delta = 0.1 | delta = 0.01 |",
        "|---|---|---|",
    ]
    for line in lines:
        print(line)
    for name, options in CANDIDATES.items():
        lines.append(f"| {name} | {' | '.join(f'{score(instances, options, d, runs):.3f}' for d in (0.1, 0.01))} |")
        print(lines[-1], flush=True)
    if not quick:
        (ROOT / "benchmarks/results/tune.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

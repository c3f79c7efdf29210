"""Every sampling rule under the same stopping rule, and the reverse, on the generated suite: mean / K.

    python benchmarks/pairs.py           # writes benchmarks/results/pairs.md
    python benchmarks/pairs.py --quick   # two instances and few runs; prints only

The instances are those of the suite (`generated.py`, seed 0) with at most 48 arms; nothing was tuned on
them. All pairs meet the same rewards. A run is cut after 40 K samples, and enters the mean as if it had ended
there (">").
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import NamedTuple

from generated import SHAPES, generated

import osrl
import osrl.policies  # noqa: F401  (registers the rules of the package)
from osrl.contract import pair, sampling_rules, split_stop, stop_names
from osrl.errors import OsrlError

ROOT = Path(__file__).resolve().parents[1]
DELTA, PATIENCE, RUNS, SEED, MOST_ARMS = 0.1, 40, 10, 0, 48
SAME_STOP, SAME_SAMPLE = ("bets", "counts", "glr-tas"), ("tas",)


class Suite(NamedTuple):
    """An instance, and the lower bound K of what it takes."""

    instance: osrl.Instance
    K: float


class Ratio(NamedTuple):
    """Mean samples / K of a pair on one instance, its standard error, and whether a run was cut."""

    mean: float
    error: float
    cut: bool

    def __str__(self) -> str:
        return f"{'>' if self.cut else ''}{self.mean:.2f} ± {self.error:.2f}"


def fits(sampling: str, stopping: str) -> bool:
    """Whether two rules can be paired."""
    try:
        pair(sampling, split_stop(stopping)[0])
    except OsrlError:
        return False
    return True


def measure(sampling: str, stopping: str, suite: dict[str, Suite], runs: int) -> list[Ratio]:
    """A pair on every instance."""
    found, began = [], time.process_time()
    for instance, K in suite.values():
        done = osrl.simulate(
            instance,
            sample=sampling,
            stop=stopping,
            delta=DELTA,
            runs=runs,
            seed=SEED,
            budget=int(PATIENCE * K),
            workers=1,
        )
        row = done.summary().row(0, named=True)
        error = row["std"] / math.sqrt(runs) / K
        found.append(Ratio(row["mean"] / K, error, row["budget_exhausted"] > 0))
    print(f"{sampling:16}{stopping:14}{overall(found)}   {time.process_time() - began:.0f} s", flush=True)
    return found


def overall(ratios: list[Ratio]) -> Ratio:
    """The geometric mean over the instances."""
    mean = math.exp(sum(math.log(ratio.mean) for ratio in ratios) / len(ratios))
    error = math.sqrt(sum((ratio.error / ratio.mean) ** 2 for ratio in ratios)) / len(ratios)
    return Ratio(mean, error * mean, any(ratio.cut for ratio in ratios))


def table(title: str, rows: dict[str, list[Ratio]], suite: dict[str, Suite]) -> str:
    """One table: the rules from left to right, the best first; the instances from top to bottom."""
    rules = sorted(rows, key=lambda rule: overall(rows[rule]).mean)
    lines = [f"## {title}", "", f"| X, G, H | K | {' | '.join(rules)} |", "|---" * (len(rules) + 2) + "|"]
    lines.append(f"| **geometric mean** | | {' | '.join(f'**{overall(rows[rule])}**' for rule in rules)} |")
    for i, (shape, one) in enumerate(suite.items()):
        lines.append(f"| {shape} | {one.K:,.0f} | {' | '.join(str(rows[rule][i]) for rule in rules)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    shapes = [shape for shape in SHAPES if math.prod(shape) <= MOST_ARMS]
    runs, shapes = (5, shapes[:2]) if given.quick else (given.runs, shapes)
    suite: dict[str, Suite] = {}
    for shape in shapes:
        instance = generated(shape, SEED)
        suite[", ".join(map(str, shape))] = Suite(instance, osrl.lower_bound(instance, delta=DELTA).K.lower)
    parts = [
        "# Sampling and stopping rules on the generated suite",
        f"Made by `python benchmarks/pairs.py`: mean samples / K ± one standard error, risk {DELTA}, {runs} "
        f"runs of each pair on each of the {len(suite)} instances of the suite (seed {SEED}) with at most "
        f"{MOST_ARMS} arms; all pairs meet the same rewards. Runs are cut after {PATIENCE} K samples; where "
        "some were, the mean is marked by >. What is said of the rules is in docs/rules.md; `glr-gk`, "
        "`glr-released`, `race-gk` and `intervals-gk` are not proved.\n",
    ]
    for stop in SAME_STOP:
        rules = [name for name in sampling_rules() if fits(name, stop)]
        rows = {rule: measure(rule, stop, suite, runs) for rule in rules}
        parts.append(table(f"Every sampling rule, stopped by `{stop}`", rows, suite))
    for sample in SAME_SAMPLE:
        rows = {stop: measure(sample, stop, suite, runs) for stop in stop_names() if fits(sample, stop)}
        parts.append(table(f"Every stopping rule, with the samples of `{sample}`", rows, suite))
    text = "\n".join(parts)
    print(text)
    if not given.quick:
        (ROOT / "benchmarks" / "results" / "pairs.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

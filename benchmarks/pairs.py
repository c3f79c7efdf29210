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
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from generated import SHAPES, generated
from numpy.typing import NDArray

import osrl
import osrl.policies  # noqa: F401  (registers the rules of the package)
from osrl.errors import OsrlError
from osrl.policies.registry import pair, sampling_rules, split_stop, stop_names

ROOT = Path(__file__).resolve().parents[1]
DELTA, PATIENCE, RUNS, SEED, MOST_ARMS = 0.1, 40, 10, 0, 48
SAME_STOP, SAME_SAMPLE, OURS = ("bets", "counts", "glr-tas"), "tas", "osrl"


class Suite(NamedTuple):
    """An instance, and the lower bound K of what it takes."""

    instance: osrl.Instance
    K: float


class Played(NamedTuple):
    """The runs of a pair on one instance: samples / K, and whether some were cut."""

    taus: NDArray[np.float64]
    cut: bool


class Ratio(NamedTuple):
    """A mean or geometric mean, its standard error, and whether a run was cut."""

    mean: float
    error: float
    cut: bool = False

    def __str__(self) -> str:
        return f"{'>' if self.cut else ''}{self.mean:.2f} ± {self.error:.2f}"


Rows = Mapping[str, list[Played]]  # of a rule, on every instance


def fits(sampling: str, stopping: str) -> bool:
    """Whether two rules can be paired."""
    try:
        pair(sampling, split_stop(stopping)[0])
    except OsrlError:
        return False
    return True


def proved(stopping: str) -> bool:
    """Whether a stopping rule keeps its risks."""
    rule, threshold = split_stop(stopping)
    return pair(SAME_SAMPLE, rule).proves(threshold)


def measure(sampling: str, stopping: str, suite: Mapping[str, Suite], runs: int) -> list[Played]:
    """Run a pair on every instance."""
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
        cut = done.summary()["budget_exhausted"][0] > 0
        found.append(Played(done.frame["tau"].to_numpy() / K, cut))
    print(f"{sampling:16}{stopping:14}{overall(found)}   {time.process_time() - began:.0f} s", flush=True)
    return found


def one(played: Played) -> Ratio:
    """Mean samples / K on one instance."""
    taus = played.taus
    return Ratio(float(taus.mean()), float(taus.std(ddof=1)) / math.sqrt(taus.size), played.cut)


def overall(played: list[Played]) -> Ratio:
    """Return the geometric mean over the instances."""
    ratios = [one(each) for each in played]
    mean = math.exp(sum(math.log(ratio.mean) for ratio in ratios) / len(ratios))
    error = math.sqrt(sum((ratio.error / ratio.mean) ** 2 for ratio in ratios)) / len(ratios)
    return Ratio(mean, error * mean, any(ratio.cut for ratio in ratios))


def beside(played: list[Played], ours: list[Played]) -> Ratio:
    """As a multiple of ``ours``: the geometric mean, and its error for runs that meet the same rewards."""
    log, variance = 0.0, 0.0
    for other, own in zip(played, ours, strict=True):
        log += math.log(other.taus.mean() / own.taus.mean()) / len(played)
        apart = other.taus / other.taus.mean() - own.taus / own.taus.mean()
        variance += apart.var(ddof=1) / apart.size / len(played) ** 2
    return Ratio(math.exp(log), math.exp(log) * math.sqrt(variance), any(other.cut for other in played))


def summary(by_stop: Mapping[str, Rows], stops: Rows) -> str:
    """Geometric means: the sampling rules under the same stopping rules, and the reverse."""
    first = next(iter(by_stop.values()))
    names = sorted(sampling_rules(), key=lambda name: overall(first[name]).mean if name in first else 4.0)
    heads: list[str] = []
    for stop, rows in by_stop.items():
        heads += [f"`{stop}`", f"/ `{OURS}`"] if OURS in rows else [f"`{stop}`"]
    lines = [
        "Every sampling rule under the same stopping rule (a blank: they do not fit), and as a multiple of "
        f"`{OURS}` (its error from pairs of runs with the same rewards):",
        "",
        f"| sampling | {' | '.join(heads)} |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for name in names:
        cells = []
        for rows in by_stop.values():
            cells.append(str(overall(rows[name])) if name in rows else "")
            if OURS in rows:
                cells.append(str(beside(rows[name], rows[OURS])) if name in rows and name != OURS else "")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines += ["", f"Every stopping rule with the samples of `{SAME_SAMPLE}`:", ""]
    lines += ["| stopping | mean / K | guarantee |", "|---|---|---|"]
    for stop in sorted(stops, key=lambda stop: overall(stops[stop]).mean):
        lines.append(f"| `{stop}` | {overall(stops[stop])} | {'proved' if proved(stop) else 'none'} |")
    return "\n".join(lines) + "\n"


def table(title: str, rows: Rows, suite: Mapping[str, Suite]) -> str:
    """One table: the rules from left to right, the best first; the instances from top to bottom."""
    rules = sorted(rows, key=lambda rule: overall(rows[rule]).mean)
    lines = [f"## {title}", "", f"| X, G, H | K | {' | '.join(rules)} |", "|---" * (len(rules) + 2) + "|"]
    for i, (shape, each) in enumerate(suite.items()):
        lines.append(f"| {shape} | {each.K:,.0f} | {' | '.join(str(one(rows[rule][i])) for rule in rules)} |")
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
    by_stop: dict[str, Rows] = {}
    for stop in SAME_STOP:
        rules = [name for name in sampling_rules() if fits(name, stop)]
        by_stop[stop] = {rule: measure(rule, stop, suite, runs) for rule in rules}
    stops = {stop: measure(SAME_SAMPLE, stop, suite, runs) for stop in stop_names() if fits(SAME_SAMPLE, stop)}
    parts = [
        "# Sampling and stopping rules on the generated suite\n",
        f"Made by `python benchmarks/pairs.py`: mean samples / K ± one standard error, risk {DELTA}, {runs} "
        f"runs of each pair on each of the {len(suite)} instances of the suite (seed {SEED}) with at most "
        f"{MOST_ARMS} arms, and their geometric mean; all pairs meet the same rewards. Runs are cut after "
        f"{PATIENCE} K samples; where some were, the mean is marked by >. What is said of the rules is in "
        "docs/rules.md.\n",
        summary(by_stop, stops),
        *(table(f"Every sampling rule, stopped by `{stop}`", by_stop[stop], suite) for stop in SAME_STOP),
        table(f"Every stopping rule, with the samples of `{SAME_SAMPLE}`", stops, suite),
    ]
    text = "\n".join(parts)
    print(text)
    if not given.quick:
        (ROOT / "benchmarks" / "results" / "pairs.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

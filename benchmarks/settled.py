"""What a live study loses in tasks that are settled before the others, with and without a holdout.

    python benchmarks/settled.py            # five minutes; writes benchmarks/results/settled.md
    python benchmarks/settled.py --quick    # one seed, a quarter of the visitors; prints only

A web study in memory: visitors of three countries arrive, and see one of four designs with one of three
texts. The first design is the best everywhere, by 0.05 to 0.15. Its texts differ by 0.05 in two countries,
and by 0.015 in Austria, from where one visitor in ten comes: the others are settled long before it.
Lost: the sum over visitors of the best conversion rate of their country less that of what they saw. With a
``holdout`` of 1 a study does what it did before settled tasks played their answer.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.memory_study import MemoryStudy  # noqa: E402

RATES, SHARES = {"DE": 0.25, "FR": 0.23, "AT": 0.21}, (0.6, 0.3, 0.1)
TEXT = {
    "DE": 0.05,
    "FR": 0.05,
    "AT": 0.015,
}  # by which each text of the first design is worse than the one before
DESIGNS, TEXTS = 4, 3
HOLDOUTS = (1.0, 0.05, 0.0)
VISITORS, SEEDS = 40_000, 3


class Loss(NamedTuple):
    """Conversions lost, and those in settled countries; visitors of these, and who saw a ruled-out design."""

    lost: float
    settled: float
    visitors: int
    ruled_out: int


def shortfall(country: str, design: int, text: int) -> float:
    """By how much a variant converts less than the best one of the country."""
    return 0.05 * design + text * (0.02 if design else TEXT[country])


def settled_design(study: MemoryStudy, country: str) -> int:
    """The only design left, if one text of it is left in this country too; otherwise -1."""
    hypotheses = study.progress.state.stopping
    left = [g for g in range(DESIGNS) if hypotheses.possible_g[g]]
    x = study.progress.index_of(0, country)
    if len(left) > 1 or hypotheses.possible_h[x, left[0] * TEXTS : (left[0] + 1) * TEXTS].sum() > 1:
        return -1
    return left[0]


def play(holdout: float, seed: int, visitors: int) -> Loss:
    """Play a study for so many visitors."""
    study = MemoryStudy(
        tasks=list(RATES),
        representations=DESIGNS,
        predictors=TEXTS,
        delta=0.05,
        seed=seed,
        options={"holdout": holdout},
    )
    rng, lost, settled, there, ruled_out = random.Random(seed), 0.0, 0.0, 0, 0
    for _ in range(visitors):
        country = rng.choices(list(RATES), SHARES)[0]
        left = settled_design(study, country)
        asked = study.ask(country)
        _, design, text = study.arm(asked)
        less = shortfall(country, design, text)
        lost += less
        if left >= 0:
            settled, there, ruled_out = settled + less, there + 1, ruled_out + (design != left)
        study.tell(asked.trial, rng.random() < RATES[country] - less)
    return Loss(lost, settled, there, ruled_out)


def report(visitors: int, seeds: int) -> str:
    """The table, means over seeds."""
    lines = [
        "# What settled tasks cost",
        "",
        f"`python benchmarks/settled.py`: {visitors:,} visitors of a simulated web study, three countries,",
        f"twelve variants, risks 0.05; means of {seeds} seeds. How it is played stands in the file itself.",
        "",
        "| `holdout` | conversions lost | in settled countries | visitors there | saw what is ruled out |",
        "|---|---|---|---|---|",
    ]
    for holdout in HOLDOUTS:
        runs = [play(holdout, seed, visitors) for seed in range(seeds)]
        lost, settled, there, out = (sum(column) / seeds for column in zip(*runs, strict=True))
        name = {1.0: "1 (before)", 0.0: "0 (default)"}.get(holdout, f"{holdout:g}")
        lines.append(f"| {name} | {lost:,.0f} | {settled:,.0f} | {there:,.0f} | {out:,.0f} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Play, print, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="one seed, a quarter of the visitors; prints only")
    quick = parser.parse_args().quick
    text = report(VISITORS // 4, 1) if quick else report(VISITORS, SEEDS)
    print(text)
    if not quick:
        (ROOT / "benchmarks" / "results" / "settled.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Ask and tell on SQLite in two checkouts, in turns: what the chain of hashes, tokens and checks cost.

    git worktree add --detach /somewhere/before b1b9ce7~1     # the last commit without hashes
    python benchmarks/chain.py /somewhere/before              # three minutes; writes results/chain.md

Both keep every ask and every tell on the disk before they return (write-ahead log, synchronous = FULL). Each
runs in a process of its own with its own files, block after block in turns; the least time of a block counts,
because other work on the machine can only add to it.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from checkouts import Checkout, serve

ROOT = Path(__file__).resolve().parents[1]
POLICIES = ("osrl", "tas", "uniform")
BLOCK = 200  # trials
GOAL = 0.9  # of the speed before


def work(folder: Path) -> dict[str, Callable[[int], int]]:
    """Trials of a study that never ends, for each policy."""
    from osrl.study.study import Study

    def trials_of(policy: str) -> Callable[[int], int]:
        study: Any = Study.create(
            str(folder / f"{policy}.db"),
            tasks=2, representations=3, predictors=2, delta=1e-12, seed=0, policy=policy,
        )  # fmt: skip
        rng = random.Random(0)

        def play(trials: int) -> int:
            for _ in range(trials):
                study.tell(study.ask(), rng.randrange(2))
            return trials

        return play

    return {policy: trials_of(policy) for policy in POLICIES}


class Cost(NamedTuple):
    """Seconds for one ask and tell: of the processor, and on the clock with what the disk takes."""

    worked: float
    elapsed: float


def compare(before: Path, turns: int) -> dict[str, tuple[Cost, Cost]]:
    """What one ask and tell costs at least, before and now, by policy."""
    pair = [Checkout(root, script=__file__) for root in (before, ROOT)]
    found = {}
    for policy in POLICIES:
        costs: tuple[list[Cost], list[Cost]] = [], []
        for turn in range(turns + 1):
            print(f"{policy}: turn {turn} of {turns}", file=sys.stderr, flush=True)
            for k in (0, 1) if turn % 2 else (1, 0):
                began = time.perf_counter()
                seconds, trials = pair[k].time(policy, BLOCK)
                if turn:  # the first one warms up
                    costs[k].append(Cost(seconds / trials, (time.perf_counter() - began) / trials))
        found[policy] = _least(costs[0]), _least(costs[1])
    for each in pair:
        each.close()
    return found


def _least(costs: list[Cost]) -> Cost:
    worked, elapsed = zip(*costs, strict=True)
    return Cost(min(worked), min(elapsed))


def report(found: dict[str, tuple[Cost, Cost]], turns: int) -> str:
    """The results as Markdown."""
    lines = [
        "# Ask and tell, before and with the chain of hashes",
        "",
        "SQLite, 12 arms, every ask and every tell on the disk before it returns. *Before*: the last commit",
        f"without hashes (`b1b9ce7~1`). Least time of {turns} blocks of {BLOCK} trials, in turns in one run;",
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} (1 is this run itself).",
        "",
        f"| policy | processor, before | now | speed (goal: {GOAL}) | clock, with the disk |",
        "|---|---|---|---|---|",
        *(
            f"| `{policy}` | {1e3 * before.worked:.2f} ms | {1e3 * now.worked:.2f} ms "
            f"| {before.worked / now.worked:.2f} "
            f"| {1e3 * before.elapsed:.2f} ms, now {1e3 * now.elapsed:.2f} ms |"
            for policy, (before, now) in found.items()
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the results."""
    os.environ["OSRL_COMPILE"] = "now"  # both checkouts are measured with machine code
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder for chain.md")
    options = parser.parse_args()
    text = report(compare(options.before.resolve(), options.turns), options.turns)
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "chain.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        with tempfile.TemporaryDirectory(prefix="osrl-") as name:
            serve(work(Path(name)))
    else:
        main()

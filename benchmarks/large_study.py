"""A study of 200,000 trials: verify, history, export, import, and opening without its snapshot.

    python benchmarks/large_study.py                    # five minutes; writes results/large_study.md
    python benchmarks/large_study.py --trials 20000     # prints only, unless --out is given

Each is measured three times in turns, in a process of its own, without the start of the interpreter: the
least processor time, the least time on the clock, and the largest memory of the process, beside the goals
that were set.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from study import fill, new_study, say

from osrl.jit.mode import compile_now
from osrl.study.study import Study

ROOT = Path(__file__).resolve().parents[1]
TRIALS = 200_000
MOST_MEGABYTES = 400
TURNS = 3


class Cost(NamedTuple):
    """Seconds of the processor and of the clock, and megabytes at the most."""

    worked: float
    elapsed: float
    memory: float


def make(folder: Path, trials: int) -> None:
    """Make a study with so many trials."""
    with new_study(str(folder / "large.db"), "study") as study:
        fill(study, trials)


def warm_up(folder: Path) -> None:
    """Compile what is measured, which is not counted."""
    with new_study(str(folder / "small.db"), "study") as study:
        fill(study, 2_000)
        assert study.verify().ok


def open_it(folder: Path) -> None:
    """Open a study that has no snapshot, up to its verdict."""
    connection = sqlite3.connect(folder / "large.db")
    with connection:
        connection.execute("DELETE FROM osrl_snapshots")
    connection.close()
    with Study.open(folder / "large.db") as study:
        assert study.verdict == "running"


def verify(folder: Path) -> None:
    """Replay the log, and compare."""
    with Study.open(folder / "large.db") as study:
        assert study.verify().ok


def history(folder: Path) -> None:
    """Read the table of all trials."""
    with Study.open(folder / "large.db") as study:
        assert len(study.history) > 0


def export(folder: Path) -> None:
    """Write the log to a file."""
    with Study.open(folder / "large.db") as study:
        study.write_log(folder / "log.jsonl")


def read_back(folder: Path) -> None:
    """Make a study from that file."""
    for left in folder.glob("back.db*"):
        left.unlink()
    Study.read_log(folder / "back.db", folder / "log.jsonl").close()


TASKS: tuple[tuple[str, Callable[[Path], None], float | None], ...] = (  # with the seconds that they may take
    ("verify", verify, 20),
    ("history", history, 3),
    ("export", export, None),
    ("import", read_back, 40),
    ("open without a snapshot", open_it, 15),
)


def measured(task: Callable[..., None], *arguments: object) -> Cost:
    """Measure what a task costs in a new process; this one stays small, since a child begins with its size."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measure, (task, *arguments))


def _measure(task: Callable[..., None], *arguments: object) -> Cost:
    worked, began = time.process_time(), time.perf_counter()
    task(*arguments)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(time.process_time() - worked, time.perf_counter() - began, memory)


def _least(costs: list[Cost]) -> Cost:
    """Return the least times, since other work can only add to them, and the most memory."""
    worked, elapsed, memory = zip(*costs, strict=True)
    return Cost(min(worked), min(elapsed), max(memory))


def report(trials: int, costs: list[Cost]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# A large study, measured",
        "",
        f"SQLite, policy `osrl`, 12 arms, {trials:,} trials. Everything is done in a process of its",
        f"own, with kernels from the cache; least of {TURNS} turns. {os.cpu_count()} cores, load average",
        f"{os.getloadavg()[0]:.1f} (1 is this run itself): other work on the machine adds to all times.",
        "",
        f"| | processor | clock | goal | memory (goal: {MOST_MEGABYTES} MB) |",
        "|---|---|---|---|---|",
    ]
    for (name, _, goal), cost in zip(TASKS, costs, strict=True):
        wanted = "" if goal is None else f"{goal:g} s"
        lines.append(f"| {name} | {cost.worked:.1f} s | {cost.elapsed:.1f} s | {wanted} | {cost.memory:.0f} MB |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, print, and write the results."""
    compile_now()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--out", type=Path, help="folder for large_study.md")
    options = parser.parse_args()
    out = options.out or (ROOT / "benchmarks" / "results" if options.trials == TRIALS else None)
    with tempfile.TemporaryDirectory(prefix="osrl-") as name:
        folder = Path(name)
        say(f"{options.trials:,} trials ...")
        measured(make, folder, options.trials)
        measured(warm_up, folder)
        found: list[list[Cost]] = [[] for _ in TASKS]
        for turn in range(TURNS):
            for (what, task, _), each in zip(TASKS, found, strict=True):
                say(f"{what}, turn {turn + 1}")
                each.append(measured(task, folder))
    costs = [_least(each) for each in found]
    text = report(options.trials, costs)
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "large_study.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

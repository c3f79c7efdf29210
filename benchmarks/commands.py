"""Every command on a large study, each in a new process with default settings, beside the goals.

    python benchmarks/commands.py                   # 100,000 trials; writes results/commands.md
    python benchmarks/commands.py --trials 20000    # prints only, unless --out is given

Trials overlap: at least `WINDOW` are out at any time, and results come in another order. The study is walked
twice: with a cache of machine code that has what the commands use, and with an empty one, which stays empty
(`CI` is set, so that nothing is compiled in the background). Processor time counts: that of others on the
machine is not in it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TRIALS = 100_000
WINDOW = 10
WARM = 1_000  # trials of a study whose commands fill the cache
LIMIT = 300  # seconds of the processor, after which a command is given up
CLI = "import sys; from osrl.cli import main; sys.exit(main())"

# Makes a study that never ends: all arms are equal, and the risk is tiny.
MAKE = """
import random, sys
import osrl

place, trials, window = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(0)
with osrl.Study.create(place, tasks=2, representations=3, predictors=2, delta=1e-12, seed=0) as study:
    while study.trials < trials:
        study.ask(n=50)
        pending = list(study.pending)
        rng.shuffle(pending)
        study.tell_many([(trial, rng.randrange(2)) for trial in pending[window:]])
    print(*list(study.pending)[:2])
"""


class Command(NamedTuple):
    """A command with its arguments, and the seconds that it may take."""

    words: str
    goal: float | None


COMMANDS = (
    Command("study list {live}", 2),
    Command("study ask {live}", 2),
    Command("study tell {live} {trial} 1", 2),
    Command("study abandon {live} {lost}", 2),
    Command("study status {live}", 5),
    Command("study export {live} {folder}/arms.csv --arms", 5),
    Command("study report {live} --out {folder}/page.html", 60),
    Command("study verify {live}", None),
    Command("study export {live} {folder}/trials.csv --trials", None),
    Command("study export {live} {folder}/log.jsonl", None),
    Command("study import {folder}/imported.db {folder}/log.jsonl", None),
    Command("study ask {folder}/imported.db", None),
    Command("study backup {live} {folder}/backup.db", None),
    Command("study status {folder}/backup.db", 5),
    Command("study ask {folder}/backup.db", 2),
    Command("study restore {folder}/restored.db {folder}/backup.db", None),
    Command("study ask {folder}/restored.db", 2),
    Command("study pause {live} --reason walk", 2),
    Command("study resume {live}", 2),
    Command("study withdraw {live} --representation g3 --reason walk", 2),
    Command("study close {live} --reason walk", 2),
)


class Cost(NamedTuple):
    """Seconds of the processor, or None where a command was given up, and what went wrong otherwise."""

    seconds: float | None
    problem: str


def say(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def run(arguments: list[str], environment: dict[str, str]) -> Cost:
    """Return what a new process costs, without those that it leaves behind."""
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({LIMIT}, {LIMIT}))\n{arguments[0]}"
    process = subprocess.Popen(
        [sys.executable, "-c", limited, *arguments[1:]],
        env=environment,
        cwd=environment["PYTHONPATH"],  # the package in the current folder comes first
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, state, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(state)
    if process.returncode < 0:
        return Cost(None, "")
    problem = said.strip().splitlines()[-1:] if process.returncode else []
    return Cost(used.ru_utime + used.ru_stime, "".join(problem)[:80])


def make(place: Path, trials: int, environment: dict[str, str]) -> list[str]:
    """Make a study with so many trials, and return two that are out."""
    command = [sys.executable, "-c", MAKE, str(place), str(trials), str(WINDOW)]
    now = {**environment, "OSRL_COMPILE": "now"}
    done = subprocess.run(command, env=now, cwd=now["PYTHONPATH"], check=True, stdout=subprocess.PIPE)
    return done.stdout.decode().split()


def walk(folder: Path, live: Path, pending: list[str], environment: dict[str, str], fresh: bool) -> Iterator[Cost]:
    """Run every command in turn, on a copy; with ``fresh``, each with an empty cache."""
    copy = folder / "walked.db"
    shutil.copyfile(live, copy)
    names = {"live": copy, "folder": folder, "trial": pending[0], "lost": pending[1]}
    for i, command in enumerate(COMMANDS):
        if fresh:
            environment["NUMBA_CACHE_DIR"] = str(folder / f"empty-{i}")
        cost = run([CLI, *command.words.format(**names).split()], environment)
        say(f"{command.words}: {cost.seconds or LIMIT:.1f} s {cost.problem}")
        yield cost


def report(trials: int, warm: list[Cost], empty: list[Cost]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# Every command on a large study",
        "",
        f"SQLite, policy `osrl`, 12 arms, {trials:,} trials, {WINDOW} of them out at a time. Each command",
        "in a new process with default settings; seconds of the processor, with a cache of machine code that",
        "has what is used, and with an empty one.",
        "",
        "| command | with machine code | empty cache | goal |",
        "|---|---|---|---|",
    ]
    for command, *costs in zip(COMMANDS, warm, empty, strict=True):
        words = command.words.replace("{folder}/", "").replace("{live}", "live.db")
        cells = [cost.problem or (f"over {LIMIT}" if cost.seconds is None else f"{cost.seconds:.1f}") for cost in costs]
        goal = "" if command.goal is None else f"{command.goal:g}"
        lines.append(f"| `{words}` | {cells[0]} | {cells[1]} | {goal} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Walk, print, and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--out", type=Path, help="folder for commands.md")
    options = parser.parse_args()
    out = options.out or (ROOT / "benchmarks" / "results" if options.trials == TRIALS else None)
    with tempfile.TemporaryDirectory(prefix="osrl-") as name:
        folder = Path(name)
        live = folder / "live.db"
        base = {**os.environ, "PYTHONPATH": str(ROOT), "CI": "true"}
        base.pop("OSRL_COMPILE", None)
        say(f"{options.trials:,} trials ...")
        out_there = make(live, options.trials, base)
        small = folder / "small.db"
        of_small = make(small, WARM, base)
        say("compiling")
        (folder / "compiling").mkdir()
        list(walk(folder / "compiling", small, of_small, {**base, "OSRL_COMPILE": "now"}, fresh=False))
        found = []
        for state in ("full", "empty"):
            say(state)
            (folder / state).mkdir()
            found.append(list(walk(folder / state, live, out_there, dict(base), fresh=state == "empty")))
    text = report(options.trials, found[0], found[1])
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "commands.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

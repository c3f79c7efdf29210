"""How long commands take to start, and where the time goes: each in new processes, with kernels in the cache.

    python benchmarks/start.py            # a minute; writes benchmarks/results/start.md
    python benchmarks/start.py --quick    # fewer repetitions; prints only, unless --out is given

The least wall-clock and processor time of several processes count, because other work on the machine can only
add to them. Where it goes is read off ``python -X importtime``: the seconds of importing each package by
itself; the rest is Python itself, loading machine code, and the work of the command.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("numba", "llvmlite", "numpy", "scipy", "polars", "sqlalchemy", "typer", "rich", "osrl")
CODE = "import sys; from osrl.cli import main; sys.exit(main())"
LIMITS = {"import osrl": 0.1, "osrl study ask": 0.6}  # seconds


class Start(NamedTuple):
    """Least seconds of a command, and of importing each package."""

    what: str
    seconds: float
    processor: float
    imports: dict[str, float]


def run(command: Sequence[str], *flags: str) -> subprocess.CompletedProcess[str]:
    """A new process of this Python; the benchmark ends with its error if it fails."""
    done = subprocess.run([sys.executable, *flags, *command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done


def measure(what: str, command: Sequence[str], times: int) -> Start:
    """Run a command in new processes, after one that may have to compile."""
    print(what, file=sys.stderr, flush=True)
    run(command)
    seconds = processor = float("inf")
    for _ in range(times):
        before, began = _processor(), time.perf_counter()
        run(command)
        seconds = min(seconds, time.perf_counter() - began)
        processor = min(processor, _processor() - before)
    return Start(what, seconds, processor, imports_of(command, times))


def _processor() -> float:
    """Processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def imports_of(command: Sequence[str], times: int) -> dict[str, float]:
    """Least seconds of importing each package, without what it imports itself."""
    least: dict[str, float] = {}
    for _ in range(times):
        spent: Counter[str] = Counter()
        for line in run(command, "-X", "importtime").stderr.splitlines():
            if match := re.match(r"import time:\s+(\d+) \|\s+\d+ \|\s+([\w.]+)", line):
                package = match[2].partition(".")[0]
                spent[package if package in PACKAGES else "others"] += int(match[1])
        for name in (*PACKAGES, "others"):
            least[name] = min(least.get(name, float("inf")), spent[name] / 1e6)
    return least


def starts(folder: Path, times: int) -> list[Start]:
    """The commands that are measured: a study with some trials is made for them."""
    study = str(folder / "study.db")
    names = ["--tasks", "x1,x2", "--representations", "g1,g2", "--predictors", "h1,h2"]
    run(["-c", CODE, "study", "create", study, *names])
    commands = {
        "import osrl": ["-c", "import osrl"],
        "osrl --help": ["-c", CODE, "--help"],
        "osrl bound": ["-c", CODE, "bound", "paper", "--json"],
        "osrl study ask": ["-c", CODE, "study", "ask", study, "--json"],
        "osrl study status": ["-c", CODE, "study", "status", study, "--json"],
        "osrl simulate, one run": ["-c", CODE, "simulate", "paper", "--runs", "1", "--json"],
    }
    return [measure(what, command, times) for what, command in commands.items()]


def report(found: list[Start], times: int) -> str:
    """The measurements as Markdown."""
    head = ["command", "wall clock", "processor", "wanted", *PACKAGES, "others"]
    lines = ["# How long commands take to start", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for one in found:
        limit = LIMITS.get(one.what)
        wanted = "" if limit is None else f"{limit:g} s: {'yes' if one.seconds <= limit else '**no**'}"
        spent = [f"{1e3 * seconds:.0f}" for seconds in one.imports.values()]
        cells = [f"`{one.what}`", f"{one.seconds:.2f} s", f"{one.processor:.2f} s", wanted, *spent]
        lines.append(f"| {' | '.join(cells)} |")
    about = (
        f"Least of {times} new processes, with kernels in the cache; on the right, milliseconds of importing "
        f"each package by itself. One-minute load of the machine at the end: {os.getloadavg()[0]:.1f}, on "
        f"{os.cpu_count()} cores."
    )
    return "\n".join([*lines, "", about, ""])


def main() -> None:
    """Run the benchmark and write its report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--out", type=Path, help="folder for start.md")
    options = parser.parse_args()
    out = options.out or (None if options.quick else Path(__file__).parent / "results")
    times = 3 if options.quick else 10
    with tempfile.TemporaryDirectory() as folder:
        text = report(starts(Path(folder), times), times)
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "start.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

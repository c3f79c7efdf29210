"""How long one waits for a command, with an empty cache and with a full one, and where the time goes.

    python benchmarks/start.py           # five minutes or more; writes benchmarks/results/start.md

Every command is a new process. *Empty*: nothing is compiled, and nobody compiles in the background; the
commands of a study come one after the other, as a user would type them, with one cache. *Full*: all that the
command calls has been compiled before; the least of several processes counts, because other work on the
machine can only add to it. Where the time of those goes is read off ``python -X importtime``: the seconds of
importing each package by itself; the rest is Python itself, machine code that is loaded, and the work.
"""

from __future__ import annotations

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

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "numba",
    "llvmlite",
    "numpy",
    "scipy",
    "polars",
    "sqlalchemy",
    "pydantic",
    "typer",
    "rich",
    "osrl",
)
CODE = ("-c", "import sys; from osrl.cli import main; sys.exit(main())")
POLICIES = ("osrl", "osrl-sc", "osrl-sc-released", "tas", "tas-transfer", "uniform")
TIMES = 5  # processes with a full cache
ALL = "all six policies compile"
EMPTY_LIMITS = {  # seconds
    "osrl bound paper": 3.0,
    "osrl study create": 3.0,
    "osrl study ask": 3.0,
    "osrl study tell": 3.0,
    "osrl study status": 3.0,
    "osrl simulate, one run": 25.0,
    ALL: 90.0,
}
FULL_LIMITS = {"import osrl": 0.1, "osrl study ask": 0.6}


class Spent(NamedTuple):
    """Seconds by the clock and of the processor."""

    clock: float
    processor: float


class Commands:
    """Commands of the package, run in a folder with caches of machine code of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, cache: str, *command: str, flags: Sequence[str] = (), compiling: str | None = None) -> str:
        """Run a new process, and return its standard error; the benchmark ends if it fails."""
        environment = {key: value for key, value in os.environ.items() if key != "OSRL_COMPILE"}
        environment |= {
            "PYTHONPATH": str(ROOT),
            "NUMBA_CACHE_DIR": str(self._folder / cache),
            "CI": "true",
            "PYTHONDONTWRITEBYTECODE": "",  # modules are compiled once, as on the machine of a user
        }
        if compiling is not None:
            environment["OSRL_COMPILE"] = compiling
        line = [sys.executable, *flags, *command]
        done = subprocess.run(line, capture_output=True, text=True, env=environment, cwd=self._folder)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return done.stderr

    def time(self, what: str, cache: str, *command: str) -> Spent:
        """Return the seconds of one process."""
        print(what, file=sys.stderr, flush=True)
        before, began = _processor(), time.perf_counter()
        self.run(cache, *command)
        return Spent(time.perf_counter() - began, _processor() - before)


def _processor() -> float:
    """Return the processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def simulation(policy: str) -> list[str]:
    """Return the least that `osrl simulate` can do with a policy."""
    return [*CODE, "simulate", "paper", "--policy", policy, "--runs", "1", "--budget", "50", "--json"]


def study_commands(study: str) -> dict[str, list[str]]:
    """Return the commands of a study, in the order in which they come."""
    names = ["--tasks", "x1,x2", "--representations", "g1,g2", "--predictors", "h1,h2"]
    return {
        "osrl study create": [*CODE, "study", "create", study, *names],
        "osrl study ask": [*CODE, "study", "ask", study, "--json"],
        "osrl study tell": [*CODE, "study", "tell", study, "1", "1", "--json"],
        "osrl study status": [*CODE, "study", "status", study, "--json"],
    }


BOUND = [*CODE, "bound", "paper", "--json"]


def empty(of: Commands) -> dict[str, Spent]:
    """Time every command with an empty cache."""
    found = {"osrl bound paper": of.time("osrl bound paper, empty", "bound", *BOUND)}
    for what, command in study_commands("first.db").items():
        found[what] = of.time(f"{what}, empty", "study", *command)
    found["osrl simulate, one run"] = of.time("osrl simulate, empty", "simulate", *simulation("osrl"))
    found[ALL] = of.time(f"{ALL}, empty", "policies", *simulation(",".join(POLICIES)))
    return found


def full(of: Commands) -> dict[str, tuple[Spent, dict[str, float]]]:
    """Time every command with a full cache: its seconds, and those of importing each package."""
    create, *others = study_commands("second.db").items()
    of.run("study", *create[1])
    commands = {
        "import osrl": ("study", ["-c", "import osrl"]),
        "osrl --help": ("study", [*CODE, "--help"]),
        "osrl bound paper": ("bound", BOUND),
        **{what: ("study", command) for what, command in others},
        "osrl simulate, one run": ("simulate", simulation("osrl")),
    }
    found = {}
    for what, (cache, command) in commands.items():
        of.run(cache, *command, compiling="now")  # whatever is not compiled yet
        spent = [of.time(f"{what}, full", cache, *command) for _ in range(TIMES)]
        found[what] = Spent(*map(min, zip(*spent, strict=True))), imports(of, cache, command)
    return found


def imports(of: Commands, cache: str, command: Sequence[str]) -> dict[str, float]:
    """Return the least seconds of importing each package, without what it imports itself."""
    least: dict[str, float] = {}
    for _ in range(2):
        spent: Counter[str] = Counter()
        for line in of.run(cache, *command, flags=("-X", "importtime")).splitlines():
            if match := re.match(r"import time:\s+(\d+) \|\s+\d+ \|\s+([\w.]+)", line):
                package = match[2].partition(".")[0].removesuffix("_core")
                spent[package if package in PACKAGES else "others"] += int(match[1])
        for name in (*PACKAGES, "others"):
            least[name] = min(least.get(name, float("inf")), spent[name] / 1e6)
    return least


def report(of: Commands) -> str:
    """Return the measurements as Markdown."""
    cold, warm = empty(of), full(of)
    lines = ["# How long one waits for a command", "", "## With an empty cache", ""]
    lines += _table(["command", "clock", "processor", "wanted"])
    for what, limit in EMPTY_LIMITS.items():
        spent = cold[what]
        cells = [f"{value:.1f} s" for value in spent]
        seconds = spent.processor if what == ALL else spent.clock
        lines.append(_row([f"`{what}`" if what != ALL else what, *cells, _wanted(seconds, limit)]))
    lines += ["", "## With a full cache", ""]
    lines += _table(["command", "clock", "processor", "wanted"])
    for what, (spent, _) in warm.items():
        cells = [f"{value:.2f} s" for value in spent]
        lines.append(_row([f"`{what}`", *cells, _wanted(spent.clock, FULL_LIMITS.get(what))]))
    lines += ["", "## Where the time with a full cache goes", ""]
    lines += ["Milliseconds of importing each package by itself, while Python writes them down.", ""]
    lines += _table(["command", *PACKAGES, "others"])
    for what, (_, imported) in warm.items():
        lines.append(_row([f"`{what}`", *(f"{1e3 * value:.0f}" for value in imported.values())]))
    about = (
        f"A wait with an empty cache is that of one process; with a full one the least of {TIMES}. Nothing "
        f"compiled in the background. One-minute load of the machine at the end: {os.getloadavg()[0]:.1f} on "
        f"{os.cpu_count()} cores."
    )
    return "\n".join([*lines, "", about, ""])


def _table(head: Sequence[str]) -> list[str]:
    return [_row(head), "|---" * len(head) + "|"]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _wanted(seconds: float, limit: float | None) -> str:
    return "" if limit is None else f"{limit:g} s: {'yes' if seconds <= limit else '**no**'}"


def main() -> None:
    """Run the benchmark and write its report."""
    with tempfile.TemporaryDirectory() as folder:
        text = report(Commands(Path(folder)))
    print(text)
    (ROOT / "benchmarks" / "results" / "start.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""How long one waits for a command, with an empty cache and with a full one, before and after; where it goes.

    python benchmarks/start.py                   # ten minutes or more; writes benchmarks/results/start.md
    python benchmarks/start.py --before COMMIT   # compare with another one than the last that always compiled
    python benchmarks/start.py --alone           # the present checkout only; prints, and writes nothing

Every command is a new process. *Empty*: nothing is compiled, and nobody compiles in the background; the
commands of a study come one after the other, as a user would type them, with one cache. *Full*: all that the
command calls has been compiled before; the least of several processes counts, because other work on the
machine can only add to it. Where the time of those goes is read off ``python -X importtime``: the seconds of
importing each package by itself; the rest is Python itself, machine code that is loaded, and the work.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
BEFORE = "72dc0f1"  # the last commit that compiled whatever was called
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


class Checkout:
    """A source tree, whose commands are run with a cache of machine code of their own."""

    def __init__(self, name: str, path: Path, folder: Path) -> None:
        self.name, self._path, self._folder = name, path, folder / name

    def run(self, cache: str, *command: str, flags: Sequence[str] = (), way: str | None = None) -> str:
        """A new process; the benchmark ends with its error if it fails. What it wrote on standard error."""
        self._folder.mkdir(exist_ok=True)
        environment = {key: value for key, value in os.environ.items() if key != "OSRL_COMPILE"}
        environment |= {
            "PYTHONPATH": str(self._path),
            "NUMBA_CACHE_DIR": str(self._folder / cache),
            "CI": "true",
            "PYTHONDONTWRITEBYTECODE": "",  # modules are compiled once, as on the machine of a user
        }
        if way is not None:
            environment["OSRL_COMPILE"] = way
        line = [sys.executable, *flags, *command]
        done = subprocess.run(line, capture_output=True, text=True, env=environment, cwd=self._folder)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return done.stderr

    def time(self, what: str, cache: str, *command: str) -> Spent:
        """The seconds of one process."""
        print(f"{self.name}: {what}", file=sys.stderr, flush=True)
        before, began = _processor(), time.perf_counter()
        self.run(cache, *command)
        return Spent(time.perf_counter() - began, _processor() - before)


def _processor() -> float:
    """Processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def simulation(policy: str) -> list[str]:
    """The least that `osrl simulate` can do with a policy."""
    return [*CODE, "simulate", "paper", "--policy", policy, "--runs", "1", "--budget", "50", "--json"]


def study_commands(study: str) -> dict[str, list[str]]:
    """The commands of a study, in the order in which they come."""
    names = ["--tasks", "x1,x2", "--representations", "g1,g2", "--predictors", "h1,h2"]
    return {
        "osrl study create": [*CODE, "study", "create", study, *names],
        "osrl study ask": [*CODE, "study", "ask", study, "--json"],
        "osrl study tell": [*CODE, "study", "tell", study, "1", "1", "--json"],
        "osrl study status": [*CODE, "study", "status", study, "--json"],
    }


BOUND = [*CODE, "bound", "paper", "--json"]


def empty(of: Checkout) -> dict[str, Spent]:
    """Every command with an empty cache."""
    found = {"osrl bound paper": of.time("osrl bound paper, empty", "bound", *BOUND)}
    for what, command in study_commands("first.db").items():
        found[what] = of.time(f"{what}, empty", "study", *command)
    found["osrl simulate, one run"] = of.time("osrl simulate, empty", "simulate", *simulation("osrl"))
    found[ALL] = of.time(f"{ALL}, empty", "policies", *simulation(",".join(POLICIES)))
    return found


def full(of: Checkout) -> dict[str, tuple[Spent, dict[str, float]]]:
    """Every command with a full cache: its seconds, and those of importing each package."""
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
        of.run(cache, *command, way="now")  # whatever is not compiled yet
        spent = [of.time(f"{what}, full", cache, *command) for _ in range(TIMES)]
        found[what] = Spent(*map(min, zip(*spent, strict=True))), imports(of, cache, command)
    return found


def imports(of: Checkout, cache: str, command: Sequence[str]) -> dict[str, float]:
    """Least seconds of importing each package, without what it imports itself."""
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


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path]:
    """The sources of a commit, for as long as they are needed."""
    path, git = folder / "sources", ["git", "-C", str(ROOT)]
    subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(path), commit], check=True)
    try:
        yield path
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(path)], check=True)


def report(after: Checkout, before: Checkout | None) -> str:
    """The measurements as Markdown."""
    trees = [after] if before is None else [before, after]
    cold, warm = [empty(each) for each in trees], [full(each) for each in trees]
    lines = ["# How long one waits for a command", "", "## With an empty cache", ""]
    lines += _table(["command", *_heads(trees, ("clock", "processor")), "wanted"])
    for what, limit in EMPTY_LIMITS.items():
        spent = [each[what] for each in cold]
        seconds = spent[-1].processor if what == ALL else spent[-1].clock
        cells = [f"{value:.1f} s" for each in spent for value in each]
        lines.append(_row([f"`{what}`" if what != ALL else what, *cells, _wanted(seconds, limit)]))
    lines += ["", "## With a full cache", ""]
    lines += _table(["command", *_heads(trees, ("clock", "processor")), "wanted"])
    for what, (own, _) in warm[-1].items():
        cells = [f"{value:.2f} s" for each in warm for value in each[what][0]]
        lines.append(_row([f"`{what}`", *cells, _wanted(own.clock, FULL_LIMITS.get(what))]))
    lines += ["", "## Where the time with a full cache goes", ""]
    lines += ["Milliseconds of importing each package by itself, while Python writes them down.", ""]
    lines += _table(["command", "", *PACKAGES, "others"])
    for what in warm[-1]:
        for tree, each in zip(trees, warm, strict=True):
            lines.append(_row([f"`{what}`", tree.name, *(f"{1e3 * value:.0f}" for value in each[what][1].values())]))
    about = (
        f"A wait with an empty cache is that of one process; with a full one the least of {TIMES}. Nothing "
        f"compiled in the background. One-minute load of the machine at the end: {os.getloadavg()[0]:.1f} on "
        f"{os.cpu_count()} cores."
    )
    return "\n".join([*lines, "", about, ""])


def _heads(trees: Sequence[Checkout], kinds: Sequence[str]) -> list[str]:
    return [f"{tree.name}, {kind}" for tree in trees for kind in kinds]


def _table(head: Sequence[str]) -> list[str]:
    return [_row(head), "|---" * len(head) + "|"]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _wanted(seconds: float, limit: float | None) -> str:
    return "" if limit is None else f"{limit:g} s: {'yes' if seconds <= limit else '**no**'}"


def main() -> None:
    """Run the benchmark and write its report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", default=BEFORE, help="the commit to compare with")
    parser.add_argument("--alone", action="store_true", help="the present checkout only; writes nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        after = Checkout("after", ROOT, folder)
        if options.alone:
            print(report(after, None))
            return
        with checkout(options.before, folder) as sources:
            text = report(after, Checkout("before", sources, folder))
    print(text)
    (ROOT / "benchmarks" / "results" / "start.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

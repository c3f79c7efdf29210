"""Two checkouts of the package in one run: the same work in turns, each in a process of its own.

    python benchmarks/simulate.py --against PATH_OF_THE_OTHER_CHECKOUT [--cold]

Each process imports ``osrl`` (and ``tests.support.memory_study``) from its own checkout, and does only what both
versions can do: whole runs of a policy, solving for an allocation, and asking and telling without storage. Blocks of
work alternate between the two, and the least processor time of a block counts, because other work on the
machine can only add to it. Compilation is not counted, except with ``--cold``, which measures nothing else:
processor time of the first, short use of each policy, in one new process with an empty cache.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

POLICIES = ("osrl", "osrl-sc", "tas", "tas-transfer", "uniform", "osrl-sc-released")
PHASES = {"phase 1": (1.0, 0.0), "phase 2": (0.0, 1.0), "joint": (1.0, 1.0)}
ASKED = ("osrl", "tas", "uniform")
SLOWEST = 0.95  # a policy must not fall below this share of its speed


# Work, in the process of a checkout ---------------------------------------------------------------


def processor_time() -> float:
    """Of this process, and of those that have compiled beside it."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def work() -> dict[str, Callable[[int], int]]:
    """What is timed, by name: a function of the size of a block that returns how many units it did."""
    import osrl
    import osrl.policies  # noqa: F401  (registers the policies of the package)
    from osrl.allocation import Needs, program_for, solve_afresh
    from osrl.model.rng import new_key
    from osrl.testing import new_state, run_compiled

    try:
        from osrl.policies.contract import find
    except ImportError:  # before sampling and stopping rules were apart
        from osrl.policies.contract import find

    paper = osrl.Instance.load("paper")

    def runs_of(name: str) -> Callable[[int], int]:
        policy = find(name)
        criteria = getattr(policy, "criteria", None) or policy.columns  # its name before
        wanted = criteria([(0.1, 0.1)], policy.thresholds[:1])

        def play(budget: int) -> int:
            key = new_key(0, 0)
            return int(run_compiled(new_state(policy, paper, wanted, key), paper, key, budget))

        return play

    def solving(need_g: float, need_h: float) -> Callable[[int], int]:
        program = program_for(paper, Needs.of(paper, need_g, need_h))

        def solve(times: int) -> int:
            for _ in range(times):
                solve_afresh(program, 1e-6)
            return times

        return solve

    found = {f"rounds of `{name}`": runs_of(name) for name in POLICIES}
    found |= {f"solving, {phase}": solving(*needs) for phase, needs in PHASES.items()}
    found |= {f"ask + tell, `{name}`": _asking(name, paper) for name in ASKED}
    return found


def _asking(policy: str, paper: Any) -> Callable[[int], int]:
    """Trials of a study in memory on the paper's instance, which has no verdict in time."""
    import random

    from tests.support.memory_study import MemoryStudy

    def ask(trials: int) -> int:
        sizes = dict(zip(("tasks", "representations", "predictors"), paper.shape, strict=True))
        study, rng = MemoryStudy(**sizes, policy=policy, delta=1e-9, seed=1), random.Random(0)
        for _ in range(trials):
            asked = study.ask()
            study.tell(asked.trial, rng.random() < paper.means[study.arm(asked)])
        return trials

    return ask


def serve(doing: dict[str, Callable[[int], int]]) -> None:
    """Do the blocks that are asked for on standard input, and say their processor time."""
    for line in sys.stdin:
        name, size = json.loads(line)
        began = processor_time()
        units = doing[name](size)
        print(json.dumps([processor_time() - began, units]), flush=True)


# Comparing, in the process of the benchmark -------------------------------------------------------


class Checkout:
    """A process that does blocks of work with the package of one checkout; ``script`` says which."""

    def __init__(self, root: Path, cache: str | None = None, script: str = __file__) -> None:
        if not (root / "osrl" / "__init__.py").is_file():
            raise SystemExit(f"{root} is no checkout of osrl; give the folder that holds its pyproject.toml")
        folders = os.pathsep.join(map(str, (root, Path(__file__).resolve().parent)))
        environment = {**os.environ, "PYTHONPATH": folders, "PYTHONSAFEPATH": "1", "OSRL_COMPILE": "now"}
        if cache is not None:
            environment["NUMBA_CACHE_DIR"] = cache
        self._process = subprocess.Popen(
            [sys.executable, str(Path(script).resolve()), "--serve"],
            cwd=root, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def time(self, name: str, size: int) -> tuple[float, int]:
        """Processor time of one block, and how many units of work it was."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, size]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("a checkout cannot do what is timed here; its own words are above")
        seconds, units = json.loads(answer)
        return float(seconds), int(units)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Compared(NamedTuple):
    """Least seconds for a unit of some work, before and after."""

    what: str
    before: float
    after: float
    same: bool  # both did the same number of units


def compare(before: Path, after: Path, turns: int) -> list[Compared]:
    """Time all work in both checkouts, block by block in turns."""
    pair = Checkout(before), Checkout(after)
    found = []
    for name, size in _sizes().items():
        print(f"compiling or loading {name}", file=sys.stderr, flush=True)
        least, units = [float("inf")] * 2, [0, 0]
        for each in pair:
            each.time(name, min(size, 50))
        for turn in range(turns):
            for k in (0, 1) if turn % 2 else (1, 0):
                seconds, units[k] = pair[k].time(name, size)
                least[k] = min(least[k], seconds / max(units[k], 1))
        found.append(Compared(name, least[0], least[1], units[0] == units[1]))
    for each in pair:
        each.close()
    return found


def _sizes() -> dict[str, int]:
    """How large a block of each work is: some tenths of a second."""
    sizes = {f"rounds of `{name}`": 10**7 for name in POLICIES}
    sizes |= {"rounds of `uniform`": 20_000, "rounds of `osrl-sc-released`": 3_000}
    sizes |= {f"solving, {phase}": 500 for phase in PHASES}
    return sizes | {f"ask + tell, `{name}`": 300 for name in ASKED}


def compile_times(roots: Sequence[Path]) -> list[dict[str, float]]:
    """Processor time of the first use of each policy, from an empty cache, for each checkout in turn."""
    found = []
    for root in roots:
        with tempfile.TemporaryDirectory() as cache:
            checkout = Checkout(root, cache)
            print(f"compiling everything of {root}", file=sys.stderr, flush=True)
            found.append({name: checkout.time(f"rounds of `{name}`", 50)[0] for name in POLICIES})
            checkout.close()
    return found


def report(before: Path, after: Path, turns: int, cold: bool) -> str:
    """What was measured, as Markdown."""
    lines = ["# Two checkouts, measured in one run", ""]
    if cold:
        old, new = compile_times([before, after])
        old["all together"], new["all together"] = sum(old.values()), sum(new.values())
        lines += [
            "| first use, from an empty cache, in this order | before | after | share |",
            "|---|---|---|---|",
        ]
        lines += [f"| `{name}` | {old[name]:.1f} s | {new[name]:.1f} s | {new[name] / old[name]:.2f} |" for name in old]
        return "\n".join([*lines, "", "Processor time.", ""])
    lines += ["| what | before | after | times as fast |", "|---|---|---|---|"]
    for one in compare(before, after, turns):
        times = one.before / one.after
        slow = " **slower**" if times < SLOWEST else ""
        apart = "" if one.same else " (not the same work)"
        cells = f"{1e6 * one.before:,.2f} µs | {1e6 * one.after:,.2f} µs | {times:.2f}{slow}{apart}"
        lines.append(f"| {one.what} | {cells} |")
    return "\n".join([*lines, "", f"Least processor time of {turns} blocks in turns.", ""])


if __name__ == "__main__":
    serve(work())

"""What grows with the number of pending trials, and what a large study costs a new process.

    python benchmarks/scale.py                  # four minutes; writes results/scale.md
    python benchmarks/scale.py --quick          # less of everything; prints only, unless --out is given

*Pending trials*: one ask and one tell of a study in memory, as more and more trials are out; then a study in
SQLite with thousands of them: a row of `tell_many`, what snapshots write for an event, and the status.
Everything is compiled first. *New processes*: some calls on a study of 81,000 trials with default settings,
once with a cache of machine code that has what is used, and once with an empty one that stays empty. All are
seconds of the processor; the least of some blocks counts, because other work on the machine can only add to
it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import commands
from commands import CLI, Cost, make, run, say

ROOT = Path(__file__).resolve().parents[1]
PENDING = (0, 1_000, 10_000, 100_000)
TRIALS = 81_000  # of the study that new processes open
BEHIND = 500  # trials that a process has not seen
COMMAND_LIMIT = 60  # seconds of the processor
NAMES: dict[str, Any] = {"tasks": 2, "representations": 3, "predictors": 2, "delta": 1e-12, "seed": 0}

Found = dict[str, float | None]  # by name; None where it was given up

# A process knows the study, others go on, and it asks: the seconds of that ask.
BEHIND_CODE = """
import subprocess, sys, time
from osrl.study.study import Study
with Study.open(sys.argv[1]) as study:
    study.tell(study.ask(), 1)
    subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1], sys.argv[3]], check=True,
                   env={**__import__("os").environ, "OSRL_COMPILE": "now", "NUMBA_CACHE_DIR": sys.argv[4]})
    began = time.process_time()
    study.ask()
    print(time.process_time() - began)
"""
PLAY_CODE = """
import sys
from osrl.study.study import Study
with Study.open(sys.argv[1]) as study:
    for i in range(int(sys.argv[2])):
        study.tell(study.ask(), i % 2)
"""
BOUND_CODE = """
import numpy as np, osrl
means = np.random.default_rng(0).uniform(0.1, 0.5, (10, 10, 10))
means[:, 0] += 0.4
osrl.lower_bound(osrl.Instance.bernoulli(means), delta_g=0.1, delta_h=0.1)
"""


# Pending trials, in a process with compiled kernels ---------------------------------------------------------


def least(act: Callable[[], object], times: int, blocks: int = 5) -> float:
    """Return the seconds of the processor that something takes: the least of some blocks."""
    found = []
    for _ in range(blocks):
        began = time.process_time()
        for _ in range(times):
            act()
        found.append((time.process_time() - began) / times)
    return min(found)


def in_memory(sizes: tuple[int, ...]) -> Iterator[tuple[str, float]]:
    """Measure one ask and one tell, with so many trials out; a new one is told, and then one of the others."""
    from tests.support.memory_study import MemoryStudy

    study, rng = MemoryStudy(**NAMES), random.Random(0)

    def newest() -> None:
        study.tell(study.ask().trial, float(rng.randrange(2)))

    def any_of() -> None:
        study.ask()
        i = rng.randrange(len(out))
        out[i], out[-1] = out[-1], out[i]
        study.tell(out.pop(), float(rng.randrange(2)))

    for _ in range(300):
        newest()
    for size in sizes:
        say(f"in memory: {size:,} pending")
        while len(study.progress.pending) < size:
            study.ask()
        newest()
        times = max(4, 300 // max(1, size // 1_000)) if _is_slow(newest) else 100
        yield f"newest {size}", least(newest, times)
        out = list(study.progress.pending)
        if out:
            yield f"any {size}", least(any_of, times)


def _is_slow(act: Callable[[], object]) -> bool:
    """Tell whether something takes more than three milliseconds."""
    began = time.process_time()
    act()
    return time.process_time() - began > 3e-3


def in_sqlite(folder: Path, few: int, many: int) -> Iterator[tuple[str, float]]:
    """Measure a row of `tell_many` with ``few`` pending, then snapshots and the status with ``many``."""

    from osrl.report.study import StudyReport
    from osrl.study.storage.locked_log import LockedLog
    from osrl.study.study import Study

    written, keep = [], LockedLog.keep

    def counted(log: Any, snapshot: Any) -> None:
        written.append(len(snapshot.content) + sum(len(part) for _, part in getattr(snapshot, "parts", ())))
        keep(log, snapshot)

    LockedLog.keep = counted  # type: ignore[method-assign]
    rng = random.Random(0)

    def tell(study: Study, rows: int) -> None:
        study.tell_many([(trial, rng.randrange(2)) for trial in rng.sample(study.pending, rows)])

    def bytes_for_an_event(study: Study) -> float:
        written.clear()
        for _ in range(6):
            study.ask(n=500)
            tell(study, 500)
        return sum(written) / 6_000

    with Study.create(folder / "pending.db", **NAMES) as study:
        say("SQLite: 1,000 pending")
        study.ask(n=1_000)
        bytes_for_an_event(study)
        yield "snapshots 1000", bytes_for_an_event(study)
        say(f"SQLite: {few:,} pending")
        while len(study.pending) < few:
            study.ask(n=1_000)
        tell(study, 1)
        yield "tell_many", least(lambda: tell(study, 20), 1) / 20
        say(f"SQLite: {many:,} pending")
        while len(study.pending) < many:
            study.ask(n=1_000)
        bytes_for_an_event(study)
        yield "snapshots", bytes_for_an_event(study)
        assert study.status.told
        tell(study, 1)
        began = time.process_time()
        status = study.status
        document = json.dumps(StudyReport("", "study", status).document())
        yield "status", time.process_time() - began
        yield "status bytes", float(len(document))


def measure(quick: bool) -> None:
    """Measure pending trials with the package that is imported, and print what was found."""
    found: Found = dict(in_memory(PENDING[:3] if quick else PENDING))
    with tempfile.TemporaryDirectory(prefix="osrl-") as folder:
        found |= in_sqlite(Path(folder), *((2_000, 4_000) if quick else (20_000, 40_000)))
    print(json.dumps(found))


# New processes --------------------------------------------------------------------------------------------


def in_new_processes(trials: int) -> Found:
    """Measure calls on a large study, with machine code at hand and without."""
    commands.LIMIT = COMMAND_LIMIT
    found: Found = {}
    with tempfile.TemporaryDirectory(prefix="osrl-") as name:
        folder = Path(name)
        base = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", "CI": "true"}
        base["NUMBA_CACHE_DIR"] = str(folder / "full")
        base.pop("OSRL_COMPILE", None)
        now = {**base, "OSRL_COMPILE": "now"}
        live, copy = folder / "live.db", folder / "backup.db"
        say(f"a study of {trials:,} trials")
        make(live, trials, base)
        say("compiling")
        warm = folder / "warm.db"
        make(warm, 1_000, base)
        words = {"ask on a backup": f"ask {copy}", "status": f"status {live}", "verify": f"verify {live}"}
        for arguments in (f"backup {warm} {folder / 'w.db'}", f"ask {folder / 'w.db'}", f"status {warm}"):
            run([CLI, "study", *arguments.split()], now)
        run([CLI, "study", "verify", str(warm)], now)
        run([BOUND_CODE], now)
        subprocess.run(
            [sys.executable, "-c", CLI, "study", "backup", str(live), str(copy)],
            env=now,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for cache in ("full", "empty"):
            for what in (*words, "bound", "behind"):
                of_it = folder / (cache if cache == "full" else f"empty for {what}")
                environment = {**base, "NUMBA_CACHE_DIR": str(of_it)}
                if what == "behind":
                    cost = _behind(live, environment, folder / "full")
                else:
                    code = [BOUND_CODE] if what == "bound" else [CLI, "study", *words[what].split()]
                    cost = run(code, environment)
                say(f"{what}, {cache}: {cost.seconds} s {cost.problem}")
                if cost.problem:
                    raise SystemExit(f"{what}: {cost.problem}")
                found[f"{what}, {cache}"] = cost.seconds
    return found


def _behind(live: Path, environment: dict[str, str], full: Path) -> Cost:
    """Measure what an ask costs a process that is some hundred trials behind; those are played by another one."""
    words = [sys.executable, "-c", BEHIND_CODE, str(live), PLAY_CODE, str(BEHIND), str(full)]
    try:
        done = subprocess.run(
            words, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=5 * COMMAND_LIMIT
        )
    except subprocess.TimeoutExpired:
        return Cost(None, "")
    return Cost(float(done.stdout), "")


# Report ---------------------------------------------------------------------------------------------------


def measure_all(quick: bool, trials: int) -> Found:
    """Measure everything: pending trials in a process of their own, whose kernels are compiled."""
    folders = os.pathsep.join(map(str, (ROOT, Path(__file__).resolve().parent)))
    environment = {**os.environ, "PYTHONPATH": folders, "PYTHONSAFEPATH": "1", "OSRL_COMPILE": "now"}
    arguments = [sys.executable, __file__, "--measure", *(["--quick"] if quick else [])]
    done = subprocess.run(arguments, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: Found = json.loads(done.stdout)
    return found | in_new_processes(trials)


def report(now: Found, quick: bool, trials: int) -> str:
    """Return the results as Markdown."""
    few, many = (2_000, 4_000) if quick else (20_000, 40_000)

    def milliseconds(value: float) -> str:
        return f"{1e3 * value:,.3f} ms"

    def seconds(value: float) -> str:
        return f"{value:,.2f} s"

    def size(value: float) -> str:
        return f"{value:,.0f} bytes"

    rows: list[tuple[str, str, Callable[[float], str]]] = []
    for key in now:
        kind, _, pending = key.partition(" ")
        if kind == "newest":
            rows.append((f"ask and tell a new trial, {int(pending):,} pending", key, milliseconds))
        elif kind == "any":
            rows.append((f"ask, and tell any of {int(pending):,} pending", key, milliseconds))
    rows += [
        (f"`tell_many`, one row, {few:,} pending", "tell_many", milliseconds),
        ("snapshots, for one event, 1,000 pending", "snapshots 1000", size),
        (f"snapshots, for one event, {many:,} pending", "snapshots", size),
        (f"status, {many:,} pending", "status", seconds),
        (f"status as JSON, {many:,} pending", "status bytes", size),
    ]
    of_commands = {
        "behind": f"ask of a process that is {BEHIND} trials behind",
        "ask on a backup": f"`osrl study ask` on a backup of {trials:,} trials",
        "status": f"`osrl study status`, {trials:,} trials",
        "verify": f"`osrl study verify`, {trials:,} trials",
        "bound": "`lower_bound` of 10 tasks, 10 representations, 10 predictors",
    }
    for cache, words in (("full", "machine code at hand"), ("empty", "empty cache")):
        rows += [(f"{text}; {words}", f"{key}, {cache}", seconds) for key, text in of_commands.items()]

    lines = [
        "# What grows with a study",
        "",
        "Seconds of the processor, measured in one run; everything after the status in a new process with",
        "default settings. 12 arms, policy `osrl`. Made by `python benchmarks/scale.py`.",
        "",
        "| what | now |",
        "|---|---|",
    ]
    for text, key, write in rows:
        value = now[key]
        lines.append(f"| {text} | {f'over {COMMAND_LIMIT} s' if value is None else write(value)} |")
    last = max(int(key.partition(" ")[2]) for key in now if key.startswith("newest"))
    times = (now[f"newest {last}"] or 0.0) / (now["newest 0"] or 1.0)
    lines += ["", f"With {last:,} pending, an ask and a tell cost {times:.2f} times as much as with none."]
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, help="folder for scale.md")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.quick)
        return
    trials = 3_000 if options.quick else TRIALS
    text = report(measure_all(options.quick, trials), options.quick, trials)
    print(text)
    out = options.out or (None if options.quick else ROOT / "benchmarks" / "results")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "scale.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

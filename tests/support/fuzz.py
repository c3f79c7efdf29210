"""Fuzzing with fixed seeds: whatever is read, only a refusal of one line may come out.

Each fuzzer returns how many cases it tried, and one line for each that raised anything but an `OsrlError`, or
ended with another exit code than it may. The file of such a case is left in the folder.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from osrl.cli import main
from osrl.errors import OsrlError
from osrl.study.study import Study

SECONDS = 60  # after which a case counts as a hang
CODES = (0, 1, 2, 3, 4, 5)
WORDS = [
    *("", " ", "0", "1", "-1", "0.5", "1e400", "-1e400", "nan", "NaN", "inf", "-inf", "null", "None", "true"),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "1e308",
        "5e-324",
        "0x10",
        "1_000",
    ),
    *(
        "\ufeff",
        "\u202e",
        "\U0001f600",
        '"',
        "'",
        ",",
        ";",
        "\t",
        "\r",
        "\n",
        "\\",
        "[]",
        "{}",
        "[[[[",
        "\x1b[2J",
    ),
    *("a" * 100_000, "é", "\0", "1,2", "''", "=1+1", "../..", "%s", "{0}", "propensity[", "propensity[a,b]"),
]
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2**63,
        -(2**63) - 1,
        10**400,
        0.5,
        -0.0,
        1e308,
        float("nan"),
        float("inf"),
    ),
    *("", "x", "\0", "a" * 100_000, [], {}, [1], [[1]], {"a": 1}, [None], "nan", "\ud800"),
]
KINDS: list[Any] = [
    *(
        pl.Binary,
        pl.Boolean,
        pl.Date,
        pl.Datetime("us"),
        pl.Duration("us"),
        pl.Time,
        pl.Null,
        pl.Int8,
        pl.UInt64,
    ),
    *(
        pl.Decimal(10, 2),
        pl.Categorical,
        pl.List(pl.Int64),
        pl.Struct({"a": pl.Int64}),
        pl.Float32,
        pl.Int128,
    ),
]


class Found(NamedTuple):
    """How many cases were tried, and what went wrong with some of them."""

    tried: int
    wrong: list[str]


class Hang(Exception):  # noqa: N818
    """A case took too long."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `Hang` in the main thread after so many seconds; the time limit of the whole test is kept."""

    def late(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, late)
    outer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *outer)


def warm_up(folder: Path) -> None:
    """Compile what the cases need: an alarm in the middle of a compilation does lasting harm."""
    (folder / "warm.toml").write_text('family = "bernoulli"\nmeans = [[[0.9, 0.1], [0.2, 0.1]]]\n', encoding="utf-8")
    run(["plan", str(folder / "warm.toml"), "--runs", "20", "--budget", "30"])
    for rows in (trials(random.Random(0)), trials(random.Random(1))):
        write_rows(rows, folder / "warm.csv", random.Random(0))
        run(["analyse", str(folder / "warm.csv")])


def attempt(case: Callable[[], object]) -> str | None:
    """Return what is wrong with the result of a case, or None."""
    try:
        with time_limit(SECONDS):
            case()
    except OsrlError as error:
        said = str(error)
        return None if said.isprintable() and len(said) < 2000 else f"a message of {len(said)} letters"
    except BaseException as error:  # what a library raises need not be an Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def run(arguments: list[str]) -> None:
    """Run a command; check its exit code, and that a refusal is short and has no traceback."""
    out, err = io.StringIO(), io.StringIO()
    stdin, sys.stdin = sys.stdin, io.StringIO("")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
    finally:
        sys.stdin = stdin
    assert code in CODES, f"exit code {code}"
    assert "Traceback" not in err.getvalue(), err.getvalue()[-200:]
    assert len(err.getvalue()) < 5000 + 3 * sum(map(len, arguments)), "a long message"
    assert "\x1b" not in out.getvalue() + err.getvalue(), "an escape sequence"


# Damage to any file ---------------------------------------------------------------------------------------


def damage(content: bytes, rng: random.Random) -> bytes:
    """Return the content with some bytes changed, removed, repeated or inserted."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        size = len(found)
        i, n = rng.randrange(size + 1), rng.choice((1, 2, 8, 50))
        match rng.randrange(6):
            case 0 if i < size:
                found[i] ^= 1 << rng.randrange(8)
            case 1:
                del found[i : i + n]
            case 2:
                found[i:i] = found[i : i + n]
            case 3:
                found[i:i] = rng.choice(WORDS).encode("utf-8", "surrogatepass")[:1000]
            case 4:
                found[i : i + n] = rng.randbytes(n)
            case 5 if rng.random() < 0.2:
                del found[i:]
    return bytes(found)


# osrl analyse ---------------------------------------------------------------------------------------------


def trials(rng: random.Random) -> list[dict[str, Any]]:
    """Return a valid log of trials."""
    with_propensities = rng.random() < 0.5
    bounded = with_propensities and rng.random() < 0.5
    rows = []
    for _ in range(rng.randrange(1, 30)):
        row: dict[str, Any] = {
            "task": rng.choice(("x1", "x2")),
            "representation": rng.choice(("a", "b")),
            "predictor": rng.choice(("p", "q")),
            "reward": rng.random() if bounded else rng.randrange(2),
        }
        if with_propensities:
            row |= {f"propensity[{g},{h}]": 0.25 for g in "ab" for h in "pq"}
        rows.append(row)
    return rows


def spoil(rows: list[dict[str, Any]], rng: random.Random, values: list[Any]) -> None:
    """Put odd values, and odd columns, into rows."""
    for _ in range(rng.randrange(4)):
        row = rng.choice(rows)
        match rng.randrange(4):
            case 0 | 1:
                row[rng.choice(list(row) or ["task"])] = rng.choice(values)
            case 2:
                row.pop(rng.choice(list(row) or ["task"]), None)
            case 3:
                row[rng.choice(WORDS)[:100]] = rng.choice(values)


def write_rows(rows: list[dict[str, Any]], path: Path, rng: random.Random) -> None:
    """Write rows to a file in the format of its suffix."""
    if path.suffix == ".jsonl":
        text = "\n".join(json.dumps(row) for row in rows)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".csv":
        sign = rng.choice(",,,,;\t")
        lines = [sign.join(columns), *(sign.join(str(row.get(name, "")) for name in columns) for row in rows)]
        path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
        return
    series = [odd_series(name, [row.get(name) for row in rows], rng) for name in columns]
    pl.DataFrame(series).write_parquet(path)


def odd_series(name: str, values: list[Any], rng: random.Random) -> pl.Series:
    """Return a column, now and then of a type that nobody expects."""
    found = pl.Series(name, values, strict=False)
    if rng.random() < 0.15:
        with contextlib.suppress(Exception, pl.exceptions.PanicException):
            return found.cast(rng.choice(KINDS), strict=False)
    return found


def fuzz_analyse(cases: int, folder: Path, seed: int = 0) -> Found:
    """Run `osrl analyse` on logs with odd content, and on damaged files."""
    rng = random.Random(seed)
    warm_up(folder)
    wrong = []
    for case in range(cases):
        path = folder / f"log{case % 8}{rng.choice(('.csv', '.jsonl', '.parquet'))}"
        rows = trials(rng)
        if rng.random() < 0.7:
            spoil(rows, rng, WORDS if path.suffix == ".csv" else VALUES)
        try:
            write_rows(rows, path, rng)
        except Exception:  # Polars cannot write it: then nobody can read it
            write_rows(trials(rng), path, rng)
        if rng.random() < 0.4:
            path.write_bytes(damage(path.read_bytes(), rng))
        options = rng.choice(
            (
                [],
                ["--ignorable"],
                ["--family", "gaussian", "--noise-sd", "1"],
                ["--json"],
                ["--family", "bounded"],
            )
        )
        if said := attempt(lambda path=path, options=options: run(["analyse", str(path), *options])):  # type: ignore[misc]
            path.replace(folder / f"wrong{case}{path.suffix}")
            wrong.append(f"wrong{case}{path.suffix} {options}: {said}")
    return Found(cases, wrong)


# osrl study import ----------------------------------------------------------------------------------------


def exported(folder: Path) -> list[dict[str, Any]]:
    """Return the events of a small study, as in its JSON Lines."""
    names = {"tasks": ["x1", "x2"], "representations": ["a", "b"], "predictors": ["p", "q"]}
    with Study.create(folder / "fuzz.db", **names, seed=1, delta=0.2) as study:  # type: ignore[arg-type]
        for number in range(30):
            trial = study.ask()
            if number == 7:
                study.abandon(trial)
            elif number != 9:
                study.tell(trial, int(trial.representation == "a" and trial.predictor == "p"))
        study.write_log(folder / "fuzz.jsonl")
    lines = (folder / "fuzz.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container and key in nested lists and objects."""
    found = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += [(value, key), *places(inner)]
    return found


def spoil_events(events: list[dict[str, Any]], rng: random.Random) -> None:
    """Put odd values anywhere in a log, and remove the hashes, as in an early log."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        event = rng.choice(events[:3] if rng.random() < 0.4 else events)
        where, key = rng.choice(places(event))
        match rng.randrange(5):
            case 0 | 1 | 2:
                where[key] = rng.choice(VALUES)
            case 3:
                del where[key]
            case 4:
                other, name = rng.choice(places(rng.choice(events)))
                where[key] = other[name]
    match rng.randrange(6):
        case 0:
            rng.shuffle(events)
        case 1:
            events.insert(rng.randrange(len(events)), rng.choice(events))
        case 2:
            del events[rng.randrange(len(events))]
    for number, event in enumerate(events):
        if isinstance(event, dict):
            event.pop("hash", None)
            if rng.random() < 0.999:
                event |= {"of": len(events)}
            if rng.random() < 0.9:
                event["seq"] = number


def write_events(events: list[dict[str, Any]], path: Path) -> None:
    """Write events to a file in the format of its suffix."""
    if path.suffix == ".jsonl":
        text = "\n".join(json.dumps(event) for event in events)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return
    columns = list(dict.fromkeys(key for event in events for key in event))
    flat = [{**event, "payload": json.dumps(event.get("payload"))} for event in events]
    series = [pl.Series(name, [event.get(name) for event in flat], strict=False) for name in columns]
    frame = pl.DataFrame(series)
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)


def import_and_look(place: Path, path: Path) -> None:
    """Import a log; if it is not refused, read it."""
    for left in place.parent.glob(f"{place.name}*"):
        left.unlink()
    Study.read_log(place, path).close()
    run(["study", "status", str(place)])
    run(["study", "verify", str(place)])


def fuzz_import(cases: int, folder: Path, seed: int = 0) -> Found:
    """Run `osrl study import` on logs with odd content, and on damaged files."""
    rng = random.Random(seed)
    events = exported(folder)
    wrong = []
    for case in range(cases):
        path = folder / f"log{case % 8}{rng.choice(('.csv', '.jsonl', '.jsonl', '.parquet'))}"
        copy = json.loads(json.dumps(events))
        try:
            if rng.random() < 0.8:
                spoil_events(copy, rng)
            write_events(copy, path)
        except Exception:  # Polars cannot write it
            write_events(events, path)
        if rng.random() < 0.3:
            path.write_bytes(damage(path.read_bytes(), rng))
        if said := attempt(partial(import_and_look, folder / "imported.db", path)):
            path.replace(folder / f"wrong{case}{path.suffix}")
            wrong.append(f"wrong{case}{path.suffix}: {said}")
    return Found(cases, wrong)

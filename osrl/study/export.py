"""A study as a file: its log, lossless, or its trials, for work elsewhere. CSV, JSON Lines or Parquet.

**The log** has one row for each event: `seq`, `of` (how many there are: a file that was cut is noticed), `at`
(microseconds since 1970, UTC), `kind`, `trial`, and `payload`, the fields of the event (a JSON text; in
JSON Lines an object). `read_log` gives back the same events.

**The trials** are those of `Study.history`, with one column `propensity[g,h]` for each arm, empty where
nothing was left to chance: what `osrl analyse` reads.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from osrl.errors import OsrlError
from osrl.files import replace_file
from osrl.study.events import Created, Event, read_event
from osrl.study.history import history

SUFFIXES = (".csv", ".jsonl", ".parquet")
_SCHEMA = {
    "seq": pl.Int64,
    "of": pl.Int64,
    "at": pl.Int64,
    "kind": pl.String,
    "trial": pl.Int64,
    "payload": pl.String,
}


def write_log(events: Iterable[Event], path: str | os.PathLike[str]) -> None:
    """Write every event; a file at ``path`` is replaced whole or not at all."""
    target, suffix = _target(path)
    log = list(events)
    rows = [(event.seq, len(log), event.at, event.kind, event.trial, event.payload) for event in log]
    if suffix == ".jsonl":
        lines = (_line(*row) for row in rows)
        _write(target, "".join(lines).encode())
    else:
        _write_frame(pl.DataFrame(rows, schema=_SCHEMA, orient="row"), target, suffix)


def _line(seq: int, of: int, at: int, kind: str, trial: int | None, payload: str) -> str:
    """One event as a line of JSON, with its payload as it is stored."""
    head = json.dumps({"seq": seq, "of": of, "at": at, "kind": kind, "trial": trial})
    return f'{head[:-1]}, "payload": {payload}}}\n'


def read_log(path: str | os.PathLike[str]) -> list[Event]:
    """The events of a file that `write_log` has written."""
    target, suffix = _target(path)
    try:
        rows = _rows(target, suffix)
    except FileNotFoundError:
        raise OsrlError(f"{target}: no such file; give one that `osrl study export` has written") from None
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError) as error:
        said = " ".join(str(error).split())[:120]
        raise OsrlError(
            f"{target}: not the log of a study ({said}); give one that was exported without --trials"
        ) from None
    if not rows or rows[0][1] != len(rows):
        all_of_them = f" of {rows[0][1]}" if rows else ""
        raise OsrlError(f"{target}: the log is cut: {len(rows)}{all_of_them} events; export it again")
    try:
        return [read_event(seq, at, kind, payload) for seq, _, at, kind, payload in rows]
    except OsrlError as error:
        raise OsrlError(f"{target}: {error}") from None


def _rows(target: Path, suffix: str) -> list[tuple[Any, ...]]:
    """Every event as (seq, of, at, kind, payload)."""
    wanted = ("seq", "of", "at", "kind", "payload")
    if suffix == ".jsonl":
        lines = [json.loads(line) for line in target.read_text(encoding="utf-8").split("\n") if line]
        return [(*(line[key] for key in wanted[:-1]), json.dumps(line["payload"])) for line in lines]
    frame = pl.read_csv(target, infer_schema=False) if suffix == ".csv" else pl.read_parquet(target)
    return frame.select(wanted).cast({key: _SCHEMA[key] for key in wanted}).rows()


def write_trials(events: Iterable[Event], path: str | os.PathLike[str]) -> None:
    """Write the trials as a table; a file at ``path`` is replaced whole or not at all."""
    target, suffix = _target(path)
    log = list(events)
    created = log[0].body
    assert isinstance(created, Created)
    frame = history(log)
    _write_frame(spread(frame, arm_columns(created.representations, created.predictors)), target, suffix)


def arm_columns(representations: Sequence[str], predictors: Sequence[str]) -> list[str]:
    """The columns that hold the propensity of each arm of a trial's task."""
    return [f"propensity[{g},{h}]" for g in representations for h in predictors]


def spread(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The history with a column for each arm instead of a list."""
    parts = [pl.col("propensities").list.get(i).alias(name) for i, name in enumerate(columns)]
    return frame.with_columns(parts).drop("propensities")


def _target(path: str | os.PathLike[str]) -> tuple[Path, str]:
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise OsrlError(f"{target}: unknown suffix {suffix!r}; use one of {', '.join(SUFFIXES)}")
    return target, suffix


def _write_frame(frame: pl.DataFrame, target: Path, suffix: str) -> None:
    file: Any = io.BytesIO()
    if suffix == ".csv":
        frame.write_csv(file)
    elif suffix == ".jsonl":
        frame.write_ndjson(file)
    else:
        frame.write_parquet(file)
    _write(target, file.getvalue())


def _write(target: Path, content: bytes) -> None:
    try:
        replace_file(target, content)
    except OSError as error:
        raise OsrlError(
            f"{target}: cannot be written: {error.strerror}; give a folder that you may write to"
        ) from None

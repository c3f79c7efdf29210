"""A study as a file: its log, lossless, or its trials, for work elsewhere. CSV, JSON Lines or Parquet.

**The log** has one row for each event: `seq`, `of` (how many there are: a file that was cut is noticed), `at`
(microseconds since 1970, UTC), `kind`, `trial`, `payload`, the fields of the event (a JSON text; in
JSON Lines an object), and its `hash`. `read_log` gives back the same events. Early files have no hashes; they
are computed.

**The trials** are those of `Study.history`, with one column `propensity[g,h]` for each arm, empty where
nothing was left to chance: what `osrl analyse` reads.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from osrl.errors import OsrlError, StorageDamaged
from osrl.files import replace_file
from osrl.study.events import Created, Event, Row, link, read_events
from osrl.study.frames import read_frame, read_text, short, suffix_of
from osrl.study.history import history

_PolarsError = pl.exceptions.PolarsError
_SCHEMA = {
    "seq": pl.Int64,
    "of": pl.Int64,
    "at": pl.Int64,
    "kind": pl.String,
    "trial": pl.Int64,
    "payload": pl.String,
    "hash": pl.String,
}


def write_log(events: Iterable[Event], path: str | os.PathLike[str]) -> None:
    """Write every event; a file at ``path`` is replaced whole or not at all."""
    target, suffix = _target(path)
    log = list(events)
    rows = [(e.seq, len(log), e.at, e.kind, e.trial, e.payload, e.hash) for e in log]
    if suffix == ".jsonl":
        lines = (_line(*row) for row in rows)
        _write(target, "".join(lines).encode())
    else:
        _write_frame(pl.DataFrame(rows, schema=_SCHEMA, orient="row"), target, suffix)


def _line(seq: int, of: int, at: int, kind: str, trial: int | None, payload: str, hash: str) -> str:
    """One event as a line of JSON, with its payload as it is stored."""
    head = json.dumps({"seq": seq, "of": of, "at": at, "kind": kind, "trial": trial, "hash": hash})
    return f'{head[:-1]}, "payload": {payload}}}\n'


def read_log(path: str | os.PathLike[str]) -> list[Event]:
    """The events of a file that `write_log` has written."""
    target, suffix = _target(path)
    try:
        of, rows = _rows(target, suffix)
    except OsrlError as error:
        raise OsrlError(f"{target}: {error}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, _PolarsError) as error:
        raise OsrlError(
            f"{target}: not the log of a study ({short(error)}); give one that was exported without --trials"
        ) from None
    if not rows or of != len(rows):
        all_of_them = f" of {of}" if rows else ""
        raise StorageDamaged(f"{target}: the log is cut: {len(rows)}{all_of_them} events; export it again")
    try:
        return list(read_events(rows, ""))
    except StorageDamaged as error:
        raise StorageDamaged(f"{target}: {error}") from None


def _rows(target: Path, suffix: str) -> tuple[int, list[Row]]:
    """How many events there were, and every event."""
    wanted = ["of", *Row._fields]
    what = "the log of a study, as `osrl study export` writes it"
    if suffix == ".jsonl":
        lines = [json.loads(line) for line in read_text(target, what).split("\n") if line]
        found = [
            (*(line.get(key) for key in wanted[:-2]), _text(line["payload"]), line.get("hash"))
            for line in lines
        ]
    else:
        frame = read_frame(target, what)
        if "hash" not in frame.columns:
            frame = frame.with_columns(hash=pl.lit(None, pl.String))
        found = frame.select(wanted).cast({key: _SCHEMA[key] for key in wanted}).rows()
    rows = [Row(*each[1:]) for each in found]
    for row in rows:
        if not all(map(_fits, row)):
            raise ValueError(f"event {row.seq!r} has no number, time, kind or payload")
    if rows and all(row.hash is None for row in rows):
        rows = _chained(rows)
    return (found[0][0] if found else 0), rows


def _fits(value: Any) -> bool:
    """Whether a database can hold a value: text, nothing, or a whole number of eight bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return -(2**63) <= value < 2**63
    return value is None or isinstance(value, str)


def _text(payload: Any) -> str:
    """A payload as it was stored."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def _chained(rows: list[Row]) -> list[Row]:
    """The rows of an early log, with the hashes that it would have."""
    head, found = "", []
    for row in rows:
        head = link(head, *row[:3], row.payload)
        found.append(row._replace(hash=head))
    return found


def write_trials(events: Iterable[Event], path: str | os.PathLike[str]) -> None:
    """Write the trials as a table; a file at ``path`` is replaced whole or not at all."""
    target, suffix = _target(path)
    log = list(events)
    created = log[0].body
    assert isinstance(created, Created)
    frame = history(log)
    _write_frame(spread(frame, arm_columns(created.representations, created.predictors)), target, suffix)


def write_anchor(path: str | os.PathLike[str], name: str, identity: str, last: Event) -> dict[str, Any]:
    """Add a line to a file: at this time the log of a study had this head. What was written."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    noted = {"at": at, "study": name, "id": identity, "events": last.seq + 1, "head": last.hash}
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(noted) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OsrlError(
            f"{path}: cannot be written: {error.strerror}; give a file that you may write to"
        ) from None
    return noted


def arm_columns(representations: Sequence[str], predictors: Sequence[str]) -> list[str]:
    """The columns that hold the propensity of each arm of a trial's task."""
    return [f"propensity[{g},{h}]" for g in representations for h in predictors]


def spread(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The history with a column for each arm instead of a list."""
    parts = [pl.col("propensities").list.get(i).alias(name) for i, name in enumerate(columns)]
    return frame.with_columns(parts).drop("propensities")


def _target(path: str | os.PathLike[str]) -> tuple[Path, str]:
    target = Path(path)
    try:
        return target, suffix_of(target)
    except OsrlError as error:
        raise OsrlError(f"{target}: {error}") from None


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
        replace_file(target, content, private=True)
    except OSError as error:
        raise OsrlError(
            f"{target}: cannot be written: {error.strerror}; give a folder that you may write to"
        ) from None

"""The log of a study as a file, lossless: CSV, JSON Lines or Parquet.

A file has one row for each event: `seq`, `of` (how many there are: a file that was cut is noticed), `at`
(microseconds since 1970, UTC), `kind`, `trial`, `payload` (the fields of the event as a JSON text; in JSON Lines an
object), and its `hash`. `LogFile` reads the same events back. Early files have no hashes; they are computed.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from osrl.errors import OsrlError, StorageDamaged
from osrl.files import is_database, new_private_file, replace_file
from osrl.study.log.chain import Row, Stored, check_rows, link, read_events
from osrl.study.log.events import Event
from osrl.study.log.tables import escape_formulas, read_frame, read_lines, short_message, suffix_of

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

STREAMED = (".jsonl", ".csv")  # suffixes of files that can be written in parts
_PAYLOAD = ', "payload": '  # precedes the payload in a line of JSON
_STORED = {name: _SCHEMA[name] for name in Row._fields}


def write_log(pages: Iterable[Sequence[Stored]], count: int, path: str | os.PathLike[str]) -> None:
    """Write the first ``count`` events as they are stored; a file is replaced whole or not at all."""
    target, suffix = _target(path)
    if suffix in STREAMED:
        content = io.BytesIO()
        for part in log_parts(pages, count, suffix):
            content.write(part)
        _write(target, content.getbuffer())
        return
    frame = pl.concat([_frame(page, count) for page in pages]).head(count)
    _write_frame(frame, target, suffix)


def log_parts(pages: Iterable[Sequence[Stored]], count: int, suffix: str) -> Iterator[bytes]:
    """Yield the content of a file with the first ``count`` events, in parts: .jsonl or .csv."""
    header = True
    for page in pages:
        rows = [row for row in page if row[0] < count]
        if not rows:
            return
        if suffix == ".jsonl":
            yield "".join(_line(row[0], count, *row[1:]) for row in rows).encode()
        else:
            yield _frame(rows, count).write_csv(include_header=header).encode()
            header = False


def _frame(rows: Sequence[Stored], count: int) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=_STORED, orient="row")
    return frame.insert_column(1, pl.lit(count, pl.Int64).alias("of"))


def _line(seq: int, of: int, at: int, kind: str, trial: int | None, payload: str, hash: str) -> str:
    """Return an event as a line of JSON, with its payload as it is stored."""
    head = json.dumps({"seq": seq, "of": of, "at": at, "kind": kind, "trial": trial, "hash": hash})
    return f"{head[:-1]}{_PAYLOAD}{payload}}}\n"


def read_log(path: str | os.PathLike[str]) -> list[Event]:
    """Return the events of a file that `write_log` has written."""
    return list(LogFile(path))


class LogFile:
    """A file that `write_log` has written; its events can be read any number of times."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path, self._suffix = _target(path)

    def __iter__(self) -> Iterator[Event]:
        for row in self.rows():
            yield from read_events((row,), None)  # the chain was checked

    def rows(self, last: str | None = None) -> Iterator[Row]:
        """Yield every event as it is stored; refuse a broken chain or a missing end.

        ``last`` is the hash with which the log ended when it was read before.
        """
        count, of, head = 0, 0, ""
        try:
            for total, row in self._stored():
                if not _fits(*row):
                    raise ValueError(f"event {row.seq!r} has no number, time, kind or payload")
                if row.hash is None:  # of an early file
                    row = row._replace(hash=link(head, *row[:3], row.payload))
                head = check_rows((row,), head) or ""
                yield row
                of, count = total, count + 1
        except OsrlError as error:
            raise type(error)(f"{self._path}: {error}") from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, _PolarsError) as error:
            raise OsrlError(
                f"{self._path}: not the log of a study ({short_message(error)}); give one that was exported "
                "without --trials"
            ) from None
        if not count or of != count:
            all_of_them = f" of {of}" if count else ""
            raise StorageDamaged(f"{self._path}: the log is cut: {count}{all_of_them} events; export it again")
        if last not in (None, head):
            raise OsrlError(f"{self._path}: the file was changed while it was read; import it again")

    def _stored(self) -> Iterator[tuple[int, Row]]:
        """Yield every event of the file, with the number of all; an early file has no hashes."""
        what = "the log of a study, as `osrl study export` writes it"
        if self._suffix == ".jsonl":
            for line in read_lines(self._path, what):
                if line != "\n":
                    values, payload = _read_line(line)
                    event = values["seq"], values["at"], values["kind"], values.get("trial")
                    yield values["of"], Row(*event, payload, values.get("hash"))
            return
        wanted = ["of", *Row._fields]
        frame = read_frame(self._path, what)
        if "hash" not in frame.columns:
            frame = frame.with_columns(hash=pl.lit(None, pl.String))
        for of, *row in frame.select(wanted).cast({key: _SCHEMA[key] for key in wanted}).iter_rows():
            yield of, Row(*row)


def _fits(seq: Any, at: Any, kind: Any, trial: Any, payload: Any, hash: Any) -> bool:
    """Tell whether a database can hold an event: whole numbers of eight bytes, and text."""
    return (
        type(seq) is type(at) is int
        and type(kind) is type(payload) is str
        and (trial is None or (type(trial) is int and -(2**63) <= trial < 2**63))
        and (hash is None or type(hash) is str)
        and 0 <= seq < 2**63
        and -(2**63) <= at < 2**63
    )


def _read_line(line: str) -> tuple[Any, str]:
    """Return the fields of a line of JSON, and its payload as it was stored: the end of the line.

    Where another program has rewritten the line, the payload is encoded as we would have done.
    """
    fields, mark, text = line.rstrip("\n").partition(_PAYLOAD)
    if mark and text.startswith("{") and text.endswith("}}") and " " not in text[:80]:
        return json.loads(fields + "}"), text[:-1]
    values = json.loads(line)
    return values, json.dumps(values["payload"], ensure_ascii=False, separators=(",", ":"))


def write_frame(frame: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table; a file at ``path`` is replaced whole or not at all."""
    _write_frame(frame, *_target(path))


def write_anchor(path: str | os.PathLike[str], name: str, identity: str, last: Event) -> dict[str, Any]:
    """Append the current head of a study's log to a file, as a line of JSON; return what was written."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    noted = {"at": at, "study": name, "id": identity, "events": last.seq + 1, "head": last.hash}
    try:
        new_private_file(Path(path))
        if is_database(Path(path)):
            raise OsrlError(f"{path} is a database; give a file of its own for the heads")
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(noted) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OsrlError(f"{path}: cannot be written: {error.strerror}; give a file that you may write to") from None
    return noted


def _target(path: str | os.PathLike[str]) -> tuple[Path, str]:
    target = Path(path)
    try:
        return target, suffix_of(target)
    except OsrlError as error:
        raise OsrlError(f"{target}: {error}") from None


def _write_frame(frame: pl.DataFrame, target: Path, suffix: str) -> None:
    file: Any = io.BytesIO()
    if suffix == ".csv":
        escape_formulas(frame).write_csv(file)
    elif suffix == ".jsonl":
        frame.write_ndjson(file)
    else:
        frame.write_parquet(file)
    _write(target, file.getvalue())


def _write(target: Path, content: bytes | memoryview) -> None:
    try:
        replace_file(target, content, private=True)
    except OSError as error:
        raise OsrlError(f"{target}: cannot be written: {error.strerror}; give a folder that you may write to") from None

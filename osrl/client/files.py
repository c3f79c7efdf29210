"""Logs and tables that a server sends: read, or written to a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osrl.errors import OsrlError
from osrl.files import replace_file
from osrl.study.log.events import Created, Event
from osrl.study.log.export import LogFile, write_anchor
from osrl.study.log.tables import suffix_of
from osrl.study.settings import Place
from osrl.study.views.history import history

if TYPE_CHECKING:
    import polars as pl

PAGE_EVENTS = 10_000  # events of a log that become a table at once


def read_events(content: bytes) -> list[Event]:
    """Return the events of a log in JSON Lines; refuse one whose hash chain is broken."""
    with _log_file(content) as log:
        return list(log)


def read_history(content: bytes) -> pl.DataFrame:
    """Return the trials of a log in JSON Lines."""
    with _log_file(content) as log:
        rows: Any = [tuple(row) for row in log.rows()]
    return history(rows[first : first + PAGE_EVENTS] for first in range(0, len(rows), PAGE_EVENTS))[0]


@contextmanager
def _log_file(content: bytes) -> Iterator[LogFile]:
    with tempfile.TemporaryDirectory(prefix="osrl-") as folder:
        path = Path(folder) / "log.jsonl"
        path.write_bytes(content)
        yield LogFile(path)


def suffix_without_dot(file: Place) -> str:
    """Return the format of a file by its name: csv, jsonl or parquet."""
    try:
        return suffix_of(Path(file))[1:]
    except OsrlError as error:
        raise OsrlError(f"{file}: {error}") from None


def write_file(file: Place, content: bytes) -> None:
    """Write the content that a server has sent; a file is replaced whole or not at all."""
    try:
        replace_file(Path(file), content, private=True)
    except OSError as error:
        raise OsrlError(f"{file}: cannot be written: {error.strerror}; give a folder that you may write to") from None


def write_head(file: Place, name: str, summary: dict[str, Any]) -> dict[str, Any]:
    """Append the head of a log to a file as one line of JSON; return that line's document."""
    last = Event(summary["events"] - 1, 0, Created(**summary["settings"]), summary["head"])
    return write_anchor(file, name, summary["id"], last)

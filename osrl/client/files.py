"""Logs and tables that a server sends: read, or written to a file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osrl.errors import OsrlError
from osrl.files import replace_file
from osrl.study.log.events import Created, Event
from osrl.study.log.export import LogFile, write_anchor
from osrl.study.log.tables import suffix_of
from osrl.study.views.history import history
from osrl.study.views.reading import Place

if TYPE_CHECKING:
    import polars as pl

PAGE = 10_000  # events of a log that are read at once


def read_events(content: bytes) -> list[Event]:
    """The events of a log in JSON Lines; refused where its chain is broken."""
    with _Downloaded(content) as log:
        return list(log)


def read_history(content: bytes) -> pl.DataFrame:
    """The trials of a log in JSON Lines."""
    with _Downloaded(content) as log:
        rows: Any = [tuple(row) for row in log.rows()]
    return history(rows[first : first + PAGE] for first in range(0, len(rows), PAGE))[0]


def format_of(file: Place) -> str:
    """How a file is to be written, by its name."""
    try:
        return suffix_of(Path(file))[1:]
    except OsrlError as error:
        raise OsrlError(f"{file}: {error}") from None


def write_file(file: Place, content: bytes) -> None:
    """Write what a server has sent; a file is replaced whole or not at all."""
    try:
        replace_file(Path(file), content, private=True)
    except OSError as error:
        raise OsrlError(f"{file}: cannot be written: {error.strerror}; give a folder that you may write to") from None


def write_head(file: Place, name: str, shown: dict[str, Any]) -> dict[str, Any]:
    """Note the head of a log in a file, as one more line of JSON; what was noted."""
    last = Event(shown["events"] - 1, 0, Created(**shown["settings"]), shown["head"])
    return write_anchor(file, name, shown["id"], last)


class _Downloaded:
    """A log in a file, as long as it is read."""

    def __init__(self, content: bytes) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="osrl-")
        self._path = Path(self._folder.name) / "log.jsonl"
        self._path.write_bytes(content)

    def __enter__(self) -> LogFile:
        return LogFile(self._path)

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

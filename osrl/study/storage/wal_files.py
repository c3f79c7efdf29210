"""Which files a SQLite database consists of now: itself, its write-ahead log, and the index of that.

A database that was removed or replaced must be noticed before anything is acknowledged, so every turn looks.
Most of the time one look at the folder is enough: its time changes whenever a file in it is made, removed or
renamed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

SETTLED = 3_000_000_000  # nanoseconds: what has changed within them may have changed twice at the same time

Identity = tuple[int, int] | None


class Files(NamedTuple):
    """Which files have the names of a database, its write-ahead log and the index of that."""

    database: Identity
    log: Identity
    log_index: Identity

    @property
    def logs(self) -> tuple[Identity, Identity]:
        """The files of the write-ahead log."""
        return self.log, self.log_index


_State = tuple[int, int, int]  # which folder it is, and when a file in it was last made, removed or renamed


class WalFiles:
    """The files of the database at ``path``, looked up again only after their folder has changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._names = path, path + "-wal", path + "-shm"
        # What a link points to may lie in another folder, of which we hear nothing.
        self._folder = None if os.path.islink(path) else os.path.dirname(path) or "."
        self._known: tuple[_State, Files] | None = None

    def now(self) -> Files:
        """Return the files that are there now."""
        state = None if self._folder is None else _state_of(self._folder)
        known = self._known
        if known is not None and known[0] == state:
            return known[1]
        files = Files(*map(identity, self._names))  # after the folder: what changes meanwhile is seen again
        settled = state is not None and SETTLED < time.time_ns() - state[2]
        self._known = (state, files) if state is not None and settled else None
        return files


def _state_of(folder: str) -> _State | None:
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def identity(path: str | Path) -> Identity:
    """Return which file has this name now; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino

"""Standing in line: who wants to write to a SQLite file is served in the order of arrival.

SQLite lets everybody try again and again, and who tries at the right moment is lucky: with many writers some
wait for very long, and whoever has just written is the luckiest. Here writers take numbers. A number is a
lock on one byte of the write-ahead log, far beyond its end, and vanishes with its process. Who holds the
lowest tries to begin, alone, and gives the number back when that is done. Whoever has just written takes a
new number, after all the others. Where nobody stands in line, one may begin without a number.

The line is only for fairness. Nobody relies on it: SQLite itself has one writer at a time, and who has stood
in line for too long, behind a process that was stopped for instance, goes and tries his luck. Where a system
has no such locks (Windows, macOS), everybody does.

The write-ahead log is a file that SQLite itself does not lock: closing a file would let go of all locks
that SQLite has on it.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:
    fcntl = None

FIRST, MOST = 2**61, 2**61  # the byte of the first number, and how many there are
PATIENCE = 10.0  # seconds in line, before one tries one's luck
PAUSE = 0.001  # seconds, about, between two looks at the line, for everyone who is before us
PERIOD = 0.03  # seconds between two calls of `meanwhile`

_LOCK = struct.Struct("@hhqqi4x")  # type, whence, start, length, process
_GET, _SET = getattr(fcntl, "F_OFD_GETLK", None), getattr(fcntl, "F_OFD_SETLK", None)
if fcntl is not None:
    _ANYONE = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, FIRST, MOST, 0)
    _NOBODY = _LOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, FIRST, MOST, 0)


class WriterQueue:
    """The line of writers to a SQLite file, as one who may stand in it sees it: an open write-ahead log."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor: int | None = None
        if _GET is not None:
            with suppress(OSError):  # nobody has written yet
                self._descriptor = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)

    def is_empty(self) -> bool:
        """Tell whether nobody else stands in it."""
        if self._descriptor is None or _GET is None:
            return True
        kind: int = _LOCK.unpack(fcntl.fcntl(self._descriptor, _GET, _ANYONE))[0]
        return bool(kind == fcntl.F_UNLCK)

    def wait(self, meanwhile: Callable[[], object] | None) -> None:
        """Stand in line until we are the first; ``meanwhile`` is called now and then."""
        if self._descriptor is not None:
            _wait(self._descriptor, meanwhile)

    def leave(self) -> None:
        """Give the number back: the next one is the first."""
        if self._descriptor is not None and _SET is not None:
            fcntl.fcntl(self._descriptor, _SET, _NOBODY)

    def close(self) -> None:
        """Give the number back, if there is one, and do not stand in line again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _wait(descriptor: int, meanwhile: Callable[[], object] | None) -> None:
    """Take a number, and wait until it is the lowest, or until we have lost patience."""
    number = FIRST
    while True:
        while (taken := _taken(descriptor, number)) is not None:
            number = taken + 1
        if _take(descriptor, number):
            break
    end = time.monotonic() + PATIENCE
    called = 0.0
    while before := _count_before(descriptor, number):
        now = time.monotonic()
        if now > end:
            return
        if meanwhile is not None and now - called > PERIOD:
            meanwhile()
            called = time.monotonic()
        time.sleep(random.uniform(0.5, 1.5) * PAUSE * before)


def queue_length(path: str) -> int:
    """Return how many writers are in the queue of a SQLite file."""
    descriptor = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)
    try:
        return _count_before(descriptor, FIRST + MOST)
    finally:
        os.close(descriptor)


def _count_before(descriptor: int, number: int) -> int:
    """Return how many others hold a lower number."""
    count, start = 0, FIRST
    while start < number and (taken := _taken(descriptor, start, number)) is not None:
        count, start = count + 1, taken + 1
    return count


def _taken(descriptor: int, start: int, end: int = FIRST + MOST) -> int | None:
    """Return the lowest number from ``start`` to before ``end`` that somebody else holds."""
    asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, end - start, 0)
    assert _GET is not None
    kind, _, taken, _, _ = _LOCK.unpack(fcntl.fcntl(descriptor, _GET, asked))
    return None if kind == fcntl.F_UNLCK else int(taken)


def _take(descriptor: int, number: int) -> bool:
    """Take a number, unless somebody else has."""
    assert _SET is not None
    try:
        fcntl.fcntl(descriptor, _SET, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
    except OSError:
        return False
    return True

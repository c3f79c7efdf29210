"""Standing in line: who wants to write to a SQLite file is served in the order of arrival.

SQLite lets everybody try again and again, and who tries at the right moment is lucky: with many writers some
wait for very long, and whoever has just written is the luckiest. Here writers take numbers. A number is a
lock on one byte of the write-ahead log, far beyond its end, and vanishes with its process. Who holds the
lowest tries to begin, alone, and gives the number back when that is done. Whoever has just written takes a
new number, after all the others.

The line is only for fairness. Nobody relies on it: SQLite itself has one writer at a time, and who has stood
in line for too long, behind a process that was stopped for instance, goes and tries his luck.

The write-ahead log is a file that SQLite itself does not lock: closing a file would let go of all locks
that SQLite has on it.
"""

from __future__ import annotations

import fcntl
import os
import random
import struct
import time
from collections.abc import Callable

FIRST, MOST = 2**61, 2**61  # the byte of the first number, and how many there are
PATIENCE = 10.0  # seconds in line, before one tries one's luck
PAUSE = 0.001  # seconds, about, between two looks at the line, for everyone who is before us
PERIOD = 0.03  # seconds between two calls of `meanwhile`

_LOCK = struct.Struct("@hhqqi4x")  # type, whence, start, length, process
_GET, _SET = getattr(fcntl, "F_OFD_GETLK", None), getattr(fcntl, "F_OFD_SETLK", None)


class InLine:
    """Be the first in the line of writers to a SQLite file, in a ``with`` block.

    ``meanwhile`` is called now and then while others are before us.
    """

    __slots__ = ("_descriptor", "_meanwhile", "_path")

    def __init__(self, path: str, meanwhile: Callable[[], object] | None) -> None:
        self._path, self._meanwhile = path, meanwhile
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        try:
            self._descriptor = os.open(f"{self._path}-wal", os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # nobody has written yet
            return
        try:
            if _GET is not None:
                _wait(self._descriptor, self._meanwhile)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __exit__(self, *error: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)  # and the next one is the first


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


def length_of(path: str) -> int:
    """How many are in the line of a SQLite file."""
    descriptor = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)
    try:
        return _count_before(descriptor, FIRST + MOST)
    finally:
        os.close(descriptor)


def _count_before(descriptor: int, number: int) -> int:
    """How many others hold a lower number."""
    count, start = 0, FIRST
    while start < number and (taken := _taken(descriptor, start, number)) is not None:
        count, start = count + 1, taken + 1
    return count


def _taken(descriptor: int, start: int, end: int = FIRST + MOST) -> int | None:
    """The lowest number from ``start`` to before ``end`` that somebody else holds."""
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

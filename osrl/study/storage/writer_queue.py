"""The queue of writers to a SQLite file: they are served in the order of arrival.

SQLite lets every writer try again and again, so with many writers some wait for very long, and the one that has
just written is the most likely to write again. Here writers take numbers. A number is a lock on one byte of the
write-ahead log, far beyond its end, and vanishes with its process. The holder of the lowest number tries to begin,
alone, and gives the number back when it has begun. The next time it takes a new number, after all the others. Where
the queue is empty, a writer begins without a number.

The queue is only for fairness. SQLite itself has one writer at a time, and a writer that has waited in the queue for
too long, such as behind a process that was stopped, tries without it. On systems without such locks (Windows, macOS)
all writers do.

The write-ahead log is a file that SQLite itself does not lock: closing the database file would release all locks that
SQLite has on it.
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

FIRST_NUMBER, MAX_NUMBERS = 2**61, 2**61  # the byte of the first number, and how many there are
MAX_QUEUED_SECONDS = 10.0  # in the queue, before a writer tries without it
POLL_SECONDS = 0.001  # between two checks of the queue, for every writer before us
CALLBACK_SECONDS = 0.03  # between two calls of `while_waiting`

_LOCK = struct.Struct("@hhqqi4x")  # type, whence, start, length, process
_GET, _SET = getattr(fcntl, "F_OFD_GETLK", None), getattr(fcntl, "F_OFD_SETLK", None)
if fcntl is not None:
    _ANYONE = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, FIRST_NUMBER, MAX_NUMBERS, 0)
    _NOBODY = _LOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, FIRST_NUMBER, MAX_NUMBERS, 0)


class WriterQueue:
    """The queue of writers to a SQLite file, as one connection sees it: an open write-ahead log."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor: int | None = None
        if _GET is not None:
            with suppress(OSError):  # nobody has written yet
                self._descriptor = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)

    def is_empty(self) -> bool:
        """Tell whether nobody else is in the queue."""
        if self._descriptor is None or _GET is None:
            return True
        kind: int = _LOCK.unpack(fcntl.fcntl(self._descriptor, _GET, _ANYONE))[0]
        return bool(kind == fcntl.F_UNLCK)

    def wait(self, while_waiting: Callable[[], object] | None) -> None:
        """Wait in the queue until we are the first; ``while_waiting`` is called now and then."""
        if self._descriptor is not None:
            _wait(self._descriptor, while_waiting)

    def leave(self) -> None:
        """Give the number back: the next writer is the first."""
        if self._descriptor is not None and _SET is not None:
            fcntl.fcntl(self._descriptor, _SET, _NOBODY)

    def close(self) -> None:
        """Give the number back, if there is one, and do not queue again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _wait(descriptor: int, while_waiting: Callable[[], object] | None) -> None:
    """Take a number, and wait until it is the lowest, or for `MAX_QUEUED_SECONDS`."""
    number = FIRST_NUMBER
    while True:
        while (taken := _taken(descriptor, number)) is not None:
            number = taken + 1
        if _take(descriptor, number):
            break
    end = time.monotonic() + MAX_QUEUED_SECONDS
    called = 0.0
    while before := _count_before(descriptor, number):
        now = time.monotonic()
        if now > end:
            return
        if while_waiting is not None and now - called > CALLBACK_SECONDS:
            while_waiting()
            called = time.monotonic()
        time.sleep(random.uniform(0.5, 1.5) * POLL_SECONDS * before)


def queue_length(path: str) -> int:
    """Return how many writers are in the queue of a SQLite file."""
    descriptor = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)
    try:
        return _count_before(descriptor, FIRST_NUMBER + MAX_NUMBERS)
    finally:
        os.close(descriptor)


def _count_before(descriptor: int, number: int) -> int:
    """Return how many others hold a lower number."""
    count, start = 0, FIRST_NUMBER
    while start < number and (taken := _taken(descriptor, start, number)) is not None:
        count, start = count + 1, taken + 1
    return count


def _taken(descriptor: int, start: int, end: int = FIRST_NUMBER + MAX_NUMBERS) -> int | None:
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

"""A time limit for servers that do not answer: their connection is cut, and the call ends.

The waiting itself is done by the driver of the database, which has no limit of its own. One thread checks
twice a second the sockets that are waited for.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHECK_SECONDS = 0.5  # between two checks

_lock = threading.Lock()
_due: dict[int, tuple[float, int]] = {}  # when, and which socket
_numbers = itertools.count()
_thread: threading.Thread | None = None


def watch(seconds: float, number: int) -> int:
    """Cut the socket with this number after so many seconds, unless `unwatch` is told what this returns."""
    key = next(_numbers)
    with _lock:
        _due[key] = (time.monotonic() + seconds, number)
        _start()
    return key


def unwatch(key: int) -> None:
    """Stop the watch on a socket: the server has answered."""
    with _lock:  # a number may be another socket as soon as this one is closed
        _due.pop(key, None)


@contextmanager
def answer_within(seconds: float, number: int) -> Iterator[None]:
    """Cut the socket with this number if the block lasts longer."""
    key = watch(seconds, number)
    try:
        yield
    finally:
        unwatch(key)


def _start() -> None:
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_watch, name="osrl-watchdog", daemon=True)
        _thread.start()


def _watch() -> None:
    while True:
        time.sleep(CHECK_SECONDS)
        with _lock:
            now = time.monotonic()
            for key, (when, number) in list(_due.items()):
                if when < now:
                    del _due[key]
                    _cut(number)


def _cut(number: int) -> None:
    """End a connection as if the other side had."""
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as found:
        found.shutdown(socket.SHUT_RDWR)


def _after_fork() -> None:
    """Start anew in a child: threads do not survive a fork, and a lock may be held by one of them."""
    global _lock, _thread
    _lock, _thread = threading.Lock(), None
    _due.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)

"""A gate that threads pass freely, and that is shut while the process forks."""

from __future__ import annotations

from threading import Condition, get_ident


class ForkLock:
    """Any number of threads may be inside; who shuts it waits until all others have left."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside: dict[int, int] = {}  # thread -> how often it has entered
        self._shut_by: int | None = None

    def __enter__(self) -> None:
        me = get_ident()
        if me in self._inside:  # only this thread changes its own number
            self._inside[me] += 1
            return
        with self._changed:
            while self._shut_by not in (None, me):
                self._changed.wait()
            self._inside[me] = 1

    def __exit__(self, *error: object) -> None:
        me = get_ident()
        if self._inside[me] > 1:
            self._inside[me] -= 1
            return
        with self._changed:
            del self._inside[me]
            self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody else in, and wait until all others have left; then the state in memory is whole."""
        me = get_ident()
        self._changed.acquire()  # stays with this thread over the fork
        while self._shut_by not in (None, me) or self._inside.keys() - {me}:
            self._changed.wait()
        self._shut_by = me

    def open(self) -> None:
        """Let others in again."""
        self._shut_by = None
        self._changed.notify_all()
        self._changed.release()

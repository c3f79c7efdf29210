"""A gate that threads pass freely, and that is shut while the process forks."""

from __future__ import annotations

from threading import Condition, get_ident


class Gate:
    """Any number of threads may be inside; who shuts it waits until all others have left."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside: dict[int, int] = {}  # thread -> how often it has entered
        self._shut_by: int | None = None

    def __enter__(self) -> None:
        me = get_ident()
        with self._changed:
            while me not in self._inside and self._shut_by not in (None, me):
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *error: object) -> None:
        me = get_ident()
        with self._changed:
            self._inside[me] -= 1
            if not self._inside[me]:
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

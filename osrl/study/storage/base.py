"""Where the events of studies are kept, and what every such place owes to its studies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from threading import Condition, get_ident
from typing import NamedTuple

from osrl.study.log.chain import Stored
from osrl.study.log.events import Event


class Snapshot(NamedTuple):
    """The state after the first ``position`` events, as blocks of bytes. A cache: it may be missing.

    ``parts`` are blocks besides ``content``, each with the position of the snapshot that it was written with;
    ``older`` are the positions of parts that the storage has already.
    """

    position: int
    content: bytes
    parts: tuple[tuple[int, bytes], ...] = ()
    older: tuple[int, ...] = ()


class Tombstone(NamedTuple):
    """What is left of a study that was deleted: how many events it had, and the hash of the last."""

    name: str
    events: int
    head: str
    at: int  # microseconds since 1970 (UTC)
    by: str | None
    reason: str | None


class ForkLock:
    """A lock that any number of threads hold at once, and that is taken alone while the process forks."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._holders: dict[int, int] = {}  # thread -> how often it has entered
        self._owner: int | None = None

    def __enter__(self) -> None:
        me = get_ident()
        if me in self._holders:  # only this thread changes its own number
            self._holders[me] += 1
            return
        with self._changed:
            while self._owner not in (None, me):
                self._changed.wait()
            self._holders[me] = 1

    def __exit__(self, *error: object) -> None:
        me = get_ident()
        if self._holders[me] > 1:
            self._holders[me] -= 1
            return
        with self._changed:
            del self._holders[me]
            self._changed.notify_all()

    def acquire_alone(self) -> None:
        """Wait until no other thread holds the lock, and let none take it: the state in memory is whole then."""
        me = get_ident()
        self._changed.acquire()  # stays with this thread over the fork
        while self._owner not in (None, me) or self._holders.keys() - {me}:
            self._changed.wait()
        self._owner = me

    def release(self) -> None:
        """Let other threads take the lock again."""
        self._owner = None
        self._changed.notify_all()
        self._changed.release()


class Log(ABC):
    """The log of one study, held by one writer: nobody else appends to it until it is let go."""

    @abstractmethod
    def read(self, position: int) -> Iterator[Event]:
        """Return the events from number ``position`` on."""

    @abstractmethod
    def events_after(self, last: Event) -> Iterator[Event] | None:
        """Return the events after ``last``; None if the log has another in its place."""

    @abstractmethod
    def events_of_trial(self, trial: int) -> list[Event]:
        """Return the events about one trial, in order."""

    @abstractmethod
    def find_key(self, key: str) -> int | None:
        """Return the number of the trial with this key, if there is one."""

    @abstractmethod
    def append(self, events: Sequence[Event | Stored]) -> None:
        """Add events, numbered on from the last one, and the keys of trials; a key is used once."""

    @abstractmethod
    def snapshot(self) -> Snapshot | None:
        """Return the snapshot that was kept last, if there is one, without the content of its parts."""

    @abstractmethod
    def keep(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the one before, whose parts stay if they are among the ``older``."""


class Storage(ABC):
    """A place that holds the event logs of several studies, each with a name.

    Obligations of every storage:

    - **Append only.** An event is never changed, and is removed only together with its whole study, which
      leaves a tombstone. The numbers of a study's events are 0, 1, 2, ... without a gap.
    - **What is read was written.** The chain of hashes is checked as events are read; where it is broken,
      reading ends with `StorageDamaged`.
    - **All or nothing.** What is appended within one `lock_log` is stored together or not at all, whatever
      happens to the process or the machine.
    - **Durable.** When `lock_log` ends without an error, its events have reached the disk.
    - **One writer at a time.** While one process or thread is inside `lock_log`, no other is inside `lock_log`
      of the same study. Whoever enters sees every event of those who were inside before.
    - **Readers never wait** for a writer, not even for one of their own process, and see the log as it was at
      some moment.
    - **Waiting has an end.** Who cannot write because of others gets `StorageBusy` after a stated time.
    - **Errors are clear.** Whatever goes wrong is raised as an `OsrlError` that says what to do, and the
      storage can be used again as soon as its cause is gone.
    - **Any thread, any process.** A storage may be shared by threads, and it survives a fork: parent and
      child go on with connections of their own. What a fork must not interrupt is done under ``fork_lock``.

    A study is known by a number that is never used again, so that a study which was deleted is not
    confused with a new one of the same name.
    """

    fork_lock: ForkLock
    place: str  # for messages, without passwords

    @abstractmethod
    def create(self, name: str, events: Iterable[Event | Stored], snapshot: Snapshot | None = None) -> int:
        """Create a study with its first events, or rows of them; return its number. Refuse a name that exists.

        ``snapshot`` is one that an event among them vouches for.
        """

    @abstractmethod
    def find(self, name: str) -> int:
        """Return the number of the study called ``name``."""

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Return the names of all studies, in order of creation."""

    @abstractmethod
    def delete(self, name: str, by: str | None = None, reason: str | None = None) -> None:
        """Remove a study with all its events; a tombstone says which it was."""

    @abstractmethod
    def deleted(self) -> tuple[Tombstone, ...]:
        """Return what is left of studies that were deleted."""

    @abstractmethod
    def lock_log(self, study: int, while_waiting: Callable[[], object] | None = None) -> AbstractContextManager[Log]:
        """Hold the log of a study as its only writer; at the end of the block, store what was appended.

        ``while_waiting`` may be called while others hold it: what is done then, they need not wait for.
        """

    @abstractmethod
    def first(self, study: int) -> Event:
        """Return the event with which a study begins."""

    @abstractmethod
    def read(self, study: int, position: int = 0) -> Iterator[Event]:
        """Return the events of a study from number ``position`` on."""

    @abstractmethod
    def events_of_trial(self, study: int, trial: int) -> list[Event]:
        """Return the events about one trial, in order."""

    @abstractmethod
    def events_of_trials(self, study: int, first: int, last: int) -> list[Event]:
        """Return the events about the trials from number ``first`` to ``last``, in order."""

    @abstractmethod
    def find_key(self, study: int, key: str) -> int | None:
        """Return the number of the trial with this key, if there is one."""

    @abstractmethod
    def rows(self, study: int) -> Iterator[list[Stored]]:
        """Return the log of a study as it is stored, in parts, with its chain checked."""

    @abstractmethod
    def snapshot(self, study: int) -> Snapshot | None:
        """Return the snapshot that was kept last, if there is one."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return what is wrong with the database itself, apart from what its logs say."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections. They are opened again when needed."""

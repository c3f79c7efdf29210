"""A session: one process at work on one study, with a fold that follows the log.

Every call takes a *turn*: hold the log, take in what others have written, decide, append, let go. The fold
is kept between turns, so that what a turn costs does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from osrl.errors import OsrlError
from osrl.study.events import Body, Created, Event, Resumed, now
from osrl.study.fold import Fold
from osrl.study.snapshot import EVERY, pack, unpack
from osrl.study.storage import Log, Snapshot, Storage
from osrl.study.versions import versions


class Turn(NamedTuple):
    """What one call does to the study, while it holds the log."""

    fold: Fold
    log: Log
    events: list[Event]

    def do(self, body: Body) -> None:
        """Let something happen: the fold takes it in."""
        event = self._next(body)
        self.fold.apply(event)
        self.events.append(event)

    def note(self, body: Body) -> None:
        """Note what has happened: the fold has taken it in."""
        event = self._next(body)
        self.fold.advance(event)
        self.events.append(event)

    def _next(self, body: Body) -> Event:
        """The next event; before it goes, where needed, that a program of other versions takes part."""
        if versions() not in self.fold.writers:
            resumed = Event(self.fold.position, now(), Resumed(versions()))
            self.fold.apply(resumed)
            self.events.append(resumed)
        return Event(self.fold.position, now(), body)


class Session:
    """Study number ``number`` of a storage, and its fold as far as it is known here."""

    def __init__(self, storage: Storage, number: int) -> None:
        self.storage = storage
        self.number = number
        self._fold: Fold | None = None
        self._kept = 0  # position of the last snapshot that is known

    def events(self) -> Iterator[Event]:
        """Every event so far."""
        return self.storage.read(self.number)

    def snapshot(self) -> Snapshot | None:
        """The snapshot that was kept last."""
        return self.storage.snapshot(self.number)

    @contextmanager
    def reading(self) -> Iterator[Fold]:
        """The fold of everything that is in the log now; other threads wait until it has been read."""
        with self.storage.lock:
            yield self._current()

    def _current(self) -> Fold:
        try:
            fold = self._fold or self._load()
            if not _follow(fold, self.storage.read(self.number, fold.position - 1)):
                fold = self._load(snapshot=False)  # the log has been replaced, by a backup perhaps
                _follow(fold, self.storage.read(self.number, fold.position - 1))
        except BaseException:
            self._fold = None
            raise
        self._fold = fold
        return fold

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Hold the log with the fold up to date, and store what is noted; after an error all is as before."""
        with self.storage.lock:
            # Most of a long log is read before it is held, so that others need not wait for it.
            fold = self._current() if self._fold is None else self._fold
            known = fold.position
            try:
                with self.storage.hold(self.number) as log:
                    if not _follow(fold, log.read(fold.position - 1)):
                        self._fold = None
                        raise OsrlError("the log is not the one that was read before; call again to read it")
                    known = fold.position
                    turn = Turn(fold, log, [])
                    yield turn
                    log.append(turn.events)
                    if turn.events and fold.position - self._kept >= EVERY:
                        log.keep(pack(fold))
                        self._kept = fold.position
            except BaseException as error:
                # A refusal comes before any change. After anything else the fold may be ahead of the log.
                if fold.position != known or not isinstance(error, OsrlError):
                    self._fold, self._kept = None, 0
                raise

    def _load(self, snapshot: bool = True) -> Fold:
        """A new fold, as far as the last snapshot goes."""
        first = self.storage.first(self.number)
        assert isinstance(first.body, Created)
        fold = Fold(first.body)
        fold.at = first.at
        kept = self.snapshot() if snapshot else None
        self._kept = kept.position if kept is not None and unpack(kept, fold) else 0
        return fold


def _follow(fold: Fold, events: Iterator[Event]) -> bool:
    """Take in what is new, from events that begin with the last known one; False if it is another one."""
    last = next(events, None)
    if last is None or (last.seq, last.at) != (fold.position - 1, fold.at):
        return False
    fold.apply_all(events)
    return True

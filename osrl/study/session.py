"""A session: one process at work on one study, with a fold that follows the log.

Every call takes a *turn*: hold the log, take in what others have written, decide, append, let go. The fold
is kept between turns, so that what a turn costs does not grow with the log.

A session remembers the last event that it has seen. A log that does not contain it is another one: a backup
that was put in its place, a copy that lags behind, another study. It is refused, by readers as well, until
a person has confirmed it (`osrl study recover`, which is an event of the log).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import NamedTuple

from osrl.errors import OsrlError, StorageDamaged
from osrl.study.events import Body, Created, Event, Kept, Resumed, Row, next_event
from osrl.study.fold import Fold, begin
from osrl.study.snapshot import EVERY, pack, unpack
from osrl.study.storage import Log, Snapshot, Storage
from osrl.study.trial import short_id
from osrl.study.versions import versions

Read = Callable[[int], Iterator[Event]]  # the events from some number on

_rehearsed: set[tuple[str, str, str]] = set()


class Turn(NamedTuple):
    """What one call does to the study, while it holds the log."""

    fold: Fold
    log: Log
    events: list[Event]

    def do(self, body: Body) -> Event:
        """Let something happen: the fold takes it in."""
        event = self._next(body)
        self.fold.apply(event)
        self.events.append(event)
        return event

    def note(self, body: Body) -> Event:
        """Note what has happened: the fold has taken it in."""
        event = self._next(body)
        self.fold.advance(event)
        self.events.append(event)
        return event

    def _next(self, body: Body) -> Event:
        """The next event; before it goes, where needed, that a program of other versions takes part."""
        if versions() not in self.fold.writers:
            resumed = next_event(self.fold.last, Resumed(versions()))
            self.fold.apply(resumed)
            self.events.append(resumed)
        return next_event(self.fold.last, body)


class Known(NamedTuple):
    """What a session has seen of its log: the study, its last event, and every confirmation by a person."""

    study: str
    last: Event
    recovered: frozenset[str]


class Session:
    """Study number ``number`` of a storage, and its fold as far as it is known here."""

    def __init__(self, storage: Storage, number: int) -> None:
        self.storage = storage
        self.number = number
        self._fold: Fold | None = None
        self._known: Known | None = None
        self._rehearsed: set[str] = set()
        self._lock = RLock()  # of the fold
        self._writing = RLock()  # of the one thread that writes

    def events(self) -> Iterator[Event]:
        """Every event so far."""
        return self.storage.read(self.number)

    def rows(self) -> Iterator[list[Row]]:
        """Every event so far as it is stored, in parts."""
        return self.storage.rows(self.number)

    def snapshot(self) -> Snapshot | None:
        """The snapshot that was kept last."""
        return self.storage.snapshot(self.number)

    @contextmanager
    def reading(self) -> Iterator[Fold]:
        """The fold of everything that is in the log now; other threads wait until it has been read."""
        with self.storage.gate, self._lock:
            yield self._current()

    def _current(self) -> Fold:
        """The fold, up to date; loaded anew where it is not known, or the log is another one."""
        fold, self._fold = self._fold, None
        if fold is None or not _follow(fold, self._read):
            fold = self._load()
            if not _follow(fold, self._read):
                raise StorageDamaged(
                    f"{self.storage.place}: the log was changed while it was read; call again"
                )
            self._recognise(fold)
        self._keep(fold)
        return fold

    def _keep(self, fold: Fold) -> None:
        self._fold = fold
        self._known = Known(short_id(fold.created), fold.last, frozenset(fold.recovered))

    def _read(self, position: int) -> Iterator[Event]:
        return self.storage.read(self.number, position)

    def _recognise(self, fold: Fold) -> None:
        """Refuse a log that does not contain what was seen before, unless a person has confirmed it."""
        known, place = self._known, self.storage.place
        if known is None:
            return
        if short_id(fold.created) != known.study:
            raise StorageDamaged(
                f"{place} holds another study ({short_id(fold.created)}) in place of {known.study}; "
                "put the right one back, or open the other one anew"
            )
        there = next(self._read(known.last.seq), None)
        if (there is None or there.hash != known.last.hash) and known.recovered.issuperset(fold.recovered):
            seen = known.last.seq
            what = f"has {fold.position} events" if there is None else f"has another event {seen}"
            raise StorageDamaged(
                f"{place} is not the log that was read before: it {what}, and {seen + 1} were read; put the "
                "right one back, or confirm with `osrl study recover` that the study goes on from here"
            )

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Hold the log with the fold up to date, and store what is noted; after an error all is as before.

        While this thread waits for other writers, the others may read.
        """
        with self.storage.gate, self._writing:
            if self._fold is None:
                with self._lock:
                    self._current()  # a long log is read before it is held: others need not wait for it
            known, replaced = -1, False
            with self._locked_late() as locked:
                try:
                    with self.storage.hold(self.number) as log:
                        locked()
                        fold = self._fold
                        replaced = fold is None or not _follow(fold, log.read)
                        if fold is not None and not replaced:
                            known = fold.position
                            turn = Turn(fold, log, [])
                            yield turn
                            if turn.events and fold.position - fold.kept >= EVERY:
                                log.keep(_take_snapshot(turn))
                            log.append(turn.events)
                    if fold is not None and not replaced:
                        self._keep(fold)
                except BaseException as error:
                    # A refusal comes before any change. After anything else the fold may be ahead of the log.
                    if self._fold is None or self._fold.position != known or not isinstance(error, OsrlError):
                        self._fold = None
                    raise
            if replaced:
                with self._lock:
                    self._current()  # refuses what no person has confirmed
                with self.turn() as again:
                    yield again

    @contextmanager
    def _locked_late(self) -> Iterator[Callable[[], object]]:
        """A lock on the fold that is taken inside the block when it is called for, and kept to its end."""
        held = False

        def take() -> None:
            nonlocal held
            held = self._lock.acquire()

        try:
            yield take
        finally:
            if held:
                self._lock.release()

    def rehearse(self, what: str, act: Callable[[Fold], object]) -> None:
        """Do something to a copy of the fold, once in a process: what it compiles need not be waited for.

        Whatever goes wrong will go wrong again, and is said then.
        """
        if what in self._rehearsed:
            return
        self._rehearsed.add(what)
        with self.reading() as fold:
            key = what, fold.policy.name, fold.family.name
            if key in _rehearsed:
                return
            twin = copy.deepcopy(fold)
        _rehearsed.add(key)
        with suppress(Exception):
            act(twin)

    def _load(self) -> Fold:
        """A new fold, as far as the last snapshot goes."""
        first = self.storage.first(self.number)
        if not isinstance(first.body, Created):
            raise StorageDamaged(
                f"{self.storage.place}: the log does not begin with a study; restore a backup"
            )
        kept = self.snapshot()
        if kept is not None and _vouched(kept, next(self._read(kept.position), None)):
            fold = unpack(kept, first.body)
            if fold is not None:
                return fold
        return begin(first)


def _take_snapshot(turn: Turn) -> Snapshot:
    """The fold as it is now, with an event that vouches for it."""
    snapshot = pack(turn.fold)
    turn.note(Kept(hashlib.sha256(snapshot.content).hexdigest()))
    return snapshot


def _vouched(snapshot: Snapshot, event: Event | None) -> bool:
    """Whether the log says that this snapshot was kept: it can set a verdict, so it must be in the chain."""
    body = None if event is None else event.body
    return isinstance(body, Kept) and body.digest == hashlib.sha256(snapshot.content).hexdigest()


def _follow(fold: Fold, read: Read) -> bool:
    """Take in what is new, from the last known event on; False if that is another one."""
    events = read(fold.position - 1)
    last = next(events, None)
    if last is None or (last.seq, last.hash) != (fold.last.seq, fold.last.hash):
        return False
    try:
        fold.apply_all(events)
    except OsrlError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise StorageDamaged(
            f"event {fold.position} does not fit those before it ({error!r:.100}); restore a backup"
        ) from None
    return True

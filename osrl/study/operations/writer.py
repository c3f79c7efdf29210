"""A session: one process at work on one study, with a progress that follows the log.

Every call takes a *turn*: hold the log, take in what others wrote, decide, append, let go. The progress
is kept between turns, so that what a turn costs does not grow with the log. While the log is held, only a
few events are taken in: where there are more, it is let go for that.

A session remembers the last event that it has seen. A log that does not contain it is another one: a backup
that was put in its place, a copy that lags behind, another study. It is refused, by readers as well, until
a person has confirmed it (`osrl study recover`, which is an event of the log).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import RLock, local
from typing import NamedTuple

from osrl.errors import OsrlError, StorageBusy, StorageDamaged
from osrl.study.log.chain import Row, Stored, next_stored
from osrl.study.log.corrections import mark_superseded
from osrl.study.log.events import Body, Corrected, Created, Event, SnapshotTaken, VersionsChanged
from osrl.study.log.versions import versions
from osrl.study.state.snapshot import EVERY, pack, unpack, vouched
from osrl.study.state.state import CorrectedPastError, StudyState, begin
from osrl.study.state.trial import short_id
from osrl.study.storage.base import Log, Snapshot, Storage

Read = Callable[[int], Iterator[Event]]  # the events from some number on

FEW = 100  # events of others that are taken in while they wait
ATTEMPTS = 3  # to read a log that is replaced meanwhile
ROUNDS = 50  # times that the log is let go to catch up, before somebody is told
LONG = 100  # events to replay, after which a snapshot spares the next process
_here = local()  # the databases that this thread writes to


class WriteTransaction(NamedTuple):
    """What one call does to the study, while it holds the log."""

    progress: StudyState
    log: Log
    events: list[Event]
    rows: list[Row]  # as they will be stored
    by_trial: dict[int | None, list[Event]]  # the events, by trial

    def do(self, body: Body) -> Event:
        """Let something happen: the progress takes it in."""
        event = self._next(body)
        self.progress.apply(event)
        return event

    def note(self, body: Body) -> Event:
        """Note what has happened: the progress has taken it in."""
        event = self._next(body)
        self.progress.advance(event)
        return event

    def _next(self, body: Body) -> Event:
        """The next event; before it goes, where needed, that a program of other versions takes part."""
        if versions() not in self.progress.writers:
            self.progress.apply(self._add(VersionsChanged(versions())))
        return self._add(body)

    def _add(self, body: Body) -> Event:
        event, row = next_stored(self.progress.last, body)
        self.events.append(event)
        self.rows.append(row)
        self.by_trial.setdefault(event.trial, []).append(event)
        return event


class LastSeen(NamedTuple):
    """What a session has seen of its log: the study, its last event, and every confirmation by a person."""

    study: str
    last: Event
    recovered: frozenset[str]


class Session:
    """Study number ``number`` of a storage, and its progress as far as it is known here."""

    def __init__(self, storage: Storage, number: int) -> None:
        self.storage = storage
        self.number = number
        self._fold: StudyState | None = None
        self._known: LastSeen | None = None
        self._alone = False  # nobody else had written before our last turn
        self._replayed = 0  # events after the snapshot, when it was loaded
        self._anew = False  # the snapshot could not be used: the next one shares nothing with it
        self._lock = RLock()  # of the progress
        self._writing = RLock()  # of the one thread that writes
        self._changing = False  # the progress, under its lock

    def events(self, position: int = 0) -> Iterator[Event]:
        """Every event so far, from number ``position`` on."""
        return self.storage.read(self.number, position)

    def rows(self) -> Iterator[list[Stored]]:
        """Every event so far as it is stored, in parts."""
        return self.storage.rows(self.number)

    def snapshot(self) -> Snapshot | None:
        """The snapshot that was kept last."""
        return self.storage.snapshot(self.number)

    @contextmanager
    def reading(self) -> Iterator[StudyState]:
        """The progress of everything that is in the log now; other threads wait until it has been read."""
        with self.storage.fork_lock, self._lock:
            if self._changing:  # this thread was interrupted, or it would have waited
                raise _interrupted(self.storage.place)
            yield self._current()

    def _current(self, most: int | None = None) -> StudyState:
        """The progress, up to date; loaded anew where it is not known, or the log is another one.

        ``most``: how many events are taken in at once.
        """
        progress, self._fold = self._fold, None
        try:
            known = progress is not None and _follow(progress, self._read, most)
        except CorrectedPastError:
            known = False
        if progress is None or not known:
            progress = self._load()
            before = progress.position
            if not _follow(progress, self._read):
                raise StorageDamaged(f"{self.storage.place}: the log was changed while it was read; call again")
            self._replayed = progress.position - before
            self._recognise(progress)
        self._keep(progress)
        return progress

    def _keep(self, progress: StudyState) -> None:
        self._fold = progress
        self._known = LastSeen(short_id(progress.created), progress.last, frozenset(progress.recovered))

    def presolve(self, look: Callable[[StudyState], object]) -> None:
        """Look at the progress as it is known here, without reading the log, unless others write as well."""
        with self.storage.fork_lock, self._lock:
            if self._alone and self._fold is not None:
                look(self._fold)

    def _read(self, position: int) -> Iterator[Event]:
        return self.storage.read(self.number, position)

    def _recognise(self, progress: StudyState) -> None:
        """Refuse a log that does not contain what was seen before, unless a person has confirmed it."""
        known, place = self._known, self.storage.place
        if known is None:
            return
        if short_id(progress.created) != known.study:
            raise StorageDamaged(
                f"{place} holds another study ({short_id(progress.created)}) in place of {known.study}; "
                "put the right one back, or open the other one anew"
            )
        there = next(self._read(known.last.seq), None)
        if (there is None or there.hash != known.last.hash) and known.recovered.issuperset(progress.recovered):
            seen = known.last.seq
            what = f"has {progress.position} events" if there is None else f"has another event {seen}"
            raise StorageDamaged(
                f"{place} is not the log that was read before: it {what}, and {seen + 1} were read; put the "
                "right one back, or confirm with `osrl study recover` that the study goes on from here"
            )

    @contextmanager
    def transaction(self, other: StudyState | None = None) -> Iterator[WriteTransaction]:
        """Hold the log with the progress up to date, and store what is noted; an error leaves all as before.

        ``other`` is a progress that takes the place of the one that was known, with all who read the log.

        While this thread waits for other writers, the others may read. Where much is to be taken in, the log is
        let go for that.
        """
        with _alone(self.storage.place), self.storage.fork_lock, self._writing:
            if self._fold is None:
                self._catch_up()  # a long log is read before it is held
            replaced = 0
            for _ in range(ROUNDS):
                known, ready, locked = -1, False, False
                try:
                    with self.storage.lock_log(self.number, self._keep_up) as log:
                        locked = self._changing = self._lock.acquire()
                        progress = other or self._fold
                        news = None if progress is None else log.events_after(progress.last)
                        if progress is not None and news is not None:
                            few = list(islice(news, FEW + 1))
                            ready = _is_quick(few)
                        if progress is not None and ready:
                            self._alone = not few
                            if few:
                                _take_in(progress, few)
                            known = progress.position
                            transaction = WriteTransaction(progress, log, [], [], {})
                            yield transaction
                            if transaction.events and (other or self._is_time_to_keep(progress)):
                                log.keep(_take_snapshot(transaction, None if self._anew else log.snapshot()))
                                self._anew = False
                            log.append(transaction.rows)
                    if progress is not None and ready:
                        self._keep(progress)
                        return
                except BaseException as error:
                    # A refusal comes before any change. Otherwise the progress may be ahead of the log.
                    changed = self._fold is None or self._fold.position != known
                    if changed or not isinstance(error, OsrlError):
                        self._fold = None
                    raise
                finally:
                    if locked:
                        self._changing = False
                        self._lock.release()
                replaced += news is None
                if replaced == ATTEMPTS:
                    break
                self._catch_up()  # refuses what no person has confirmed
                if other is not None:
                    _follow(other, self._read)
            if replaced < ATTEMPTS:
                raise StorageBusy(f"{self.storage.place}: others write faster than this process can read; call again")
            raise StorageDamaged(f"{self.storage.place}: the log was replaced while it was used; call again")

    def _is_time_to_keep(self, progress: StudyState) -> bool:
        """Whether somebody who loads this progress would have much to replay, as this session had."""
        if self._replayed < LONG and progress.position - progress.kept < EVERY:
            return False
        self._replayed = 0
        return True

    def without(self, trial: int) -> StudyState:
        """The progress as it would be if a trial that was told had not reported.

        What follows the last snapshot is replayed; all, if that has the reward in it.
        """
        progress = self._load()
        if trial <= progress.asked and trial not in progress.pending:
            progress = begin(self.storage.first(self.number))
        progress.apply_all(mark_superseded(_news(progress, self._read) or (), trial))
        return progress

    def _catch_up(self) -> None:
        """Take in what others have written, while nobody waits for this."""
        with self._lock:
            self._current()

    def _keep_up(self) -> None:
        """Take in a little of what others have written, while they write."""
        with self._lock:
            if self._fold is not None:
                self._current(FEW)

    def _load(self) -> StudyState:
        """A new progress, as far as the last snapshot goes."""
        first = self.storage.first(self.number)
        if not isinstance(first.body, Created):
            raise StorageDamaged(f"{self.storage.place}: the log does not begin with a study; restore a backup")
        kept = self.snapshot()
        if kept is not None and vouched(kept, next(self._read(kept.position), None)):
            progress = unpack(kept, first.body)
            if progress is not None:
                return progress
            self._anew = True
        return begin(first)


def _is_quick(news: Sequence[Event]) -> bool:
    """Tell whether events of others can be taken in while the log is held: few, and no correction."""
    return len(news) <= FEW and not any(isinstance(event.body, Corrected) for event in news)


@contextmanager
def _alone(place: str) -> Iterator[None]:
    """Refuse a call from within another one of the same thread, by a signal handler: it would wait for it."""
    places: set[str] = _here.__dict__.setdefault("places", set())
    if place in places:
        raise _interrupted(place)
    places.add(place)
    try:
        yield
    finally:
        places.discard(place)


def _interrupted(place: str) -> OsrlError:
    return OsrlError(
        f"{place}: this call has interrupted another one in its thread, and cannot wait for it; let a signal "
        "handler note what is to be done, and do it afterwards"
    )


def _take_snapshot(transaction: WriteTransaction, before: Snapshot | None) -> Snapshot:
    """The progress as it is now, with an event that vouches for it."""
    snapshot = pack(transaction.progress, before)
    transaction.note(SnapshotTaken(hashlib.sha256(snapshot.content).hexdigest()))
    return snapshot


def _news(progress: StudyState, read: Read) -> Iterator[Event] | None:
    """What was written after the last known event; None if that is another one."""
    events = read(progress.position - 1)
    last = next(events, None)
    if last is None or (last.seq, last.hash) != (progress.last.seq, progress.last.hash):
        return None
    return events


def _follow(progress: StudyState, read: Read, most: int | None = None) -> bool:
    """Take in what is new, or the first of it; False if the last known event is another one."""
    news = _news(progress, read)
    if news is not None:
        _take_in(progress, islice(news, most))
    return news is not None


def _take_in(progress: StudyState, events: Iterable[Event]) -> None:
    """Take in the next events of the log."""
    try:
        progress.apply_all(events)
    except OsrlError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise StorageDamaged(
            f"event {progress.position} does not fit those before it ({error!r:.100}); restore a backup"
        ) from None

"""A session: one process at work on one study, with a state that follows the log.

Every write is *refresh, lock, commit*: bring the state up to date, lock the log, take in the last few events
of others, act, append what was recorded, commit. The state is kept between writes, so their cost does not grow
with the log. While the log is locked only a few events of others are taken in: where there are more, it is
unlocked for that.

A session remembers the last event that it has seen. A log without that event is another one: a backup that was
put in its place, a copy that lags behind, another study. It is refused, by readers as well, until a person has
confirmed it (`osrl study recover`, which is an event of the log).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import RLock, local
from typing import NamedTuple, TypeVar

from osrl.errors import OsrlError, StorageBusy, StorageDamaged
from osrl.study.log.chain import Row, Stored, next_stored
from osrl.study.log.corrections import mark_superseded
from osrl.study.log.events import Asked, Body, Corrected, Created, Event, SnapshotTaken, VersionsChanged
from osrl.study.log.versions import versions
from osrl.study.state.bulk_replay import apply_all
from osrl.study.state.snapshot import SNAPSHOT_INTERVAL, pack, unpack, vouched
from osrl.study.state.state import Choice, CorrectedPastError, StudyState, initial_state
from osrl.study.state.trial import short_id
from osrl.study.storage.base import Log, Snapshot, Storage

T = TypeVar("T")

MAX_NEWS = 100  # events of others that are taken in while the log is locked
MAX_REPLACED = 3  # times that the log may be found replaced in one write
MAX_REFRESHES = 50  # of one write, while others write faster than this process reads
LONG_REPLAY = 100  # events, after which a snapshot spares the next process the same
_written_by_thread = local()  # the databases that this thread is writing to


class WriteTransaction:
    """The changes of one or several calls to a study whose log is locked."""

    __slots__ = ("_by_trial", "log", "rows", "state")

    def __init__(self, state: StudyState, log: Log) -> None:
        self.state, self.log = state, log
        self.rows: list[Row] = []  # the events so far, as they will be stored
        self._by_trial: dict[int | None, list[Event]] = {}

    def apply(self, body: Body) -> Event:
        """Record an event, and apply it to the state."""
        event = self._next(body)
        self.state.apply(event)
        return event

    def issue(self, choice: Choice) -> Event:
        """Record the ask of a chosen trial, and issue it."""
        event = self._next(choice.asked)
        assert isinstance(event.body, Asked)
        self.state.issue(event, event.body, choice.x, choice.a)
        self.state.advance(event)
        return event

    def record(self, body: Body) -> Event:
        """Record an event whose effect is in the state already."""
        event = self._next(body)
        self.state.advance(event)
        return event

    def events_of_trial(self, trial: int) -> list[Event]:
        """Return the events about a trial: those of the log, then those of this transaction."""
        return [*self.log.events_of_trial(trial), *self._by_trial.get(trial, ())]

    def _next(self, body: Body) -> Event:
        """Make the next event; before the first one of a program of other versions, one that says so."""
        if versions() not in self.state.writers:
            self.state.apply(self._add(VersionsChanged(versions())))
        return self._add(body)

    def _add(self, body: Body) -> Event:
        event, row = next_stored(self.state.last, body)
        self.rows.append(row)
        self._by_trial.setdefault(event.trial, []).append(event)
        return event


class LastSeen(NamedTuple):
    """What a session has seen of its log: the study, its last event, and every confirmation by a person."""

    study: str
    last: Event
    recovered: frozenset[str]


class _StaleStateError(OsrlError):
    """The state has to be refreshed before the log is locked; ``replaced``: the log is another one."""

    def __init__(self, replaced: bool) -> None:
        super().__init__("the state is stale")
        self.replaced = replaced


class Session:
    """Study number ``number`` of a storage, and its state as far as this process has read the log."""

    def __init__(self, storage: Storage, number: int) -> None:
        self.storage = storage
        self.number = number
        self._state: StudyState | None = None
        self._last_seen: LastSeen | None = None
        self._sole_writer = False  # nobody else had written before our last transaction
        self._replayed = 0  # events after the snapshot, when it was loaded
        self._snapshot_is_bad = False  # the next one shares nothing with it
        self._state_lock = RLock()
        self._write_lock = RLock()  # one thread writes at a time
        self._is_changing = False  # the state, under its lock

    # Read

    def events(self, position: int = 0) -> Iterator[Event]:
        """Return every event so far, from number ``position`` on."""
        return self.storage.read(self.number, position)

    def rows(self) -> Iterator[list[Stored]]:
        """Return every event so far as it is stored, in parts."""
        return self.storage.rows(self.number)

    def snapshot(self) -> Snapshot | None:
        """Return the snapshot that was kept last."""
        return self.storage.snapshot(self.number)

    @contextmanager
    def reading(self) -> Iterator[StudyState]:
        """Lend the state of everything in the log now; other threads wait until the block ends."""
        with self.storage.fork_lock, self._state_lock:
            if self._is_changing:  # this thread was interrupted, or it would have waited
                raise _interrupted(self.storage.place)
            yield self.refresh()

    def refresh(self, most: int | None = None) -> StudyState:
        """Return the state after taking in the log's new events, at most ``most`` of them.

        It is loaded anew where it is not known, or the log is another one. The caller has the lock of the state.
        """
        state, self._state = self._state, None
        try:
            followed = state is not None and _follow(state, self.events, most)
        except CorrectedPastError:
            followed = False
        if state is None or not followed:
            state = self._load()
            before = state.position
            if not _follow(state, self.events):
                raise StorageDamaged(f"{self.storage.place}: the log was changed while it was read; call again")
            self._replayed = state.position - before
            self._check_same_log(state)
        self._keep(state)
        return state

    def state_without(self, trial: int) -> StudyState:
        """Return the state as it would be if a trial that was told had not reported.

        What follows the last snapshot is replayed; the whole log, if the snapshot has the reward in it.
        """
        state = self._load()
        if trial <= state.asked and trial not in state.pending:
            state = initial_state(self.storage.first(self.number))
        apply_all(state, mark_superseded(_new_events(state, self.events) or (), trial))
        return state

    def peek(self, look: Callable[[StudyState], object]) -> None:
        """Call ``look`` with the state as it is known here, without reading the log; not if others write as well."""
        with self.storage.fork_lock, self._state_lock:
            if self._sole_writer and self._state is not None:
                look(self._state)

    def _keep(self, state: StudyState) -> None:
        self._state = state
        self._last_seen = LastSeen(short_id(state.created), state.last, frozenset(state.recovered))

    def _load(self) -> StudyState:
        """Return a new state: that of the last snapshot, or of the first event."""
        first = self.storage.first(self.number)
        if not isinstance(first.body, Created):
            raise StorageDamaged(f"{self.storage.place}: the log does not begin with a study; restore a backup")
        snapshot = self.snapshot()
        if snapshot is not None and vouched(snapshot, next(self.events(snapshot.position), None)):
            state = unpack(snapshot, first.body)
            if state is not None:
                return state
            self._snapshot_is_bad = True
        return initial_state(first)

    def _check_same_log(self, state: StudyState) -> None:
        """Refuse a log that does not contain what was seen before, unless a person has confirmed it."""
        seen, place = self._last_seen, self.storage.place
        if seen is None:
            return
        if short_id(state.created) != seen.study:
            raise StorageDamaged(
                f"{place} holds another study ({short_id(state.created)}) in place of {seen.study}; "
                "put the right one back, or open the other one anew"
            )
        there = next(self.events(seen.last.seq), None)
        if (there is None or there.hash != seen.last.hash) and seen.recovered.issuperset(state.recovered):
            number = seen.last.seq
            what = f"has {state.position} events" if there is None else f"has another event {number}"
            raise StorageDamaged(
                f"{place} is not the log that was read before: it {what}, and {number + 1} were read; put the "
                "right one back, or confirm with `osrl study recover` that the study goes on from here"
            )

    # Write

    def write(self, act: Callable[[WriteTransaction], T], base: StudyState | None = None) -> T:
        """Call ``act`` with the log locked and the state up to date, and commit; an error leaves all as before.

        ``base`` is a state that replaces the one of this session, and of everyone who reads the log.
        """
        place, replaced = self.storage.place, 0
        with _refuse_reentry(place), self.storage.fork_lock, self._write_lock:
            for attempt in range(MAX_REFRESHES):
                if attempt or self._state is None:
                    self._refresh_unlocked(base)
                try:
                    return self._write_locked(act, base)
                except _StaleStateError as stale:
                    replaced += stale.replaced
                if replaced == MAX_REPLACED:
                    raise StorageDamaged(f"{place}: the log was replaced while it was used; call again")
            raise StorageBusy(f"{place}: others write faster than this process can read; call again")

    def _refresh_unlocked(self, base: StudyState | None) -> None:
        """Refresh the state before the log is locked: this may take long, and refuses a log of others."""
        with self._state_lock:
            self.refresh()
        if base is not None:
            _follow(base, self.events)

    def _write_locked(self, act: Callable[[WriteTransaction], T], base: StudyState | None) -> T:
        """Lock the log, take in what is new, act, and commit."""
        has_lock, position = False, -1
        try:
            with self.storage.lock_log(self.number, self._refresh_a_little) as log:
                # Only now: while this thread waits for the log, others may read the state.
                has_lock = self._is_changing = self._state_lock.acquire()
                state = self._take_in_news(base or self._state, log)
                position = state.position
                transaction = WriteTransaction(state, log)
                result = act(transaction)
                if transaction.rows and (base is not None or self._snapshot_is_due(state)):
                    self._take_snapshot(transaction)
                log.append(transaction.rows)
            self._keep(state)
            return result
        except _StaleStateError:
            raise
        except BaseException as error:
            # A refusal comes before any change. After another error the state may be ahead of the log.
            if self._state is None or self._state.position != position or not isinstance(error, OsrlError):
                self._state = None
            raise
        finally:
            if has_lock:
                self._is_changing = False
                self._state_lock.release()

    def _refresh_a_little(self) -> None:
        """Take in a few events of others, while they have the log locked."""
        with self._state_lock:
            if self._state is not None:
                self.refresh(MAX_NEWS)

    def _take_in_news(self, state: StudyState | None, log: Log) -> StudyState:
        """Bring the state up to date with a locked log, where that is quick."""
        news = None if state is None else log.events_after(state.last)
        if state is None or news is None:
            raise _StaleStateError(replaced=True)
        few = list(islice(news, MAX_NEWS + 1))
        if len(few) > MAX_NEWS or any(isinstance(event.body, Corrected) for event in few):
            raise _StaleStateError(replaced=False)
        self._sole_writer = not few
        if few:
            _take_in(state, few)
        return state

    def _snapshot_is_due(self, state: StudyState) -> bool:
        """Tell whether a process that loads the study would have much to replay, as this one had."""
        if self._replayed < LONG_REPLAY and state.position - state.snapshot_at < SNAPSHOT_INTERVAL:
            return False
        self._replayed = 0
        return True

    def _take_snapshot(self, transaction: WriteTransaction) -> None:
        """Store the state as it is now, with an event that vouches for it."""
        before = None if self._snapshot_is_bad else transaction.log.snapshot()
        snapshot = pack(transaction.state, before)
        transaction.record(SnapshotTaken(hashlib.sha256(snapshot.content).hexdigest()))
        transaction.log.keep(snapshot)
        self._snapshot_is_bad = False


@contextmanager
def _refuse_reentry(place: str) -> Iterator[None]:
    """Refuse a call from within another one of the same thread, by a signal handler: it would wait for itself."""
    places: set[str] = _written_by_thread.__dict__.setdefault("places", set())
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


EventsFrom = Callable[[int], Iterator[Event]]


def _new_events(state: StudyState, events_from: EventsFrom) -> Iterator[Event] | None:
    """Return the events after the last one of the state; None if the log has another in its place."""
    events = events_from(state.position - 1)
    last = next(events, None)
    if last is None or (last.seq, last.hash) != (state.last.seq, state.last.hash):
        return None
    return events


def _follow(state: StudyState, events_from: EventsFrom, most: int | None = None) -> bool:
    """Take in what is new, at most ``most`` events; return False if the log has another last event."""
    news = _new_events(state, events_from)
    if news is not None:
        _take_in(state, islice(news, most))
    return news is not None


def _take_in(state: StudyState, events: Iterable[Event]) -> None:
    """Apply the next events of the log."""
    try:
        apply_all(state, events)
    except OsrlError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise StorageDamaged(
            f"event {state.position} does not fit those before it ({error!r:.100}); restore a backup"
        ) from None

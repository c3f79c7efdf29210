"""Server-sent events: the log of a study, from any point on, without gaps.

One feed for each study follows its log, however many streams are open: it is woken when this server has
written, and polls for what others have written. The latest events are kept as they are sent. A stream that
begins further back, or cannot keep up, reads the database until it has caught up.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from sqlalchemy import func, select

from osrl.errors import OsrlError, StorageBusy, StorageError, UnknownStudy
from osrl.service.blocking import in_thread
from osrl.service.problems import Refusal
from osrl.study.log.chain import Row
from osrl.study.storage.schema import events, studies
from osrl.study.storage.sql import SqlStorage

KEPT_EVENTS = 2_000  # in the form in which they are sent
PAGE_EVENTS = 500  # that are read, and sent, at once
MAX_PAGE_BYTES = 2**16  # that a stream is given at once, unless a single event has more
POLL_SECONDS = 0.5  # between two looks for what others have written
GATHER_SECONDS = 0.02  # in which events are gathered, at least,
GATHER_SECONDS_PER_STREAM = 0.0005  # so that many streams leave room for the calls that they follow
KEEPALIVE_SECONDS = 15.0  # after which a silent stream says that it is there
MAX_STREAMS = 2_000
MAX_READERS = 4  # of earlier events at the same time, which leave room for others

_RETRY = b"retry: 1000\n\n"
_KEEPALIVE = b": alive\n\n"
_COLUMNS = tuple(events.c[name] for name in Row._fields)


class EncodedEvent(NamedTuple):
    """An event in the form in which it is sent."""

    seq: int
    content: bytes


def encode(row: Row) -> EncodedEvent:
    """Return an event as a stream sends it: its number, its kind, and all its fields as one line of JSON."""
    head = json.dumps({"seq": row.seq, "at": row.at, "kind": row.kind, "trial": row.trial, "hash": row.hash})
    payload = row.payload.replace("\n", " ").replace("\r", " ")
    data = f'{head[:-1]}, "payload": {payload}}}'
    return EncodedEvent(row.seq, f"id: {row.seq}\nevent: {row.kind}\ndata: {data}\n\n".encode())


def _first_page(events: list[EncodedEvent]) -> list[EncodedEvent]:
    """Return the first events, few enough to be held in memory for a client that does not read."""
    total = 0
    for i, event in enumerate(events):
        total += len(event.content)
        if total > MAX_PAGE_BYTES and i:
            return events[:i]
    return events


class Feed:
    """The end of the log of one study, for all its streams."""

    def __init__(self, storage: SqlStorage, study: int, position: int) -> None:
        self.study = study
        self.streams = 0
        self.ended = False
        self._storage = storage
        self._kept: deque[EncodedEvent] = deque(maxlen=KEPT_EVENTS)
        self._position = position  # of the next event
        self._written = asyncio.Event()
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Look for new events now: something was written."""
        self._written.set()

    def publish(self) -> None:
        """Wake every stream."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self) -> bool:
        """Wait for something new; return False where nothing has come for a while."""
        try:
            await asyncio.wait_for(self._changed.wait(), KEEPALIVE_SECONDS)
        except TimeoutError:
            return False
        return True

    def since(self, position: int) -> list[EncodedEvent] | None:
        """Return the kept events from a position on, one page at most; None if they are not all kept."""
        if position >= self._position:
            return []
        if not self._kept or position < self._kept[0].seq:
            return None
        first = position - self._kept[0].seq
        return list(islice(self._kept, first, first + PAGE_EVENTS))

    async def follow(self) -> None:
        """Follow the log as long as there are streams."""
        while self.streams:
            self._written.clear()
            try:
                rows = await in_thread(lambda: self.read(self._position))
            except UnknownStudy:
                self.ended = True
                self.publish()
                return
            except OsrlError:  # the database is away: it will come back
                rows = []
            if rows:
                self._kept.extend(rows)
                self._position = rows[-1].seq + 1
                self.publish()
            if len(rows) < PAGE_EVENTS:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._written.wait(), POLL_SECONDS)
                await asyncio.sleep(max(GATHER_SECONDS, self.streams * GATHER_SECONDS_PER_STREAM))

    def read(self, position: int) -> list[EncodedEvent]:
        """Return a page of events from a position on."""
        wanted = select(*_COLUMNS).where(events.c.study == self.study, events.c.seq >= position)
        with self._storage.transaction() as connection:
            rows = [encode(Row(*row)) for row in connection.execute(wanted.order_by(events.c.seq).limit(PAGE_EVENTS))]
            there = select(studies.c.id).where(studies.c.id == self.study)
            if not rows and connection.execute(there).scalar() is None:
                raise UnknownStudy("the study was deleted")
        return rows


class Feeds:
    """The feeds of all studies with open streams."""

    def __init__(self, storage: SqlStorage) -> None:
        self._storage = storage
        self._feeds: dict[int, Feed] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading = asyncio.Semaphore(MAX_READERS)
        self.closing = False

    @property
    def streams(self) -> int:
        """Return how many streams are open."""
        return sum(feed.streams for feed in self._feeds.values())

    def wake(self, study: int) -> None:
        """Look for new events of a study now."""
        feed = self._feeds.get(study)
        if feed is not None:
            feed.wake()

    def publish(self) -> None:
        """Wake every stream: a token was revoked, or the server ends."""
        for feed in self._feeds.values():
            feed.publish()

    def check_room(self) -> None:
        """Refuse a stream where there are too many."""
        if self.streams >= MAX_STREAMS:
            error = StorageBusy(f"{MAX_STREAMS:,} streams are open; close one, or come back later")
            raise Refusal(429, error, {"Retry-After": "10"})

    async def stream(self, study: int, after: int, allowed: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Yield the events after number ``after``, as long as the stream is ``allowed``."""
        feed = await self._feed(study)
        feed.streams += 1
        if feed.streams == 1:
            task = asyncio.create_task(feed.follow())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            yield _RETRY
            position = after + 1
            while True:
                if not allowed():
                    yield b'event: end\ndata: {"reason": "access ended"}\n\n'
                    return
                if feed.ended:
                    yield b'event: end\ndata: {"reason": "the study was deleted"}\n\n'
                    return
                if self.closing:
                    return
                new = feed.since(position)
                if new is None:
                    new = await self._earlier(feed, position)
                if new := _first_page(new):
                    position = new[-1].seq + 1
                    yield b"".join(each.content for each in new)
                elif not await feed.wait():
                    yield _KEEPALIVE
        finally:
            feed.streams -= 1
            if not feed.streams and self._feeds.get(study) is feed:
                del self._feeds[study]

    async def _earlier(self, feed: Feed, position: int) -> list[EncodedEvent]:
        """Return events that are no longer kept; none while the database is away."""
        try:
            async with self._reading:
                return [] if self.closing else await in_thread(lambda: feed.read(position))
        except StorageError:
            return []

    async def _feed(self, study: int) -> Feed:
        if study not in self._feeds:
            last = select(func.max(events.c.seq)).where(events.c.study == study)

            def position() -> int:
                with self._storage.transaction() as connection:
                    return int(connection.execute(last).scalar() or 0) + 1

            found = await in_thread(position)
            self._feeds.setdefault(study, Feed(self._storage, study, found))
        return self._feeds[study]

    async def close(self) -> None:
        """End every stream."""
        self.closing = True
        self.publish()
        for task in list(self._tasks):
            task.cancel()

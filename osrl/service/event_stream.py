"""Server-sent events: the log of a study, from any point on, without gaps.

One feed for each study follows its log, however many streams are open: it is woken when this server has
written, and looks by itself for what others have written. The latest events are kept as they are sent. A
stream that begins further back, or cannot keep up, reads the database, until it has caught up.
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
from osrl.service.problems import Problem
from osrl.study.log.chain import Row
from osrl.study.storage.schema import events, studies
from osrl.study.storage.sql import SqlStorage

KEPT = 2_000  # events that are kept as they are sent
PAGE = 500  # events that are read, and sent, at once
MOST_BYTES = 2**16  # that a stream is given at once, unless a single event has more
PERIOD = 0.5  # seconds between two looks at what others have written
PAUSE = 0.02  # seconds in which events are gathered, at least
SHARE = 0.0005  # and for each stream: many of them leave room for the calls that they watch
ALIVE = 15.0  # seconds after which a silent stream says that it is there
MOST_STREAMS = 2_000

_RETRY = b"retry: 1000\n\n"
_ALIVE = b": alive\n\n"
_COLUMNS = tuple(events.c[name] for name in Row._fields)


class Sent(NamedTuple):
    """An event as it is sent."""

    seq: int
    content: bytes


def encode(row: Row) -> Sent:
    """An event as a stream says it: its number, its kind, and all its fields as one line of JSON."""
    head = json.dumps({"seq": row.seq, "at": row.at, "kind": row.kind, "trial": row.trial, "hash": row.hash})
    payload = row.payload.replace("\n", " ").replace("\r", " ")
    data = f'{head[:-1]}, "payload": {payload}}}'
    return Sent(row.seq, f"id: {row.seq}\nevent: {row.kind}\ndata: {data}\n\n".encode())


def _first(events: list[Sent]) -> list[Sent]:
    """Return the first events, as many as a client that does not read may keep in memory."""
    total = 0
    for i, event in enumerate(events):
        total += len(event.content)
        if total > MOST_BYTES and i:
            return events[:i]
    return events


class Feed:
    """The end of the log of one study, for all its streams."""

    def __init__(self, storage: SqlStorage, study: int, position: int) -> None:
        self.study = study
        self.streams = 0
        self.ended = False
        self._storage = storage
        self._kept: deque[Sent] = deque(maxlen=KEPT)
        self._position = position  # of the next event
        self._written = asyncio.Event()
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Something was written."""
        self._written.set()

    def publish(self) -> None:
        """Let every stream look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self) -> bool:
        """Wait for something new; False where nothing has come for a while."""
        try:
            await asyncio.wait_for(self._changed.wait(), ALIVE)
        except TimeoutError:
            return False
        return True

    def since(self, position: int) -> list[Sent] | None:
        """The kept events from a position on, as many as are sent at once; None if they are not all kept."""
        if position >= self._position:
            return []
        if not self._kept or position < self._kept[0].seq:
            return None
        first = position - self._kept[0].seq
        return list(islice(self._kept, first, first + PAGE))

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
            if len(rows) < PAGE:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._written.wait(), PERIOD)
                await asyncio.sleep(max(PAUSE, self.streams * SHARE))

    def read(self, position: int) -> list[Sent]:
        """Some events of the log from a position on."""
        wanted = select(*_COLUMNS).where(events.c.study == self.study, events.c.seq >= position)
        with self._storage.beside() as connection:
            rows = [encode(Row(*row)) for row in connection.execute(wanted.order_by(events.c.seq).limit(PAGE))]
            there = select(studies.c.id).where(studies.c.id == self.study)
            if not rows and connection.execute(there).scalar() is None:
                raise UnknownStudy("the study was deleted")
        return rows


class Feeds:
    """The feeds of all studies that are being watched."""

    def __init__(self, storage: SqlStorage) -> None:
        self._storage = storage
        self._feeds: dict[int, Feed] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading = asyncio.Semaphore(4)  # who begin at the beginning leave room for others
        self.closing = False

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return sum(feed.streams for feed in self._feeds.values())

    def wake(self, study: int) -> None:
        """Something was written to a study."""
        feed = self._feeds.get(study)
        if feed is not None:
            feed.wake()

    def publish(self) -> None:
        """Let every stream look again: a token was revoked, or the server ends."""
        for feed in self._feeds.values():
            feed.publish()

    def check_room(self) -> None:
        """Refuse a stream where there are too many."""
        if self.streams >= MOST_STREAMS:
            error = StorageBusy(f"{MOST_STREAMS:,} streams are open; close one, or come back later")
            raise Problem(429, error, {"Retry-After": "10"})

    async def stream(self, study: int, after: int, allowed: Callable[[], bool]) -> AsyncIterator[bytes]:
        """The events after number ``after``, for ever; as long as it is ``allowed``."""
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
                if new := _first(new):
                    position = new[-1].seq + 1
                    yield b"".join(each.content for each in new)
                elif not await feed.wait():
                    yield _ALIVE
        finally:
            feed.streams -= 1
            if not feed.streams and self._feeds.get(study) is feed:
                del self._feeds[study]

    async def _earlier(self, feed: Feed, position: int) -> list[Sent]:
        """Events that are no longer kept; none while the database is away."""
        try:
            async with self._reading:
                return [] if self.closing else await in_thread(lambda: feed.read(position))
        except StorageError:
            return []

    async def _feed(self, study: int) -> Feed:
        if study not in self._feeds:
            last = select(func.max(events.c.seq)).where(events.c.study == study)

            def position() -> int:
                with self._storage.beside() as connection:
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

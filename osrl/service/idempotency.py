"""Idempotency keys: which trials were handed out for which request, written in the same transaction."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from sqlalchemy import Integer, bindparam, delete, insert, select

from osrl.errors import OsrlError
from osrl.service.blocking import in_thread
from osrl.service.tables import requests
from osrl.study.log.events import now
from osrl.study.storage.base import Log
from osrl.study.storage.locked_log import LockedLog
from osrl.study.storage.sql import SqlStorage

LIFETIME = 7 * 86_400 * 1_000_000  # microseconds after which a key is forgotten
PURGE_SECONDS = 86_400
MAX_KEY_LENGTH = 200

_FIND = select(requests.c.first, requests.c.count).where(
    requests.c.study == bindparam("study", type_=Integer), requests.c.request == bindparam("request")
)


class IdempotencyKeys:
    """The keys of requests that study number ``study`` has answered."""

    def __init__(self, storage: SqlStorage, study: int) -> None:
        self._study = study
        self._find, self._add = storage.prepare(_FIND), storage.prepare(insert(requests))

    def recall(self, log: Log, request: str) -> tuple[int, int] | None:
        """Return the number of the first trial and how many there were, if this key was used before."""
        assert isinstance(log, LockedLog)
        rows = log.cursor.fetch(self._find, study=self._study, request=request)
        return (int(rows[0][0]), int(rows[0][1])) if rows else None

    def remember(self, log: Log, request: str, first: int, count: int) -> None:
        """Store which trials were handed out for a key."""
        assert isinstance(log, LockedLog)
        row = {"study": self._study, "request": request, "first": first, "count": count, "at": now()}
        log.cursor.run_many(self._add, [row])


def read_idempotency_key(key: str | None) -> str | None:
    """Return the key of a request: one line of text."""
    if key is not None and (not key.strip() or not key.isprintable() or len(key) > MAX_KEY_LENGTH):
        raise OsrlError(f"Idempotency-Key is {key!r:.50}; give one line of at most {MAX_KEY_LENGTH} letters")
    return key


async def purge_daily(storage: SqlStorage) -> None:
    """Delete old keys once a day."""

    def purge() -> None:
        with storage.transaction(write=True) as connection:
            connection.execute(delete(requests).where(requests.c.at < now() - LIFETIME))

    while True:
        with suppress(OsrlError):
            await in_thread(purge)
        await asyncio.sleep(PURGE_SECONDS)

"""Which trials were handed out for which request: written in the transaction that hands them out."""

from __future__ import annotations

from sqlalchemy import Integer, bindparam, delete, insert, select

from osrl.errors import OsrlError
from osrl.service.tables import requests
from osrl.study.log.events import now
from osrl.study.storage.base import Log
from osrl.study.storage.locked_log import LockedLog
from osrl.study.storage.sql import SqlStorage

KEPT = 7 * 86_400 * 1_000_000  # microseconds after which a request is forgotten
LONGEST = 200  # letters

_FIND = select(requests.c.first, requests.c.count).where(
    requests.c.study == bindparam("study", type_=Integer), requests.c.request == bindparam("request")
)


class Requests:
    """The requests that study number ``study`` has answered."""

    def __init__(self, storage: SqlStorage, study: int) -> None:
        self._study = study
        self._find, self._add = storage.prepare(_FIND), storage.prepare(insert(requests))

    def recall(self, log: Log, request: str) -> tuple[int, int] | None:
        """The first trial and how many, if this request was answered before."""
        assert isinstance(log, LockedLog)
        rows = log.cursor.fetch(self._find, study=self._study, request=request)
        return (int(rows[0][0]), int(rows[0][1])) if rows else None

    def remember(self, log: Log, request: str, first: int, count: int) -> None:
        """This request was answered with these trials."""
        assert isinstance(log, LockedLog)
        row = {"study": self._study, "request": request, "first": first, "count": count, "at": now()}
        log.cursor.run_many(self._add, [row])


def read_request(request: str | None) -> str | None:
    """The key of a request: one line of text."""
    if request is None:
        return None
    if not request.strip() or not request.isprintable() or len(request) > LONGEST:
        raise OsrlError(f"Idempotency-Key is {request!r:.50}; give one line of at most {LONGEST} letters")
    return request


def forget_old(storage: SqlStorage) -> None:
    """Forget requests that nobody repeats any more."""
    with storage.beside(write=True) as connection:
        connection.execute(delete(requests).where(requests.c.at < now() - KEPT))

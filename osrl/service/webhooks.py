"""Webhooks: one signed message about the verdict of each study, to an address that the operator has given.

The message of a study is written to the database when its verdict is seen, and sent from there until it is
delivered, for a day: so it survives the end of a server, and only one of several servers sends it. The receiver
checks ``Osrl-Signature: t=SECONDS,v1=HEX``: the HMAC-SHA256, with the shared secret, of ``SECONDS.BODY``. A
message may come twice, if the answer to the first was lost: ``Osrl-Delivery`` is then the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import time
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
from sqlalchemy import Row, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from osrl.errors import OsrlError
from osrl.service.blocking import in_thread
from osrl.service.tables import messages
from osrl.study.log.events import as_datetime, now
from osrl.study.storage.schema import events, studies
from osrl.study.storage.sql import SqlStorage
from osrl.study.study import Study

POLL_SECONDS = 1.0  # between two looks for verdicts
DELIVERY_MICROSECONDS = 86_400 * 1_000_000  # in which a message is tried: a day
CLAIM_MICROSECONDS = 60 * 1_000_000  # that a server has for an attempt
FIRST_WAIT, LONGEST_WAIT = 5, 3600  # seconds before another attempt; twice as long each time
TIMEOUT = 10.0  # seconds for an attempt
SECRET_VARIABLE = "OSRL_VERDICT_SECRET"  # of the environment

_LOG = logging.getLogger("osrl.service")


class Receiver(NamedTuple):
    """The address of messages, and the secret with which they are signed."""

    url: str
    secret: str


def read_receiver(url: str, secret: str | None) -> Receiver:
    """Return the receiver; refuse an address or a secret that cannot be used."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OsrlError(f"--on-verdict is {url!r:.100}; give an http:// or https:// address")
    if not secret or len(secret) < 16:
        raise OsrlError(f"messages are signed; set the variable {SECRET_VARIABLE} to a secret of at least 16 letters")
    return Receiver(url, secret)


def sign(secret: str, seconds: int, body: str) -> str:
    """Return the signature of a message."""
    mac = hmac.new(secret.encode(), f"{seconds}.{body}".encode(), hashlib.sha256)
    return f"t={seconds},v1={mac.hexdigest()}"


class Messenger:
    """The process that looks for verdicts and sends a message about each."""

    def __init__(self, storage: SqlStorage, receiver: Receiver) -> None:
        self._storage, self._receiver = storage, receiver
        self._checked: dict[int, int] = {}  # the last event of each study without a verdict

    async def run(self) -> None:
        """Write and send messages, again and again."""
        async with httpx.AsyncClient(timeout=TIMEOUT) as http:
            while True:
                try:
                    await in_thread(self.write_messages)
                    for row in await in_thread(self._due):
                        await self._send(http, row)
                except OsrlError:
                    pass  # the database is away: it will come back
                except Exception:
                    _LOG.exception("messages about verdicts have failed; they are tried again")
                await asyncio.sleep(POLL_SECONDS)

    def write_messages(self) -> None:
        """Write a message for each study that has ended and has none."""
        known = select(messages.c.study)
        with self._storage.transaction() as connection:
            wanted = select(studies.c.id, studies.c.name).where(studies.c.id.not_in(known))
            running = connection.execute(wanted).all()
            last = select(func.max(events.c.seq))
            positions = {
                row.id: connection.execute(last.where(events.c.study == row.id)).scalar_one() for row in running
            }
        for row in running:
            if self._checked.get(row.id) != positions[row.id]:
                self._write_message(Study(self._storage, row.id, row.name), row.id)
                self._checked[row.id] = positions[row.id]

    def _write_message(self, study: Study, number: int) -> None:
        summary = study.summary
        if summary["verdict"] == "running":
            return
        ended = (event.at for event in study.events() if getattr(event.body, "verdict", None) is not None)
        at = next(ended, now())
        message = {
            "study": study.name,
            "id": summary["id"],
            "verdict": summary["verdict"],
            "best": study.best._asdict(),
            "handed_out": summary["handed_out"],
            "told": summary["told"],
            "head": summary["head"],
            "at": as_datetime(at).isoformat(),
        }
        due = now() if now() - at < DELIVERY_MICROSECONDS else None
        row = {"study": number, "body": json.dumps(message), "at": at, "attempts": 0, "due": due}
        with suppress(IntegrityError, OsrlError), self._storage.transaction(write=True) as connection:
            connection.execute(insert(messages), row)  # unless another server was quicker

    def _due(self) -> list[Any]:
        with self._storage.transaction() as connection:
            return list(connection.execute(select(messages).where(messages.c.due <= now())).all())

    async def _send(self, http: httpx.AsyncClient, row: Row[Any]) -> None:
        """Try to deliver a message, unless another server has claimed it."""
        if not await in_thread(lambda: self._claim(row)):
            return
        seconds = int(time.time())
        headers = {
            "Content-Type": "application/json",
            "Osrl-Signature": sign(self._receiver.secret, seconds, row.body),
            "Osrl-Delivery": hashlib.sha256(row.body.encode()).hexdigest()[:32],
        }
        try:
            answer = await http.post(self._receiver.url, content=row.body.encode(), headers=headers)
            delivered, said = answer.is_success, str(answer.status_code)
        except httpx.HTTPError as error:
            delivered, said = False, type(error).__name__
        if not delivered:
            _LOG.warning("the message about a verdict was not delivered (%s); it is tried again", said)
        await in_thread(lambda: self._note(row, delivered))

    def _claim(self, row: Row[Any]) -> bool:
        """Claim an attempt, so that no other server makes it."""
        mine = (messages.c.study == row.study) & (messages.c.due == row.due)
        with self._storage.transaction(write=True) as connection:
            change = update(messages).where(mine).values(due=now() + CLAIM_MICROSECONDS, attempts=row.attempts + 1)
            return bool(connection.execute(change).rowcount)

    def _note(self, row: Row[Any], delivered: bool) -> None:
        wait = min(FIRST_WAIT * 2**row.attempts, LONGEST_WAIT) * 1_000_000
        again = now() + wait if now() + wait - row.at < DELIVERY_MICROSECONDS else None
        values = {"due": None, "delivered_at": now()} if delivered else {"due": again}
        with self._storage.transaction(write=True) as connection:
            connection.execute(update(messages).where(messages.c.study == row.study).values(**values))

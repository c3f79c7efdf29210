"""What the routes of one server share: its storage, its workers, its feeds, its tokens."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import NamedTuple

from starlette.requests import Request

from osrl.errors import OsrlError
from osrl.service.blocking import in_thread
from osrl.service.downloads import Downloads
from osrl.service.event_stream import Feeds
from osrl.service.idempotency import forget_old
from osrl.service.page_cache import Watches
from osrl.service.roles import Grant
from osrl.service.tokens import Roster, is_token
from osrl.service.workers import Workers
from osrl.study.storage.sql import SqlStorage

PERIOD = 1.0  # seconds after which a token that was made or revoked elsewhere is known here
LEAST = 0.2  # seconds between two looks for a token that is not known
DAY = 86_400


class Context(NamedTuple):
    """What the routes share."""

    place: str  # as it was given, with its password: never shown
    storage: SqlStorage
    workers: Workers
    feeds: Feeds
    access: Access
    watches: Watches
    downloads: Downloads


class Access:
    """The tokens, kept up to date."""

    def __init__(self, roster: Roster, feeds: Feeds) -> None:
        self._roster, self._feeds = roster, feeds
        self._looked = 0.0
        self._looking = asyncio.Lock()

    async def find(self, token: str) -> Grant | None:
        """What a token allows; one that is not known may have been made just now."""
        grant = self._roster.find(token)
        if grant is None and is_token(token):
            await self._look(time.monotonic())
            grant = self._roster.find(token)
        return grant

    def still(self, grant: Grant) -> bool:
        """Whether a token still allows the same."""
        return self._roster.still(grant)

    async def refresh(self) -> None:
        """Read the tokens again; with those that were revoked their streams end."""
        await self._look(time.monotonic())
        self._feeds.publish()

    async def _look(self, since: float) -> None:
        """Read the tokens, unless somebody has begun to after ``since``; not too often, whoever asks."""
        async with self._looking:
            if self._looked >= since:
                return
            await asyncio.sleep(self._looked + LEAST - time.monotonic())
            self._looked = time.monotonic()
            with suppress(OsrlError):  # the database is away: who was known is known
                await in_thread(self._roster.refresh)

    async def keep_up(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(PERIOD)
            before = self._roster.valid
            await self._look(time.monotonic())
            if self._roster.valid != before:
                self._feeds.publish()


async def tidy_up(storage: SqlStorage) -> None:
    """Forget what nobody needs any more, once a day."""
    while True:
        with suppress(OsrlError):
            await in_thread(lambda: forget_old(storage))
        await asyncio.sleep(DAY)


def context_of(request: Request) -> Context:
    """What the routes share."""
    context: Context = request.app.state.context
    return context

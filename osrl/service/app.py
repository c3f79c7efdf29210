"""The application: every route, behind the middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Router as StarletteRouter
from starlette.types import Receive, Scope, Send

from osrl.errors import OsrlError
from osrl.page.render import message_page
from osrl.service.context import CONTEXT, Context
from osrl.service.downloads import Downloads
from osrl.service.event_stream import Feeds
from osrl.service.idempotency import purge_daily
from osrl.service.middleware import SecurityMiddleware
from osrl.service.openapi import describe
from osrl.service.page_cache import PageCaches
from osrl.service.problems import Refusal, problem_response, status_of, title_of
from osrl.service.routes import admin, flags, pages, read, tokens, trials
from osrl.service.routing import OPEN, Route, Router, json_response, read_root_path
from osrl.service.tables import prepare_tables
from osrl.service.tokens import TokenCache
from osrl.service.webhooks import Messenger, Receiver
from osrl.service.workers import Workers
from osrl.study.storage.sql import SqlStorage

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@cache
def openapi_document() -> dict[str, Any]:
    """Return the description of the API."""
    return describe(ROUTES)


async def openapi(request: Request) -> Response:
    """Return the description of the API, to whoever has a token."""
    return json_response(openapi_document())


ROUTES = [route for each in (read, trials, admin, tokens, flags, pages) for route in each.routes.list]
ROUTES += [Route(method, "/api/v1/openapi.json", openapi, OPEN, {"tag": None}) for method in ("GET", "HEAD")]


class Application:
    """The service as an ASGI application.

    ``token`` is one that owns everything, besides those in the database. ``hosts``: the names by which the
    server may be called, besides those of this machine. ``root``: the path under which a proxy shows it.
    ``receiver``: who gets a message when a study has ended.
    """

    def __init__(
        self,
        place: str,
        *,
        token: str | None = None,
        hosts: Sequence[str] = (),
        root: str = "",
        receiver: Receiver | None = None,
    ) -> None:
        self.root, self._receiver = read_root_path(root), receiver
        storage = SqlStorage(place, make=True)
        prepare_tables(storage)
        feeds = Feeds(storage)
        known = TokenCache(storage, token, feeds.publish)
        known.read()
        workers = Workers(storage, feeds.wake)
        self.context = Context(place, storage, workers, feeds, known, PageCaches(), Downloads())
        self.router = Router(ROUTES)
        inner = StarletteRouter(default=self._answer, lifespan=self._lifespan, redirect_slashes=False)
        self._middleware = SecurityMiddleware(inner, known.find, (*LOOPBACK, *hosts), self.root)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._middleware(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[CONTEXT] = self.context
        request = Request(scope, receive)
        try:
            route, given = self.router.find(scope)
            response = await route.answer(request, given)
        except Refusal as refusal:
            response = _error_response(request, refusal.error, refusal.status, refusal.headers)
        except OsrlError as error:
            response = _error_response(request, error, status_of(error))
        await response(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        context = self.context
        chores = [context.tokens.keep_fresh(), purge_daily(context.storage)]
        if self._receiver is not None:
            chores.append(Messenger(context.storage, self._receiver).run())
        tasks = [asyncio.create_task(each) for each in chores]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await context.feeds.close()
            await context.workers.stop()

    def end_streams(self) -> None:
        """Let open streams end: the server is about to."""
        self.context.feeds.closing = True
        self.context.feeds.publish()


def _error_response(
    request: Request, error: OsrlError, status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a problem document; for a person who wants a page, the same as a page."""
    root = request.scope["root_path"]
    path = request.scope["path"].removeprefix(root)
    in_browser = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if not in_browser or path.startswith(("/api/", "/ofrep/")):
        return problem_response(error, status, headers)
    sentence = str(error) if status != 404 else str(error).partition(";")[0]  # the page itself leads further
    page = message_page(title_of(status), f"{sentence[:1].upper()}{sentence[1:]}.", root=root)
    return HTMLResponse(page, status, dict(headers or {}))

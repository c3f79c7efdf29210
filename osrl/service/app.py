"""The application: every route, behind the guard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from osrl.errors import OsrlError
from osrl.page.render import message_page
from osrl.service.context import Access, Context, tidy_up
from osrl.service.downloads import Downloads
from osrl.service.event_stream import Feeds
from osrl.service.middleware import Guard
from osrl.service.page_cache import Watches
from osrl.service.paths import SLASH, read_root
from osrl.service.problems import Problem, failed, problem, status_of, title_of
from osrl.service.roles import Grant
from osrl.service.routes import admin as life
from osrl.service.routes import flags
from osrl.service.routes import html as screens
from osrl.service.routes import read as reading
from osrl.service.routes import session as pages
from osrl.service.routes import tokens as accounts
from osrl.service.routes import trials as calls
from osrl.service.routing import Shortcut, said
from osrl.service.tables import prepare_tables
from osrl.service.tokens import Roster
from osrl.service.webhooks import Messenger, Receiver
from osrl.service.workers import Workers
from osrl.study.storage.sql import SqlStorage

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Application:
    """The service as an ASGI application: ``api`` with its routes, behind the guard.

    ``token`` is one that owns everything, besides those in the database. ``hosts``: the names by which the
    server may be called, besides those of this machine. ``root``: the path under which a proxy shows it.
    ``receiver``: who is told when a study has ended.
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
        self._place, self._receiver = place, receiver
        self.root = read_root(root)
        self.storage = SqlStorage(place, make=True)
        prepare_tables(self.storage)
        self.roster = Roster(self.storage, token)
        self.roster.refresh()
        self.api = new_api(self._lifespan)
        shortcut = Shortcut(self.api, "/api/v1/studies/", (calls.router, life.router))
        self._guard = Guard(shortcut, self._find, (*LOOPBACK, *hosts), self.root)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        await self._guard(scope, receive, send)

    async def _find(self, token: str) -> Grant | None:
        context: Context = self.api.state.context
        return await context.access.find(token)

    @asynccontextmanager
    async def _lifespan(self, api: FastAPI) -> AsyncIterator[None]:
        feeds = Feeds(self.storage)
        workers = Workers(self.storage, feeds.wake)
        access = Access(self.roster, feeds)
        api.state.context = Context(self._place, self.storage, workers, feeds, access, Watches(), Downloads())
        chores = [access.keep_up(), tidy_up(self.storage)]
        if self._receiver is not None:
            chores.append(Messenger(self.storage, self._receiver).run())
        tasks = [asyncio.create_task(each) for each in chores]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await feeds.close()
            await workers.stop()

    def end_streams(self) -> None:
        """Let open streams end: the server is about to."""
        context: Context | None = getattr(self.api.state, "context", None)
        if context is not None:
            context.feeds.closing = True
            context.feeds.publish()


def new_api(lifespan: Any = None) -> FastAPI:
    """The routes, with what is said when something is refused."""
    api = FastAPI(
        title="osrl",
        version=version("osrl"),
        description="Studies over HTTP: ask for a trial, run it, tell its reward, until there is a verdict.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    describe, bearer = api.openapi, {"type": "http", "scheme": "bearer"}

    def openapi() -> dict[str, Any]:
        described = describe()
        described.setdefault("components", {})["securitySchemes"] = {"token": bearer}
        described["security"] = [{"token": []}]
        return described

    api.openapi = openapi  # type: ignore[method-assign]
    for each in (reading, calls, life, accounts, flags, pages, screens):
        api.routes.extend(each.router.routes)
    api.add_exception_handler(OsrlError, _refused)
    api.add_exception_handler(Problem, _refused)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _http)
    api.add_exception_handler(Exception, _failed)
    return api


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, Problem):
        return _said(request, error.error, error.status, error.headers)
    assert isinstance(error, OsrlError)
    return _said(request, error, status_of(error))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem(OsrlError(said(error.errors())))


async def _failed(request: Request, error: Exception) -> Response:
    return failed()


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path}".replace(SLASH, "%2F")
    text = {404: f"there is no {what}", 405: f"{what} is not possible"}.get(error.status_code, str(error.detail))
    refused = OsrlError(f"{text}; see /api/v1/openapi.json")
    return _said(request, refused, error.status_code, error.headers)


def _said(request: Request, error: OsrlError, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """A problem document; for a person who looks for a page, the same as a page."""
    root = request.scope["root_path"]
    called = request.scope["path"].removeprefix(root)
    by_hand = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if not by_hand or called.startswith(("/api/", "/ofrep/")):
        return problem(error, status, headers)
    sentence = str(error) if status != 404 else str(error).partition(";")[0]  # the page itself leads further
    page = message_page(title_of(status), f"{sentence[:1].upper()}{sentence[1:]}.", root=root)
    return HTMLResponse(page, status, dict(headers or {}))

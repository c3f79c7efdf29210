"""The middleware before all routes: it checks the host, the size and the token of every request.

Every answer has the headers of `SECURITY`, and no error says more than a sentence.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from http.cookies import CookieError, SimpleCookie

from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osrl.errors import AccessRefused, OsrlError, StorageBusy
from osrl.page.render import sign_in_page, style_digest
from osrl.service.problems import Refusal, failure_response, problem_response
from osrl.service.routing import GRANT, normalise_path
from osrl.service.tokens import Grant

MAX_REQUEST_BYTES = 4 * 2**20
COOKIE = "osrl-token"
OPEN_PATHS = ("/healthz", "/session")  # says only that it is alive; reads a token itself
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action {forms}; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
SECURITY = {
    "content-security-policy": POLICY.format(forms="'none'"),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_SECURITY = [(name.encode(), value.encode()) for name, value in SECURITY.items()]
_LOG = logging.getLogger("osrl.service")

_PATH = re.compile(r"/(?![/\\])[!#-;=?-\[\]_a-z~]*")  # of an address, without quotes and angle brackets
MAX_PATH_LENGTH = 2_000  # of a path to continue to after signing in


class SecurityMiddleware:
    """Passes on requests for an allowed host with a known token, and no others.

    ``find_grant`` returns the rights of a token, or None. ``root``: the path under which a proxy shows the server.
    """

    def __init__(
        self, app: ASGIApp, find_grant: Callable[[str], Awaitable[Grant | None]], hosts: Sequence[str], root: str
    ) -> None:
        self._app, self._find_grant, self._root = app, find_grant, root
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def send_safely(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = list(message.get("headers", ()))
                present = {name for name, _ in headers}
                message["headers"] = headers + [each for each in _SECURITY if each[0] not in present]
            await send(message)

        refused: Response | None = None
        try:
            refused = await self._refuse(scope)
            if refused is None:
                await self._app(scope, _limited(receive), send_safely)
        except Refusal as refusal:
            refused = problem_response(refusal.error, refusal.status, refusal.headers)
        except asyncio.CancelledError:  # the server ends, and waits no longer
            refused = problem_response(StorageBusy("the server ends; call again a little later"), 503)
        except ClientDisconnect:
            return  # the client has gone before its request was complete
        except Exception:
            _LOG.exception("%s %s has failed", scope["method"], scope["path"])
            refused = failure_response()
        if refused is not None and not started:
            await refused(scope, receive, send_safely)

    async def _refuse(self, scope: Scope) -> Response | None:
        """Return the answer to a request that may not pass; None for one that may."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "").lower()
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            return problem_response(OsrlError("the request names two hosts; send one header Host"), 400)
        if (host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host) not in self._hosts:
            return problem_response(
                OsrlError(f"this server is not called {host!r:.100}; start it with --allow-host to allow it"),
                400,
            )
        length = headers.get(b"content-length", "0")
        if not length.isdigit() or int(length) > MAX_REQUEST_BYTES:
            return problem_response(_too_large(), 413, {"Connection": "close"})
        normalise_path(scope, self._root)
        writes = scope["method"] not in SAFE_METHODS
        if scope["path"].removeprefix(self._root) in OPEN_PATHS:
            return _foreign() if writes and _same_origin(headers, host) is False else None
        token, by_cookie = _token(headers)
        grant = None if token is None else await self._find_grant(token)
        if grant is None:
            why = "give a token" if token is None else "this token is not known, or was revoked; give another"
            return _unknown(why, headers, scope, self._root)
        if by_cookie and writes and not _same_origin(headers, host):
            return _foreign()
        scope[GRANT] = grant
        return None


def _token(headers: dict[bytes, str]) -> tuple[str | None, bool]:
    """Return the token of a request, and whether it came as a cookie."""
    scheme, _, token = headers.get(b"authorization", "").partition(" ")
    if token and scheme.lower() == "bearer":
        return token.strip(), False
    try:
        cookie = SimpleCookie(headers.get(b"cookie", "")).get(COOKIE)
    except CookieError:
        cookie = None
    return (None, False) if cookie is None else (cookie.value, True)


def _same_origin(headers: dict[bytes, str], host: str) -> bool | None:
    """Tell whether a page of this server has sent the request; None where no browser says so."""
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
    if origin is None and site is None:
        return None
    if site is not None:
        return site == "same-origin"
    return str(origin).partition("://")[2].lower() == host


def _foreign() -> Response:
    return problem_response(AccessRefused("a page of another site has sent this; open the page of this server"), 403)


def _unknown(why: str, headers: dict[bytes, str], scope: Scope, root: str) -> Response:
    """Return the answer to a request without a known token: a problem, or for a person a page to sign in."""
    known = {"WWW-Authenticate": "Bearer"}
    if scope["method"] == "GET" and "text/html" in headers.get(b"accept", ""):
        query = scope.get("query_string", b"").decode("latin-1")
        wanted = (scope.get("raw_path") or b"/").decode("latin-1").partition("?")[0] + (f"?{query}" if query else "")
        return sign_in(f"To see this page, {why}.", root, wanted, known)
    return problem_response(AccessRefused(f"{why} (Authorization: Bearer ...)"), 401, known)


def sign_in(why: str, root: str, wanted: str, headers: dict[str, str] | None = None) -> Response:
    """Return the page on which a person gives a token; from there it continues to the page that was wanted."""
    page = sign_in_page(why, root=root, wanted=path_within(wanted, root))
    own = POLICY.replace("style-src 'self'", f"style-src 'sha256-{style_digest('sign_in.css')}'")
    # The browser has to say where the form comes from.
    policy = {"content-security-policy": own.format(forms="'self'"), "referrer-policy": "same-origin"}
    return HTMLResponse(page, 401, {**policy, **(headers or {})})


def path_within(wanted: str, root: str) -> str:
    """Return a path of this server: the list of studies in place of any that may lead elsewhere."""
    path = wanted[len(root) :] if root and wanted.startswith(f"{root}/") else wanted
    within = _PATH.fullmatch(path) is not None and len(path) <= MAX_PATH_LENGTH
    return f"{root}{path}" if within and not path.startswith("/session") else f"{root}/"


def _limited(receive: Receive) -> Receive:
    """Return a ``receive`` that refuses a body which is too large."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > MAX_REQUEST_BYTES:
                raise Refusal(413, _too_large(), {"Connection": "close"})
        return message

    return limited


def _too_large() -> OsrlError:
    return OsrlError(f"the request has more than {MAX_REQUEST_BYTES:,} bytes; send it in parts")

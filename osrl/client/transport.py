"""Requests over the network, repeated with jitter when they are lost.

A request is sent again only where a second arrival changes nothing: an ask has an idempotency key, a tell
counts once. Where one of the few others is lost, the error says that nobody knows whether it was done.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Any, Self
from urllib.parse import urlsplit

import osrl.errors
from osrl.client.endpoints import Exchange, Request, T
from osrl.errors import OsrlError, StorageError

try:
    import httpx
except ModuleNotFoundError:
    raise OsrlError("studies of a server need the extra 'client'; install osrl[client]") from None

RETRY_SECONDS = 60.0  # in which a request is repeated
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds before it is repeated, at most; twice as long each time
TIMEOUT = httpx.Timeout(180.0, connect=10.0)  # a new server compiles before its first answer
TOKEN_VARIABLE = "OSRL_TOKEN"  # of the environment, for calls without a token
_BUSY = (429, 502, 503, 504)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def read_url(url: str) -> str:
    """Return the address of a server, without a slash at its end."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OsrlError(f"{url!r:.100} is not the address of a server; give one such as http://localhost:8765")
    if parts.username is not None or parts.query or parts.fragment:
        raise OsrlError(f"an address has no token in it; give it as token=..., or in the variable {TOKEN_VARIABLE}")
    return url.rstrip("/")


def _client_options(token: str | None) -> dict[str, Any]:
    token = os.environ.get(TOKEN_VARIABLE) if token is None else token
    if not token:
        raise OsrlError(f"there is no token; give token=..., or set the variable {TOKEN_VARIABLE}")
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    return {"headers": headers, "timeout": TIMEOUT}


def _request_options(request: Request, base: str) -> dict[str, Any]:
    options: dict[str, Any] = {"method": request.method, "url": f"{base}/api/v1{request.path}"}
    options["headers"] = request.headers
    if request.body is not None:
        options["json"] = request.body
    if request.parameters:
        options["params"] = request.parameters
    return options


class RetryPolicy:
    """The attempts at one request: whether there is another one, and how long to wait before it."""

    def __init__(self, request: Request, base: str) -> None:
        self._repeatable, self._base = request.repeatable, base
        self._end = time.monotonic() + RETRY_SECONDS
        self._longest = FIRST_WAIT

    def after_error(self, error: httpx.TransportError) -> float:
        """Return the seconds to wait; raise where the request must not be sent again."""
        cause = str(error) or type(error).__name__
        if not self._repeatable and not isinstance(error, _UNSENT):
            raise StorageError(
                f"{self._base}: the answer was lost ({cause}), and nobody knows whether it was done; "
                "look, and call again if it was not"
            ) from error
        return self._wait(
            StorageError(f"{self._base}: the server cannot be reached ({cause}); call again when it is back")
        )

    def after_response(self, response: httpx.Response) -> float | None:
        """Return the seconds to wait before another attempt; None after success; raise other refusals."""
        if response.is_success:
            return None
        if response.status_code not in _BUSY or not self._repeatable:
            raise read_problem(response)
        after = response.headers.get("retry-after", "")
        return self._wait(read_problem(response), float(after) if after.isdigit() else 0.0)

    def _wait(self, error: OsrlError, least: float = 0.0) -> float:
        seconds = min(least, LONGEST_WAIT) + random.uniform(0.0, self._longest)
        self._longest = min(2 * self._longest, LONGEST_WAIT)
        if time.monotonic() + seconds > self._end:
            raise error
        return seconds


def read_problem(response: httpx.Response) -> OsrlError:
    """Return the error of a problem document, of the same class as on the server."""
    try:
        problem = response.json()
        kind, detail = getattr(osrl.errors, str(problem["type"])), str(problem["detail"])
        if isinstance(kind, type) and issubclass(kind, OsrlError):
            return kind(detail)
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    if response.status_code in _BUSY:
        return StorageError(f"{response.url}: the server does not answer ({response.status_code}); call again later")
    return OsrlError(f"{response.url}: this is no server of studies ({response.status_code}); give its address")


class Transport:
    """Connections to one server, for blocking calls."""

    def __init__(self, url: str, token: str | None, **options: Any) -> None:
        self.base = read_url(url)
        self._http = httpx.Client(**_client_options(token), **options)

    def run(self, exchange: Exchange[T]) -> T:
        """Send the requests of a call and return its result."""
        try:
            request = next(exchange)
            while True:
                request = exchange.send(self._send(request))
        except StopIteration as end:
            result: T = end.value
            return result

    def _send(self, request: Request) -> bytes:
        retries = RetryPolicy(request, self.base)
        while True:
            try:
                response = self._http.request(**_request_options(request, self.base))
                wait = retries.after_response(response)
            except httpx.TransportError as error:
                wait = retries.after_error(error)
            if wait is None:
                return response.content
            time.sleep(wait)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncTransport:
    """Connections to one server, for awaited calls."""

    def __init__(self, url: str, token: str | None, **options: Any) -> None:
        self.base = read_url(url)
        self._http = httpx.AsyncClient(**_client_options(token), **options)

    async def run(self, exchange: Exchange[T]) -> T:
        """Send the requests of a call and return its result."""
        try:
            request = next(exchange)
            while True:
                request = exchange.send(await self._send(request))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _send(self, request: Request) -> bytes:
        retries = RetryPolicy(request, self.base)
        while True:
            try:
                response = await self._http.request(**_request_options(request, self.base))
                wait = retries.after_response(response)
            except httpx.TransportError as error:
                wait = retries.after_error(error)
            if wait is None:
                return response.content
            await asyncio.sleep(wait)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

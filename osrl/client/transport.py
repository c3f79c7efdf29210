"""Requests over the network, repeated with jitter when they are lost.

A request is sent again only where a second arrival changes nothing: an ask has a key of its own, a tell
counts once. Of the few others it is said that nobody knows whether they were done.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import osrl.errors
from osrl.client.endpoints import Call, T
from osrl.errors import OsrlError, StorageError

try:
    import httpx
except ModuleNotFoundError:
    raise OsrlError("studies of a server need the extra 'client'; install osrl[client]") from None

PATIENCE = 60.0  # seconds in which a request is repeated
FIRST, LONGEST = 0.1, 5.0  # seconds before it is repeated, at most; twice as long each time
TIMEOUT = httpx.Timeout(180.0, connect=10.0)  # a server that is new compiles before its first answer
TOKEN = "OSRL_TOKEN"  # the environment variable with the token, where none is given
_BUSY = (429, 502, 503, 504)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def read_url(url: str) -> str:
    """The address of a server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OsrlError(f"{url!r:.100} is not the address of a server; give one such as http://localhost:8765")
    if parts.username is not None or parts.query or parts.fragment:
        raise OsrlError(f"an address has no token in it; give it as token=..., or in the variable {TOKEN}")
    return url.rstrip("/")


def headers(token: str | None) -> dict[str, str]:
    """What every request says."""
    found = os.environ.get(TOKEN) if token is None else token
    if not found:
        raise OsrlError(f"there is no token; give token=..., or set the variable {TOKEN}")
    return {"Authorization": f"Bearer {found}", "Accept": "application/json"}


def request_of(call: Call[Any], base: str) -> dict[str, Any]:
    """A call as the arguments of a request."""
    given: dict[str, Any] = {
        "method": call.method,
        "url": f"{base}/api/v1{call.path}",
        "headers": call.headers,
    }
    if call.body is not None:
        given["json"] = call.body
    if call.parameters:
        given["params"] = call.parameters
    return given


class Attempts:
    """The attempts at one request: whether there is another one, and how long to wait before it."""

    def __init__(self, call: Call[Any], base: str) -> None:
        self._again, self._base = call.again, base
        self._end = time.monotonic() + PATIENCE
        self._longest = self._steps()

    def _steps(self) -> Iterator[float]:
        longest = FIRST
        while True:
            yield longest
            longest = min(2 * longest, LONGEST)

    def after_error(self, error: httpx.TransportError) -> float:
        """Seconds to wait; raises where the request is not to be sent again."""
        if not self._again and not isinstance(error, _UNSENT):
            raise StorageError(
                f"{self._base}: the answer was lost ({_said(error)}), and nobody knows whether it was done; "
                "look, and call again if it was not"
            ) from error
        return self._wait(
            StorageError(f"{self._base}: the server cannot be reached ({_said(error)}); call again when it is back")
        )

    def after_answer(self, answer: httpx.Response) -> float | None:
        """Seconds to wait before another attempt; None where the answer is final."""
        if answer.status_code not in _BUSY or not self._again:
            return None
        after = answer.headers.get("retry-after", "")
        return self._wait(read_problem(answer), float(after) if after.isdigit() else 0.0)

    def _wait(self, error: OsrlError, least: float = 0.0) -> float:
        seconds = min(least, LONGEST) + random.uniform(0.0, next(self._longest))
        if time.monotonic() + seconds > self._end:
            raise error
        return seconds


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def read_problem(answer: httpx.Response) -> OsrlError:
    """The error that a server has answered with: of the same class as here."""
    try:
        problem = answer.json()
        kind, detail = getattr(osrl.errors, str(problem["type"])), str(problem["detail"])
        if isinstance(kind, type) and issubclass(kind, OsrlError):
            return kind(detail)
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    if answer.status_code in _BUSY:
        return StorageError(f"{answer.url}: the server does not answer ({answer.status_code}); call again later")
    return OsrlError(f"{answer.url}: this is no server of studies ({answer.status_code}); give its address")


class Sender:
    """Sends requests to one server."""

    def __init__(self, url: str, token: str | None, **given: Any) -> None:
        self.base = read_url(url)
        self._http = httpx.Client(headers=headers(token), timeout=TIMEOUT, **given)

    def send(self, call: Call[T]) -> T:
        """The answer to a call."""
        return call.read(self.answer(call).json())

    def answer(self, call: Call[Any]) -> httpx.Response:
        """The answer as it came."""
        attempts = Attempts(call, self.base)
        while True:
            try:
                answer = self._http.request(**request_of(call, self.base))
                wait = attempts.after_answer(answer)
            except httpx.TransportError as error:
                wait = attempts.after_error(error)
            if wait is None:
                if answer.is_success:
                    return answer
                raise read_problem(answer)
            time.sleep(wait)

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()


class AsyncSender:
    """The same, to be awaited."""

    def __init__(self, url: str, token: str | None, **given: Any) -> None:
        self.base = read_url(url)
        self._http = httpx.AsyncClient(headers=headers(token), timeout=TIMEOUT, **given)

    async def send(self, call: Call[T]) -> T:
        """The answer to a call."""
        return call.read((await self.answer(call)).json())

    async def answer(self, call: Call[Any]) -> httpx.Response:
        """The answer as it came."""
        import asyncio

        attempts = Attempts(call, self.base)
        while True:
            try:
                answer = await self._http.request(**request_of(call, self.base))
                wait = attempts.after_answer(answer)
            except httpx.TransportError as error:
                wait = attempts.after_error(error)
            if wait is None:
                if answer.is_success:
                    return answer
                raise read_problem(answer)
            await asyncio.sleep(wait)

    async def close(self) -> None:
        """Let go of connections."""
        await self._http.aclose()

"""HTTP/1.1 with limits on what a client may send before its request is complete, and on how long that takes.

The parser itself has no limits: without them a client that has no token fills the memory with headers that
never end, or keeps sockets open with requests that never become complete.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from osrl.service.middleware import SECURITY

_PIECE_BYTES = 2**14  # that are parsed at once


class Limits(NamedTuple):
    """Limits of a request: bytes until its headers are complete, seconds for headers and for its body.

    ``stall_seconds``: how long a client may read nothing of what waits for it.
    """

    head_bytes: int = 2**16
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    stall_seconds: float = 60.0


class Protocol(HttpToolsProtocol):
    """HTTP that refuses malformed, too long or too slow requests, with the headers of every other answer.

    Bytes are counted until headers are complete, and inside of a body from one piece of content to the next:
    trailers and extensions of chunks have the same limit.
    """

    limits: Limits

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._spent = 0  # bytes without progress
        self._timer: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._changes = 0  # of the part that is being read
        self._part: Literal["head", "body", None] = "head"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of the first request."""
        super().connection_made(transport)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all time limits of the connection."""
        self._begin(None)
        self._set_deadline()
        self._end_stall()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse arrived bytes, up to the limits."""
        before, start = self._changes, 0
        if self._part is None:
            self._begin("head")
        while start < len(data):
            room = min(_PIECE_BYTES, self.limits.head_bytes - self._spent)
            piece = data[start : start + room]
            start, self._spent = start + room, self._spent + len(piece)
            super().data_received(piece)
            if self.transport.is_closing():
                return
            if self._spent >= self.limits.head_bytes:
                self._refuse(431, "Request Header Fields Too Large", "The headers are too long.")
                return
        if self._changes != before:
            self._set_deadline()

    def on_message_begin(self) -> None:
        """Count bytes from here."""
        super().on_message_begin()
        if self._part is None:
            self._begin("head")

    def on_headers_complete(self) -> None:
        """Pass a request to the application."""
        self._begin("body")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Add a piece of the content."""
        self._spent = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._begin(None)
        super().on_message_complete()

    @property
    def answering(self) -> bool:
        """Tell whether an answer was begun, and is not complete."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_started and not cycle.response_complete

    def pause_writing(self) -> None:
        """Set a time limit for a client that does not read."""
        super().pause_writing()
        self._stall = self.loop.call_later(self.limits.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Resume: the client reads again."""
        self._end_stall()
        super().resume_writing()

    def _end_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request, before the application."""
        self._refuse(400, "Bad Request", msg)

    def _begin(self, part: Literal["head", "body", None]) -> None:
        self._part, self._spent = part, 0
        self._changes += 1

    def _set_deadline(self) -> None:
        """Set the time limit of the part that is being read."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._part is not None:
            seconds = self.limits.head_seconds if self._part == "head" else self.limits.body_seconds
            self._timer = self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self._part == "head" and not self._spent:
            self.transport.close()  # without a request there is no answer
        elif not self.transport.is_closing():
            self._refuse(408, "Request Timeout", "The request took too long to arrive.")

    def _refuse(self, status: int, reason: str, msg: str) -> None:
        """Refuse a request and close the connection; cut it where another answer is on its way."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and (cycle.response_started if self._part == "body" else not cycle.response_complete):
            self.transport.abort()
            return
        headers = {
            **SECURITY,
            "content-type": "text/plain",
            "content-length": str(len(msg)),
            "connection": "close",
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 {status} {reason}\r\n{lines}\r\n{msg}".encode("ascii"))
        self.transport.close()


LIMITS = Limits()


def limited_protocol(limits: Limits) -> type[Protocol]:
    """Return the protocol with these limits."""
    return type("Protocol", (Protocol,), {"limits": limits})

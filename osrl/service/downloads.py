"""Downloads: a few at a time, each for a limited time.

A log is read and sent in parts, never copied. A file that must be made first has no name, so that it is gone
with the connection that reads it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from osrl.errors import StorageBusy
from osrl.service.blocking import in_thread
from osrl.service.problems import Refusal

MAX_DOWNLOADS = 4  # at the same time
MAX_SECONDS = 600.0  # that a download may take
_PIECE_BYTES = 2**18  # of a file that are sent at once


class Parts(NamedTuple):
    """The parts of a file, and a function that closes it."""

    content: Iterator[bytes]
    close: Callable[[], object] = lambda: None


class Downloads:
    """The number of downloads that are being made or sent."""

    def __init__(self) -> None:
        self.open = 0

    def enter(self) -> None:
        """Count one more download; refuse it where there are too many."""
        if self.open >= MAX_DOWNLOADS:
            error = StorageBusy(f"{MAX_DOWNLOADS} downloads are being sent; come back when one of them is done")
            raise Refusal(429, error, {"Retry-After": "10"})
        self.open += 1

    def leave(self) -> None:
        """Count one download less."""
        self.open -= 1


class Download(StreamingResponse):
    """A file that is sent in parts, and cut off where that takes too long; ``done`` is called at its end."""

    def __init__(self, parts: Parts, done: Callable[[], object], *, name: str, **given: Any) -> None:
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        super().__init__(_in_threads(parts.content), headers=headers, **given)
        self._parts, self._done = parts, done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts."""
        try:
            async with asyncio.timeout(MAX_SECONDS):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            return  # the answer is not complete, so that the server closes the connection
        finally:
            self._parts.close()
            self._done()


async def _in_threads(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (part := await in_thread(lambda: next(parts, None))) is not None:
        yield part


def temporary_file(suffix: str, write: Callable[[Path], object]) -> Parts:
    """Write a file, open it, and remove its name; return its content in parts."""
    with tempfile.TemporaryDirectory(prefix="osrl-") as folder:
        path = Path(folder) / f"file.{suffix}"
        write(path)
        file: IO[bytes] = path.open("rb")
    return Parts(iter(lambda: file.read(_PIECE_BYTES), b""), file.close)

"""Files that are sent: a few at a time, and each for a limited time.

What can be read in parts is never copied. Where a file must be made first, it has no name, so that it is gone
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
from osrl.service.problems import Problem

MOST = 4  # downloads at a time
LONGEST = 600.0  # seconds that one may take
_PIECE = 2**18  # bytes of a file that are sent at once


class Parts(NamedTuple):
    """What is to be sent, and what lets go of it."""

    content: Iterator[bytes]
    close: Callable[[], object] = lambda: None


class Downloads:
    """The downloads that are being made or sent."""

    def __init__(self) -> None:
        self.open = 0

    def enter(self) -> None:
        """Take a place; refused where there is none."""
        if self.open >= MOST:
            error = StorageBusy(f"{MOST} downloads are being sent; come back when one of them is done")
            raise Problem(429, error, {"Retry-After": "10"})
        self.open += 1

    def leave(self) -> None:
        """Give a place back."""
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
            async with asyncio.timeout(LONGEST):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            return  # the answer is not complete, so that the server closes the connection
        finally:
            self._parts.close()
            self._done()


async def _in_threads(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (part := await in_thread(lambda: next(parts, None))) is not None:
        yield part


def made_file(suffix: str, write: Callable[[Path], object]) -> Parts:
    """A file that is written, opened, and has no name any more."""
    with tempfile.TemporaryDirectory(prefix="osrl-") as folder:
        path = Path(folder) / f"file.{suffix}"
        write(path)
        file: IO[bytes] = path.open("rb")
    return Parts(iter(lambda: file.read(_PIECE), b""), file.close)

"""Work that may block, in threads that the server does not wait for when it ends.

It would wait for the threads of asyncio, and a forecast or a verification may take minutes. These threads write
a file whole or not at all, so that they may be left behind.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class ThreadFailed(Exception):  # noqa: N818 - the error is its cause
    """A thread ended by something that is no `Exception`, such as a panic of polars."""


def as_exception(error: BaseException) -> Exception:
    """Return an error that a future can hold: waiting must end, whatever has happened."""
    if isinstance(error, Exception):
        return error
    failure = ThreadFailed(f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


async def in_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread and return its result."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: Exception | None) -> None:
        if answer.done():  # the caller has gone
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = function()
        except BaseException as error:
            failure = as_exception(error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(deliver, result, failure)

    threading.Thread(target=run, name="osrl reading", daemon=True).start()
    return await answer

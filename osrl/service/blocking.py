"""Work that may block, in threads that nobody waits for when the server ends.

The threads of asyncio are waited for, and a forecast or a verification may take minutes. What they write is
written whole or not at all, so that they may be left behind.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class ThreadFailed(Exception):  # noqa: N818 - the error is its cause
    """What ended a thread and is no `Exception`, such as a panic of polars."""


def as_exception(error: BaseException) -> Exception:
    """An error that may be handed to whoever waits for a thread: waiting must end, whatever has happened."""
    if isinstance(error, Exception):
        return error
    failure = ThreadFailed(f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


async def in_thread(function: Callable[[], T]) -> T:
    """What a function returns, while others go on."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: Exception | None) -> None:
        if answer.done():  # nobody waits any more
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

"""Who calls: known where a call comes over HTTP with a token, and written into the events that it causes.

It goes beside ``by``, which is what the caller says. Local calls have no identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Caller(NamedTuple):
    """The id of a token; ``blind``: its bearer must not learn what others have told."""

    token: str
    blind: bool


_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller() -> Caller | None:
    """Return who calls now; None for a local call."""
    return _CALLER.get()


@contextmanager
def acting_as(who: Caller | None) -> Iterator[None]:
    """Let what is done in the block be done by somebody; by nobody, where it follows from a rule."""
    before = _CALLER.set(who)
    try:
        yield
    finally:
        _CALLER.reset(before)

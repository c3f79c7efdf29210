"""The identity of a caller over HTTP, written into the events of the call (``via``).

It stands beside ``by``, the name that the caller gives. Local calls have no identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Caller(NamedTuple):
    """The id of a token; ``blind``: its bearer must not learn the results of others."""

    token: str
    blind: bool


_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller() -> Caller | None:
    """Return the current caller; None for a local call."""
    return _CALLER.get()


@contextmanager
def acting_as(who: Caller | None) -> Iterator[None]:
    """Set the caller for a block; None where its events follow from a rule of the study."""
    before = _CALLER.set(who)
    try:
        yield
    finally:
        _CALLER.reset(before)

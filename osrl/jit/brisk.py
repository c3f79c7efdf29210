"""`briskly`: a quicker compiler, for what the package compiles. Its machine code is the same.

Three things took a third of its time:

- Python's collector of cycles walks again and again over the many objects that a compilation holds on to.
- Whether the options of two functions are equal, which is asked for each candidate of each operation, is
  found out by looking up some thirty attributes of both.
- Python keeps the frames of calls in chunks of 16 kB, and a loop of calls just where one is full maps and
  unmaps the next in every turn: 680,000 times for one policy. A caller with a large frame makes room for
  those of all that it calls.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from numba.core.targetconfig import TargetConfig

ROOM = 1 << 16  # slots of a frame, of eight bytes; as many again are left for what is called
R = TypeVar("R")

compiling = threading.RLock()
_depth = 0


def briskly(compile: Callable[..., R], *values: Any) -> R:
    """``compile(*values)``, quicker; afterwards all is as it was."""
    with compiling, _spared():  # the compiler has a lock of its own: two threads would not be quicker
        return _with_room(compile, values)


def _with_room(compile: Callable[..., R], values: tuple[Any, ...]) -> R:
    return compile(*values)


_with_room.__code__ = _with_room.__code__.replace(co_stacksize=ROOM)


@contextmanager
def _spared() -> Iterator[None]:
    """Without collections, and with options that are compared quickly."""
    global _depth
    collects, slow = gc.isenabled(), (TargetConfig.__eq__, TargetConfig.__hash__)
    _depth += 1
    if _depth == 1:
        gc.disable()
        TargetConfig.__eq__, TargetConfig.__hash__ = _equal, _hash  # type: ignore[method-assign]
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            TargetConfig.__eq__, TargetConfig.__hash__ = slow  # type: ignore[method-assign]
            if collects:
                gc.enable()


def _equal(self: Any, other: object) -> Any:
    """Whether all options have the same values: those that are set, and the defaults of the others."""
    if self is other:
        return True
    if not isinstance(other, TargetConfig):
        return NotImplemented
    ours, theirs = self._values, other._values
    return ours == theirs or self.values() == other.values()  # type: ignore[no-untyped-call]


def _hash(self: Any) -> int:
    """A hash of the names of those options that are not at their defaults."""
    kind: Any = type(self)
    defaults = _defaults(kind)
    return hash(frozenset(name for name, value in self._values.items() if value != defaults[name]))


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    return {name: option.default for name, option in kind.options.items()}

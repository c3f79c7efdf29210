"""The arrays of a policy's state, by name: what a design changed, what a snapshot holds.

A state is a named tuple of arrays, numbers and other named tuples. The same array may stand in it
twice; it then has two names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


def arrays_of(state: Any, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield every array of a state, with its name: ``weights``, ``outcome.status``."""
    for name, part in zip(state._fields, state, strict=True):
        if isinstance(part, np.ndarray):
            yield prefix + name, part
        elif hasattr(part, "_fields"):
            yield from arrays_of(part, f"{prefix}{name}.")


def contents(state: Any) -> dict[str, NDArray[Any]]:
    """Return a copy of every array of a state."""
    return {name: array.copy() for name, array in arrays_of(state)}


def as_bytes(state: Any) -> dict[str, bytes]:
    """Return the content of every array of a state."""
    return {name: array.tobytes() for name, array in arrays_of(state)}


def digest(arrays: Mapping[str, bytes]) -> str:
    """Return a short digest of the content of arrays, bit for bit."""
    parts = [part for name, content in arrays.items() for part in (_label(name), content)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


@lru_cache(maxsize=1024)
def _label(name: str) -> bytes:
    """Return the bytes that stand before the content of an array."""
    return name.encode() + b"\0"


def differences(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> list[str]:
    """Return the names of the arrays that are not the same, bit for bit."""
    return [name for name in one if one[name].tobytes() != other[name].tobytes()]

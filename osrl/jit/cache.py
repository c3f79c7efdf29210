"""Numba's cache of machine code, which may fail: what cannot be read is discarded, and made again.

Each file begins with a digest of the rest, so that one that is empty, cut or damaged is noticed before any of
it is used. Numba's configuration is changed only while a cache is made, so the caches of other packages stay
where they are.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from osrl.jit.fingerprint import StampError, stamp
from osrl.jit.mode import COMPILED, log_once, process

configuring = threading.RLock()
_SEAL = hashlib.sha256().digest_size  # bytes at the beginning of a file
# What Numba reads from the environment, and what changes the machine code that it makes.
_SETTINGS = (
    "OPT",
    "LOOP_VECTORIZE",
    "SLP_VECTORIZE",
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "LLVM_REFPRUNE_PASS",
    "LLVM_REFPRUNE_FLAGS",
)


class NotAtHand(Exception):  # noqa: N818 - not an error: it is interpreted
    """The disk has no machine code that can be used, and this process does not compile."""


class DamagedError(ValueError):
    """A file that is not as it was written."""


def cache_for(function: Callable[..., Any], options: dict[str, Any], folder: Path | None, owner: object = None) -> Any:
    """The cache of a function in a folder; one that keeps nothing where there is none, or it cannot be used.

    Machine code of a function outside the package counts for the same stamp of its ``owner`` only.
    """
    if folder is None:
        return NullCache()
    try:
        with _caching_in(folder):
            cache = _OwnCache(function) if owner is None else _StampedCache(function, owner)
        if folder not in Path(cache.cache_path).parents:  # Numba has gone to another place
            raise OSError(f"{folder} cannot be written")
    except Exception as error:
        log_once("machine code is not kept", error)
        return NullCache()
    cache.compiled_with = (tuple(sorted(options.items())), *_versions())
    return cache


def keeps(cache: Any, signature: Any) -> bool:
    """Whether the disk has machine code for a signature."""
    return isinstance(cache, _Cache) and cache.keeps(signature)


def _versions() -> Iterator[str]:
    """What machine code depends on besides its source and the processor: versions and settings."""
    yield from (llvmlite.__version__, np.__version__)
    yield from (str(getattr(config, name, None)) for name in _SETTINGS)


class _File(IndexDataCacheFile):
    """The index of a function, and a file for the machine code of each signature, all with digests."""

    def save(self, key: Any, data: Any) -> None:
        """Keep data under a key; its name is that of the key, so that two processes do not take the same."""
        overloads = self._load_index()
        name = hashlib.sha256(self._dump(key)).hexdigest()[:16]  # type: ignore[no-untyped-call]
        overloads[key] = f"{os.path.basename(self._index_path).removesuffix('.nbi')}.{name}.nbc"
        self._save_data(overloads[key], data)
        self._save_index(overloads)

    def _load_index(self) -> dict[Any, str]:
        try:
            content = io.BytesIO(_read(self._index_path))
        except FileNotFoundError:
            return {}
        if pickle.load(content) != self._version:
            return {}
        source, overloads = pickle.load(content)
        return overloads if source == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        about = self._dump((self._source_stamp, overloads))  # type: ignore[no-untyped-call]
        self._write(self._index_path, pickle.dumps(self._version) + about)

    def _load_data(self, name: str) -> Any:
        return pickle.loads(_read(os.path.join(self._cache_path, name)))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(os.path.join(self._cache_path, name), self._dump(data))  # type: ignore[no-untyped-call]

    def _write(self, path: str, content: bytes) -> None:
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def discard(self) -> None:
        """Remove the files of this function, as far as that is possible."""
        base = Path(self._index_path.removesuffix(".nbi"))
        with suppress(OSError):
            for path in [*base.parent.glob(f"{base.name}.*.nbc"), Path(self._index_path)]:
                path.unlink(missing_ok=True)


def _read(path: str) -> bytes:
    """What a file holds after its digest."""
    content = Path(path).read_bytes()
    if hashlib.sha256(content[_SEAL:]).digest() != content[:_SEAL]:
        raise DamagedError(f"{path} is damaged")
    return content[_SEAL:]


class _Cache(FunctionCache):
    """Numba's cache of a function, from which no error comes."""

    compiled_with: tuple[Any, ...] = ()

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        source = self._impl.locator.get_source_stamp()
        self._cache_file: Any = _File(self._cache_path, self._impl.filename_base, source)  # type: ignore[no-untyped-call]

    def keeps(self, signature: Any) -> bool:
        """Whether the disk has machine code for a signature."""
        try:
            key = self._index_key(signature, numba.core.registry.cpu_target.target_context.codegen())
            return key in self._cache_file._load_index()
        except Exception as error:
            self._failed(error)
            return False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature; where there is none, None tells Numba to compile."""
        found = None
        try:
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception as error:  # a file may hold anything
            self._failed(error)
        if found is None and process.way != COMPILED:
            raise NotAtHand
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, if that is possible."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except Exception as error:  # a full disk, a folder that is gone
            if not isinstance(error, StampError):
                log_once("machine code is not kept", error)

    def _failed(self, error: Exception) -> None:
        """Discard what cannot be loaded, unless that is not the fault of the files."""
        if isinstance(error, StampError):
            return
        log_once("machine code that cannot be loaded is made again", error)
        if not isinstance(error, MemoryError):
            self._cache_file.discard()

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), self.compiled_with)  # type: ignore[no-untyped-call]


class _OwnCache(_Cache):
    """The cache of a function of the package: machine code for types of others is not kept in it.

    A rule of the package may be paired with one from outside; without that, the index could not be read.
    """

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, unless a type in its signature is from outside the package."""
        if not any(map(_from_outside, getattr(sig, "args", sig))):
            super().save_overload(sig, data)


def _from_outside(kind: Any) -> bool:
    """Whether a type is, or holds, a named tuple that is defined outside the package."""
    made = getattr(kind, "instance_class", None)
    if made is not None and made.__module__.partition(".")[0] != __name__.partition(".")[0]:
        return True
    parts = (*getattr(kind, "types", ()), *getattr(getattr(kind, "signature", None), "args", ()))
    return any(map(_from_outside, parts))


class _StampedCache(_Cache):
    """The cache of a function outside the package: machine code counts for the same stamp only."""

    def __init__(self, function: Callable[..., Any], owner: object) -> None:
        super().__init__(function)
        self._owner = owner

    def _failed(self, error: Exception) -> None:
        if isinstance(error, ImportError | AttributeError):  # it holds a type that is gone
            self._cache_file.discard()
        else:
            super()._failed(error)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), stamp(self._owner))


@contextmanager
def _caching_in(folder: Path) -> Iterator[None]:
    """Numba's configuration, with ``folder`` for the cache that is made now."""
    with configuring:
        before = getattr(config, "CACHE_DIR")  # noqa: B009 - set by numba at run time, unknown to checkers
        setattr(config, "CACHE_DIR", str(folder))  # noqa: B010
        try:
            yield
        finally:
            setattr(config, "CACHE_DIR", before)  # noqa: B010

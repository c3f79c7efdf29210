"""`kernel`: compile a function with Numba, with an on-disk cache that can be trusted.

Numba's own cache goes stale when a function in *another* file is edited: the caller keeps
running the old code. Here the cache folder is named after a digest of every kernel source of
the package, so that any edit starts an empty cache, for callers and callees alike.

The folder is ``$NUMBA_CACHE_DIR/osrl-<digest>`` where that variable is set, otherwise
``~/.cache/osrl/<digest>`` (or ``$XDG_CACHE_HOME``). Numba's configuration is changed only
while a kernel is being declared, so the caches of other packages stay where they are.
With ``NUMBA_DISABLE_JIT=1`` kernels are plain Python functions.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import config, event

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = Path(__file__).parent


def source_digest(package: Path = _PACKAGE) -> str:
    """Digest of every source file below ``package`` that declares a kernel."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if b"@kernel" in text:
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + text)
    return digest.hexdigest()[:16]


def _cache_folder() -> Path:
    """A writable folder of our own, named after the kernel sources."""
    name = source_digest()
    if os.environ.get("NUMBA_CACHE_DIR"):
        wanted = Path(os.environ["NUMBA_CACHE_DIR"]) / f"osrl-{name}"
    else:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        wanted = Path(root) / "osrl" / name
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except OSError:
        return Path(tempfile.mkdtemp(prefix="osrl-kernels-"))


CACHE_FOLDER = _cache_folder()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` in nopython mode and cache the machine code on disk."""
    before = getattr(config, "CACHE_DIR")  # noqa: B009 - set by numba at run time, unknown to checkers
    setattr(config, "CACHE_DIR", str(CACHE_FOLDER))  # noqa: B010
    try:
        compiled: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    finally:
        setattr(config, "CACHE_DIR", before)  # noqa: B010
    return compiled


class _FirstCompilation(event.Listener):
    """Tells the reader of a terminal, once, why the first call takes some seconds."""

    def __init__(self) -> None:
        self.told = False

    def on_start(self, event: Any) -> None:
        if not self.told and event.data["dispatcher"].py_func.__module__.startswith("osrl."):
            self.told = True
            print("osrl: compiling its kernels, once for this version ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        pass


if sys.stderr is not None and sys.stderr.isatty():
    event.register("numba:compile", _FirstCompilation())  # type: ignore[no-untyped-call]

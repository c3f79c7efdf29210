"""`kernel`: compile a function with Numba, with an on-disk cache that can be trusted.

Numba's own cache goes stale when a function in *another* file is edited: the caller keeps
running the old code. Here the cache folder is named after a digest of every kernel source of
the package, so that any edit starts an empty cache, for callers and callees alike. Kernels that
others declare with it, such as those of a policy, have a folder of their own inside it, named
after their sources in the same way.

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


_OUTSIDE: dict[str, str] = {}  # digests of the files outside the package that have declared kernels


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` in nopython mode and cache the machine code on disk."""
    return _compile(function, _folder_for(function.__code__.co_filename, function.__module__))


def kernel_in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function``, which makes no arrays, without counting references to those it is given.

    A kernel counts the references to every array of a named tuple that outlives a branch, which costs
    more than most rules of a policy. This one borrows its arguments instead. It must not make an
    array, which the compiler refuses, nor call a kernel that returns one, which would never be freed.
    """
    return _compile(function, _folder_for(function.__code__.co_filename, function.__module__), counts=False)


def kernel_for(function: Callable[P, R], module: str) -> Callable[P, R]:
    """The kernel ``function`` of the package, for types that ``module`` outside of it defines.

    The machine code holds kernels of that module, so it is cached beside theirs.
    """
    plain = getattr(function, "py_func", function)
    folder = _folder_for(getattr(sys.modules[module], "__file__", None) or "", module)
    declared = getattr(function, "targetoptions", {})  # those of Numba; none without the JIT
    return _compile(plain, folder, counts=declared.get("_nrt", True))


def _folder_for(file: str, module: str) -> Path | None:
    """Where to cache machine code of ``module``; None for what another process cannot import.

    Outside the package a kernel may call those of its own file and of files that were imported
    before it: the folder is named after all of them.
    """
    if Path(file).is_relative_to(_PACKAGE):
        return CACHE_FOLDER
    if module == "__main__" or not Path(file).is_file():
        return None
    if file not in _OUTSIDE:
        _OUTSIDE[file] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return CACHE_FOLDER / f"outside-{outside_digest()}"


def outside_digest() -> str:
    """Digest of every source file outside the package that has declared a kernel in this process."""
    return hashlib.sha256("".join(sorted(_OUTSIDE.values())).encode()).hexdigest()[:16]


def _compile(function: Callable[P, R], folder: Path | None, counts: bool = True) -> Callable[P, R]:
    """Hand ``function`` to Numba, with ``folder`` as its cache; ``counts``: the references to arrays."""
    before = getattr(config, "CACHE_DIR")  # noqa: B009 - set by numba at run time, unknown to checkers
    setattr(config, "CACHE_DIR", str(folder))  # noqa: B010
    try:
        options = {"cache": folder is not None, "nogil": True, "error_model": "numpy", "_nrt": counts}
        compiled: Callable[P, R] = numba.njit(**options)(function)  # type: ignore[call-overload]
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

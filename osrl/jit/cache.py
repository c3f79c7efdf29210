"""Machine code on the disk: a folder for each version of the package's kernels, a sealed file for each signature.

Any edit of a kernel starts an empty folder, for its callers in other files too. Only kernels of the package are kept,
and only for types of the package. Nothing depends on the files: each begins with a digest of the rest, one that is
damaged is discarded and made again, and a full disk keeps nothing. What is in the folder is run, so it is used only if
nobody else can write to it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from osrl.jit.mode import COMPILED, current_mode, log_once

PACKAGE = Path(__file__).parents[1]
_COMPILER = ("jit/kernels.py", "jit/linking.py", "jit/backend.py")  # how kernels are compiled, besides what they are
_SEAL = hashlib.sha256().digest_size  # bytes at the beginning of a file
# What Numba reads from the environment, and what changes the machine code that it makes.
_SETTINGS = "OPT LOOP_VECTORIZE SLP_VECTORIZE BOUNDSCHECK DEBUGINFO_DEFAULT LLVM_REFPRUNE_PASS LLVM_REFPRUNE_FLAGS"


class NotOnDisk(Exception):  # noqa: N818 - not an error: the kernel is interpreted
    """The disk has no machine code that can be used, and this thread does not compile."""


class KernelCache:
    """The machine code of one kernel on the disk, with the interface of Numba's caches."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], folder: Path) -> None:
        code = function.__code__
        self._name = f"{function.__module__.removeprefix('osrl.')}.{function.__name__}"
        self._key = repr((self._name, code.co_firstlineno, sorted(options.items()), *_versions()))
        self._folder = folder
        self.cache_path = str(folder)  # what Numba calls it

    @classmethod
    def of(cls, function: Callable[..., Any], options: dict[str, Any]) -> KernelCache | None:
        """Return the cache of a kernel of the package; None for others, and where there is no folder."""
        file = function.__code__.co_filename
        folder = cache_folder() if file.startswith(os.path.join(PACKAGE, "")) else None
        return None if folder is None else cls(function, options, folder)

    def has(self, signature: Any) -> bool:
        """Tell whether the disk has machine code for a signature."""
        path = self._path(signature)
        return path is not None and path.exists()

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the machine code for a signature; None lets Numba compile."""
        path, found = self._path(signature), None
        if path is not None and path.exists():
            try:
                found = _rebuild(path.read_bytes(), target_context, path)
            except Exception as error:  # a file may hold anything
                log_once("machine code that cannot be loaded is made again", error)
                if not isinstance(error, MemoryError):
                    with suppress(OSError):
                        path.unlink(missing_ok=True)
        if found is None and current_mode() != COMPILED:
            raise NotOnDisk
        return found

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep machine code, if that is possible."""
        from numba.core import serialize

        path = self._path(signature)
        if path is None or result.library.has_dynamic_globals:
            return
        mine = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            content: bytes = serialize.dumps(result._reduce())  # type: ignore[no-untyped-call]
            mine.write_bytes(hashlib.sha256(content).digest() + content)
            mine.replace(path)
        except Exception as error:  # a full disk, a folder that is gone
            log_once("machine code is not kept", error)
            with suppress(OSError):
                mine.unlink(missing_ok=True)

    def _path(self, signature: Any) -> Path | None:
        """Return where the machine code for a signature is; None where it cannot be kept."""
        try:
            kinds = "; ".join(map(_describe, getattr(signature, "args", signature)))
        except _OutsideError:
            return None
        return self._folder / f"{self._name}-{hashlib.sha256((self._key + kinds).encode()).hexdigest()[:24]}.nbc"


class _OutsideError(Exception):
    """A type is defined outside the package: another process may give its name to something else."""


def _describe(kind: Any) -> str:
    """Return a text that tells types apart; named tuples by their modules, not only by their names."""
    made = getattr(kind, "instance_class", None)
    if made is not None and made.__module__.partition(".")[0] != "osrl":
        raise _OutsideError
    name = str(kind) if made is None else f"{made.__module__}.{made.__qualname__}"
    parts = (*getattr(kind, "types", ()), *getattr(getattr(kind, "signature", None), "args", ()))
    return f"{name}({', '.join(map(_describe, parts))})" if parts else name


@functools.cache
def _versions() -> tuple[str, ...]:
    """Return what machine code depends on besides its source: versions, settings and the processor."""
    import llvmlite
    import numba
    import numpy as np
    from numba.core import config, registry

    processor: Any = registry.cpu_target.target_context.codegen().magic_tuple()
    settings = (f"{name}={getattr(config, name, None)}" for name in _SETTINGS.split())
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.implementation.cache_tag or "")
    return (*versions, *settings, repr(processor))


def _rebuild(content: bytes, target_context: Any, path: Path) -> Any:
    """Return the machine code that a file holds."""
    from numba.core.compiler import CompileResult

    if hashlib.sha256(content[_SEAL:]).digest() != content[:_SEAL]:
        raise ValueError(f"{path} is damaged")
    target_context.refresh()
    return CompileResult._rebuild(target_context, *pickle.loads(content[_SEAL:]))  # type: ignore[no-untyped-call]


# The folder -----------------------------------------------------------------------------------------------


def source_digest(package: Path = PACKAGE) -> str:
    """Return a digest of every source file below ``package`` that declares a kernel, or says how one is compiled."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text, name = path.read_bytes(), path.relative_to(package).as_posix()
        if b"@kernel" in text or name in _COMPILER:
            digest.update(name.encode() + b"\0" + text)
    return digest.hexdigest()[:16]


_DIGEST = source_digest()  # of what is imported now, not of what the files hold later


def kernel_version() -> str:
    """Return the version of the package's kernels in this process."""
    return _DIGEST


@functools.cache
def cache_folder() -> Path | None:
    """Return where machine code is kept: ``$NUMBA_CACHE_DIR/osrl-<version>``, or below ``~/.cache/osrl``.

    None where that cannot be written, or somebody else could write to it: then nothing is kept.
    """
    try:
        wanted = _wanted_folder()
        for each in reversed([each for each in (wanted, *wanted.parents) if not each.exists()]):
            each.mkdir(mode=0o700, exist_ok=True)
        why = _why_unsafe(wanted)
        if why is None:
            with tempfile.TemporaryFile(dir=wanted):
                return wanted
    except (OSError, RuntimeError) as error:  # no home, no room, no right
        why = str(error)
    log_once("machine code is not kept: the folder for it cannot be used", why)
    return None


def _wanted_folder() -> Path:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"]).absolute() / f"osrl-{_DIGEST}"
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    own = Path(root).absolute() / "osrl"
    with suppress(OSError):  # earlier versions let the group write where the umask did
        own.chmod(own.stat().st_mode & 0o755)
    return own / _DIGEST


def _why_unsafe(folder: Path) -> str | None:
    """Return why somebody else could put code into a folder, or another folder in its place; None if nobody can."""
    if not hasattr(os, "geteuid"):
        return None
    own = folder.lstat()
    if not stat.S_ISDIR(own.st_mode) or own.st_uid != os.geteuid() or own.st_mode & 0o022:
        return f"{folder} belongs to another user, or others may write to it"
    for above in {*folder.parents, *folder.resolve().parents}:
        its = above.stat()
        shared = its.st_mode & 0o022 and not its.st_mode & stat.S_ISVTX
        if shared or its.st_uid not in (0, os.geteuid()):
            return f"others may replace what is in {above}"
    return None

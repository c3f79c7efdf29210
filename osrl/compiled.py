"""`kernel`: compile a function with Numba, with an on-disk cache that can be trusted.

Numba's own cache goes stale when a function in *another* file is edited: the caller keeps
running the old code. Here the cache folder is named after a digest of every kernel source of
the package, so that any edit starts an empty cache, for callers and callees alike. Kernels that
others declare with it, such as those of a policy, are found again by a `stamp` of their code in memory and
of all the code that it calls: they may be edited and loaded again in one process.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import config, event
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc

from osrl.linked import link_into_callers
from osrl.stamp import StampError, stamp

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


def _cache_folder(name: str) -> Path:
    """A writable folder of our own, with the name of the kernel sources."""
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


_DIGEST = source_digest()  # of what is imported now, not of what the files hold later
CACHE_FOLDER = _cache_folder(_DIGEST)


def kernel_version() -> str:
    """The version of the package's kernels in this process."""
    interpreted = getattr(config, "DISABLE_JIT")  # noqa: B009 - set by numba at run time, unknown to checkers
    return f"{_DIGEST}, interpreted" if interpreted else _DIGEST


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` in nopython mode and cache the machine code on disk."""
    return _compile(function, function, _folder_for(function.__code__.co_filename, function.__module__))


def kernel_in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function``, which makes no arrays, without counting references to those it is given.

    Counting them would make a round up to twice as slow, so what is called in every round is declared with it
    (a private option of Numba's); the compiler refuses what makes an array.
    """
    folder = _folder_for(function.__code__.co_filename, function.__module__)
    return _compile(function, function, folder, counts=False)


def kernel_for(function: Callable[P, R], owner: object, module: str) -> Callable[P, R]:
    """The kernel ``function`` of the package, for types that ``module`` outside of it defines.

    The machine code holds kernels of ``owner``, such as a policy: it is cached under the stamp of that.
    """
    plain = getattr(function, "py_func", function)
    folder = _folder_for(getattr(sys.modules.get(module), "__file__", None) or "", module)
    declared = getattr(function, "targetoptions", {})  # those of Numba; none without the JIT
    return _compile(plain, owner, folder, counts=declared.get("_nrt", True))


def direct(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, for calls by Python whose arguments have the types of the first call for good.

    Numba looks at the types of arguments in every call. For a named tuple of arrays that takes 4 to 10 µs,
    longer than most kernels run.
    """
    if not hasattr(function, "py_func"):
        return function
    dispatcher: Any = function
    entries: list[Callable[P, R]] = []

    def call(*values: P.args, **named: P.kwargs) -> R:
        if not entries:
            kinds = tuple(map(numba.typeof, values))
            known = dispatcher.overloads.get(kinds)  # without waiting for what others compile
            entries.append(dispatcher.compile(kinds) if known is None else known.entry_point)
        return entries[0](*values, **named)

    return call


def pointer_to(function: Callable[P, R], *values: object) -> Callable[P, R] | None:
    """A kernel of the package, for arguments like ``values``, as something to hand to another kernel.

    A kernel is compiled together with all that it calls, but not with what it calls through a pointer. It
    must return nothing. None without the JIT.
    """
    plain = getattr(function, "py_func", None)
    if plain is None:
        return None
    kinds = tuple(map(numba.typeof, values))
    pointer: Any = CFunc(plain, (kinds, numba.types.none), locals={}, options={"error_model": "numpy"})
    with _caching_in(CACHE_FOLDER):
        pointer._cache = _OwnCache(plain)
    pointer.compile()
    return pointer  # type: ignore[no-any-return]


def _folder_for(file: str, module: str) -> Path | None:
    """Where to cache machine code of ``module``; None for what another process cannot import."""
    if Path(file).is_relative_to(_PACKAGE):
        return CACHE_FOLDER
    if module == "__main__" or not Path(file).is_file():
        return None
    return CACHE_FOLDER / f"outside-{module}"


class _OwnCache(FunctionCache):
    """Numba's cache of a function of the package: machine code for types of others is not kept in it.

    A rule of the package may be paired with one from outside; without that, the index could not be read.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, unless a type in its signature is from outside the package."""
        if not any(map(_from_outside, getattr(sig, "args", sig))):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def _from_outside(kind: Any) -> bool:
    """Whether a type is, or holds, a named tuple that is defined outside the package."""
    made = getattr(kind, "instance_class", None)
    if made is not None and made.__module__.partition(".")[0] != __name__.partition(".")[0]:
        return True
    parts = (*getattr(kind, "types", ()), *getattr(getattr(kind, "signature", None), "args", ()))
    return any(map(_from_outside, parts))


class _StampedCache(FunctionCache):
    """Numba's cache of a function outside the package: machine code counts for the same stamp only."""

    def __init__(self, function: Callable[..., Any], owner: object) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._owner = owner

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature; None where there is none, or where the code has no stamp."""
        with suppress(StampError):
            try:
                return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            except (ImportError, AttributeError):  # it holds a type that is gone
                self.flush()  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, unless its source has no stamp."""
        with suppress(StampError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), stamp(self._owner))  # type: ignore[no-untyped-call]


def _compile(
    function: Callable[P, R], owner: object, folder: Path | None, counts: bool = True
) -> Callable[P, R]:
    """Hand ``function`` to Numba, with ``folder`` as its cache; ``counts``: the references to arrays."""
    with _caching_in(folder):
        options = {"nogil": True, "error_model": "numpy", "_nrt": counts}
        compiled: Any = numba.njit(**options)(function)  # type: ignore[call-overload]
        if compiled is not function:
            if folder is not None:
                ours = folder == CACHE_FOLDER
                compiled._cache = _OwnCache(function) if ours else _StampedCache(function, owner)
            link_into_callers(compiled, function, options)
    return compiled  # type: ignore[no-any-return]


@contextmanager
def _caching_in(folder: Path | None) -> Iterator[None]:
    """Numba's configuration, with ``folder`` for what is declared now."""
    before = getattr(config, "CACHE_DIR")  # noqa: B009 - set by numba at run time, unknown to checkers
    setattr(config, "CACHE_DIR", str(folder))  # noqa: B010
    try:
        yield
    finally:
        setattr(config, "CACHE_DIR", before)  # noqa: B010


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

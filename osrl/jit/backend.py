"""Machine code of a kernel, made by Numba for each list of argument types.

What is used of Numba's internals saves two thirds of the time to compile (`osrl.jit.linking`), keeps machine code on
the disk (`osrl.jit.cache`) and finds the types of a state quickly. All of it stands behind `is_linked`, which compiles
a small kernel with it: where that fails, as with a version of Numba that has changed, kernels are compiled with plain
`numba.njit`, more slowly, in every process, and with the same results.
"""

from __future__ import annotations

import gc
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numba.extending
import numpy as np

from osrl.jit import kernel, kernel_in_place
from osrl.jit.cache import KernelCache, NotOnDisk
from osrl.jit.kernels import Kernel, compiler_lock
from osrl.jit.mode import COMPILED, current_mode, log_once, long_job, process

Kinds = tuple[Any, ...]  # the types of arguments, as Numba describes them
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
MESSAGE = "osrl: compiling its kernels, once for this version"
_CLEAR = "\r\x1b[K"
_extending: Any = numba.extending
_numba: Any = numba
_kinds: dict[tuple[Any, ...], Any] = {}  # types of tuples, by Numba's short description and the classes
_linked: bool | None = None


class Backend:
    """The machine code of one kernel."""

    def __init__(self, kernel: Any) -> None:
        self._function, self._linked = kernel.py_func, is_linked()
        self._pointers: dict[Kinds, Any] = {}
        self._made: set[Kinds] = set()  # by plain `numba.njit`
        self._missing: set[tuple[Kinds, bool]] = set()  # on the disk
        if self._linked:
            from osrl.jit import linking

            self.dispatcher: Any = linking.new_dispatcher(self._function, kernel.counts_references)
        else:
            self.dispatcher = numba.njit(**OPTIONS)(self._function)

    def code(self, values: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Return machine code for arguments like these; None where it would have to be made and must not."""
        if not self._linked:
            return self._plain_code(values)
        kinds = tuple(map(_typeof, values))
        known = self.dispatcher.overloads.get(kinds)  # without waiting for what others compile
        if known is not None:
            return known.entry_point  # type: ignore[no-any-return]
        made: Callable[..., Any] | None = self._make(
            self.dispatcher._cache, kinds, lambda: self.dispatcher.compile(kinds), pointer=False
        )
        return made

    def pointer(self, values: tuple[Any, ...]) -> Any:
        """Return a pointer to machine code for arguments like these; None where there is none."""
        if not self._linked:
            return None
        kinds = tuple(map(_typeof, values))
        if kinds not in self._pointers:
            from osrl.jit import linking

            made = linking.new_pointer(self._function, kinds)
            self._make(made._cache, kinds, made.compile, pointer=True)
            if made.address is None:
                return None
            self._pointers[kinds] = made
        return self._pointers[kinds]

    def _plain_code(self, values: tuple[Any, ...]) -> Callable[..., Any] | None:
        if current_mode() != COMPILED:
            return None
        kinds = tuple(map(_numba.typeof, values))
        if kinds not in self._made:
            if _compile(lambda: self.dispatcher.compile(kinds)) is None:
                return None
            self._made.add(kinds)
        return self.dispatcher  # type: ignore[no-any-return]

    def _make(self, cache: Any, kinds: Kinds, compile: Callable[[], Any], pointer: bool) -> Any:
        """Call ``compile``, which loads machine code from the disk or makes it, if the mode allows it."""
        if current_mode() == COMPILED:
            on_disk = isinstance(cache, KernelCache) and cache.has(kinds)
            return _compile(compile, silent=on_disk)
        if (kinds, pointer) in self._missing:
            return None
        if isinstance(cache, KernelCache) and cache.has(kinds):
            return _compile(compile, silent=True)
        self._missing.add((kinds, pointer))
        return None


def _compile(compile: Callable[[], Any], silent: bool = False) -> Any:
    """Return what ``compile`` returns; None where the disk or the memory fail, and the kernel is interpreted."""
    try:
        with _compiling(silent):
            return compile()
    except NotOnDisk:  # what was on the disk is unusable, and was discarded
        return None
    except Exception as error:
        if not _is_of_the_system(error):
            raise
        process.do_without(error)
        return None


@contextmanager
def _compiling(silent: bool) -> Iterator[None]:
    """Compile alone, without collecting garbage, and with a line for who waits at a terminal."""
    with compiler_lock:  # Numba has a lock of its own: two threads would not be quicker
        collects = gc.isenabled()  # a collection walks over all that a compilation holds, again and again
        shown = not silent and sys.stderr is not None and sys.stderr.isatty()
        gc.disable()
        if shown:
            print(_CLEAR + MESSAGE, end="", file=sys.stderr, flush=True)
        try:
            yield
        finally:
            if collects:
                gc.enable()
            if shown:
                print(_CLEAR, end="", file=sys.stderr, flush=True)


def _is_of_the_system(error: BaseException | None) -> bool:
    """Tell whether an error comes from a lack of memory or disk, not from the code that was compiled."""
    while error is not None:
        if isinstance(error, MemoryError | OSError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _typeof(value: Any) -> Any:
    """Return the type of a value; that of a state takes as long to find as a short run, so it is remembered."""
    if not isinstance(value, tuple):
        return _numba.typeof(value)
    from osrl.jit.linking import compute_fingerprint

    try:
        mark = compute_fingerprint(value), *_classes(value)  # without classes it would mix up equal ones
    except NotImplementedError:  # it contains something that Numba cannot describe shortly
        return _numba.typeof(value)
    if mark not in _kinds:
        _kinds[mark] = _numba.typeof(value)
    return _kinds[mark]


def _classes(value: Any) -> Iterator[type]:
    """Yield the classes of a tuple and of those within it."""
    if isinstance(value, tuple):
        yield type(value)
        for part in value:
            yield from _classes(part)


def overload(function: Callable[..., Any], make: Callable[..., Any]) -> None:
    """Let compiled code that calls ``function`` call what ``make`` returns for the types of the arguments."""
    options = OPTIONS
    if is_linked():
        from osrl.jit import linking

        options = linking.INLINED
    _extending.overload(function, jit_options=options, strict=False)(make)


def is_pointer(kind: Any) -> bool:
    """Tell whether values of this type are pointers to functions."""
    return isinstance(kind, numba.types.FunctionType)


@_extending.typeof_impl.register(Kernel)  # type: ignore[untyped-decorator]
def _typeof_kernel(value: Any, _: object) -> Any:
    """Return the type of a kernel that is a global of another function."""
    return _numba.typeof(value.backend.dispatcher)


# The probe ------------------------------------------------------------------------------------------------


@kernel_in_place
def _add(values: Any, to: Any) -> None:
    for i in range(values.size):
        to[i] += values[i]


@kernel
def _add_twice(pair: Any, add: Any) -> float:
    add(pair[0], pair[1])
    _add(pair[0], pair[1])
    return pair[1].copy()[0]  # type: ignore[no-any-return]


def is_linked() -> bool:
    """Tell whether Numba's internals are as `osrl.jit.linking` expects, by compiling a kernel with them.

    The kernel is kept on the disk like any other, so this takes time once for each version. ``OSRL_JIT=plain`` says
    no without trying.
    """
    global _linked
    if _linked is None and os.environ.get("OSRL_JIT") == "plain":
        _linked = False
        log_once("plain numba.njit is used: compiling is slow, and nothing is kept", "OSRL_JIT=plain")
    if _linked is None:
        _linked = True  # for the kernels of the probe
        try:
            _linked = _probe()
        except (MemoryError, OSError):
            _linked = None
            raise
        except Exception as error:
            _linked = False
            log_once(f"Numba {numba.__version__} is not as expected: compiling is slow, and nothing is kept", error)
    return _linked


def _probe() -> bool:
    inner, outer, pair = Backend(_add), Backend(_add_twice), (np.ones(1), np.ones(1))
    probed: Any = _add
    probed._backend = inner
    with long_job(math.inf):  # whatever the mode, this is compiled
        pointer = inner.pointer(pair)
        code = outer.code((pair, pointer))
    if code is not None and code(pair, pointer) != 3.0:
        raise RuntimeError("a kernel gives a wrong result")
    return True

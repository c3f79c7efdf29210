"""What Numba makes of a kernel: machine code for each list of argument types, kept on disk.

Machine code of the package is in the folder of its kernels' version: Numba's own cache would go stale when a
function in *another* file is edited. Kernels that others declare, such as those of a policy, are found again
by a `stamp` of their code in memory and of all the code that it calls: they may be edited and loaded again in
one process (`osrl.jit.cache`). Where there is no memory for the compiler, kernels are interpreted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numba.experimental.function_type  # the types of pointers
from numba._dispatcher import compute_fingerprint
from numba.core import event
from numba.core.ccallback import CFunc
from numba.core.dispatcher import OmittedArg

from osrl.jit import compiling
from osrl.jit.brisk import briskly
from osrl.jit.cache import NotAtHand, cache_for, keeps
from osrl.jit.linking import link_into_callers
from osrl.jit.mode import COMPILED, cache_folder, process

# Numba makes this at first use, behind a lock that a fork would leave shut; here it is behind ours.
numba.core.registry.cpu_target.target_context  # noqa: B018

Kinds = tuple[Any, ...]  # the types of arguments, as Numba knows them
_KINDS: dict[bytes, Any] = {}  # types of tuples, by Numba's own short mark of what a type depends on


class Machine:
    """The machine code of one kernel: any, where the process compiles, otherwise what is on the disk."""

    def __init__(self, kernel: Any, owner: object, folder: Path | None) -> None:
        function, options = kernel.py_func, kernel.targetoptions
        self._kernel = kernel
        root = None if folder is None else cache_folder()
        self._folder = None if folder is None or root is None else root / folder
        self._pointers: dict[Kinds, Any] = {}
        self._missed: dict[tuple[Kinds, bool], int] = {}  # the epoch in which it was not on the disk
        self.dispatcher: Any = numba.njit(**options)(function)
        of_others = folder != Path()
        self.dispatcher._cache = cache_for(function, options, self._folder, owner if of_others else None)
        link_into_callers(self.dispatcher, function, options)
        self._compile_for = self.dispatcher._compile_for_args
        self.dispatcher._compile_for_args = self._meet  # what Numba calls for types that it has not met

    def _meet(self, *values: Any) -> Callable[..., Any]:
        """What to call for arguments of new types."""
        if process.way == COMPILED:
            return self._try(self._compile_for, *values) or self._interpret
        return self.make(tuple(map(_kind_of, values))) or self._interpret

    def _interpret(self, *values: Any) -> Any:
        given = (value.value if isinstance(value, OmittedArg) else value for value in values)
        return self._kernel.interpret(*given)

    def code(self, *values: Any) -> Callable[..., Any] | None:
        """Machine code to call with arguments like these; None where it is not at hand."""
        return self.make(tuple(map(_typeof, values)))

    def make(self, kinds: Kinds) -> Callable[..., Any] | None:
        """The same for types of arguments."""
        known = self.dispatcher.overloads.get(kinds)  # without waiting for what others compile
        if known is not None:
            return known.entry_point  # type: ignore[no-any-return]
        if not self._may(self.dispatcher._cache, kinds):
            return None
        return self._try(self.dispatcher.compile, kinds)  # type: ignore[no-any-return]

    def pointer(self, *values: Any) -> Any:
        """A pointer to machine code for arguments like these; None where it is not at hand."""
        return self.make_pointer(tuple(map(_typeof, values)))

    def make_pointer(self, kinds: Kinds) -> Any:
        """The same for types of arguments."""
        if kinds not in self._pointers:
            pointer = self._new_pointer(kinds)
            if not self._may(pointer._cache, kinds, pointer._sig):
                return None
            self._try(pointer.compile)
            if pointer.address is None:
                return None
            self._pointers[kinds] = pointer
        return self._pointers[kinds]

    def _try(self, compile: Callable[..., Any], *values: Any) -> Any:
        """What the compiler makes, or the disk holds; None where neither works out, and it is interpreted."""
        try:
            return briskly(compile, *values)
        except NotAtHand:  # what was on the disk is unusable; the next look finds that it is not there
            return None
        except Exception as error:
            if not _is_of_the_system(error):
                raise
            process.do_without(error)
            return None

    def _new_pointer(self, kinds: Kinds) -> Any:
        """A pointer that points nowhere yet."""
        function, signature, options = (
            self._kernel.py_func,
            (kinds, numba.types.none),
            {"error_model": "numpy"},
        )
        pointer: Any = CFunc(function, signature, locals={}, options=options)
        pointer._cache = cache_for(function, options, self._folder)
        return pointer

    def make_beside(self, caller: Machine, values: Sequence[Any], arguments: Sequence[Any]) -> None:
        """Make a pointer for ``values`` and the ``caller`` for ``arguments`` at once, where both are missing.

        Another process makes the pointer; None among the arguments is its place.
        """
        kinds = tuple(map(_typeof, values))
        if kinds in self._pointers:
            return
        pointer = self._new_pointer(kinds)
        of_caller = tuple(_typeof(pointer if value is None else value) for value in arguments)
        wanted = self._kernel.address is not None and not keeps(pointer._cache, pointer._sig)
        if wanted and not keeps(caller.dispatcher._cache, of_caller):
            wish = (*self._kernel.address, kinds, True)
            with announcement.to_the_end(), compiling.beside(wish, announcement.show):
                caller.make(of_caller)

    def _may(self, cache: Any, kinds: Kinds, signature: Any = None) -> bool:
        """Whether machine code may be made: by compiling, or from the disk. If not, it is asked for."""
        if process.way == COMPILED:
            return True
        as_pointer = signature is not None
        if self._missed.get((kinds, as_pointer)) == process.epoch:
            return False
        if keeps(cache, signature if as_pointer else kinds):
            return True
        self._missed[kinds, as_pointer] = process.epoch
        if self._kernel.address is not None:
            compiling.ask_for((*self._kernel.address, kinds, as_pointer))
        return False


def _is_of_the_system(error: BaseException | None) -> bool:
    """Whether an error comes from a lack of memory or of disk, not from the code that was compiled."""
    while error is not None:
        if isinstance(error, MemoryError | OSError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _typeof(value: Any) -> Any:
    """The type of a value. That of a state takes a run's worth of time to find, so it is found once."""
    typeof: Any = numba.typeof
    if not isinstance(value, tuple):
        return typeof(value)
    try:
        mark = compute_fingerprint(value)
    except NotImplementedError:  # something in it has a type that Numba looks up each time
        return typeof(value)
    if mark not in _KINDS:
        _KINDS[mark] = typeof(value)
    return _KINDS[mark]


def _kind_of(value: Any) -> Any:
    """The type of an argument, or of the default that stands for it."""
    types: Any = numba.types
    return types.Omitted(value.value) if isinstance(value, OmittedArg) else _typeof(value)


MESSAGE = "osrl: compiling its kernels, once for this version"
_CLEAR = "\r\x1b[K"


class Announcement(event.Listener):
    """One line for the reader of a terminal, who waits for the compiler; it goes when the wait is over."""

    def __init__(self, shown: bool = True) -> None:
        self._shown = shown
        self._depth = self._functions = self._turns = 0
        self._began = time.monotonic()

    def on_start(self, event: Any) -> None:
        """The compiler begins with a function, perhaps inside another one."""
        self._depth += 1
        if event.data["dispatcher"].py_func.__module__.startswith("osrl."):
            self._functions += 1
            self.show()

    def on_end(self, event: Any) -> None:
        """The compiler is done with it."""
        self._depth -= 1
        if self._depth == 0 and self._functions:
            self._write("")

    @contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Keep the line while this lasts, also between two functions."""
        self._depth += 1
        try:
            yield
        finally:
            self.on_end(None)

    def show(self) -> None:
        """The line, with its bar turned a little further."""
        self._turns += 1
        turn, seconds = "|/-\\"[self._turns % 4], time.monotonic() - self._began
        self._write(f"{MESSAGE} {turn} function {self._functions}, {seconds:.0f} s")

    def _write(self, words: str) -> None:
        if self._shown:
            sys.stderr.write(_CLEAR + words)
            sys.stderr.flush()


announcement = Announcement(shown=sys.stderr is not None and sys.stderr.isatty())
event.register("numba:compile", announcement)  # type: ignore[no-untyped-call]

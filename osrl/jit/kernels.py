"""`kernel`: a function that is plain Python while there is little to do, and machine code when there is much.

It is written in the part of Python that Numba compiles, so it can run in both ways (`osrl.jit.mode` decides). This
module does not import Numba; `osrl.jit.backend` does, when machine code is first needed.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from osrl.jit.mode import INTERPRETED, count_seconds, current_mode, long_job, process, thread

__all__ = ["Kernel", "kernel", "kernel_in_place", "long_job"]

P = ParamSpec("P")
R = TypeVar("R")

compiler_lock = threading.RLock()  # held while something is compiled; taken before Numba's own
_loading = threading.RLock()  # held while Numba is loaded or a backend made; taken last
_held: list[Any] = []  # locks that are held while the process forks
_specialised: list[tuple[Callable[..., Any], Callable[..., Any]]] = []  # not yet known to Numba


class Kernel(Generic[P, R]):
    """A function to call from Python and from other kernels.

    ``counts_references``: whether Numba counts references to the arrays that it handles.
    """

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[P, R], counts_references: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.counts_references = counts_references
        self._arguments = function.__code__.co_argcount
        self._backend: Any = None

    def __call__(self, *values: P.args, **named: P.kwargs) -> R:
        """Run it in the current mode; what an interpreted kernel calls is interpreted too."""
        if thread.interpreting:
            return self.py_func(*values, **named)
        if current_mode() == INTERPRETED:
            return self.interpret(*values, **named)
        if named or len(values) < self._arguments:
            bound = inspect.signature(self.py_func).bind(*values, **named)
            bound.apply_defaults()
            values = bound.args  # type: ignore[assignment]
        code = self.code(*values)
        return self.interpret(*values) if code is None else code(*values)  # type: ignore[call-arg]

    def __reduce__(self) -> str:
        return self.__qualname__  # copied and pickled by its name, like a function

    def interpret(self, *values: P.args, **named: P.kwargs) -> R:
        """Run it as plain Python, with the arithmetic of machine code and without warnings."""
        began = time.thread_time()
        thread.interpreting = True
        try:
            with np.errstate(all="ignore"):
                found = self.py_func(*values, **named)
        finally:
            thread.interpreting = False
            count_seconds(time.thread_time() - began)
        return cast(R, found.item()) if isinstance(found, np.generic) else found

    @property
    def backend(self) -> Any:
        """Return the `osrl.jit.backend.Backend`, made at first use; None where Numba cannot be loaded."""
        if self._backend is None:
            try:
                backend = _load_numba()
                with _loading:
                    if self._backend is None:
                        self._backend = backend.Backend(self)
            except (ImportError, OSError, MemoryError) as error:
                process.do_without(error)
        return self._backend

    def code(self, *values: object) -> Callable[..., R] | None:
        """Return machine code for arguments like these; None where the mode does not allow to make it."""
        return None if current_mode() == INTERPRETED or self.backend is None else self.backend.code(values)


def _load_numba() -> Any:
    """Return `osrl.jit.backend`, after telling Numba what was given to `specialise`."""
    if "osrl.jit.backend" not in sys.modules:
        with compiler_lock, _loading:
            from osrl.jit import backend

            backend.is_linked()  # compiles, so under the first lock
    from osrl.jit import backend

    with _loading:
        while _specialised:
            backend.overload(*_specialised.pop())
    return backend


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Declare a kernel. Machine code of the package's own kernels is kept on the disk."""
    return function if process.switched_off else Kernel(function, counts_references=True)


def kernel_in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Declare a kernel that makes and returns no arrays, and is compiled without counting references to them.

    Counting makes a round up to twice as slow, so what is called in every round is declared with this.
    """
    return function if process.switched_off else Kernel(function, counts_references=False)


def specialise(function: Callable[..., Any], make: Callable[..., Any]) -> None:
    """Let compiled code that calls ``function`` call what ``make`` returns for the types of the arguments."""
    with _loading:
        _specialised.append((function, make))


def direct(function: Callable[..., R]) -> Callable[..., R]:
    """Return ``function`` for calls by position from Python, with arguments of the same types for good.

    To find the types of a named tuple of arrays takes 4 to 10 µs, longer than most kernels run: here it is done once.
    """
    if not isinstance(function, Kernel):
        return function
    code: Callable[..., R] | None = None
    tried = INTERPRETED  # the mode in which machine code was last looked for

    def call(*values: Any) -> R:
        nonlocal code, tried
        if code is None and tried < current_mode():
            tried, code = current_mode(), function.code(*values)
        return function.interpret(*values) if code is None else code(*values)

    return call


def pointer_to(function: Callable[P, R], *values: object) -> Callable[P, R] | None:
    """Return a pointer to a kernel of the package, for arguments like ``values``, to hand to another kernel.

    A kernel is compiled together with all that it calls, except what it calls through a pointer. The function
    must return nothing. None where there is no machine code.
    """
    if not isinstance(function, Kernel) or current_mode() == INTERPRETED or function.backend is None:
        return None
    return function.backend.pointer(values)  # type: ignore[no-any-return]


def has_machine_code(function: Callable[..., Any], *values: object) -> bool:
    """Tell whether machine code of a kernel for arguments like ``values`` can be had in the current mode."""
    return isinstance(function, Kernel) and function.code(*values) is not None


def compiler_errors() -> tuple[type[Exception], ...]:
    """Return what the compiler raises for a function that it cannot compile."""
    if "numba" not in sys.modules:
        return ()
    from numba.core.errors import NumbaError

    return (NumbaError,)


# A child that is forked while a thread compiles could never compile: so the fork waits for that thread. Handlers that
# are registered later, such as those of open studies, run before this one: a thread in a study may have to compile
# before the study can be left.


def _before_fork() -> None:
    locks: list[Any] = [compiler_lock, _loading]
    with suppress(ImportError):
        if "osrl.jit.backend" in sys.modules:
            from numba.core.compiler_lock import global_compiler_lock

            locks.insert(1, global_compiler_lock)
    for lock in locks:
        lock.acquire()
        _held.append(lock)


def _after_fork() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

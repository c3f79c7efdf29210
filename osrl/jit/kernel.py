"""`kernel`: a function that is plain Python while there is little to do, and machine code when there is much.

It is written in the part of Python that Numba compiles, so it can be run in both ways (`osrl.jit.mode` says when).
This module does not import Numba; `osrl.jit.backend` does, when machine code is first wanted.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from osrl.jit.mode import (
    AT_HAND,
    COMPILED,
    INTERPRETED,
    LIMIT,
    PACKAGE,
    WAIT,
    compile_now,
    prefer_machine_code,
    process,
)

P = ParamSpec("P")
R = TypeVar("R")

_HERE = os.path.join(PACKAGE, "")


class _Thread(threading.local):
    """What a thread is doing: it is inside a kernel that is interpreted.

    ``job``: the seconds that it has interpreted of something that may be long.
    """

    interpreting = False
    job: float | None = None


_thread = _Thread()
_lock = threading.RLock()
_held: list[Any] = []  # locks that are held while the process forks
_preparations: list[Callable[[], object]] = []


class Kernel(Generic[P, R]):
    """A function to call from Python, and from other kernels.

    Its machine code is kept in ``folder`` of the cache (None: nowhere), with the stamp of ``owner``.
    """

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[P, R], owner: object, folder: Path | None, counts: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        # As Numba calls them; what is not said here would be taken over from whoever calls it.
        options = {"nogil": True, "error_model": "numpy", "_nrt": counts, "forceinline": False}
        self.targetoptions = options
        self._owner, self._folder = owner, folder
        self._machine: Any = None

    def __call__(self, *values: P.args, **named: P.kwargs) -> R:
        """Run it, in the way of the process; within an interpreted kernel, all is interpreted."""
        if _thread.interpreting:
            return self.py_func(*values, **named)
        if process.way == INTERPRETED:
            return self.interpret(*values, **named)
        machine = self.machine
        if machine is None:
            return self.interpret(*values, **named)
        return machine.dispatcher(*values, **named)  # type: ignore[no-any-return]

    def __reduce__(self) -> str:
        return self.__qualname__  # copied and pickled by its name, like a function

    def interpret(self, *values: P.args, **named: P.kwargs) -> R:
        """Run it as plain Python: with the arithmetic of machine code, and without its warnings."""
        began = time.thread_time()
        _thread.interpreting = True
        try:
            with np.errstate(all="ignore"):
                found = self.py_func(*values, **named)
        finally:
            _thread.interpreting = False
            took = time.thread_time() - began
            process.spent += took
            if _thread.job is not None:
                _thread.job += took
        if process.spent > LIMIT:
            if _thread.job is not None and _thread.job > WAIT:
                compile_now()
            _change_if_due()
        return cast(R, found.item()) if isinstance(found, np.generic) else found

    @property
    def machine(self) -> Any:
        """What Numba makes of it (`osrl.jit.backend.Machine`); nothing is compiled by looking at it.

        None where Numba cannot be loaded, as in little memory.
        """
        if self._machine is None:
            with _lock:
                if self._machine is None:
                    try:
                        self._machine = _numba().Machine(self, self._owner, self._folder)
                    except (ImportError, OSError, MemoryError) as error:
                        process.do_without(error)
        return self._machine

    def code(self, *values: object) -> Callable[..., R] | None:
        """Machine code to call with arguments like these; None where it is not at hand."""
        return None if process.way == INTERPRETED or self.machine is None else self.machine.code(*values)

    @property
    def _numba_type_(self) -> Any:
        """What the compiler takes it for, when it finds it among the globals of another function."""
        return self.machine.dispatcher._numba_type_

    @property
    def address(self) -> tuple[str, str] | None:
        """Where another process finds it; None where that would not find this one."""
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        return (self.__module__, self.__qualname__) if found is self and self._folder is not None else None


def _numba() -> Any:
    """`osrl.jit.backend`, with all that it has to know."""
    from osrl.jit import backend as machine

    while _preparations:
        _preparations.pop()()
    return machine


def before_compiling(prepare: Callable[[], object]) -> None:
    """Have something done when the compiler is loaded, before it compiles anything more."""
    with _lock:
        _preparations.append(prepare)


# Declaring kernels ----------------------------------------------------------------------------------------


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel, whose machine code is kept on disk."""
    return _declare(function, function, _folder_for(function.__code__.co_filename, function.__module__))


def kernel_in_place(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that makes no arrays, and is compiled without counting references to those it is given.

    Counting them would make a round up to twice as slow, so what is called in every round is declared with it
    (a private option of Numba's); the compiler refuses what makes an array.
    """
    folder = _folder_for(function.__code__.co_filename, function.__module__)
    return _declare(function, function, folder, counts=False)


def kernel_for(function: Callable[P, R], owner: object, module: str) -> Callable[P, R]:
    """The kernel ``function`` of the package, for types that ``module`` outside of it defines.

    The machine code holds kernels of ``owner``, such as a policy: it is cached under the stamp of that.
    """
    if not isinstance(function, Kernel):
        return function
    folder = _folder_for(getattr(sys.modules.get(module), "__file__", None) or "", module)
    return _declare(function.py_func, owner, folder, bool(function.targetoptions["_nrt"]))


def _declare(function: Callable[P, R], owner: object, folder: Path | None, counts: bool = True) -> Callable[P, R]:
    return function if process.switched_off else Kernel(function, owner, folder, counts)


def _folder_for(file: str, module: str) -> Path | None:
    """Where to keep machine code of ``module``; None for what another process cannot import."""
    if file.startswith(_HERE):
        return Path()
    if module == "__main__" or not Path(file).is_file():
        return None
    return Path(f"outside-{module}")


# Calling them ---------------------------------------------------------------------------------------------


def direct(function: Callable[..., R]) -> Callable[..., R]:
    """``function``, for calls by position from Python, with arguments of the same types for good.

    Numba looks at the types of arguments in every call. For a named tuple of arrays that takes 4 to 10 µs,
    longer than most kernels run.
    """
    if not isinstance(function, Kernel):
        return function
    code: Callable[..., R] | None = None
    looked = 0  # the epoch in which machine code was last looked for

    def call(*values: Any) -> R:
        nonlocal code, looked
        if code is None and looked != process.epoch:
            looked = process.epoch
            code = function.code(*values)
        return function.interpret(*values) if code is None else code(*values)

    return call


def pointer_to(function: Callable[P, R], *values: object) -> Callable[P, R] | None:
    """A kernel of the package, for arguments like ``values``, as something to hand to another kernel.

    A kernel is compiled together with all that it calls, but not with what it calls through a pointer. It
    must return nothing. None where no machine code is at hand.
    """
    if not isinstance(function, Kernel) or process.way == INTERPRETED or function.machine is None:
        return None
    return function.machine.pointer(*values)  # type: ignore[no-any-return]


def compile_beside(
    function: Callable[..., Any], values: Sequence[Any], caller: Callable[..., Any], arguments: Sequence[Any]
) -> None:
    """Compile a kernel to be called through a pointer and its ``caller`` side by side, where both are wanted.

    ``values`` are like those of ``function``; None among the ``arguments`` is the place of the pointer.
    """
    if process.way != COMPILED or (os.cpu_count() or 1) == 1:
        return
    if isinstance(function, Kernel) and isinstance(caller, Kernel) and function.machine and caller.machine:
        function.machine.make_beside(caller.machine, values, arguments)


def is_at_hand(function: Callable[..., Any], *values: object) -> bool:
    """Whether there is machine code of a kernel for arguments like ``values``; if not, it is asked for."""
    return isinstance(function, Kernel) and function.code(*values) is not None


def _change_if_due() -> None:
    """Change to machine code if the interpreter has worked for long, or to more of it if there is more."""
    if process.way == INTERPRETED and process.spent > LIMIT:
        prefer_machine_code()
    elif process.way == AT_HAND:
        from osrl.jit import compiling

        process.epoch += compiling.proceed()


@contextmanager
def long_job() -> Iterator[None]:
    """Something that may be long and is waited for: what is not done after two seconds is compiled.

    It must be many calls of kernels: one that is interpreted is not broken off.
    """
    before, _thread.job = _thread.job, _thread.job or 0.0
    try:
        yield
    finally:
        _thread.job = before


def _hold_compiler() -> None:
    """Wait until no thread compiles, and let none begin: a child that is forked now can compile."""
    for lock in _compiler_locks():
        lock.acquire()
        _held.append(lock)


def _release_compiler() -> None:
    """Let threads compile again."""
    while _held:
        _held.pop().release()


# Handlers that others register later, such as those of open studies, run before this one: a thread in a study may
# still have to compile before the study can be left.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_hold_compiler, after_in_parent=_release_compiler, after_in_child=_release_compiler)


def _compiler_locks() -> list[Any]:
    """Return the locks that a compilation takes, in its order. Before Numba is loaded there is one."""
    if "osrl.jit.backend" not in sys.modules:
        return [_lock]
    from numba.core.compiler_lock import global_compiler_lock

    from osrl.jit import brisk
    from osrl.jit import cache as caches

    return [brisk.compiling, global_compiler_lock, _lock, caches.configuring]


def compiler_errors() -> tuple[type[Exception], ...]:
    """What the compiler raises for a function that it does not understand."""
    if "numba" not in sys.modules:
        return ()
    from numba.core.errors import NumbaError

    return (NumbaError,)

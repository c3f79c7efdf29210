"""Processes that compile: one on its own, so that nobody waits, and one beside another that waits.

The first compiles what was interpreted for long, for the next time. It is started when machine code was
looked for in vain: about a second after the first time, or at the end of the process that did. It runs at
the lowest priority, detached, one at a time (a lock in the folder of the machine code says so), and leaves
nothing but machine code. It is never started where ``CI`` is set.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, BinaryIO

from osrl.jit.mode import cache_folder, private_root

PATIENCE = 1.0  # seconds between two looks
Wish = tuple[str, str, tuple[Any, ...], bool]  # module and name of a kernel, types, whether as a pointer

_START = "import sys; sys.path[:] = {path!r}; from osrl.jit.compiling import {life}; {life}(sys.stdin.buffer)"


class _Wishes:
    """What was looked for in vain, and the process that compiles it."""

    def __init__(self) -> None:
        self.open: list[Wish] = []
        self.known: set[Wish] = set()
        self.looked = 0.0
        self.alone = False  # whether this process compiles all that it waits for
        self.process: subprocess.Popen[bytes] | None = None


_wishes = _Wishes()


def ask_for(wish: Wish) -> None:
    """Have something compiled, soon."""
    if wish not in _wishes.known:
        if not _wishes.known:
            atexit.register(_at_exit)
            _wishes.looked = time.monotonic()
        _wishes.known.add(wish)
        _wishes.open.append(wish)


def proceed() -> bool:
    """Start to compile what was asked for; whether something has been compiled since the last time."""
    if not _wishes.known or time.monotonic() - _wishes.looked < PATIENCE:
        return False
    _wishes.looked = time.monotonic()
    if _wishes.process is None:
        _start()
        return False
    if _wishes.process.poll() is None:
        return False
    _wishes.process = None
    return True


def _start() -> None:
    """Start a process for all that is asked for, unless there is one."""
    with _only_one() as alone:
        pass
    if not alone or not _wishes.open or os.environ.get("CI"):
        return
    _wishes.process = _spawn("work", _wishes.open, detached=True)
    _wishes.open.clear()


def work_alone() -> None:
    """Have nothing compiled beside this process: several solvers share code, which it translates once."""
    _wishes.alone = True


@contextmanager
def beside(wish: Wish, waiting: Callable[[], object]) -> Iterator[None]:
    """While something is compiled here, have another process compile ``wish``; it is done when this ends.

    ``waiting`` is called again and again while this process has nothing else to do. Whatever goes wrong in
    the other, the machine code is not on the disk then, and is compiled by whoever wants it.
    """
    other = None if _wishes.alone else _spawn("work_for_one", [wish], detached=False)
    try:
        yield
        while other is not None and other.poll() is None:
            waiting()
            time.sleep(0.05)
    finally:
        if other is not None:
            other.kill()
            other.wait()


def _spawn(life: str, wishes: Sequence[Wish], detached: bool) -> subprocess.Popen[bytes] | None:
    """A process of this package that lives by a function of this module; None where there can be none."""
    if not sys.executable or getattr(sys, "frozen", False):  # no Python that could be started
        return None
    path = [os.path.abspath(each) for each in sys.path]
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=path, life=life)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_shared_folder(), "OSRL_COMPILE": "now"},
            cwd=cache_folder(),
            start_new_session=detached,
        )
        assert process.stdin is not None
        with process.stdin as pipe:
            pickle.dump(list(_packed(wishes)), pipe)
    except OSError:  # no room for another process: then not
        return None
    return process


def _shared_folder() -> dict[str, str]:
    """What tells another process to use the folder of this one, where that is a private one."""
    root = private_root()
    return {} if root is None else {"NUMBA_CACHE_DIR": str(root)}


def _packed(wishes: Sequence[Wish]) -> Iterator[tuple[str, str, bytes, bool]]:
    """What is asked for, each with its types apart: those may be of a module that cannot be imported."""
    for module, name, kinds, as_pointer in wishes:
        with suppress(Exception):  # a type that is known in this process only
            yield module, name, pickle.dumps(kinds), as_pointer


def _at_exit() -> None:
    """Start what was asked for last; the process goes on when this one is gone.

    Not where the folder of the machine code goes with this one.
    """
    if private_root() is not None:
        if _wishes.process is not None:
            _wishes.process.kill()
            _wishes.process.wait()
        return
    if _wishes.process is None:
        _start()
    if _wishes.process is not None:
        _wishes.process.returncode = 0  # nobody is left to wait for it


@contextmanager
def _only_one() -> Iterator[bool]:
    """Whether no other process compiles; while this lasts, no other will."""
    try:
        import fcntl
    except ImportError:  # not on this system: then nothing is compiled in the background
        yield False
        return
    with ExitStack() as opened:
        try:
            folder = cache_folder()
            if folder is None:
                raise FileNotFoundError("there is no folder for machine code")
            file = opened.enter_context(open(folder / "compiling.lock", "ab"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            alone = False
        else:
            alone = True
        yield alone


def work(wishes: BinaryIO) -> None:
    """Compile what is asked for, when nobody waits for it: the life of a detached process."""
    os.nice(19)
    with _only_one() as alone:
        if alone:
            work_for_one(wishes)


def work_for_one(wishes: BinaryIO) -> None:
    """The same for a process that waits. Whatever fails is interpreted, or compiled there."""
    todo = pickle.load(wishes)
    importlib.import_module("osrl.policies")  # kernels are compiled with the rules of policies
    for module, name, kinds, as_pointer in todo:
        with suppress(Exception):
            kernel: Any = importlib.import_module(module)
            for part in name.split("."):
                kernel = getattr(kernel, part)
            make = kernel.machine.make_pointer if as_pointer else kernel.machine.make
            make(pickle.loads(kinds))

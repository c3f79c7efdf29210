"""The mode in which a process runs its kernels: interpreted, with machine code from the disk, or compiled.

A small job is done by the interpreter before a compiler would be loaded. So a process begins with `INTERPRETED` and
adds up how long its kernels take. After one second (`LIMIT`) it uses machine code that is on the disk (`ON_DISK`) and
interprets the rest. Work that is known to be long, such as a simulation, is compiled at once (`COMPILED`); a job that
may be long (`long_job`) is compiled once two seconds of it (`WAIT`) were interpreted. ``OSRL_COMPILE=now`` compiles all
that is called, ``never`` nothing, and ``background``, the default, is the rule above. With ``NUMBA_DISABLE_JIT=1``
there are no kernels at all.

All modes give the same bits, so nothing that is stored depends on the mode.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from osrl.errors import OsrlError

LIMIT = 1.0  # seconds of interpreted kernels, after which loading machine code is worth its time
WAIT = 2.0  # seconds of one interpreted job, after which compiling is worth its time
INTERPRETED, ON_DISK, COMPILED = range(3)


class _Thread(threading.local):
    """What a thread is doing: whether it is inside an interpreted kernel, and the seconds of its `long_job`."""

    interpreting = False
    job: float | None = None


class _Process:
    """The mode of this process, and the seconds of the kernels that it has interpreted."""

    def __init__(self) -> None:
        said = os.environ.get("OSRL_COMPILE") or "background"
        if said not in ("now", "background", "never"):
            raise OsrlError(f"OSRL_COMPILE is {said!r}; set it to now, background or never")
        self.switched_off = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
        self.never = self.switched_off or said == "never"
        self.mode = COMPILED if said == "now" and not self.never else INTERPRETED
        self.spent = 0.0

    def raise_to(self, mode: int) -> None:
        """Change from the interpreter towards the compiler, never back."""
        if not self.never:
            self.mode = max(self.mode, mode)

    def do_without(self, error: BaseException) -> None:
        """Interpret from now on, because the compiler cannot be loaded or has no room to work."""
        self.mode, self.never = INTERPRETED, True
        log_once("this process goes on interpreting, which is slow: no machine code can be made or loaded", error)


process, thread = _Process(), _Thread()
_logged: set[str] = set()


def current_mode() -> int:
    """Return the mode of this thread: that of the process, or `COMPILED` within a job that has become long."""
    return COMPILED if thread.job is not None and thread.job > WAIT and not process.never else process.mode


def count_seconds(seconds: float) -> None:
    """Count the time of an interpreted kernel, and use machine code from the disk when it is due."""
    process.spent += seconds
    if thread.job is not None:
        thread.job += seconds
    if process.spent > LIMIT:
        process.raise_to(ON_DISK)


@contextmanager
def long_job(seconds: float = 0.0) -> Iterator[None]:
    """Compile what this block calls, once two seconds of it were interpreted; it must call many kernels.

    ``seconds`` count as interpreted already: with infinitely many, all is compiled at once.
    """
    before, thread.job = thread.job, (thread.job or 0.0) + seconds
    try:
        yield
    finally:
        thread.job = before


def compile_now() -> None:
    """Compile everything that is called from now on: for work that is known to be long."""
    process.raise_to(COMPILED)


def use_machine_code() -> None:
    """Use the machine code that is on the disk from now on: for work that is long only if interpreted."""
    process.raise_to(ON_DISK)


def expect(seconds: float) -> None:
    """Prepare for work that would take the interpreter about so long."""
    if seconds > WAIT:
        compile_now()
    elif seconds > LIMIT:
        use_machine_code()


def seconds_to_solve(arms: int) -> float:
    """Return about how long the interpreter takes to solve for an allocation of so many arms."""
    return (arms / 140) ** 3


def log_once(what: str, error: object) -> None:
    """Log one line about machine code, once in a process."""
    if what not in _logged:
        _logged.add(what)
        import logging

        reason = " ".join(str(error).split()) or type(error).__name__
        logging.getLogger("osrl").warning("osrl: %s (%.200s)", what, reason)

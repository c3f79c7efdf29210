"""How this process runs its kernels: interpreted, as machine code that is at hand, or compiled.

For a small job the interpreter is done before a compiler would have been loaded. So a process begins by
interpreting (`INTERPRETED`), and adds up how long that takes. After a second of it (`LIMIT`), it changes to
machine code as far as the disk has some (`AT_HAND`); for the rest it goes on interpreting, while another
process compiles (`osrl.compiling`). What is known to be long, such as a simulation, is compiled at once
(`COMPILED`). The variable ``OSRL_COMPILE`` may say otherwise: ``now`` compiles everything that is called,
``never`` nothing; without it, it is ``background``. With ``NUMBA_DISABLE_JIT=1`` there are no kernels at all.

Interpreted or compiled, kernels give the same bits: nothing that is stored says which it was.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from pathlib import Path

from osrl.errors import OsrlError

LIMIT = 1.0  # seconds of interpreted kernels, after which machine code is worth its while
WAIT = 30.0  # seconds of interpreted kernels, for which it is worth waiting for the compiler
INTERPRETED, AT_HAND, COMPILED = range(3)

PACKAGE = Path(__file__).parent
_COMPILER = ("linked.py", "machine.py")  # how kernels are compiled, besides what they are


class _Process:
    """What this process was told, its way, and the seconds of the kernels that it has interpreted.

    ``epoch`` is 0 while all is interpreted, and grows whenever there may be more machine code than before.
    """

    def __init__(self) -> None:
        said = os.environ.get("OSRL_COMPILE") or "background"
        if said not in ("now", "background", "never"):
            raise OsrlError(f"OSRL_COMPILE is {said!r}; set it to now, background or never")
        self.switched_off = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
        self.never = self.switched_off or said == "never"
        self.way, self.epoch, self.spent = INTERPRETED, 0, 0.0
        if said == "now":
            self.change(COMPILED)

    def change(self, way: int) -> None:
        """Go from the interpreter towards the compiler, never back."""
        if not self.never and self.way < way:
            self.way = way
            self.epoch += 1


process = _Process()


def compile_now() -> None:
    """From now on, compile what is called: for work that is known to be long."""
    process.change(COMPILED)


def prefer_machine_code() -> None:
    """From now on, use the machine code that there is: for work that is long only if it is interpreted."""
    process.change(AT_HAND)


def expect(seconds: float) -> None:
    """Work is coming that would take the interpreter so long, about."""
    if seconds > WAIT:
        compile_now()
    elif seconds > LIMIT:
        prefer_machine_code()


def seconds_to_solve(arms: int) -> float:
    """How long the interpreter takes to solve for an allocation of so many arms, about."""
    return (arms / 140) ** 3


def source_digest(package: Path = PACKAGE) -> str:
    """Digest of every source file below ``package`` that declares a kernel, or says how one is compiled."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text, name = path.read_bytes(), path.relative_to(package).as_posix()
        if b"@kernel" in text or name in _COMPILER:
            digest.update(name.encode() + b"\0" + text)
    return digest.hexdigest()[:16]


_DIGEST = source_digest()  # of what is imported now, not of what the files hold later


def kernel_version() -> str:
    """The version of the package's kernels in this process."""
    return _DIGEST


@functools.cache
def cache_folder() -> Path:
    """Where machine code is kept: ``$NUMBA_CACHE_DIR/osrl-<version>``, or below ``~/.cache/osrl``.

    Any edit of a kernel starts an empty one, for callers and callees alike. Where it cannot be written it is
    a folder for this process alone.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        wanted = Path(os.environ["NUMBA_CACHE_DIR"]).absolute() / f"osrl-{_DIGEST}"
    else:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        wanted = Path(root) / "osrl" / _DIGEST
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except OSError:
        return Path(tempfile.mkdtemp(prefix="osrl-kernels-"))

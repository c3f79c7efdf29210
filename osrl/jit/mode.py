"""How this process runs its kernels: interpreted, as machine code that is at hand, or compiled.

For a small job the interpreter is done before a compiler would have been loaded. So a process begins by
interpreting (`INTERPRETED`), and adds up how long that takes. After a second of it (`LIMIT`), it changes to
machine code as far as the disk has some (`AT_HAND`); for the rest it goes on interpreting, while another
process compiles (`osrl.jit.compiling`). What is known to be long, such as a simulation, is compiled at once
(`COMPILED`), and so is what turns out to be: nothing that somebody waits for is interpreted for more than two
seconds (`WAIT`). The variable ``OSRL_COMPILE`` may say otherwise: ``now`` compiles everything that is called,
``never`` nothing; without it, it is ``background``. With ``NUMBA_DISABLE_JIT=1`` there are no kernels at all.

Interpreted or compiled, kernels give the same bits: nothing that is stored says which it was. So nothing
depends on machine code either: where the compiler cannot be had, a process goes on interpreting.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from osrl.errors import OsrlError

LIMIT = 1.0  # seconds of interpreted kernels, after which machine code is worth its while
WAIT = 2.0  # seconds of interpreted kernels for one thing, instead of which the compiler is waited for
INTERPRETED, AT_HAND, COMPILED = range(3)

PACKAGE = Path(__file__).parents[1]
_COMPILER = ("jit/kernel.py", "jit/linking.py", "jit/backend.py")  # how kernels are compiled, besides what they are


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

    def do_without(self, error: BaseException) -> None:
        """Interpret for good: the compiler cannot be loaded, or has no room to work."""
        self.way, self.never = INTERPRETED, True
        log_once("this process goes on interpreting, which is slow: no machine code can be made or loaded", error)


process = _Process()
_logged: set[str] = set()


def log_once(what: str, error: object) -> None:
    """Log one line about machine code, once in a process."""
    if what not in _logged:
        _logged.add(what)
        import logging

        reason = " ".join(str(error).split()) or type(error).__name__
        logging.getLogger("osrl").warning("osrl: %s (%.200s)", what, reason)


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


# Where machine code is kept -------------------------------------------------------------------------------


@functools.cache
def cache_folder() -> Path | None:
    """Where machine code is kept: ``$NUMBA_CACHE_DIR/osrl-<version>``, or below ``~/.cache/osrl``.

    Any edit of a kernel starts an empty one, for callers and callees alike. What is in it is run: where it
    cannot be written, or somebody else could write to it, it is a folder for this process alone, which goes
    with it; None where there can be no folder at all.
    """
    try:
        wanted = _wanted_folder()
        for each in reversed([each for each in (wanted, *wanted.parents) if not each.exists()]):
            each.mkdir(mode=0o700, exist_ok=True)
        why = _not_ours(wanted)
        if why is None:
            with tempfile.TemporaryFile(dir=wanted):
                return wanted
    except (OSError, RuntimeError) as error:  # no home, no room, no right
        why = str(error)
    log_once("machine code is kept for this process only: the folder for it cannot be used", why)
    return _private_folder()


def _wanted_folder() -> Path:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"]).absolute() / f"osrl-{_DIGEST}"
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    own = Path(root).absolute() / "osrl"
    with suppress(OSError):  # earlier versions let the group write where the umask did
        own.chmod(own.stat().st_mode & 0o755)
    return own / _DIGEST


def _not_ours(folder: Path) -> str | None:
    """Why somebody else could put code into a folder, or another folder in its place; None if nobody can."""
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


_PREFIX = "osrl-kernels-"
_private: list[Path] = []


def private_root() -> Path | None:
    """The ``$NUMBA_CACHE_DIR`` with which another process uses the private folder of this one, if any."""
    return _private[0] if _private else None


def _private_folder() -> Path | None:
    """A folder for this process alone, removed at its end; or by the next one, if it is killed."""
    try:
        root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        folder = root / f"osrl-{_DIGEST}"
        folder.mkdir(mode=0o700)
        for other in root.parent.glob(f"{_PREFIX}*"):
            owner = other.name.removeprefix(_PREFIX).partition("-")[0]
            if owner.isdecimal() and not _lives(int(owner)):
                shutil.rmtree(other, ignore_errors=True)
    except OSError:
        return None
    _private.append(root)
    atexit.register(_remove, root, os.getpid())
    return folder


def _lives(owner: int) -> bool:
    """Whether there is a process of this number; where that cannot be asked, there may be."""
    if not hasattr(os, "geteuid"):
        return True
    try:
        os.kill(owner, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a child that was forked
        shutil.rmtree(folder, ignore_errors=True)

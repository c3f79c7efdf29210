"""Files that are read with a limit, and replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from osrl.errors import OsrlError

_DATABASE = b"SQLite format 3\0"  # how such a file begins
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def new_private_file(path: Path) -> None:
    """Make an empty file that nobody else may read, unless there is one."""
    with suppress(FileExistsError):
        os.close(os.open(path, _NEW, 0o600))


def _mode_of(path: Path) -> int | None:
    """Return the permissions of a file; None where there is none."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a file; raise an OSError for a device, or for more than ``most`` bytes."""
    with open_file(path, most) as file:
        return file.read(most)


def open_file(path: Path, most: int) -> BinaryIO:
    """Open a file to read from; raise an OSError for a device, or for more than ``most`` bytes."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is a folder or a device, not a file")
    file = path.open("rb")
    if os.fstat(file.fileno()).st_size > most:
        file.close()
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return file


def is_database(path: Path) -> bool:
    """Return whether a file is a SQLite database."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE


def replace_file(path: Path, content: bytes | memoryview, *, private: bool = False) -> None:
    """Write beside ``path``, then rename: a reader sees the old file or the new one, never a part.

    What is written is on the disk when this returns. The name beside it starts with a dot and the
    name of the file; it is left behind only when the process is killed. The new file has the permissions of
    the old one; where there was none, ``private`` keeps it from everybody else. A database is never replaced.
    """
    if is_database(path):
        raise OsrlError(f"{path} is a database, which is not overwritten; give another file")
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    mode = _mode_of(path)
    try:
        descriptor = os.open(partial, _NEW, 0o666 if mode is None and not private else 0o600)
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.chmod(partial, mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)

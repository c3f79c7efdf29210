"""The file of a SQLite database: looked at before it is touched, only read where it cannot be written.

A file that is not ours is left as it is. One that cannot be written, or lies in a folder that cannot, is
read; where SQLite would have to write even for that, a copy of it is.

A database that was removed or replaced must be noticed before anything is acknowledged, so every transaction checks
which files there are: the database, its write-ahead log, and the index of that (`WalFiles`).
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from osrl.errors import OsrlError, StorageDamaged
from osrl.files import new_private_file
from osrl.study.storage import schema
from osrl.study.storage.writer_queue import WriterQueue

WRITING = "osrl_writing"  # execution option of a connection whose transaction will write
LOG = "osrl_log"  # in the info of a connection: which write-ahead log it uses
QUEUE = "osrl_queue"  # its place among the writers
LAST_WRITE = "osrl_seen"  # what it has written last, see `osrl.study.storage.transaction.LastWrite`
BUSY_TIMEOUT = "osrl_patience"  # and how long it waits for others, in milliseconds
MIN_DATABASE_BYTES = 512  # bytes of a SQLite database
_UNTOUCHED = "mode=ro&immutable=1"  # no locks, and nothing is made beside the file
RETRY_SECONDS = 0.001  # about, between two attempts of the first in the queue


class File(NamedTuple):
    """A SQLite file; ``readable`` only, where it cannot be written; ``copy``, what is read in its place."""

    path: Path
    readonly: bool = False
    copy: TemporaryDirectory[str] | None = None

    @property
    def read(self) -> Path:
        """The file that is opened."""
        return self.path if self.copy is None else Path(self.copy.name) / self.path.name


def find_file(path: Path, *, make: bool) -> File:
    """Return the file of a database, made if asked for; refuse what cannot be opened."""
    try:
        os.stat(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise OsrlError(f"{path} cannot be a file ({error!s:.100}); give another path") from None
    if path.is_dir():
        raise OsrlError(f"{path} is a folder; give the path of a file in it")
    if make and not path.parent.is_dir():
        raise OsrlError(f"{path}: there is no folder {path.parent}; make it first")
    if not path.exists():
        if not make:
            raise OsrlError(f"{path}: no such file; give the path of a study, or create one there")
        _make(path)
        return File(path)
    if path.stat().st_size > 0:
        _check_header(path)
    elif not make:
        raise StorageDamaged(
            f"{path} is empty: nothing was ever written to it, or its content is lost; restore a backup there"
        )
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)
    if not make and not _is_ours(path):
        raise OsrlError(f"{path} holds no study; give the file of a study (this one is left as it is)")
    if make and path.stat().st_size > 0 and _is_of_others(path):
        raise OsrlError(f"{path} holds other tables than ours; give a new file (this one is left as it is)")
    return File(path, not writable)


def copied(file: File) -> File:
    """Return the same file, read through a copy of it and of its write-ahead log."""
    folder = TemporaryDirectory(prefix="osrl-read-")
    for name in (file.path, _sibling(file.path, "-wal")):
        if name.exists():
            shutil.copyfile(name, Path(folder.name) / name.name)
    return File(file.path, True, folder)


def _make(path: Path) -> None:
    """Make an empty file that only its owner may read; what SQLite puts beside it will be the same."""
    try:
        new_private_file(path)
    except OSError as error:
        raise OsrlError(f"{path}: cannot be made: {error.strerror}; give a folder that you may write") from None


def _check_header(path: Path) -> None:
    """Refuse what does not begin as a SQLite database does.

    SQLite itself checks it: if we opened and closed the file, all locks would be gone that other connections of
    this process have on it, and another process might remove the write-ahead log under them.
    """
    if not os.access(path, os.R_OK):
        raise OsrlError(f"{path}: cannot be read; ask for permission")
    sound = path.stat().st_size >= MIN_DATABASE_BYTES
    try:
        _value(path, _UNTOUCHED, "PRAGMA application_id")
    except sqlite3.Error as error:
        sound = sound and error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_NOTADB
    if not sound:
        raise StorageDamaged(
            f"{path} is not a sound SQLite database (it begins otherwise); give another, or restore a backup"
        )


def _is_ours(path: Path) -> bool:
    """Tell whether a database has our tables, without touching it; True also where it is too damaged to say."""
    log = _sibling(path, "-wal")
    table = "SELECT 1 FROM sqlite_master WHERE name = 'osrl_schema'"
    try:
        if _value(path, _UNTOUCHED, "PRAGMA application_id") == schema.APPLICATION:
            return True
        if _value(path, _UNTOUCHED, table) is not None:
            return True
        return log.exists() and log.stat().st_size > 0 and _value(path, "mode=ro", table) is not None
    except (sqlite3.Error, UnicodeDecodeError):
        return True  # whoever opens it will say what is wrong


def _is_of_others(path: Path) -> bool:
    """Tell whether a database has tables, and none of them is ours."""
    table = "SELECT 1 FROM sqlite_master WHERE name NOT LIKE 'osrl_%' AND name NOT LIKE 'sqlite_%'"
    try:
        return not _is_ours(path) and _value(path, _UNTOUCHED, table) is not None
    except (sqlite3.Error, UnicodeDecodeError):
        return False  # whoever opens it will say what is wrong


def _value(path: Path, mode: str, query: str) -> Any:
    """Return the value of a query; None without a row."""
    connection = sqlite3.connect(_uri(path, mode), uri=True)
    try:
        row = connection.execute(query).fetchone()
        return None if row is None else row[0]
    finally:
        connection.close()


def new_sqlite_engine(file: File, wal_files: WalFiles, wait: float) -> Engine:
    """Return an engine for a SQLite file, whose commits reach the disk."""
    uri = _uri(file.read, _mode(file))

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)
    event.listen(engine, "connect", lambda connection, record: connection.execute("PRAGMA synchronous = FULL"))
    event.listen(engine, "checkin", lambda made, record: _let_go(record.info, wal_files))
    event.listen(engine, "close", lambda made, record: _leave_queue(record.info))
    event.listen(engine, "begin", lambda connection: _begin(connection, str(file.read), wait))
    return engine


def note_log(info: dict[Any, Any], found: tuple[Identity, Identity]) -> None:
    """Note which write-ahead log a connection has open for good, after its first transaction."""
    if info.get(LOG) is None and found != (None, None):
        info[LOG] = found
        _leave_queue(info)  # before, there may have been no log to queue at, or another one


def _let_go(info: dict[Any, Any], wal_files: WalFiles) -> None:
    """Forget the last write of a connection that goes back to the pool: others may write with it."""
    note_log(info, wal_files.now().logs)
    info.pop(LAST_WRITE, None)


def _leave_queue(info: dict[Any, Any]) -> None:
    """Leave the queue of a connection that is closed."""
    if (queue := info.pop(QUEUE, None)) is not None:
        queue.close()


def _mode(file: File) -> str:
    """Return the mode to open a file in: never made by opening it, and read-only where it cannot be written."""
    if not file.readonly or file.copy is not None:
        return "mode=rw"
    return "mode=ro" if _sibling(file.path, "-wal").exists() else "mode=ro&immutable=1"


def use_write_ahead_log(engine: Engine) -> None:
    """Turn on the write-ahead log, so that readers never wait. It is a property of the file, and stays."""
    connection: Any = engine.raw_connection()
    try:
        for attempt in range(100):
            try:
                if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                # While another process makes the same file, SQLite does not wait by itself.
                if attempt == 99 or error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
                time.sleep(0.05)
    finally:
        connection.close()


def begin(
    connection: Any,
    path: str,
    *,
    write: bool,
    wait: float,
    while_waiting: Callable[[], object] | None = None,
) -> None:
    """Begin a transaction. Writers queue up here, not in the middle of it, and in the order of arrival.

    ``while_waiting`` may be called while others write.
    """
    _set_busy_timeout(connection, 0 if write else int(1000 * wait))
    if not write:
        connection.execute("BEGIN")
        return
    queue = _queue_of(connection, path)
    if queue.is_empty() and _hold(connection, last=False):
        return
    end = time.monotonic() + wait
    try:
        queue.wait(while_waiting)
        while not _hold(connection, last=time.monotonic() > end):
            time.sleep(random.uniform(0.5, 1.5) * RETRY_SECONDS)
    finally:
        queue.leave()


def _queue_of(connection: Any, path: str) -> WriterQueue:
    """Return the queue of writers to the write-ahead log of a connection."""
    info = connection.info
    queue: WriterQueue | None = info.get(QUEUE)
    if queue is None:
        queue = info[QUEUE] = WriterQueue(path)
    return queue


def _set_busy_timeout(connection: Any, milliseconds: int) -> None:
    """Set how long SQLite itself waits for others. Writers wait in the queue instead."""
    if connection.info.get(BUSY_TIMEOUT) != milliseconds:
        connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
        connection.info[BUSY_TIMEOUT] = milliseconds


def _hold(connection: Any, last: bool) -> bool:
    """Begin to write, unless somebody else does, which is an error the ``last`` time."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if last or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


def _begin(connection: Connection, path: str, wait: float) -> None:
    writing = connection.get_execution_options().get(WRITING, False)
    begin(connection.connection, path, write=writing, wait=wait)


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path))}?{mode}"


def _sibling(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


# Which files the database consists of now

SETTLED_NS = 3_000_000_000  # nanoseconds: what has changed within them may have changed twice at the same time

Identity = tuple[int, int] | None


class Files(NamedTuple):
    """Which files have the names of a database, its write-ahead log and the index of that."""

    database: Identity
    log: Identity
    log_index: Identity

    @property
    def logs(self) -> tuple[Identity, Identity]:
        """The files of the write-ahead log."""
        return self.log, self.log_index


_State = tuple[int, int, int]  # which folder it is, and when a file in it was last made, removed or renamed


class WalFiles:
    """The files of the database at ``path``, looked up again only after their folder has changed.

    Most of the time one look at the folder is enough: its time changes whenever a file in it is made, removed or
    renamed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._names = path, path + "-wal", path + "-shm"
        # What a link points to may lie in another folder, of which we hear nothing.
        self._folder = None if os.path.islink(path) else os.path.dirname(path) or "."
        self._known: tuple[_State, Files] | None = None

    def now(self) -> Files:
        """Return the files that are there now."""
        state = None if self._folder is None else _state_of(self._folder)
        known = self._known
        if known is not None and known[0] == state:
            return known[1]
        files = Files(*map(identity, self._names))  # after the folder: what changes meanwhile is seen again
        settled = state is not None and SETTLED_NS < time.time_ns() - state[2]
        self._known = (state, files) if state is not None and settled else None
        return files


def _state_of(folder: str) -> _State | None:
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def identity(path: str | Path) -> Identity:
    """Return which file has this name now; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino

"""The statements of every ask and tell, prepared by SQLAlchemy and handed straight to the driver.

Connections, their pool and the words of each database are SQLAlchemy's. What its execution adds to a
statement takes longer than the statement itself, so these few go past it.
"""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import ClauseElement, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from osrl.errors import OsrlError, StorageBusy, StorageDamaged, StorageError
from osrl.study.storage.socket_timeout import unwatch, watch
from osrl.study.storage.sqlite import LAST_WRITE, LOG, Files, WalFiles, begin, note_log

ANSWER_GRACE_SECONDS = 5  # seconds beyond the patience of a server, after which it is taken to be gone
_FULL = "the disk is full ({}); nothing was stored, make room and call again"
_BUSY = "other processes have been writing for too long ({}); call again"
_READONLY = "the database cannot be written ({}); ask for permission to write"
_DAMAGED = "the database is damaged ({}); restore a backup (`osrl study verify` says how much can still be read)"


class Prepared(NamedTuple):
    """A statement in the words of one database, with the values that are part of it.

    ``order`` is that of all values, or None where the driver knows them by name.
    """

    text: str
    own: Mapping[str, Any]
    order: tuple[str, ...] | None

    def values(self, given: Mapping[str, Any]) -> Any:
        """Return the values of one execution, as the driver takes them."""
        every = {**self.own, **given} if self.own else given
        return every if self.order is None else [every[name] for name in self.order]


def prepare(statement: ClauseElement, engine: Engine) -> Prepared:
    """Return a statement for the driver of ``engine``."""
    compiled: Any = statement.compile(dialect=engine.dialect)
    own = {name: value for name, value in compiled.params.items() if value is not None}
    return Prepared(str(compiled), own, tuple(compiled.positiontup) if compiled.positional else None)


class Cursor(NamedTuple):
    """A transaction in which prepared statements are run."""

    driver: Any

    def fetch(self, statement: Prepared, **values: Any) -> list[Any]:
        """Return every row of a query."""
        self.driver.execute(statement.text, statement.values(values))
        rows: list[Any] = self.driver.fetchall()
        return rows

    def run_rows(self, statement: Prepared, names: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of the rows, whose values have these names."""
        if statement.order == names and not statement.own:
            self.driver.executemany(statement.text, rows)
        else:
            self.run_many(statement, [dict(zip(names, row, strict=True)) for row in rows])

    def run_many(self, statement: Prepared, values: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement for each of the values."""
        self.driver.executemany(statement.text, [statement.values(each) for each in values])


class Connections:
    """The connections of an engine. Some are kept at hand: the pool takes longer than a short statement."""

    def __init__(self, engine: Engine, kept: int) -> None:
        self.engine = engine
        self._kept = kept  # so many at most
        self._idle: list[Any] = []

    def take(self) -> tuple[Any, list[Any]]:
        """Return a connection, and where it belongs."""
        idle = self._idle
        try:
            return idle.pop(), idle
        except IndexError:
            return self.engine.raw_connection(), idle

    def give(self, connection: Any, home: list[Any]) -> None:
        """Take back a connection without a transaction; it is let go if all were let go meanwhile."""
        if home is self._idle and len(home) < self._kept:
            home.append(connection)
        else:
            connection.close()

    def dispose(self) -> None:
        """Let go of all of them. New ones are made when needed."""
        idle, self._idle = self._idle, []
        while idle:
            idle.pop().close()
        self.engine.dispose()


class LastWrite(NamedTuple):
    """What a connection to a SQLite file has written last: the log of a study up to the hash ``head``.

    ``version`` is SQLite's own number for the content of the file: it changes for a connection when others
    write. While it is the same, there is nothing new to be read.
    """

    version: int
    study: int
    head: str


class Transaction:
    """One transaction: committed at the end of a ``with`` block, undone after an error.

    ``wal_files`` are the files of a SQLite database, whose write-ahead log must still be there at the end; None
    for a server, which keeps its own queue.
    """

    __slots__ = ("_wal_files", "_connection", "_connections", "_home", "_place", "_version", "_watched")

    def __init__(self, connections: Connections, place: str, wal_files: WalFiles | None) -> None:
        self._connections, self._place, self._wal_files = connections, place, wal_files
        self._watched: int | None = None
        self._version: int | None = None
        dialect: Any = connections.engine.dialect
        try:
            self._connection, self._home = connections.take()
        except SQLAlchemyError as error:
            raise explain(place, error) from error
        except (dialect.loaded_dbapi.Error, UnicodeDecodeError) as error:
            raise failure(place, error, lost=True) from error

    def begin(
        self, files: Files | None, *, write: bool, wait: float, while_waiting: Callable[[], object] | None = None
    ) -> Cursor:
        """Begin, after other writers if it is to ``write``; undo it if that fails.

        ``files`` are those that were there just now. ``while_waiting`` is called in the queue.
        """
        connection, wal_files = self._connection, self._wal_files
        try:
            if wal_files is None or files is None:
                self._watched = watch(wait + ANSWER_GRACE_SECONDS, connection.driver_connection.pgconn.socket)
            else:
                self._check_log(files)
                begin(connection, wal_files.path, write=write, wait=wait, while_waiting=while_waiting)
                if write:
                    self._version = connection.execute("PRAGMA data_version").fetchone()[0]
            return Cursor(connection.cursor())
        except BaseException as error:
            self.undo(error)
            raise

    def head(self, study: int) -> str | None:
        """Return the last hash of a study, if this connection has written it, and nobody anything since."""
        seen: LastWrite | None = self._connection.info.get(LAST_WRITE)
        return seen.head if seen is not None and seen[:2] == (self._version, study) else None

    def commit(self, study: int, head: str | None) -> None:
        """Make it last, with ``head`` as the last hash of the study, where known; undone if that fails."""
        connection = self._connection
        try:
            connection.commit()
            if self._wal_files is not None:
                self._check_log(self._wal_files.now(), done=True)
        except BaseException as error:
            self.undo(error)
            raise
        if self._version is not None and head is not None:
            connection.info[LAST_WRITE] = LastWrite(self._version, study, head)
        self._let_go()

    def undo(self, error: BaseException) -> None:
        """Undo it after an error, and say in our words what is wrong with the database, if it is that."""
        connection, dialect = self._connection, self._connections.engine.dialect
        broken = isinstance(error, (dialect.loaded_dbapi.Error, UnicodeDecodeError))
        try:
            if broken:
                lost = isinstance(error, dialect.loaded_dbapi.Error) and dialect.is_disconnect(
                    error, connection.driver_connection, None
                )
                raise failure(self._place, error, lost) from error
        finally:
            if not connection.is_detached:
                if not isinstance(error, OsrlError) or not _rolled_back(connection):
                    _drop(connection)
                    connection.close()
                    self._unwatch()
                else:
                    self._let_go()

    def _let_go(self) -> None:
        self._unwatch()
        self._connections.give(self._connection, self._home)

    def _unwatch(self) -> None:
        if self._watched is not None:
            unwatch(self._watched)

    def _check_log(self, files: Files, done: bool = False) -> None:
        """Refuse to go on where the log of a connection was removed: nobody else would see what it writes."""
        connection, found = self._connection, files.logs
        known = connection.info.get(LOG)
        if known is None and done:
            note_log(connection.info, found)
        if known is None or found == known:
            return
        _forget(connection)
        with suppress(Exception):  # a new connection may fail beside the old ones
            while (other := self._connections.take()[0]).info.get(LOG) is not None:
                _forget(other)
            other.close()
        raise StorageDamaged(
            f"{self._place}: its write-ahead log was removed while it was in use; what was "
            "written last may be lost. End this process, look with `osrl study verify`, and restore a backup"
        )


def _forget(connection: Any) -> None:
    """Forget a connection whose write-ahead log was removed, without closing it.

    When it is closed, SQLite may copy the removed log over what others have written since.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection.driver_connection))
    connection.detach()
    connection.info[LOG] = None


def _rolled_back(connection: Any) -> bool:
    """Tell whether the transaction of a connection could be undone."""
    with suppress(Exception):
        connection.rollback()
        return True
    return False


def _drop(connection: Any) -> None:
    """End the transaction, whatever became of it, and do not use the connection again."""
    with suppress(Exception):
        connection.rollback()
    with suppress(Exception):
        connection.invalidate()


def explain(place: str, error: SQLAlchemyError) -> OsrlError:
    """Return the error of SQLAlchemy in our words, with what to do."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        said = " ".join(str(error).split())
        return StorageError(f"{place}: the database did not answer as expected ({said}); try again")
    return failure(place, error.orig, error.connection_invalidated)


def failure(place: str, error: BaseException, lost: bool) -> OsrlError:
    """Return the error of the driver in our words, with what to do; ``lost``: the connection is."""
    said = " ".join(str(error).split())
    if isinstance(error, UnicodeDecodeError):  # in what SQLite says about a name that is damaged
        return StorageDamaged(f"{place}: {_DAMAGED.format(said)}")
    if isinstance(error, sqlite3.Error):
        return _sqlite_failure(place, said, getattr(error, "sqlite_errorcode", 0))
    state = getattr(error, "sqlstate", None) or ""
    if state == "53100":
        return StorageError(f"{place}: {_FULL.format(said)}")
    if state in ("55P03", "57014"):
        return StorageBusy(f"{place}: {_BUSY.format(said)}")
    if state in ("25006", "42501"):
        return StorageError(f"{place}: {_READONLY.format(said)}")
    if state.startswith("XX") or state in ("42P01", "42703"):
        return StorageDamaged(f"{place}: {_DAMAGED.format(said)}")
    if lost or not state:
        return StorageError(
            f"{place}: the database cannot be reached ({said}); call again when it is back "
            "(a tell may be repeated safely: it counts once)"
        )
    return StorageError(f"{place}: the database refused ({said}); see its own log")


def _sqlite_failure(place: str, said: str, code: int) -> OsrlError:
    """Return the error of SQLite in our words. It has no server that could be away: all but a few are damage."""
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StorageError(f"{place}: {_FULL.format(said)}")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StorageBusy(f"{place}: {_BUSY.format(said)}")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StorageError(f"{place}: {_READONLY.format(said)}")
        case sqlite3.SQLITE_CANTOPEN:
            return StorageError(
                f"{place}: the file cannot be opened ({said}); give a folder and a file that you may write"
            )
        case sqlite3.SQLITE_NOMEM | sqlite3.SQLITE_INTERRUPT:
            return StorageError(f"{place}: the database gave up ({said}); call again")
        case sqlite3.SQLITE_IOERR if code != sqlite3.SQLITE_IOERR_SHORT_READ:
            return StorageError(f"{place}: the disk does not read or write ({said}); look after it, call again")
    return StorageDamaged(f"{place}: {_DAMAGED.format(said)}")

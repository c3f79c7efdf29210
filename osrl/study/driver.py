"""The statements of every ask and tell, prepared by SQLAlchemy and handed straight to the driver.

Connections, their pool and the words of each database are SQLAlchemy's. What its execution adds to a
statement takes longer than the statement itself, so these few go past it.
"""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from sqlalchemy import ClauseElement, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from osrl.errors import OsrlError, StorageBusy, StorageDamaged, StorageError
from osrl.study.sqlite_file import LOG, begin, log_identity
from osrl.study.watchdog import answer_within

GRACE = 5  # seconds beyond the patience of a server, after which it is taken to be gone
_FULL = "the disk is full ({}); nothing was stored, make room and call again"
_BUSY = "other processes have been writing for too long ({}); call again"
_READONLY = "the database cannot be written ({}); ask for permission to write"
_DAMAGED = (
    "the database is damaged ({}); restore a backup (`osrl study verify` says how much can still be read)"
)


class Prepared(NamedTuple):
    """A statement in the words of one database, with the values that are part of it.

    ``order`` is that of all values, or None where the driver knows them by name.
    """

    text: str
    own: Mapping[str, Any]
    order: tuple[str, ...] | None

    def values(self, given: Mapping[str, Any]) -> Any:
        """The values of one execution, as the driver takes them."""
        every = {**self.own, **given} if self.own else given
        return every if self.order is None else tuple(every[name] for name in self.order)


def prepare(statement: ClauseElement, engine: Engine) -> Prepared:
    """A statement for the driver of ``engine``."""
    compiled: Any = statement.compile(dialect=engine.dialect)
    own = {name: value for name, value in compiled.params.items() if value is not None}
    return Prepared(str(compiled), own, tuple(compiled.positiontup) if compiled.positional else None)


class Cursor(NamedTuple):
    """A transaction in which prepared statements are run."""

    driver: Any

    def fetch(self, statement: Prepared, **values: Any) -> list[Any]:
        """Every row of a query."""
        self.driver.execute(statement.text, statement.values(values))
        rows: list[Any] = self.driver.fetchall()
        return rows

    def run_many(self, statement: Prepared, values: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement for each of the values."""
        self.driver.executemany(statement.text, [statement.values(each) for each in values])


@contextmanager
def transaction(
    engine: Engine,
    place: str,
    *,
    write: bool,
    log: str | None,
    wait: float,
    meanwhile: Callable[[], object] | None = None,
) -> Iterator[Cursor]:
    """One transaction: committed at the end of the block, undone after an error.

    ``log`` is the SQLite file whose write-ahead log must still be there at the end. ``meanwhile`` is called
    there while others write; a server keeps its own queue.
    """
    dialect: Any = engine.dialect
    try:
        connection: Any = engine.raw_connection()
    except SQLAlchemyError as error:
        raise explain(place, error) from error
    except (dialect.loaded_dbapi.Error, UnicodeDecodeError) as error:
        raise failure(place, error, lost=True) from error
    try:
        with ExitStack() as watched:
            if log is None:
                watched.enter_context(answer_within(wait + GRACE, connection.driver_connection.pgconn.socket))
            else:
                _check_log(engine, connection, log, place)
                begin(connection, log, write=write, wait=wait, meanwhile=meanwhile)
            yield Cursor(connection.cursor())
            connection.commit()
            if log is not None:
                _check_log(engine, connection, log, place)
    except UnicodeDecodeError as error:
        _drop(connection)
        raise failure(place, error, lost=False) from error
    except dialect.loaded_dbapi.Error as error:
        lost = dialect.is_disconnect(error, connection.driver_connection, None)
        _drop(connection)
        raise failure(place, error, lost) from error
    except OsrlError:
        raise
    except BaseException:
        _drop(connection)
        raise
    finally:
        if not connection.is_detached:
            connection.close()  # a transaction that a refusal has left open is undone by the pool


def _check_log(engine: Engine, connection: Any, path: str, place: str) -> None:
    """Refuse to go on where the write-ahead log of a connection was removed: nobody else would see it."""
    found, known = log_identity(path), connection.info.get(LOG)
    if known is None or found == known:
        return
    _let_go(connection)
    with suppress(Exception):  # a new connection may fail beside the old ones
        while (other := engine.raw_connection()).info.get(LOG) is not None:
            _let_go(other)
        other.close()
    raise StorageDamaged(
        f"{place}: its write-ahead log ({path}-wal) was removed while it was in use; what was written last "
        "may be lost. End this process, look with `osrl study verify`, and restore a backup"
    )


def _let_go(connection: Any) -> None:
    """Forget a connection whose write-ahead log was removed, without closing it.

    When it is closed, SQLite may copy the removed log over what others have written since.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection.driver_connection))
    connection.detach()
    connection.info[LOG] = None


def _drop(connection: Any) -> None:
    """End the transaction, whatever became of it, and do not use the connection again."""
    with suppress(Exception):
        connection.rollback()
    with suppress(Exception):
        connection.invalidate()


def explain(place: str, error: SQLAlchemyError) -> OsrlError:
    """What SQLAlchemy says went wrong, and what to do."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        said = " ".join(str(error).split())
        return StorageError(f"{place}: the database did not answer as expected ({said}); try again")
    return failure(place, error.orig, error.connection_invalidated)


def failure(place: str, error: BaseException, lost: bool) -> OsrlError:
    """What the driver says went wrong, and what to do; ``lost``: the connection is."""
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
    """SQLite has no server that could be away: what is not one of a few troubles is damage."""
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
            return StorageError(
                f"{place}: the disk does not read or write ({said}); look after it, call again"
            )
    return StorageDamaged(f"{place}: {_DAMAGED.format(said)}")

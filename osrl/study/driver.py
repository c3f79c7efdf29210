"""The statements of every ask and tell, prepared by SQLAlchemy and handed straight to the driver.

Connections, their pool and the words of each database are SQLAlchemy's. What its execution adds to a
statement takes longer than the statement itself, so these few go past it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from sqlalchemy import ClauseElement, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from osrl.errors import OsrlError, StorageError


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
def transaction(engine: Engine, place: str, *, write: bool) -> Iterator[Cursor]:
    """One transaction: committed at the end of the block, undone after an error."""
    dialect: Any = engine.dialect
    try:
        connection: Any = engine.raw_connection()
    except SQLAlchemyError as error:
        raise StorageError(f"{place}: {explain(error)}") from error
    except dialect.loaded_dbapi.Error as error:
        raise StorageError(f"{place}: {describe(error, lost=True)}") from error
    try:
        cursor = connection.cursor()
        if dialect.name == "sqlite":
            cursor.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield Cursor(cursor)
        connection.commit()
    except dialect.loaded_dbapi.Error as error:
        lost = dialect.is_disconnect(error, connection.driver_connection, None)
        _drop(connection)
        raise StorageError(f"{place}: {describe(error, lost)}") from error
    except OsrlError:
        raise
    except BaseException:
        _drop(connection)
        raise
    finally:
        connection.close()  # a transaction that a refusal has left open is undone by the pool


def _drop(connection: Any) -> None:
    """End the transaction, whatever became of it, and do not use the connection again."""
    with suppress(Exception):
        connection.rollback()
    connection.invalidate()


def explain(error: SQLAlchemyError) -> str:
    """What SQLAlchemy says went wrong, and what to do."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return f"the database did not answer as expected ({error}); try again"
    return describe(error.orig, error.connection_invalidated)


def describe(error: BaseException, lost: bool) -> str:
    """What the driver says went wrong, and what to do; ``lost``: the connection is."""
    said = " ".join(str(error).split())
    state = getattr(error, "sqlstate", None) or ""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or state == "53100":
        return f"the disk is full ({said}); nothing was stored, make room and call again"
    if code == sqlite3.SQLITE_BUSY or state == "55P03":
        return f"other processes have been writing for too long ({said}); call again"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or state in ("25006", "42501"):
        return f"the database cannot be written ({said}); ask for permission to write"
    if code == sqlite3.SQLITE_CANTOPEN:
        return f"the file cannot be opened ({said}); give a folder and a file that you may write"
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return f"the file is not a sound SQLite database ({said}); give another, or restore a backup"
    if lost or not state:
        return (
            f"the database cannot be reached ({said}); call again when it is back "
            "(a tell may be repeated safely: it counts once)"
        )
    return f"the database refused ({said}); see its own log"

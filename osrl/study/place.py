"""Where a study is: the path of a SQLite file, or the URL of a PostgreSQL database."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from osrl.errors import OsrlError
from osrl.files import new_private_file
from osrl.shown import without_passwords

WAIT = 60  # seconds for other writers, before giving up
CONNECT_WAIT = 10  # seconds for a server to answer
WRITING = "osrl_writing"  # execution option of a connection whose transaction will write

# Asks for durability where the server was set up without it, and changes nothing elsewhere.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)


def read_place(place: str | os.PathLike[str]) -> URL:
    """The database that a path or a URL names."""
    text = os.fspath(place)
    if "://" not in text:
        return _file(Path(text))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        kind = text.partition("://")[0]  # what follows may hold a password, in a place that nobody foresees
        raise OsrlError(
            f"{kind}://... is not a database URL; write postgresql://user@host/database"
        ) from None
    if "@" in (url.host or ""):
        raise OsrlError("a user or password with '@' cannot be told from the host; write '@' in it as %40")
    backend = url.get_backend_name()
    if backend == "sqlite":
        return _file(Path(url.database or ""))
    if backend not in ("postgresql", "postgres"):
        raise OsrlError(
            f"studies cannot be kept in {backend!r}; give the path of a SQLite file or a postgresql:// URL"
        )
    return url.set(drivername="postgresql+psycopg")


def _file(path: Path) -> URL:
    if path.name in ("", ":memory:"):
        raise OsrlError("a study needs a file, not memory or a folder; give its path, such as trial.db")
    return URL.create("sqlite", database=str(path.absolute()))


def show_place(url: URL) -> str:
    """The database in an error message: without a password, wherever in the URL it is."""
    if url.get_backend_name() == "sqlite":
        return url.database or ""
    return without_passwords(url.render_as_string(hide_password=True))


def check_file(url: URL, *, make: bool) -> None:
    """Refuse a SQLite file that is not there, or that cannot be made."""
    if url.get_backend_name() != "sqlite":
        return
    path = Path(url.database or "")
    if path.is_dir():
        raise OsrlError(f"{path} is a folder; give the path of a file in it")
    if make and not path.parent.is_dir():
        raise OsrlError(f"{path}: there is no folder {path.parent}; make it first")
    if not make and not path.exists():
        raise OsrlError(f"{path}: no such file; give the path of a study, or create one there")
    if make:
        with suppress(OSError):  # SQLite says why it cannot be made
            new_private_file(path)


def file_identity(url: URL) -> tuple[int, int] | None:
    """Which file a SQLite database is, whatever its name; None if it is not there, or no file."""
    if url.get_backend_name() != "sqlite":
        return None
    try:
        found = os.stat(url.database or "")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def new_engine(url: URL) -> Engine:
    """Connections to the database that keep the promises of a storage."""
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": WAIT, "isolation_level": None})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        engine = create_engine(
            url,
            isolation_level="READ COMMITTED",  # who waited for a lock must see what was written meanwhile
            pool_pre_ping=True,
            connect_args={"connect_timeout": CONNECT_WAIT} if "connect_timeout" not in url.query else {},
        )
    except ModuleNotFoundError:
        raise OsrlError("PostgreSQL needs the extra 'postgres'; install osrl[postgres]") from None
    event.listen(engine, "connect", _set_up_postgresql)
    return engine


def _set_up_sqlite(connection: Any, record: object) -> None:
    """Write-ahead log, so that readers never wait; every commit reaches the disk."""
    for attempt in range(100):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            # While another process makes the same file, SQLite does not wait by itself.
            if attempt == 99 or error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(0.05)
    connection.execute("PRAGMA synchronous = FULL")


def _begin_sqlite(connection: Connection) -> None:
    """Writers queue up at the start of a transaction, not in the middle of it."""
    writing = connection.get_execution_options().get(WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _set_up_postgresql(connection: Any, record: object) -> None:
    """A commit waits for the disk, however the server was set up; nobody waits for other writers for ever."""
    before, connection.autocommit = connection.autocommit, True
    try:
        connection.execute(_DURABLE)
        connection.execute(f"SET lock_timeout = {int(1000 * WAIT)}")
    finally:
        connection.autocommit = before

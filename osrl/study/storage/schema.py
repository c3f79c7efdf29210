"""The tables of a study database, their version, and how old ones become new.

A change of the tables raises `VERSION` and adds to `MIGRATIONS` the step that leads there from the
version before. A database is brought up to date when it is opened, under a lock. One that is newer
than the program is refused and left alone.

The database itself refuses to change or remove an event, by triggers: only a study as a whole can go, and
it leaves a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    bindparam,
    inspect,
    select,
)

from osrl.errors import OsrlError
from osrl.study.log.chain import link

VERSION = 4
APPLICATION = 0x6F73726C  # by which a SQLite file is known to be ours

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
    Column("hash", Text, nullable=False, server_default=""),
    UniqueConstraint("study", "trial", "kind"),
    sqlite_with_rowid=False,
)

# Which trial has which key, so that a key is found at once and never used twice. The log has it as well.
keys = Table(
    "osrl_keys",
    metadata,
    Column("study", Integer, primary_key=True, autoincrement=False),
    Column("key", Text, primary_key=True),
    Column("trial", BigInteger, nullable=False),
    UniqueConstraint("study", "trial"),
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

# The same: blocks that a snapshot shares with those before it, by the position of the first of them.
parts = Table(
    "osrl_parts",
    metadata,
    Column("study", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

# What is left of a study that was deleted.
tombstones = Table(
    "osrl_tombstones",
    metadata,
    Column("study", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("head", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("by", Text),
    Column("reason", Text),
)

_GUARDED = ((events, "study"), (studies, "id"), (tombstones, None), (keys, "study"))  # and whose they are
_ALL = [table for table, _ in _GUARDED]
_REFUSAL = "append-only: a study is deleted whole, with a tombstone, and nothing in it is changed"
_BURIED = "EXISTS (SELECT 1 FROM osrl_tombstones AS t WHERE t.study = OLD.{key})"


def make_append_only(connection: Connection, tables: Sequence[Table]) -> None:
    """Let the database refuse to change these tables, and to remove anything without a tombstone."""
    sqlite = connection.dialect.name == "sqlite"
    for statement in (_sqlite_triggers if sqlite else _postgresql_triggers)(tables):
        connection.exec_driver_sql(statement)
    if sqlite:
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")


def find_faults(connection: Connection) -> list[str]:
    """Return what is wrong with the pages and indexes of a SQLite file, and which triggers are missing."""
    problems = []
    if connection.dialect.name == "sqlite":
        problems = [str(line) for line in connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars()]
        problems = [f"the database is damaged: {line}; restore a backup" for line in problems if line != "ok"]
        query, wanted = "SELECT name FROM sqlite_master WHERE type = 'trigger'", _sqlite_triggers(_ALL)
    else:
        query = (
            "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
            "WHERE tgenabled <> 'D' AND pg_table_is_visible(tgrelid)"
        )
        wanted = [statement for statement in _postgresql_triggers(_ALL) if statement.startswith("CREATE TRIGGER")]
    names = set(connection.exec_driver_sql(query).scalars())
    for statement in wanted:
        name = statement.split()[2]
        if name not in names:
            problems.append(f"the database no longer refuses to change its events: trigger {name} is missing")
    return problems


def _sqlite_triggers(tables: Sequence[Table]) -> list[str]:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
    problems = []
    for table, key in _GUARDED:
        if table not in tables:
            continue
        when = f" WHEN NOT {_BURIED.format(key=key)}" if key else ""
        problems += [
            f"CREATE TRIGGER {table.name}_update BEFORE UPDATE ON {table.name} {refuse}",
            f"CREATE TRIGGER {table.name}_delete BEFORE DELETE ON {table.name}{when} {refuse}",
        ]
        # `INSERT OR REPLACE` removes rows without asking the trigger for deletions.
        if (there := _THERE.get(table.name)) is not None:
            problems.append(f"CREATE TRIGGER {table.name}_insert BEFORE INSERT ON {table.name} WHEN {there} {refuse}")
    return problems


_THERE = {
    events.name: (
        "NEW.seq <> (SELECT coalesce(max(e.seq), -1) + 1 FROM osrl_events AS e WHERE e.study = NEW.study) "
        "OR EXISTS (SELECT 1 FROM osrl_events AS e "
        "WHERE e.study = NEW.study AND e.trial = NEW.trial AND e.kind = NEW.kind)"
    ),
    keys.name: (
        "EXISTS (SELECT 1 FROM osrl_keys AS k WHERE k.study = NEW.study AND (k.key = NEW.key OR k.trial = NEW.trial))"
    ),
}


def _postgresql_triggers(tables: Sequence[Table]) -> list[str]:
    problems = []
    if events in tables:
        problems.append(
            f"CREATE FUNCTION osrl_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
        )
    for table, key in _GUARDED:
        if table not in tables:
            continue
        problems.append(
            f"CREATE TRIGGER {table.name}_change BEFORE UPDATE OR TRUNCATE ON {table.name} "
            "FOR EACH STATEMENT EXECUTE FUNCTION osrl_refuse()"
        )
        delete = f"osrl_refuse_{table.name}" if key else "osrl_refuse"
        if key:
            problems.append(
                f"CREATE FUNCTION {delete}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                f"IF {_BURIED.format(key=key)} THEN RETURN OLD; END IF; RAISE EXCEPTION '{_REFUSAL}'; END $$"
            )
        problems.append(
            f"CREATE TRIGGER {table.name}_delete BEFORE DELETE ON {table.name} FOR EACH ROW EXECUTE FUNCTION {delete}()"
        )
    return problems


def _chain_events(connection: Connection) -> None:
    """Migrate to version 2: events get their hashes, in order; the log is append-only; snapshots are dropped."""
    connection.exec_driver_sql("ALTER TABLE osrl_events ADD COLUMN hash TEXT NOT NULL DEFAULT ''")
    columns = (events.c.seq, events.c.at, events.c.kind, events.c.payload)
    change = (
        events.update()
        .where(events.c.study == bindparam("of"), events.c.seq == bindparam("number"))
        .values(hash=bindparam("new"))
    )
    for study in connection.execute(select(studies.c.id)).scalars().all():
        head, position = "", 0
        while True:
            page = select(*columns).where(events.c.study == study, events.c.seq >= position)
            rows = connection.execute(page.order_by(events.c.seq).limit(10_000)).all()
            if not rows:
                break
            heads = []
            for row in rows:
                head = link(head, *row)
                heads.append({"of": study, "number": row.seq, "new": head})
            connection.execute(change, heads)
            position = rows[-1].seq + 1
    connection.execute(snapshots.delete())
    metadata.create_all(connection, tables=[tombstones])
    make_append_only(connection, [events, studies, tombstones])


def _add_keys(connection: Connection) -> None:
    """Migrate to version 3: trials may have keys. Existing ones have none."""
    metadata.create_all(connection, tables=[keys])
    make_append_only(connection, [keys])


def _add_parts(connection: Connection) -> None:
    """Migrate to version 4: snapshots have parts. Existing ones have none."""
    metadata.create_all(connection, tables=[parts])


MIGRATIONS: dict[int, Callable[[Connection], None]] = {  # from this version to the next
    1: _chain_events,
    2: _add_keys,
    3: _add_parts,
}


def version_of(connection: Connection) -> int | None:
    """Return the version of the tables, or None where there are none."""
    if not inspect(connection).has_table(version_table.name):
        return None
    return connection.execute(select(version_table.c.version)).scalar()


def bring_up_to_date(connection: Connection) -> None:
    """Make the tables, or migrate old ones. The caller holds a lock on the database."""
    version = version_of(connection)
    if version is None:
        metadata.create_all(connection)
        make_append_only(connection, _ALL)
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

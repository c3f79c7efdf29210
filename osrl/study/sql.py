"""Studies in a SQLite file or a PostgreSQL database, through SQLAlchemy.

A writer holds the log by a lock: on SQLite the write lock of the file (`BEGIN IMMEDIATE`), on
PostgreSQL the row of the study. Then it reads what others have written, appends, and commits.
The primary key (study, seq) and the unique (study, trial, kind) would refuse a second writer even if
a lock were to fail.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, bindparam, delete, insert, select, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from osrl.errors import OsrlError, StorageDamaged, StorageError
from osrl.study import schema
from osrl.study.driver import Cursor, Prepared, explain, prepare, transaction
from osrl.study.events import Event, Row, now, read_events
from osrl.study.place import WRITING, check_file, file_identity, new_engine, read_place, show_place
from osrl.study.schema import events, snapshots, studies, tombstones
from osrl.study.storage import Log, Snapshot, Storage, Tombstone

PAGE = 10_000  # events that are read at once
_SCHEMA_LOCK = 0x6F73726C  # of PostgreSQL, while tables are made

_STUDY = bindparam("study", type_=Integer)
_LOCK = (
    select(select(schema.version_table.c.version).scalar_subquery())
    .select_from(studies)
    .where(studies.c.id == _STUDY)
    .with_for_update(of=studies)
)
_ROW = tuple(events.c[name] for name in Row._fields)
_PAGE = (
    select(*_ROW)
    .where(events.c.study == _STUDY, events.c.seq >= bindparam("position"))
    .order_by(events.c.seq)
    .limit(bindparam("limit"))
)
_ABOUT = (
    select(*_ROW).where(events.c.study == _STUDY, events.c.trial == bindparam("trial")).order_by(events.c.seq)
)
_NEW = insert(studies).returning(studies.c.id)
_APPEND = insert(events)
_FORGET = delete(snapshots).where(snapshots.c.study == _STUDY)
_KEEP = insert(snapshots)
_STATEMENTS = (_LOCK, _PAGE, _ABOUT, _APPEND, _FORGET, _KEEP)


class SqlStorage(Storage):
    """A SQLite file or a PostgreSQL database; ``make`` prepares one that holds no studies yet."""

    def __init__(self, place: str | os.PathLike[str], *, make: bool = False) -> None:
        self._url = read_place(place)
        self.place = show_place(self._url)
        self.lock = RLock()
        check_file(self._url, make=make)
        self._engine = new_engine(self._url)
        self._finalizer = weakref.finalize(self, self._engine.dispose)
        _OPEN.add(self)
        self._turn = _Turn(*(prepare(each, self._engine) for each in _STATEMENTS))
        self._file: tuple[int, int] | None = None
        self._prepare(make)
        self._file = file_identity(self._url)

    def _prepare(self, make: bool) -> None:
        with self._transaction() as connection:
            version = schema.version_of(connection)
        if version is None and not make:
            raise OsrlError(f"{self.place} holds no study; create one there")
        if version != schema.VERSION:
            with self._transaction(write=True) as connection:
                if connection.dialect.name == "postgresql":
                    lock = text("SELECT pg_advisory_xact_lock(:number)")
                    connection.execute(lock, {"number": _SCHEMA_LOCK})
                schema.bring_up_to_date(connection)

    def create(self, name: str, events: Sequence[Event]) -> int:
        """A new study with its first events; its number."""
        with self._transaction(write=True) as connection:
            try:
                number = connection.execute(_NEW, {"name": name}).scalar_one()
            except IntegrityError:
                raise OsrlError(
                    f"{self.place} has a study {name!r} already; open it, or give another name"
                ) from None
            connection.execute(_APPEND, _rows(number, events))
        return int(number)

    def find(self, name: str) -> int:
        """The number of the study called ``name``."""
        with self._transaction() as connection:
            number = connection.execute(select(studies.c.id).where(studies.c.name == name)).scalar()
        if number is None:
            names = ", ".join(map(repr, self.names())) or "none"
            raise OsrlError(f"{self.place} has no study {name!r}; it has {names}")
        return int(number)

    def names(self) -> tuple[str, ...]:
        """The names of all studies, in order of creation."""
        with self._transaction() as connection:
            return tuple(connection.execute(select(studies.c.name).order_by(studies.c.id)).scalars())

    def delete(self, name: str, by: str | None = None, reason: str | None = None) -> None:
        """Remove a study with all its events; a tombstone says which it was."""
        study = self.find(name)
        with self._transaction(write=True) as connection:
            self._check_study(connection.execute(_LOCK, {"study": study}).all())
            last = select(events.c.seq, events.c.hash).where(events.c.study == study)
            found = connection.execute(last.order_by(events.c.seq.desc()).limit(1)).one_or_none()
            count, head = (0, "") if found is None else (found.seq + 1, found.hash)
            stone = Tombstone(name, count, head, now(), by, reason)
            connection.execute(insert(tombstones), {"study": study, **stone._asdict()})
            for table in (events, snapshots):
                connection.execute(delete(table).where(table.c.study == study))
            connection.execute(delete(studies).where(studies.c.id == study))

    def deleted(self) -> tuple[Tombstone, ...]:
        """What is left of studies that were deleted."""
        wanted = select(*(tombstones.c[name] for name in Tombstone._fields)).order_by(tombstones.c.at)
        with self._transaction() as connection:
            return tuple(Tombstone(*row) for row in connection.execute(wanted))

    @contextmanager
    def hold(self, study: int) -> Iterator[Log]:
        """Hold the log of a study as its only writer."""
        with self.lock:
            self._check_file()
            with transaction(self._engine, self.place, write=True) as cursor:
                self._check_study(cursor.fetch(self._turn.lock, study=study))
                yield _HeldLog(cursor, self._turn, study)

    def first(self, study: int) -> Event:
        """The event with which a study begins."""
        page = self._read_page(study, 0, 1)
        if not page:
            raise self._deleted()
        return next(self._events(page, ""))

    def read(self, study: int, position: int = 0) -> Iterator[Event]:
        """The events of a study from number ``position`` on."""
        head = None if position else ""
        while True:
            page = self._read_page(study, position, PAGE)
            yield from self._events(page, head)
            if len(page) < PAGE:
                return
            position, head = page[-1][0] + 1, page[-1][-1]

    def _read_page(self, study: int, position: int, limit: int) -> list[Any]:
        with self.lock:
            self._check_file()
            with transaction(self._engine, self.place, write=False) as cursor:
                return cursor.fetch(self._turn.page, study=study, position=position, limit=limit)

    def _events(self, rows: list[Any], head: str | None) -> Iterator[Event]:
        """The events of these rows, which follow the event with hash ``head``."""
        try:
            yield from read_events(rows, head)
        except StorageDamaged as error:
            raise StorageDamaged(f"{self.place}: {error}") from None

    def snapshot(self, study: int) -> Snapshot | None:
        """The snapshot that was kept last, if there is one."""
        wanted = select(snapshots.c.position, snapshots.c.content).where(snapshots.c.study == study)
        with self._transaction() as connection:
            row = connection.execute(wanted).one_or_none()
        return None if row is None else Snapshot(row.position, row.content)

    def check(self) -> list[str]:
        """What is wrong with the database itself: its pages and indexes, and whether it is append-only."""
        with self._transaction() as connection:
            return schema.find_faults(connection)

    def close(self) -> None:
        """Let go of files and connections."""
        with self.lock:
            self._engine.dispose()

    def _check_study(self, found: Sequence[Any]) -> None:
        """Refuse a study that no longer exists, or a database that is too new."""
        if not found or found[0][0] is None:
            raise self._deleted()
        schema.check_version(found[0][0])

    def _deleted(self) -> OsrlError:
        return OsrlError(f"the study was deleted from {self.place}; create a new one")

    def _check_file(self) -> None:
        """Refuse to go on in a SQLite file that was removed: what is written there would be lost."""
        if self._file is None:
            return
        found = file_identity(self._url)
        if found != self._file:
            self._engine.dispose()
            if found is None:
                raise StorageError(f"{self.place}: the file is gone; call again when it is back")
            self._file = found

    @contextmanager
    def _transaction(self, write: bool = False) -> Iterator[Connection]:
        """One transaction: committed at the end of the block, undone after an error."""
        with self.lock:
            self._check_file()
            try:
                with self._engine.connect() as connection:
                    connection = connection.execution_options(**{WRITING: write})
                    with connection.begin():
                        yield connection
            except SQLAlchemyError as error:
                raise StorageError(f"{self.place}: {explain(error)}") from error


class _Turn(NamedTuple):
    """The statements of every ask and tell, for one database."""

    lock: Prepared
    page: Prepared
    about: Prepared
    append: Prepared
    forget: Prepared
    keep: Prepared


class _HeldLog(Log):
    """The log of one study, inside the transaction of its only writer."""

    def __init__(self, cursor: Cursor, turn: _Turn, study: int) -> None:
        self._cursor, self._turn, self._study = cursor, turn, study

    def read(self, position: int) -> Iterator[Event]:
        """The events from number ``position`` on."""
        head = None if position else ""
        while True:
            page = self._cursor.fetch(self._turn.page, study=self._study, position=position, limit=PAGE)
            yield from read_events(page, head)
            if len(page) < PAGE:
                return
            position, head = page[-1][0] + 1, page[-1][-1]

    def about(self, trial: int) -> list[Event]:
        """The events about one trial, in order."""
        rows = self._cursor.fetch(self._turn.about, study=self._study, trial=trial)
        return [event for row in rows for event in read_events([row], None)]

    def append(self, events: Sequence[Event]) -> None:
        """Add events, numbered on from the last one."""
        if events:
            self._cursor.run_many(self._turn.append, _rows(self._study, events))

    def keep(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the one before."""
        values = {"study": self._study, **snapshot._asdict()}
        self._cursor.run_many(self._turn.forget, [values])
        self._cursor.run_many(self._turn.keep, [values])


def _rows(study: int, new: Sequence[Event]) -> list[dict[str, Any]]:
    return [
        {
            "study": study,
            "seq": event.seq,
            "at": event.at,
            "kind": event.kind,
            "trial": event.trial,
            "payload": event.payload,
            "hash": event.hash,
        }
        for event in new
    ]


# Fork ---------------------------------------------------------------------------------------------
# A connection must not be used on both sides of a fork, and SQLite files not even be open across it.

_OPEN: weakref.WeakSet[SqlStorage] = weakref.WeakSet()
_forking: list[SqlStorage] = []


def _before_fork() -> None:
    for storage in list(_OPEN):
        storage.lock.acquire()
        storage._engine.dispose()
        _forking.append(storage)


def _after_fork() -> None:
    while _forking:
        _forking.pop().lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

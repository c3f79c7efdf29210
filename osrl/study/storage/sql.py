"""Studies in a SQLite file or a PostgreSQL database, through SQLAlchemy.

A writer holds the log by a lock: on SQLite the write lock of the file (`BEGIN IMMEDIATE`), on
PostgreSQL the row of the study. Then it reads what others have written, appends, and commits.
The primary key (study, seq) and the unique (study, trial, kind) would refuse a second writer even if
a lock were to fail.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any

from sqlalchemy import ClauseElement, Connection, delete, func, insert, select, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from osrl.errors import OsrlError, StorageDamaged, StorageError, UnknownStudy
from osrl.study.log.chain import Row, Stored, check_rows, read_events
from osrl.study.log.events import Event, now
from osrl.study.storage import schema
from osrl.study.storage import url as place_settings
from osrl.study.storage.base import ForkLock, Log, Snapshot, Storage, Tombstone
from osrl.study.storage.locked_log import (
    ADD_KEY,
    APPEND,
    LOCK,
    PAGE,
    LockedLog,
    find_wrong_keys,
    keys_of,
    part_rows,
    prepare_statements,
    rows_of,
    stored,
)
from osrl.study.storage.schema import events, keys, parts, snapshots, studies, tombstones
from osrl.study.storage.sqlite import (
    WRITING,
    Files,
    Identity,
    WalFiles,
    copied,
    find_file,
    identity,
    new_sqlite_engine,
    use_write_ahead_log,
)
from osrl.study.storage.transaction import Connections, Prepared, Transaction, explain, failure, prepare
from osrl.study.storage.url import new_server_engine, path_of, read_place, show_place

MAX_IDLE_CONNECTIONS = 2  # connections to a file that are at hand; a server may go away, and is asked every time
_SCHEMA_LOCK = 0x6F73726C  # of PostgreSQL, while tables are made

_NEW = insert(studies).returning(studies.c.id)


class SqlStorage(Storage):
    """A SQLite file or a PostgreSQL database; ``make`` prepares one that holds no studies yet."""

    def __init__(self, place: str | os.PathLike[str], *, make: bool = False) -> None:
        self._url = read_place(place)
        self.place = show_place(self._url)
        self.fork_lock = ForkLock()
        path = path_of(self._url)
        self._file = None if path is None else find_file(path, make=make)
        self._known: Identity = None  # which file has this name
        self._connect()
        _OPEN.add(self)
        self._prepare(make)
        self._known = None if path is None else identity(path)

    def _connect(self) -> None:
        wait = place_settings.WAIT
        self._wait = wait
        self._wal_files: WalFiles | None = None
        if self._file is None:
            self._engine = new_server_engine(self._url)
        else:
            self._wal_files = WalFiles(str(self._file.read))
            self._engine = new_sqlite_engine(self._file, self._wal_files, wait)
        self._connections = Connections(self._engine, kept=0 if self._file is None else MAX_IDLE_CONNECTIONS)
        self._finalizer = weakref.finalize(self, self._connections.dispose)
        self._statements = prepare_statements(self._engine)

    def _prepare(self, make: bool) -> None:
        """Make the tables, or bring them up to date; of what cannot be written, those of a copy."""
        if self._readonly:
            try:
                version = self._version()
            except OsrlError:
                version = None
            if version == schema.VERSION:
                return
            self._connections.dispose()
            assert self._file is not None
            self._file = copied(self._file)
            self._connect()
        version = self._version()
        if version is None and not make:
            raise self._empty()
        if version != schema.VERSION:
            with self._transaction(write=True, own=True) as connection:
                if connection.dialect.name == "postgresql":
                    lock = text("SELECT pg_advisory_xact_lock(:number)")
                    connection.execute(lock, {"number": _SCHEMA_LOCK})
                schema.bring_up_to_date(connection)
        if self._file is not None:
            with failures(self.place):
                use_write_ahead_log(self._engine)

    def _version(self) -> int | None:
        with self._transaction() as connection:
            return schema.version_of(connection)

    def _empty(self) -> OsrlError:
        """Return the error of a database without tables: an empty server, or a file that has lost them."""
        if self._file is None:
            return OsrlError(f"{self.place} holds no study; create one there")
        return StorageDamaged(f"{self.place}: the tables of a study are not there; restore a backup")

    @property
    def _readonly(self) -> bool:
        return self._file is not None and self._file.readonly

    def create(self, name: str, events: Iterable[Event | Stored], snapshot: Snapshot | None = None) -> int:
        """Create a study with its first events, and perhaps a snapshot; return its number."""
        with self._transaction(write=True) as connection:
            try:
                number = connection.execute(_NEW, {"name": name}).scalar_one()
            except IntegrityError:
                raise OsrlError(f"{self.place} has a study {name!r} already; open it, or give another name") from None
            rest = iter(events)
            while page := stored(islice(rest, PAGE)):
                connection.execute(APPEND, rows_of(number, page))
                if added := keys_of(number, page):
                    connection.execute(ADD_KEY, added)
            if snapshot is not None:
                kept = {"study": number, "position": snapshot.position, "content": snapshot.content}
                connection.execute(insert(snapshots), kept)
                if snapshot.parts:
                    connection.execute(insert(parts), part_rows(number, snapshot))
        if self._file is not None:  # a study is in its file from the beginning, not in the log beside it
            self._pragma("wal_checkpoint")
        return int(number)

    def find(self, name: str) -> int:
        """Return the number of the study called ``name``."""
        with self._transaction() as connection:
            number = connection.execute(select(studies.c.id).where(studies.c.name == name)).scalar()
        if number is None:
            names = self.names()
            if name in names:
                raise StorageDamaged(
                    f"{self.place}: the index of names is damaged: study {name!r} is there, but not found; "
                    "restore a backup"
                )
            raise UnknownStudy(f"{self.place} has no study {name!r}; it has {', '.join(map(repr, names)) or 'none'}")
        return int(number)

    def names(self) -> tuple[str, ...]:
        """Return the names of all studies, in order of creation."""
        with self._transaction() as connection:
            return tuple(connection.execute(select(studies.c.name).order_by(studies.c.id)).scalars())

    def delete(self, name: str, by: str | None = None, reason: str | None = None) -> None:
        """Remove a study with all its events; a tombstone says which it was."""
        study = self.find(name)
        with self._transaction(write=True) as connection:
            self._check_study(connection.execute(LOCK, {"study": study}).all())
            last = select(events.c.seq, events.c.hash).where(events.c.study == study)
            newest = connection.execute(last.order_by(events.c.seq.desc()).limit(1)).one_or_none()
            count, head = (0, "") if newest is None else (newest.seq + 1, newest.hash)
            stone = Tombstone(name, count, head, now(), by, reason)
            connection.execute(insert(tombstones), {"study": study, **stone._asdict()})
            for table in (events, keys, snapshots, parts):
                connection.execute(delete(table).where(table.c.study == study))
            connection.execute(delete(studies).where(studies.c.id == study))

    def deleted(self) -> tuple[Tombstone, ...]:
        """Return what is left of studies that were deleted."""
        wanted = select(*(tombstones.c[name] for name in Tombstone._fields)).order_by(tombstones.c.at)
        with self._transaction() as connection:
            return tuple(Tombstone(*row) for row in connection.execute(wanted))

    def import_tombstones(self, stones: Iterable[Tombstone]) -> None:
        """Keep what is left of studies that were deleted elsewhere, under numbers that no study can have."""
        with self._transaction(write=True) as connection:
            least = connection.execute(select(func.min(tombstones.c.study))).scalar() or 0
            for number, stone in enumerate(stones, 1):
                connection.execute(insert(tombstones), {"study": min(least, 0) - number, **stone._asdict()})

    def lock_log(self, study: int, while_waiting: Callable[[], object] | None = None) -> AbstractContextManager[Log]:
        """Hold the log of a study as its only writer."""
        return self._held(study, write=True, while_waiting=while_waiting)

    def first(self, study: int) -> Event:
        """Return the event with which a study begins."""
        page = self._read_page(study, 0, 1)
        if not page:
            raise self._deleted()
        return next(self._events(page, ""))

    def read(self, study: int, position: int = 0) -> Iterator[Event]:
        """Return the events of a study from number ``position`` on."""
        head = None if position else ""
        for page in self._pages(study, position):
            yield from self._events(page, head)
            head = page[-1][-1]

    def events_of_trial(self, study: int, trial: int) -> list[Event]:
        """Return the events about one trial, in order."""
        with self._held(study, write=False) as log:
            return log.events_of_trial(trial)

    def events_of_trials(self, study: int, first: int, last: int) -> list[Event]:
        """Return the events about the trials from number ``first`` to ``last``, in order."""
        wanted = (
            select(*(events.c[name] for name in Row._fields))
            .where(events.c.study == study, events.c.trial.between(first, last))
            .order_by(events.c.seq)
        )
        with self._transaction() as connection:
            rows = connection.execute(wanted).all()
        return [event for row in rows for event in self._events([row], None)]

    def find_key(self, study: int, key: str) -> int | None:
        """Return the number of the trial with this key, if there is one."""
        with self._held(study, write=False) as log:
            return log.find_key(key)

    def rows(self, study: int) -> Iterator[list[Stored]]:
        """Return the log of a study as it is stored, in parts, with its chain checked."""
        head: str | None = ""
        for page in self._pages(study, 0):
            try:
                head = check_rows(page, head)
            except StorageDamaged as error:
                raise StorageDamaged(f"{self.place}: {error}") from None
            yield page

    def _pages(self, study: int, position: int) -> Iterator[list[Any]]:
        limit = PAGE
        while True:
            try:
                page = self._read_page(study, position, limit)
            except StorageDamaged:
                if limit == 1:
                    raise
                limit = 1  # what comes before the damage can still be read
                continue
            if page:
                yield page
            if len(page) < limit:
                return
            position = page[-1][0] + 1

    def _read_page(self, study: int, position: int, limit: int) -> list[Any]:
        with self._held(study, write=False) as log:
            return log.rows(position, limit)

    def _events(self, rows: list[Any], head: str | None) -> Iterator[Event]:
        """Return the events of these rows, which follow the event with hash ``head``."""
        try:
            yield from read_events(rows, head)
        except StorageDamaged as error:
            raise StorageDamaged(f"{self.place}: {error}") from None

    def snapshot(self, study: int) -> Snapshot | None:
        """Return the snapshot that was kept last, if there is one."""
        wanted = select(snapshots.c.position, snapshots.c.content).where(snapshots.c.study == study)
        of_study = select(parts.c.position, parts.c.content).where(parts.c.study == study)
        with self._transaction() as connection:
            row = connection.execute(wanted).one_or_none()
            found = tuple((each.position, each.content) for each in connection.execute(of_study))
        return None if row is None else Snapshot(row.position, row.content, found)

    def checkpoint_to_single_file(self) -> None:
        """Bring everything into the one file of a SQLite database, which nobody else has open."""
        self.close()  # SQLite wants to be alone for it
        self._pragma("journal_mode = DELETE")
        self.close()

    def _pragma(self, what: str) -> None:
        """Tell SQLite to do something, outside of any transaction."""
        with self.fork_lock, failures(self.place):
            connection: Any = self._engine.raw_connection()
            try:
                connection.execute(f"PRAGMA {what}")
            finally:
                connection.close()

    def transaction(self, *, write: bool = False) -> AbstractContextManager[Connection]:
        """Open a transaction on tables that are kept beside the studies."""
        return self._transaction(write)

    def prepare(self, statement: ClauseElement) -> Prepared:
        """Prepare a statement that is run in the transaction of a writer, see `LockedLog.cursor`."""
        return prepare(statement, self._engine)

    def check(self) -> list[str]:
        """Return what is wrong with the database itself: its pages and indexes, and whether it is append-only."""
        with self._transaction() as connection:
            return schema.find_faults(connection) + find_wrong_keys(connection)

    def close(self) -> None:
        """Let go of files and connections."""
        self._connections.dispose()

    def _check_study(self, rows: Sequence[Any]) -> None:
        """Refuse a study that no longer exists, or a database that is too new."""
        if not rows or rows[0][0] is None:
            raise self._deleted()
        schema.check_version(rows[0][0])

    def _deleted(self) -> OsrlError:
        return UnknownStudy(f"the study was deleted from {self.place}; create a new one")

    def _check_place(self, write: bool) -> Files | None:
        """Return the files of a SQLite database that are there now.

        Refused where it was removed: what is written there would be lost.
        """
        if self._file is None or self._wal_files is None:
            return None
        if write and self._readonly:
            raise StorageError(f"{self.place}: the file cannot be written; ask for permission to write")
        files = self._wal_files.now()
        if self._known is not None:
            there = files.database if self._file.copy is None else identity(self._file.path)
            if there != self._known:
                self._connections.dispose()
                if there is None:
                    raise StorageError(f"{self.place}: the file is gone; call again when it is back")
                self._known = there
        return files

    @contextmanager
    def _held(
        self, study: int, *, write: bool, while_waiting: Callable[[], object] | None = None
    ) -> Iterator[LockedLog]:
        """Open the log of a study in a transaction of the driver itself (`osrl.study.storage.transaction`)."""
        with self.fork_lock:
            files = self._check_place(write)
            transaction = Transaction(self._connections, self.place, self._wal_files)
            cursor = transaction.begin(files, write=write, wait=self._wait, while_waiting=while_waiting)
            try:
                head = transaction.head(study)
                if write and head is None:
                    self._check_study(cursor.fetch(self._statements.lock, study=study))
                log = LockedLog(cursor, self._statements, study, head)
                yield log
            except BaseException as error:
                transaction.undo(error)
                raise
            transaction.commit(study, log.head)

    @contextmanager
    def _transaction(self, write: bool = False, own: bool = False) -> Iterator[Connection]:
        """Open a transaction: it is committed at the end of the block, and undone after an error.

        ``own``: of what is ours even where the file cannot be written, a copy.
        """
        with self.fork_lock:
            self._check_place(write and not own)
            with failures(self.place), self._engine.connect() as connection:
                connection = connection.execution_options(**{WRITING: write})
                with connection.begin():
                    yield connection


@contextmanager
def failures(place: str) -> Iterator[None]:
    """Say what is wrong with the database in our words."""
    try:
        yield
    except SQLAlchemyError as error:
        raise explain(place, error) from error
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise failure(place, error, lost=False) from error


# Fork ---------------------------------------------------------------------------------------------
# A connection must not be used on both sides of a fork, and SQLite files not even be open across it. A lock
# that another thread holds would be held in the child for ever. The lock of the compiler
# is taken by a handler that `osrl.jit.kernels` has registered earlier, so after these locks are taken.

_OPEN: weakref.WeakSet[SqlStorage] = weakref.WeakSet()
_forking: list[SqlStorage] = []


def _before_fork() -> None:
    for storage in list(_OPEN):
        storage.fork_lock.acquire_alone()
        storage._connections.dispose()
        _forking.append(storage)


def _after_fork() -> None:
    while _forking:
        _forking.pop().fork_lock.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

"""Backups: every study of a database in one file, taken while others write; and back again.

A backup is a SQLite file, also of a PostgreSQL database. Logs are append-only, so what is read from the
first event to the last is the log as it was at some moment. The file is verified before it gets its name.
The last snapshot is copied with the log, so that opening the copy does not replay all of it.

What is restored begins a new branch, noted in the log: trials that were handed out after the backup are not
in it, and are refused.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from osrl.errors import OsrlError, StorageDamaged
from osrl.study.log.chain import next_event
from osrl.study.log.events import Event, Recovered
from osrl.study.state.snapshot import vouched
from osrl.study.storage.base import Snapshot
from osrl.study.storage.sql import SqlStorage
from osrl.study.storage.url import path_of, read_place
from osrl.study.views.verify import verify

Place = str | os.PathLike[str]


class Copied(NamedTuple):
    """One study of a backup: how many events it has, and the hash of the last."""

    study: str
    events: int
    head: str


def backup(place: Place, file: Place, *, force: bool = False) -> list[Copied]:
    """Write every study of a database to a file, which is replaced whole or not at all.

    A file that is there already is refused, unless it is an earlier backup of the same studies or empty, so
    that nothing is lost when the two are confused; ``force`` replaces it.
    """
    target = Path(file).absolute()
    if target.is_dir() or not target.parent.is_dir():
        raise OsrlError(f"{target}: cannot be written; give the path of a file in a folder that exists")
    if Path(f"{target}-wal").exists() or _is_file_of(place, target):
        raise OsrlError(f"{target} is a database in use; give another file for the backup")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with closing(SqlStorage(place)) as source, closing(SqlStorage(partial, make=True)) as copy:
            if not force:
                _check_replaceable(source, target)
            for name in source.names():
                number = source.find(name)
                kept = _usable_snapshot(source, number)  # before the log: others may write meanwhile
                copy.create(name, chain.from_iterable(source.rows(number)), kept)
            copy.import_tombstones(source.deleted())
            copies = [_verified(copy, name) for name in copy.names()]
            copy.checkpoint_to_single_file()
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(target)
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{partial}{suffix}").unlink(missing_ok=True)
    return copies


def _check_replaceable(source: SqlStorage, target: Path) -> None:
    """Refuse to replace a file that holds anything which the database does not."""
    if not target.exists() or target.stat().st_size == 0:
        return
    hint = "give a new file, or force to replace this one"
    try:
        old = SqlStorage(target)
    except OsrlError:
        raise OsrlError(f"{target} exists and is no backup of studies; {hint}") from None
    with closing(old):
        kept = source.names()
        for name in old.names():
            *_, last = chain.from_iterable(old.rows(old.find(name)))
            seq, *_, head = last
            same = next(source.read(source.find(name), seq), None) if name in kept else None
            if same is None or same.hash != head:
                raise OsrlError(
                    f"{target} exists, and its study {name!r} has events that {source.place} does not have; "
                    f"the database comes first and the backup second: {hint}"
                )


def _is_file_of(place: Place, target: Path) -> bool:
    """Tell whether a file is that of the database itself."""
    path = path_of(read_place(place))
    return path is not None and path.exists() and target.exists() and path.samefile(target)


def restore(place: Place, file: Place) -> list[Copied]:
    """Make the studies of a backup again, each with an event that says so."""
    with closing(SqlStorage(file)) as source:
        names = source.names()
        for name in names:
            _verified(source, name)
        with closing(SqlStorage(place, make=True)) as target:
            taken = [name for name in names if name in target.names()]
            if taken:
                raise OsrlError(
                    f"{target.place} has a study {taken[0]!r} already; restore to a new place, or move that "
                    "database away first"
                )
            target.import_tombstones(source.deleted())
            return [_restored(source, target, name) for name in names]


def _restored(source: SqlStorage, target: SqlStorage, name: str) -> Copied:
    last: list[Event] = []

    def events() -> Iterator[Event]:
        for event in source.read(source.find(name)):
            last[:] = [event]
            yield event
        count = last[0].seq + 1
        last[:] = [next_event(last[0], Recovered(f"restored from a backup with {count} events"))]
        yield last[0]

    target.create(name, events(), _usable_snapshot(source, source.find(name)))
    return Copied(name, last[0].seq + 1, last[0].hash)


def _usable_snapshot(storage: SqlStorage, number: int) -> Snapshot | None:
    """Return the last snapshot of a study, if its log vouches for it."""
    kept = storage.snapshot(number)
    return kept if kept is not None and vouched(kept, next(storage.read(number, kept.position), None)) else None


def _verified(storage: SqlStorage, name: str) -> Copied:
    number = storage.find(name)
    verification = verify(storage.read(number), _usable_snapshot(storage, number))
    if not verification.ok:
        raise StorageDamaged(f"{storage.place}: study {name!r} does not verify: {verification.problems[0]}")
    return Copied(name, verification.events, verification.head)

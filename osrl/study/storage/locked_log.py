"""The log of one study inside the transaction of its only writer: the statements of every ask and tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Integer, bindparam, delete, insert, select

from osrl.errors import StorageDamaged
from osrl.study.log.chain import Row, Stored, key_of, read_events, row_of
from osrl.study.log.events import Event
from osrl.study.storage.base import Log, Snapshot
from osrl.study.storage.schema import events, keys, parts, snapshots, studies, version_table
from osrl.study.storage.transaction import Cursor, Prepared, prepare

_COLUMNS = ("study", *Row._fields)
PAGE = 10_000  # events that are read at once
MAX_LISTED_KEYS = 5  # keys that are listed

_STUDY = bindparam("study", type_=Integer)
LOCK = (
    select(select(version_table.c.version).scalar_subquery())
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
_ABOUT = select(*_ROW).where(events.c.study == _STUDY, events.c.trial == bindparam("trial")).order_by(events.c.seq)
_KEYED = select(keys.c.trial).where(keys.c.study == _STUDY, keys.c.key == bindparam("key"))
APPEND = insert(events)
_FORGET = delete(snapshots).where(snapshots.c.study == _STUDY)
_KEEP = insert(snapshots)
_KEPT = select(snapshots.c.position, snapshots.c.content).where(snapshots.c.study == _STUDY)
_KEEP_PART = insert(parts)
_PARTS = select(parts.c.position).where(parts.c.study == _STUDY)
_FORGET_PART = delete(parts).where(parts.c.study == _STUDY, parts.c.position == bindparam("position"))
ADD_KEY = insert(keys)


class PreparedStatements(NamedTuple):
    """The statements of every ask and tell, for one database."""

    lock: Prepared
    page: Prepared
    about: Prepared
    append: Prepared
    forget: Prepared
    keep: Prepared
    kept: Prepared
    keep_part: Prepared
    parts: Prepared
    forget_part: Prepared
    keyed: Prepared
    add_key: Prepared


def prepare_statements(engine: Engine) -> PreparedStatements:
    """Return the statements in the dialect of one database."""
    kept = (_FORGET, _KEEP, _KEPT, _KEEP_PART, _PARTS, _FORGET_PART)
    statements = (LOCK, _PAGE, _ABOUT, APPEND, *kept, _KEYED, ADD_KEY)
    return PreparedStatements(*(prepare(each, engine) for each in statements))


class LockedLog(Log):
    """The log of one study, inside the transaction of its only writer."""

    def __init__(self, cursor: Cursor, statements: PreparedStatements, study: int, head: str | None) -> None:
        self.cursor = cursor  # for what others keep in the same transaction
        self.head = head  # the hash of the last event, where it is known
        self._statements, self._study = statements, study

    def read(self, position: int) -> Iterator[Event]:
        """Return the events from number ``position`` on."""
        return self._read_on(position, self.rows(position, PAGE), None if position else "")

    def events_after(self, last: Event) -> Iterator[Event] | None:
        """Return the events after ``last``; None if the log has another in its place."""
        if self.head == last.hash:
            return iter(())
        page = self.rows(last.seq, PAGE)
        if not page or page[0][0] != last.seq or page[0][-1] != last.hash:
            return None
        if len(page) < PAGE:
            self.head = page[-1][-1]
        return self._read_on(last.seq, page, last.hash, known=1)

    def _read_on(self, position: int, page: list[Any], head: str | None, known: int = 0) -> Iterator[Event]:
        """Return the events of a page after the first ``known`` ones, whose hash is ``head``, and of those after."""
        while True:
            yield from read_events(page[known:], head)
            if len(page) < PAGE:
                return
            position, head, known = page[-1][0] + 1, page[-1][-1], 0
            page = self.rows(position, PAGE)

    def rows(self, position: int, limit: int) -> list[Any]:
        """Return at most ``limit`` events from number ``position`` on, as they are stored."""
        return self.cursor.fetch(self._statements.page, study=self._study, position=position, limit=limit)

    def events_of_trial(self, trial: int) -> list[Event]:
        """Return the events about one trial, in order."""
        rows = self.cursor.fetch(self._statements.about, study=self._study, trial=trial)
        return [event for row in rows for event in read_events([row], None)]

    def find_key(self, key: str) -> int | None:
        """Return the number of the trial with this key, if there is one."""
        rows = self.cursor.fetch(self._statements.keyed, study=self._study, key=key)
        return int(rows[0][0]) if rows else None

    def append(self, events: Sequence[Event | Stored]) -> None:
        """Add events, numbered on from the last one, and the keys of trials."""
        rows = stored(events)
        if rows:
            self.head = rows[-1][-1]
            self.cursor.run_rows(self._statements.append, _COLUMNS, [(self._study, *row) for row in rows])
        if added := keys_of(self._study, rows):
            self.cursor.run_many(self._statements.add_key, added)

    def snapshot(self) -> Snapshot | None:
        """Return the snapshot that was kept last, if there is one, without the content of its parts."""
        rows = self.cursor.fetch(self._statements.kept, study=self._study)
        return None if not rows else Snapshot(rows[0][0], bytes(rows[0][1]), older=self._parts())

    def _parts(self) -> tuple[int, ...]:
        """Return the positions of all parts that there are."""
        return tuple(int(row[0]) for row in self.cursor.fetch(self._statements.parts, study=self._study))

    def keep(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the one before, whose parts stay if they are among the ``older``."""
        gone = [each for each in self._parts() if each not in snapshot.older]
        self.cursor.run_many(self._statements.forget_part, [{"study": self._study, "position": p} for p in gone])
        values = {"study": self._study, "position": snapshot.position, "content": snapshot.content}
        self.cursor.run_many(self._statements.forget, [values])
        self.cursor.run_many(self._statements.keep, [values])
        self.cursor.run_many(self._statements.keep_part, part_rows(self._study, snapshot))


def part_rows(study: int, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the parts of a snapshot as they are stored."""
    return [{"study": study, "position": position, "content": part} for position, part in snapshot.parts]


def stored(new: Iterable[Event | Stored]) -> list[Stored]:
    """Return events as they are stored."""
    return [row_of(each) if isinstance(each, Event) else each for each in new]


def rows_of(study: int, new: Iterable[Stored]) -> list[dict[str, Any]]:
    """Return the values of new events, by column."""
    return [{"study": study, **dict(zip(Row._fields, row, strict=True))} for row in new]


def keys_of(study: int, new: Iterable[Stored]) -> list[dict[str, Any]]:
    """Return the keys of the trials that these events hand out."""
    pairs = ((key_of(row), row[3]) for row in new)
    return [{"study": study, "key": key, "trial": trial} for key, trial in pairs if key is not None]


def find_wrong_keys(connection: Connection) -> list[str]:
    """Return where the table of keys and the events that issue trials with a key do not agree."""
    asks = select(events.c.study, *_ROW).where(events.c.kind == "ask", events.c.payload.contains('"key":'))
    said = set()
    for study, *row in connection.execute(asks):
        with suppress(StorageDamaged):  # which a replay says
            if (key := key_of((row[0], row[1], row[2], row[3], row[4], row[5]))) is not None:
                said.add((study, key, row[3]))
    kept = {(row[0], row[1], row[2]) for row in connection.execute(select(keys.c.study, keys.c.key, keys.c.trial))}
    missing = [f"trial {trial} has key {key!r}, which is missing" for _, key, trial in sorted(said - kept)]
    wrong = [f"trial {trial} is said to have key {key!r}, and does not" for _, key, trial in sorted(kept - said)]
    return [f"the table of keys: {each}; restore a backup" for each in (missing + wrong)[:MAX_LISTED_KEYS]]

"""The obligations of a storage, on every backend: see `osrl.study.storage.base.Storage`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from osrl.errors import OsrlError, StorageError
from osrl.study.backup import backup
from osrl.study.log.events import Abandoned, Asked, Event, Told
from osrl.study.storage.base import Snapshot, Storage
from osrl.study.storage.locked_log import PAGE
from osrl.study.storage.sql import SqlStorage
from osrl.study.study import Study
from tests.support.databases import new_place, remove_place, run_sql
from tests.support.instances import refused
from tests.support.processes import run_python
from tests.support.studies import assert_sound, chained, new_study, play


def told(seq: int, trial: int | None = None) -> Event:
    return Event(seq, 1000 + seq, Told(seq if trial is None else trial, 0.5))


def append(storage: Storage, study: int, *events: Event) -> None:
    with storage.lock_log(study) as log:
        log.append(events)


@pytest.fixture
def storage(place: str) -> Iterator[Storage]:
    found = SqlStorage(place, make=True)
    yield found
    found.close()


@pytest.fixture
def other(storage: Storage, place: str) -> Iterator[Storage]:
    """The same place, as another process sees it."""
    found = SqlStorage(place)
    yield found
    found.close()


class TestStorage:
    def test_events_come_back_as_they_were(self, storage: Storage, other: Storage) -> None:
        asked = Event(1, 2**53, Asked(1, "x", "g ü", 'h"', [0.1 + 0.2, 1e-300], True, None))
        events = chained(Event(0, 5, Abandoned(1, True)), asked, told(2, 7), told(3, 8))
        first = events[0]
        study = storage.create("one", [first])
        append(storage, study, *events[1:3])
        append(storage, study, events[3])
        for each in (storage, other):
            assert each.find("one") == study
            assert each.first(study) == first
            assert list(each.read(study)) == events
            assert list(each.read(study, 2)) == events[2:]
            assert list(each.read(study, 9)) == []

    def test_a_long_log_is_read_in_pages(self, storage: Storage) -> None:
        count = PAGE + 5
        study = storage.create("long", chained(*map(told, range(count))))
        assert [event.seq for event in storage.read(study)] == list(range(count))
        with storage.lock_log(study) as log:
            assert sum(1 for _ in log.read(3)) == count - 3

    def test_what_is_about_a_trial_is_found(self, storage: Storage) -> None:
        events = chained(Event(0, 0, Asked(3, "x", "g", "h", None, False, None)), told(1, 2), told(2, 3))
        study = storage.create("one", events)
        with storage.lock_log(study) as log:
            assert log.events_of_trial(3) == [events[0], events[2]]
            assert log.events_of_trial(4) == []

    def test_all_or_nothing(self, storage: Storage, other: Storage) -> None:
        events = chained(*map(told, range(3)))
        study = storage.create("one", events[:1])
        with pytest.raises(KeyError), storage.lock_log(study) as log:
            log.append(events[1:])
            log.keep(Snapshot(2, b"x"))
            raise KeyError
        assert list(other.read(study)) == events[:1]
        assert other.snapshot(study) is None
        append(storage, study, events[1])
        assert list(other.read(study)) == events[:2]

    def test_a_number_or_an_end_of_a_trial_is_stored_once(self, storage: Storage) -> None:
        events = chained(told(0), told(1))
        study = storage.create("one", events)
        for event in (told(1, 9), told(2, 1)):
            with pytest.raises(OsrlError):
                append(storage, study, event)
        assert list(storage.read(study)) == events

    def test_one_writer_at_a_time_who_sees_what_was_written_before(self, storage: Storage, other: Storage) -> None:
        events = chained(*map(told, range(3)))
        study = storage.create("one", events[:1])
        seen: list[int] = []
        begun = threading.Event()

        def write() -> None:
            begun.set()
            with other.lock_log(study) as log:
                seen.extend(event.seq for event in log.read(0))
                log.append([events[len(seen)]])

        with storage.lock_log(study) as log:
            thread = threading.Thread(target=write)
            thread.start()
            assert begun.wait(60)
            log.append([events[1]])
            assert seen == [], "a second writer has entered"
        thread.join(60)
        assert seen == [0, 1]
        assert [event.seq for event in storage.read(study)] == [0, 1, 2]

    def test_readers_do_not_wait_for_a_writer(self, storage: Storage, other: Storage) -> None:
        events = chained(told(0), told(1))
        study = storage.create("one", events[:1])
        with storage.lock_log(study) as log:
            log.append(events[1:])
            assert list(other.read(study)) == events[:1]
            assert other.names() == ("one",)

    def test_studies_are_kept_apart(self, storage: Storage) -> None:
        first, second = chained(told(0), told(1, 7)), chained(told(0, 5), told(1))
        one, two = storage.create("one", first[:1]), storage.create("two", second)
        append(storage, one, first[1])
        assert storage.names() == ("one", "two")
        assert list(storage.read(one)) == first
        assert list(storage.read(two)) == second
        with refused("has a study 'two' already"):
            storage.create("two", [])
        with refused("has no study 'three'; it has 'one', 'two'"):
            storage.find("three")

    def test_a_deleted_study_is_gone_and_its_number_is_not_used_again(self, storage: Storage) -> None:
        study = storage.create("one", chained(told(0)))
        with storage.lock_log(study) as log:
            log.keep(Snapshot(1, b"x"))
        storage.delete("one")
        assert storage.names() == ()
        with refused("the study was deleted"), storage.lock_log(study):
            pass
        with refused("the study was deleted"):
            storage.first(study)
        (stone,) = storage.deleted()
        assert (stone.name, stone.events, stone.head) == ("one", 1, chained(told(0))[0].hash)
        again = storage.create("one", chained(told(0)))
        assert again != study
        assert storage.snapshot(again) is None

    def test_the_last_snapshot_is_kept(self, storage: Storage, other: Storage) -> None:
        study = storage.create("one", chained(told(0)))
        assert storage.snapshot(study) is None
        for snapshot in (Snapshot(1, b"one"), Snapshot(2, bytes(range(256)))):
            with storage.lock_log(study) as log:
                log.keep(snapshot)
            assert other.snapshot(study) == snapshot

    def test_it_can_be_used_again_after_closing(self, storage: Storage) -> None:
        events = chained(told(0), told(1))
        study = storage.create("one", events[:1])
        storage.close()
        append(storage, study, events[1])
        storage.close()
        assert len(list(storage.read(study))) == 2


LOCKED = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)  # what SQLite's readers share
except OSError:
    print("locked")
"""


def test_opening_a_study_again_leaves_the_locks_of_this_process_alone(tmp_path: Path) -> None:
    """Whoever closes a file lets go of all locks that the process has on it, those of SQLite too."""
    path = f"{tmp_path}/s.db"
    with Study.create(path, tasks=1, representations=2, predictors=2) as study:
        study.tell(study.ask(), 1)
        with Study.open(path) as again:
            assert again.status.told == 1
        assert run_python("-c", LOCKED, path).stdout == "locked\n"


# On PostgreSQL, a role that cannot change what is there ----------------------------------------------------


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A place whose tables somebody else owns: for that one, and for the role of docs/storage.md."""
    owned = new_place("postgresql", tmp_path)
    space, role = owned.partition("%3D")[2], f"trials_{uuid.uuid4().hex[:12]}"
    new_study(owned, policy="uniform", delta=1e-9).close()
    text = (Path(__file__).parents[2] / "docs" / "storage.md").read_text(encoding="utf-8")
    grants = text.partition("```sql\n")[2].partition("```")[0].replace("TO trials", f"TO {role}")
    run_sql(f"CREATE ROLE {role} LOGIN")
    try:
        run_sql(f"SET search_path = {space}; GRANT USAGE ON SCHEMA {space} TO {role}; {grants}")
        yield owned, str(make_url(owned).set(username=role).render_as_string(hide_password=False))
    finally:
        run_sql(f"DROP OWNED BY {role}")
        run_sql(f"DROP ROLE {role}")
        remove_place(owned)


def test_a_role_without_update_and_delete_runs_a_study(limited: tuple[str, str], tmp_path: Path) -> None:
    owned, place = limited
    with Study.open(place) as study, pytest.MonkeyPatch.context() as patch:
        patch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 20)
        play(study, 15)
        lost, late, wrong = study.ask(n=3)
        study.abandon(lost, reason="the battery was empty")
        study.tell(late, 1)
        study.tell(wrong, 1)
        study.correct(wrong, 0, reason="a typo")
        study.recover("a rehearsal")
        play(study, 5)
        assert_sound(study)
        assert study._session.snapshot() is not None
        with new_study(place, name="another", policy="uniform") as another:
            play(another, 3)
        backup(place, tmp_path / "backup.db")
        with Study.open(owned, "study") as owner:
            assert owner.head == study.head


def test_a_role_without_update_and_delete_can_change_nothing(limited: tuple[str, str]) -> None:
    """Neither with our words nor with its own, not even where somebody has dropped the triggers."""
    owned, place = limited
    with Study.open(place) as study:
        play(study, 5)
        head = study.head
    with pytest.raises(StorageError, match="cannot be written"):
        Study.delete(place, "study", reason="to hide it")
    for trigger in ("osrl_events_change", "osrl_events_delete"):
        with psycopg.connect(owned, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE osrl_events DISABLE TRIGGER {trigger}".encode())
    for statement in (
        "UPDATE osrl_events SET payload = '{}'",
        "DELETE FROM osrl_events",
        "TRUNCATE osrl_events",
        "UPDATE osrl_studies SET name = 'other'",
        "UPDATE osrl_tombstones SET name = 'other'",
        "DROP TRIGGER osrl_events_change ON osrl_events",
        "ALTER TABLE osrl_events ENABLE TRIGGER osrl_events_change",
        "UPDATE osrl_schema SET version = 99",
        "DELETE FROM osrl_studies",
    ):
        with (
            psycopg.connect(place, autocommit=True) as connection,
            pytest.raises(psycopg.errors.Error) as said,
        ):
            connection.execute(statement.encode())
        assert said.value.sqlstate == "42501", statement
    with psycopg.connect(place, autocommit=True) as connection, pytest.raises(psycopg.errors.RaiseException):
        connection.execute(b"UPDATE osrl_studies SET id = 99")
    with Study.open(owned) as study:
        assert study.head == head

"""A log that can be trusted on reading: identity, the chain of hashes, migration of early logs."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from osrl.cli import main
from osrl.errors import OsrlError, StorageDamaged, UnknownTrial
from osrl.study.log.chain import link
from osrl.study.log.events import Recovered, SnapshotTaken
from osrl.study.study import Study
from tests.support.databases import new_place, remove_place, run_sql
from tests.support.instances import refused
from tests.support.studies import EARLY, assert_sound, closed, new_study, play
from tests.support.tampering import TAMPERING, put, rechain, rewrite

# Identity -----------------------------------------------------------------------------------------


def test_a_shorter_log_is_refused_by_writers_and_readers_until_a_person_confirms(path: str) -> None:
    with new_study(path, delta=1e-6) as study, Study.open(path) as reader:
        play(study, 20)
        reader.close()
        backup = closed(study, path)
        kept = len(list(study.events()))
        play(study, 20)
        lost = len(list(study.events()))
        assert reader.status.told == 40
        study.close()
        reader.close()
        put(backup, path)
        for act in (study.ask, lambda: study.tell(1, 1), lambda: reader.status, lambda: reader.verdict):
            for _ in range(2):
                with refused(f"is not the log that was read before: it has {kept} events, and {lost} were"):
                    act()
        with Study.open(path) as person:
            person.recover("the disk of the old machine is gone", by="Ada")
        assert reader.status.told == 20
        assert study.ask().id == 21
        last = [event.body for event in study.events() if isinstance(event.body, Recovered)]
        assert last == [Recovered("the disk of the old machine is gone", "Ada")]
        assert_sound(study)


def test_a_log_that_went_another_way_is_refused(path: str) -> None:
    with new_study(path, delta=1e-6) as study:
        play(study, 5)
        backup = closed(study, path)
        play(study, 3)
        seen = len(list(study.events()))
        study.close()
        put(backup, path)
        with Study.open(path) as other:
            play(other, 9, seed=1)
        with refused(f"it has another event {seen - 1}"):
            study.ask()


def test_another_study_in_the_same_place_is_refused(path: str, tmp_path: Path) -> None:
    with new_study(str(tmp_path / "other.db")) as other:
        play(other, 30)
        foreign = closed(other, str(tmp_path / "other.db"))
    with new_study(path, seed=8) as study:
        play(study, 3)
        study.close()
        put(foreign, path)
        for act in (study.ask, lambda: study.status):
            with refused("holds another study"):
                act()
        with Study.open(path) as person:
            person.recover("by mistake")
        with refused("holds another study"):
            study.ask()


def test_after_a_failover_to_a_copy_that_lagged_no_reward_lands_on_another_arm(path: str) -> None:
    """Trial 41 of the lost branch and trial 41 of the new one are two trials."""
    with new_study(path, policy="uniform", delta=1e-6) as study:
        play(study, 40)
        backup = closed(study, path)
        lost = study.ask()
        study.close()
        put(backup, path)
        with Study.open(path) as survivor:
            survivor.recover("failover")
            own = survivor.ask()
            assert own.id == lost.id == 41
            before = list(survivor.events())
            for trial in (lost, lost.token):
                with refused("trial 41 was handed out by another branch of this study"):
                    survivor.tell(trial, 1)
                with pytest.raises(UnknownTrial):
                    survivor.abandon(trial)
            assert list(survivor.events()) == before
            survivor.tell(own.token, 1)
            with refused("trial 41 was handed out by another branch"):
                survivor.tell(lost, 1)


# The chain ----------------------------------------------------------------------------------------


def test_every_event_holds_the_hash_of_the_one_before(place: str) -> None:
    with new_study(place) as study:
        play(study, 5)
        head = ""
        for event in study.events():
            head = link(head, event.seq, event.at, event.kind, event.payload)
            assert event.hash == head
        assert study.head == study.status.head == study.verify().head == head


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a snapshot, to be tampered with."""
    found = tmp_path_factory.mktemp("sound") / "study.db"
    with new_study(str(found), policy="osrl", delta=0.01) as study, pytest.MonkeyPatch.context() as patch:
        patch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 20)
        play(study, 25)
        assert study.verdict == "running" and any(isinstance(e.body, SnapshotTaken) for e in study.events())
    return found


@pytest.mark.parametrize("kind", TAMPERING)
def test_tampering_is_found(kind: str, sound: Path, path: str, capsys: Any) -> None:
    """By verify with exit code 5, and by whoever goes on: nobody believes a log that was changed."""
    shutil.copy(sound, path)
    rewrite(path, TAMPERING[kind])
    assert main(["study", "verify", path]) == 5
    said = capsys.readouterr()
    assert "Traceback" not in said.err


@pytest.mark.parametrize("kind", TAMPERING)
def test_a_chain_that_was_computed_anew_is_found_by_a_head_that_was_noted(
    kind: str, sound: Path, path: str, capsys: Any
) -> None:
    with Study.open(sound) as study:
        noted = study.head
        assert study.verify(noted).ok and study.verify(noted[:12]).ok
        with refused("give the hash that was printed"):
            study.verify("abc")
    shutil.copy(sound, path)
    rewrite(path, TAMPERING[kind])
    if kind == "a payload is no text":
        return
    rechain(path)
    same = kind in ("a hash", "where a trial is found")  # the chain is that of the content
    if not same:
        assert main(["study", "verify", path, "--head", noted]) == 5
        assert "Traceback" not in capsys.readouterr().err


def test_the_last_events_may_be_cut_off_unless_a_head_was_noted(path: str, tmp_path: Path) -> None:
    """What only an anchor can show."""
    anchors = tmp_path / "anchors.jsonl"
    with new_study(path) as study:
        play(study, 10)
        study.anchor(anchors)
        play(study, 10)
        study.anchor(anchors)
    noted = [json.loads(line) for line in anchors.read_text().splitlines()]
    first, second = (each["events"] for each in noted)
    assert first + 20 <= second
    rewrite(path, f"DELETE FROM osrl_events WHERE seq > {first + 5}")
    with Study.open(path) as study:
        assert [problem for problem in study.verify().problems if "trigger" not in problem] == []
        assert not any("hash" in problem for problem in study.verify(noted[0]["head"]).problems)
        assert any("no event has the hash" in problem for problem in study.verify(noted[1]["head"]).problems)


def test_whoever_goes_on_notices_a_changed_event(path: str) -> None:
    with new_study(path) as study:
        play(study, 10)
    rewrite(path, TAMPERING["a reward"])
    for act in (lambda: Study.open(path).ask(), lambda: Study.open(path).status):
        with pytest.raises(StorageDamaged, match="is not the one that was written after the one before"):
            act()


def run_on(place: str, statement: str) -> None:
    """Run one statement on the database, as another program would."""
    if "://" not in place:
        with sqlite3.connect(place) as connection:
            connection.execute(statement)
        connection.close()
        return
    schema = place.partition("%3D")[2]
    run_sql(f"SET search_path = {schema}; {statement}")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE osrl_events SET payload = '{}' WHERE kind = 'tell'",
        "DELETE FROM osrl_events WHERE kind = 'tell'",
        "DELETE FROM osrl_events",
        "DELETE FROM osrl_studies",
        "UPDATE osrl_studies SET name = 'other'",
    ],
)
def test_the_database_refuses_to_change_the_log(place: str, statement: str) -> None:
    with new_study(place) as study:
        play(study, 3)
        before = list(study.events())
        with pytest.raises((sqlite3.IntegrityError, psycopg.Error), match="append-only"):
            run_on(place, statement)
        assert list(study.events()) == before
        Study.delete(place, "study", by="Ada", reason="a trial run")
    (stone,) = Study.deleted(place)
    assert (stone.name, stone.events, stone.by, stone.reason) == ("study", 7, "Ada", "a trial run")
    with pytest.raises((sqlite3.IntegrityError, psycopg.Error), match="append-only"):
        run_on(place, "DELETE FROM osrl_tombstones")


def test_replacing_a_row_is_refused_too(path: str) -> None:
    with new_study(path) as study:
        play(study, 3)
    for statement in (
        "INSERT OR REPLACE INTO osrl_events SELECT study, seq, at, kind, trial, '{}', hash FROM osrl_events",
        "INSERT OR REPLACE INTO osrl_events SELECT study, 7, at, kind, trial, '{}', hash FROM osrl_events "
        "WHERE kind = 'tell' LIMIT 1",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            run_on(path, statement)


def test_who_and_why_are_in_the_log(place: str) -> None:
    with new_study(place, policy="uniform") as study:
        one, two = study.ask(n=2)
        study.tell(one, 1, by="Ada")
        study.abandon(two, by="Bob", reason="moved away")
        told, lost = [json.loads(event.payload) for event in list(study.events())[-2:]]
        assert (told["by"], lost["by"], lost["reason"]) == ("Ada", "Bob", "moved away")
        assert study.verify().ok


def test_a_clock_that_runs_backwards_is_noted(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_study(path) as study:
        play(study, 2)
        monkeypatch.setattr("osrl.study.log.chain.now", lambda: 10**15)
        study.ask()
        found = study.verify()
        assert found.ok and "the clock ran backwards" in found.notes[0]


# Early logs ---------------------------------------------------------------------------------------


def check_early(study: Study) -> None:
    found = study.verify()
    assert found.ok, found.problems
    if study.verdict == "running":
        study.tell(study.pending[0], 1)
        study.tell(study.ask(), 0)
        assert study.verify().ok


NAMES = ("osrl running", "osrl decided", "tas", "gaussian", "tas gaussian")


def test_a_file_of_the_first_schema_is_migrated(path: str) -> None:
    shutil.copy(EARLY / "studies.db", path)
    with sqlite3.connect(path) as connection:
        before = connection.execute("SELECT study, seq, at, kind, trial, payload FROM osrl_events").fetchall()
    assert Study.list(path) == NAMES
    with sqlite3.connect(path) as connection:
        after = connection.execute("SELECT study, seq, at, kind, trial, payload FROM osrl_events").fetchall()
    assert after == before
    for name in NAMES:
        with Study.open(path, name) as study:
            check_early(study)


FIRST_SCHEMA = """
CREATE TABLE osrl_schema (version INTEGER NOT NULL);
INSERT INTO osrl_schema VALUES (1);
CREATE TABLE osrl_studies (id SERIAL PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE osrl_events (study INTEGER NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL, kind TEXT NOT NULL,
    trial BIGINT, payload TEXT NOT NULL, PRIMARY KEY (study, seq), UNIQUE (study, trial, kind));
CREATE TABLE osrl_snapshots (study INTEGER PRIMARY KEY, position BIGINT NOT NULL, content BYTEA NOT NULL);
"""


@contextmanager
def postgresql_of_the_first_schema(names: list[Any], rows: list[Any]) -> Iterator[str]:
    """A schema as the first version made it, with these studies and events."""
    found = new_place("postgresql", Path())
    try:
        with psycopg.connect(found, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(FIRST_SCHEMA.encode())
            cursor.executemany("INSERT INTO osrl_studies VALUES (%s, %s)", names)
            cursor.executemany("INSERT INTO osrl_events VALUES (%s, %s, %s, %s, %s, %s)", rows)
        yield found
    finally:
        remove_place(found)


def test_a_server_of_the_first_schema_is_migrated() -> None:
    with sqlite3.connect(EARLY / "studies.db") as connection:
        rows = connection.execute("SELECT study, seq, at, kind, trial, payload FROM osrl_events").fetchall()
        names = connection.execute("SELECT id, name FROM osrl_studies").fetchall()
    connection.close()
    with postgresql_of_the_first_schema(names, rows) as found:
        for name in NAMES:
            with Study.open(found, name) as study:
                check_early(study)


@pytest.mark.parametrize("file", sorted(each.name for each in EARLY.glob("*.*") if each.suffix != ".db"))
def test_a_file_without_hashes_is_imported(file: str, path: str, tmp_path: Path) -> None:
    with Study.read_log(path, EARLY / file) as study:
        head = study.head
        study.write_log(tmp_path / "again.jsonl")
        check_early(study)
    with Study.read_log(path, tmp_path / "again.jsonl", "again") as study:
        assert study.head == head


def test_a_log_with_a_reward_outside_the_family_is_not_imported(path: str, tmp_path: Path) -> None:
    """Neither with hashes, nor from an early file that has none."""
    text = (EARLY / "osrl-running.jsonl").read_text(encoding="utf-8")
    assert '"reward":1.0' in text
    for changed in (
        text.replace('"reward":1.0', '"reward":7.0'),
        text.replace('"task":"young"', '"task":"elder"'),
    ):
        bad = tmp_path / "bad.jsonl"
        bad.write_text(changed, encoding="utf-8")
        with pytest.raises(OsrlError):
            Study.read_log(path, bad)
    assert not Path(path).exists()

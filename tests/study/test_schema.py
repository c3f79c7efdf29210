"""The schema of a database: newer ones are refused, older ones migrated, other files left alone."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from osrl.study.log.export import LogFile
from osrl.study.storage import schema
from osrl.study.study import Study
from tests.support.instances import refused
from tests.support.studies import new_study, play


def test_a_database_of_a_newer_schema_is_refused(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_study(place) as study:
        with monkeypatch.context() as patch:
            patch.setattr(schema, "VERSION", 5)
            patch.setattr(schema, "MIGRATIONS", {4: lambda connection: None})
            Study.open(place).close()
        with refused("was written by a newer osrl (schema 5, this one knows 4); install a newer osrl"):
            Study.open(place)
        with refused("was written by a newer osrl"):
            study.ask()
        with refused("was written by a newer osrl"):
            new_study(place, name="second")


def test_an_older_database_is_migrated_once(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    with new_study(place) as study:
        play(study, 3)
        before = list(study.events())

    def step(connection: Any) -> None:
        done.append(1)
        connection.exec_driver_sql("ALTER TABLE osrl_studies ADD COLUMN note TEXT")

    monkeypatch.setattr(schema, "VERSION", 5)
    monkeypatch.setattr(schema, "MIGRATIONS", {4: step})
    for _ in range(2):
        with Study.open(place) as study:
            assert list(study.events()) == before
            study.ask()
            before = list(study.events())
    assert done == [1]


def test_a_file_that_holds_no_study_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with refused("no such file; give the path of a study"):
        Study.open(path)
    assert not path.exists()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    with refused("holds no study; give the file of a study"):
        Study.open(path)
    with refused("holds other tables than ours; give a new file"):
        new_study(str(path))
    text = tmp_path / "text.db"
    text.write_text("not a database, but long enough to be looked at by SQLite. " * 20, encoding="utf-8")
    with refused("is not a sound SQLite database"):
        Study.open(text)
    with refused("is a folder"):
        Study.open(tmp_path)
    with refused("there is no folder"):
        new_study(str(tmp_path / "none" / "study.db"))
    with refused("a study needs a file, not memory or a folder"):
        new_study(":memory:")
    with refused("studies cannot be kept in 'mysql'"):
        new_study("mysql://localhost/x")


def test_the_log_is_plain_json(path: str) -> None:
    with new_study(path, delta=0.05) as study:
        play(study, 3)
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT kind, payload FROM osrl_events ORDER BY seq").fetchall()
    connection.close()
    assert [kind for kind, _ in rows][:3] == ["create", "ask", "tell"]
    assert json.loads(rows[1][1])["task"] == "young"


def test_a_file_that_changes_between_two_readings_is_refused(path: str, tmp_path: Path) -> None:
    """What was verified is what is stored: another log may have been put in its place."""
    with new_study(path) as study, new_study(str(tmp_path / "other.db")) as other:
        study.write_log(tmp_path / "log.jsonl")
        other.write_log(tmp_path / "other.jsonl")
        head = study.head
    log = LogFile(tmp_path / "log.jsonl")
    assert list(log.rows(head))[-1].hash == head
    (tmp_path / "other.jsonl").replace(tmp_path / "log.jsonl")
    with refused("the file was changed while it was read; import it again"):
        list(log.rows(head))

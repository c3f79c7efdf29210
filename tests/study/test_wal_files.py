"""What a turn on SQLite does not read again, and that nothing is missed for it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from osrl.errors import StorageDamaged, UnknownStudy
from osrl.study.storage.sqlite import WalFiles
from osrl.study.study import Study
from tests.support.instances import refused
from tests.support.studies import assert_sound, new_study, play


def settle(folder: Path) -> None:
    """As if nothing had changed in a folder for long."""
    os.utime(folder, ns=(10**18, 10**18))


class Looks:
    """Counts the files that are looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, stat = 0, os.stat

        def counted(*values: Any, **named: Any) -> Any:
            self.count += 1
            return stat(*values, **named)

        monkeypatch.setattr("osrl.study.storage.sqlite.os.stat", counted)


@pytest.mark.parametrize("change", ["remove", "replace", "rename", "make"])
def test_files_are_looked_up_again_after_their_folder_has_changed(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    path.touch()
    log.touch()
    settle(tmp_path)
    beside, looks = WalFiles(str(path)), Looks(monkeypatch)
    known = beside.now()
    assert known.log is not None and known.log_index is None and looks.count == 4
    assert [beside.now() for _ in range(3)] == [known] * 3 and looks.count == 7
    match change:
        case "remove":
            log.unlink()
        case "replace":
            (tmp_path / "other").touch()
            (tmp_path / "other").replace(log)
        case "rename":
            log.rename(tmp_path / "elsewhere")
        case "make":
            (tmp_path / "a.db-shm").touch()
    found = beside.now()
    assert found != known and found.database == known.database
    before = looks.count
    beside.now()
    assert looks.count == before + 4  # it might change again within the same tick of the clock


def test_a_folder_in_place_of_another_and_a_link_are_looked_up(tmp_path: Path) -> None:
    one, two, link = tmp_path / "one", tmp_path / "two", tmp_path / "link.db"
    for folder in (one, two):
        folder.mkdir()
        (folder / "a.db").touch()
        settle(folder)
    link.symlink_to(one / "a.db")
    direct, linked = WalFiles(str(one / "a.db")), WalFiles(str(link))
    before = direct.now(), linked.now()
    one.rename(tmp_path / "gone")
    two.rename(one)
    settle(tmp_path)
    assert direct.now() != before[0] and linked.now() != before[1]


@pytest.mark.parametrize("suffixes", [["-wal"], ["-shm"], ["-wal", "-shm"], [""]])
def test_what_vanishes_from_a_quiet_folder_is_noticed(tmp_path: Path, suffixes: list[str]) -> None:
    path = str(tmp_path / "a.db")
    with new_study(path, delta=1e-6) as study:
        settle(tmp_path)
        play(study, 5)
        trial = study.ask()
        for suffix in suffixes:
            Path(path + suffix).unlink()
        with refused("the file is gone" if suffixes == [""] else "its write-ahead log was removed"):
            study.tell(trial, 1)


def test_a_change_by_anybody_is_read(tmp_path: Path) -> None:
    """Another process, another study of this process, and somebody who tampers: the log is read again."""
    path = str(tmp_path / "a.db")
    with new_study(path, delta=1e-6) as study, Study.open(path) as other:
        for _ in range(5):
            play(study, 2)
            play(other, 2)
        assert study.trials == other.trials == 20
        with new_study(path, name="second", delta=1e-6) as second:
            for each in (study, second, study, second):
                play(each, 2)
        play(study, 2)
        assert_sound(study)
        with sqlite3.connect(path) as stranger:
            stranger.execute("DROP TRIGGER osrl_events_update")
            stranger.execute("UPDATE osrl_events SET hash = 'x' WHERE study = 1 AND seq = 3")
            last = "(SELECT max(seq) FROM osrl_events WHERE study = 1)"
            stranger.execute(f"UPDATE osrl_events SET hash = 'y' WHERE study = 1 AND seq = {last}")
        stranger.close()
        with pytest.raises(StorageDamaged):
            study.ask()


def test_a_study_that_was_deleted_in_this_process_is_gone(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with new_study(path, delta=1e-6) as study:
        play(study, 5)
        Study.delete(path, "study")
        with pytest.raises(UnknownStudy):
            study.ask()

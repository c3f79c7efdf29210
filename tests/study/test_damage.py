"""Files that are damaged, foreign, read-only or gone, and backups: it is said, and nothing is harmed."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from osrl.cli import main
from osrl.errors import StorageDamaged, StorageError
from osrl.study.backup import backup, restore
from osrl.study.log.events import Recovered
from osrl.study.storage.sqlite import _is_ours
from osrl.study.study import Study
from tests.support.databases import own_server
from tests.support.instances import refused
from tests.support.processes import forked, run_python
from tests.support.studies import EARLY, assert_sound, closed, load_kernels, new_study, play
from tests.support.tampering import damaged

NOBODY = 65534


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    load_kernels(tmp_path_factory.mktemp("warm"), "uniform")  # what is in the file must not depend on time
    found = tmp_path_factory.mktemp("sound") / "study.db"
    with new_study(str(found), policy="uniform", delta=1e-6) as study:
        play(study, 60)
        return closed(study, str(found))


# Damage -------------------------------------------------------------------------------------------


def outcome(path: str, capsys: Any) -> tuple[int, str, str]:
    """What `osrl study verify` says of a file: exit code, standard output and error."""
    code = main(["study", "verify", path, "--json"])
    out, err = capsys.readouterr()
    return code, out, err


def check_damaged(path: str, whole: str, capsys: Any) -> int:
    """A damaged file is said to be damaged, or nothing that matters was hit."""
    code, out, err = outcome(path, capsys)
    assert "Traceback" not in err and "call again" not in err
    if code == 0:
        assert out == whole
    else:
        assert code == 5, (code, out, err)
        assert err.count("\n") == 1 or json.loads(out)["problems"]
    for command in (["status"], ["ask"], ["export", path + ".jsonl"]):
        code = main(["study", command[0], path, *command[1:], "--json"])
        said = capsys.readouterr()
        assert code in (0, 5) and "Traceback" not in said.err, (command, code, said)
    return code


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(23), 42])  # 42: a name that SQLite cannot even complain about
def test_random_damage_is_said(seed: int, sound: bytes, path: str, capsys: Any) -> None:
    Path(path).write_bytes(sound)
    whole = outcome(path, capsys)[1]
    Path(path).write_bytes(damaged(sound, random.Random(seed)))
    check_damaged(path, whole, capsys)


def test_a_study_that_is_not_found_by_its_name_is_damage(sound: bytes, path: str, capsys: Any) -> None:
    Path(path).write_bytes(sound)
    with sqlite3.connect(path) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'osrl_studies' AND type = 'index'"
        (page,) = connection.execute(query).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    start, end = (page - 1) * size, page * size
    assert b"study" in sound[start:end]
    Path(path).write_bytes(sound[:start] + sound[start:end].replace(b"study", b"stuhy") + sound[end:])
    for verb in ("verify", "status", "ask"):
        assert main(["study", verb, path]) == 5
        assert "the index of names is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("size", [0, 10, 100, 4096, 5000, 20480, -4096, -1])
def test_a_file_that_was_cut_is_said(size: int, sound: bytes, path: str, capsys: Any) -> None:
    Path(path).write_bytes(sound[:size])
    code, out, err = outcome(path, capsys)
    assert code == 5 and "create one" not in err + out, (out, err)


def test_how_much_can_still_be_read_is_said(sound: bytes, path: str, capsys: Any) -> None:
    Path(path).write_bytes(sound)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER osrl_events_update")
        connection.execute("UPDATE osrl_events SET payload = '{}' WHERE seq = 77")
    connection.close()
    found = json.loads(outcome(path, capsys)[1])
    assert found["events"] == 77 and "event 77 is not the one" in found["problems"][0]


# What is not ours, or cannot be written -----------------------------------------------------------


def test_a_database_that_is_not_ours_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    before = path.read_bytes(), path.stat().st_mtime_ns, sorted(os.listdir(tmp_path))
    for act in (lambda: Study.open(path), lambda: Study.list(path), lambda: Study.delete(path, "study")):
        with refused("holds no study; give the file of a study (this one is left as it is)"):
            act()
    assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(os.listdir(tmp_path))) == before


def test_a_study_that_is_only_in_the_write_ahead_log_is_ours(path: str) -> None:
    with new_study(path):
        assert _is_ours(Path(path))


def test_only_the_owner_may_read_a_new_file(path: str) -> None:
    with new_study(path) as study:
        study.ask()
        for suffix in ("", "-wal"):
            assert stat.S_IMODE(os.stat(path + suffix).st_mode) == 0o600


def look(path: str, out: str, trials: int) -> None:
    """All that needs no writing, as somebody who must not write."""
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    assert Study.list(path) == ("study",)
    with Study.open(path) as study:
        assert study.trials == trials and study.status.told == trials
        assert study.verify().ok and len(list(study.events())) > trials
        study.write_log(f"{out}/log.jsonl")
        with pytest.raises(StorageError, match="cannot be written"):
            study.ask()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="osrl-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("what", ["a file", "a folder", "a folder with a log", "of the first schema"])
def test_read_only_files_and_folders_can_be_read(what: str, open_folder: Path) -> None:
    tmp_path = open_folder
    kept, out = tmp_path / "kept", tmp_path / "out"
    kept.mkdir()
    out.mkdir()
    out.chmod(0o777)
    path, trials = kept / "study.db", 6
    with new_study(str(path), delta=1e-6) as study:
        play(study, trials)
        assert study.status.told == trials and study.verify().ok  # its kernels are loaded
        if what == "a folder with a log":  # as after a crash
            shutil.copy(path, tmp_path / "crashed.db")
            shutil.copy(f"{path}-wal", tmp_path / "crashed.db-wal")
    if what == "a folder with a log":
        for suffix in ("", "-wal"):
            shutil.move(tmp_path / f"crashed.db{suffix}", f"{path}{suffix}")
    if what == "of the first schema":
        shutil.copy(EARLY / "studies.db", path)
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM osrl_studies WHERE name <> 'tas gaussian'")
            connection.execute("UPDATE osrl_studies SET name = 'study'")
        connection.close()
        trials = 12
    for each in kept.iterdir():
        each.chmod(0o444)
    kept.chmod(0o777 if what == "a file" else 0o555)
    before = {each.name: each.read_bytes() for each in kept.iterdir() if each.suffix == ".db"}
    pid = forked(partial(look, str(path), str(out), trials))
    assert os.waitpid(pid, 0)[1] == 0
    assert {each.name: each.read_bytes() for each in kept.iterdir() if each.suffix == ".db"} == before
    assert (out / "log.jsonl").exists()
    kept.chmod(0o755)


# A write-ahead log that is removed ----------------------------------------------------------------


@pytest.mark.parametrize("suffixes", [["-wal"], ["-wal", "-shm"]])
def test_a_write_ahead_log_that_vanishes_is_noticed_before_the_next_acknowledgement(
    path: str, suffixes: list[str]
) -> None:
    with new_study(path, delta=1e-6) as study:
        play(study, 5)
        trial = study.ask()
        for suffix in suffixes:
            Path(path + suffix).unlink()
        with refused("its write-ahead log"):
            study.tell(trial, 1)
        with pytest.raises(StorageDamaged):
            study.tell(trial, 1)
    if suffixes == ["-wal"]:
        return  # as long as this process lives, its index stands in the way of others
    code = f"from osrl.study.study import Study; s = Study.open({path!r}); assert s.verify().ok"
    run_python("-c", code)  # what had reached the file is sound


# Backups ------------------------------------------------------------------------------------------


def test_a_backup_is_taken_while_others_write_and_restored(place: str, tmp_path: Path) -> None:
    file, back = tmp_path / "backup.db", str(tmp_path / "back.db")
    with new_study(place, policy="uniform", delta=1e-9) as study, new_study(place, name="second") as second:
        play(study, 5)
        play(second, 3)
        writing = threading.Event()

        def write() -> None:
            with Study.open(place, "study") as other:
                while not writing.is_set():
                    other.tell(other.ask(), 1)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            copies = [backup(place, file) for _ in range(3)]
        finally:
            writing.set()
            thread.join()
        assert [each.study for each in copies[-1]] == ["study", "second"]
        assert [each[0].events for each in copies] == sorted(each[0].events for each in copies)
        assert not list(tmp_path.glob(".backup*"))
        for each in copies:
            assert study.verify(each[0].head).ok
        late = study.ask()
    with Study.open(file, "second") as copy:
        assert copy.trials == 3 and copy.verify(copies[-1][1].head).ok
    found = restore(back, file)
    with Study.open(back, "study") as again:
        assert again.head == found[0].head and again.verify(copies[-1][0].head).ok
        assert isinstance(list(again.events())[-1].body, Recovered)
        while again.ask().id < late.id:
            pass
        with refused("was handed out by another branch"):
            again.tell(late, 1)
        assert_sound(again)
    with refused("has a study 'study' already; restore to a new place"):
        restore(back, file)


def test_a_running_process_goes_on_with_what_was_restored(path: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    with new_study(path, delta=1e-6) as study:
        play(study, 5)
        backup(path, file)
        play(study, 5)
        study.close()
        Path(path).unlink()
        restore(path, file)
        assert study.trials == 5  # a restore is a confirmation
        play(study, 1)
        assert_sound(study)


def test_a_backup_is_opened_without_replaying_all_of_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last snapshot goes with the log, and so it does when the backup is restored; not a wrong one."""
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 20)
    file, back = tmp_path / "backup.db", tmp_path / "back.db"
    with new_study(place) as study:
        play(study, 25)
        kept = study._session.snapshot()
        assert kept is not None
        backup(place, file)
        restore(back, file)
        for copy in (file, back):
            with Study.open(copy) as other:
                assert other._session.snapshot() == kept
                assert other._session._load().position == kept.position
                assert other.pending == study.pending
                assert other.verify().ok
        with study._storage.lock_log(study._session.number) as log:
            log.keep(kept._replace(position=kept.position - 1))
        backup(place, file)
        with Study.open(file) as other:
            assert other._session.snapshot() is None and other.trials == study.trials


def test_a_backup_remembers_what_was_deleted(place: str, tmp_path: Path) -> None:
    """Also when it is taken of what was restored. A tombstone of elsewhere lets nobody delete anything."""
    for name in ("kept", "gone", "gone too"):
        new_study(place, name=name).close()
    Study.delete(place, "gone", by="Ada", reason="a rehearsal")
    Study.delete(place, "gone too")
    first, second, copy = (str(tmp_path / name) for name in ("first.db", "second.db", "copy.db"))
    backup(place, first)
    restore(copy, first)
    Study.delete(copy, "kept")
    backup(copy, second)
    assert Study.deleted(first) == Study.deleted(place)
    assert [stone.name for stone in Study.deleted(second)] == ["gone", "gone too", "kept"]
    with sqlite3.connect(first) as connection, pytest.raises(sqlite3.Error, match="append-only"):
        connection.execute("DELETE FROM osrl_events")


def test_what_does_not_verify_is_no_backup(path: str, tmp_path: Path) -> None:
    with new_study(path) as study:
        play(study, 5)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER osrl_events_update")
        connection.execute("UPDATE osrl_events SET at = at + 1 WHERE seq = 4")
    connection.close()
    with pytest.raises(StorageDamaged):
        backup(path, tmp_path / "backup.db")
    assert sorted(os.listdir(tmp_path)) == ["study.db"]


# A server that does not answer --------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_that_is_stopped_does_not_hold_a_call_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sockets are there, and nobody answers: neither at rest nor in the middle of a call."""
    monkeypatch.setattr("osrl.study.storage.url.CONNECT_WAIT", 2)
    monkeypatch.setattr("osrl.study.storage.url.WAIT", 1)
    monkeypatch.setattr("osrl.study.storage.transaction.ANSWER_GRACE_SECONDS", 1)
    load_kernels(tmp_path)
    with own_server() as server, new_study(server.url, delta=1e-6) as study:
        play(study, 2)
        server.freeze()
        try:
            for act in (study.ask, lambda: study.verdict):
                with pytest.raises(StorageError):
                    act()
        finally:
            server.thaw()
        play(study, 2)
        assert_sound(study)

"""Mistakes at the command line that must do no harm: a file in the wrong place, a text without an end."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from osrl.study.backup import backup, restore
from osrl.study.study import Study
from tests.support.commands import Capture, refusal
from tests.support.instances import refused
from tests.support.studies import assert_sound, new_study, play

LONG = "x" * 10_001


def content(path: Path) -> tuple[bytes, list[str]]:
    """A file, and what is beside it."""
    return path.read_bytes(), sorted(os.listdir(path.parent))


def test_a_backup_does_not_replace_a_database_in_use(tmp_path: Path) -> None:
    path, link, other = tmp_path / "study.db", tmp_path / "link.db", tmp_path / "other.db"
    new_study(str(path), policy="uniform", delta=1e-6).close()
    link.symlink_to(path)
    before = content(path)
    for target in (path, link, tmp_path / "." / "study.db"):
        with refused("is a database in use; give another file for the backup"):
            backup(path, target)
    assert content(path) == before
    with new_study(str(other), policy="uniform") as running:
        play(running, 3)
        with refused("is a database in use"):
            backup(path, other)
        play(running, 2)
        assert_sound(running)


def test_a_backup_replaces_only_an_earlier_backup_of_the_same_studies(tmp_path: Path) -> None:
    """Database and backup exchanged, a copy of another study, a file of another kind: all are refused."""
    live, old, stranger, text = (tmp_path / name for name in ("live.db", "old.db", "stranger.db", "notes.txt"))
    with new_study(str(live), policy="uniform", delta=1e-6) as study:
        play(study, 3)
        backup(live, old)
        play(study, 3)
    new_study(str(stranger), policy="uniform").close()
    text.write_text("not a backup", encoding="utf-8")
    for source, target in ((old, live), (live, stranger), (stranger, live), (live, text)):
        before = content(target)
        with refused("give a new file, or force to replace this one"):
            backup(source, target)
        assert content(target) == before
    (copied,) = backup(live, old)
    backup(live, old)  # nothing has happened since
    backup(live, stranger, force=True)
    for copy in (old, stranger):
        with Study.open(copy) as study:
            assert (study.trials, study.head) == (6, copied.head)


def test_no_file_is_written_over_a_database(path: str, tmp_path: Path, capsys: Capture) -> None:
    with new_study(path, policy="uniform") as study:
        play(study, 3)
    before = Path(path).read_bytes()
    other = tmp_path / "copy.csv"
    other.write_bytes(before)
    assert "is a database, which is not overwritten" in refusal(capsys, "study", "report", path, "--out", path)
    assert "is a database, which is not overwritten" in refusal(capsys, "study", "export", path, other)
    assert Path(path).read_bytes() == other.read_bytes() == before


def test_heads_are_not_written_into_a_database(path: str, tmp_path: Path) -> None:
    anchors = tmp_path / "heads.jsonl"
    with new_study(path, policy="uniform", delta=1e-6) as study:
        play(study, 3)
        study.close()
        before = Path(path).read_bytes()
        with refused("is a database; give a file of its own for the heads"):
            study.anchor(path)
        study.close()
        assert Path(path).read_bytes() == before
        for count in (1, 2):
            study.anchor(anchors)
            assert len(anchors.read_text(encoding="utf-8").splitlines()) == count
    assert stat.S_IMODE(anchors.stat().st_mode) == 0o600


def test_nothing_is_put_into_a_database_of_others(path: str, tmp_path: Path) -> None:
    with new_study(path, policy="uniform") as study:
        play(study, 3)
        study.write_log(tmp_path / "log.jsonl")
    folder = tmp_path / "others"
    folder.mkdir()
    mine = folder / "mine.db"
    with sqlite3.connect(mine) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    before = content(mine)
    acts: tuple[Callable[[], object], ...] = (
        lambda: new_study(str(mine)),
        lambda: Study.read_log(mine, tmp_path / "log.jsonl"),
        lambda: restore(mine, path),
    )
    for act in acts:
        with refused("holds other tables than ours; give a new file (this one is left as it is)"):
            act()
        assert content(mine) == before


@pytest.mark.parametrize("said", [LONG, b"bytes", 7])
def test_who_and_why_are_texts_with_an_end(said: str, path: str) -> None:
    what = "has 10,001 letters; use at most 10,000" if said == LONG else "; give a text"
    with new_study(path, policy="uniform", delta=1e-6) as study:
        play(study, 3)
        one, two = study.ask(n=2)
        study.tell(two, 1)
        before = list(study.events())
        acts: tuple[Callable[[], object], ...] = (
            lambda: study.tell(one, 1, by=said),
            lambda: study.abandon(one, by=said),
            lambda: study.abandon(one, reason=said),
            lambda: study.correct(two, 0, reason=said),
            lambda: study.correct(two, 0, reason="a typo", by=said),
            lambda: study.recover(said),
            lambda: study.recover("a rehearsal", by=said),
            lambda: Study.delete(path, "study", reason=said),
        )
        for act in acts:
            with refused(what):
                act()
        assert list(study.events()) == before
        study.tell(one, 1, by="x" * 10_000)
        assert_sound(study)

"""Leases: a trial that does not report in time is overdue, and still counts by its worst reward."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from osrl.cli import main
from osrl.study.log import events
from osrl.study.study import Study
from tests.support.instances import refused
from tests.support.studies import assert_sound, new_study, play

HOUR = 3_600_000_000


def test_the_end_of_a_lease_marks_a_trial_and_takes_nothing_back(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows whether its arm was seen: only a person may say that the loss is ignorable."""
    with new_study(place, policy="uniform", delta=1e-6) as study:
        play(study, 5)
        one, two = study.ask(n=2, lease="1h")
        study.ask()
        asked = events.now()
        before = study.evidence
        for later, overdue in ((0, []), (HOUR // 2, []), (2 * HOUR, [one.id, two.id])):
            monkeypatch.setattr("osrl.study.views.status.now", lambda later=later: asked + later)
            with Study.open(place) as reader:
                status = reader.status
            assert [trial.id for trial in status.pending if trial.overdue] == overdue
            assert [trial.until is None for trial in status.pending] == [False, False, True]
            assert len(status.pending) == 3 and study.evidence.equals(before)
        study.tell(one, 1)  # late, and welcome
        study.abandon(two, ignorable=True, reason="the worker died before it began")
        assert study.status.told == 6
        assert_sound(study)


def test_a_lease_survives_a_snapshot_and_a_file(path: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 5)
    with new_study(path, policy="uniform", delta=1e-6) as study:
        study.ask(lease=timedelta(minutes=30))
        play(study, 10)
        study.write_log(tmp_path / "log.jsonl")
        (kept,) = study.status.pending
        with Study.read_log(path, tmp_path / "log.jsonl", "copy") as copy, Study.open(path, "study") as again:
            assert again.status.pending == copy.status.pending == (kept,)
            assert_sound(again)
        assert kept.until is not None and abs(kept.until - kept.asked_at - HOUR // 2) < HOUR // 100


@pytest.mark.parametrize("lease", ["", "1", "h", "-1h", "0s", "1 week", "99999d", 5, "9" * 50 + "h"])
def test_what_is_no_time_is_refused(path: str, lease: Any) -> None:
    with new_study(path) as study:
        with refused("give a time such as 30m, 1h or 2d"):
            study.ask(lease=lease)
        assert study.trials == 0


def test_a_lease_from_the_shell(path: str, capsys: Any, monkeypatch: Any) -> None:
    new_study(path).close()
    assert main(["study", "ask", path, "--lease", "90s", "--json"]) == 0
    capsys.readouterr()
    later = events.now() + 100_000_000
    monkeypatch.setattr("osrl.study.views.status.now", lambda: later)
    assert main(["study", "status", path, "--json"]) == 0
    (pending,) = json.loads(capsys.readouterr().out)["pending"]
    assert pending["overdue"] is True and pending["until"] > pending["asked_at"]
    assert main(["study", "status", path]) == 0
    assert ", overdue" in capsys.readouterr().out

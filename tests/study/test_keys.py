"""Trials with keys and notes: asked again they are the same, whoever asks; many are told at once."""

from __future__ import annotations

import io
import json
import os
import random
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import osrl
from osrl.errors import RewardRefused, StorageDamaged, UnknownTrial
from osrl.study.log.events import Asked
from osrl.study.state.trial import Trial
from osrl.study.study import Study
from osrl.study.views.status import PendingTrial
from tests.support.commands import Capture, printed, refusal
from tests.support.instances import refused
from tests.support.processes import forked
from tests.support.studies import assert_sound, folded, load_kernels, new_study, play


def test_a_key_asked_again_is_the_same_trial(place: str) -> None:
    with new_study(place, policy="osrl") as study:
        first = study.ask("old", key="patient-17", note={"site": "Rome", "age": 71, "new": True})
        with Study.open(place) as other:
            assert other.ask(key="patient-17") == first == other.ask("old", key="patient-17", note=first.note)
        assert study.trials == 1 and (first.key, first.note) == (
            "patient-17",
            {"site": "Rome", "age": 71, "new": True},
        )
        with refused("key 'patient-17' is that of trial 1 in task 'old', now the task is 'young'"):
            study.ask("young", key="patient-17")
        with refused("which has another note; a note cannot be changed"):
            study.ask(key="patient-17", note={"site": "Oslo"})
        study.tell(key="patient-17", reward=1)
        study.tell(key="patient-17", reward=1)  # counts once
        assert study.ask(key="patient-17") == first and study.status.told == 1
        with refused("a key is that of one trial"):
            study.ask(n=2, key="both")  # type: ignore[call-overload]
        assert_sound(study)


def test_a_key_is_answered_after_the_verdict(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), budget=1) as study:
        trial = study.ask(key="only")
        study.tell(trial, 1)
        assert study.verdict == "budget exhausted" and study.ask(key="only") == trial
        with pytest.raises(osrl.StudyEnded):
            study.ask(key="another")


def test_keys_and_notes_come_back(place: str, tmp_path: Path) -> None:
    with new_study(place, policy="osrl") as study:
        study.tell(study.ask(key="a", note={"site": "Łódź"}), 1)
        play(study, 1)
        waiting = study.ask("old", key="c")
        frame = study.history
        assert frame["key"].to_list() == ["a", None, "c"]
        assert frame["note"].to_list() == ['{"site": "Łódź"}', None, None]
        (pending,) = study.status.pending
        assert issubclass(PendingTrial, Trial)
        assert (pending.key, pending.token, pending.propensity) == ("c", waiting.token, waiting.propensity)
        found = study.trial("a")
        assert (found.id, found.status, found.reward, found.key) == (1, "told", 1.0, "a")
        assert study.trial(1) == found == study.trial(found) and study.trial(waiting.token).status == "pending"
        study.tell(pending, 0)
        study.write_log(tmp_path / "log.jsonl")
        study.write_trials(tmp_path / "trials.csv")
        assert_sound(study)
    assert "key" in (tmp_path / "trials.csv").read_text().splitlines()[0].split(",")
    with Study.read_log(str(tmp_path / "copy.db"), tmp_path / "log.jsonl") as copy:
        assert copy.trial("c").reward == 0.0 and copy.ask(key="a").id == 1
        assert copy.trials == 3


def test_the_key_and_the_note_are_in_the_chain(tmp_path: Path) -> None:
    """Whoever changes a key in the log breaks the chain; one that is only said to be there is damage."""
    import sqlite3

    path = str(tmp_path / "a.db")
    with new_study(path) as study:
        study.ask(key="a")
        play(study, 1)
    with sqlite3.connect(path) as connection:
        for change in ("UPDATE osrl_keys SET trial = 2", "DELETE FROM osrl_keys"):
            with pytest.raises(sqlite3.Error, match="append-only"):
                connection.execute(change)
        with pytest.raises(sqlite3.Error, match="append-only"):
            connection.execute("INSERT OR REPLACE INTO osrl_keys SELECT study, key, 2 FROM osrl_keys")
        connection.execute("INSERT INTO osrl_keys SELECT study, 'b', 2 FROM osrl_keys")
    with Study.open(path) as study:
        with pytest.raises(StorageDamaged, match="trial 2 is said to have key 'b', and does not"):
            study.trial("b")
        with pytest.raises(StorageDamaged, match="is said to have key"):
            study.ask(key="b")
        assert any("trial 2 is said to have key 'b'" in each for each in study.verify().problems)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER osrl_keys_delete")
        connection.execute("DELETE FROM osrl_keys")
    with Study.open(path) as study:
        assert any("trial 1 has key 'a', which is missing" in each for each in study.verify().problems)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER osrl_events_update")
        connection.execute("""UPDATE osrl_events SET payload = replace(payload, '"key":"a"', '"key":"z"')""")
    with pytest.raises(StorageDamaged, match="is not the one that was written"), Study.open(path) as study:
        study.ask()


def test_keys_and_notes_that_cannot_be_stored_are_refused(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db")) as study:
        for key in ("", " ", "a\nb", 7, "\ud800", "k" * 201):
            with refused("the key"):
                study.ask(key=key)  # type: ignore[arg-type]
        notes: list[Any] = [
            "text",
            {1: 2},
            {"a": [1]},
            {"a": float("nan")},
            {"a": "\ud800"},
            {"a": "x" * 5000},
        ]
        for note in notes:
            with refused("note"):
                study.ask(note=note)
        with pytest.raises(UnknownTrial, match="no trial with key 'nobody'"):
            study.tell(key="nobody", reward=1)
        with pytest.raises(UnknownTrial, match="no trial with key 'nobody'"):
            study.trial("nobody")
        with refused("the trial is 1, and the key 'a'"):
            study.tell(1, 1, key="a")
        with refused("the reward is None"):
            study.tell(1)
        assert study.trials == 0


def test_many_are_told_or_none(place: str) -> None:
    with new_study(place, policy="osrl", delta=1e-6) as study:
        a, b, c = study.ask(n=3)
        study.ask(key="d")
        head = study.head
        for bad, why in (((b, 7), "row 2: the reward is 7"), ((99, 1), "row 2: the study has no trial 99")):
            with refused(why):
                study.tell_many([(a, 1), bad])
        with pytest.raises(UnknownTrial, match="row 1: the study has no trial with key 'x'"):
            study.tell_many([{"key": "x", "reward": 1}])
        assert study.head == head and study.status.told == 0
        with pytest.raises(RewardRefused, match="row 2: trial 1 was told 1, now 0"):
            study.tell_many([(a, 1), (a, 0)])
        assert study.head == head
        assert study.tell_many([(a, 1), (a, True), {"key": "d", "reward": 0}, {"trial": b.id, "reward": 1}]) == 3
        assert study.tell_many([(a, 1)]) == 0 == study.tell_many([])
        assert study.abandon_many([c, {"trial": c.token}], reason="lost in the mail") == 1
        assert study.pending == () and study.status.told == 3
        with refused("row 1: 'gain' is not known; give harm, key, reward, trial"):
            study.tell_many([{"trial": 1, "gain": 2}])
        assert_sound(study)


def test_a_trial_of_another_study_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with new_study(path, name="one") as one, new_study(path, name="two") as two:
        trial, _ = one.ask(), two.ask()
        with pytest.raises(UnknownTrial, match="was handed out by another study"):
            two.tell(trial, 1)
        with pytest.raises(UnknownTrial, match="was handed out by another study"):
            two.abandon(trial, ignorable=True)
        with pytest.raises(UnknownTrial, match="row 1: trial 1 was handed out by another study"):
            two.tell_many([(trial, 1)])
        with pytest.raises(UnknownTrial, match="was handed out by another study"):
            two.trial(trial)
        assert two.status.told == 0
        one.tell(one.status.pending[0], 1)


def test_processes_that_ask_for_the_same_keys_share_the_trials(place: str, tmp_path: Path) -> None:
    keys = [f"patient-{i}" for i in range(12)]

    def work(seed: int) -> None:
        order = random.Random(seed).sample(keys, len(keys))
        with Study.open(place) as study:
            for key in order:
                study.tell(key=study.ask(key=key).key, reward=1)

    with new_study(place, policy="osrl", delta=1e-9) as study:
        load_kernels(tmp_path, "osrl")
        pids = [forked(partial(work, i)) for i in range(4)]
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 4
        assert study.trials == len(keys) and study.pending == ()
        assert sorted(study.history["key"]) == sorted(keys)
        assert_sound(study)


@pytest.mark.slow
def test_processes_that_are_killed_leave_no_key_twice(place: str, tmp_path: Path) -> None:
    """SIGKILL at any moment: asked again, every key that was answered is the trial that was answered."""

    def work(seed: int, pipe: int) -> None:
        rng = random.Random(seed)
        with Study.open(place) as study:
            while True:
                trial = study.ask(key=f"k{rng.randrange(40)}")
                os.write(pipe, f"{trial.key} {trial.id}\n".encode())

    rng = random.Random(0)
    seen: dict[str, int] = {}
    with new_study(place, policy="osrl", delta=1e-9) as study:
        load_kernels(tmp_path, "osrl")
        for batch in range(5):
            reader, writer = os.pipe()
            pids = [forked(partial(work, 10 * batch + i, writer)) for i in range(4)]
            os.close(writer)
            with os.fdopen(reader) as lines:
                answered = [lines.readline() for _ in range(rng.randrange(5, 30))]
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                for line in [*answered, *lines]:
                    key, number = line.split()
                    assert seen.setdefault(key, int(number)) == int(number)
        asked = [each.body.key for each in study.events() if isinstance(each.body, Asked)]
        assert len(asked) == len(set(asked))
        for key, seen_as in seen.items():
            assert study.ask(key=key).id == study.trial(key).id == seen_as
        assert_sound(study)
        assert repr(folded(study).pending) == repr(study._session.refresh().pending)


# The command line ---------------------------------------------------------------------------------


def test_the_command_line_takes_keys_notes_and_files(tmp_path: Path, monkeypatch: Any, capsys: Capture) -> None:
    path = str(tmp_path / "a.db")
    run = partial(printed, capsys)
    new_study(path, policy="osrl", delta=1e-6).close()
    asked = json.loads(run("study", "ask", path, "--key", "p1", "--note", "site=Rome", "--note", "age=71", "--json"))
    assert asked["key"] == "p1" and asked["note"] == {"site": "Rome", "age": 71}
    assert json.loads(run("study", "ask", path, "--key", "p1", "--json")) == asked
    assert "trial 2 (p2)" in run("study", "ask", path, "--key", "p2")
    assert "trial 1: reward 1 is stored" in run("study", "tell", path, "--key", "p1", "true")
    run("study", "ask", path, "-n", "4")
    rows = tmp_path / "rewards.csv"
    rows.write_text("trial, key ,reward,comment\n3,,1,fine\n,p2,0,\n1,,1,again\n")
    told = json.loads(run("study", "tell", path, "--from", str(rows), "--json"))
    assert (told["rows"], told["new"]) == (3, 2)
    lines = "\n".join(json.dumps({"trial": i, "reward": True}) for i in (4, 5))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert "2 rewards are stored; verdict: running" in run("study", "tell", path, "--from", "-")
    rows.write_text("trial\n6\n")
    assert "1 trials are abandoned" in run("study", "abandon", path, "--from", str(rows), "--reason", "moved")
    with Study.open(path) as study:
        assert study.pending == () and study.status.told == 5


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("trial,reward\n1,1\n2,yes\n", "row 2: the reward is 'yes'"),
        ("trial,reward\n1\n", "row 1: the reward is None"),
        ("number,reward\n1,1\n", "the heading is 'number,reward'; give CSV with the columns trial or key"),
        ("trial,reward\n1,1,1\n", "line 2: more cells than the heading has"),
        ('{"trial": 1, "reward": 1}\n{"trial": 2\n', "line 2: '{\"trial\": 2' is no JSON object"),
        ('{"trial": 1, "reward": 1, "day": 3}\n', "row 1: 'day' is not known"),
    ],
)
def test_a_file_with_a_mistake_is_refused_whole(tmp_path: Path, content: str, why: str, capsys: Capture) -> None:
    path, file = str(tmp_path / "a.db"), tmp_path / "rewards"
    with new_study(path, policy="osrl") as study:
        study.ask(n=2)
    file.write_text(content)
    assert why in refusal(capsys, "study", "tell", path, "--from", str(file))
    with Study.open(path) as study:
        assert study.status.told == 0

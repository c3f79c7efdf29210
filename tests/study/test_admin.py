"""The life of a study: pauses, more budget, an early end, arms that are withdrawn or added."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy.stats import binom

import osrl
from osrl.errors import OsrlError, StudyEnded
from osrl.study.log.chain import next_event
from osrl.study.settings import new_settings
from osrl.study.state.state import initial_state
from osrl.study.study import Study
from tests.support.commands import Capture, printed
from tests.support.instances import refused
from tests.support.processes import forked, wait_until
from tests.support.studies import MEANS, assert_sound, late_and_lost, load_kernels, new_study, play

THREE = {"representations": ["A", "B", "C"], "policy": "osrl"}
GAUSSIAN = {"family": "gaussian", "noise_sd": 0.5}
CHANCES = {**MEANS, "C": {"low": 0.6, "high": 0.95}}


def test_a_paused_study_hands_out_nothing(place: str) -> None:
    with new_study(place, policy="osrl") as study, Study.open(place) as other:
        trial = study.ask(key="a")
        study.pause("the freezer is broken", by="Ann")
        for each in (study, other):
            with pytest.raises(osrl.StudyPaused, match=r"is paused \(the freezer is broken\)"):
                each.ask()
        assert study.status.paused == "the freezer is broken" and study.verdict == "running"
        assert study.ask(key="a") == trial  # it is handed out already
        study.pause("still")  # it is paused already
        other.tell(trial, 1)
        other.resume()
        study.ask()
        assert study.status.paused is None
        assert [each.kind for each in study.events()].count("pause") == 1
        with refused("there is no reason"):
            study.pause(" ")
        assert_sound(study)


def test_a_closed_study_has_its_best_guess(place: str) -> None:
    with new_study(place, policy="osrl", delta=1e-9) as study:
        play(study, 60)
        late, guess = study.ask(), study.best
        study.close("the sponsor has left")
        assert (study.verdict, study.best) == ("closed", guess)
        with pytest.raises(StudyEnded, match="has ended"):
            study.ask()
        study.tell(late, 1)
        study.close("again")
        with pytest.raises(StudyEnded, match="its verdict is final"):
            study.pause("x")
        with pytest.raises(StudyEnded, match="its verdict is final"):
            study.withdraw(representation="A", reason="x")
        assert (study.verdict, study.best) == ("closed", guess)
        assert_sound(study)


def test_the_budget_can_be_raised(place: str) -> None:
    with new_study(place, policy="osrl", budget=3, delta=1e-9) as study:
        trials = study.ask(n=3)
        with pytest.raises(osrl.BudgetSpent):
            study.ask()
        with refused("can only be raised"):
            study.raise_budget(2)
        for bad in (0, True, 1.5, "9"):
            with refused("the budget is"):
                study.raise_budget(bad)  # type: ignore[arg-type]
        study.raise_budget(4, reason="more money")
        trials += (study.ask(),)
        study.tell_many([(trial, 1) for trial in trials])
        assert study.verdict == "budget exhausted" and study.settings.budget == 4
        with pytest.raises(StudyEnded):
            study.raise_budget(9)
        assert_sound(study)
    with new_study(place, name="without") as study, refused("the study has no budget"):
        study.raise_budget(5)


# Arms that go and come ----------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"epsilon": 0.1}, {"policy": "uniform"}, {"policy": "tas"}])
def test_a_withdrawn_representation_is_not_asked_for_again(place: str, changes: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 17)
    with new_study(place, **{**THREE, "delta": 0.01, **changes}) as study:
        play(study, 25, means=CHANCES)
        old = study.ask()
        kept = study.arms.select("task", "representation", "predictor", "told")
        study.withdraw(representation="C", reason="three patients had a rash", by="safety board")
        assert study.status.since == 27 and study.settings.representations == ["A", "B"]
        assert study.arms.select(kept.columns).sort(kept.columns).equals(kept.sort(kept.columns))
        assert most_evidence(study) < 1e-9  # from the beginning
        study.tell(old, 1)
        assert study.status.told == 26 and most_evidence(study) < 1e-9
        play(study, 20, means=CHANCES)
        with Study.open(place) as other:  # from a snapshot
            assert other.arms.equals(study.arms) and other.evidence.equals(study.evidence)
        play(study, 4000, 1, CHANCES)
        assert study.verdict.startswith("decided") and study.best.representation == "A"
        later = study.history.filter(pl.col("trial") > 26)
        assert set(later["representation"]) <= {"A", "B"}
        assert_sound(study)


def most_evidence(study: Study) -> float:
    return max(study.evidence["log_evidence"].to_list(), default=0.0)


def test_a_predictor_goes_and_another_comes(place: str, tmp_path: Path) -> None:
    with new_study(place, policy="osrl", predictors=["low", "high", "huge"], delta=0.1) as study:
        means = {name: {**own, "huge": 0.99} for name, own in MEANS.items()}
        play(study, 30, means=means)
        study.withdraw(predictor="huge", reason="too dear")
        play(study, 30, means=means)
        study.add(representation="D", reason="it was approved")
        with refused("D"):
            study.add(representation="D", reason="twice")
        play(study, 4000, means={**means, "D": {"low": 0.1, "high": 0.99}})
        assert study.verdict == "decided" and study.best.representation == "D"
        assert study.best.predictors == {"young": "high", "old": "high"}
        frame = study.history
        assert {len(each) for each in frame["propensities"]} == {9}
        for row in frame.rows(named=True):
            assert sum(row["propensities"]) == pytest.approx(1.0) and row["propensity"] > 0
        study.write_trials(tmp_path / "trials.csv")
        study.write_log(tmp_path / "log.jsonl")
        first = study.trial(1)
        assert first.propensity == frame["propensity"][0]
        assert_sound(study)
        with Study.read_log(str(tmp_path / "copy.db"), tmp_path / "log.jsonl") as copy:
            assert copy.verdict == "decided" and copy.history.equals(frame)


@pytest.mark.parametrize("changes", [{}, {"epsilon": 0.1}, {"policy": "uniform"}, GAUSSIAN])
def test_a_task_goes_and_another_comes(place: str, changes: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 17)
    with new_study(place, **{"policy": "osrl", "delta": 0.1, **changes}) as study:
        play(study, 20, means=CHANCES)
        study.ask("old", key="arrived")
        late = study.ask("young")
        study.withdraw(task="young", reason="the market was sold")
        with refused("the study has no task 'young'; use one of 'old'"):
            study.ask("young")
        with refused("nothing left to compare"):
            study.withdraw(task="old", reason="the last one")
        assert study.settings.tasks == ["old"] and most_evidence(study) < 1e-9
        study.tell(late, 1)
        play(study, 20, means=CHANCES)
        study.add(task="late", reason="a new market")
        study.tell(key="arrived", reward=1)
        assert study.status.without_data == ("late",)
        play(study, 20, means=CHANCES)
        with Study.open(place) as other:  # from a snapshot
            assert other.arms.equals(study.arms) and other.evidence.equals(study.evidence)
        play(study, 6000, 1, CHANCES)
        assert study.verdict.startswith("decided") and study.best.representation == "A"
        assert set(study.best.predictors) == {"old", "late"}
        assert set(study.history.filter(pl.col("trial") > 22)["task"]) == {"old", "late"}
        assert set(study.arms["task"]) == {"young", "old", "late"}
        assert_sound(study)
        study.write_log(tmp_path / "log.jsonl")
        with Study.read_log(str(tmp_path / "copy.db"), tmp_path / "log.jsonl") as copy:
            assert copy.verdict == study.verdict and copy.history.equals(study.history)


def test_what_cannot_be_withdrawn_or_added(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), predictors=["only"], policy="osrl") as study:
        with refused("nothing left to compare"):
            study.withdraw(representation="A", reason="x")
        with refused("the study has no representation 'Z'"):
            study.withdraw(representation="Z", reason="x")
        with refused("give one task, one representation or one predictor"):
            study.withdraw(representation="A", predictor="only", reason="x")
        with refused("give one task, one representation or one predictor"):
            study.withdraw(task="old", predictor="only", reason="x")
        with refused("there is no reason"):
            study.withdraw(representation="A", reason="")
        with refused("give one task, one representation or one predictor"):
            study.add(reason="x")
        with pytest.raises(OsrlError):
            study.add(predictor="", reason="x")
        assert study.status.since == 1


def test_losses_and_late_trials_around_a_withdrawal(place: str) -> None:
    """Trials of before the withdrawal end in any order after it, told, lost or left out: all is replayed."""
    with new_study(place, **{**THREE, "delta": 1e-6}) as study:
        late_and_lost(study, 30, means=CHANCES)
        study.withdraw(representation="B", reason="x")
        late_and_lost(study, 30, seed=4, means=CHANCES)
        study.withdraw(predictor="low", reason="y")
        late_and_lost(study, 30, seed=5, means=CHANCES)
        for number in study.pending:
            study.abandon(number)
        assert_sound(study)


WORST = {"A": {"low": 0.5, "high": 0.3}, "B": {"low": 0.5, "high": 0.3}, "C": {"low": 0.95, "high": 0.9}}
STUDIES, RISK = 60, 0.2


def attacked(seed: int) -> tuple[bool, bool]:
    """A and B are equally good, and C is better. C is withdrawn at the moment that is worst for A.

    That is when A is ruled out, because of C. Was it ruled out then, and is it ruled out afterwards, though
    nothing that is left is better?
    """
    arms: dict[str, Any] = {
        "tasks": ["one"],
        "representations": ["A", "B", "C"],
        "predictors": ["low", "high"],
    }
    unused = [
        "harm_limit",
        "noise_sd",
        "low",
        "high",
        "delta_g",
        "delta_h",
        "epsilon",
        "epsilon_g",
        "epsilon_h",
        "budget",
        "threshold",
        "options",
    ]
    rest: dict[str, Any] = {**dict.fromkeys(unused), "family": "bernoulli", "policy": "osrl"}
    created = new_settings(**arms, **rest, delta=RISK, seed=seed)
    progress, rng = initial_state(next_event(None, created)), random.Random(seed)

    def step() -> None:
        asked = progress.choose(None).asked
        progress.apply(next_event(progress.last, asked))
        progress.apply_reward(asked.trial, float(rng.random() < WORST[asked.representation][asked.predictor]))

    while progress.hypotheses.possible_g[0] and progress.asked < 150:  # type: ignore[union-attr]
        step()
    before = not progress.hypotheses.possible_g[0]  # type: ignore[union-attr]
    progress.begin_stage(["A", "B"], ["low", "high"])
    for _ in range(120):
        step()
    return before, not progress.hypotheses.possible_g[0]  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_withdrawal_at_the_worst_moment_keeps_the_risk() -> None:
    """Evidence that leaned on the withdrawn arm, and went on, would have ruled out A in most studies."""
    found = [attacked(seed) for seed in range(STUDIES)]
    before, after = (sum(each[i] for each in found) for i in range(2))
    assert binom.sf(before - 1, STUDIES, RISK) < 1e-6, "the attack is too weak"
    assert binom.sf(after - 1, STUDIES, RISK) > 1e-3, f"{after} of {STUDIES}"


def wait_for_trials(study: Study, trials: int) -> None:
    """Return when others have asked for so many more."""
    enough = study.trials + trials
    wait_until(lambda: study.trials >= enough)


@pytest.mark.slow
def test_processes_meet_a_pause_and_a_withdrawal(place: str, tmp_path: Path) -> None:
    """Writers that are killed, or go on, while others pause, resume and withdraw: the log replays."""

    refused_read, refused_write = os.pipe()

    def work(seed: int) -> None:
        rng = random.Random(seed)
        with Study.open(place) as study:
            while True:
                try:
                    trial = study.ask(key=f"{seed}-{rng.randrange(10**9)}")
                    study.tell(trial, rng.randrange(2))
                except osrl.StudyPaused:
                    os.write(refused_write, b"x")
                    time.sleep(0.01)  # before it asks again

    with new_study(place, **{**THREE, "delta": 1e-9}) as study:
        load_kernels(tmp_path, "osrl")
        pids = [forked(partial(work, i)) for i in range(3)]
        wait_for_trials(study, 5)
        study.pause("look")
        assert os.read(refused_read, 1) == b"x"
        study.resume()
        wait_for_trials(study, 5)
        study.withdraw(representation="C", reason="harm")
        wait_for_trials(study, 5)
        study.add(predictor="new", reason="idea")
        wait_for_trials(study, 5)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(refused_read)
        os.close(refused_write)
        study.abandon_many(study.pending)
        keys = study.history["key"].to_list()
        assert len(keys) == len(set(keys)) > 0
        assert [each.kind for each in study.events()].count("stage") == 2
        assert_sound(study)


def test_the_command_line_tells_the_life(tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / "a.db")
    run = partial(printed, capsys)
    new_study(path, **THREE, budget=50).close()
    assert "the study is paused" in run("study", "pause", path, "--reason", "holiday")
    assert "Paused: holiday" in run("study", "status", path)
    assert osrl.StudyPaused.exit_code == 3
    run("study", "resume", path)
    run("study", "raise-budget", path, 60)
    run("study", "withdraw", path, "--representation", "C", "--reason", "rash")
    run("study", "add", path, "--predictor", "new", "--reason", "idea")
    assert "old is withdrawn" in run("study", "withdraw", path, "--task", "old", "--reason", "moved")
    document = json.loads(run("study", "status", path, "--json"))
    assert (document["budget"], document["representations"]) == (60, ["A", "B"])
    assert (document["tasks"], document["predictors"]) == (["young"], ["low", "high", "new"])
    assert json.loads(run("study", "close", path, "--reason", "done", "--json"))["verdict"] == "closed"
    assert "closed (it was closed" in " ".join(run("study", "status", path).split())


def test_small_things_that_were_wrong(tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / "a.db")
    run = partial(printed, capsys)
    one = ("--tasks", "x", "--representations", "g", "--predictors", "h", "--delta", "0.6")
    said = run("study", "create", path, *one)
    assert "note: there is only one arm" in said
    assert "note: a risk of 0.6 is worse than tossing a coin" in said
    assert len(json.loads(run("study", "status", path, "--json"))["remarks"]) == 2
    with new_study(path, name="two", policy="osrl", delta=1e-6) as study:
        play(study, 3)
        study.ask()
        with pytest.raises(AttributeError):
            study.budget = 5  # type: ignore[attr-defined]
        with refused("the task is ['young']"):
            study.ask(["young"])  # type: ignore[call-overload]
    assert "two: running, 3 of 4 trials told" in run("study", "list", path)
    listed = json.loads(run("study", "list", path, "--json"))
    assert listed["studies"] == ["study", "two"] and listed["summaries"][1]["told"] == 3

"""The guardrail: what does more harm than the limit is withdrawn, and what does not hardly ever is."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from osrl.cli import main
from osrl.errors import RewardRefused
from osrl.study.log.events import ArmsChanged, Created, Event, Paused
from osrl.study.state.harm import LEVEL, Harm
from osrl.study.study import Study
from osrl.study.views.verify import verify
from tests.support.instances import refused
from tests.support.studies import assert_sound, new_study

pytestmark = pytest.mark.slow

THREE: dict[str, Any] = {
    "representations": ["A", "B", "C"],
    "policy": "osrl",
    "delta": 1e-9,
    "harm_limit": 0.1,
}
RUNS, ROUNDS = 2000, 150


def test_a_harmful_representation_is_withdrawn(place: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 30)
    monkeypatch.setattr("osrl.study.state.bulk_replay.MIN_BLOCK", 3)
    rng = random.Random(0)
    with new_study(place, **THREE) as study:
        for _ in range(150):
            trial = study.ask()
            harm = rng.random() < (0.6 if trial.representation == "C" else 0.02)
            study.tell(trial, rng.random() < 0.5, harm=harm)
        (staged,) = (each.body for each in study.events() if isinstance(each.body, ArmsChanged))
        assert staged.representations == ["A", "B"] and staged.by == "the limit of harm"
        assert staged.reason == "representation C: more harm than 0.1 on average"
        assert_sound(study)
        forged = [
            each._replace(body=replace(staged, by="Ada")) if each.body == staged else each for each in study.events()
        ]
        assert any("the limit of harm has done None" in problem for problem in verify(forged).problems)
        with Study.open(place) as other:
            assert other.settings.representations == ["A", "B"]


def test_a_withdrawal_that_the_rule_did_not_ask_for_does_not_verify(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), **THREE) as study:
        study.tell(study.ask(), 1, harm=False)
        events = list(study.events())
    early = ArmsChanged(["A", "B"], ["low", "high"], "representation C", "the limit of harm")
    found = verify([*events, Event(len(events), events[-1].at, early)])
    assert any("by replay None" in problem for problem in found.problems)


def test_where_nothing_is_left_the_study_is_paused(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), **{**THREE, "representations": ["A", "B"], "predictors": ["h"]}) as study:
        while study.look()[0].paused is None:
            study.tell_many([{"trial": study.ask().id, "reward": 1, "harm": True}])
        assert "more harm than 0.1 on average" in (study.status.paused or "")
        assert [each.body.by for each in study.events() if isinstance(each.body, Paused)] == ["the limit of harm"]
        study.resume("it was the thermometer")
        study.ask()


def test_harm_that_cannot_be_used(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), **THREE) as study:
        trial = study.ask()
        for bad in (-0.1, 1.1, "yes"):
            with pytest.raises(RewardRefused, match="give a number from 0 to 1"):
                study.tell(trial, 1, harm=bad)  # type: ignore[arg-type]
    with new_study(str(tmp_path / "b.db")) as study, refused("the study has no limit of harm"):
        study.tell(study.ask(), 1, harm=0)
    with refused("harm_limit is 1"):
        new_study(str(tmp_path / "c.db"), harm_limit=1)


@pytest.mark.parametrize("forgetful", [False, True])
def test_the_harmless_are_hardly_ever_withdrawn(forgetful: bool, monkeypatch: Any) -> None:
    """Harm at the limit, looked at after each trial, while trials without harm are lost: at the worst moment.

    Whoever forgets the lost ones raises a false alarm far too often.
    """
    rng = np.random.default_rng(0)
    created = Created(["x"], ["g"], ["h"], *[None] * 11)  # type: ignore[arg-type]
    alarms = 0
    for _ in range(RUNS):
        harm, limit = Harm(created, 0.3), False
        for _ in range(ROUNDS):
            hurt = rng.random() < 0.3
            lost = not hurt and rng.random() < 0.4
            if not (lost and forgetful):
                harm.issue("g", "h")
            if not lost:
                harm.tell("g", "h", float(hurt))
            if harm.found() is not None:
                limit = True
                break
        alarms += limit
    if forgetful:
        assert binom.sf(alarms - 1, RUNS, LEVEL) < 1e-12
    else:
        assert binom.sf(alarms - 1, RUNS, LEVEL) > 1e-3


# Over stages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [0, 1])
def test_the_harmless_are_hardly_ever_withdrawn_over_many_stages(revision: int) -> None:
    """Harm at the limit, while another arm is withdrawn and added again and again, at the worst moment.

    That is when the evidence is low: bets that begin anew then (revision 0) raise far too many alarms.
    """
    rng = np.random.default_rng(1)
    created = Created(["x"], ["g", "other"], ["h"], *[None] * 11)  # type: ignore[arg-type]
    alarms, runs = 0, 200
    for _ in range(runs):
        harm, stages = Harm(created, 0.3), 0
        while stages < 40:
            harm.issue("g", "h")
            harm.tell("g", "h", float(rng.random() < 0.3))
            if harm.found() is not None:
                alarms += 1
                break
            if harm.log_evidence[0] < -0.5:
                stages += 1
                harm.begin_stage(created) if revision else (harm := Harm(created, 0.3))
    if revision:
        assert binom.sf(alarms - 1, runs, LEVEL) > 1e-3, f"{alarms} of {runs}"
    else:
        assert binom.sf(alarms - 1, runs, LEVEL) < 1e-12, f"{alarms} of {runs}"


def test_harm_counts_over_a_withdrawal(place: str, monkeypatch: Any) -> None:
    """What was known before a stage still counts, and so does the harm of trials that were out."""
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 10)
    with new_study(place, **{**THREE, "predictors": ["low", "high"]}) as study:
        for _ in range(12):
            study.tell(study.ask(), 1, harm=0.0)
        out = study.ask(n=60)
        study.withdraw(predictor="low", reason="too dear")
        with Study.open(place) as other, other._session.reading() as progress:  # from a snapshot
            assert dict(progress.arrays())["harm.wealth"].any()
        bad = [trial for trial in out if trial.representation == "C"]
        assert len(bad) > 5
        for trial in bad:
            study.tell(trial, 1, harm=1.0)
        assert study.settings.representations == ["A", "B"]
        assert_sound(study)


def test_a_predictor_is_not_blamed_for_a_representation_that_is_gone(path: str) -> None:
    """Many trials of the harmful one were out when it was withdrawn, and report their harm afterwards."""
    with new_study(path, **{**THREE, "predictors": ["low", "high"]}) as study:
        out = study.ask(n=90)
        for trial in out:
            study.tell(trial, 1, harm=float(trial.representation == "C"))
        assert (study.settings.representations, study.settings.predictors) == (["A", "B"], ["low", "high"])
        for trial in (study.ask() for _ in range(40)):
            study.tell(trial, 1, harm=float(trial.predictor == "high"))
        assert (study.settings.representations, study.settings.predictors) == (["A", "B"], ["low"])
        assert_sound(study)


# What is told, and when -------------------------------------------------------------------------------------


def test_correcting_a_reward_keeps_the_harm(path: str) -> None:
    """The harm was told when it was told: the limit acts on it, whatever happens to the reward."""
    with new_study(path, **THREE) as study:
        trials = 0
        while study.settings.representations == ["A", "B", "C"] and trials < 60:
            trial, trials = study.ask(), trials + 1
            study.tell(trial, 1, harm=float(trial.representation == "C"))
            if trial.representation == "C" and study.settings.representations == ["A", "B", "C"]:
                study.correct(trial, 0, reason="the wrong column")
        assert study.settings.representations == ["A", "B"] and trials < 60
        assert_sound(study)


def test_a_correction_after_the_limit_has_paused_the_study(path: str) -> None:
    with new_study(path, **{**THREE, "representations": ["A", "B"], "predictors": ["h"]}) as study:
        while study.look()[0].paused is None:
            study.tell(trial := study.ask(), 1, harm=1)
        study.correct(trial, 0, reason="the wrong column")
        assert study.look()[0].paused is not None
        assert_sound(study)


def test_a_harm_that_would_be_dropped_is_refused(path: str) -> None:
    with new_study(path, **THREE) as study:
        one, two = study.ask(n=2)
        with refused("the harm of trial 1 is missing, and the study has a limit of harm; give harm"):
            study.tell(one, 1)
        with refused("row 2: the harm of trial 2 is missing"):
            study.tell_many([{"trial": one.id, "reward": 1, "harm": 0}, (two.id, 1)])
        study.tell(one, 1, harm=0)
        study.tell(one, 1, harm=0)
        with refused("trial 1 was told with harm 0, now 1; a harm cannot be changed"):
            study.tell(one, 1, harm=1)
        study.correct(one, 0, reason="the wrong column")
        study.tell(one, 0, harm=0)
        with refused("trial 1 was told with harm 0, now 1; a harm cannot be changed"):
            study.tell(one, 0, harm=1)
        assert study.status.told == 1


def test_a_study_that_was_begun_before_may_be_told_without_harm(path: str, monkeypatch: Any) -> None:
    """But what is told afterwards is not dropped without a word."""
    monkeypatch.setattr("osrl.study.settings.REVISION", 0)
    with new_study(path, **THREE) as study:
        study.tell(one := study.ask(), 1)
        with refused("trial 1 was told without its harm, which can no longer be told"):
            study.tell(one, 1, harm=1)


def test_a_run_tells_the_harm_that_its_function_returns(path: str) -> None:
    with new_study(path, **THREE, budget=30) as study:
        study.run(lambda trial: (1, 0.125 * (trial.representation == "C")))
        assert [arm.mean for arm in study.status.harm[:3]] == [0.0, 0.0, 0.125]


def test_the_status_shows_harm(path: str, capsys: Any) -> None:
    with new_study(path, **THREE) as study:
        for trial in study.ask(n=8):
            if trial.id > 2:
                study.tell(trial, 1, harm=0.2 * (trial.representation == "A"))
        harm = study.status.harm
        assert [each[:2] for each in harm[:3]] == [("representation", name) for name in "ABC"]
        assert sum(each.told for each in harm[:3]) == 6 and sum(each.unknown for each in harm[:3]) == 2
    assert main(["study", "status", path]) == 0
    assert "Harm, at most 0.1 on average" in capsys.readouterr().out
    assert main(["study", "status", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["harm_limit"] == 0.1 and found["harm"][0]["name"] == "A" and found["harm"][0]["evidence"] > 1


def test_telling_again_says_that_nothing_has_changed(path: str, capsys: Any) -> None:
    with new_study(path, **THREE) as study:
        study.ask()
    assert main(["study", "tell", path, "1", "1", "--harm", "0"]) == 0
    assert "reward 1 and harm 0 are stored" in capsys.readouterr().out
    assert main(["study", "tell", path, "1", "1", "--harm", "0"]) == 0
    assert "was told before; nothing has changed" in capsys.readouterr().out
    assert main(["study", "tell", path, "1", "1", "--harm", "1"]) == 2
    assert "was told with harm 0, now 1" in capsys.readouterr().err

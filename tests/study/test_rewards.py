"""Rewards as they come: with limits of their own, true and false, and refusals that say what to do."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from osrl.errors import RewardRefused
from osrl.study.state import bulk_replay
from osrl.study.study import Study
from tests.support.commands import Capture, printed
from tests.support.instances import refused
from tests.support.studies import MEANS, assert_sound, new_study

REVENUE: dict[str, Any] = {"family": "bounded", "low": -50.0, "high": 250.0, "policy": "osrl"}


def spend(study: Study, trials: int, scale: float = 300.0, low: float = -50.0) -> None:
    rng = random.Random(1)
    for _ in range(trials):
        if study.verdict == "running":
            trial = study.ask()
            study.tell(trial, low + scale * (rng.random() < MEANS[trial.representation][trial.predictor]))


def test_a_revenue_is_judged_as_a_share_of_its_range(place: str, tmp_path: Path, monkeypatch: Any) -> None:
    """The same study as with rewards in [0, 1], in other units; also when it is replayed in stretches."""
    monkeypatch.setattr(bulk_replay, "MIN_BLOCK", 3)
    with (
        new_study(place, **REVENUE, epsilon=30.0) as study,
        new_study(place, name="unit", family="bounded", policy="osrl", epsilon=0.1) as unit,
    ):
        spend(study, 120)
        spend(unit, 120, 1.0, 0.0)
        assert study.evidence.equals(unit.evidence) and study.verdict == unit.verdict
        for name in ("mean", "lower", "upper"):
            shares = [None if each is None else -50 + 300 * each for each in unit.arms[name]]
            assert study.arms[name].to_list() == pytest.approx(shares)
        lifts = [None if each is None else 300 * each for each in unit.arms["lift_upper"]]
        assert study.arms["lift_upper"].to_list() == pytest.approx(lifts)
        assert study.history["reward"].max() == 250.0  # as it was told
        assert_sound(study)
        study.write_log(tmp_path / "log.csv")
        with Study.read_log(str(tmp_path / "copy.db"), tmp_path / "log.csv") as copy:
            assert copy.evidence.equals(study.evidence)


def test_a_reward_outside_its_limits_is_refused_with_advice(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), **REVENUE) as study:
        trial = study.ask()
        for bad in (-50.01, 251, float("nan")):
            with pytest.raises(RewardRefused, match="give a number from -50 to 250, as the bounded family has"):
                study.tell(trial, bad)
        study.tell(trial, 250)
    with new_study(str(tmp_path / "b.db")) as study:
        trial = study.ask()
        with pytest.raises(RewardRefused, match="family 'bounded' and their limits, low and high, fixed in advance"):
            study.tell(trial, 12)
        study.tell(trial, True)


def test_limits_that_cannot_be_used(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    for limits in (
        {"low": 1.0},
        {"low": 5, "high": 5},
        {"high": float("nan")},
        {"high": "much"},
        {"high": True},
    ):
        with refused("low"):
            new_study(path, family="bounded", **limits)
    with refused("low and high belong to the bounded family"):
        new_study(path, low=0, high=3)


def test_limits_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.db"
    names = ("--tasks", "x", "--representations", "a,b", "--predictors", "h")
    printed(capsys, "study", "create", path, *names, "--family", "bounded", "--high", "20")
    printed(capsys, "study", "ask", path)
    printed(capsys, "study", "tell", path, 1, 17)
    document = json.loads(printed(capsys, "study", "status", path, "--json"))
    assert (document["low"], document["high"], document["trials"]["told"]) == (0.0, 20.0, 1)

"""Rewards of one's own: a function, or recorded ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import osrl
from osrl.errors import OsrlError
from osrl.jit import kernel
from osrl.testing import EASY


def coins(task: int, arm: int, draw: float) -> float:
    """Return the rewards of the family, by hand."""
    return 1.0 if draw < EASY.means[task].ravel()[arm] else 0.0


@kernel
def rounded(task: int, arm: int, draw: float) -> float:
    return 0.25 * np.floor(5 * draw) if arm == 0 else 0.1 * draw


def test_a_function_gives_the_runs_of_the_family() -> None:
    for policy in ("osrl-sc", "uniform"):  # the trace of the last one is compiled for other tests too
        ours = osrl.simulate(EASY, policy, runs=3, rewards=coins)
        assert ours.frame.equals(osrl.simulate(EASY, policy, runs=3).frame)
    assert (ours.trace("pulls", 50).frame["value"] > 0).any()


def test_a_compiled_function() -> None:
    instance = osrl.Instance.bounded([[[0.5, 0.05], [0.05, 0.05]]])
    found = osrl.simulate(instance, "uniform", runs=5, rewards=rounded)
    assert found.frame["correct_g"].all() and (found.frame["tau"] < 2000).all()


def recorded(count: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (x, g, h, float(rng.random() < EASY.means[i, j, k]))
        for i, x in enumerate(EASY.tasks)
        for j, g in enumerate(EASY.representations)
        for k, h in enumerate(EASY.predictors)
        for _ in range(count)
    ]
    return pl.DataFrame(rows, ["task", "representation", "predictor", "reward"], orient="row")


def test_recorded_rewards_are_drawn_again(tmp_path: Any) -> None:
    frame = recorded(300)
    found = osrl.simulate(EASY, "uniform", runs=6, rewards=frame, out=tmp_path)
    assert found.frame["correct_g"].all()
    assert osrl.simulate(EASY, "uniform", runs=6, rewards=frame, workers=1).frame.equals(found.frame)
    means = found.trace("means", 10**6).frame.filter(task="x1", representation="g1", predictor="h1")["value"]
    assert means.mean() == pytest.approx(0.9, abs=0.1)
    with pytest.raises(OsrlError, match="with other rewards of one's own"):
        osrl.simulate(EASY, "uniform", runs=6, rewards=recorded(200), out=tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda task, arm, draw: 2.0, "the reward of task 0, arm . is 2.0; .* are 0 or 1"),
        (lambda task, arm: 1.0, "cannot be drawn: TypeError: .*; give a function of task, arm and a draw"),
        (lambda task, arm, draw: None, "is None; rewards of the bernoulli family are 0 or 1"),
        ([1, 2], "rewards are list; give a function of task, arm and a draw, or a polars frame"),
        (pl.DataFrame({"task": ["x1"]}), "no column 'representation'"),
        (recorded(3).filter(pl.col.predictor != "h2"), r"no reward of \(x1, g1, h2\) was recorded"),
    ],
)
def test_what_cannot_be_used(given: Any, message: str) -> None:
    with pytest.raises(OsrlError, match=message):
        osrl.simulate(EASY, "uniform", runs=1, rewards=given)

"""Traces: what runs looked like on their way."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import osrl
from osrl.errors import OsrlError
from osrl.testing import EASY


@pytest.fixture(scope="module")
def runs() -> osrl.Runs:
    return osrl.simulate(EASY, "uniform", runs=3, seed=4, trace=["pulls", "evidence"], every=10)


def test_a_trace_is_tidy_and_ends_where_the_run_ends(runs: osrl.Runs) -> None:
    frame = runs.trace("pulls").frame
    assert frame.columns == [
        *("policy", "threshold", "delta_g", "delta_h", "run", "round"),
        *("task", "representation", "predictor", "value"),
    ]
    last = frame.filter(pl.col.round == pl.col.round.max().over("run"))
    assert last.group_by("run", maintain_order=True).agg(pl.col.value.sum())["value"].to_list() == (
        runs.frame["tau"].to_list()
    )
    for run, pulls in zip(range(3), runs.frame["pulls"], strict=True):
        assert last.filter(run=run)["value"].to_list() == pulls.to_list()
    totals = frame.group_by("run", "round").agg(pl.col.value.sum())
    assert (totals["round"] == totals["value"]).all()
    whole = frame.filter(pl.col.round < pl.col.round.max().over("run"))
    assert (whole["round"] % 10 == 0).all()


def test_tracing_does_not_change_a_run(runs: osrl.Runs) -> None:
    again = osrl.simulate(EASY, "uniform", runs=3, seed=4)
    assert again.frame.equals(runs.frame)
    assert again.trace("pulls", 10).frame.equals(runs.trace("pulls").frame)
    assert runs.trace("pulls", 10, runs=[2]).frame["run"].unique().to_list() == [2]


def test_the_evidence_rules_out_what_is_not_the_answer(runs: osrl.Runs) -> None:
    frame = runs.trace("evidence", 10).frame
    last = frame.filter(pl.col.round == pl.col.round.max().over("run"))
    against = last.filter(pl.col.task.is_null())
    assert against["representation"].to_list() == ["g1", "g2"] * 3
    assert against["predictor"].is_null().all()
    wrong = against.filter(representation="g2")["value"]
    assert (wrong > np.log(10) - 1e-9).all()
    assert (against.filter(representation="g1")["value"] < np.log(10)).all()
    rival = last.filter(task="x1", representation="g1", predictor="h2")["value"]
    assert (rival > np.log(10) - 1e-9).all()


def test_weights_and_means(runs: osrl.Runs) -> None:
    weights = runs.trace("weights", 25).frame
    assert (weights["value"] == 1 / 8).all()
    means = runs.trace("means", 1, runs=1).frame
    first = means.filter(round=1)
    assert first["value"].null_count() == 7 and first["value"].drop_nulls()[0] in (0.0, 1.0)
    assert means.height == 8 * runs.frame["tau"][0], "more moments than there was room for at first"


def test_a_campaign_that_was_kept_can_be_traced(runs: osrl.Runs, tmp_path: Any) -> None:
    osrl.simulate(EASY, "uniform", runs=3, seed=4, out=tmp_path)
    assert osrl.Runs.open(tmp_path).trace("pulls", 10).frame.equals(runs.trace("pulls", 10).frame)


def test_what_cannot_be_traced(runs: osrl.Runs) -> None:
    with pytest.raises(OsrlError, match="unknown trace 'arms'; use one of pulls, means, weights, evidence"):
        runs.trace("arms")
    with pytest.raises(OsrlError, match="every is 0; give the rounds"):
        runs.trace("pulls", 0)

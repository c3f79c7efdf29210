"""`osrl.simulate`: the same runs whoever computes them, read-off columns, budgets, families, the summary."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import osrl
from osrl.model.instance import Instance
from osrl.simulation.chunk import Job, run_chunk
from tests.support.simulations import CLOSE, EASY, POLICIES, campaign_of

COLUMN = ["policy", "threshold", "delta_g", "delta_h"]


# The same runs whoever computes them


@pytest.mark.nojit
def test_the_number_of_workers_does_not_matter() -> None:
    policies = ["osrl", "osrl-sc", "tas"]
    one = osrl.simulate(EASY, policies, [0.1, 0.05], runs=3, seed=3, workers=1)
    two = osrl.simulate(EASY, policies, [0.1, 0.05], runs=3, seed=3, workers=2)
    assert_frame_equal(one.frame, two.frame)
    assert_frame_equal(one.summary().drop("seconds"), two.summary().drop("seconds"))


def test_chunks_do_not_matter_and_fewer_runs_are_the_first_ones() -> None:
    job = campaign_of().jobs[0]
    pieces = [rows(job, first, count) for first, count in ((0, 7), (7, 1), (8, 12))]
    assert_frame_equal(pl.concat(pieces), rows(job, 0, 20))
    assert_frame_equal(osrl.simulate(EASY, "tas", runs=8).frame, rows(job, 0, 8))


def rows(job: Job, first: int, runs: int) -> pl.DataFrame:
    chunk = run_chunk(job, first, runs)
    assert chunk is not None
    assert chunk.header[:4] == (job.campaign, job.number, first, runs)
    return pl.read_parquet(chunk.table)


def test_another_seed_gives_other_runs_and_runs_differ() -> None:
    frames = [osrl.simulate(EASY, "tas", runs=20, seed=seed).frame for seed in (0, 1, 2**63 - 1)]
    taus = [tuple(frame["tau"]) for frame in frames]
    assert len(set(taus)) == 3
    assert all(len(set(tau)) > 5 for tau in taus)
    assert [frame["seed"][0] for frame in frames] == [0, 1, 2**63 - 1]


# Columns that are read off one run


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_risk_gives_the_same_run_alone_or_in_a_list(policy: str) -> None:
    deltas = [0.2, 0.01, 0.1]
    together = osrl.simulate(EASY, policy, deltas, runs=15).frame
    assert together["delta_g"].unique(maintain_order=True).to_list() == deltas
    for delta in deltas:
        alone = osrl.simulate(EASY, policy, delta, runs=15).frame
        assert_frame_equal(together.filter(pl.col.delta_g == delta).drop("rounds"), alone.drop("rounds"))
        assert (alone["rounds"] == alone["tau"]).all()
    longest = together.group_by("run").agg(pl.col.tau.max(), pl.col.rounds.max()).sort("run")
    assert (longest["rounds"] >= longest["tau"]).all()


def test_a_threshold_gives_the_same_run_alone_or_in_a_list() -> None:
    names = ["released", "theorem"]
    together = osrl.simulate(CLOSE, "osrl-sc", [0.1, 0.3], runs=8, threshold=names).frame
    assert len(together) == 8 * 4
    for name in names:
        alone = osrl.simulate(CLOSE, "osrl-sc", [0.1, 0.3], runs=8, threshold=name).frame
        assert_frame_equal(together.filter(pl.col.threshold == name).drop("rounds"), alone.drop("rounds"))


def test_columns_share_runs_only_where_sampling_does_not_depend_on_the_risk() -> None:
    assert len(campaign_of(policy="osrl-sc", delta=[0.1, 0.05]).jobs) == 1
    assert len(campaign_of(policy="osrl-sc", delta=[0.1, 0.05], options={"reuse": True}).jobs) == 2
    assert len(campaign_of(policy="tas", delta=[0.1, 0.05], budget=500).jobs) == 2


def test_with_reuse_a_risk_is_the_same_alone_or_in_a_list_too() -> None:
    together = osrl.simulate(CLOSE, "osrl-sc", [0.1, 0.01], runs=6, options={"reuse": True}).frame
    alone = osrl.simulate(CLOSE, "osrl-sc", 0.01, runs=6, options={"reuse": True}).frame
    assert_frame_equal(together.filter(pl.col.delta_g == 0.01), alone)
    without = osrl.simulate(CLOSE, "osrl-sc", 0.01, runs=6).frame
    assert (alone["tau_g"] == without["tau_g"]).all()
    assert alone["tau"].sum() < without["tau"].sum()


def test_two_risks_of_one_run() -> None:
    found = osrl.simulate(EASY, "osrl-sc", delta_g=[0.1, 0.01], delta_h=0.2, runs=5)
    pairs = found.frame.select("delta_g", "delta_h").unique(maintain_order=True).rows()
    assert pairs == [(0.1, 0.2), (0.01, 0.2)]
    assert found.summary()["delta"].to_list() == [None, None]
    array: Any = np.array([0.1, 0.01])
    assert_frame_equal(osrl.simulate(EASY, "osrl-sc", delta_g=array, delta_h=0.2, runs=5).frame, found.frame)
    only = osrl.simulate(EASY, "osrl-sc", delta_g=0.01, runs=5).summary()
    assert only.select("delta_g", "delta_h").row(0) == (0.01, 0.1)
    assert osrl.simulate(EASY, "tas", runs=5).summary()["delta"].to_list() == [0.1]


# The rows


@pytest.mark.parametrize("policy", POLICIES)
def test_a_row_adds_up(policy: str) -> None:
    frame = osrl.simulate(EASY, policy, [0.1, 0.01], runs=10).frame
    assert frame.columns == [
        *COLUMN,
        *("epsilon_g", "epsilon_h", "seed", "run", "verdict", "tau", "tau_g", "tau_h"),
        *("representations", "predictors", "correct_g", "correct_h", "as_good", "shortfall"),
        *("pulls", "rounds"),
    ]
    assert (frame["pulls"].list.len() == EASY.means.size).all()
    assert (frame["pulls"].list.sum() == frame["tau"]).all()
    assert (frame["tau"] == frame["tau_g"] + frame["tau_h"]).all()
    assert (frame["rounds"] >= frame["tau"]).all()
    assert frame["verdict"].unique().to_list() == ["decided"]
    assert frame["run"].to_list() == [*range(10), *range(10)]
    assert frame["representations"][0].to_list() == ["a", "a"]
    assert frame["predictors"][0].to_list() == ["p", "q"]
    assert frame["correct_g"].all()
    assert frame["correct_h"].explode().all()


def test_tas_counts_all_samples_for_the_representation() -> None:
    assert osrl.simulate(EASY, "tas", runs=5).frame["tau_h"].to_list() == [0] * 5


def test_common_random_numbers_do_not_depend_on_the_policies_beside() -> None:
    policies = ["tas", "osrl", "osrl-sc"]
    together = osrl.simulate(EASY, policies, runs=5).frame
    assert together["policy"].unique(maintain_order=True).to_list() == policies
    for policy in policies:
        alone = osrl.simulate(EASY, policy, runs=5).frame
        assert_frame_equal(together.filter(pl.col.policy == policy), alone)


# Budgets


@pytest.mark.parametrize("policy", POLICIES)
def test_runs_that_exhaust_the_budget_count_with_it(policy: str) -> None:
    free = osrl.simulate(EASY, policy, [0.1, 0.01], runs=30).frame
    budget = int(np.median(free["tau"]))
    found = osrl.simulate(EASY, policy, [0.1, 0.01], runs=30, budget=budget)
    frame = found.frame
    over = free["tau"] > budget
    assert 0 < over.sum() < len(free)
    # a run that would have stopped with its last sample has decided
    assert (frame["verdict"] == "budget exhausted").to_list() == over.to_list()
    assert (frame.filter(over)["tau"] == budget).all()
    assert (frame.filter(over)["pulls"].list.sum() == budget).all()
    assert (frame.filter(over)["representations"].list.len() == 2).all(), "a best guess"
    assert_frame_equal(frame.filter(~over).drop("rounds"), free.filter(~over).drop("rounds"))
    summary = found.summary()
    for delta, row in zip([0.1, 0.01], summary.to_dicts(), strict=True):
        cut = free.filter(pl.col.delta_g == delta)["tau"].clip(upper_bound=budget)
        assert row["mean"] == pytest.approx(cut.mean())
        assert row["max"] <= budget
        assert row["budget_exhausted"] == over.filter(free["delta_g"] == delta).sum()
        assert row["rounds"] == cut.sum()


def test_an_exhausted_run_has_given_no_answer() -> None:
    found = osrl.simulate(CLOSE, "tas", runs=40, budget=9)
    assert not found.frame["correct_g"].all(), "guesses after a sample of each arm are often wrong"
    assert found.summary().select("budget_exhausted", "error_g", "error_h").row(0) == (40, 0, 0)


# Instances and families


@pytest.mark.parametrize(
    "means", [[[[0.9], [0.1]], [[0.1], [0.9]]], [[[0.9, 0.9], [0.1, 0.1]]]], ids=["no shared g", "a tie"]
)
@pytest.mark.parametrize("policy", ["osrl", "osrl-sc", "tas"])
def test_outside_the_class_m_errors_are_null(means: Any, policy: str) -> None:
    found = osrl.simulate(Instance.bernoulli(means), policy, runs=5, budget=300)
    assert found.frame["correct_g"].null_count() == found.frame["correct_h"].null_count() == 5
    assert found.frame.schema["correct_h"] == pl.List(pl.Boolean)
    assert found.summary().select("error_g", "error_h").row(0) == (None, None)
    assert found.summary()["mean"][0] <= 300


def test_tasks_may_disagree_outside_the_class_m() -> None:
    instance = Instance.bernoulli([[[0.9], [0.1]], [[0.1], [0.9]]])
    answers = osrl.simulate(instance, "tas", runs=5, delta=0.01).frame["representations"].to_list()
    assert answers == [["g1", "g2"]] * 5


@pytest.mark.parametrize("policy", ["osrl", "osrl-sc", "tas"])
def test_other_families(policy: str) -> None:
    gaussian = Instance.gaussian(10 * EASY.means - 3, 2.0)
    bounded = Instance.bounded(EASY.means)
    for instance in (gaussian, bounded):
        frame = osrl.simulate(instance, policy, runs=10, seed=1).frame
        assert frame["correct_g"].all()
        assert frame["correct_h"].explode().all()
    coins = osrl.simulate(EASY, policy, runs=10, seed=1).frame
    assert coins["tau"].to_list() != osrl.simulate(bounded, policy, runs=10, seed=1).frame["tau"].to_list()


def test_one_arm_needs_no_samples() -> None:
    frame = osrl.simulate(Instance.bernoulli([[[0.5]], [[0.4]]]), "osrl-sc", runs=3).frame
    assert frame.select("verdict", "tau", "correct_g").rows() == [("decided", 0, True)] * 3


# The summary


def test_the_summary_by_hand() -> None:
    found = osrl.simulate(CLOSE, ["osrl-sc", "tas"], [0.3, 0.05], runs=25, threshold="released")
    summary = found.summary().to_dicts()
    assert [[row[name] for name in COLUMN] for row in summary] == [
        ["osrl-sc", "released", 0.3, 0.3],
        ["osrl-sc", "released", 0.05, 0.05],
        ["tas", "own", 0.3, 0.3],
        ["tas", "own", 0.05, 0.05],
    ]
    for row in summary:
        runs = [run for run in found.frame.to_dicts() if all(run[name] == row[name] for name in COLUMN)]
        tau = np.array([run["tau"] for run in runs], float)
        std = math.sqrt(((tau - tau.mean()) ** 2).sum() / 24)
        assert row["mean"] == pytest.approx(tau.mean(), rel=1e-12)
        assert row["std"] == pytest.approx(std, rel=1e-12)
        assert row["ci975"] == pytest.approx(2.2414 * std / 5, rel=1e-12)
        assert (row["min"], row["max"], row["runs"], row["seed"]) == (tau.min(), tau.max(), 25, 0)
        assert row["tau_g_mean"] == pytest.approx(np.mean([run["tau_g"] for run in runs]))
        assert row["tau_g_mean"] + row["tau_h_mean"] == pytest.approx(row["mean"])
        wrong_g = [run["representations"] != ["g1", "g1"] for run in runs]
        wrong_h = [
            [g == ["g1", "g1"] and h[x] != best for g, h in ((r["representations"], r["predictors"]) for r in runs)]
            for x, best in enumerate(["h1", "h2"])
        ]
        assert row["error_g"] == sum(wrong_g) / 25
        assert row["error_h"] == max(map(sum, wrong_h)) / 25
        assert row["budget_exhausted"] == 0
        assert row["rounds"] == sum(run["rounds"] for run in runs)
        assert row["seconds"] > 0


def test_errors_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that stops after one sample of each arm is often wrong, and the summary says how often."""
    from osrl.policies.stopping.thresholds import Terms, TrackAndStop

    monkeypatch.setattr(TrackAndStop, "terms", property(lambda self: Terms(-1.0, 0.0, 0.0)))
    found = osrl.simulate(CLOSE, "tas", runs=200)
    row = found.summary().to_dicts()[0]
    right_g = found.frame["correct_g"]
    right_h = np.array(found.frame["correct_h"].to_list())
    assert row["error_g"] == (~right_g).sum() / 200 > 0.2
    assert row["error_h"] == (right_g.to_numpy()[:, None] & ~right_h).sum(axis=0).max() / 200 > 0.05


def test_one_run_has_no_spread() -> None:
    row = osrl.simulate(EASY, "tas", runs=1).summary().to_dicts()[0]
    assert (row["runs"], row["std"], row["ci975"]) == (1, None, None)
    assert row["mean"] == row["min"] == row["max"]

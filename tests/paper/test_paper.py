"""`osrl paper`: the published numbers, verdicts, phase 1 by itself, averages and Table 2."""

import math

import numpy as np
import polars as pl
import pytest

from osrl.model.arrays import Floats
from osrl.model.environment import Environment, draw_reward, new_environment
from osrl.model.instance import Instance
from osrl.model.rng import new_key
from osrl.paper import published
from osrl.paper.dynamics import (
    MEANS_CHANGE,
    MEANS_NORM,
    RATE,
    SERIES,
    WEIGHTS_DISTANCE,
    WEIGHTS_LARGEST_CHANGE,
    WEIGHTS_NORM,
    follow,
    low_pass,
    play_phase_1,
    trace_phase_1,
)
from osrl.paper.experiment import RUNS_PER_BLOCK, Experiment
from osrl.paper.figures import pool, symmetric_tasks
from osrl.paper.published import (
    AGREES,
    DIFFERS,
    MAX_Z,
    NOT_JUDGED,
    PHASE_1,
    PHASE_2,
    RISKS,
    TABLE_1,
    TAS,
    TOTAL,
    compare,
    compare_printed,
)
from osrl.paper.table1 import COLUMNS, RELEASED, VARIANTS, Variant, summarise, table_1
from osrl.paper.table2 import ASCENT, OPTIMUM, run_table_2, worths
from osrl.policies.contract import Criterion, State
from osrl.policies.steps import apply_reward, design, design_of, issue_trial, new_ticket, wants_design
from osrl.policies.stopping import per_task_test as contests
from osrl.simulation.api import simulate
from osrl.simulation.runs import Z975

pytestmark = pytest.mark.slow

RUNS, SEED = 6, 3
PAPER = Instance.load("paper")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment(PAPER, RUNS, SEED)


# The published numbers


def test_every_risk_and_quantity_was_published() -> None:
    assert list(TABLE_1) == [(delta, what) for delta in RISKS for what in (TOTAL, PHASE_1, PHASE_2, TAS)]


@pytest.mark.parametrize("delta", RISKS)
def test_published_totals_are_sums_of_the_phases(delta: float) -> None:
    total, first, second = (TABLE_1[delta, what].average for what in (TOTAL, PHASE_1, PHASE_2))
    assert total == pytest.approx(first + second, abs=0.011)


@pytest.mark.parametrize("key", TABLE_1)
def test_published_intervals_follow_from_the_spread(key: tuple[float, str]) -> None:
    row = TABLE_1[key]
    assert row.ci975 == pytest.approx(Z975 * row.std / math.sqrt(published.PUBLISHED_RUNS), rel=1e-3)
    assert row.min < row.average < row.max


def test_published_shares_are_proportions_that_mirror_each_other() -> None:
    assert published.PULLS.sum() == pytest.approx(1, abs=0.011)
    assert published.ALLOCATION.sum() == pytest.approx(1, abs=0.01)
    mirrored = published.ALLOCATION[1][[0, 2, 1]]
    np.testing.assert_array_equal(published.ALLOCATION[0], mirrored)


# Verdicts


def test_averages_agree_up_to_the_limit() -> None:
    assert compare(100 + 5 * MAX_Z, 3, 100, 4, "").word == AGREES
    beyond = compare(100 - 5.01 * MAX_Z, 3, 100, 4, "a reason")
    assert (beyond.word, beyond.why) == (DIFFERS, "a reason")
    assert beyond.z == pytest.approx(-1.002 * MAX_Z)
    assert compare(200, 3, 100, 4, "").why == "no known reason"
    assert compare(200, math.nan, 100, 4, "a reason").word == NOT_JUDGED


def test_printed_numbers_agree_within_rounding_and_error() -> None:
    assert compare_printed(0.135, 0, 0.14, 0.01, "").word == AGREES
    assert compare_printed(0.134, 0, 0.14, 0.01, "").word == DIFFERS
    assert compare_printed(0.134, 0.001, 0.14, 0.01, "").word == AGREES
    assert compare_printed(0.12, 0.001, 0.14, 0.01, "").z == pytest.approx(-15)
    assert compare_printed(0.14, math.nan, 0.14, 0.01, "").word == NOT_JUDGED


def test_a_table_of_runs_is_judged_row_by_row() -> None:
    frame = pl.concat([_runs_like(variant, delta) for variant in VARIANTS for delta in RISKS], how="diagonal")
    rows = table_1(frame)
    assert len(rows) == 3 * (3 * 3 + 1)
    for row in rows:
        assert row.verdict.word == (DIFFERS if row.variant == RELEASED else AGREES)
        factor = 2 if row.variant == RELEASED else 1
        assert row.ours.average == pytest.approx(factor * row.published.average)


def _runs_like(variant: Variant, delta: float) -> pl.DataFrame:
    """Return runs with the published averages and spread, or twice the average for one variant."""
    factor = 2 if variant == RELEASED else 1
    samples = {
        COLUMNS[what]: [factor * TABLE_1[delta, what].average + side * TABLE_1[delta, what].std for side in (-1, 1)]
        for what in variant.quantities
    }
    return pl.concat(
        [pl.DataFrame({"policy": variant.policy, "threshold": variant.threshold, "delta_g": delta, **samples})] * 50
    )


def test_summaries_are_those_of_simulate(experiment: Experiment) -> None:
    found = simulate(PAPER, "tas", 0.1, runs=RUNS, seed=SEED)
    ours, theirs = summarise(found.frame["tau"]), found.summary().row(0, named=True)
    assert ours.average == pytest.approx(theirs["mean"])
    assert ours.ci975 == pytest.approx(theirs["ci975"])
    assert (ours.min, ours.max) == (theirs["min"], theirs["max"])
    alone = summarise(found.frame["tau"][:1])
    assert math.isnan(alone.std) and math.isnan(alone.ci975)


# Phase 1 by itself


@pytest.mark.parametrize("policy", [pytest.param("osrl-sc", marks=pytest.mark.validate), "osrl-sc-released"])
def test_phase_1_ends_where_the_whole_run_ends_it(experiment: Experiment, policy: str) -> None:
    found = simulate(PAPER, policy, list(RISKS), runs=2, seed=SEED).frame.sort("run", "delta_g")
    criteria = tuple(Criterion(found["threshold"][0], delta, delta) for delta in sorted(RISKS))
    for run in range(2):
        key = new_key(SEED, run)
        state = experiment.new_state(policy, criteria, key)
        play_phase_1(state, state.outcome, new_environment(PAPER, key), design_of(state))
        rows = found.filter(run=run)
        assert state.outcome.tau_g.tolist() == rows["tau_g"].to_list()
        pulls = np.array(rows["pulls"].to_list()).reshape(state.outcome.pulls.shape)
        assert (state.outcome.pulls.sum(axis=(1, 2)) == state.outcome.tau_g).all()
        # Phase 2 pulls g1 alone.
        np.testing.assert_array_equal(state.outcome.pulls[:, :, 2:], pulls[:, :, 2:])
        assert (state.outcome.pulls[:, :, :2] < pulls[:, :, :2]).all()


def traced(state: State, environment: Environment, target: Floats, rounds: int) -> Floats:
    """Return the course of phase 1."""
    estimate = state.stopping.contests.arms[contests.TEST_MEANS]
    return trace_phase_1(state, state.sampling.weights, estimate, environment, design_of(state), target, 1e5, rounds)


def test_a_trace_is_what_one_sees_step_by_step(experiment: Experiment) -> None:
    rounds, criterion = 120, (Criterion("theorem", 1e-300, 0.5),)
    target = np.full(experiment.means.shape, 1 / 12)
    key = new_key(SEED, 0)
    state = experiment.new_state("osrl-sc", criterion, key)
    series = traced(state, new_environment(PAPER, key), target, rounds)

    stepped = experiment.new_state("osrl-sc", criterion, key)
    environment, ticket = new_environment(PAPER, key), new_ticket(stepped)
    estimate = stepped.stopping.contests.arms[contests.TEST_MEANS]
    for t in range(rounds):
        weights, means = stepped.sampling.weights.copy(), estimate.copy()
        if wants_design(stepped):
            design(stepped)
        x, a = divmod(
            issue_trial(stepped, -1, key, t, np.zeros(experiment.means.shape), ticket), experiment.means.shape[1]
        )
        apply_reward(stepped, x, a, draw_reward(environment, 0, x, a), ticket)
        moved = stepped.sampling.weights - weights
        expected = {
            MEANS_NORM: np.linalg.norm(estimate),
            MEANS_CHANGE: np.linalg.norm(estimate - means) / math.sqrt(12),
            WEIGHTS_NORM: np.linalg.norm(stepped.sampling.weights),
            WEIGHTS_LARGEST_CHANGE: np.abs(moved).max(),
            WEIGHTS_DISTANCE: np.linalg.norm(stepped.sampling.weights - target) / np.linalg.norm(target),
        }
        assert series[list(expected), t] == pytest.approx(list(expected.values()), abs=1e-12)
    assert (series[RATE, :12] == 0).all()  # every arm is pulled once before there is an estimate
    assert series[RATE, -1] > 0


def test_the_rate_is_that_of_the_true_means_once_they_are_known(experiment: Experiment) -> None:
    criterion = (Criterion("theorem", 1e-300, 0.5),)
    best = [row for row in run_table_2(Experiment(PAPER, 1, SEED)) if row.label == OPTIMUM][0].shares
    key = new_key(SEED, 1)
    state = experiment.new_state("osrl-sc", criterion, key)
    target = best.reshape(experiment.means.shape)
    series = traced(state, new_environment(PAPER, key), target, 15_000)
    assert series[RATE, -1] == pytest.approx(0.03916, rel=0.1)
    assert series[MEANS_NORM, -1] == pytest.approx(np.linalg.norm(PAPER.means), rel=0.03)


# Averages over runs


def test_averages_do_not_depend_on_the_number_of_threads() -> None:
    runs = 2 * RUNS_PER_BLOCK + 3
    told: list[tuple[str, int, int]] = []
    one = Experiment(PAPER, runs, SEED, 1, progress=lambda *said: told.append(said))
    found = one.average("numbers", lambda key: np.array([key.low, key.high], float))
    again = Experiment(PAPER, runs, SEED, 3).average("numbers", lambda key: np.array([key.low, key.high], float))
    np.testing.assert_array_equal(found, again)
    keys = np.array([new_key(SEED, run) for run in range(runs)], float)
    np.testing.assert_allclose(found[0], keys.mean(axis=0))
    np.testing.assert_allclose(found[1], keys.std(axis=0, ddof=1))
    assert told == [("numbers", done, runs) for done in (0, RUNS_PER_BLOCK, 2 * RUNS_PER_BLOCK, runs)]


def test_one_run_has_no_spread() -> None:
    mean, std = Experiment(PAPER, 1, SEED).average("number", lambda key: np.array([2.0]))
    assert mean.tolist() == [2.0] and np.isnan(std).all()


def test_the_filter_keeps_what_is_slow_and_drops_what_is_fast() -> None:
    t = np.arange(4000)
    np.testing.assert_allclose(low_pass(np.full(4000, 0.3)), 0.3)
    assert np.abs(low_pass(np.cos(np.pi * t))[1000:-1000]).max() < 1e-3
    slow = np.cos(0.005 * np.pi * t)
    np.testing.assert_allclose(low_pass(slow)[1000:-1000], slow[1000:-1000], atol=1e-3)


def test_dynamics_are_averages_of_traces() -> None:
    target = np.full((2, 6), 1 / 12)
    two = follow(Experiment(PAPER, 2, SEED), "osrl-sc", target, 100)
    alone = follow(Experiment(PAPER, 1, SEED), "osrl-sc", target, 100)
    assert two.mean.shape == (len(SERIES), 100)
    assert (alone.ci975 == 0).all() and (two.ci975[SERIES.index("means_norm")] > 0).any()
    frame = two.frame()
    assert frame.columns[:4] == ["policy", "round", "rate", "rate_ci975"]
    np.testing.assert_array_equal(frame["means_norm"].to_numpy(), two.mean[SERIES.index("means_norm")])


# Table 2 and the figures that explain


def test_shares_add_up_and_the_released_ascent_prints_the_published_allocation(
    experiment: Experiment,
) -> None:
    rows = {row.label: row for row in run_table_2(experiment)}
    for row in rows.values():
        assert row.shares.sum() == pytest.approx(1)
    assert {verdict.word for verdict in rows[ASCENT].verdicts} == {AGREES}
    assert DIFFERS in {verdict.word for verdict in rows[OPTIMUM].verdicts}
    values = {worth.label: worth for worth in worths(PAPER, list(rows.values()))}
    assert values["published allocation"].rho == pytest.approx(0.0305, abs=5e-5)
    assert values[OPTIMUM].rho == pytest.approx(0.0391558, abs=1e-6)
    assert max(worth.of_maximum for worth in values.values()) <= 1


def test_the_pool_is_drawn_from_computed_values() -> None:
    figure = pool(PAPER)
    rows = next(iter(figure.chart.to_dict()["datasets"].values()))
    assert "m = 0.3375" in figure.caption
    data = [one for one in figure.chart.to_dict()["datasets"].values() if "arm" in one[0]]
    kinds = {row["arm"]: row["kind"] for row in data[0]}
    assert rows and [arm for arm, kind in kinds.items() if kind.startswith("not")] == ["(g2, h2)", "(g3, h1)"]


def test_symmetric_tasks_refute_one_representation_each() -> None:
    data = symmetric_tasks(PAPER).chart.to_dict()["datasets"].values()
    shares = {(row["task"], row["representation"]): row["share"] for rows in data for row in rows}
    assert shares["task x1", "g2"] == pytest.approx(0, abs=1e-4) == shares["task x2", "g3"]
    assert shares["task x1", "g3"] == pytest.approx(shares["task x2", "g2"])
    assert shares["task x1", "g3"] > 0.2

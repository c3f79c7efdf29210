"""How long a study still takes: calibrated, the same for every reader, and from what is known only."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import osrl
from osrl.cli import main
from osrl.hypotheses.blocks import BLOCK_HIGH, BLOCK_LOST, observe_block
from osrl.hypotheses.posterior import plausible_means
from osrl.hypotheses.trials import forfeit_trial, observe_reward, write_trial_ticket
from osrl.model.arrays import Floats
from osrl.model.families import Family
from osrl.model.instance import Instance
from osrl.model.rng import new_key
from osrl.model.rng import reward as draw_one
from osrl.policies.steps import new_ticket
from osrl.report.sentences import describe_forecast
from osrl.simulation import forecast as rest
from osrl.simulation.forecast import NOTHING, ObservedProtocol, remaining_trials
from osrl.simulation.futures import Future, two_values
from osrl.simulation.protocol import TrialProtocol, new_experiment
from osrl.study.views import forecast as forecasts
from tests.support.studies import new_study, play
from tests.validation.forecasts import CASES, Case, Checked, begin, check_forecasts, share_below

pytestmark = pytest.mark.slow

NOTHING_LOST = ObservedProtocol(np.zeros(2), 400, 0, 0, 0.0)
LEAST = 0.85  # of true remainders that are at most the stated 90 %, early in a study


def early() -> list[Checked]:
    """Return forecasts after a twentieth of a study, when estimates are easily taken for the truth."""
    return [each for case in (CASES[0], CASES[6]) for run in range(8) for each in check_forecasts(case, 1404, run, 1)]


def test_early_forecasts_are_wide_enough() -> None:
    """The whole calibration is in `tests.validation.report_forecast`."""
    assert share_below(early())[2] >= LEAST


def test_point_estimates_would_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def estimates(pulls: Floats, sums: Floats, G: int, noise: float, draws: int, rng: Any) -> Floats:
        return np.stack([(sums + 0.5) / (pulls + 1)] * draws)

    monkeypatch.setattr(rest, "plausible_means", estimates)
    assert share_below(early())[2] < LEAST


# What is believed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_means_that_data_allow(noise: float) -> None:
    """They lie around the estimates, as widely as the data are few, and share a representation."""
    rng = np.random.default_rng(5)
    true = np.array([[0.8, 0.5, 0.3, 0.4], [0.4, 0.7, 0.2, 0.3]])
    pulls = np.array([[400.0, 400, 400, 400], [25, 25, 25, 25]])
    means = plausible_means(pulls, pulls * true, 2, noise, 300, rng)
    assert (means.argmax(axis=2) // 2 == means.argmax(axis=2)[:, :1] // 2).all()
    assert np.abs(means[:, 0].mean(axis=0) - true[0]).max() < 0.02
    assert np.abs(means[:, 1].mean(axis=0) - true[1]).max() < 0.12
    assert (means[:, 1].std(axis=0) > 2 * means[:, 0].std(axis=0)).all()


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_a_task_without_data_is_like_the_others(noise: float) -> None:
    rng = np.random.default_rng(6)
    pulls = np.array([[50.0, 50, 50, 50], [0, 0, 0, 0]])
    means = plausible_means(pulls, pulls * [[0.3, 0.25, 0.1, 0.2], [0] * 4], 2, noise, 300, rng)
    assert np.isfinite(means).all()
    assert 0.1 < np.median(means[:, 1]) < 0.5
    assert means[:, 1].std() > 0.03


# The rest of an experiment ------------------------------------------------------------------------


def test_losses_and_delays_make_it_longer() -> None:
    course = begin(CASES[0], 1505, 1)
    course.play(150)
    family = CASES[0].instance.family
    plain = remaining_trials(course.state, family, NOTHING_LOST)
    lost = remaining_trials(course.state, family, NOTHING_LOST._replace(lost=20))
    left_out = remaining_trials(course.state, family, NOTHING_LOST._replace(ignored=200))
    late = remaining_trials(course.state, family, NOTHING_LOST._replace(delay=100.0))
    assert plain == remaining_trials(course.state, family, NOTHING_LOST)
    assert lost.median > 1.2 * plain.median
    assert left_out.median > 1.2 * plain.median
    assert plain.median + 50 < late.median
    most = remaining_trials(course.state, family, NOTHING_LOST, most=round(plain.median))
    assert most._replace(in_time=None) == plain, "a limit does not make it shorter"
    assert most.in_time is not None and 0.2 < most.in_time < 0.7
    waiting = np.arange(100) % 4  # trials that are out already
    assert remaining_trials(course.state, family, NOTHING_LOST, waiting).median < plain.median


def test_what_was_never_seen_does_not_happen() -> None:
    rng = np.random.default_rng(1)
    nothing = NOTHING_LOST.draw(rng)
    assert nothing.shares.size == nothing.loss == nothing.ignored == nothing.delay == 0
    drawn = ObservedProtocol(np.array([90.0, 10.0]), 95, 5, 0, 7.6).draw(rng)
    assert isinstance(drawn, TrialProtocol)
    assert drawn.shares[0] > 0.7 and 0 < drawn.loss < 0.15 and drawn.delay == 8


# In blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [CASES[0], CASES[6], CASES[9]], ids=lambda case: case.name)
@pytest.mark.parametrize("check", [0.0, 0.1])
def test_a_block_of_one_trial_is_that_trial(case: Case, check: float) -> None:
    """Bets, counts, comparisons within a tolerance, model checks: the same evidence rules out the same."""
    state, rng = begin(case, 3, 3, model_check=check).state, np.random.default_rng(4)
    one, other = copy.deepcopy(state.stopping), copy.deepcopy(state.stopping)
    tasks, n = one.pulls.shape
    size = new_ticket(state).size
    ticket, room = np.zeros(size), np.zeros((tasks, n, size))
    propensities = np.full((tasks, n), 1 / (tasks * n))
    values = np.zeros((2, tasks, n))
    for i in range(300):
        x, a = int(rng.integers(tasks)), int(rng.integers(n))
        reward = float(rng.random() < 0.8 - 0.7 * (a > 0)) if one.noise == 0.0 else float(rng.normal(-a))
        ended = np.zeros((3, tasks, n))
        values[BLOCK_HIGH], ended[BLOCK_LOST if i % 50 == 7 and size else BLOCK_HIGH, x, a] = reward, 1.0
        write_trial_ticket(one, x, a, propensities[x], ticket)
        if ended[BLOCK_LOST].any():
            forfeit_trial(one, x, a, ticket)
        else:
            observe_reward(one, x, a, reward, ticket)
        observe_block(other, propensities, ended, values, room)
    assert not one.possible_h.all()
    for name in ("arms", "wealth", "possible_g", "possible_h"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(one.tolerance.within, other.tolerance.within)
    if one.check is not None:
        assert one.check.within.any()
        np.testing.assert_array_equal(one.check.within, other.check.within)
    np.testing.assert_array_equal(one.outcome.reached[0], other.outcome.reached[0])


def test_futures_in_blocks_take_as_long_as_trial_by_trial() -> None:
    course = begin(CASES[4], 5, 1)
    course.play(500)
    family, nothing = CASES[4].instance.family, TrialProtocol(np.zeros(0))
    hypotheses = course.state.stopping
    means = plausible_means(hypotheses.pulls, hypotheses.sums, 3, 0.0, 60, np.random.default_rng(2))
    each, blocks = np.zeros((2, 60))
    for i, drawn in enumerate(means):
        world = Instance(drawn.reshape(4, 3, 2), family)
        exact = new_experiment(course.state, world, new_key(9, i), nothing)
        future = Future(course.state, drawn, family, nothing, NOTHING, np.random.default_rng([9, i]))
        exact.play(30_000)
        future.play(30_000)
        each[i], blocks[i] = exact.handed_out, min(future.handed_out, 30_000)
    assert abs(np.log(blocks / each).mean()) < 0.3  # the standard error is about 0.1
    assert 0.6 < np.median(blocks) / np.median(each) < 1.6


def test_a_large_experiment_has_a_number_and_a_range() -> None:
    """It was "more than 4,096": nobody plays millions of trials one by one."""
    case = CASES[-1]
    rare = case._replace(instance=Instance.bernoulli(0.1 * case.instance.means))
    course = begin(rare, 1303, 3)
    assert not course.play(100_000)
    found = remaining_trials(course.state, rare.instance.family, NOTHING_LOST._replace(arrivals=np.zeros(3)))
    assert not found.at_least and 10_000 < found.q10 < found.median < found.q90


@pytest.mark.parametrize("name", ["bernoulli", "bounded"])
def test_two_rewards_have_the_mean_and_the_variance(name: Any) -> None:
    means = np.array([[0.2, 0.7]])
    high, low = two_values(means, Family(name))
    np.testing.assert_allclose(means * high + (1 - means) * low, means)
    drawn = [draw_one(new_key(1, 0), 5, k, 0.7, 0.0, name == "bounded") for k in range(4000)]
    variance = (means * (1 - means) * (high - low) ** 2)[0, 1]
    assert variance == pytest.approx(np.var(drawn), rel=0.1)


# Of a study ---------------------------------------------------------------------------------------


def test_every_reader_sees_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "study.db")
    with new_study(place, policy="osrl", delta=0.05) as study:
        assert study.forecast is None and study.expected_remaining is None
        play(study, 30)
        found = study.forecast
        assert found is not None and 0 < found.median <= found.q90
        assert study.expected_remaining == found.median
        assert study.status.forecast == found
    forecasts._forecasts.clear()
    assert main(["study", "status", place, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["forecast"] == found._asdict()
    assert (document["expected_remaining"], document["remaining_90"]) == (found.median, found.q90)
    assert main(["study", "status", place]) == 0
    assert "more trials" in capsys.readouterr().out


def test_a_task_that_nobody_asks_for_is_in_the_forecast(tmp_path: Path) -> None:
    """One task has all the data, and arrives alone: the other one will not end the study soon."""
    with new_study(str(tmp_path / "study.db"), policy="osrl", delta=0.05) as study:
        for trial in study.ask(study.settings.tasks[0], n=60):
            study.tell(trial, int(trial.representation == study.settings.representations[0]))
        found = study.forecast
        assert found is not None and found.median > 60


def test_the_forecast_is_computed_once_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_study(str(tmp_path / "study.db"), policy="osrl", delta=1e-6) as study:
        play(study, 40)
        first = study.forecast
        with monkeypatch.context() as patch:
            patch.setattr("osrl.study.views.forecast.remaining_trials", None)  # would fail
            assert study.forecast is first
        play(study, 1)
        assert study.forecast is not first


def test_a_verdict_needs_no_more_and_a_budget_is_no_forecast(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), policy="osrl", delta=0.01, budget=25) as study:
        play(study, 20)
        found = study.forecast
        assert found is not None and found.median > 5 and found.q90 > 5
        assert found.in_budget is not None and found.in_budget < 0.5
        assert "the budget is enough in" in describe_forecast(found)
        while study.verdict == "running":
            play(study, 1)
        assert study.forecast is not None and study.forecast.q90 == 0
    assert osrl.Study.open(str(tmp_path / "a.db")).expected_remaining == 0

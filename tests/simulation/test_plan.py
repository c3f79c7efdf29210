"""`osrl plan`: the plan is what simulations say, and bad requests are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import osrl
from osrl.cli import main
from osrl.simulation.plan import plan, scale_gaps
from tests.support.instances import refused
from tests.support.simulations import EASY

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]


def test_quantiles_are_those_of_the_simulated_runs() -> None:
    found = plan(EASY, ["osrl", "tas"], delta=0.05, runs=40, seed=3)
    assert found.bound is not None
    assert found.bound.K.lower == pytest.approx(osrl.lower_bound(EASY, delta_g=0.05, delta_h=0.05).K.lower)
    for each in found.policies:
        tau = np.sort(osrl.simulate(EASY, each.policy, 0.05, 40, seed=3).frame["tau"].to_numpy())
        assert (each.low, each.median, each.high) == (tau[3], tau[19], tau[35])
        assert each.mean == pytest.approx(tau.mean())
    assert found.policies[0].median <= found.policies[1].median


def test_runs_that_are_cut_are_counted() -> None:
    found = plan(EASY, "uniform", runs=20, budget=10).policies[0]
    assert (found.cut, found.median) == (20, 10)


def test_a_plan_that_was_cut_does_not_say_that_it_is_enough(capsys: Capture) -> None:
    arguments = ["plan", "paper", "--policy", "osrl", "--runs", "20", "--json", "--budget"]
    assert main([*arguments, "10"]) == 0
    assert "half of the experiments or more need more than 10 trials" in capsys.readouterr().out
    assert main([*arguments, "5000"]) == 0
    assert "more than one in ten need more than 5,000" in capsys.readouterr().out
    assert main(["plan", "paper", "--policy", "osrl-sc-released", "--runs", "20", "--json"]) == 0
    assert "Nobody has proved" in capsys.readouterr().out


def test_a_plan_where_nothing_is_needed(capsys: Capture, tmp_path: Path) -> None:
    arguments = [
        "plan",
        "paper",
        "--policy",
        "osrl",
        "--runs",
        "20",
        "--delta",
        "0.5",
        "--out",
        str(tmp_path),
    ]
    assert main(arguments) == 0
    assert "lower bound" in capsys.readouterr().out
    assert (tmp_path / "plan.png").stat().st_size > 5000


def test_the_document_and_the_chart(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "guess.toml"
    EASY.save(path)
    arguments = [
        "plan",
        str(path),
        "--policy",
        "osrl,osrl-sc",
        "--runs",
        "20",
        "--out",
        str(tmp_path / "new"),
    ]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["policy"] for each in document["policies"]].count("osrl-sc") == 2
    best = document["policies"][0]
    assert best["quantile10"] <= best["median"] <= best["quantile90"]
    assert f"{best['median']:,} trials with {best['policy']}" in document["sentence"]
    assert (tmp_path / "new/plan.png").stat().st_size > 5000
    assert (tmp_path / "new/plan.pdf").stat().st_size > 5000
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "osrl-sc sharp" in shown
    assert "lower bound" in shown
    assert "9 in 10 need at most" in shown


def test_a_budget_that_is_too_small_is_said_in_the_sentence(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "guess.toml"
    EASY.save(path)
    assert main(["plan", str(path), "--policy", "uniform", "--runs", "20", "--budget", "10"]) == 0
    assert "> 10" in capsys.readouterr().out


def test_bad_requests_are_refused(capsys: Capture) -> None:
    with refused("runs is 5"):
        plan(EASY, runs=5)
    with refused("unknown policy 'best'"):
        plan(EASY, "best", runs=20)
    with refused("delta_g is 1.5"):
        plan(EASY, delta=1.5, runs=20)
    with refused("2 best arms"):
        plan(osrl.Instance.bernoulli([[[0.5, 0.5], [0.2, 0.1]]]), runs=20)
    assert main(["plan", "nowhere.toml"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


# What an experiment brings ------------------------------------------------------------------------


def test_an_experiment_without_losses_and_delays_is_a_simulated_run() -> None:
    """Costs of 1 are trials, and make the plan by the other loop: the same runs, whoever plays them."""
    plain, lived = (
        plan(EASY, delta=0.05, runs=20),
        plan(EASY, delta=0.05, runs=20, costs=[1.0] * len(EASY.tasks)),
    )
    assert lived.policies[0]._replace(cost=None) == plain.policies[0]
    assert lived.policies[0].cost == (plain.policies[0].median, plain.policies[0].high)


def test_losses_delays_and_arrivals_have_their_price() -> None:
    def median(**life: Any) -> int:
        return plan(EASY, delta=0.05, runs=40, **life).policies[0].median

    plain = median()
    assert median(loss=0.15) > 1.3 * plain
    assert plain + 40 < median(delay=60) < plain + 160
    assert plain <= median(batch=16) < 1.5 * plain + 16
    assert median(shares=[0.95, 0.05]) > 1.5 * plain
    assert median(gaps=0.5) > 1.7 * plain


def test_gaps_are_those_to_the_best_arm() -> None:
    half = scale_gaps(EASY, 0.5)
    best = EASY.means.max(axis=(1, 2), keepdims=True)
    assert half.means == pytest.approx((best + EASY.means) / 2)


def test_costs_and_days_of_the_command(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "guess.toml"
    EASY.save(path)
    arguments = ["plan", str(path), "--runs", "20", "--loss", "0.02", "--delay", "5", "--batch", "2"]
    arguments += ["--per-day", "10", "--costs", ",".join("2" for _ in EASY.tasks)]
    arguments += ["--shares", ",".join("1" for _ in EASY.tasks)]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (found,) = document["policies"]
    assert found["policy"] == "osrl"
    assert found["days"] == found["median"] / 10
    assert found["cost"] == pytest.approx(2 * found["median"])
    assert main(arguments) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 % of the trials lost, counted at their worst" in shown
    assert "days" in shown and "Its trials cost about" in shown


def test_ignorable_losses_cost_what_is_lost() -> None:
    """Where a third of the trials is left out, half as many more are needed."""
    plain, lost = (plan(EASY, delta=0.05, runs=40, loss=loss, ignorable=True).policies[0].median for loss in (0, 1 / 3))
    assert 1.2 * plain < lost < 1.9 * plain
    gaussian = osrl.Instance.gaussian([[[1.0, 0.0]]], 0.5)
    assert plan(gaussian, runs=20, loss=0.1, ignorable=True).policies[0].cut == 0
    with refused("a loss has to be ignorable; add --ignorable"):
        plan(gaussian, runs=20, loss=0.1)


def test_rewards_between_limits_are_planned_in_their_unit(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "guess.toml"
    means = (12 * EASY.means - 2).tolist()
    path.write_text(f'family = "bounded"\nmeans = {means}\n', encoding="utf-8")
    bounded = osrl.Instance.bounded(EASY.means)
    same = plan(bounded, runs=20, epsilon=0.05).policies
    for given in (path, means):
        found = plan(given, runs=20, epsilon=0.6, low=-2, high=10)
        assert found.policies == same and found.epsilon == (0.6, 0.6) and found.limits == (-2, 10)
    assert main(["plan", str(path), "--low", "-2", "--high", "10", "--loss", "0.45", "--runs", "20"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "scaled from [-2, 10]" in shown and "it will not be decided" in shown
    lost: dict[str, Any] = {"runs": 20, "loss": 0.45}
    one, other = str(plan(bounded, **lost).never), str(plan(means, low=-2, high=10, **lost).never)
    gaps = [float(why.split("differ by ")[1].removeprefix("at most ").split()[0]) for why in (one, other)]
    assert gaps[1] == pytest.approx(12 * gaps[0], rel=0.01)
    assert main(["plan", str(path), "--low", "0", "--high", "10"]) == 2
    assert "give means from 0 to 10" in capsys.readouterr().err
    with refused("low and high belong to the bounded family"):
        plan("paper", runs=20, high=2)


def test_what_no_budget_decides_is_said_and_not_simulated(tmp_path: Path, capsys: Capture) -> None:
    """The paper's nearest arms differ by 0.05: with as many losses nothing tells them apart."""
    found = plan("paper", runs=20, loss=0.05)
    assert found.policies == () and "h1 and h2 differ by 0.05 in x1" in str(found.never)
    assert plan("paper", runs=20, loss=0.05, epsilon=0.2, budget=10_000).never is None
    arguments = ["plan", "paper", "--runs", "20", "--loss", "0.05"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "it will not be decided" in shown and "budget" not in shown
    assert main([*arguments, "--risks", "0.1", "--tolerances", "0,0.2", "--budget", "20000"]) == 0
    assert capsys.readouterr().out.count("never") == 3
    assert "no trial arrives in x2" in str(plan("paper", runs=20, shares=[1, 0]).never)


def test_the_task_that_everything_waits_for_is_named(capsys: Capture) -> None:
    found = plan(EASY, delta=0.05, runs=40, shares=[0.96, 0.04]).bottleneck
    assert found is not None and (found.task, found.share) == (EASY.tasks[1], 0.04)
    alone = plan(osrl.Instance.bernoulli(EASY.means[:1]), delta=0.05, runs=40, shares=[1]).policies[0]
    assert found.trials == round(alone.median / 0.96)
    assert plan(EASY, delta=0.05, runs=40, shares=[0.5, 0.5]).bottleneck is None
    assert main(["plan", "paper", "--shares", "0.97,0.03", "--runs", "20", "--per-day", "1000"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The bottleneck is x2, where 3 % of the trials arrive: without it about" in shown
    assert "days would do instead of" in shown


def test_the_bound_knows_shares_and_losses() -> None:
    """Tasks that arrive cannot be chosen: the rare one alone must have its predictor's samples."""
    shares = (0.96, 0.04)
    found = plan(EASY, delta=0.05, runs=40, shares=shares, loss=0.05, ignorable=True)
    chosen = plan(EASY, delta=0.05, runs=40)
    rare = osrl.Instance.bernoulli(EASY.means[1:, :1])  # with the best representation, as if it were known
    alone = osrl.lower_bound(rare, delta=0.05)
    assert found.least > 3 * chosen.least
    assert found.least >= alone.K_sharp.lower / 0.04 / 0.95
    assert found.least < found.policies[0].mean


def test_lives_that_cannot_be_are_refused(capsys: Capture) -> None:
    for wrong, message in (
        ({"loss": 1.0}, "loss is 1.0; give the share"),
        ({"delay": -1}, "delay is -1 and batch is 1"),
        ({"shares": [1.0]}, "shares are [1.0]; give one for each"),
        ({"costs": [1.0, 2.0, 3.0]}, "costs are [1.0, 2.0, 3.0]; give one for each"),
        ({"per_day": 0.0}, "per_day is 0.0"),
        ({"gaps": 0.0}, "gaps is 0.0; give a positive number"),
        ({"policy": "tas", "loss": 0.1}, "policy 'tas' cannot bear losses"),
    ):
        with refused(message):
            plan(EASY, runs=20, **wrong)
    assert main(["plan", "paper", "--shares", "half"]) == 2
    assert "--shares is 'half'; give numbers" in capsys.readouterr().err


def test_a_sweep_is_a_plan_for_each_risk_and_tolerance(capsys: Capture, tmp_path: Path) -> None:
    arguments = ["plan", "paper", "--risks", "0.1,0.3", "--tolerances", "0.2,0.4", "--runs", "20"]
    assert main([*arguments, "--out", str(tmp_path), "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    asked = [(each["epsilon_g"], each["delta_h"]) for each in plans]
    assert asked == [(0.2, 0.1), (0.2, 0.3), (0.4, 0.1), (0.4, 0.3)]
    alone = plan("paper", delta=0.3, epsilon=0.2, runs=20).policies[0]
    assert plans[1]["policies"][0]["median"] == alone.median
    assert (tmp_path / "sweep.png").stat().st_size > 5_000
    assert main([*arguments, "--per-day", "10"]) == 0
    shown = capsys.readouterr().out
    assert "nine experiments in ten" in shown and "days" in shown


def test_a_sweep_that_contradicts_itself_is_refused(capsys: Capture) -> None:
    assert main(["plan", "paper", "--risks", "0.1", "--delta", "0.2"]) == 2
    assert "leave --delta and --epsilon out" in capsys.readouterr().err
    assert main(["plan", "paper", "--risks", "0.1,x"]) == 2
    assert "give numbers with commas" in capsys.readouterr().err

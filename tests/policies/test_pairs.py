"""Sampling rules and stopping rules in any pair: what fits, what is proved, and that all of them answer."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np
import pytest

import osrl
from osrl.cli import main
from osrl.errors import OsrlError
from osrl.model.families import Family, divergence
from osrl.model.outcome import DECIDED
from osrl.model.rng import new_key
from osrl.policies.contract import Criterion, Problem
from osrl.policies.registry import find, pair, sampling_rules, split_stop, stop_names, stopping_rules
from osrl.policies.sampling.common import ARM_TARGET
from osrl.policies.stopping.arm_stats import lower_bound, upper_bound
from osrl.policies.stopping.one_phase import observe
from osrl.policies.stopping.thresholds import GLR_THRESHOLDS, phi
from osrl.testing import EASY, new_state
from tests.support.processes import run_python
from tests.support.rule_pairs import pairs, play

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def played() -> dict[str, Any]:
    """A run of every pair, by the interpreter."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    found: dict[str, Any] = json.loads(run_python("-m", "tests.support.rule_pairs", env=environment).stdout)
    return found


def test_every_pair_finds_the_answer_of_an_easy_problem(played: dict[str, Any]) -> None:
    assert len(played) == len(pairs()) >= 60
    for name, run in played.items():
        assert run["status"] == DECIDED, name
        assert (run["representation"], run["predictor"]) == ([0, 0], [0, 1]), name
        assert run["rounds"] == run["tau"] == run["pulls"] >= run["tau_g"] > 0, name
        assert run["cut"] == [12, 12], name


def test_a_stricter_threshold_takes_longer(played: dict[str, Any]) -> None:
    for sampling in ("tas", "ttts", "kl-lucb"):
        taus = [played[f"{sampling} glr-{name}"]["tau"] for name in ("gk", "tas", "theorem")]
        assert taus == sorted(taus), sampling


def test_the_proportions_need_fewer_samples_than_even_ones(played: dict[str, Any]) -> None:
    for sampling in ("tas", "oracle", "ttts"):
        assert played[f"{sampling} glr-theorem"]["tau"] < played["uniform glr-theorem"]["tau"], sampling


def test_compiled_and_interpreted_a_pair_plays_the_same_run(played: dict[str, Any]) -> None:
    """One loop is compiled for all of these."""
    names = (
        "tas glr-tas",
        "oracle glr-kk",
        "ttts glr-theorem",
        "eb-tci glr-gk",
        "ttei posterior",
        "kl-lucb intervals-kk",
    )
    for policy, threshold, name in pairs():
        if name in names:
            assert play(policy, threshold) == played[name], name


def test_in_a_race_who_was_beaten_once_is_out(played: dict[str, Any]) -> None:
    """The same samples are enough sooner: not all have to be beaten at the same time."""
    for sampling in ("uniform", "oracle"):
        assert played[f"{sampling} race-tas"]["tau_g"] <= played[f"{sampling} glr-tas"]["tau_g"], sampling
    rule = stopping_rules()["race"]
    problem = Problem((1, 1, 3), Family("bernoulli"), (Criterion("gk", 0.1, 0.1),))
    state, nothing = rule.new(problem, 0.0), np.zeros(0)
    for a, reward in [(0, 1.0), (2, 0.0)] * 12:
        observe(state, 0, a, reward, nothing)
    assert state.possible_h[0].tolist() == [True, True, False]
    for a, reward in [(2, 1.0)] * 400:
        observe(state, 0, a, reward, nothing)
    assert state.possible_h[0].tolist() == [True, True, False] and state.outcome.status[0] != DECIDED


def test_an_answer_that_has_to_look_right_first_does_not_wait_for_ever() -> None:
    """All is ruled out but one, and another arm looks better: then every arm is explored."""
    rule, policy = sampling_rules()["tas"], pair("tas", "bets")
    state = new_state(policy, EASY, policy.criteria([(0.1, 0.1)]), new_key(0, 0))
    stopping, propensities = state.stopping, np.zeros((2, 4))
    stopping.possible_g[1] = False
    stopping.possible_h[:, 1] = False
    state.sampling.arms[ARM_TARGET] = 0.0
    state.sampling.arms[ARM_TARGET, 0, 0] = 1.0  # from before
    assert rule.select(state.sampling, stopping, -1, propensities) == -1
    assert propensities.min() > 0.1 and propensities.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("sampling", ["ttts", "t3c", "eb-tci", "ttei", "kl-lucb", "ugape"])
def test_representations_are_compared_where_all_predictors_of_the_leader_are_known(sampling: str) -> None:
    rule, policy = sampling_rules()[sampling], pair(sampling, "counts")
    state = new_state(policy, EASY, policy.criteria([(0.1, 0.1)]), new_key(0, 0))
    state.stopping.possible_h[:, 0] = state.stopping.possible_h[:, 2] = False
    assert rule.observe is not None
    for t in range(400):
        x, a = divmod(t % 8, 4)
        rule.observe(state.sampling, state.stopping, x, a, float(a == 1 or t % 3 == 0))
        if t >= 380:
            assert 0 <= rule.select(state.sampling, state.stopping, -1, np.zeros((2, 4))) < 8, t


def test_what_is_proved_is_a_matter_of_the_stopping_rule() -> None:
    unproved = {name for name in stop_names() if split_stop(name)[1] in ("gk", "released")} | {"posterior"}
    proved = set(stop_names()) - unproved
    assert proved == {"glr-tas", "glr-kk", "glr-theorem", "race-tas", "intervals-kk", "bets", "counts"}
    for name in stop_names():
        rule, threshold = split_stop(name)
        assert pair("uniform", rule).proves(threshold) == (name in proved)


def test_a_pair_that_would_lose_its_proof_is_refused() -> None:
    for name in ("ttts", "t3c"):
        with pytest.raises(OsrlError, match="drawn with known probabilities"):
            pair(name, "bets")
    with pytest.raises(OsrlError, match="reads 'evidence_g'"):
        pair("osrl", "glr")
    with pytest.raises(OsrlError, match="unknown sampling rule 'lucb'; use one of osrl, uniform"):
        find("lucb+glr")
    with pytest.raises(OsrlError, match="unknown stopping rule 'glr-no'; use one of glr-tas"):
        split_stop("glr-no")


def test_named_policies_are_the_pairs_that_they_were() -> None:
    one = osrl.simulate(EASY, "uniform", runs=5).frame.drop("policy")
    other = osrl.simulate(EASY, sample="uniform", stop="bets", runs=5).frame.drop("policy")
    assert one.equals(other)


def test_sample_and_stop_from_python() -> None:
    runs = osrl.simulate(EASY.means.tolist(), sample=["tas"], stop=["glr-tas", "glr-gk"], runs=6)
    summary = runs.summary(confidence=0.95, quantiles=[0.25])
    assert summary.select("policy", "threshold", "proved").rows() == [
        ("tas+glr", "tas", True),
        ("tas+glr", "gk", False),
    ]
    assert {"ci95", "q25", "median"} <= set(summary.columns)
    taus = runs.frame.filter(threshold="gk")["tau"].sort()
    assert summary["median"][1] == taus[2] and summary["q25"][1] == taus[1]
    with pytest.raises(OsrlError, match="needs both rules"):
        osrl.simulate(EASY, sample="tas", runs=1)
    with pytest.raises(OsrlError, match="names its threshold with its stopping rule"):
        osrl.simulate(EASY, sample="tas", stop="glr", threshold="kk", runs=1)


def test_the_command_lists_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["sampling"]] == list(sampling_rules())
    assert [row["name"] for row in found["stopping"]] == stop_names()
    assert {row["name"]: row["not_with"] for row in found["stopping"]}["bets"] == ["ttts", "t3c"]
    assert main(["rules"]) == 0
    assert "c-tracking" in capsys.readouterr().out


def test_the_table_says_where_nothing_is_proved(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    EASY.save(tmp_path / "easy.toml")
    command = ["simulate", str(tmp_path / "easy.toml"), "--sample", "tas", "--stop", "glr-tas,glr-gk"]
    assert main([*command, "--runs", "3"]) == 0
    printed = capsys.readouterr().out
    assert "guarantee" in printed and "none" in printed and "proved" in printed


@pytest.mark.nojit
@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_the_ends_of_an_interval_are_where_the_divergence_is_the_rate(noise: float) -> None:
    for mean in (0.0, 0.1, 0.5, 0.97, 1.0):
        for pulls in (1.0, 7.0, 400.0):
            for rate in (0.5, 3.0, 12.0):
                top, bottom = (end(mean, pulls, rate, noise) for end in (upper_bound, lower_bound))
                assert bottom <= mean <= top
                for end in (top, bottom):
                    if noise > 0 or 1e-12 < end < 1 - 1e-12:
                        assert pulls * divergence(mean, end, noise) == pytest.approx(rate, rel=1e-5)
    assert (upper_bound(0.5, 0.0, 3.0, 0.0), lower_bound(0.5, 0.0, 3.0, 0.0)) == (1.0, 0.0)


def test_the_levels_are_those_that_are_printed() -> None:
    problem = Problem((2, 3, 2), Family("bernoulli"), (Criterion("tas", 0.1, 0.05),))
    tas, slow, mixture = (GLR_THRESHOLDS[name](problem, 0.1, 0.05) for name in ("tas", "gk", "kk"))
    assert tas.representation.constant == pytest.approx(math.log(2 * 2 * 5 / 0.1))
    assert tas.predictor.constant == pytest.approx(math.log(2 / 0.05))
    assert slow.predictor == (math.log(20), 0.0, 0.0, 1.0)
    y = 2 * math.log(6) + math.log(10)
    assert mixture.representation.constant == pytest.approx(max(s * phi(y / s) for s in range(1, 5)))
    assert mixture.predictor.constant >= 2 * phi(math.log(20) / 2)


@pytest.mark.nojit
def test_the_joint_rule_decides_where_two_arms_are_told_apart() -> None:
    rule = stopping_rules()["glr"]
    problem = Problem((1, 1, 2), Family("bernoulli"), (Criterion("gk", 0.1, 0.1),))
    state = rule.new(problem, 0.0)
    nothing, rewards = np.zeros(0), np.array([[1.0, 0.0]] * 30)
    for t, pair_of_rewards in enumerate(rewards):
        for a, reward in enumerate(pair_of_rewards):
            observe(state, 0, a, reward, nothing)
        evidence = 2 * (t + 1) * math.log(2)  # both arms against their pooled mean 1/2
        needed = math.log((math.log(2 * (t + 1)) + 1) / 0.1)
        assert (state.outcome.status[0] == DECIDED) == (evidence > needed)
        if state.outcome.status[0] == DECIDED:
            break
    assert state.outcome.tau[0] == 2 * (t + 1) and state.outcome.predictor[0, 0] == 0


def test_the_oracle_is_for_simulations_only(tmp_path: Any) -> None:
    with pytest.raises(OsrlError, match="true means"):
        find("oracle+glr").new(Problem((1, 2, 2), Family("bernoulli"), (Criterion("tas", 0.1, 0.1),)), 0.5)


def test_runs_are_opened_again_and_have_names(tmp_path: Any) -> None:
    kept = osrl.simulate("paper", "uniform", runs=4, budget=60, out=tmp_path / "runs")
    found = osrl.Runs.open(tmp_path / "runs")
    assert found.frame.equals(kept.frame) and found.summary().equals(kept.summary())
    assert found.pulls.height == 4 * 12
    assert found.pulls["pulls"].sum() == found.frame["tau"].sum()
    arm = found.pulls.row(11, named=True)
    assert (arm["task"], arm["representation"], arm["predictor"]) == ("x2", "g3", "h2")
    assert arm["pulls"] == found.frame["pulls"][0][11]
    assert found.answers.columns[-5:] == ["task", "representation", "predictor", "correct_h", "shortfall"]
    assert found.answers.height == 8
    with pytest.raises(OsrlError, match="holds no campaign"):
        osrl.Runs.open(tmp_path)

"""Threshold `sharp` with a tolerance: it ends although arms tie, and no answer is too bad too often."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import osrl
from osrl.errors import OsrlError, StorageDamaged
from osrl.model.families import Family
from osrl.model.instance import Instance
from osrl.policies.contract import Criterion, Problem
from osrl.policies.stopping.sharp_counts import epsilon_answer, epsilon_predictor, new_epsilon_pairs, split_risks
from osrl.study.log.events import Created
from osrl.study.log.export import read_log
from osrl.study.state.constants import set_constants
from osrl.study.state.policy_state import new_policy_state
from osrl.study.study import Study
from tests.validation.tolerances import CHAIN, CHAIN_G, CROSSED, EPSILON, EXACTLY, RISK, TIES, TWINS, WORSE

pytestmark = pytest.mark.slow

RUNS = 80
CASES = {
    "ties of predictors": Instance.bernoulli(TIES),
    "equal representations": Instance.bernoulli(TWINS),
    "worse by 1.1 epsilon": Instance.bernoulli(WORSE),
    "chain of predictors": Instance.bernoulli(CHAIN),
    "chain of representations": Instance.bernoulli(CHAIN_G),
    "chain of both": Instance.bernoulli(CROSSED),
    "Gaussian ties": Instance.gaussian(TWINS, 0.5),
}


@pytest.mark.parametrize("case", CASES)
def test_answers_are_good_enough(case: str) -> None:
    instance = CASES[case]
    found = osrl.simulate(instance, "osrl-sc", RISK, RUNS, threshold="sharp", epsilon=EPSILON, budget=100_000).frame
    assert set(found["verdict"]) <= {"decided", "decided within the tolerance"}
    best = instance.means.max(axis=(1, 2))
    best_g = np.isclose(instance.means.max(axis=2), best[:, None]).all(axis=0)
    right_g = np.array([best_g[instance.representations.index(each[0])] for each in found["representations"]])
    bad = np.array(found["shortfall"].to_list()) > EPSILON + EXACTLY
    most = binom.isf(1e-6, RUNS, RISK)
    assert (bad & ~right_g[:, None]).sum(axis=0).max() <= most
    assert (bad & right_g[:, None]).sum(axis=0).max() <= most


def test_without_a_tie_it_decides_sooner_than_without_a_tolerance() -> None:
    instance = Instance.bernoulli(WORSE)
    within, exact = (
        osrl.simulate(instance, "osrl-sc", RISK, 40, threshold="sharp", epsilon=epsilon).frame["tau"]
        for epsilon in (EPSILON, 0.0)
    )
    assert within.sum() < exact.sum()


@pytest.mark.parametrize("epsilon", [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (0.1, 0.1)])
def test_the_parts_of_a_risk_are_not_more_than_the_risk(epsilon: tuple[float, float]) -> None:
    parts = split_risks(epsilon)
    assert parts.exact_g + parts.across == 1.0
    assert parts.first + parts.exact_h + parts.second == 1.0


def test_the_limits_pay_for_every_answer_that_could_be_given() -> None:
    criteria = Criterion("sharp", 0.1, 0.05), Criterion("theorem", 0.1, 0.05)
    near = new_epsilon_pairs(Problem((2, 3, 4), Family("bernoulli"), criteria, (0.1, 0.1)))
    assert np.exp(-near.limits[:, 0]) == pytest.approx([0.025 / 8, 0.0125 / 3, 0.025 / 3])
    assert math.isinf(near.limits[:, 1].min())


def test_an_answer_needs_every_other_arm_to_be_out() -> None:
    within, means = np.zeros((4, 4), np.bool_), np.array([0.6, 0.5, 0.55, 0.2])
    possible = np.array([True, True])
    assert epsilon_answer(within, means, possible, 0, 2) == -1
    within[1:, 0] = True
    assert epsilon_answer(within, means, possible, 0, 2) == 0
    within[2, 0] = False
    assert epsilon_answer(within, means, possible, 0, 2) == -1
    assert epsilon_answer(within, means, np.array([True, False]), 0, 2) == 0
    assert epsilon_predictor(within[:2, :2], means[:2], np.array([True, True])) == 0
    assert epsilon_predictor(within[:2, :2].T.copy(), means[:2], np.array([True, True])) == 1


def test_other_thresholds_have_no_tolerance() -> None:
    with pytest.raises(OsrlError, match="no tolerance"):
        osrl.simulate(CASES["ties of predictors"], "osrl-sc", 0.1, 1, threshold="theorem", epsilon=0.1)


def test_a_study_ends_within_the_tolerance_and_its_log_replays(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    means = {("A", "low"): 0.8, ("A", "high"): 0.8, ("B", "low"): 0.2, ("B", "high"): 0.1}
    with Study.create(
        f"{tmp_path}/study.db",
        tasks=["young", "old"],
        representations=["A", "B"],
        predictors=["low", "high"],
        delta=0.2,
        epsilon=0.3,
        policy="osrl-sc",
        threshold="sharp",
        seed=1,
    ) as study:
        while study.verdict == "running":
            for trial in study.ask(n=4):
                study.tell(trial, rng.random() < means[trial.representation, trial.predictor])
                if study.verdict != "running":
                    break
        assert study.verdict == "decided within the tolerance"
        assert set(study.best.representations.values()) == {"A"}
        assert study.verify().ok
        study.write_log(tmp_path / "log.jsonl")
    created = next(iter(read_log(tmp_path / "log.jsonl"))).body
    assert isinstance(created, Created) and {"tolerance.limits", "limits.h"} <= created.evidence.keys()
    wrong = replace(created, evidence={**created.evidence, "limits.g": [0.1]})
    with pytest.raises(StorageDamaged, match="limits"):
        set_constants(new_policy_state(wrong), wrong)

"""The rules of others, lifted and compiled, on one task: as many samples as their papers' own form takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

import osrl
from osrl.paper.baselines import TOP_TWO, TRACK_AND_STOP
from tests.oracle import rules as oracle

pytestmark = pytest.mark.slow

RISK = 0.1
CASES = [
    (oracle.chernoff_racing, "chernoff-racing", "race-gk"),
    (oracle.kl_racing, "racing", "intervals-gk"),
    (oracle.kl_lucb, "kl-lucb", "intervals-gk"),
    (oracle.ttts, "ttts", "glr-gk"),
    (oracle.t3c, "t3c", "glr-gk"),
]


def assert_alike(
    rule: Callable[..., oracle.Run],
    sampling: str,
    stopping: str,
    means: Sequence[float],
    runs: int,
    *,
    noise_sd: float = 0.0,
    risk: float = RISK,
) -> None:
    played = [rule(means, risk, Random(seed)) for seed in range(runs)]
    theirs = np.array([t for t, _ in played], float)
    task = [[list(means)]]
    instance = osrl.Instance.gaussian(task, noise_sd) if noise_sd else osrl.Instance.bernoulli(task)
    found = osrl.simulate(instance, sample=sampling, stop=stopping, delta=risk, runs=10 * runs, seed=0)
    ours = found.summary().row(0, named=True)
    error = math.hypot(float(theirs.std()) / math.sqrt(runs), ours["std"] / math.sqrt(10 * runs))
    assert abs(ours["mean"] - theirs.mean()) < 3.5 * error, (ours["mean"], theirs.mean(), error)
    wrong = sum(a != 0 for _, a in played) / runs
    assert abs(ours["error_h"] - wrong) < 4 * math.sqrt(max(wrong, 0.01) / runs)


@pytest.mark.parametrize(("rule", "sampling", "stopping"), CASES)
def test_a_rule_of_others_takes_as_many_samples_as_in_its_paper(
    rule: Callable[..., oracle.Run], sampling: str, stopping: str
) -> None:
    assert_alike(rule, sampling, stopping, [0.5, 0.3, 0.2], 60)


@pytest.mark.validate
@pytest.mark.parametrize("instance", TRACK_AND_STOP.instances)
@pytest.mark.parametrize(("rule", "sampling", "stopping"), CASES)
def test_on_the_instances_of_garivier_and_kaufmann_too(
    rule: Callable[..., oracle.Run], sampling: str, stopping: str, instance: str
) -> None:
    assert_alike(rule, sampling, stopping, list(TRACK_AND_STOP.instances[instance]), 300)


@pytest.mark.parametrize("risk", [0.05, 0.0001])
def test_top_two_expected_improvement_takes_as_many_as_in_its_paper(risk: float) -> None:
    means = TOP_TWO.instances["nu1"]
    assert_alike(oracle.ttei, "ttei", "posterior", means, 60, noise_sd=1.0, risk=risk)


@pytest.mark.validate
@pytest.mark.parametrize("risk", [0.05, 0.0001])
@pytest.mark.parametrize("instance", TOP_TWO.instances)
def test_on_the_instances_of_qin_klabjan_and_russo_too(instance: str, risk: float) -> None:
    means = TOP_TWO.instances[instance]
    assert_alike(oracle.ttei, "ttei", "posterior", means, 300, noise_sd=1.0, risk=risk)

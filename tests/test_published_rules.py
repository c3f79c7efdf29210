"""The rules of others, lifted and compiled, on one task: as many samples as their papers' own form takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

import osrl
from osrl.paper.others import INSTANCES, RISK
from tests import oracle_rules as oracle

CASES = [
    (oracle.chernoff_racing, "chernoff-racing", "race-gk"),
    (oracle.kl_racing, "racing", "intervals-gk"),
    (oracle.kl_lucb, "kl-lucb", "intervals-gk"),
    (oracle.ttts, "ttts", "glr-gk"),
    (oracle.t3c, "t3c", "glr-gk"),
]


def assert_alike(
    rule: Callable[..., oracle.Run], sampling: str, stopping: str, means: list[float], runs: int
) -> None:
    played = [rule(means, RISK, Random(seed)) for seed in range(runs)]
    theirs = np.array([t for t, _ in played], float)
    found = osrl.simulate([[means]], sample=sampling, stop=stopping, delta=RISK, runs=10 * runs, seed=0)
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
@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize(("rule", "sampling", "stopping"), CASES)
def test_on_the_instances_of_garivier_and_kaufmann_too(
    rule: Callable[..., oracle.Run], sampling: str, stopping: str, instance: str
) -> None:
    assert_alike(rule, sampling, stopping, list(INSTANCES[instance]), 300)

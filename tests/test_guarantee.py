"""The guarantee of `osrl`: a true null is rejected no more often than its risk allows, whatever goes wrong.

Every arm is equal, or nearly so, so that nulls are true and the test is hard. With fixed seeds the number of
runs that reject a true null stays below what a test that keeps its risk exceeds with probability 1e-6 at
most. A deliberate mistake must be found out by the same test.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from osrl.instance import Instance
from osrl.policies import osrl as own
from osrl.policies import uniform
from tests.walks import Rejections, Trouble, rejections

RISK = 0.1
FALSE_ALARM = 1e-6
EQUAL = np.full((2, 3, 2), 0.4)
NEARLY = EQUAL - 0.004 * np.array([[[0, 1], [1, 2], [2, 2]], [[1, 0], [2, 1], [1, 2]]])
CASES = {
    "equal arms": (own.policy, Instance.bernoulli(EQUAL), Trouble()),
    "nearly equal arms": (own.policy, Instance.bernoulli(NEARLY), Trouble()),
    "rewards in [0, 1]": (own.policy, Instance.bounded(EQUAL), Trouble()),
    "tasks given to hurt": (own.policy, Instance.bernoulli(EQUAL), Trouble(hunted=True)),
    "late failures": (own.policy, Instance.bernoulli(EQUAL), Trouble(delay=5)),
    "failures drop out": (own.policy, Instance.bernoulli(EQUAL), Trouble(lost=0.1)),
    "even sampling": (uniform.policy, Instance.bernoulli(EQUAL), Trouble()),
}


def true_nulls(instance: Instance, found: Rejections) -> list[int]:
    """In how many runs each true null was rejected."""
    means = instance.means
    X, G, H = means.shape
    best = means.max(axis=(1, 2), keepdims=True)
    of_g = (means == best).any(axis=2).all(axis=0)
    of_h = (means == means.max(axis=2, keepdims=True)).reshape(X, G * H)
    return [*found.representation[of_g].tolist(), *found.predictor[of_h].tolist()]


def most_allowed(runs: int, risk: float = RISK) -> int:
    return int(binom.isf(FALSE_ALARM, runs, risk))


@pytest.mark.parametrize("case", CASES)
def test_true_nulls_are_rejected_no_more_often_than_allowed(case: str) -> None:
    policy, instance, trouble = CASES[case]
    found = rejections(policy, instance, RISK, 1000, 5000, trouble)
    print(case, true_nulls(instance, found))
    assert max(true_nulls(instance, found)) <= most_allowed(1000)


def test_a_deliberate_mistake_is_found_out() -> None:
    """Bets that know the reward: the same test fails."""
    instance = Instance.bernoulli(EQUAL)
    found = rejections(uniform.policy, instance, RISK, 1000, 5000, Trouble(peek=True))
    print(true_nulls(instance, found))
    assert max(true_nulls(instance, found)) > most_allowed(1000)

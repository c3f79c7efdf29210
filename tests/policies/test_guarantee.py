"""The guarantee of `osrl`: a true null is rejected no more often than its risk allows, whatever goes wrong.

Every arm is equal, or nearly so, so that nulls are true and the test is hard. With fixed seeds the number of
runs that reject a true null stays below what a test that keeps its risk exceeds with probability 1e-6 at
most. A deliberate mistake must be found out by the same test.
"""

from __future__ import annotations

import pytest

from osrl.model.instance import Instance
from osrl.policies.builtin import UNIFORM
from tests.validation.walks import CASES, EQUAL, RISK, Trouble, most_allowed, rejections, true_nulls

pytestmark = pytest.mark.slow

ROUNDS = 1500  # `make validate` has longer walks, and more


@pytest.mark.parametrize("case", CASES)
def test_true_nulls_are_rejected_no_more_often_than_allowed(case: str) -> None:
    policy, instance, trouble = CASES[case]
    found = rejections(policy, instance, RISK, 1000, ROUNDS, trouble)
    assert max(map(max, true_nulls(instance, found))) <= most_allowed(1000)


def test_a_deliberate_mistake_is_found_out() -> None:
    """Bets that know the reward: the same test fails."""
    instance = Instance.bernoulli(EQUAL)
    found = rejections(UNIFORM, instance, RISK, 1000, ROUNDS, Trouble(peek=True))
    assert max(map(max, true_nulls(instance, found))) > most_allowed(1000)

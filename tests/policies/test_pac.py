"""The guarantee: errors stay below what the risks allow, and a broken threshold is found out.

With fixed seeds, the number of wrong answers over many runs stays below a bound that a policy which
keeps its risk exceeds with probability 1e-6 at most (exact binomial tail). `make validate` counts twenty
times as many runs (`tests.validation.report_policies`).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import osrl
from osrl.model.instance import Instance
from osrl.policies.contract import State
from tests.validation.pac import CASES, FALSE_ALARM, INSTANCES, RISK, SEED, Case, allowed, check, errors_of

pytestmark = pytest.mark.slow

RUNS = 500
FEW_RUNS = 300  # are enough to find out
CLOSE = Instance.bernoulli([[[0.56, 0.53], [0.5, 0.47]], [[0.53, 0.56], [0.47, 0.5]]])
CARELESS = 0.99  # a risk at which every threshold of betting evidence is next to nothing


def broken(state: State) -> None:
    """Every threshold is 0.3, whatever the risk."""
    stopping = state.stopping
    for part in (stopping, getattr(stopping, "phase2", stopping)):
        if hasattr(part, "threshold"):
            part.threshold[:] = (0.3, 0.0, 0.0)
        if hasattr(part, "counting"):
            part.counting.limit[np.isfinite(part.counting.limit)] = 0.3


def test_the_bound_is_the_exact_tail() -> None:
    most = allowed(RUNS)
    assert binom.sf(most, RUNS, RISK) <= FALSE_ALARM < binom.sf(most - 1, RUNS, RISK)


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_errors_stay_below_the_risk(case: Case, name: str) -> None:
    errors = errors_of(case, INSTANCES[name], RUNS)
    check(errors, RUNS)
    if name == "small gaps" and case.policy.name in ("osrl", "osrl-sc"):
        assert errors.predictor.sum() > 0, "an instance without any error shows nothing"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broken_threshold_is_found_out(case: Case) -> None:
    """The same check, of a policy whose thresholds are all 0.3, or that was told to be careless."""
    betting = case.policy.name in ("osrl", "uniform")
    errors = errors_of(case, CLOSE, FEW_RUNS, CARELESS if betting else RISK, broken)
    with pytest.raises(AssertionError, match="wrong"):
        check(errors, FEW_RUNS)


@pytest.mark.parametrize("policy", ["tas", "tas-transfer"])
def test_the_smaller_risk_is_kept_where_an_arm_answers_both_questions(policy: str) -> None:
    """A task that is decided with all its arms names its predictor too: delta_h counts as delta_g does."""
    unequal = osrl.simulate(CLOSE, policy, delta_g=0.9, delta_h=1e-3, runs=FEW_RUNS, seed=SEED)
    assert unequal.summary()["error_h"][0] * FEW_RUNS <= binom.isf(FALSE_ALARM, FEW_RUNS, 1e-3)
    other = osrl.simulate(CLOSE, policy, delta_g=1e-3, delta_h=0.9, runs=20, seed=SEED)
    if policy == "tas":
        same = osrl.simulate(CLOSE, policy, 1e-3, runs=20, seed=SEED)
        assert other.frame["tau"].equals(same.frame["tau"])

"""The guarantee: errors stay below what the risks allow, and a broken threshold is found out.

With fixed seeds, the number of wrong answers over many runs stays below a bound that a policy which
keeps its risk exceeds with probability 1e-6 at most (exact binomial tail).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from osrl.draws import new_key
from osrl.instance import Instance
from osrl.policies import osrl_sc, tas, tas_transfer
from osrl.policies.contract import DECIDED, Outcome, Policy
from osrl.testing import new_state, run_compiled

RUNS, MANY_RUNS = 1000, 10_000
RISK = 0.2
FALSE_ALARM = 1e-6
POLICIES = [osrl_sc.policy, tas.policy, tas_transfer.policy]
INSTANCES = {
    "large gaps": Instance.bernoulli([[[0.9, 0.3], [0.2, 0.1]], [[0.2, 0.8], [0.1, 0.3]]]),
    "three representations": Instance.bernoulli(
        [[[0.95, 0.6], [0.1, 0.2], [0.1, 0.05]], [[0.6, 0.9], [0.1, 0.05], [0.1, 0.2]]]
    ),
    "small gaps": Instance.bernoulli([[[0.6, 0.48], [0.1, 0.05]], [[0.48, 0.6], [0.05, 0.1]]]),
}
TINY_GAPS = Instance.bernoulli([[[0.52, 0.51], [0.5, 0.49]], [[0.51, 0.52], [0.49, 0.5]]])


class Errors(NamedTuple):
    """How many runs were wrong: about the representation, and with the right one about a predictor."""

    representation: NDArray[np.int64]  # (X,)
    predictor: NDArray[np.int64]  # (X,)


def broken(state: Any) -> None:
    """Every threshold is 1."""
    contests = [part for part in (getattr(state, name, None) for name in ("contests", "first")) if part]
    if hasattr(state, "phase2"):
        contests.append(state.phase2.contests)
    for each in contests:
        each.threshold[:] = (1.0, 0.0, 0.0)
    if hasattr(state, "threshold"):
        state.threshold[:] = (1.0, 0.0, 0.0)


def errors_of(
    policy: Policy, instance: Instance, runs: int, change: Callable[[Any], None] = lambda state: None
) -> Errors:
    """Count wrong answers over ``runs`` runs; ``change`` may tamper with the first state of each."""
    columns = policy.columns([(RISK, RISK)])

    def outcome(run: int) -> Outcome:
        key = new_key(11, run)
        state = new_state(policy, instance, columns, key)
        change(state)
        run_compiled(policy, state, instance, key, 10**7)
        assert state.outcome.status[0] == DECIDED
        out: Outcome = state.outcome
        return out

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(outcome, range(runs)))
    right_g = np.array([out.representation[0] == instance.best.representation for out in found])
    right_h = np.array([out.predictor[0] == instance.best.predictors for out in found])
    return Errors((~right_g).sum(axis=0), (right_g & ~right_h).sum(axis=0))


def check(errors: Errors, runs: int) -> None:
    """Both counts, in every task, are what a risk of ``RISK`` allows."""
    allowed = binom.isf(FALSE_ALARM, runs, RISK)
    assert (errors.representation <= allowed).all(), f"wrong representations: {errors.representation}"
    assert (errors.predictor <= allowed).all(), f"wrong predictors: {errors.predictor}"


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_errors_stay_below_the_risk(policy: Policy, name: str) -> None:
    errors = errors_of(policy, INSTANCES[name], RUNS)
    check(errors, RUNS)
    if name == "small gaps" and policy.name == "osrl-sc":
        assert errors.predictor.sum() > 0, "an instance without any error shows nothing"


@pytest.mark.validate
@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_errors_stay_below_the_risk_in_many_runs(policy: Policy, name: str) -> None:
    check(errors_of(policy, INSTANCES[name], MANY_RUNS), MANY_RUNS)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_broken_threshold_is_found_out(policy: Policy) -> None:
    """The same check, of a policy whose thresholds are all 1."""
    with pytest.raises(AssertionError, match="wrong"):
        check(errors_of(policy, TINY_GAPS, RUNS, broken), RUNS)

"""Counts of wrong answers over many runs, and how many a policy that keeps its risk may give."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from osrl.model.instance import Instance
from osrl.model.outcome import DECIDED, EXHAUSTED, Outcome
from osrl.model.rng import new_key
from osrl.policies.builtin import OSRL, OSRL_SC, TAS, TAS_TRANSFER, UNIFORM
from osrl.policies.contract import Policy
from osrl.testing import new_state, run_compiled

RISK = 0.2
SEED = 11
FALSE_ALARM = 1e-6
INSTANCES = {
    "large gaps": Instance.bernoulli([[[0.9, 0.3], [0.2, 0.1]], [[0.2, 0.8], [0.1, 0.3]]]),
    "three representations": Instance.bernoulli(
        [[[0.95, 0.6], [0.1, 0.2], [0.1, 0.05]], [[0.6, 0.9], [0.1, 0.05], [0.1, 0.2]]]
    ),
    "small gaps": Instance.bernoulli([[[0.6, 0.48], [0.1, 0.05]], [[0.48, 0.6], [0.05, 0.1]]]),
}


class Case(NamedTuple):
    """A policy with a threshold that keeps the risk."""

    policy: Policy
    threshold: str

    @property
    def name(self) -> str:
        """Return the name of the policy, with its threshold where it has several."""
        alone = len(self.policy.thresholds) == 1
        return self.policy.name if alone else f"{self.policy.name}, {self.threshold}"


# The threshold `released` is beta_2 alone and carries no guarantee.
CASES = [
    Case(policy, threshold)
    for policy in (OSRL, UNIFORM, OSRL_SC, TAS, TAS_TRANSFER)
    for threshold in policy.thresholds
    if threshold != "released"
]


class Errors(NamedTuple):
    """How many runs were wrong: about the representation, and with the right one about a predictor."""

    representation: NDArray[np.int64]  # (X,)
    predictor: NDArray[np.int64]  # (X,)


def errors_of(
    case: Case,
    instance: Instance,
    runs: int,
    risk: float = RISK,
    change: Callable[[Any], None] = lambda state: None,
) -> Errors:
    """Count wrong answers over ``runs`` runs; ``change`` may tamper with the first state of each.

    The answer that no representation is shared is wrong about the representation.
    """
    criteria = case.policy.criteria([(risk, risk)], [case.threshold])

    def outcome(run: int) -> Outcome:
        key = new_key(SEED, run)
        state = new_state(case.policy, instance, criteria, key)
        change(state)
        run_compiled(state, instance, key, 10**7)
        assert state.outcome.status[0] != EXHAUSTED
        out: Outcome = state.outcome
        return out

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(outcome, range(runs)))
    best = instance.best
    right_g = np.array([(out.representation[0] == best.representation) & (out.status[0] == DECIDED) for out in found])
    right_h = np.array([out.predictor[0] == best.predictors for out in found])
    return Errors((~right_g).sum(axis=0), (right_g & ~right_h).sum(axis=0))


def allowed(runs: int) -> int:
    """Return the count that a policy which keeps its risk exceeds with probability 1e-6 at most (exact tail)."""
    return int(binom.isf(FALSE_ALARM, runs, RISK))


def kept(errors: Errors, most: int) -> bool:
    """Tell whether no count is larger than ``most``."""
    return bool(max(errors.representation.max(), errors.predictor.max()) <= most)


def check(errors: Errors, runs: int) -> None:
    """Check that both counts, in every task, are what a risk of ``RISK`` allows."""
    most = allowed(runs)
    assert (errors.representation <= most).all(), f"wrong representations: {errors.representation}"
    assert (errors.predictor <= most).all(), f"wrong predictors: {errors.predictor}"

"""`osrl-sc-released` gives the published phase-1 row of Table 1 and the proportions of Table 2."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from osrl.model.environment import new_environment
from osrl.model.instance import Instance
from osrl.model.rng import new_key
from osrl.paper.dynamics import play_phase_1
from osrl.policies.builtin import RELEASED
from osrl.policies.steps import design_of
from osrl.testing import new_state
from tests.support.instances import Array

RUNS, PUBLISHED_RUNS = 400, 1120
RISKS = (0.1, 0.05, 0.01)
MEAN, STD = np.array([3578.38, 3651.99, 3829.56]), np.array([646.46, 624.72, 685.44])
PROPORTIONS = [[0.14, 0.05, 0.02, 0.02, 0.12, 0.15], [0.14, 0.05, 0.12, 0.16, 0.02, 0.02]]


@pytest.mark.validate
def test_the_published_numbers_are_reproduced() -> None:
    """Means within 4 standard errors of the difference, proportions also within the last printed digit."""
    paper = Instance.load("paper")
    criteria = RELEASED.criteria([(risk, risk) for risk in RISKS])

    def first_phase(run: int) -> tuple[Array, Array]:
        key = new_key(0, run)
        state = new_state(RELEASED, paper, criteria, key)
        play_phase_1(state, state.outcome, new_environment(paper, key), design_of(state))
        assert (state.outcome.representation == 0).all()
        pulls = state.outcome.pulls[-1]  # until the smallest risk was kept
        return state.outcome.tau_g.astype(float), pulls / pulls.sum()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(first_phase, range(RUNS)))
    tau = np.array([rounds for rounds, _ in found])
    error = np.sqrt(tau.var(axis=0) / RUNS + STD**2 / PUBLISHED_RUNS)
    np.testing.assert_array_less(np.abs(tau.mean(axis=0) - MEAN), 4 * error)
    np.testing.assert_allclose(tau.std(axis=0), STD, rtol=0.2)
    share = np.array([pulls for _, pulls in found])
    off = np.abs(share.mean(axis=0) - PROPORTIONS)
    np.testing.assert_array_less(off, 0.005 + 4 * share.std(axis=0) * np.sqrt(1 / RUNS + 1 / PUBLISHED_RUNS))

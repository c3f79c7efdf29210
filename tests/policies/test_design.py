"""The weights of `osrl`: what they take for granted, and that the shared choice comes first."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

import osrl
from osrl.allocation.program import Program, build_program
from osrl.allocation.residual import enforce_margin
from osrl.allocation.solver import solve
from osrl.hypotheses.refresh import refresh_evidence
from osrl.hypotheses.state import HYP_PULLS, HYP_SUMS, new_hypotheses
from osrl.model.families import Family
from osrl.model.instance import Instance
from osrl.policies.sampling.residual_needs import explore_open_arms, solve_for_needs
from tests.oracle import paper as oracle
from tests.support.instances import Array

TIE = Instance.bernoulli(  # in the last task two predictors are equal; the representation leads by 0.2
    [
        [[0.7, 0.5, 0.4], [0.5, 0.4, 0.3], [0.4, 0.3, 0.5], [0.3, 0.3, 0.3]],
        [[0.4, 0.7, 0.5], [0.5, 0.4, 0.3], [0.4, 0.3, 0.5], [0.3, 0.3, 0.3]],
        [[0.7, 0.7, 0.4], [0.5, 0.4, 0.3], [0.4, 0.3, 0.5], [0.3, 0.3, 0.3]],
    ]
)


def test_a_tie_among_predictors_does_not_delay_the_representation() -> None:
    without = TIE.means.copy()
    without[2, 0, 1] = 0.5
    found, easy = (
        osrl.simulate(instance, "osrl", 0.05, runs=24, seed=0, budget=4000).frame
        for instance in (TIE, Instance.bernoulli(without))
    )
    assert found["correct_g"].all()
    assert found["tau_g"].to_numpy().max() < 4000
    assert np.median(found["tau_g"].to_numpy()) < 1.1 * np.median(easy["tau_g"].to_numpy())


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_arms_that_look_alike_are_taken_to_differ_by_what_could_have_been_missed(noise: float) -> None:
    pulls, sums = np.array([99.0, 24.0, 99.0]), np.array([49.5, 12.0, 19.8])
    means = sums / pulls
    enforce_margin(means, pulls, sums, 0, noise)
    centre = (1 + sums.sum()) / (2 + pulls.sum())
    error = np.sqrt((noise or centre * (1 - centre)) * (1 / 100 + 1 / 25))
    assert means == pytest.approx([0.5, 0.5 - error, 0.2])
    many = 1e8 * pulls
    alike = np.full(3, 0.5)
    enforce_margin(alike, many, many / 2, 1, noise)
    assert alike == pytest.approx([0.49, 0.5, 0.49])


def most_granted(program: Program, q: Array) -> float:
    """The objective of an allocation (X, n) by rank, from its definition: all tests are met at this z."""
    X, n = program.mu.shape
    value = np.array([costs(program.mu[x], q[x]) for x in range(X)])

    def surplus(z: float) -> float:
        left = [-z * need for need in program.need]
        for x in range(X):
            for j in range(len(left)):
                of_cell = program.cell[x] == j
                left[j] += (value[x] - z * program.need_h[x])[of_cell].min()
        tests = (program.cell < 0) & program.piece
        two_arms = [pair_cost(program.mu[x], q[x], r) - z * program.need_h[x, r] for x, r in np.argwhere(tests)]
        return float(min([*left, *two_arms]))

    return float(brentq(surplus, 0.0, 10.0, xtol=1e-14))


def pair_cost(mu: Array, q: Array, r: int) -> float:
    """The two-arm cost f of the r-th arm against the leader."""
    return oracle.two_arm_cost(q[0], mu[0], q[r], mu[r])


def costs(mu: Array, q: Array) -> Array:
    """The cost ell of each arm."""
    shape = (1, mu.size, 1)
    return np.array([oracle.ell(q.reshape(shape), mu.reshape(shape), 0, b, 0) for b in range(mu.size)])


@pytest.mark.parametrize("seed", range(6))
def test_programs_with_head_starts_are_solved_up_to_their_certificate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, G, H = int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    mu, leader = rng.uniform(0.1, 0.6, (X, G * H)), rng.integers(H, size=X)
    need_g, need_h = np.append(0.0, rng.uniform(0.7, 3.3, G - 1)), np.zeros((X, G * H))
    need_h[:, :H] = rng.uniform(0.7, 3.3, (X, H))
    for x in range(X):
        mu[x, leader[x]], need_h[x, leader[x]] = 0.7, 0.0
        for g in range(1, G):
            ahead = rng.exponential(1.0, H)
            need_h[x, g * H : (g + 1) * H] = -np.minimum(ahead - ahead.min(), need_g[g])
    one_group = np.zeros(X, np.int64)
    even = np.full((X, G * H), 1 / (X * G * H))
    program = build_program(mu, leader, need_g, need_h, False, np.ones((X, G * H)), one_group, np.ones(1), 0.0, 0.0)
    found = solve(program, even, 1e-6)
    assert found.lower <= found.upper <= found.lower * (1 + 1e-6)
    assert most_granted(program, found.q) == pytest.approx(found.lower, rel=1e-6)
    for _ in range(20):
        other = found.q * np.exp(0.2 * rng.normal(size=even.shape))
        assert most_granted(program, other / other.sum()) <= found.upper * (1 + 1e-9)
    without = build_program(
        mu,
        leader,
        need_g,
        np.maximum(need_h, 0.0),
        False,
        np.ones((X, G * H)),
        one_group,
        np.ones(1),
        0.0,
        0.0,
    )
    assert solve(without, even, 1e-6).lower <= found.upper  # a head start is never a loss


@pytest.mark.slow
def test_a_predictor_that_was_ruled_out_still_speaks_for_its_representation() -> None:
    """It is the best arm of all: without it, its representation would have to win by arms that trail."""
    means = np.array([[0.33, 0.66, 0.6, 0.72, 0.65, 0.43, 0.2, 0.63, 0.51]])
    hypotheses = new_hypotheses((1, 3, 3), Family("bernoulli"), (0.1, 0.1))
    hypotheses.arms[HYP_PULLS] = 500.0
    hypotheses.arms[HYP_SUMS] = 500.0 * means
    hypotheses.possible_h[0, 3] = False
    refresh_evidence(hypotheses)
    weights = np.full((1, 9), 1 / 9)
    solve_for_needs(hypotheses, weights)
    assert weights[0, 3] > 0.2


def test_a_representation_that_was_ruled_out_still_speaks_against_the_others() -> None:
    means = np.array([[0.33, 0.66, 0.6, 0.8, 0.65, 0.43, 0.2, 0.63, 0.51]])
    hypotheses = new_hypotheses((1, 3, 3), Family("bernoulli"), (0.1, 0.1))
    hypotheses.arms[HYP_PULLS] = 200.0
    hypotheses.arms[HYP_SUMS] = 200.0 * means
    weights = []
    for possible in (False, True):
        hypotheses.possible_g[1] = possible
        refresh_evidence(hypotheses)
        weights.append(np.full((1, 9), 1 / 9))
        solve_for_needs(hypotheses, weights[-1])
    assert weights[0][0, 3] > 0.2
    assert weights[1][0, 3] > 0.2


@pytest.mark.nojit
def test_arms_that_cannot_be_best_any_more_are_not_explored() -> None:
    hypotheses = new_hypotheses((2, 2, 3), Family("bernoulli"), (0.1, 0.1))
    hypotheses.arms[HYP_PULLS] = 1.0
    hypotheses.possible_h[0, 2] = False
    hypotheses.struck[1, 3:6] = True  # all vectors of the other representation with predictor 1 in task 0
    weights, nothing = np.empty((2, 6)), np.zeros((2, 6))
    explore_open_arms(hypotheses, nothing, 0.5, weights)
    assert weights == pytest.approx(np.array([[1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1]]) / 10)

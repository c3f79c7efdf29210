"""The paper's own method: its certificate, against the interior point, and against the released code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from osrl.allocation import Needs, allocate, program_for
from osrl.allocation.certificate import measure, new_pieces, objective, price_groups
from osrl.allocation.program import Program, scale_to_budget
from osrl.glr.statistic import rho
from osrl.model.instance import Instance
from osrl.paper.mirror_ascent import (
    Ascent,
    ReleasedState,
    differentiate,
    new_gradient,
    new_released_state,
    paper_ascent,
    paper_rates,
    released_solve,
    restart,
    uniform_point,
)
from tests.oracle import paper as oracle
from tests.support.instances import random_instance

pytestmark = pytest.mark.slow

PAPER = Instance.load("paper")
PHASES = {"phase 1": (1.0, 0.0), "phase 2": (0.0, 1.0), "joint": (1.0, 2.0)}


def reached(program: Program, q: oracle.Array) -> float:
    """Return the objective of an allocation by rank."""
    pieces = new_pieces(*q.shape)
    measure(program, q, pieces)
    return float(objective(program, q, pieces))


def ascent(program: Program, steps: int, faster: float = 1.0) -> Ascent:
    """Run the paper's method from the uniform point, with ``faster`` times its steps."""
    rates = paper_rates(program)
    rates = rates._replace(q=faster * rates.q, dual=faster * rates.dual)
    return paper_ascent(program, uniform_point(program), rates, 1e-6, steps, 10)


PROGRAMS: dict[str, tuple[Instance, dict[str, Any]]] = {
    "plain": (random_instance(1, (2, 3, 2)), {}),
    "gaussian": (random_instance(2, (3, 2, 2), 0.5), {}),
    "one predictor": (random_instance(3, (2, 4, 1)), {}),
    "costs": (random_instance(4, (2, 3, 3)), {"costs": 0.5 + np.arange(18.0).reshape(2, 3, 3) / 12.0}),
    "frequencies": (random_instance(5, (2, 3, 2)), {"frequencies": [0.3, 0.7]}),
    "sigma": (random_instance(6, (2, 3, 2)), {"sigma": 20.0}),
}


# The certificate ----------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("kind", PROGRAMS)
def test_interval_agrees_with_the_interior_point(phase: str, kind: str) -> None:
    instance, options = PROGRAMS[kind]
    needs = Needs.of(instance, *PHASES[phase])
    program = program_for(instance, needs, **options)
    if not program.piece.any():
        return  # one predictor: phase 2 has nothing to find
    exact = allocate(instance, needs, **options)
    early, late = (ascent(program, steps, faster=20.0) for steps in (20, 5000))
    slack = 1e-12 * abs(exact.upper)
    for found in (early, late):
        assert found.lower <= exact.upper + slack and exact.lower <= found.upper + slack
    assert late.upper - late.lower < early.upper - early.lower


@pytest.mark.nojit
@pytest.mark.parametrize("phase", PHASES)
def test_bounds_are_proved_by_what_is_returned(phase: str) -> None:
    program = program_for(PAPER, Needs.of(PAPER, *PHASES[phase]), sigma=100.0)
    found = ascent(program, 60)
    assert found.q.sum() == pytest.approx(1.0) and (found.q >= 0.0).all()
    assert reached(program, found.q) == found.lower
    assert price_groups(program, found.cut) == found.upper
    rng = np.random.default_rng(7)
    for q in rng.dirichlet(np.full(12, 0.4), size=50).reshape(-1, 2, 6):
        q = (q + 1e-9) / (1.0 + 12e-9)
        assert reached(program, q) <= (found.cut * q).sum() - (q * q).sum() / 200.0 + 1e-12


def test_gap_shrinks_with_steps() -> None:
    program = program_for(PAPER, Needs.of(PAPER, 1.0, 0.0))
    runs = [ascent(program, steps) for steps in (100, 1000, 10_000)]
    gaps = [run.upper / run.lower - 1.0 for run in runs]
    assert gaps[0] > 3.0 * gaps[1] > 9.0 * gaps[2] > 0.0
    assert [run.steps for run in runs] == [100, 1000, 10_000]
    assert all(run.lower <= 0.0391558465 and run.upper >= 0.0391558460 for run in runs)


def test_stops_at_the_certified_gap() -> None:
    found = ascent(program_for(PAPER, Needs.of(PAPER, 1.0, 0.0)), 20_000, faster=8.0)
    assert found.steps < 20_000 and found.upper - found.lower <= 1e-6 * found.lower
    assert found.lower == pytest.approx(0.0391558, abs=1e-7)


@pytest.mark.parametrize("phase", PHASES)
def test_cut_is_the_gradient_of_the_lagrangian(phase: str) -> None:
    instance = random_instance(8, (2, 3, 2))
    program = program_for(instance, Needs.of(instance, *PHASES[phase]))
    rng = np.random.default_rng(8)
    at = uniform_point(program)
    at.q[:] = rng.dirichlet(np.full(12, 2.0)).reshape(2, 6)
    at.share[:] *= rng.uniform(0.5, 2.0, (2, 6))
    gradient, other = new_gradient(program), new_gradient(program)
    value = differentiate(program, at, gradient)
    assert value == pytest.approx(float((gradient.cut * at.q).sum()), rel=1e-12), "homogeneous in q"
    for index in np.ndindex(2, 6):
        there = at.q[index]
        at.q[index] = there * (1.0 + 1e-6)
        up = differentiate(program, at, other)
        at.q[index] = there * (1.0 - 1e-6)
        down = differentiate(program, at, other)
        at.q[index] = there
        slope = (up - down) / (2e-6 * there)
        assert gradient.cut[index] == pytest.approx(slope, rel=1e-4, abs=1e-8)


@pytest.mark.nojit
def test_restart_mixes_with_the_uniform_point() -> None:
    program = program_for(PAPER, Needs.of(PAPER, 1.0, 2.0), frequencies=[0.25, 0.75])
    at = uniform_point(program)
    np.testing.assert_allclose(at.q.sum(axis=1), [0.25, 0.75])
    np.testing.assert_allclose(at.test_dual, 1 / 4)
    np.testing.assert_allclose(at.share[program.need_h > 0.0], 1 / 8)
    np.testing.assert_allclose(at.share[program.cell >= 0], 1 / 2)
    uniform = at.q.copy()
    at.q[:] = np.random.default_rng(9).uniform(size=(2, 6))
    scale_to_budget(program, at.q)
    old = at.q.copy()
    restart(program, at, 0.75)
    np.testing.assert_allclose(at.q, 0.75 * old + 0.25 * uniform)


def test_rates_of_the_paper() -> None:
    largest = max(oracle.kl(a, b) for a in oracle.PAPER.flat for b in oracle.PAPER.flat)
    rates = paper_rates(program_for(PAPER, Needs.of(PAPER, 1.0, 0.0)))
    assert rates == pytest.approx((1.0 / largest, 1.0 / largest, -6.0, 6.0))
    scaled = paper_rates(program_for(PAPER, Needs.of(PAPER, 0.5, 0.0), costs=np.full((2, 3, 2), 4.0)))
    assert scaled.q == pytest.approx(2.0 / largest)


# The released code --------------------------------------------------------------------------------


def literal_solve(means: oracle.Array, gstar: int, state: ReleasedState) -> tuple[float, int]:
    """Compute what the released code does, in plain loops; ``state`` as `released_solve` keeps it."""
    X, G, H = means.shape
    rivals = [g for g in range(G) if g != gstar]
    q = 0.5 * state.q.reshape(means.shape) + 0.5 / means.size
    lam = 0.5 * state.lam + 0.5 / (G - 1)
    theta = 0.5 * state.theta + 0.5 / H
    rate, before = float(state.rate[0]), 0.0
    for k in range(1, 2001):
        dq, dlam, dtheta = np.zeros(means.shape), np.zeros(G - 1), np.zeros(theta.shape)
        for i, x, h in np.ndindex(G - 1, X, H):
            pool = oracle.confusing_arms(q, means, x, (rivals[i], h))
            m = oracle.pooled_mean(q, means, x, pool)
            cost = math.fsum(q[x][arm] * oracle.kl(means[x][arm], m) for arm in pool)
            dlam[i] += theta[x, i, h] * cost
            dtheta[x, i, h] = lam[i] * cost
            for arm in pool:
                dq[x][arm] += lam[i] * theta[x, i, h] * oracle.kl(means[x][arm], m)
        value = float(lam @ dlam)
        if k > 2 and abs(value - before) <= 1e-8 + 1e-5 * abs(before):
            break
        before = value
        theta = theta * np.exp(-rate / 7 * math.sqrt(2 * math.log(H) / k) * dtheta)
        theta /= theta.sum(axis=2, keepdims=True)
        lam = lam * np.exp(-rate / 7 * math.sqrt(2 * math.log(G) / k) * dlam)
        lam /= lam.sum()
        q = q * np.exp(rate * math.sqrt(2 * math.log(means.size) / k) * np.minimum(dq, 6.0))
        q /= q.sum()
    state.q[:], state.lam[:], state.theta[:] = q.reshape(state.q.shape), lam, theta
    state.rate[0] = max(5.0, 1.0 / oracle.kl(means.max(), means.min()))
    return value, k


@pytest.mark.nojit
def test_one_released_solve_gives_the_allocation_of_table_2() -> None:
    state = new_released_state(2, 3, 2)
    value, steps = released_solve(state, oracle.PAPER.reshape(2, 6).copy(), 0, 0.0)
    printed = ["2e-01", "5e-03", "6e-04", "7e-04", "1e-01", "2e-01"]
    assert [f"{weight:.0e}" for weight in state.q[0]] == printed
    np.testing.assert_allclose(state.q[0, [0, 4, 5]], [0.18, 0.13, 0.18], atol=0.005)
    np.testing.assert_allclose(state.q[1], state.q[0, [0, 1, 4, 5, 2, 3]])
    assert steps == 91 and value == pytest.approx(0.0403637, abs=1e-7)
    assert rho(PAPER, state.q.reshape(2, 3, 2)).value == pytest.approx(0.0301472, abs=1e-7)


@pytest.mark.parametrize("shape", [(2, 3, 2), (1, 2, 3), (3, 4, 1)])
def test_released_solves_follow_the_literal_loop(shape: tuple[int, int, int]) -> None:
    """Also when the leader changes (lambda and theta keep their places) and when means are close."""
    X, G, H = shape
    rng = np.random.default_rng(10)
    state, literal = new_released_state(*shape), new_released_state(*shape)
    for leader, width in ((0, 0.6), (1, 0.2), (1, 0.2)):
        means = 0.2 + width * rng.uniform(0.0, 0.8, shape)
        means[np.arange(X), leader, rng.integers(0, H, X)] = 0.2 + width
        value, steps = released_solve(state, means.reshape(X, G * H).copy(), leader, 0.0)
        expected, expected_steps = literal_solve(means, leader, literal)
        assert steps == expected_steps and value == pytest.approx(expected, rel=1e-9)
        for ours, theirs in zip(state, literal, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-7)
    assert state.rate[0] > 5.0


def test_repeated_solves_settle_below_the_optimum() -> None:
    state = new_released_state(2, 3, 2)
    values = [released_solve(state, oracle.PAPER.reshape(2, 6).copy(), 0, 0.0)[0] for _ in range(30)]
    assert values[-1] == pytest.approx(values[-2], rel=1e-9)
    assert rho(PAPER, state.q.reshape(2, 3, 2)).value == pytest.approx(0.0316818, abs=1e-6)


def test_released_solve_survives_hard_estimates() -> None:
    """Estimates of 0 and 1, and estimates that nearly agree, which make the rate very large."""
    state = new_released_state(2, 2, 2)
    for means in ([1.0, 0.0, 0.0, 0.5], [0.5 + 1e-7, 0.5, 0.5, 0.5 - 1e-7]):
        for _ in range(3):
            released_solve(state, np.array([means, means]), 0, 0.0)
            assert np.isfinite(state.q).all() and state.q.sum() == pytest.approx(1.0)
    alone = new_released_state(2, 1, 3)
    assert released_solve(alone, np.array([[0.5, 0.4, 0.3], [0.1, 0.2, 0.3]]), 0, 0.0) == (math.inf, 0)
    np.testing.assert_allclose(alone.q, 1 / 6)

"""Thresholds against the oracle, their monotonicity, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osrl.errors import OsrlError
from osrl.evidence.counts import samples_of
from osrl.policies.stopping.thresholds import (
    GaussianTrackAndStop,
    Released,
    Terms,
    Theorem,
    Threshold,
    TrackAndStop,
    exploration_cost,
    exploration_term,
    p_inverse,
    phi,
    threshold,
    threshold_value,
)
from tests.oracle import paper as oracle

pytestmark = pytest.mark.nojit

PAPER = (2, 3, 2)
shapes = st.tuples(st.integers(1, 5), st.integers(2, 6), st.integers(1, 5))
risks = st.floats(1e-12, 0.999)
counts = st.lists(st.integers(0, 10**6), min_size=1, max_size=30)


@given(st.floats(1.0, 1e3))
def test_p_inverse_inverts_p(y: float) -> None:
    u = p_inverse(y)
    assert u >= 1.0
    assert u - math.log(u) == pytest.approx(y, rel=1e-14)
    assert u == pytest.approx(oracle.p_inverse(y), rel=1e-7)


@given(st.floats(1e-6, 50.0))
def test_phi_is_the_printed_one(x: float) -> None:
    assert phi(x) == pytest.approx(oracle.phi(x), rel=1e-12)


def test_phi_falls_only_where_the_printed_switch_is() -> None:
    grid = np.linspace(1e-3, 8.0, 4001)
    values = np.array([phi(x) for x in grid])
    falls = np.flatnonzero(np.diff(values) <= 0.0)
    assert [round(grid[i], 2) for i in falls] == [3.55]


@given(shapes, risks, counts)
def test_values_equal_the_oracle(shape: tuple[int, int, int], delta: float, pulls: list[int]) -> None:
    n = np.array(pulls, dtype=float)
    beta_2 = oracle.beta_2(shape, delta)
    assert Released(shape, delta).value(n) == pytest.approx(beta_2, rel=1e-12)
    assert Theorem(shape, delta).value(n) == pytest.approx(oracle.beta_1(n) + beta_2, rel=1e-12)


@given(st.integers(2, 100), risks, st.integers(1, 10**6))
def test_track_and_stop_equals_the_oracle(arms: int, delta: float, t: int) -> None:
    expected = oracle.track_and_stop_threshold(t, arms, delta)
    assert TrackAndStop(arms, delta).value([t, 0]) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    gaussian = oracle.track_and_stop_threshold(t, arms, delta, 1.0)
    assert GaussianTrackAndStop(arms, delta).value([t, 0]) == pytest.approx(gaussian, rel=1e-12, abs=1e-12)


@given(st.floats(1, 1e5), st.floats(0, 1))
def test_the_mixture_of_coins_costs_what_the_threshold_pays(pulls: float, share: float) -> None:
    """-log(mixture / likelihood) <= ln(2 sqrt(N)), for sums that are no whole numbers too."""
    samples = samples_of(np.array([pulls]), np.array([pulls * share]), np.zeros(1), np.zeros(1), np.zeros(1), 0.0)
    assert -samples.excess[0] <= math.log(2.0) + 0.5 * math.log(pulls) + 1e-9


@given(st.integers(1, 10**6), st.integers(1, 10**6), risks)
def test_the_gaussian_threshold_pays_for_its_mixture(one: int, other: int, delta: float) -> None:
    """What two arms may deviate at most, by the normal mixture with c = 1/12, is below it."""
    mixture = 0.5 * (math.log1p(12 * one) + math.log1p(12 * other))
    most = 13 / 12 * (math.log(1 / delta) + mixture)
    assert GaussianTrackAndStop(2, delta).value([one, other]) >= most - 1e-9


@pytest.mark.parametrize(("delta", "constant"), [(0.1, 87.808400), (0.05, 89.953122), (0.01, 94.512725)])
def test_paper_instance(delta: float, constant: float) -> None:
    assert Theorem(PAPER, delta).terms.constant == pytest.approx(constant, abs=5e-7)
    assert oracle.beta_2(PAPER, delta) == pytest.approx(constant, abs=5e-7)


@given(counts)
def test_exploration_can_be_kept_up_to_date_arm_by_arm(pulls: list[int]) -> None:
    n = np.array(pulls, dtype=float)
    assert exploration_term(n) == pytest.approx(sum(exploration_cost(float(k)) for k in pulls), rel=1e-12)
    assert exploration_term(n.reshape(1, -1, 1)) == exploration_term(n)


def test_arms_that_were_hardly_sampled_add_nothing() -> None:
    assert exploration_cost(0.0) == exploration_cost(0.5) == exploration_cost(1.0) == 0.0
    assert exploration_cost(2.0) == pytest.approx(3.0 * math.log(1.0 + math.log(2.0)))
    assert threshold_value(Terms(1.0, 0.0, 1.0), 0.0, 0.0) == 1.0


@pytest.mark.parametrize("make", [Theorem, Released])
@given(delta=risks, pulls=st.lists(st.integers(0, 10**6), min_size=12, max_size=12), arm=st.integers(0, 11))
def test_monotone_in_samples_and_in_the_risk(
    make: type[Theorem] | type[Released], delta: float, pulls: list[int], arm: int
) -> None:
    n = np.array(pulls, dtype=float)
    more = n + (np.arange(12) == arm)
    assert make(PAPER, delta).value(more) >= make(PAPER, delta).value(n)
    assert make(PAPER, 0.9 * delta).value(n) > make(PAPER, delta).value(n)


@given(delta=risks, t=st.integers(0, 10**6))
def test_track_and_stop_is_monotone(delta: float, t: int) -> None:
    assert TrackAndStop(3, delta).value([t + 1]) >= TrackAndStop(3, delta).value([t])
    assert TrackAndStop(3, 0.9 * delta).value([t]) > TrackAndStop(3, delta).value([t])


@pytest.mark.parametrize("nothing", [Theorem((2, 1, 3), 0.1), Released((2, 1, 3), 0.1), TrackAndStop(1, 0.1)])
def test_nothing_to_test_needs_no_evidence(nothing: Threshold) -> None:
    assert nothing.value([0.0]) == nothing.value([5.0, 7.0]) == -math.inf


def test_look_up_by_name() -> None:
    assert threshold("theorem", PAPER, 0.1) == Theorem(PAPER, 0.1)
    assert threshold("released", PAPER, 0.1) == Released(PAPER, 0.1)
    with pytest.raises(OsrlError, match="'sharpest'; use one of theorem, released"):
        threshold("sharpest", PAPER, 0.1)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_refuses_a_risk_outside_the_unit_interval(delta: float) -> None:
    for make in (
        lambda: Theorem(PAPER, delta),
        lambda: Released(PAPER, delta),
        lambda: TrackAndStop(2, delta),
    ):
        with pytest.raises(OsrlError, match="strictly between 0 and 1"):
            make()


def test_refuses_empty_dimensions() -> None:
    with pytest.raises(OsrlError, match="2 x 0 x 3 arms"):
        Theorem((2, 0, 3), 0.1)
    with pytest.raises(OsrlError, match="at least 1"):
        TrackAndStop(0, 0.1)

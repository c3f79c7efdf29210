"""Reward families: divergences against the oracle and against forty exact digits, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from osrl.model.families import FAMILIES, Family, divergence, tilt, variance
from tests.oracle import paper as oracle
from tests.support.instances import refused

pytestmark = pytest.mark.nojit

inside = st.floats(1e-12, 1 - 1e-12)
unit = st.sampled_from([0.0, 1.0, 0.5]) | inside
real = st.floats(-1e3, 1e3)
noises = st.floats(1e-3, 1e3)


def exact_kl(a: float, b: float) -> float:
    """Return the divergence of two coins, computed with 40 digits; both means strictly inside (0, 1)."""
    with localcontext(prec=40):
        p, q = Decimal(a), Decimal(b)
        return float(p * (p / q).ln() + (1 - p) * ((1 - p) / (1 - q)).ln())


@given(unit, unit)
@example(0.0, 1.0)
@example(1.0, 0.0)
@example(1.0, 1.0)
def test_coins_equal_the_oracle(a: float, b: float) -> None:
    assert divergence(a, b, 0.0) == pytest.approx(oracle.kl(a, b), rel=1e-9, abs=1e-15)


@given(real, real, noises)
def test_gaussian_divergence_equals_the_oracle(a: float, b: float, noise: float) -> None:
    assert divergence(a, b, noise) == pytest.approx(oracle.kl(a, b, noise), rel=1e-14)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(-12, 0), st.sampled_from([-1, 1]))
def test_close_means_keep_their_digits(a: float, digits: float, sign: int) -> None:
    b = a + sign * 0.999 * 10**digits * (1 - a if sign > 0 else a)
    assert divergence(a, b, 0.0) == pytest.approx(exact_kl(a, b) if a != b else 0.0, rel=1e-11)


@given(unit, unit)
def test_divergence_is_zero_only_between_equal_means(a: float, b: float) -> None:
    assert (divergence(a, b, 0.0) == 0.0) == (a == b)
    assert divergence(a, b, 0.0) >= 0.0


@given(inside, inside, inside)
def test_tilt_of_coins_closes_the_triangle(a: float, b: float, c: float) -> None:
    """kl(a, c) = kl(a, b) + kl(b, c) + (a - b) tilt(b, c), in every exponential family."""
    whole = divergence(a, b, 0.0) + divergence(b, c, 0.0) + (a - b) * tilt(b, c, 0.0)
    assert whole == pytest.approx(divergence(a, c, 0.0), rel=1e-9, abs=1e-12)
    assert tilt(b, c, 0.0) == pytest.approx(math.log(b / (1 - b)) - math.log(c / (1 - c)), rel=1e-9, abs=1e-10)


@given(real, real, real, noises)
def test_tilt_of_gaussians_closes_the_triangle(a: float, b: float, c: float, noise: float) -> None:
    whole = divergence(a, b, noise) + divergence(b, c, noise) + (a - b) * tilt(b, c, noise)
    assert whole == pytest.approx(divergence(a, c, noise), rel=1e-9, abs=1e-6 / noise)


@given(st.floats(0.01, 0.99))
def test_variance_is_the_curvature_of_the_divergence(mean: float) -> None:
    step = 1e-5
    curvature = (exact_kl(mean, mean + step) + exact_kl(mean, mean - step)) / step**2
    assert variance(mean, 0.0) == pytest.approx(1 / curvature, rel=1e-5)
    assert variance(mean, 0.0) == pytest.approx(mean * (1 - mean), rel=1e-15)
    assert variance(mean, 0.25) == 0.25


def test_a_family_is_one_number_for_kernels() -> None:
    assert Family("bernoulli").noise == Family("bounded").noise == 0.0
    assert Family("gaussian", 0.5).noise == 0.25
    assert FAMILIES == ("bernoulli", "gaussian", "bounded")


def test_means_that_a_family_accepts() -> None:
    means = np.array([-0.1, 0.0, 0.5, 1.0, 1.1, math.inf, math.nan])
    coins = [False, True, True, True, False, False, False]
    assert Family("bernoulli").accepts_means(means).tolist() == coins
    assert Family("bounded").accepts_means(means).tolist() == coins
    assert Family("gaussian", 1.0).accepts_means(means).tolist() == [True] * 5 + [False] * 2
    assert Family("gaussian", 1.0).mean_range == "finite numbers"
    assert Family("bounded").mean_range == "numbers in [0, 1]"


def test_refuses_what_is_no_family() -> None:
    with refused("unknown family 'poisson'; use one of bernoulli, gaussian, bounded"):
        Family("poisson")
    with refused("noise_sd belongs to the gaussian family; remove it for 'bounded'"):
        Family("bounded", 1.0)
    for noise_sd in (0.0, -1.0, math.inf, math.nan):
        with refused(f"noise_sd is {noise_sd}; give a positive number"):
            Family("gaussian", noise_sd)

"""Needs, tolerances and weights that make no sense are refused before any kernel sees them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from osrl import Instance, Needs, OsrlError, allocate, rho

PAPER = Instance.load("paper")
GOOD = Needs.of(PAPER, 1.0, 1.0)


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        (GOOD._replace(representations=np.ones(2)), "shapes"),
        (GOOD._replace(predictors=np.ones((3, 2))), "shapes"),
        (GOOD._replace(representations=np.array([0.0, np.nan, 1.0])), "finite"),
        (GOOD._replace(representations=np.array([0.0, -1.0, 1.0])), ">= 0"),
        (GOOD._replace(predictors=np.array([[0.0, np.inf], [0.0, 1.0]])), "finite"),
        (GOOD._replace(representations=np.ones(3)), "best arms"),
        (GOOD._replace(predictors=np.ones((2, 2))), "best arms"),
        (GOOD._replace(representations="many"), "numbers"),  # type: ignore[arg-type]
    ],
)
def test_needs_are_checked(needs: Needs, message: str) -> None:
    with pytest.raises(OsrlError, match=message):
        allocate(PAPER, needs)


def test_needs_may_be_lists() -> None:
    as_lists = Needs(GOOD.representations.tolist(), GOOD.predictors.tolist())
    assert allocate(PAPER, as_lists).lower == allocate(PAPER, GOOD).lower


@pytest.mark.parametrize("tolerance", [float("nan"), 0.0, -1.0, 1.0])
def test_the_tolerance_is_checked(tolerance: float) -> None:
    with pytest.raises(OsrlError, match="tolerance"):
        allocate(PAPER, GOOD, tolerance=tolerance)


@pytest.mark.parametrize(
    "weights", [np.ones((1, 1, 1)), np.ones((2, 6)), -np.ones((2, 3, 2)), np.full((2, 3, 2), np.nan)]
)
def test_rho_checks_its_weights(weights: NDArray[np.float64]) -> None:
    with pytest.raises(OsrlError, match="weights"):
        rho(PAPER, weights)

"""The weights of `osrl`: what they take for granted, and that the shared choice comes first."""

from __future__ import annotations

import numpy as np
import pytest

import osrl
from osrl.allocation.needs import separate
from osrl.instance import Instance

TIE = Instance.bernoulli(  # in the last task two predictors are equal; the representation leads by 0.2
    [
        [[0.7, 0.5, 0.4], [0.5, 0.4, 0.3], [0.4, 0.3, 0.5], [0.3, 0.3, 0.3]],
        [[0.4, 0.7, 0.5], [0.5, 0.4, 0.3], [0.4, 0.3, 0.5], [0.3, 0.3, 0.3]],
        [[0.7, 0.7, 0.4], [0.5, 0.4, 0.3], [0.4, 0.3, 0.5], [0.3, 0.3, 0.3]],
    ]
)


def test_a_tie_among_predictors_does_not_delay_the_representation() -> None:
    found = osrl.simulate(TIE, "osrl", 0.05, runs=12, seed=0, budget=4000).frame
    assert found["correct_g"].all()
    assert found["tau_g"].to_numpy().max() < 4000
    assert np.median(found["tau_g"].to_numpy()) < 1500


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_arms_that_look_alike_are_taken_to_differ_by_what_could_have_been_missed(noise: float) -> None:
    pulls, sums = np.array([99.0, 24.0, 99.0]), np.array([49.5, 12.0, 19.8])
    means = sums / pulls
    separate(means, pulls, sums, 0, noise)
    centre = (1 + sums.sum()) / (2 + pulls.sum())
    error = np.sqrt((noise or centre * (1 - centre)) * (1 / 100 + 1 / 25))
    assert means == pytest.approx([0.5, 0.5 - error, 0.2])
    many = 1e8 * pulls
    alike = np.full(3, 0.5)
    separate(alike, many, many / 2, 1, noise)
    assert alike == pytest.approx([0.49, 0.5, 0.49])

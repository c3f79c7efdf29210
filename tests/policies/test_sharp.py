"""Threshold `sharp` of `osrl-sc`, and Gaussian rewards: evidence from counts inside policies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import osrl
from osrl.model.instance import Instance
from tests.support.simulations import EASY

pytestmark = pytest.mark.slow

PAPER = Instance.load("paper")
GAUSSIAN = Instance.gaussian(
    [[[3.0, 2.0], [1.5, 1.0]], [[1.0, 2.5], [1.0, 1.5]], [[0.0, 1.0], [-1.0, 0.2]]], noise_sd=1.5
)


def mean_samples(instance: Instance, threshold: str, runs: int = 60, **options: object) -> tuple[float, float]:
    """Mean samples, and those of phase 1."""
    found = osrl.simulate(instance, "osrl-sc", 0.1, runs, threshold=threshold, options=options).summary()
    return float(found["mean"][0]), float(found["tau_g_mean"][0])


def test_sharp_needs_a_fraction_of_the_samples_and_reuse_saves_more() -> None:
    theorem, theorem_g = mean_samples(PAPER, "theorem")
    sharp, sharp_g = mean_samples(PAPER, "sharp")
    assert sharp < theorem / 3
    assert sharp_g < theorem_g / 6
    assert mean_samples(EASY, "sharp", reuse=True)[0] < mean_samples(EASY, "sharp")[0]


@pytest.mark.parametrize("reuse", [False, True])
def test_a_risk_is_read_off_the_same_run(reuse: bool) -> None:
    options = {"reuse": reuse}
    together = osrl.simulate(PAPER, "osrl-sc", [0.2, 0.05], 4, threshold="sharp", options=options).frame
    alone = osrl.simulate(PAPER, "osrl-sc", 0.05, 4, threshold="sharp", options=options).frame
    assert together.filter(delta_g=0.05)["tau"].to_list() == alone["tau"].to_list()
    tau_g = together["tau_g"].to_numpy().reshape(2, 4)
    assert (tau_g[0] <= tau_g[1]).all()


@pytest.mark.parametrize(
    ("policy", "threshold"),
    [("osrl", None), ("osrl-sc", "sharp"), pytest.param("uniform", None, marks=pytest.mark.validate)],
)
def test_gaussian_rewards_keep_the_risk(policy: str, threshold: str | None) -> None:
    runs, risk = 200, 0.2
    found = osrl.simulate(GAUSSIAN, policy, risk, runs, threshold=threshold).frame
    right_h = np.array(found["correct_h"].to_list())
    right_g = found["correct_g"].to_numpy()
    most = binom.isf(1e-6, runs, risk)
    assert (~right_g).sum() <= most
    assert (~right_h & right_g[:, None]).sum(axis=0).max() <= most
    assert (found["verdict"] == "decided").sum() > 0.8 * runs


def test_gaussian_rewards_may_be_moved_and_scaled() -> None:
    """Another unit and another zero: the same runs."""
    means = GAUSSIAN.means
    moved = Instance.gaussian(means * 100 - 7000, noise_sd=150.0)
    for threshold in ("sharp", "theorem"):
        one, other = (
            osrl.simulate(each, "osrl-sc", 0.1, 3, threshold=threshold).frame["tau"].to_list()
            for each in (GAUSSIAN, moved)
        )
        assert one == pytest.approx(other, rel=0.05)

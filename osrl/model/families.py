"""Reward families: which means and rewards are possible, and how far apart two means are.

A family is a one-parameter exponential family, or is treated as one:

- ``bernoulli``: rewards 0 and 1, divergence kl(a, b) of two coins;
- ``gaussian``: normal rewards with a known ``noise_sd``, divergence (a - b)^2 / (2 noise_sd^2);
- ``bounded``: any rewards in [0, 1], measured with the Bernoulli divergence. Among all rewards
  in [0, 1] with a given mean the coin varies most, so this is the worst case.

Kernels see a family as one number, ``noise``: the variance of Gaussian rewards, or 0.0 for the
Bernoulli divergence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from osrl.errors import OsrlError
from osrl.jit import kernel

FAMILIES = ("bernoulli", "gaussian", "bounded")
MAX_MAGNITUDE = 1e100  # of a Gaussian reward or its standard deviation: squares stay finite


@dataclass(frozen=True)
class Family:
    """A reward family; ``noise_sd`` is the known standard deviation of Gaussian rewards."""

    name: str
    noise_sd: float | None = None

    def __post_init__(self) -> None:
        if self.name not in FAMILIES:
            raise OsrlError(f"unknown family {self.name!r}; use one of {', '.join(FAMILIES)}")
        if self.name != "gaussian":
            if self.noise_sd is not None:
                raise OsrlError(f"noise_sd belongs to the gaussian family; remove it for {self.name!r}")
        elif self.noise_sd is None:
            raise OsrlError("the gaussian family needs noise_sd, the known standard deviation of a reward")
        elif not (1e-100 < self.noise_sd < MAX_MAGNITUDE):
            raise OsrlError(f"noise_sd is {self.noise_sd}; give a positive number between 1e-100 and 1e100")

    @property
    def noise(self) -> float:
        """The family as kernels see it: the Gaussian variance, or 0.0 for the Bernoulli divergence."""
        return 0.0 if self.noise_sd is None else self.noise_sd**2

    def accepts_means(self, means: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which of ``means`` a reward of this family can have."""
        finite = np.isfinite(means)
        return finite if self.name == "gaussian" else finite & (means >= 0) & (means <= 1)

    @property
    def mean_range(self) -> str:
        """The means that are possible, in words."""
        return "finite numbers" if self.name == "gaussian" else "numbers in [0, 1]"

    def accepts_reward(self, reward: float) -> bool:
        """Tell whether a reward of this family can have this value."""
        if self.name == "bernoulli":
            return reward in (0.0, 1.0)
        return abs(reward) < MAX_MAGNITUDE if self.name == "gaussian" else 0.0 <= reward <= 1.0

    @property
    def reward_range(self) -> str:
        """The rewards that are possible, in words."""
        words = {"bernoulli": "0 or 1", "bounded": "a number in [0, 1]", "gaussian": "a number below 1e100"}
        return words[self.name]


def read_limits(family: str, low: float | None, high: float | None) -> tuple[float, float]:
    """Return the smallest and the largest reward; 0 and 1 but for bounded ones."""
    if low is None and high is None:
        return 0.0, 1.0
    if family != "bounded":
        raise OsrlError(f"low and high belong to the bounded family; remove them for {family!r}")
    limits = tuple(default if given is None else given for given, default in ((low, 0.0), (high, 1.0)))
    for each in limits:
        if isinstance(each, bool) or not isinstance(each, Real) or not abs(float(each)) < MAX_MAGNITUDE:
            raise OsrlError(f"low and high are {low!r} and {high!r}; give two finite numbers")
    if not limits[0] < limits[1]:
        raise OsrlError(f"low is {limits[0]!r} and high {limits[1]!r}; give a low that is smaller than high")
    return float(limits[0]), float(limits[1])


@kernel
def _surprise(u: float) -> float:
    """Return (1 + u) log(1 + u) - u, nonnegative, without cancellation near u = 0."""
    if u <= -1.0:
        return 1.0
    if abs(u) < 1e-3:
        return u * u * (0.5 - u * (1 / 6 - u * (1 / 12 - u * (1 / 20 - u / 30))))
    return (1.0 + u) * math.log1p(u) - u


@kernel
def divergence(a: float, b: float, noise: float) -> float:
    """Return kl(a, b): how hard a reward of mean ``a`` is to mistake for one of mean ``b``.

    Bernoulli: b s(u) + (1 - b) s(v) with s(u) = (1 + u) log(1 + u) - u, u = (a - b) / b and
    v = (b - a) / (1 - b): two nonnegative terms, so that close means keep all their digits.
    """
    d = a - b
    if noise > 0.0:
        return d * d / (2.0 * noise)
    if d == 0.0:
        return 0.0
    if b < 1e-300 or b >= 1.0:
        return math.inf
    return b * _surprise(d / b) + (1.0 - b) * _surprise(-d / (1.0 - b))


@kernel
def variance(mean: float, noise: float) -> float:
    """Return the variance of a reward with this mean: 1 / d^2 kl(., m) / dm^2 at m."""
    if noise > 0.0:
        return noise
    return mean * (1.0 - mean)


@kernel
def tilt(mean: float, reference: float, noise: float) -> float:
    """Return the derivative of kl(mean, reference) in ``mean``: the difference of natural parameters."""
    if noise > 0.0:
        return (mean - reference) / noise
    return math.log(mean * (1.0 - reference) / ((1.0 - mean) * reference))

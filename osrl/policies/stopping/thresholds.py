"""Thresholds: how much evidence a test must collect before it may stop.

One small type for each published threshold. All of them have the form

    beta = constant + explored * beta_1(N) + rounds * ln t,    beta_1(N) = 3 sum ln(1 + ln N(x, g, h)),

so a threshold is three numbers, its `Terms`, and compiled loops evaluate it with `level`. They may
keep beta_1 up to date with `exploration`, one arm at a time.

>>> theorem = Theorem(shape=(2, 3, 2), delta=0.1)
>>> round(theorem.value([100] * 12), 3)
149.861
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osrl.errors import OsrlError
from osrl.jit.kernel import kernel


class Terms(NamedTuple):
    """A threshold as kernels see it: constant + explored * beta_1(N) + rounds * ln t."""

    constant: float
    explored: float
    rounds: float


@kernel
def exploration(pulls: float) -> float:
    """The price of looking at one arm after every sample: 3 ln(1 + ln N), 0 before the second one."""
    return 3.0 * math.log(1.0 + math.log(pulls)) if pulls > 1.0 else 0.0


@kernel
def exploration_term(pulls: NDArray[np.float64]) -> float:
    """beta_1(N) = 3 sum ln(1 + ln N(x, g, h)) over an array of any shape."""
    total = 0.0
    for n in pulls.flat:
        total += exploration(n)
    return total


@kernel
def level(terms: Terms, explored: float, rounds: float) -> float:
    """The threshold now, from ``explored`` = beta_1(N) and ``rounds`` = t; before t = 1 as at t = 1."""
    return terms.constant + terms.explored * explored + terms.rounds * math.log(max(rounds, 1.0))


class Threshold(ABC):
    """The evidence above which a test stops; minus infinity where there is nothing to test."""

    @property
    @abstractmethod
    def terms(self) -> Terms:
        """The threshold as kernels see it."""

    def value(self, pulls: ArrayLike) -> float:
        """The threshold once the arms of the test were pulled ``pulls`` times (any shape)."""
        n = np.asarray(pulls, dtype=np.float64)
        return level(self.terms, exploration_term(n), float(n.sum()))


@dataclass(frozen=True)
class Theorem(Threshold):
    """The threshold of Theorem 2 for the representation: beta_1(t) + beta_2(delta_G).

    beta_1(t) = 3 sum ln(1 + ln N_t(x, g, h)) and beta_2(delta) = K phi(ln((G - 1) / delta) / K), with
    ``shape`` = (X, G, H) and K = XGH.
    """

    shape: tuple[int, int, int]
    delta: float

    def __post_init__(self) -> None:
        _check(self.delta, *self.shape)

    @property
    def terms(self) -> Terms:
        """beta_2 and beta_1."""
        return Terms(beta_2(self.shape, self.delta), 1.0, 0.0)


@dataclass(frozen=True)
class Released(Threshold):
    """The threshold that the authors' code really uses: beta_2(delta_G) alone, without a guarantee."""

    shape: tuple[int, int, int]
    delta: float

    def __post_init__(self) -> None:
        _check(self.delta, *self.shape)

    @property
    def terms(self) -> Terms:
        """beta_2."""
        return Terms(beta_2(self.shape, self.delta), 0.0, 0.0)


@dataclass(frozen=True)
class TrackAndStop(Threshold):
    """The threshold of track-and-stop in one task: ln(2 t (n - 1) / delta), t samples of n ``arms``.

    Phase 2 of the paper has n = H arms, the baseline on all arms of a task n = GH. Garivier and Kaufmann
    prove it for rewards 0 and 1; it holds for any in [0, 1] (`docs/guarantee.md`).
    """

    arms: int
    delta: float

    def __post_init__(self) -> None:
        _check(self.delta, self.arms)

    @property
    def terms(self) -> Terms:
        """ln(2 (n - 1) / delta) and ln t."""
        if self.arms == 1:
            return Terms(-math.inf, 0.0, 1.0)
        return Terms(math.log(2.0 * (self.arms - 1) / self.delta), 0.0, 1.0)


@dataclass(frozen=True)
class GaussianTrackAndStop(Threshold):
    """The same for Gaussian rewards: (1 + c) (ln((n - 1) / delta) + ln((1 + 1/c) / 2) + ln t), c = 1/12.

    The proof of `TrackAndStop` rests on rewards in [0, 1]. Here a normal mixture around the true mean makes
    prod_a (1 + N_a / c)^-1/2 exp(N_a / (N_a + c) N_a kl(muhat_a, mu_a)) over two arms a martingale. So with
    probability 1 - delta / (n - 1), at all times, sum_a N_a kl(muhat_a, mu_a) is at most (1 + c) times
    ln((n - 1) / delta) + ln(1 + t / (2 c)); the last term is at most ln((1 + 1/c) / 2) + ln t from t = 2 on.
    """

    arms: int
    delta: float

    def __post_init__(self) -> None:
        _check(self.delta, self.arms)

    @property
    def terms(self) -> Terms:
        """The constant and the factor of ln t."""
        if self.arms == 1:
            return Terms(-math.inf, 0.0, 1.0)
        constant = math.log((self.arms - 1) / self.delta) + math.log((1.0 + 1.0 / _C) / 2.0)
        return Terms((1.0 + _C) * constant, 0.0, 1.0 + _C)


def track_and_stop(arms: int, delta: float, noise: float) -> TrackAndStop | GaussianTrackAndStop:
    """The threshold of one task, as proved for rewards in [0, 1] (``noise`` = 0) or for Gaussian ones."""
    return TrackAndStop(arms, delta) if noise == 0.0 else GaussianTrackAndStop(arms, delta)


THRESHOLDS: dict[str, type[Theorem] | type[Released]] = {"theorem": Theorem, "released": Released}


def threshold(name: str, shape: tuple[int, int, int], delta: float) -> Theorem | Released:
    """The threshold of the representation test (phase 1) called ``name``; ``shape`` = (X, G, H)."""
    if name not in THRESHOLDS:
        raise OsrlError(f"unknown threshold {name!r}; use one of {', '.join(THRESHOLDS)}")
    return THRESHOLDS[name](shape, delta)


def beta_2(shape: tuple[int, int, int], delta: float) -> float:
    """The part of the threshold that pays for the risk: K phi(ln((G - 1) / delta) / K), K = XGH.

    Minus infinity when G = 1: a single representation needs no test.
    """
    X, G, H = shape
    if G == 1:
        return -math.inf
    K = X * G * H
    return K * phi(math.log((G - 1) / delta) / K)


def phi(x: float) -> float:
    """The deviation, for each arm, that K arms exceed together with probability exp(-K x) at most.

    phi(x) = 2 p~( (p^-1(1 + x) + ln(2 zeta(2))) / 2 ) for x >= 0, with z = 3/2 in
    p~(y) = exp(1 / p^-1(y)) p^-1(y) where y >= p^-1(1 / ln z), and z (y - ln ln z) below.

    p~ bounds min over 1 < u <= z of u (y - ln ln u), whose minimiser leaves z already at
    y = p(1 / ln z) = 1.56. The switch at p^-1(1 / ln z) = 3.80 is the one printed, here and by
    Kaufmann & Koolen: the bound holds on both sides, but phi falls by 6 % at x = 3.55.
    """
    y = (p_inverse(1.0 + x) + math.log(math.pi**2 / 3.0)) / 2.0
    if y >= _SWITCH:
        u = p_inverse(y)
        return 2.0 * math.exp(1.0 / u) * u
    return 2.0 * _Z * (y - math.log(math.log(_Z)))


def p_inverse(y: float) -> float:
    """The u >= 1 with p(u) = u - ln u = y, for y >= 1.

    Newton's method on d - ln(1 + d) = y - 1 for d = u - 1. The function is convex and the start,
    the bound d <= e + sqrt(2 e) with e = y - 1, lies above the root: the steps decrease to it.
    """
    e = y - 1.0
    if e <= 0.0:
        return 1.0
    d = e + math.sqrt(2.0 * e)
    while True:
        lower = d - (d - math.log1p(d) - e) * (1.0 + d) / d
        if not lower < d:
            return 1.0 + d
        d = lower


_C = 1.0 / 12.0
_Z = 1.5
_SWITCH = p_inverse(1.0 / math.log(_Z))


def _check(delta: float, *counts: int) -> None:
    """Refuse a risk outside (0, 1) and empty dimensions."""
    if not 0.0 < delta < 1.0:
        raise OsrlError(f"the risk delta is {delta}; give a number strictly between 0 and 1")
    if min(counts) < 1:
        raise OsrlError(f"a threshold for {' x '.join(map(str, counts))} arms; every count must be at least 1")

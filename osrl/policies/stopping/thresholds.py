"""Thresholds: how much evidence a test must collect before it may stop.

All of them have the form

    constant + explored * beta_1(N) + rounds * ln t + slowly * ln(ln t + 1),    beta_1(N) = 3 sum ln(1 + ln N),

the sum over the arms of the test and t their samples. So a threshold is four numbers, its `Terms`. Compiled loops
keep beta_1 up to date with `exploration_cost`, one arm at a time.

The first half of the module has one small type for each published threshold. The second half pairs two of them for
the one-phase stopping rules: is g the best representation, and is h its best predictor in task x?

| name | representation | predictors |
|---|---|---|
| ``theorem`` | C(g) against Theorem 2: (*) with S all arms | ln(2 t (H - 1) / delta_h), two arms |
| ``kk`` | pairs, summed over tasks, against (*) with two arms in each task | two arms against (*) |
| ``tas`` | two arms in one task against ln(2 t X (n - 1) / delta_g) | as ``theorem`` |
| ``released`` | C(g) against beta_2 alone, as the authors' code does: not proved | as ``theorem`` |
| ``gk`` | C(g) against ln((ln t + 1) / delta_g): not proved | two arms against ln((ln t + 1) / delta_h) |

For ``posterior`` the constants are the risks themselves (`osrl.policies.stopping.arm_stats`): not proved.

C(g) = sum_x min_h ell(N; (g, h)) as in the paper. *Pairs*: V(g) = sum_x min_h max_a of the likelihood ratio
of a against (g, h) less their exploration costs 3 ln(1 + ln N), 0 where no arm leads.

**Proofs**, for any sampling rule. With kl(muhat_a, mu_a) the deviation of an arm, Kaufmann and Koolen (2021,
Theorem 7) prove for any set S of arms and any sampling rule

    P( for some t: sum_S [N_a kl(muhat_a, mu_a) - 3 ln(1 + ln N_a)] >= |S| phi(y / |S|) ) <= exp(-y).      (*)

A wrong representation is answered only if the true one, g*, was beaten. The likelihood ratio of an arm a against
b = (g*, h*_x) that it seems to beat is at most the sum of both deviations, because the true means are among those
that it minimises over.

- ``kk``: so V(g*) >= threshold needs (*) for a set of two arms in each task, or fewer; b is fixed, and a is one
  of n - 1 arms or none: n^X sets, y = ln(n^X / delta_g). The threshold is the largest over |S| = 1, ..., 2X.
  For predictors the set is (h, h*_x): H - 1 sets of two, y = ln((H - 1) / delta_h).
- ``tas``: in one of X tasks one of n - 1 arms beats b by ln(2 t / delta'), delta' = delta_g / (X (n - 1)):
  Garivier and Kaufmann (2016, Theorem 10) for two arms, at most delta' each. That holds at all times, so it
  does not matter that the others are beaten at different times (`BY_ELIMINATION`).
- intervals (`BY_INTERVALS`): (*) for every arm alone, |S| = 1: all X n intervals hold with probability
  1 - delta_g at y = ln(X n / delta_g), those of the H predictors in question at y = ln(H / delta_h). What
  intervals that hold rule out is not the best.

>>> theorem = Theorem(shape=(2, 3, 2), delta=0.1)
>>> round(theorem.value([100] * 12), 3)
149.861
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osrl.errors import OsrlError
from osrl.jit import kernel
from osrl.policies.contract import Problem

TERM_CONSTANT, TERM_EXPLORED, TERM_LOG_T, TERM_LOG_LOG_T = range(4)  # places of `Terms` in an array

# Forms of the test of representations: four by likelihood ratios, then two others.
BY_COSTS, BY_PAIRS, BY_ONE_TASK, BY_ELIMINATION, BY_INTERVALS, BY_POSTERIOR = range(6)


class Terms(NamedTuple):
    """A threshold: constant + explored * beta_1(N) + rounds * ln t + slowly * ln(ln t + 1)."""

    constant: float
    explored: float = 0.0
    rounds: float = 0.0
    slowly: float = 0.0


@kernel
def exploration_cost(pulls: float) -> float:
    """Return 3 ln(1 + ln N), what looking at one arm after every sample costs; 0 before the second one."""
    return 3.0 * math.log(1.0 + math.log(pulls)) if pulls > 1.0 else 0.0


@kernel
def exploration_term(pulls: NDArray[np.float64]) -> float:
    """Return beta_1(N) = 3 sum ln(1 + ln N(x, g, h)) over an array of any shape."""
    total = 0.0
    for n in pulls.flat:
        total += exploration_cost(n)
    return total


@kernel
def threshold_value(terms: Terms, explored: float, rounds: float) -> float:
    """Return the threshold, from ``explored`` = beta_1(N) and ``rounds`` = t; before t = 1 as at t = 1."""
    log_t = math.log(max(rounds, 1.0))
    value = terms.constant + terms.explored * explored + terms.rounds * log_t
    return value + terms.slowly * math.log(log_t + 1.0)


class Threshold(ABC):
    """The evidence above which a test stops; minus infinity where there is nothing to test."""

    @property
    @abstractmethod
    def terms(self) -> Terms:
        """The threshold as kernels see it."""

    def value(self, pulls: ArrayLike) -> float:
        """Return the threshold once the arms of the test were pulled ``pulls`` times (any shape)."""
        n = np.asarray(pulls, dtype=np.float64)
        return threshold_value(self.terms, exploration_term(n), float(n.sum()))


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


class Released(Theorem):
    """The threshold that the authors' code really uses: beta_2(delta_G) alone, without a guarantee."""

    @property
    def terms(self) -> Terms:
        """beta_2."""
        return Terms(beta_2(self.shape, self.delta))


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


class GaussianTrackAndStop(TrackAndStop):
    """The same for Gaussian rewards: (1 + c) (ln((n - 1) / delta) + ln((1 + 1/c) / 2) + ln t), c = 1/12.

    The proof of `TrackAndStop` rests on rewards in [0, 1]. Here a normal mixture around the true mean makes
    prod_a (1 + N_a / c)^-1/2 exp(N_a / (N_a + c) N_a kl(muhat_a, mu_a)) over two arms a martingale. So with
    probability 1 - delta / (n - 1), at all times, sum_a N_a kl(muhat_a, mu_a) is at most (1 + c) times
    ln((n - 1) / delta) + ln(1 + t / (2 c)); the last term is at most ln((1 + 1/c) / 2) + ln t from t = 2 on.
    """

    @property
    def terms(self) -> Terms:
        """The constant and the factor of ln t."""
        if self.arms == 1:
            return Terms(-math.inf, 0.0, 1.0)
        constant = math.log((self.arms - 1) / self.delta) + math.log((1.0 + 1.0 / _C) / 2.0)
        return Terms((1.0 + _C) * constant, 0.0, 1.0 + _C)


def track_and_stop(arms: int, delta: float, noise: float) -> TrackAndStop:
    """Return the threshold of one task, proved for rewards in [0, 1] (``noise`` = 0) or for Gaussian ones."""
    return TrackAndStop(arms, delta) if noise == 0.0 else GaussianTrackAndStop(arms, delta)


THRESHOLDS: dict[str, type[Theorem]] = {"theorem": Theorem, "released": Released}


def threshold(name: str, shape: tuple[int, int, int], delta: float) -> Theorem:
    """Return the threshold of the representation test (phase 1) called ``name``; ``shape`` = (X, G, H)."""
    if name not in THRESHOLDS:
        raise OsrlError(f"unknown threshold {name!r}; use one of {', '.join(THRESHOLDS)}")
    return THRESHOLDS[name](shape, delta)


def beta_2(shape: tuple[int, int, int], delta: float) -> float:
    """Return the part of the threshold that pays for the risk: K phi(ln((G - 1) / delta) / K), K = XGH.

    Minus infinity when G = 1: a single representation needs no test.
    """
    X, G, H = shape
    if G == 1:
        return -math.inf
    K = X * G * H
    return K * phi(math.log((G - 1) / delta) / K)


def phi(x: float) -> float:
    """Return the deviation, for each arm, that K arms exceed together with probability exp(-K x) at most.

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
    """Return the u >= 1 with p(u) = u - ln u = y, for y >= 1.

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


class ThresholdPair(NamedTuple):
    """The form of the test of representations, its threshold, and that of two predictors."""

    form: int
    representation: Terms
    predictor: Terms


def _two_arms(pairs: int, delta: float, noise: float) -> Terms:
    """Return ln(2 t pairs / delta), or the Gaussian threshold where there is ``noise``."""
    return track_and_stop(pairs + 1, delta, noise).terms


def _mixture(arms: int, sets: float, delta: float) -> Terms:
    """Return (*) for ``exp(sets)`` sets of so many arms, or fewer."""
    y = sets + math.log(1.0 / delta)
    return Terms(max(size * phi(y / size) for size in range(1, arms + 1)), explored=1.0)


def _theorem(problem: Problem, delta_g: float, delta_h: float, explored: float = 1.0) -> ThresholdPair:
    of_g = Terms(beta_2(problem.shape, delta_g), explored)
    return ThresholdPair(BY_COSTS, of_g, _two_arms(problem.shape[2] - 1, delta_h, problem.family.noise))


def _tas(problem: Problem, delta_g: float, delta_h: float, form: int = BY_ONE_TASK) -> ThresholdPair:
    X, G, H = problem.shape
    noise = problem.family.noise
    return ThresholdPair(form, _two_arms(X * (G * H - 1), delta_g, noise), _two_arms(H - 1, delta_h, noise))


def _gk(problem: Problem, delta_g: float, delta_h: float, form: int = BY_COSTS) -> ThresholdPair:
    of_g, of_h = (Terms(math.log(1.0 / delta), slowly=1.0) for delta in (delta_g, delta_h))
    return ThresholdPair(form, of_g, of_h)


def _kk(problem: Problem, delta_g: float, delta_h: float) -> ThresholdPair:
    X, G, H = problem.shape
    of_g = _mixture(2 * X, X * math.log(G * H), delta_g)
    return ThresholdPair(BY_PAIRS, of_g, _mixture(2, math.log(max(H - 1, 1)), delta_h))


def _interval_kk(problem: Problem, delta_g: float, delta_h: float) -> ThresholdPair:
    X, G, H = problem.shape
    of_g = _mixture(1, math.log(X * G * H), delta_g)
    return ThresholdPair(BY_INTERVALS, of_g, _mixture(1, math.log(H), delta_h))


def _posterior(problem: Problem, delta_g: float, delta_h: float) -> ThresholdPair:
    return ThresholdPair(BY_POSTERIOR, Terms(delta_g), Terms(delta_h))


ThresholdMaker = Callable[[Problem, float, float], ThresholdPair]
GLR_THRESHOLDS: dict[str, ThresholdMaker] = {
    "tas": _tas,
    "kk": _kk,
    "theorem": _theorem,
    "released": partial(_theorem, explored=0.0),
    "gk": _gk,
}
RACE_THRESHOLDS: dict[str, ThresholdMaker] = {
    "tas": partial(_tas, form=BY_ELIMINATION),
    "gk": partial(_gk, form=BY_ELIMINATION),
}
INTERVAL_THRESHOLDS: dict[str, ThresholdMaker] = {"kk": _interval_kk, "gk": partial(_gk, form=BY_INTERVALS)}
POSTERIOR_THRESHOLDS: dict[str, ThresholdMaker] = {"own": _posterior}
_TWO_ARMS = "Garivier and Kaufmann (2016, Theorem 10) for two arms, a union over tasks and arms"
_MIXTURES = "Kaufmann and Koolen (2021, Theorem 7)"
# What each threshold of the one-phase rules is proved by; the proofs are at the top of this module.
ONE_PHASE_PROOFS = {
    "glr": {
        "tas": _TWO_ARMS,
        "kk": f"{_MIXTURES}, a union over sets of two arms in each task",
        "theorem": "Theorem 2 of the paper; predictors: Garivier and Kaufmann (2016, Theorem 10)",
    },
    "race": {"tas": _TWO_ARMS},
    "intervals": {"kk": f"{_MIXTURES} for every arm alone, a union over arms"},
}

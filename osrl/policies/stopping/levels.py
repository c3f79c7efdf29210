"""How much evidence the joint stopping rules ask for: one small function for each published threshold.

There are two questions. Is the representation g the best one? And among the predictors of the representation
that was chosen, is h the best in task x? Each has a statistic and a level,

    constant + explored * (sum of 3 ln(1 + ln N)) + rounds * ln t + slowly * ln(ln t + 1),

the sum over the arms in question and t their samples. With kl(muhat_a, mu_a) the deviation of an arm,
Kaufmann and Koolen (2021, Theorem 7) prove for any set S of arms and any sampling rule

    P( for some t: sum_S [N_a kl(muhat_a, mu_a) - 3 ln(1 + ln N_a)] >= |S| phi(y / |S|) ) <= exp(-y).      (*)

| name | representation | predictors |
|---|---|---|
| ``theorem`` | C(g) against Theorem 2: (*) with S all arms | ln(2 t (H - 1) / delta_h), two arms |
| ``kk`` | pairs, summed over tasks, against (*) with two arms in each task | two arms against (*) |
| ``tas`` | two arms in one task against ln(2 t X (n - 1) / delta_g) | as ``theorem`` |
| ``released`` | C(g) against beta_2 alone, as the authors' code does: not proved | as ``theorem`` |
| ``gk`` | C(g) against ln((ln t + 1) / delta_g): not proved | two arms against ln((ln t + 1) / delta_h) |

For ``posterior`` the constants are the risks themselves (`osrl.policies.stopping.posterior`): not proved.

C(g) = sum_x min_h ell(N; (g, h)) as in the paper. *Pairs*: V(g) = sum_x min_h max_a of the likelihood ratio
of a against (g, h) with their prices 3 ln(1 + ln N) taken off, 0 where no arm leads.

**Proofs**, for any sampling rule. A wrong representation is answered only if the true one, g*, was beaten.
The likelihood ratio of an arm a against b = (g*, h*_x) that it seems to beat is at most the sum of both
deviations, because the true means are among those that it minimises over.

- ``kk``: so V(g*) >= level needs (*) for a set of two arms in each task, or fewer; b is fixed, and a is one
  of n - 1 arms or none: n^X sets, y = ln(n^X / delta_g). The level is the largest over |S| = 1, ..., 2X.
  For predictors the set is (h, h*_x): H - 1 sets of two, y = ln((H - 1) / delta_h).
- ``tas``: in one of X tasks one of n - 1 arms beats b by ln(2 t / delta'), delta' = delta_g / (X (n - 1)):
  Garivier and Kaufmann (2016, Theorem 10) for two arms, at most delta' each. That is so at any time, so it
  does not matter that the others are beaten at the same one (`ELIMINATION`).
- intervals (`INTERVALS`): (*) for every arm alone, |S| = 1: all X n intervals hold with probability
  1 - delta_g at y = ln(X n / delta_g), those of the H predictors in question at y = ln(H / delta_h). What
  intervals that hold rule out is not the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from osrl.policies.contract import Problem
from osrl.policies.stopping.thresholds import beta_2, phi, track_and_stop

# forms of the test of representations: four by likelihood ratios, then two others
COSTS, PAIRS, ONE_TASK, ELIMINATION, INTERVALS, POSTERIOR = range(6)


class Level(NamedTuple):
    """A threshold: constant + explored * prices + rounds * ln t + slowly * ln(ln t + 1)."""

    constant: float
    explored: float = 0.0
    rounds: float = 0.0
    slowly: float = 0.0


class Levels(NamedTuple):
    """The form of the test of representations, its threshold, and that of two predictors."""

    form: int
    representation: Level
    predictor: Level


def _track_and_stop(pairs: int, delta: float, noise: float) -> Level:
    """ln(2 t pairs / delta); the Gaussian one where there is ``noise``."""
    terms = track_and_stop(pairs + 1, delta, noise).terms
    return Level(terms.constant, 0.0, terms.rounds)


def _mixture(arms: int, sets: float, delta: float) -> Level:
    """(*) for ``exp(sets)`` sets of so many arms, or fewer."""
    y = sets + math.log(1.0 / delta)
    return Level(max(size * phi(y / size) for size in range(1, arms + 1)), explored=1.0)


def _theorem(problem: Problem, delta_g: float, delta_h: float) -> Levels:
    of_g = Level(beta_2(problem.shape, delta_g), explored=1.0)
    return Levels(COSTS, of_g, _track_and_stop(problem.shape[2] - 1, delta_h, problem.family.noise))


def _released(problem: Problem, delta_g: float, delta_h: float) -> Levels:
    of_g = Level(beta_2(problem.shape, delta_g))
    return Levels(COSTS, of_g, _track_and_stop(problem.shape[2] - 1, delta_h, problem.family.noise))


def _tas(problem: Problem, delta_g: float, delta_h: float) -> Levels:
    X, G, H = problem.shape
    noise = problem.family.noise
    of_g = _track_and_stop(X * (G * H - 1), delta_g, noise)
    return Levels(ONE_TASK, of_g, _track_and_stop(H - 1, delta_h, noise))


def _slowly(problem: Problem, delta_g: float, delta_h: float) -> Levels:
    of_g, of_h = (Level(math.log(1.0 / delta), slowly=1.0) for delta in (delta_g, delta_h))
    return Levels(COSTS, of_g, of_h)


def _kk(problem: Problem, delta_g: float, delta_h: float) -> Levels:
    X, G, H = problem.shape
    of_g = _mixture(2 * X, X * math.log(G * H), delta_g)
    return Levels(PAIRS, of_g, _mixture(2, math.log(max(H - 1, 1)), delta_h))


def _interval_kk(problem: Problem, delta_g: float, delta_h: float) -> Levels:
    X, G, H = problem.shape
    of_g = _mixture(1, math.log(X * G * H), delta_g)
    return Levels(INTERVALS, of_g, _mixture(1, math.log(H), delta_h))


def _eliminate(problem: Problem, delta_g: float, delta_h: float) -> Levels:
    return _tas(problem, delta_g, delta_h)._replace(form=ELIMINATION)


def _eliminate_slowly(problem: Problem, delta_g: float, delta_h: float) -> Levels:
    return _slowly(problem, delta_g, delta_h)._replace(form=ELIMINATION)


def _interval_slowly(problem: Problem, delta_g: float, delta_h: float) -> Levels:
    return _slowly(problem, delta_g, delta_h)._replace(form=INTERVALS)


def _posterior(problem: Problem, delta_g: float, delta_h: float) -> Levels:
    return Levels(POSTERIOR, Level(delta_g), Level(delta_h))


Maker = Callable[[Problem, float, float], Levels]
GLR: dict[str, Maker] = {
    "tas": _tas,
    "kk": _kk,
    "theorem": _theorem,
    "released": _released,
    "gk": _slowly,
}
CONFIDENCE: dict[str, Maker] = {"kk": _interval_kk, "gk": _interval_slowly}
RACE: dict[str, Maker] = {"tas": _eliminate, "gk": _eliminate_slowly}
BAYES: dict[str, Maker] = {"own": _posterior}
_TWO_ARMS = "Garivier and Kaufmann (2016, Theorem 10) for two arms, a union over tasks and arms"
_MIXTURES = "Kaufmann and Koolen (2021, Theorem 7)"
# What each threshold is proved by; `osrl.policies.stopping.levels` has the proofs.
PROOFS = {
    "glr": {
        "tas": _TWO_ARMS,
        "kk": f"{_MIXTURES}, a union over sets of two arms in each task",
        "theorem": "Theorem 2 of the paper; predictors: Garivier and Kaufmann (2016, Theorem 10)",
    },
    "race": {"tas": _TWO_ARMS},
    "intervals": {"kk": f"{_MIXTURES} for every arm alone, a union over arms"},
}

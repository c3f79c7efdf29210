"""How long an experiment still takes: its rest, simulated many times with means that its data allow.

Draws are fixed, so whoever asks at the same moment gets the same answer. All simulated futures are played to
a horizon, which is doubled until nine in ten have ended. When that would take too long, only the first `FEW`
are played on, and when it still does, the horizon is all that is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from osrl.arrays import Floats
from osrl.contract import State
from osrl.draws import new_key
from osrl.families import Family
from osrl.hypotheses.beliefs import plausible_means
from osrl.hypotheses.possible import Hypotheses
from osrl.instance import Instance
from osrl.policies.conditions import Conditions, Course, Pending, new_course

MANY, FEW = 40, 20  # futures
WORK = 300_000  # trials that are simulated at most, of a task with `ARMS` arms
ARMS = 6
SEED = 20_26
HORIZON = 64  # trials, at first


class Remainder(NamedTuple):
    """Trials that are still to be handed out: half of the futures need fewer, nine in ten at most ``q90``.

    ``at_least``: this last number, or both, are only known to be larger.
    """

    median: float
    q90: float
    at_least: bool


class Seen(NamedTuple):
    """What was seen of how trials go out and come back."""

    arrivals: Floats  # (X,) tasks that were given
    told: int
    lost: int  # and counted by the worst reward
    ignored: int  # lost, and left out
    delay: float  # trials that were handed out after one and before its end, on average

    def draw(self, rng: np.random.Generator) -> Conditions:
        """Conditions of the future: rates are not known exactly, and what was never seen does not happen."""
        shares = rng.dirichlet(self.arrivals + 0.5) if self.arrivals.any() else np.zeros(0)
        counts = np.array([self.told + 0.5, self.lost, self.ignored])
        fates = np.zeros(3)
        fates[counts > 0] = rng.dirichlet(counts[counts > 0])
        return Conditions(shares, float(fates[1]), float(fates[2]), round(self.delay))


def remainder(
    state: State,
    family: Family,
    seen: Seen,
    pending: Sequence[Pending] = (),
    most: int | None = None,
) -> Remainder:
    """How many more trials ``state`` needs, at most ``most``; its stopping rule has to keep `Hypotheses`."""
    hypotheses: Hypotheses = state.stopping
    rng = np.random.default_rng(SEED)
    means = plausible_means(
        hypotheses.pulls, hypotheses.sums, hypotheses.possible_g.size, hypotheses.noise, MANY, rng
    )
    futures = [
        new_course(state, _instance(each, hypotheses, family), new_key(SEED, i), seen.draw(rng), pending)
        for i, each in enumerate(means)
    ]
    return _quantiles(futures, most, WORK * ARMS // max(ARMS, means.shape[2]))


def is_compiled(state: State, family: Family) -> bool:
    """Whether there is machine code for the rest of a study, which is too long for the interpreter."""
    hypotheses: Hypotheses = state.stopping
    example = _instance(np.full(hypotheses.pulls.shape, 0.5), hypotheses, family)
    return new_course(state, example, new_key(SEED, 0), Conditions(np.zeros(0))).is_compiled


def _instance(means: Floats, hypotheses: Hypotheses, family: Family) -> Instance:
    X, n = means.shape
    G = hypotheses.possible_g.size
    return Instance(means.reshape(X, G, n // G), family)


def _quantiles(futures: Sequence[Course], most: int | None, work: int) -> Remainder:
    """Play the futures on until nine in ten have ended."""
    needs = np.full(len(futures), math.inf)
    horizon = HORIZON
    while True:
        horizon = horizon if most is None else min(horizon, most)
        for i, future in enumerate(futures):
            if needs[i] == math.inf and (future.play(horizon) or horizon == most):
                needs[i] = future.handed_out
        middle, high = _rank(0.5, len(futures)), _rank(0.9, len(futures))
        in_order = np.sort(needs)
        if in_order[high] < math.inf:
            break
        played = sum(future.handed_out for future in futures)
        open_still = int(np.sum(needs == math.inf))
        if played + open_still * horizon > (work if len(futures) <= FEW else work // 3):
            if len(futures) <= FEW:
                in_order = np.minimum(in_order, horizon)
                return Remainder(float(in_order[middle]), float(in_order[high]), True)
            futures, needs = futures[:FEW], needs[:FEW]
        horizon *= 2
    return Remainder(float(in_order[middle]), float(in_order[high]), False)


def _rank(share: float, count: int) -> int:
    """The place in order below which a further one of the same kind falls with this probability."""
    return min(math.ceil(share * (count + 1)), count) - 1

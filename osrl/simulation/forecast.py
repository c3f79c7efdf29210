"""How long an experiment still takes: its rest, simulated many times with means that its data allow.

Draws are fixed, so whoever asks at the same moment gets the same answer. All simulated futures are played to
a horizon, which is doubled until nine in ten have ended. They are played in blocks (`osrl.simulation.futures`),
so the horizon may be millions of trials away. A future that does not end within `FAR` times the samples so
far is taken not to end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from osrl.hypotheses.posterior import plausible_means
from osrl.hypotheses.state import Hypotheses
from osrl.jit.mode import process, use_machine_code
from osrl.model.arrays import Floats, Integers
from osrl.model.families import Family
from osrl.policies.contract import State
from osrl.policies.registry import policy_of
from osrl.simulation.futures import Future
from osrl.simulation.protocol import TrialProtocol

MANY, FEW = 40, 20  # futures; fewer of a task with more than `ARMS` arms
ARMS = 24
SEED = 20_26
HORIZON = 64  # trials, at first
CLEAR = 0.3
FAR, FEWEST = 10_000, 1_000  # times as many trials as there were, or as this
SHOWN = 10**6  # trials ahead, where the sampling rule looks at every reward: those cost time
NOTHING = np.zeros(0, np.int64)


class RemainingTrials(NamedTuple):
    """Trials that are still to be handed out: one in ten futures needs at most ``q10``, nine ``q90``.

    ``median``: about so many. In it futures count as the gaps between the two best arms of their tasks to the
    power `CLEAR`: people compare what differs, and near ties take by far the longest. ``at_least``: ``q90``,
    or the median too, is only known to be larger. ``in_time``: the share of the futures that end with
    ``most`` trials; None without such a limit.
    """

    median: float
    q90: float
    at_least: bool
    q10: float
    in_time: float | None


class ObservedProtocol(NamedTuple):
    """The protocol as it was observed: how trials go out and come back."""

    arrivals: Floats  # (X,) tasks that were given
    told: int
    lost: int  # and counted by the worst reward
    ignored: int  # lost, and left out
    delay: float  # trials that were handed out after one and before its end, on average

    def draw(self, rng: np.random.Generator) -> TrialProtocol:
        """Draw the protocol of a future: rates are not known exactly, and what was never seen does not happen."""
        shares = rng.dirichlet(self.arrivals + 0.5) if self.arrivals.any() else np.zeros(0)
        counts = np.array([self.told + 0.5, self.lost, self.ignored])
        fates = np.zeros(3)
        fates[counts > 0] = rng.dirichlet(counts[counts > 0])
        return TrialProtocol(shares, float(fates[1]), float(fates[2]), round(self.delay))


def remaining_trials(
    state: State, family: Family, seen: ObservedProtocol, pending: Integers = NOTHING, most: int | None = None
) -> RemainingTrials:
    """Return how many more trials ``state`` needs; its stopping rule has to keep `Hypotheses`.

    ``pending``: the arms x * n + a of trials that have not reported, in the order of their hand-out;
    ``most``: how many more there may be.
    """
    hypotheses: Hypotheses = state.stopping
    pulls = hypotheses.pulls
    rng = np.random.default_rng(SEED)
    draws = MANY if pulls.shape[1] <= ARMS else FEW
    means = plausible_means(pulls, hypotheses.sums, hypotheses.possible_g.size, hypotheses.noise, draws, rng)
    futures = [
        Future(state, each, family, seen.draw(rng), pending, np.random.default_rng([SEED, i]))
        for i, each in enumerate(means)
    ]
    far = FAR * max(float(pulls.sum()), FEWEST)
    if policy_of(state).sampling.observe is not None:
        far = min(far, SHOWN)
    return _quantiles(futures, _clarity(means), most, far)


def is_compiled(state: State, family: Family) -> bool:
    """Tell whether there is machine code for the rest of a study, which is too long for the interpreter."""
    if process.never:
        return False
    use_machine_code()
    means = np.full(state.stopping.pulls.shape, 0.5)
    rng = np.random.default_rng(SEED)
    return Future(state, means, family, TrialProtocol(np.zeros(0)), NOTHING, rng).is_compiled


def _clarity(means: Floats) -> Floats:
    """Return how much each of the means (draws, X, n) counts in the median."""
    if means.shape[2] == 1:
        return np.ones(len(means))
    in_order = np.sort(means, axis=2)
    gaps = in_order[:, :, -1] - in_order[:, :, -2]
    found: Floats = ((gaps + 1e-12) ** CLEAR).prod(axis=1)
    return found


def _quantiles(futures: Sequence[Future], weights: Floats, most: int | None, far: float) -> RemainingTrials:
    """Play the futures until nine in ten have ended."""
    needs = np.full(len(futures), math.inf)
    low, high = _rank(0.1, len(futures)), _rank(0.9, len(futures))
    horizon = HORIZON
    while True:
        for i, future in enumerate(futures):
            if needs[i] == math.inf and future.play(horizon):
                needs[i] = future.handed_out
        if np.sort(needs)[high] < math.inf or horizon >= far:
            break
        horizon *= 2
    order = np.argsort(needs, kind="stable")
    known = np.where(needs < math.inf, needs, horizon)[order]  # the last block may end beyond it
    counted = weights[order].cumsum()
    middle = max(int(np.searchsorted(counted, 0.5 * counted[-1])), low)
    in_time = None if most is None else float((needs <= most).mean())
    at_least = bool(needs[order[high]] == math.inf)
    return RemainingTrials(float(known[middle]), float(known[high]), at_least, float(known[low]), in_time)


def _rank(share: float, count: int) -> int:
    """Return the place in order below which a further one of the same kind falls with this probability."""
    return min(max(math.ceil(share * (count + 1)), 1), count) - 1

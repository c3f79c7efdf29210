"""E-processes as objects: tell them trials, and read the evidence against each arm as the best of a set.

| type | sampling rule | rewards |
|---|---|---|
| `Betting` | random, with known probabilities | any in [0, 1] |
| `Pairs` | any | any in [0, 1], or Gaussian with known noise; means stay the same |
| `Pooled` | any | any in [0, 1], or Gaussian with known noise; means stay the same |
| `Universal` | any; for reference | any in [0, 1], or Gaussian with known noise; means stay the same |

Each null "arm b is the best" is tested by itself. All of them may be read after every trial.

>>> evidence = Pairs(2)
>>> for _ in range(40):
...     evidence.observe(0, 1.0)
...     evidence.observe(1, 0.0)
>>> bool(evidence.p_value[1] < 1e-6), float(evidence.p_value[0])
(True, 1.0)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from osrl.errors import OsrlError
from osrl.evidence.betting import TICKET_TERMS, Bets, log_mixture, new_bets, rank, settle, shrunk_means, write_ticket
from osrl.evidence.counts import Samples, pooled, samples_of, universal
from osrl.evidence.exponential_tilts import TILT_TASK, new_tilts
from osrl.evidence.pairs import against_best
from osrl.model.arrays import Floats
from osrl.model.families import Family
from osrl.model.risks import read_risk

COUNT_SHRINKAGE = 20.0  # samples by which estimates are drawn to their mean, where it matters who leads


class Evidence(ABC):
    """Evidence against each of some arms as the best of them, as logarithms."""

    def __init__(self, arms: int, family: Family) -> None:
        if arms < 2:
            raise OsrlError(f"{arms} arms; evidence compares at least 2")
        self.arms, self.family, self.trials = arms, family, 0
        self.pulls, self.sums = np.zeros((2, arms))
        self._largest = np.zeros(arms)

    @property
    @abstractmethod
    def log_value(self) -> Floats:
        """Log evidence (n,) now. A null is rejected at level delta when it reaches log(1 / delta)."""

    @property
    def p_value(self) -> Floats:
        """Anytime p-values (n,): however often one looks, at most delta with probability at most delta."""
        return np.exp(-self._largest)

    def lacking(self, delta: float) -> Floats:
        """Return the log evidence (n,) that is missing for a rejection; 0 where it was once enough."""
        limit = math.log(1 / read_risk("the risk", delta))
        return np.where(self._largest >= limit, 0.0, limit - np.minimum(self.log_value, limit))

    def trials_to_reject(self, delta: float) -> Floats:
        """Return the same in trials (n,), if evidence keeps growing as so far; infinite where it does not grow."""
        rate = self.log_value / max(self.trials, 1)
        lacking = self.lacking(delta)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(lacking == 0.0, 0.0, np.where(rate > 0.0, np.ceil(lacking / rate), math.inf))

    def _check(self, arm: int, reward: float) -> None:
        if not 0 <= arm < self.arms:
            raise OsrlError(f"arm {arm} of {self.arms}; count from 0")
        if not self.family.accepts_reward(reward):
            raise OsrlError(f"the reward is {reward}; give {self.family.reward_range}")

    def _count(self, arm: int, reward: float) -> None:
        self.trials += 1
        self.pulls[arm] += 1
        self.sums[arm] += reward
        self._largest = np.maximum(self._largest, self.log_value)


class Betting(Evidence):
    """Bets against each null, for arms that are drawn at random with known probabilities."""

    def __init__(self, arms: int, bets: Bets | None = None) -> None:
        super().__init__(arms, Family("bounded"))
        self.bets = new_bets() if bets is None else bets
        self.wealth = np.zeros((arms, self.bets.beta.size))

    @property
    def log_value(self) -> Floats:
        """The mixture over bets, of each null."""
        return np.array([log_mixture(wealth, self.bets.local) for wealth in self.wealth])

    def observe(self, arm: int, reward: float, propensities: Sequence[float] | Floats) -> None:
        """Add a trial; ``propensities`` are the probabilities with which its arm was drawn."""
        self._check(arm, reward)
        weights = np.array(propensities, float)
        fine = weights.shape == (self.arms,) and bool((weights >= 0).all()) and weights[arm] > 0
        if not fine or not math.isclose(weights.sum(), 1, abs_tol=1e-9):
            raise OsrlError(
                f"propensities {weights.tolist()}; give the probability of each of the {self.arms} arms, "
                "which sum to 1, positive for the arm that was drawn"
            )
        means, order = np.empty(self.arms), np.arange(self.arms)
        rank(self.pulls, self.sums, self.bets.shrinkage, means, order)
        ticket = np.empty((self.arms, TICKET_TERMS))
        write_ticket(means, order, weights, arm, self.bets.safe, np.ones(1, np.bool_), ticket)
        for wealth, terms in zip(self.wealth, ticket, strict=True):
            settle(wealth, terms, self.bets.beta, reward)
        self._count(arm, reward)


class Counts(Evidence):
    """Evidence from counts alone: for any sampling rule that does not see the future."""

    def __init__(self, arms: int, family: Family | None = None) -> None:
        super().__init__(arms, Family("bernoulli") if family is None else family)
        self.first, self.led, self.led_sum = np.zeros((3, arms))
        self.tilts = new_tilts(self.family.noise)

    def observe(self, arm: int, reward: float) -> None:
        """Add a trial."""
        self._check(arm, reward)
        if self.pulls[arm] == 0:
            self.first[arm] = reward
        means = np.empty(self.arms)
        shrunk_means(self.pulls, self.sums, COUNT_SHRINKAGE, means)
        if np.argmax(means) == arm:
            self.led[arm] += 1
            self.led_sum[arm] += reward
        self._count(arm, reward)

    @property
    def samples(self) -> Samples:
        """What the evidence is computed from."""
        return samples_of(self.pulls, self.sums, self.first, self.led, self.led_sum, self.family.noise)


class Pairs(Counts):
    """The average over rivals of the evidence that the rival is better."""

    @property
    def log_value(self) -> Floats:
        """Minus infinity for the arm that leads."""
        return against_best(self.samples, self.tilts, self.family.noise)


class Pooled(Counts):
    """The evidence that no model in which the arm is the best explains the counts."""

    @property
    def log_value(self) -> Floats:
        """The least over such models."""
        behind = np.zeros(self.arms, np.bool_)
        return pooled(self.samples, self.tilts, TILT_TASK, self.family.noise, 0.0, behind)


class Universal(Counts):
    """Universal inference: the likelihood ratio less what the mixtures cost. For reference."""

    @property
    def log_value(self) -> Floats:
        """The likelihood ratio of a mixture to the closest model in which the arm is the best."""
        return universal(self.samples, self.family.noise)

"""A policy that keeps its risks and needs fewer samples than K, Theorem 1 as printed.

There is one task with two predictors, and delta_g = (G - 1) delta_h. The policy expects certain means, under
which (1, 1) is the best arm, and makes use of all the mistakes that its risks allow: before the first sample
it answers with another representation, each as often, with probability nearly delta_g, and with (1, 2) with
probability nearly delta_h. Otherwise it samples.

1. *Representations.* Every arm is sampled once in a round. For arms c and b of different representations
   a wealth is multiplied by 1 + 0.9 (y_c - y_b), a bet against "b is at least as good as c"; b is out when
   one of these has reached 1 / slack. A representation is out when both of its arms are.
2. *Predictors*, when one representation is left: its arms in pairs, with bets 1 + beta (y_1 - y_2) and
   1 - beta (y_1 - y_2). The first wealth rules out predictor 2 at 1 / level (of the other representations: at
   1 / slack), the second one predictor 1 at 1 / slack; beta is the best bet for the means that are expected.

After 200,000 samples in one part it hands over to any policy with the risks (slack, slack) that ends with
probability 1.

*Why the risks are kept*, whatever the means are. Let n = 2 G be the number of arms. After samples, a wrong
representation is answered only if the best arm went out in part 1, by one of fewer than n - 1 bets, or after
the hand-over: with probability at most n slack (Ville). So

- if 1 is the best representation, the answer has another one with probability at most
  early_g + n slack <= delta_g. It has 1 and misses the best predictor with probability at most
  early_h + 2 slack <= delta_h if that is 1, and (1 - early_g - early_h) level + slack <= delta_h if it is 2;
- if k > 1 is the best one, others are answered with probability at most
  early_h + early_g (G - 2) / (G - 1) + n slack <= delta_g, and k with a wrong predictor with probability at
  most early_g / (G - 1) + 2 slack <= delta_h.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.bounds.lower import LowerBound, lower_bound
from osrl.model.instance import Instance

MOST = 200_000
CHUNK = 2048


class Early(NamedTuple):
    """A policy that answers at once as often as its risks allow; ``expected`` are the means (G, 2)."""

    delta_h: float
    expected: NDArray[np.float64]

    @property
    def delta_g(self) -> float:
        """Return the risk of a wrong representation."""
        return (len(self.expected) - 1) * self.delta_h

    @property
    def slack(self) -> float:
        """Return the risk of each test that is not to matter."""
        return 1e-3 * self.delta_h

    @property
    def early_g(self) -> float:
        """Return the chance to answer with another representation than the first, at once."""
        return (len(self.expected) - 1) * (self.delta_h - 10 * self.slack)

    @property
    def early_h(self) -> float:
        """Return the chance to answer with the second predictor of the first representation, at once."""
        return self.delta_h - 10 * self.slack

    @property
    def level(self) -> float:
        """Return the risk of the test by which the second predictor of the first representation goes out."""
        return (self.delta_h - 10 * self.slack) / (1 - self.early_g - self.early_h)

    @property
    def stake(self) -> float:
        """Return the stake that lets the wealth grow fastest for the means that are expected."""
        one, two = self.expected[0]
        up, down = one * (1 - two), two * (1 - one)
        return float((up - down) / (up + down))


def play_early(
    policy: Early, means: NDArray[np.float64], rng: np.random.Generator
) -> tuple[int, tuple[int, int] | None]:
    """Play one run on ``means`` (G, 2): the samples, and the answer; None where it hands over."""
    chance = rng.random()
    if chance < policy.early_g:
        return 0, (1 + int(rng.integers(len(means) - 1)), 0)
    if chance < policy.early_g + policy.early_h:
        return 0, (0, 1)
    g, samples = _representation(policy, means, rng)
    if g is None:
        return samples, None
    level = policy.level if g == 0 else policy.slack
    h, more = _predictor(policy, means[g], level, rng)
    return samples + more, None if h is None else (g, h)


def _representation(policy: Early, means: NDArray[np.float64], rng: np.random.Generator) -> tuple[int | None, int]:
    n = means.size
    apart = np.repeat(np.arange(n // 2), 2)[:, None] != np.repeat(np.arange(n // 2), 2)
    wealth, out, samples = np.zeros((n, n)), np.zeros(n, np.bool_), 0
    while samples < MOST:
        y = (rng.random(n) < means.ravel()).astype(float)
        wealth += np.log1p(0.9 * (y[:, None] - y))
        out |= (apart & (wealth >= -math.log(policy.slack))).any(axis=0)
        samples += n
        left = np.flatnonzero(~out.reshape(-1, 2).all(axis=1))
        if left.size <= 1:
            return (int(left[0]) if left.size else 0), samples
    return None, samples


def _predictor(
    policy: Early, means: NDArray[np.float64], level: float, rng: np.random.Generator
) -> tuple[int | None, int]:
    stake, pairs, up, down = policy.stake, 0, 0.0, 0.0
    while 2 * pairs < MOST:
        difference = (rng.random((CHUNK, 2)) < means).astype(float) @ np.array([1.0, -1.0])
        ups, downs = up + np.log1p(stake * difference).cumsum(), down + np.log1p(-stake * difference).cumsum()
        found = np.flatnonzero((ups >= -math.log(level)) | (downs >= -math.log(policy.slack)))
        if found.size:
            first = int(found[0])
            return (0 if ups[first] >= -math.log(level) else 1), 2 * (pairs + first + 1)
        pairs, up, down = pairs + CHUNK, float(ups[-1]), float(downs[-1])
    return None, 2 * pairs


def below(G: int, gap: float, runs: int, seed: int = 0) -> tuple[float, float, LowerBound]:
    """Return the mean samples of the policy where its expectations are true, with standard error, and the bounds."""
    means = np.full((G, 2), 0.02)
    means[0] = 0.5 + gap, 0.5 - gap
    policy, rng = Early(0.1, means), np.random.default_rng(seed)
    samples = np.array([play_early(policy, means, rng)[0] for _ in range(runs)])
    bound = lower_bound(Instance.bernoulli(means[None]), delta_g=policy.delta_g, delta_h=policy.delta_h)
    return float(samples.mean()), float(samples.std() / math.sqrt(runs)), bound

"""The shifted bets of a tolerance, transcribed literally: slow, and without anything of osrl."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SHRINKAGE, SAFE = 60.0, 0.98


def shrunk(rewards: list[tuple[int, float]], arms: int) -> NDArray[np.float64]:
    """Return estimates drawn to the mean of all rewards, as if every arm had `SHRINKAGE` more of it."""
    centre = (1 + sum(y for _, y in rewards)) / (2 + len(rewards))
    own = [[y for a, y in rewards if a == arm] for arm in range(arms)]
    return np.array([(sum(ys) + SHRINKAGE * centre) / (len(ys) + SHRINKAGE) for ys in own])


class Comparison:
    """The wealth of every bet against "b is better than c by epsilon"."""

    def __init__(self, b: int, c: int, epsilon: float, beta: NDArray[np.float64], share: NDArray[np.float64]):
        self.b, self.c, self.epsilon = b, c, epsilon
        self.beta, self.share = beta, share
        self.factors = np.ones(len(beta))

    def play(self, past: list[tuple[int, float]], w: NDArray[np.float64], drawn: int, y: float) -> None:
        """Bet by the past, then see arm ``drawn``, with probabilities ``w``, bring ``y``."""
        b, c = self.b, self.c
        if drawn not in (b, c):
            return
        mu = shrunk(past, len(w))
        m = (w[b] * mu[b] + w[c] * mu[c]) / (w[b] + w[c])
        xi = {c: w[b] / (w[b] + w[c]), b: -w[c] / (w[b] + w[c])}
        shift = self.epsilon * w[b] * w[c] / (w[b] + w[c]) ** 2
        most = SAFE / max(xi[c] * m, -xi[b] * (1 - m))
        for j, beta in enumerate(self.beta):
            best = max(mu[c] - mu[b] + self.epsilon, 0) / (m * (1 - m))
            bet = min(best if beta < 0 else beta, most)
            self.factors[j] *= 1 + bet * (xi[drawn] * (y - m) + shift)

    def wealth(self) -> float:
        """Return the mixture of all bets."""
        return float(self.share @ self.factors)

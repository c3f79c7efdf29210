"""The guardrail: a second reward, ``harm``, with a limit that no arm may pass on average.

Against "no arm of this representation does more harm than the limit" one bets on every trial of it that harm
is above the limit: the wealth is multiplied by 1 + b (harm - limit). Harm lies in [0, 1] and b < 1 / limit,
so this is positive, and under the null its expectation is at most 1, whichever of its arms is drawn, in
whichever task. A mixture over some b is a supermartingale, and reaches 1 / `LEVEL` with probability at most
`LEVEL`, ever. Likewise for each predictor. What reaches it is withdrawn.

Trials whose harm is not known, because they are out, lost or were told without it, count by their worst
factor, 1 - b limit: no reason for being late or lost can bring a false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osrl.arrays import Floats
from osrl.study.events import Created

LEVEL = 0.05  # the probability that a representation, or a predictor, is withdrawn though it is harmless
_BETS = np.array([0.05, 0.2, 0.5, 0.9])  # b, times the limit


class Harm:
    """Bets against every representation and predictor of a stage."""

    def __init__(self, created: Created, limit: float) -> None:
        self._limit = limit
        self._names = (
            *(("representation", name) for name in created.representations),
            *(("predictor", name) for name in created.predictors),
        )
        self._first = len(created.representations)
        self._unknown: Floats = np.zeros(len(self._names))  # trials whose harm is not known
        self._wealth: Floats = np.zeros((len(self._names), _BETS.size))  # of the others, in logarithms

    def hand_out(self, g: int, h: int) -> None:
        """A trial goes out."""
        self._unknown[[g, self._first + h]] += 1.0

    def take(self, g: int, h: int, harm: float) -> None:
        """The harm of a trial that was handed out."""
        rows = [g, self._first + h]
        self._unknown[rows] -= 1.0
        self._wealth[rows] += np.log1p(_BETS * (harm / self._limit - 1.0))

    @property
    def log_evidence(self) -> Floats:
        """Against each representation, then each predictor: that it does no more harm than the limit."""
        held = self._wealth + self._unknown[:, None] * np.log1p(-_BETS)
        evidence: Floats = np.logaddexp.reduce(held, axis=1) - math.log(_BETS.size)
        return evidence

    def found(self) -> tuple[str, str] | None:
        """What is shown to do too much harm: ``representation`` or ``predictor``, and its name."""
        evidence = self.log_evidence
        worst = int(evidence.argmax())
        return self._names[worst] if evidence[worst] >= math.log(1 / LEVEL) else None

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """What a snapshot has to hold."""
        yield "harm.unknown", self._unknown
        yield "harm.wealth", self._wealth

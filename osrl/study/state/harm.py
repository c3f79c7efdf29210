"""The guardrail: a second reward, ``harm``, with a limit that no arm may pass on average.

Against "no arm of this representation does more harm than the limit" one bets on every trial of it that harm
is above the limit: the wealth is multiplied by 1 + b (harm - limit). Harm lies in [0, 1] and b < 1 / limit,
so this is positive, and under the null its expectation is at most 1, whichever of its arms is drawn, in
whichever task. A mixture over some b is a supermartingale, and reaches 1 / `LEVEL` with probability at most
`LEVEL`, ever. Likewise for each predictor. What reaches it is withdrawn.

The wealth belongs to a name and is kept for the whole study: a new stage does not begin it again, and a name
that is withdrawn and added again goes on with what it has. What is withdrawn must also be shown to be harmful
by the arms that are there: a predictor is not blamed for the harm of a representation that is gone. The
smaller of the two wealths counts, so the bound stays. (Studies that were begun before this was so,
`Created.revision` 0, begin again with each stage, and have the risk in each.)

Trials whose harm is not known, because they are out, lost or were told without it, count by their worst
factor, 1 - b limit: no reason for being late or lost can bring a false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.model.arrays import Floats, Integers
from osrl.study.log.events import Created

LEVEL = 0.05  # the probability that a representation, or a predictor, is withdrawn though it is harmless
HARM_RULE = "the limit of harm"  # who has withdrawn an arm by rule
_BETS = np.array([0.05, 0.2, 0.5, 0.9])  # b, times the limit
_TOLD, _SUM, _UNKNOWN = range(3)  # columns of the counts


class HarmOf(NamedTuple):
    """The harm that a representation or a predictor has done, in the trials whose harm is known.

    ``mean`` is None without such a trial; ``unknown``: trials that are out, lost, or were told without it.
    At an ``evidence`` of `1 / LEVEL` it is withdrawn.
    """

    kind: str
    name: str
    told: int
    mean: float | None
    unknown: int
    evidence: float


class Harm:
    """Bets against every representation and predictor that the study has had, arm by arm."""

    def __init__(self, created: Created, limit: float) -> None:
        self._limit = limit
        self._rows: dict[tuple[str, str], int] = {}  # of names
        self._arms: dict[tuple[str, str], int] = {}
        self._counts: Floats = np.zeros((0, 3))  # of arms
        self._wealth: Floats = np.zeros((0, _BETS.size))  # of trials whose harm is known, in logarithms
        self.begin_stage(created)

    def begin_stage(self, created: Created) -> None:
        """Use these names from now on; those that are new have no evidence against them."""
        self._names = (
            *(("representation", name) for name in created.representations),
            *(("predictor", name) for name in created.predictors),
        )
        for name in self._names:
            self._rows.setdefault(name, len(self._rows))
        here = [(g, h) for g in created.representations for h in created.predictors]
        for arm in here:
            self._arms.setdefault(arm, len(self._arms))
        new = len(self._arms) - len(self._wealth)
        self._counts = np.concatenate([self._counts, np.zeros((new, 3))])
        self._wealth = np.concatenate([self._wealth, np.zeros((new, _BETS.size))])
        self._here = np.zeros((len(self._arms), 1))
        self._here[[self._arms[arm] for arm in here]] = 1.0
        both = [(self._rows["representation", g], self._rows["predictor", h]) for g, h in self._arms]
        self._of: Integers = np.array(both, np.int64)  # the rows of each arm

    def issue(self, representation: str, predictor: str) -> None:
        """Count a trial that is issued."""
        self._counts[self._arms[representation, predictor], _UNKNOWN] += 1.0

    def tell(self, representation: str, predictor: str, harm: float) -> None:
        """Take in the harm of a trial."""
        arm = self._arms[representation, predictor]
        self._counts[arm] += (1.0, harm, -1.0)
        self._wealth[arm] += np.log1p(_BETS * (harm / self._limit - 1.0))

    def _by_name(self, of_arms: Floats) -> Floats:
        """Return sums over the arms of each representation of the stage, then of each predictor."""
        sums = np.zeros((len(self._rows), of_arms.shape[1]))
        for rows in self._of.T:
            np.add.at(sums, rows, of_arms)
        return sums[[self._rows[name] for name in self._names]]

    @property
    def log_evidence(self) -> Floats:
        """The log evidence that a representation of the stage, then a predictor, does not keep to the limit."""
        held = self._wealth + self._counts[:, _UNKNOWN, None] * np.log1p(-_BETS)
        evidence: Floats = np.minimum(
            np.logaddexp.reduce(self._by_name(held), axis=1),
            np.logaddexp.reduce(self._by_name(held * self._here), axis=1),
        )
        return evidence - math.log(_BETS.size)

    def found(self) -> tuple[str, str] | None:
        """Return what is shown to do too much harm: ``representation`` or ``predictor``, and its name."""
        evidence = self.log_evidence
        worst = int(evidence.argmax())
        return self._names[worst] if evidence[worst] >= math.log(1 / LEVEL) else None

    def table(self) -> tuple[HarmOf, ...]:
        """Return what each representation and predictor of the stage has done, over the whole study."""
        found = []
        counts = self._by_name(self._counts).tolist()
        for name, of, evidence in zip(self._names, counts, self.log_evidence.tolist(), strict=True):
            told, total, unknown = of
            mean = total / told if told else None
            found.append(HarmOf(*name, int(told), mean, int(unknown), math.exp(min(evidence, 700.0))))
        return tuple(found)

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Return the arrays that a snapshot holds."""
        yield "harm.counts", self._counts
        yield "harm.wealth", self._wealth

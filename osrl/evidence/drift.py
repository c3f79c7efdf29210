"""Evidence that means have changed, which evidence from counts assumes not to happen (bets do not).

Cut a log after some row, and for each arm let M_a be the product of the mixtures of its rewards before and
after the cut (`osrl.evidence.counts`). For any constant mean lambda, M_a / p_lambda is a martingale. So

    E = average over cuts of prod over arms of (1 - share + share * M_a / max over lambda of p_lambda)

has an expectation of at most 1 if every mean has stayed the same (a row changes one factor), and grows if
some of them have not. Two shares are averaged as well: a drift may concern one arm or all. Unlike the
evidence about arms it is for a log of given length, not for an evaluation after every row.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from osrl.evidence.counts import samples_of
from osrl.model.arrays import Floats, Integers
from osrl.model.families import divergence

DRIFT_CUTS = 32  # at equal distances
DRIFT_LEVEL = 0.01  # probability of a false alarm


def drift_evidence(arms: Integers, rewards: Floats, noise: float) -> float:
    """Return log evidence against "every arm's mean stayed the same"; ``arms`` (rows,) in the order of the rows."""
    n = int(arms.max(initial=0)) + 1
    cuts = np.unique(np.linspace(0, arms.size, DRIFT_CUTS + 1).astype(int)[1:-1])
    logs = []
    for cut in cuts[cuts > 0]:
        parts = [_samples(arms[part], rewards[part], n) for part in (slice(cut), slice(cut, None))]
        each = _both(parts, noise)[np.unique(arms)]
        for share in (0.5, 1.0 / max(each.size, 2)):
            logs.append(float(np.logaddexp(math.log1p(-share), math.log(share) + each).sum()))
    return float(logsumexp(logs)) - math.log(len(logs)) if logs else 0.0


def _samples(arms: Integers, rewards: Floats, n: int) -> tuple[Floats, Floats, Floats]:
    """Return number, sum and first of the rewards of every arm (n,)."""
    first = np.zeros(n)
    there, where = np.unique(arms, return_index=True)
    first[there] = rewards[where]
    number, total = np.zeros((2, n))
    np.add.at(number, arms, 1.0)
    np.add.at(total, arms, rewards)
    return number, total, first


def _both(parts: list[tuple[Floats, Floats, Floats]], noise: float) -> Floats:
    """Return log M_a - log p (n,) at the mean of the rewards in question, for every arm."""
    nobody = np.zeros(parts[0][0].size)  # who led does not matter here
    before, after = (samples_of(*part, nobody, nobody, noise) for part in parts)
    number = before.number + after.number
    total = before.number * before.mean + after.number * after.mean
    level = total / np.maximum(number, 1.0)
    gain = [
        sum(k * divergence(float(m), float(at), noise) for k, m in ((k0, m0), (k1, m1)) if k > 0)
        for k0, m0, k1, m1, at in zip(before.number, before.mean, after.number, after.mean, level, strict=True)
    ]
    return np.asarray(before.excess + after.excess + np.array(gain))

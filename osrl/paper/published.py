"""The published numbers, transcribed from the paper, and whether ours agree with them.

*On the Sample Complexity of Representation Learning in Multi-task Bandits with Global and Local
Structure*: Tables 1 and 2, and what its section on the experiments says in words. Two numbers agree when they
differ by no more than sampling error, and rounding where a number is printed.
"""

from __future__ import annotations

import math
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np

from osrl.report.table import Cell

PUBLISHED_RUNS = 1120
RISKS = (0.1, 0.05, 0.01)  # delta = delta_G = delta_H
SIGMA = 1e5
FILTER_ORDER, FILTER_FREQUENCY = 8, 0.025  # Butterworth low-pass, as a share of the Nyquist frequency

TOTAL, PHASE_1, PHASE_2, TAS = "total", "phase 1", "phase 2", "tas"


class Published(NamedTuple):
    """One row of Table 1: samples over 1120 runs. ``ci975`` is the half-width of the 97.5 % interval."""

    average: float
    ci975: float
    min: float
    max: float
    std: float


TABLE_1 = {
    (0.1, TOTAL): Published(21278.80, 430.37, 5254.0, 46876.0, 6423.03),
    (0.1, PHASE_1): Published(3578.38, 43.31, 2163.0, 7014.0, 646.46),
    (0.1, PHASE_2): Published(17700.42, 428.39, 1554.0, 43270.0, 6393.44),
    (0.1, TAS): Published(26456.83, 510.60, 4544.0, 54566.0, 7620.35),
    (0.05, TOTAL): Published(22671.50, 420.40, 6068.0, 48184.0, 6274.13),
    (0.05, PHASE_1): Published(3651.99, 41.86, 2358.0, 6245.0, 624.72),
    (0.05, PHASE_2): Published(19019.51, 417.81, 2207.0, 45298.0, 6235.60),
    (0.05, TAS): Published(27735.38, 534.35, 7675.0, 58227.0, 7974.87),
    (0.01, TOTAL): Published(25765.90, 436.13, 8951.0, 55809.0, 6508.94),
    (0.01, PHASE_1): Published(3829.56, 45.93, 2358.0, 7354.0, 685.44),
    (0.01, PHASE_2): Published(21936.34, 434.09, 5398.0, 52002.0, 6478.57),
    (0.01, TAS): Published(30970.94, 536.99, 9538.0, 70319.0, 8014.26),
}

# Table 2, (X, G, H): average proportion of pulls at tau_G, and the allocation printed as q_sigma*(mu).
PULLS = np.array(
    [
        [[0.14, 0.05], [0.02, 0.02], [0.12, 0.15]],
        [[0.14, 0.05], [0.12, 0.16], [0.02, 0.02]],
    ]
)
ALLOCATION = np.array(
    [
        [[0.18, 5e-3], [6e-4, 7e-4], [0.13, 0.18]],
        [[0.18, 5e-3], [0.13, 0.18], [6e-4, 7e-4]],
    ]
)
PULLS_DIGIT = 0.01  # one unit of the last printed digit
ALLOCATION_DIGIT = np.where(ALLOCATION >= 0.1, 0.01, np.where(ALLOCATION >= 1e-3, 1e-3, 1e-4))

# In words. "between delta = 0.1 and 0.05 there is a relative increase ... of roughly 2 %", then "5 %";
# both are true of phase 1.
GROWTH = {(0.1, 0.05): 0.02, (0.05, 0.01): 0.05}
# "the average absolute change in each component of the reference vector is very small, below 3 % after
# few dozens of steps"
SUP_CHANGE, SUP_CHANGE_FROM = 0.03, 36
# "the relative difference between q_sigma*(mu-hat_t) and q_sigma*(mu) around t = 2500 is upper bounded by
# roughly 1/9"
DISTANCE, DISTANCE_AT = 1 / 9, 2500


MAX_Z = 3.5  # standard errors of the difference within which two numbers agree

AGREES, DIFFERS, NOT_JUDGED = "agrees", "differs", "not judged"
_TONES = {AGREES: "good", DIFFERS: "bad", NOT_JUDGED: "quiet"}


class Verdict(NamedTuple):
    """Agrees, differs or not judged; ``z`` is the difference in standard errors, where there are some."""

    word: str
    z: float | None = None
    why: str = ""

    def record(self) -> dict[str, Any]:
        """Return the columns of a verdict in CSV and JSON."""
        return {"z": self.z, "verdict": self.word, "why": self.why}


def compare(ours: float, error: float, published: float, published_error: float, why: str) -> Verdict:
    """Compare two estimates with these standard errors; ``why`` is what explains a difference.

    >>> compare(104.0, 1.0, 100.0, 1.0, "").word, compare(106.0, 1.0, 100.0, 1.0, "a longer test")[::2]
    ('agrees', ('differs', 'a longer test'))
    >>> compare(104.0, math.nan, 100.0, 1.0, "").word
    'not judged'
    """
    both = math.hypot(error, published_error)
    if not math.isfinite(both):
        return Verdict(NOT_JUDGED, None, "too few runs")
    z = (ours - published) / both
    return Verdict(AGREES, z) if abs(z) <= MAX_Z else Verdict(DIFFERS, z, why or "no known reason")


def compare_printed(ours: float, error: float, printed: float, digit: float, why: str) -> Verdict:
    """Compare a number with a printed one that was rounded to ``digit``; ``error`` is that of both.

    >>> compare_printed(0.1449, 0.0, 0.14, 0.01, "").word, compare_printed(0.1451, 0.0, 0.14, 0.01, "").word
    ('agrees', 'differs')
    """
    if not math.isfinite(error):
        return Verdict(NOT_JUDGED, None, "too few runs")
    beyond = max(abs(ours - printed) - digit / 2, 0.0)  # what rounding does not explain
    z = math.copysign(beyond / error, ours - printed) if error > 0 else None
    agrees = beyond <= MAX_Z * error + 1e-12
    return Verdict(AGREES, z) if agrees else Verdict(DIFFERS, z, why or "no known reason")


class Footnotes:
    """Verdicts in a table: the reasons stand below it, each once, under a letter."""

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def cell(self, verdict: Verdict) -> Cell:
        """Return the verdict in a few letters."""
        letter = ""
        if verdict.why:
            if verdict.why not in self._reasons:
                self._reasons.append(verdict.why)
            letter = f" {ascii_lowercase[self._reasons.index(verdict.why)]}"
        return Cell(f"{verdict.word}{letter}", _TONES[verdict.word])

    def notes(self) -> list[str]:
        """Return the reasons, in the order of their letters."""
        return [f"{letter}  {why}" for letter, why in zip(ascii_lowercase, self._reasons, strict=False)]

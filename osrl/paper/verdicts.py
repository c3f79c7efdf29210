"""Does a number of ours agree with the published one? Within sampling error, or not, and then why."""

from __future__ import annotations

import math
from string import ascii_lowercase
from typing import Any, NamedTuple

from osrl.report.table import Cell

LIMIT = 3.5  # standard errors of the difference within which two numbers agree

AGREES, DIFFERS, NOT_JUDGED = "agrees", "differs", "not judged"
_TONES = {AGREES: "good", DIFFERS: "bad", NOT_JUDGED: "quiet"}


class Verdict(NamedTuple):
    """Agrees, differs or not judged; ``z`` is the difference in standard errors, where there are some."""

    word: str
    z: float | None = None
    why: str = ""

    def record(self) -> dict[str, Any]:
        """The columns of a verdict in CSV and JSON."""
        return {"z": self.z, "verdict": self.word, "why": self.why}


def compare(ours: float, error: float, published: float, published_error: float, why: str) -> Verdict:
    """Whether two estimates with these standard errors agree; ``why`` is what explains a difference.

    >>> compare(104.0, 1.0, 100.0, 1.0, "").word, compare(106.0, 1.0, 100.0, 1.0, "a longer test")[::2]
    ('agrees', ('differs', 'a longer test'))
    >>> compare(104.0, math.nan, 100.0, 1.0, "").word
    'not judged'
    """
    both = math.hypot(error, published_error)
    if not math.isfinite(both):
        return Verdict(NOT_JUDGED, None, "too few runs")
    z = (ours - published) / both
    return Verdict(AGREES, z) if abs(z) <= LIMIT else Verdict(DIFFERS, z, why or "no known reason")


def compare_printed(ours: float, error: float, printed: float, digit: float, why: str) -> Verdict:
    """Whether a number agrees with a printed one that was rounded to ``digit``; ``error`` is that of both.

    >>> compare_printed(0.1449, 0.0, 0.14, 0.01, "").word, compare_printed(0.1451, 0.0, 0.14, 0.01, "").word
    ('agrees', 'differs')
    """
    if not math.isfinite(error):
        return Verdict(NOT_JUDGED, None, "too few runs")
    beyond = max(abs(ours - printed) - digit / 2, 0.0)  # what rounding does not explain
    z = math.copysign(beyond / error, ours - printed) if error > 0 else None
    agrees = beyond <= LIMIT * error + 1e-12
    return Verdict(AGREES, z) if agrees else Verdict(DIFFERS, z, why or "no known reason")


class Footnotes:
    """Verdicts in a table: the reasons stand below it, each once, under a letter."""

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def cell(self, verdict: Verdict) -> Cell:
        """The verdict in a few letters."""
        letter = ""
        if verdict.why:
            if verdict.why not in self._reasons:
                self._reasons.append(verdict.why)
            letter = f" {ascii_lowercase[self._reasons.index(verdict.why)]}"
        return Cell(f"{verdict.word}{letter}", _TONES[verdict.word])

    def notes(self) -> list[str]:
        """The reasons, in the order of their letters."""
        return [f"{letter}  {why}" for letter, why in zip(ascii_lowercase, self._reasons, strict=False)]

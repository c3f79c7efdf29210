"""Positions of the marks of a chart, in percent of its width and height, so that it fits any screen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Tick(NamedTuple):
    """A line of the grid, and its label."""

    at: float  # in percent
    label: str


class Scale(NamedTuple):
    """Numbers from ``low`` to ``high``, as percent of a length."""

    low: float
    high: float

    def at(self, value: float | None) -> float | None:
        """Return where a number is on the length, never outside of it; None where there is none."""
        if value is None:
            return None
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def ticks(self, most: int = 5) -> list[Tick]:
        """Return ticks at round numbers along the length.

        >>> [tick.label for tick in Scale(0.0, 1.0).ticks()]
        ['0', '0.2', '0.4', '0.6', '0.8', '1.0']
        >>> [tick.label for tick in Scale(0.0, 5300.0).ticks(3)]
        ['0', '2,000', '4,000']
        """
        step = _step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        places = [i * step for i in range(first, last + 1)]
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return [Tick(self.at(each) or 0.0, _label(each, decimals)) for each in places]


def _step(width: float) -> float:
    """Return the round number next to a width."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= width * (1 - 1e-9))


def _label(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return ("−" + text[1:] if text.startswith("-") else text).rstrip() if value else "0"


def scale_of(values: Iterable[float | None]) -> Scale:
    """Return a scale that has room for all these numbers."""
    known = [each for each in values if each is not None and math.isfinite(each)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    step = _step((high - low) / 5)
    return Scale(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """Return points in percent, as SVG has them; the second number points upwards."""
    return " ".join(f"{x:.2f},{100 - y:.2f}" for x, y in points)

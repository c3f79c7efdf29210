"""The least value of a convex function of one number, between two tangents that close in on it.

A search begins with `new_bracket`, looks somewhere, narrows the bracket by what it saw there, and asks
`next_level` where to look next. `above_tangents` is a lower bound all the time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from osrl.jit.kernel import kernel_in_place

STEPS = 100  # of a search, at most
PRECISE = 1e-10  # where it ends: the bound lies below the minimum by no more than this
BEYOND = 1.1  # times the step of Newton's method, while the minimum was seen from one side only


class Point(NamedTuple):
    """A convex function at a point; the value is -inf where nobody has looked."""

    value: float
    slope: float
    bend: float  # the second derivative, or nearly


class Bracket(NamedTuple):
    """Two ends with the minimum between them, and the function there."""

    low: float
    below: Point
    high: float
    above: Point


@kernel_in_place
def new_bracket(low: float, high: float) -> Bracket:
    """Between two ends at which nobody has looked yet."""
    return Bracket(low, Point(-math.inf, -1.0, 0.0), high, Point(-math.inf, 1.0, 0.0))


@kernel_in_place
def narrowed(between: Bracket, level: float, here: Point) -> Bracket:
    """The bracket after a look at ``level``: the minimum lies where the function falls from there."""
    if here.slope < 0.0:
        return Bracket(level, here, between.high, between.above)
    return Bracket(between.low, between.below, level, here)


@kernel_in_place
def above_tangents(between: Bracket) -> float:
    """What the function does not fall short of in the bracket."""
    below, above = between.below, between.above
    width = between.high - between.low
    if below.value == -math.inf or above.value == -math.inf:
        return max(below.value + below.slope * width, above.value - above.slope * width)
    crossing = (above.value - below.value - above.slope * width) / (below.slope - above.slope)
    return below.value + below.slope * crossing


@kernel_in_place
def next_level(between: Bracket, level: float, step: int, stride: float) -> float:
    """Where to look next.

    ``level`` is the end that was looked at last. By Newton's method from there; every fourth time, or where
    that leads outside, in the middle, or outwards while one end was not looked at.
    """
    low, below, high, above = between
    here, known = below, below.value > -math.inf and above.value > -math.inf
    if level == high:
        here = above
    if step % 4 < 3 and here.bend > 0.0:
        found = level - (1.0 if known else BEYOND) * here.slope / here.bend
        if low < found < high:
            return found
    if above.value == -math.inf and low + stride < high:
        return low + stride
    if below.value == -math.inf and high - stride > low:
        return high - stride
    return 0.5 * (low + high)

"""How numbers are written: enough digits to be useful, never more than are certain."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

LEAST_PLAIN, MOST_PLAIN = 1e-9, 1e9  # outside, numbers are written with an exponent


def count(value: float) -> str:
    """A number of samples in running text.

    >>> count(2820.9754), count(44.89), count(0.0123), count(3.2e11), count(math.inf)
    ('2,821', '45', '0.012', '3.2e+11', 'infinitely many')
    """
    if math.isinf(value):
        return "infinitely many"
    if value >= MOST_PLAIN or 0 < value < 10:
        return f"{value:.2g}"
    return f"{value:,.0f}"


def measure(value: float) -> str:
    """A computed number, with three decimals or four digits, whichever says more.

    >>> measure(44.891882), measure(0.00123456), measure(0.0), measure(math.inf)
    ('44.892', '0.001235', '0', 'infinite')
    """
    if math.isinf(value):
        return "infinite"
    if value >= MOST_PLAIN or 0 < value < LEAST_PLAIN:
        return f"{value:.6e}"
    return f"{value:,.{_decimals(value)}f}" if value else "0"


def interval(lower: float, upper: float) -> str:
    """A certified interval, rounded outwards so that what is written is certified as well.

    >>> interval(2820.97543, 2820.97572), interval(1, math.inf), interval(0, 0)
    ('2,820.975 to 2,820.976', '1.000 to infinite', '0')
    >>> interval(1.23456789e20, 1.23456799e20)
    '1.234567e+20 to 1.234568e+20'
    """
    if lower == upper or math.isinf(lower):
        return measure(lower)
    return f"{_rounded(lower, ROUND_FLOOR)} to {_rounded(upper, ROUND_CEILING)}"


def percent(share: float) -> str:
    """A share in running text.

    >>> percent(0.2483), percent(0.0031), percent(0.00001)
    ('25 %', '0.3 %', 'under 0.1 %')
    """
    if share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.{0 if share >= 0.01 else 1}f} %"


def relative_width(lower: float, upper: float) -> float:
    """How wide a certified interval is, compared with its upper end."""
    if lower == upper:
        return 0.0
    return 1.0 if math.isinf(upper) else (upper - lower) / upper


def _decimals(value: float) -> int:
    return max(3, 3 - math.floor(math.log10(value))) if value else 3


def _rounded(value: float, direction: str) -> str:
    if math.isinf(value):
        return measure(value)
    if value >= MOST_PLAIN or 0 < value < LEAST_PLAIN:
        return f"{Context(prec=7, rounding=direction).create_decimal_from_float(value):.6e}"
    step = Decimal(1).scaleb(-_decimals(value))
    return f"{Decimal(value).quantize(step, rounding=direction):,}"

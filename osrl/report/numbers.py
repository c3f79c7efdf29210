"""Numbers, risks, times and lists as text: enough digits to be useful, never more than are certain.

Times are microseconds since 1970 (UTC) and durations microseconds until they come here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from osrl.study.log.events import as_datetime

LEAST_PLAIN, MOST_PLAIN = 1e-9, 1e9  # outside, numbers are written with an exponent
RISK_NOISE = 1e-6  # relative error of a computed risk, which must not round it up
MAX_NAMES = 6  # names in a sentence before the rest are only counted
SECOND, DAY = 10**6, 86_400 * 10**6  # microseconds


def finite(value: float | None) -> float | None:
    """Return the value, or None where JSON has no number for it."""
    return value if value is not None and math.isfinite(value) else None


def count(value: float) -> str:
    """Write a number of samples in running text.

    >>> count(2820.9754), count(44.89), count(0.0123), count(3.2e11), count(math.inf)
    ('2,821', '45', '0.012', '3.2e+11', 'infinitely many')
    """
    if math.isinf(value):
        return "infinitely many"
    if value >= MOST_PLAIN or 0 < value < 10:
        return f"{value:.2g}"
    return f"{value:,.0f}"


def two_digits(value: float) -> str:
    """Write a number rounded to two digits.

    >>> two_digits(14_243.2), two_digits(324), two_digits(8.4), two_digits(80)
    ('14,000', '320', '8', '80')
    """
    digits = max(0, math.floor(math.log10(value)) - 1) if value >= 1 else 0
    return f"{round(value, -digits):,.0f}"


def count_noun(number: float, one: str, many: str | None = None) -> str:
    """Write a count with its noun.

    >>> count_noun(1, "trial"), count_noun(1200, "trial"), count_noun(2, "has", "have")
    ('1 trial', '1,200 trials', '2 have')
    """
    return f"{number:,.0f} {one if number == 1 else many or one + 's'}"


def join_words(parts: Sequence[str]) -> str:
    """Write a list in a sentence.

    >>> join_words(["a"]), join_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def first_names(names: Sequence[str]) -> str:
    """Write names in a sentence; where there are many, the first of them."""
    rest = len(names) - MAX_NAMES
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:MAX_NAMES])} and {rest} more"


# Computed numbers


def measure(value: float) -> str:
    """Write a computed number with three decimals or four digits, whichever says more.

    >>> measure(44.891882), measure(0.00123456), measure(0.0), measure(math.inf)
    ('44.892', '0.001235', '0', 'infinite')
    """
    if math.isinf(value):
        return "infinite"
    if value >= MOST_PLAIN or 0 < value < LEAST_PLAIN:
        return f"{value:.6e}"
    return f"{value:,.{_decimals(value)}f}" if value else "0"


def certified_interval(lower: float, upper: float) -> str:
    """Write a certified interval, rounded outwards so that the text is certified as well.

    >>> certified_interval(2820.97543, 2820.97572), certified_interval(1, math.inf), certified_interval(0, 0)
    ('2,820.975 to 2,820.976', '1.000 to infinite', '0')
    >>> certified_interval(1.23456789e20, 1.23456799e20)
    '1.234567e+20 to 1.234568e+20'
    """
    if lower == upper or math.isinf(lower):
        return measure(lower)
    return f"{_rounded(lower, ROUND_FLOOR)} to {_rounded(upper, ROUND_CEILING)}"


def _decimals(value: float) -> int:
    return max(3, 3 - math.floor(math.log10(value))) if value else 3


def _rounded(value: float, direction: str) -> str:
    if math.isinf(value):
        return measure(value)
    if value >= MOST_PLAIN or 0 < value < LEAST_PLAIN:
        return f"{Context(prec=7, rounding=direction).create_decimal_from_float(value):.6e}"
    step = Decimal(1).scaleb(-_decimals(value))
    return f"{Decimal(value).quantize(step, rounding=direction):,}"


# Means and lifts: typographic signs on a page, ASCII on a terminal


def decimal(value: float | None, sign: bool = False) -> str:
    """Write a mean or a lift for a page.

    >>> decimal(0.71234), decimal(-0.02, sign=True), decimal(1234.5), decimal(None)
    ('0.712', '−0.020', '1,234', '–')
    """
    if value is None:
        return "–"
    size = abs(value)
    text = f"{size:.3f}" if size < 10 else f"{size:,.1f}" if size < 1000 else f"{size:,.0f}"
    return ("−" if value < 0 else "+" if sign else "") + text


def decimal_interval(lower: float | None, upper: float | None, sign: bool = False) -> str:
    """Write an interval for a page, where both ends are known.

    >>> decimal_interval(0.1, 0.25), decimal_interval(None, 1.0)
    ('0.100 to 0.250', '–')
    """
    return "–" if lower is None or upper is None else f"{decimal(lower, sign)} to {decimal(upper, sign)}"


def ascii_decimal(value: float | None, sign: str = "") -> str:
    """Write a mean or a lift for the terminal.

    >>> ascii_decimal(0.71234), ascii_decimal(0.02, "+"), ascii_decimal(1234.5), ascii_decimal(None)
    ('0.712', '+0.020', '1234', '-')
    """
    if value is None:
        return "-"
    return f"{value:{sign}.3f}" if abs(value) < 10 else f"{value:{sign}.4g}"


def ascii_interval(lower: float | None, upper: float | None, sign: str = "") -> str:
    """Write an interval for the terminal, where both ends are known."""
    return "-" if lower is None or upper is None else f"{ascii_decimal(lower, sign)} to {ascii_decimal(upper, sign)}"


# Shares and risks


def percent(share: float) -> str:
    """Write a share in running text.

    >>> percent(0.2483), percent(0.0031), percent(0.00001)
    ('25 %', '0.3 %', 'under 0.1 %')
    """
    if share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.{0 if share >= 0.01 else 1}f} %"


def progress_percent(share: float, done: bool) -> str:
    """Write how much of the evidence that is needed is there: 100 % only when all of it is.

    >>> progress_percent(0.999, False), progress_percent(1.0, True), progress_percent(0.4, False)
    ('99 %', '100 %', '40 %')
    """
    return "100 %" if done else f"{min(math.floor(100 * share), 99)} %"


def risk(value: float) -> str:
    """Write a risk with two digits, rounded up so that it is never claimed too small.

    >>> risk(0.0500000001), risk(0.0501), risk(0.0316), risk(1.0), risk(2e-12)
    ('0.05', '0.051', '0.032', '1', '2e-12')
    """
    if value >= 1:
        return "1"
    digits = 1 - math.floor(math.log10(value)) if value > 0 else 1
    scaled = value * 10.0**digits
    return f"{math.ceil(scaled * (1 - RISK_NOISE)) / 10.0**digits:.2g}"


def risk_percent(value: float) -> str:
    """Write a risk in percent, rounded up.

    >>> risk_percent(0.05), risk_percent(0.1234), risk_percent(0.00012), risk_percent(1e-9)
    ('5 %', '13 %', '0.012 %', 'less than 0.001 %')
    >>> risk_percent(0.1 + 1e-17)
    '10 %'
    """
    size = 100 * value * (1 - RISK_NOISE)
    if size <= 0.001:
        return "less than 0.001 %"
    digits = 0 if size >= 10 else max(0, 1 - math.floor(math.log10(size)))
    rounded = math.ceil(size * 10**digits) / 10**digits
    return f"{rounded:.{digits}f}".rstrip("0").rstrip(".") + " %" if digits else f"{rounded:.0f} %"


def describe_tolerance(epsilon_g: float, epsilon_h: float) -> str:
    """Continue a sentence about risks with the tolerances, where there are some."""
    if epsilon_g == epsilon_h:
        return f"; tolerance {epsilon_g:g}" if epsilon_g > 0 else ""
    return f"; tolerance {epsilon_g:g} (another representation), {epsilon_h:g} (another predictor)"


# Times


def duration(microseconds: float) -> str:
    """Write a duration in the largest unit that fits.

    >>> duration(1.2e6), duration(1e8), duration(7.2e9), duration(2e5)
    ('1 second', '100 seconds', '2 hours', '0 seconds')
    """
    seconds = microseconds / SECOND
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} second{'' if round(seconds) == 1 else 's'}"


def age(since: int, at: int) -> str:
    """Write how long ago a time was."""
    return duration(max(at - since, 0))


def date(at: int) -> str:
    """Write a time for people."""
    return as_datetime(at).strftime("%-d %B %Y, %H:%M UTC")


def iso(at: int) -> str:
    """Write a time for programs, to the second."""
    return as_datetime(at).isoformat(timespec="seconds")

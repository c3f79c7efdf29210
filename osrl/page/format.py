"""How a page writes numbers, shares, risks and times."""

from __future__ import annotations

import math
from collections.abc import Sequence

from osrl.report.study import in_words
from osrl.study.log.events import as_datetime


def number(value: float | None, sign: bool = False) -> str:
    """A mean or a lift.

    >>> number(0.71234), number(-0.02, sign=True), number(1234.5), number(None)
    ('0.712', '−0.020', '1,234', '–')
    """
    if value is None:
        return "–"
    text = (
        f"{abs(value):.3f}" if abs(value) < 10 else f"{abs(value):,.1f}" if abs(value) < 1000 else f"{abs(value):,.0f}"
    )
    return ("−" if value < 0 else "+" if sign else "") + text


def interval(lower: float | None, upper: float | None, sign: bool = False) -> str:
    """An interval, where both ends are known.

    >>> interval(0.1, 0.25), interval(None, 1.0)
    ('0.100 to 0.250', '–')
    """
    return "–" if lower is None or upper is None else f"{number(lower, sign)} to {number(upper, sign)}"


def share_of(log_evidence: float | None, limit: float) -> float:
    """How far evidence is on the way to its limit, from 0 to 1; None is infinite evidence."""
    return 1.0 if log_evidence is None else min(max(log_evidence / limit, 0.0), 1.0)


def whole_percent(share: float, done: bool) -> str:
    """A share of the way to a limit: 100 % only when it is reached.

    >>> whole_percent(0.999, False), whole_percent(1.0, True), whole_percent(0.4, False)
    ('99 %', '100 %', '40 %')
    """
    return "100 %" if done else f"{min(math.floor(100 * share), 99)} %"


def risk(value: float) -> str:
    """A risk, rounded up.

    >>> risk(0.05), risk(0.1234), risk(0.00012), risk(1e-9), risk(0.1 + 1e-17)
    ('5 %', '13 %', '0.012 %', 'less than 0.001 %', '10 %')
    """
    percent = 100 * value * (1 - 1e-6)
    if percent <= 0.001:
        return "less than 0.001 %"
    digits = max(0, 1 - math.floor(math.log10(percent)))
    digits = 0 if percent > 1 and percent >= 10 else digits
    rounded = math.ceil(percent * 10**digits) / 10**digits
    return f"{rounded:.{digits}f}".rstrip("0").rstrip(".") + " %" if digits else f"{rounded:.0f} %"


def rough(value: float) -> str:
    """An estimate, with two digits.

    >>> rough(14_243.2), rough(324), rough(8.4), rough(80)
    ('14,000', '320', '8', '80')
    """
    digits = max(0, math.floor(math.log10(value)) - 1) if value >= 1 else 0
    return f"{round(value, -digits):,.0f}"


def listed(parts: Sequence[str]) -> str:
    """A list in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def things(count: float, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> things(1, "trial"), things(1200, "trial"), things(2, "has", "have")
    ('1 trial', '1,200 trials', '2 have')
    """
    return f"{count:,.0f} {one if count == 1 else many or one + 's'}"


def age(since: int, at: int) -> str:
    """How long ago something was."""
    return in_words(max(at - since, 0) / 1e6)


def date(at: int) -> str:
    """A time, for people."""
    return as_datetime(at).strftime("%-d %B %Y, %H:%M UTC")


def iso(at: int) -> str:
    """A time, for programs."""
    return as_datetime(at).isoformat(timespec="seconds")

"""The accepted risks and the tolerances of an answer.

delta_g is the risk of a wrong representation, delta_h that of a wrong predictor in a task. A risk given
once (``delta``) is both; where nothing is given, each is `DEFAULT_RISK`. An answer with another
representation than the best one may be worse than the best arm of a task by epsilon_g, another predictor of
the best one by epsilon_h; ``epsilon`` is both, and where nothing is given, they are 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real

from osrl.errors import OsrlError

DEFAULT_RISK = 0.1
MIN_TOLERANCE = 1e-6  # smaller differences take longer than any experiment to detect

Risk = float | Sequence[float] | None


def read_risk(name: str, risk: object) -> float:
    """Return one risk, a number between 0 and 1."""
    if isinstance(risk, bool) or not isinstance(risk, Real) or not 0 < float(risk) < 1:
        raise OsrlError(f"{name} is {risk!r}; a risk is a number between 0 and 1, such as 0.05")
    return float(risk)


def read_risks(
    delta: float | None, delta_g: float | None, delta_h: float | None, default: float | None = DEFAULT_RISK
) -> tuple[float, float]:
    """Return (delta_g, delta_h), from one risk for both or one for each; None: there is no default."""
    given_g, given_h = _one_for_both(delta, delta_g, delta_h)
    if default is None and (given_g is None or given_h is None):
        raise OsrlError("no risk given; set delta for both, or delta_g and delta_h")
    return (
        read_risk("delta_g", default if given_g is None else given_g),
        read_risk("delta_h", default if given_h is None else given_h),
    )


def read_risk_pairs(delta: Risk, delta_g: Risk, delta_h: Risk) -> list[tuple[float, float]]:
    """Return pairs (delta_g, delta_h) from lists of risks; one number is paired with every entry of a list."""
    lists = []
    for name, given in zip(("delta_g", "delta_h"), _one_for_both(delta, delta_g, delta_h), strict=True):
        several = isinstance(given, Iterable) and not isinstance(given, str)
        risks = [DEFAULT_RISK] if given is None else list(given) if several else [given]  # type: ignore[arg-type]
        lists.append([read_risk(name, risk) for risk in risks])
    count = max(map(len, lists))
    for each in lists:
        if len(each) not in (1, count) or not each:
            raise OsrlError(
                f"{len(lists[0])} risks for the representation and {len(lists[1])} for the predictors; "
                "give as many of each, or one"
            )
    pairs = list(zip(*(each * (count // len(each)) for each in lists), strict=True))
    if len(set(pairs)) < count:
        raise OsrlError("a risk is given twice; name it once")
    return pairs


def read_tolerances(epsilon: float | None, epsilon_g: float | None, epsilon_h: float | None) -> tuple[float, float]:
    """Return (epsilon_g, epsilon_h), from one tolerance for both or one for each; 0 where none is given."""
    if epsilon is not None:
        if epsilon_g is not None or epsilon_h is not None:
            raise OsrlError("epsilon sets both tolerances; give either epsilon, or epsilon_g and epsilon_h")
        epsilon_g = epsilon_h = epsilon
    return read_tolerance("epsilon_g", epsilon_g), read_tolerance("epsilon_h", epsilon_h)


def read_tolerance(name: str, given: object) -> float:
    """Return one tolerance: 0, or a difference of means that does not matter, from `MIN_TOLERANCE` on."""
    if given is None:
        return 0.0
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) < math.inf:
        raise OsrlError(f"{name} is {given!r}; a tolerance is a number such as 0.01, or 0")
    if 0 < float(given) < MIN_TOLERANCE:
        raise OsrlError(f"{name} is {given!r}; give at least {MIN_TOLERANCE:g}, or 0 for none")
    return float(given)


def _one_for_both(delta: Risk, delta_g: Risk, delta_h: Risk) -> tuple[Risk, Risk]:
    if delta is None:
        return delta_g, delta_h
    if delta_g is not None or delta_h is not None:
        raise OsrlError("delta sets both risks; give either delta, or delta_g and delta_h")
    return delta, delta

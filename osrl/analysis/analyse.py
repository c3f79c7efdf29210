"""`analyse`: what a log of trials proves, in one call: read, checked, judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osrl.analysis.trials import read_table
from osrl.analysis.verdict import Analysis, judge
from osrl.model.risks import read_risks, read_tolerances


def analyse(
    log: Any,
    *,
    delta: float | None = None,
    delta_g: float | None = None,
    delta_h: float | None = None,
    epsilon: float | None = None,
    epsilon_g: float | None = None,
    epsilon_h: float | None = None,
    columns: Mapping[str, str] | None = None,
    order_by: str | None = None,
    distinct: str | None = None,
    uniform: bool = False,
    tidy: bool = False,
    family: str | None = None,
    noise_sd: float | None = None,
    low: float | None = None,
    high: float | None = None,
    representations: Sequence[str] | None = None,
    predictors: Sequence[str] | None = None,
    ignorable: bool = False,
) -> Analysis:
    """What a log of trials proves, whatever rule collected it; ``log`` is a frame, or a file.

    ``delta`` is both risks, 0.1 by default, and ``epsilon`` both tolerances. ``ignorable``: a missing reward
    says nothing about its value or, with propensities, about the arm. The others are those of `read_table`.

    >>> rows = [("north", "new", "a", 1)] * 60 + [("north", "old", "a", 0)] * 60
    >>> names = ["market", "design", "text", "bought"]
    >>> frame = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    >>> roles = dict(zip(("task", "representation", "predictor", "reward"), names))
    >>> analyse(frame, columns=roles).best.representation
    'new'
    """
    risks = read_risks(delta, delta_g, delta_h)
    tolerances = read_tolerances(epsilon, epsilon_g, epsilon_h)
    table = read_table(
        log,
        columns=columns,
        order_by=order_by,
        distinct=distinct,
        uniform=uniform,
        tidy=tidy,
        family=family,
        noise_sd=noise_sd,
        low=low,
        high=high,
        representations=representations,
        predictors=predictors,
    )
    return judge(table, delta_g=risks[0], delta_h=risks[1], epsilon=tolerances, ignorable=ignorable)

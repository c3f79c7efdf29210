"""The forecast of a study: its rest, simulated from what is known (`osrl.simulation.forecast`).

A forecast belongs to a moment of the log, and is computed once for it. It is an expectation, not a promise:
the guarantee does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from osrl.simulation.forecast import ObservedProtocol, is_compiled, remaining_trials
from osrl.study.state.state import StudyState

DAY = 86_400e6  # microseconds
MAX_FORECASTS = 16  # forecasts that are remembered
_forecasts: dict[str, Forecast] = {}  # by the head of the log


class Forecast(NamedTuple):
    """Trials that are still to be handed out until the evidence decides, in simulated futures.

    ``median``: about so many, near ties counting less; ``q90``: enough in nine of ten, ``q10`` in one of ten.
    ``days``, ``days_90`` and ``days_10`` are the same in time, at the pace so far; None while there is none.
    ``at_least``: ``q90``, or the median too, is only known to be larger. ``in_budget``: the share of the
    futures in which the budget is enough; None without one.
    """

    median: float
    q90: float
    days: float | None
    days_90: float | None
    at_least: bool
    q10: float | None = None
    days_10: float | None = None
    in_budget: float | None = None


def look_ahead(state: StudyState) -> Callable[[], Forecast | None]:
    """Return a function that computes the forecast as of now, while the study goes on.

    It is a simulation: None where there is no machine code for that, or not yet.
    """
    hypotheses, head = state.hypotheses, state.last.hash
    if state.verdict is not None:
        return lambda: Forecast(0.0, 0.0, 0.0, 0.0, False, 0.0, 0.0)
    if hypotheses is None or not hypotheses.pulls.any():
        return lambda: None
    if head in _forecasts:
        return lambda: _forecasts[head]
    now = state.with_own_policy()
    now.clear_pending()
    n = hypotheses.pulls.shape[1]
    pending = np.array([one.x * n + one.a for one in state.current.values()], np.int64)
    ended, ignored = state.told + state.abandoned, 0 if state.alarm else state.left_out
    pace = state.arrival_stats
    seen = ObservedProtocol(
        pace.arrivals.astype(float),
        state.told,
        state.abandoned - ignored,
        ignored,
        pace.behind / max(ended, 1),
    )
    budget, asked = state.created.budget, state.asked
    days = None if pace.began is None else (state.last.at - pace.began) / DAY / asked

    def compute() -> Forecast | None:
        if not is_compiled(now.policy_state, now.family):
            return None
        most = None if budget is None else max(budget - asked, 0)
        found = remaining_trials(now.policy_state, now.family, seen, pending, most)
        while len(_forecasts) >= MAX_FORECASTS:
            _forecasts.pop(next(iter(_forecasts)))
        median, high, low = found.median, found.q90, found.q10
        times = [each * days if days else None for each in (median, high, low)]
        _forecasts[head] = Forecast(median, high, times[0], times[1], found.at_least, low, times[2], found.in_time)
        return _forecasts[head]

    return compute

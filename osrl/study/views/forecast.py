"""How long a study still takes: the rest of it, simulated from what is known (`osrl.simulation.forecast`).

A forecast belongs to a moment of the log, and is computed once for it. It is an expectation, not a promise:
the guarantee does not depend on it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from osrl.simulation.forecast import Seen, is_compiled, remainder
from osrl.study.state.state import StudyState

DAY = 86_400e6  # microseconds
KEPT = 16  # forecasts that are remembered
_known: dict[str, Forecast] = {}  # by the head of the log


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


def look_ahead(progress: StudyState) -> Callable[[], Forecast | None]:
    """What computes the forecast of this moment, while the study goes on.

    It is a simulation: None where there is no machine code for that, or not yet.
    """
    hypotheses, head = progress.hypotheses, progress.last.hash
    if progress.verdict is not None:
        return lambda: Forecast(0.0, 0.0, 0.0, 0.0, False, 0.0, 0.0)
    if hypotheses is None or not hypotheses.pulls.any():
        return lambda: None
    if head in _known:
        return lambda: _known[head]
    now = copy.copy(progress)
    now.state = copy.deepcopy(progress.state)
    now.clear_pending()
    n = hypotheses.pulls.shape[1]
    pending = np.array([one.x * n + one.a for one in progress.current.values()], np.int64)
    ended, ignored = progress.told + progress.abandoned, 0 if progress.alarm else progress.left_out
    pace = progress.arrival_stats
    seen = Seen(
        pace.arrivals.astype(float),
        progress.told,
        progress.abandoned - ignored,
        ignored,
        pace.behind / max(ended, 1),
    )
    budget, asked = progress.created.budget, progress.asked
    days = None if pace.began is None else (progress.last.at - pace.began) / DAY / asked

    def compute() -> Forecast | None:
        if not is_compiled(now.state, now.family):
            return None
        most = None if budget is None else max(budget - asked, 0)
        found = remainder(now.state, now.family, seen, pending, most)
        while len(_known) >= KEPT:
            _known.pop(next(iter(_known)))
        median, high, low = found.median, found.q90, found.q10
        times = [each * days if days else None for each in (median, high, low)]
        _known[head] = Forecast(median, high, times[0], times[1], found.at_least, low, times[2], found.in_time)
        return _known[head]

    return compute

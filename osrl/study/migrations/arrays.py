"""What older logs say in another way: arrays that had another name, and options that did not exist yet.

Logs of osrl 0.1 name each array by itself; later ones name arrays in which several rows stand together.
Until rules were apart, a policy had one state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.hypotheses.state import IN_REPRESENTATION, IN_TASK, Hypotheses
from osrl.policies.contract import State
from osrl.policies.registry import find
from osrl.policies.sampling.per_task import WEIGHTS_ALL, WEIGHTS_PREDICTORS, PerTaskSampling
from osrl.policies.sampling.residual_needs import DESIGN_DUE, SHARES_DRAWN, SHARES_OPTIMAL, ResidualNeedsSampling
from osrl.policies.sampling.two_phase import TwoPhaseSampling
from osrl.policies.state_arrays import arrays_of
from osrl.policies.stopping.per_task_test import ASKED_G, PerTaskTest
from osrl.policies.stopping.per_task_test import ASKED_TASK as ASKED_X

LATER: dict[str, Any] = {
    "vectors": 0,
    "peak": 0.0,
    "holdout": 1.0,
    "model_check": 0.0,
}  # options that came later, and how to do without them
WEIGHTS = -1  # the row of the weights in an old array of all that is known of arms: the last one


def old_options(policy: str) -> dict[str, Any]:
    """Return options that came later, with the values that change nothing."""
    return {name: value for name, value in LATER.items() if name in find(policy).option_names}


class Renamed(NamedTuple):
    """A part of the state, and which part of the old content belongs there."""

    array: NDArray[Any]
    part: Any = ...

    def set(self, content: Any) -> None:
        """Write what a log holds under the old name."""
        self.array[...] = np.array(content, dtype=self.array.dtype)[self.part]


def old_names(state: State) -> dict[str, Renamed]:
    """Return what a design may have changed, by its old names."""
    sampling, stopping = state
    if isinstance(stopping, Hypotheses):
        return _of_hypotheses(stopping) | (_of_needs(sampling) if isinstance(sampling, ResidualNeedsSampling) else {})
    if isinstance(sampling, TwoPhaseSampling):
        own = {
            "weights": Renamed(sampling.weights),
            "clock": Renamed(sampling.due, slice(1, 2)),
            "arms": Renamed(sampling.weights, WEIGHTS),
            "times": Renamed(sampling.due, slice(1, 2)),
        }
        return own | _of_contests("phase2.contests.", sampling.tasks, stopping.contests)
    if isinstance(sampling, PerTaskSampling):
        names = ("contests.", "first.", "phase2.contests.")
        known = [_of_contests(name, sampling, stopping.contests) for name in names]
        return known[0] | known[1] | known[2]
    return {}


def _of_needs(needs: ResidualNeedsSampling) -> dict[str, Renamed]:
    return {
        "shares": Renamed(needs.shares),
        "due": Renamed(needs.due),
        "optimal": Renamed(needs.shares[SHARES_OPTIMAL]),
        "weights": Renamed(needs.shares[SHARES_DRAWN]),
        "clock": Renamed(needs.due[DESIGN_DUE : DESIGN_DUE + 1], slice(1, 2)),  # rounds were here too
    }


def _of_hypotheses(hypotheses: Hypotheses) -> dict[str, Renamed]:
    return {f"hypotheses.{name}": Renamed(array) for name, array in arrays_of(hypotheses)} | {
        "tests.evidence_g": Renamed(hypotheses.evidence_g),
        "tests.evidence_h": Renamed(hypotheses.evidence[IN_REPRESENTATION]),
        "tests.shared.arm": Renamed(hypotheses.evidence[IN_TASK]),
        "tests.shared.least": Renamed(hypotheses.against[:-1, :, -1]),
        "tests.shared.apart": Renamed(hypotheses.against[-1, :, -1]),
    }


def _of_contests(prefix: str, tasks: PerTaskSampling, contests: PerTaskTest) -> dict[str, Renamed]:
    """Return the weights of the contests in progress, under names that begin with ``prefix``."""
    g, x, predictors = int(contests.asked[ASKED_G]), int(contests.asked[ASKED_X]), contests.predictors
    if g >= 0:
        weights = tasks.weights[WEIGHTS_PREDICTORS, :, g * predictors : (g + 1) * predictors]
        due = tasks.due[:, 1 + g]
    else:
        rows = slice(x, x + 1) if prefix == "first." else slice(None)  # it had one task
        weights, due = tasks.weights[WEIGHTS_ALL, rows], tasks.due[rows, 0]
    return {
        prefix + "weights": Renamed(weights),
        prefix + "due": Renamed(due),
        prefix + "arms": Renamed(weights, WEIGHTS),
        prefix + "tasks": Renamed(due, 1),
    }

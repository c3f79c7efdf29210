"""Attacks on the model: tasks that disagree about the best representation.

What a study says rests on "one representation is the best in every task". Here that is not so, and a study
that decides gives an answer which another arm beats in some task. `disagreements` counts how often it does,
with and without a model check (`osrl.hypotheses.model_check`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.model.instance import Instance
from osrl.simulation.api import simulate

RISK = 0.1
BUDGET = 200_000
_ROUNDING = 1e-9  # a difference of means that is meant to be the margin is not less than it


def _one_disagrees(tasks: int, difference: float) -> list[list[list[float]]]:
    """Return means where the second representation beats the first by this in the last task alone."""
    shared = [[0.6, 0.4], [0.4, 0.3], [0.3, 0.3]]
    return [*([shared] * (tasks - 1)), [[0.5, 0.4], [0.5 + difference, 0.3], [0.3, 0.3]]]


DISAGREEMENTS = {
    "one of two tasks, by 0.05": _one_disagrees(2, 0.05),
    "one of two tasks, by 0.1": _one_disagrees(2, 0.1),
    "one of two tasks, by 0.2": _one_disagrees(2, 0.2),
    "one of six tasks, by 0.1": _one_disagrees(6, 0.1),
    "one of two tasks, by 0.4": [[[0.8, 0.4], [0.5, 0.3]], [[0.4, 0.3], [0.5, 0.8]]],
    "two tasks, one predictor, by 0.3": [[[0.7], [0.4]], [[0.4], [0.7]]],
}


class Disagreement(NamedTuple):
    """How many runs there were, in how many a representation was named, and in how many wrongly.

    ``wrong``: in the task with most of them, runs with an answer that an arm there beats by the margin.
    """

    tried: int
    decided: int
    wrong: int
    median: float  # samples


def disagreements(case: str, runs: int, margin: float, check: float, risk: float = RISK, seed: int = 0) -> Disagreement:
    """Play a disagreement with a model ``check`` (0: none); what is beaten by ``margin`` or more is wrong."""
    instance = Instance.bernoulli(DISAGREEMENTS[case])
    options = {"model_check": check}
    found = simulate(instance, "osrl", risk, runs, seed, budget=BUDGET, options=options).frame
    decided = (found["verdict"] == "decided").to_numpy()
    short = found["shortfall"].explode().to_numpy().reshape(runs, -1) >= margin - _ROUNDING
    wrong = int((short & decided[:, np.newaxis]).sum(axis=0).max())
    return Disagreement(runs, int(decided.sum()), wrong, float(np.median(found["tau"].to_numpy())))

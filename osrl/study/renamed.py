"""Arrays of a state that had another name in logs written by osrl 0.1: where their content goes now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.hypotheses.possible import OF_G, OF_TASK
from osrl.policies.osrl import DRAWN, DUE, OPTIMAL, OsrlState
from osrl.policies.osrl_sc import OsrlScState
from osrl.policies.tas import TasState
from osrl.policies.tas_transfer import TasTransferState
from osrl.policies.track_and_stop import DUE as CONTEST_DUE
from osrl.policies.track_and_stop import WEIGHTS, Contests


class Renamed(NamedTuple):
    """A part of the state, and which part of the old content belongs there."""

    array: NDArray[Any]
    part: slice = slice(None)

    def set(self, content: Any) -> None:
        """Write what a log holds under the old name."""
        self.array[...] = np.array(content, dtype=self.array.dtype)[self.part]


def old_names(state: Any) -> dict[str, Renamed]:
    """What a design may have changed, by its old name."""
    if isinstance(state, OsrlState):
        hypotheses = state.hypotheses
        return {
            "optimal": Renamed(state.shares[OPTIMAL]),
            "weights": Renamed(state.shares[DRAWN]),
            "clock": Renamed(state.due[DUE : DUE + 1], slice(1, 2)),  # rounds were here too
            "tests.evidence_g": Renamed(hypotheses.evidence_g),
            "tests.evidence_h": Renamed(hypotheses.evidence[OF_G]),
            "tests.shared.arm": Renamed(hypotheses.evidence[OF_TASK]),
            "tests.shared.least": Renamed(hypotheses.against[:-1, :, -1]),
            "tests.shared.apart": Renamed(hypotheses.against[-1, :, -1]),
        }
    if isinstance(state, OsrlScState):
        own = {"weights": Renamed(state.arms[WEIGHTS]), "clock": Renamed(state.times[:2])}
        return {**own, **dict(_contests("phase2.contests.", state.phase2.contests))}
    if isinstance(state, TasTransferState):
        later = _contests("phase2.contests.", state.phase2.contests)
        return {**dict(_contests("first.", state.first)), **dict(later)}
    return dict(_contests("contests.", state.contests)) if isinstance(state, TasState) else {}


def _contests(prefix: str, contests: Contests) -> Iterator[tuple[str, Renamed]]:
    yield prefix + "weights", Renamed(contests.arms[WEIGHTS])
    yield prefix + "due", Renamed(contests.tasks[CONTEST_DUE])

"""How trials of a study go out and come back: which tasks arrive, how late results are, how fast it goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from osrl.model.arrays import Flags, Integers


class ArrivalStats:
    """What a forecast has to know besides the rewards."""

    def __init__(self, tasks: int) -> None:
        self.arrivals = np.zeros(tasks, np.int64)  # tasks that were given
        self.behind = 0  # trials handed out after one and before its end, summed over all that ended
        self.began: int | None = None  # when the first trial went out, in microseconds since 1970

    def begin_stage(self, before: Sequence[str], tasks: Sequence[str]) -> None:
        """These are the tasks from now on; a new one has never arrived."""
        arrived = dict(zip(before, self.arrivals.tolist(), strict=True))
        self.arrivals = np.array([arrived.get(task, 0) for task in tasks], np.int64)

    def hand_out(self, x: int, given: bool, at: int) -> None:
        """A trial goes out."""
        if given:
            self.arrivals[x] += 1
        if self.began is None:
            self.began = at

    def hand_out_all(self, tasks: Integers, given: Flags, at: int) -> None:
        """Trials of which each was told before the next; the first at time ``at``."""
        np.add.at(self.arrivals, tasks[given], 1)
        if self.began is None:
            self.began = at

    def end(self, behind: int) -> None:
        """A trial ends, so many later ones being out already."""
        self.behind += behind

    def facts(self) -> dict[str, Any]:
        """All of it, as JSON knows it."""
        return {"arrivals": self.arrivals.tolist(), "behind": self.behind, "began": self.began}

    def set(self, arrivals: list[int], behind: int, began: int | None) -> None:
        """Be as the `facts` say."""
        self.arrivals[:] = arrivals
        self.behind, self.began = behind, began

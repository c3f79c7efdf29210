"""New weights for an ask: solved for while nobody waits.

To solve may take long, and others cannot write while an ask holds the log. So the ask lets go, solves for a
copy of the state, and comes back. If others have told something meanwhile, the weights are those of a state
that is a little older. They are used all the same: they follow from the past, which is all that the evidence
needs, and they are newer than the ones that there are. The log says for which state they were solved. Only
how arms are drawn is taken over; the evidence stays that of all rewards.

They are of no use if others have solved meanwhile, if a reward was corrected, if arms were withdrawn or
added, or if the rule has changed by rewards what it has solved for. Then they are solved for once more, and
after that the trial is handed out with the weights that there are.
"""

from __future__ import annotations

import copy

import numpy as np

from osrl.policies.state_arrays import arrays_of
from osrl.study.log.events import SAMPLING, ArmsChanged, Corrected, Designed
from osrl.study.operations.writer import WriteTransaction
from osrl.study.state.state import StudyState

ATTEMPTS = 2


class Redesign:
    """The weights of one ask."""

    def __init__(self) -> None:
        self._seen: StudyState | None = None  # a copy of the state that is solved for
        self._found: Designed | None = None
        self._attempts = 0

    def presolve(self, progress: StudyState) -> None:
        """Be ready to solve before the log is held at all, where it is time for new weights."""
        if progress.steps.wants_design(progress.state):
            self._see(progress)

    def renew(self, transaction: WriteTransaction) -> bool:
        """Use what was found, if it can be used; False if the log is to be let go, to solve."""
        progress = transaction.progress
        if not progress.steps.wants_design(progress.state):
            return True
        if (designed := self._usable(transaction)) is not None:
            transaction.do(designed)
            return True
        if self._attempts == ATTEMPTS:
            return True
        self._see(progress)
        return False

    def _see(self, progress: StudyState) -> None:
        self._seen, self._found = copy.copy(progress), None
        self._seen.state = copy.deepcopy(progress.state)

    def solve(self) -> None:
        """Solve for the state that was seen last, if that was asked for."""
        if self._seen is not None and self._found is None:
            solved = copy.copy(self._seen)
            solved.state = copy.deepcopy(self._seen.state)
            self._found = solved.solve()
            self._attempts += 1

    def _usable(self, transaction: WriteTransaction) -> Designed | None:
        """What was found, as it can be used now."""
        seen, found = self._seen, self._found
        if seen is None or found is None or transaction.progress.last.hash == seen.last.hash:
            return found
        since = transaction.log.read(seen.last.seq)
        first = next(since, None)
        if first is None or first.hash != seen.last.hash:
            return None
        if any(isinstance(event.body, Designed | Corrected | ArmsChanged) for event in since):
            return None
        before, now = dict(arrays_of(seen.state)), dict(arrays_of(transaction.progress.state))
        drawn = {name: array for name, array in found.arrays.items() if name.startswith(SAMPLING)}
        if not all(np.array_equal(before[name], now[name]) for name in drawn):
            return None
        return Designed(drawn, found.before, seen.last.seq)

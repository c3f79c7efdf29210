"""New weights for an ask: solved for while nobody waits.

To solve may take long, and others cannot write while an ask holds the log. So the ask lets go, solves for
a copy of the state, and comes back. If others have told something meanwhile, the state is another one, and
what was solved for is of no use. After some attempts weights that are solved for quickly are solved for while
the log is held. Otherwise the trial is handed out with the weights that there are: they follow from the past
too, which is all that the evidence needs.
"""

from __future__ import annotations

import copy
import time

from osrl.policies.round import wants_design
from osrl.study.events import Designed
from osrl.study.progress import Progress
from osrl.study.session import Session, Turn

ATTEMPTS = 2
QUICK = 0.1  # seconds that others may be kept waiting


class Weights:
    """The weights of one ask."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._wanted: Progress | None = None  # a copy of the state that is to be solved for
        self._found: Designed | None = None
        self._head = ""  # the last event before what was found
        self._attempts = 0
        self._seconds = 0.0

    def renew(self, turn: Turn) -> bool:
        """Use what was found, if it fits; False if the log is to be let go, to solve."""
        progress = turn.progress
        if not wants_design(progress.state):
            return True
        if self._found is not None and self._head == progress.last.hash:
            turn.do(self._found)
            return True
        if self._attempts < ATTEMPTS:
            self._head = progress.last.hash
            self._wanted = copy.copy(progress)
            self._wanted.state = copy.deepcopy(progress.state)
            return False
        return True

    def renew_within(self, turn: Turn) -> None:
        """Solve while the log is held, where that is quick; or where nothing may be handed out without."""
        progress = turn.progress
        needed = progress.policy.stopping.forfeit is None
        if (needed or self._seconds < QUICK) and (designed := progress.solve()) is not None:
            turn.note(designed)

    def solve(self) -> None:
        """Solve for the state that was seen last, if that was asked for."""
        if self._wanted is None:
            return
        began = time.perf_counter()
        self._found = self._wanted.solve()
        self._seconds = time.perf_counter() - began
        self._wanted, self._attempts = None, self._attempts + 1

"""Ask: issue trials, with a new design of the sampling weights where one is due.

**The design.** Solving for new weights may take long, and others cannot write while an ask has the log locked. So
the ask unlocks the log, solves for a copy of the state, and comes back. If others have told something meanwhile,
the weights are those of a slightly older state. They are used all the same: they depend only on the past, which is
all that the evidence needs, and they are newer than the current ones. The log says for which state they were
solved. Only the sampling rule changes; the evidence stays that of all rewards.

They cannot be used if others have solved meanwhile, if a reward was corrected, if arms were withdrawn or added, or
if rewards have changed what the sampling rule has solved for. Then they are solved for once more, and after that
trials are issued with the weights that there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from osrl.errors import BudgetSpent, OsrlError, StudyEnded, StudyPaused
from osrl.policies.state_arrays import arrays_of
from osrl.study.log.events import SAMPLING, ArmsChanged, Corrected, Designed, now
from osrl.study.operations.session import WriteTransaction
from osrl.study.state.state import StudyState
from osrl.study.state.trial import Trial, arm_of, find_ask, new_trial, read_key, read_lease, read_note

MAX_ASKED = 1000  # trials of one ask: others wait while they are issued
MAX_SOLVED = 2  # designs that one ask solves for


class AskRequest(NamedTuple):
    """The trials that are asked for: how many, in which task, for how long, known by what."""

    task: str | None
    n: int
    lease: int | None  # microseconds
    key: str | None
    note: dict[str, Any] | None


def parse_ask(
    task: str | None,
    n: int | None,
    lease: str | timedelta | None,
    key: str | None,
    note: Mapping[str, Any] | None,
) -> AskRequest:
    """Return what is asked for; refuse what cannot be."""
    length = None if lease is None else read_lease(lease)
    count = _count(n)
    if key is not None and n is not None:
        raise OsrlError("a key is that of one trial; ask without n, once for each key")
    if key is not None:
        read_key(key)
    return AskRequest(task, count, length, key, None if note is None else read_note(note))


def _count(n: int | None) -> int:
    count = 1 if n is None else n
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise OsrlError(f"n is {n!r}; give the number of trials to hand out, at least 1")
    if count > MAX_ASKED:
        raise OsrlError(f"n is {n}; a call hands out at most {MAX_ASKED:,} trials; ask again for more")
    return int(count)


class Redesign:
    """The design that an ask solves for while the log is not locked."""

    def __init__(self) -> None:
        self._seen: StudyState | None = None  # a copy of the state that is solved for
        self._found: Designed | None = None
        self._solved = 0

    def presolve(self, state: StudyState) -> None:
        """Note a state for which a design is due, before the log is locked at all."""
        if state.steps.wants_design(state.policy_state):
            self._request(state)

    def use_or_request(self, transaction: WriteTransaction) -> bool:
        """Use the design that was found, if one is due; return False if one has to be solved for first."""
        state = transaction.state
        if not state.steps.wants_design(state.policy_state):
            return True
        if (designed := self._usable(transaction)) is not None:
            transaction.apply(designed)
            self._seen, self._found, self._solved = None, None, 0
            return True
        if self._solved == MAX_SOLVED:
            return True
        self._request(state)
        return False

    def _request(self, state: StudyState) -> None:
        self._seen, self._found = state.with_own_policy(), None

    def solve(self) -> None:
        """Solve for the state that was noted last, if that is still to be done."""
        if self._seen is not None and self._found is None:
            self._found = self._seen.with_own_policy().solve()
            self._solved += 1

    def _usable(self, transaction: WriteTransaction) -> Designed | None:
        """Return the design that was found, as it can be used now."""
        seen, found, state = self._seen, self._found, transaction.state
        if seen is None or found is None or state.last.hash == seen.last.hash:
            return found
        since = transaction.log.read(seen.last.seq)
        first = next(since, None)
        if first is None or first.hash != seen.last.hash:
            return None
        if any(isinstance(event.body, Designed | Corrected | ArmsChanged) for event in since):
            return None
        before, after = dict(arrays_of(seen.policy_state)), dict(arrays_of(state.policy_state))
        sampling = {name: array for name, array in found.arrays.items() if name.startswith(SAMPLING)}
        if not all(np.array_equal(before[name], after[name]) for name in sampling):
            return None
        return Designed(sampling, found.before, seen.last.seq)


def issue_trials(transaction: WriteTransaction, request: AskRequest, redesign: Redesign) -> tuple[Trial, ...] | None:
    """Issue trials, or return the one that has the key; None where a design has to be solved for first."""
    state = transaction.state
    if request.key is not None and (known := transaction.log.find_key(request.key)) is not None:
        return (_trial_with_key(transaction, request, known),)
    check_ask(state, request.task, request.n)
    if not redesign.use_or_request(transaction):
        return None
    trials = []
    for _ in range(request.n):
        until = None if request.lease is None else now() + request.lease
        choice = state.choose(request.task, until, request.key, request.note)
        event = transaction.issue(choice)
        trials.append(new_trial(choice.asked, state.created, event.hash, choice.a))
    return tuple(trials)


def check_ask(state: StudyState, task: str | None, count: int) -> None:
    """Refuse to issue trials where there is nothing more to learn or to spend."""
    budget = state.created.budget
    if state.verdict is not None:
        raise StudyEnded(f"the study has ended ({state.verdict.status}); read its verdict, or begin a new study")
    if state.paused is not None:
        raise StudyPaused(
            f"the study is paused ({state.paused}); tell what is out, and ask again when it goes on "
            "(`osrl study resume`)"
        )
    if task is not None:
        if not isinstance(task, str):
            raise OsrlError(f"the task is {task!r}; give its name, or its number as text")
        state.index_of(0, task)
        if not state.policy.given_tasks:
            raise OsrlError(
                f"policy {state.policy.name!r} chooses the tasks itself; ask without a task, "
                "or create the study with policy 'osrl'"
            )
    if budget is not None and state.asked + count > budget:
        left = budget - state.asked
        if left:
            raise BudgetSpent(f"{left} of the {budget} trials of the budget are left; ask for at most {left}")
        raise BudgetSpent(
            f"all {budget} trials of the budget are handed out and {len(state.pending)} of them have not "
            "reported; tell or abandon those"
        )


def _trial_with_key(transaction: WriteTransaction, request: AskRequest, number: int) -> Trial:
    """Return the trial that was issued for a key; refuse where something else is asked for now."""
    key = request.key
    asked, hash = find_ask(transaction.log.events_of_trial(number), number, key)
    if request.task is not None and request.task != asked.task:
        raise OsrlError(
            f"key {key!r} is that of trial {number} in task {asked.task!r}, now the task is {request.task!r}; "
            "give every trial a key of its own"
        )
    if request.note is not None and request.note != asked.note:
        raise OsrlError(
            f"key {key!r} is that of trial {number}, which has another note; a note cannot be changed, "
            "ask again without one"
        )
    created = transaction.state.settings_of(number)
    return new_trial(asked, created, hash, arm_of(asked, created))


def reissue(transaction: WriteTransaction, number: int) -> Trial:
    """Return a trial that was issued before."""
    asked, hash = find_ask(transaction.log.events_of_trial(number), number, None)
    created = transaction.state.settings_of(number)
    return new_trial(asked, created, hash, arm_of(asked, created))

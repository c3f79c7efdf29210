"""Correct or amend a reward that was told wrong: see `osrl.study.log.corrections` for when that is sound."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np

from osrl.errors import OsrlError, RewardRefused, StorageBusy
from osrl.study.log.events import Abandoned, Amended, ArmsChanged, Asked, Corrected, Designed, Told
from osrl.study.operations.session import Session, WriteTransaction
from osrl.study.operations.tell import TrialRef, find_end
from osrl.study.state.state import StudyState
from osrl.study.state.trial import read_reward, read_token, validate_actor_and_reason

MAX_ATTEMPTS = 3  # to correct a reward, while others write


def correct(session: Session, trial: TrialRef, reward: SupportsFloat, reason: str, by: str | None) -> None:
    """Replace the reward of a trial that was told wrong, while nothing was decided by it.

    The state without the reward is replayed before the log is locked again, because that may take long.
    """
    _check_reason(reason, by)
    token = read_token(trial)
    number = token.trial

    def check(transaction: WriteTransaction) -> tuple[Told, StudyState] | None:
        """Return the wrong tell and the state; None if the reward is right already."""
        value = read_reward(reward, transaction.state.created)
        before = find_end(transaction, token)
        if before is None or isinstance(before, Abandoned):
            raise RewardRefused(f"trial {number} has not told a reward; there is nothing to correct")
        if before.reward == value:
            return None
        if isinstance(before, Corrected):
            raise RewardRefused(
                f"trial {number} was corrected from {before.old:g} to {before.reward:g}; a reward is corrected once"
            )
        _check_unused(transaction, number)
        return before, transaction.state.twin()

    for _ in range(MAX_ATTEMPTS):
        found = session.write(check)
        if found is None:
            return
        wrong, seen = found
        without = session.state_without(number)
        check_same_decisions(number, seen, without)

        def replace(transaction: WriteTransaction, wrong: Told = wrong, seen: StudyState = seen) -> bool:
            """Tell the right reward, unless others have written since the check."""
            state = transaction.state
            if state.last.hash != seen.last.hash:
                return False
            value = read_reward(reward, state.created)
            verdict = state.apply_reward(number, value)
            transaction.record(Corrected(number, wrong.reward, value, reason, verdict, by))
            return True

        if session.write(replace, base=without):
            return
    raise StorageBusy(f"others keep writing to the study; call again to correct trial {number}")


def amend(transaction: WriteTransaction, trial: TrialRef, reward: SupportsFloat, reason: str, by: str | None) -> None:
    """Note the right reward of a trial whose wrong one was used."""
    _check_reason(reason, by)
    token = read_token(trial)
    number = token.trial
    value = read_reward(reward, transaction.state.created)
    used = find_end(transaction, token)
    if used is None or isinstance(used, Abandoned):
        raise RewardRefused(f"trial {number} has not told a reward; there is nothing to amend")
    events = transaction.events_of_trial(number)
    noted = next((event.body.reward for event in events if isinstance(event.body, Amended)), None)
    if noted is None and value != used.reward:
        transaction.record(Amended(number, used.reward, value, reason, by))
    elif value != (used.reward if noted is None else noted):
        raise RewardRefused(f"trial {number} was amended from {used.reward:g} to {noted:g}; a reward is amended once")


def _check_reason(reason: str, by: str | None) -> None:
    validate_actor_and_reason(by, reason)
    if not reason.strip():
        raise OsrlError("there is no reason; say in a few words why the reward was wrong")


def _check_unused(transaction: WriteTransaction, trial: int) -> None:
    """Refuse to correct a reward after something that may have used it."""
    (told,) = (event.seq for event in transaction.log.events_of_trial(trial) if isinstance(event.body, Told))
    if transaction.state.verdict is not None:
        raise _too_late(trial, f"the study has ended ({transaction.state.verdict.status})")
    for event in transaction.log.read(told + 1):
        match event.body:
            case Asked() as asked:
                raise _too_late(trial, f"trial {asked.trial} was handed out since, which may depend on it")
            case Designed():
                raise _too_late(trial, "new weights were solved for since, which may depend on it")
            case ArmsChanged():
                raise _too_late(trial, "arms were withdrawn or added since")
            case Abandoned() as lost:
                raise _too_late(trial, f"trial {lost.trial} was abandoned since")


def check_same_decisions(trial: int, now: StudyState, without: StudyState) -> None:
    """Refuse to correct a reward by which something was ruled out; ``without`` it, less is."""
    if now.hypotheses is None or without.hypotheses is None:
        raise _too_late(trial, f"policy {now.policy.name!r} does not say what it has ruled out")
    one, other = (
        (each.possible_g, each.possible_h, each.tolerance.within, *(each.check or ())[2:3])
        for each in (now.hypotheses, without.hypotheses)
    )
    if not all(map(np.array_equal, one, other)):
        raise _too_late(trial, "a hypothesis was ruled out by it")


def _too_late(trial: int, why: str) -> RewardRefused:
    return RewardRefused(
        f"the reward of trial {trial} can no longer be corrected: {why}; "
        "evidence that was used is not taken back, the right value can only be noted (`osrl study amend`)"
    )

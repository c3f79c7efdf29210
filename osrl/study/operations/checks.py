"""What a study refuses, before anything is changed."""

from __future__ import annotations

import numpy as np

from osrl.errors import BudgetSpent, OsrlError, RewardRefused, StudyEnded, StudyPaused, UnknownTrial
from osrl.study.log.events import Abandoned, ArmsChanged, Asked, Corrected, Designed, Told
from osrl.study.operations.writer import WriteTransaction
from osrl.study.state.state import StudyState
from osrl.study.state.trial import Token


def check_ask(progress: StudyState, task: str | None, count: int) -> None:
    """Refuse to hand out trials where there is nothing more to learn or to spend."""
    budget = progress.created.budget
    if progress.verdict is not None:
        raise StudyEnded(f"the study has ended ({progress.verdict.status}); read its verdict, or begin a new study")
    if progress.paused is not None:
        raise StudyPaused(
            f"the study is paused ({progress.paused}); tell what is out, and ask again when it goes on "
            "(`osrl study resume`)"
        )
    if task is not None:
        if not isinstance(task, str):
            raise OsrlError(f"the task is {task!r}; give its name, or its number as text")
        progress.index_of(0, task)
        if not progress.policy.given_tasks:
            raise OsrlError(
                f"policy {progress.policy.name!r} chooses the tasks itself; ask without a task, "
                "or create the study with policy 'osrl'"
            )
    if budget is not None and progress.asked + count > budget:
        left = budget - progress.asked
        if left:
            raise BudgetSpent(f"{left} of the {budget} trials of the budget are left; ask for at most {left}")
        raise BudgetSpent(
            f"all {budget} trials of the budget are handed out and {len(progress.pending)} of them have not "
            "reported; tell or abandon those"
        )


def check_loss(progress: StudyState, ignorable: bool) -> None:
    """Refuse a loss that the policy cannot bear."""
    if not ignorable and not progress.bears_loss:
        rewards = progress.family.name
        raise OsrlError(
            f"policy {progress.policy.name!r} has no guarantee when trials with {rewards} rewards are "
            "lost for a reason that may tell something; state that it tells nothing (ignorable), or use "
            "policy 'osrl' with rewards in [0, 1]"
        )


def ending(transaction: WriteTransaction, token: Token) -> Told | Abandoned | Corrected | None:
    """The event that ended a trial, None while it is pending; refused where it is not one of this study."""
    token.check_study(transaction.progress.created)
    pending = transaction.progress.pending.get(token.trial)
    if pending is not None:
        token.check_event(pending.hash)
        return None
    last: Told | Abandoned | Corrected | None = None
    for event in (*transaction.log.events_of_trial(token.trial), *transaction.by_trial.get(token.trial, ())):
        if isinstance(event.body, Asked):
            token.check_event(event.hash)
        if isinstance(event.body, Told | Abandoned | Corrected):
            last = event.body
    if last is None:
        handed = transaction.progress.asked
        raise UnknownTrial(f"the study has no trial {token.trial}; it has handed out {handed}, numbered from 1")
    return last


def check_same_harm(transaction: WriteTransaction, trial: int, harm: float | None) -> None:
    """Refuse to tell a trial again with a harm that would be dropped."""
    events = (*transaction.log.events_of_trial(trial), *transaction.by_trial.get(trial, ()))
    before = next(event.body.harm for event in events if isinstance(event.body, Told))
    if harm is None or harm == before:
        return
    if before is None:
        raise RewardRefused(
            f"trial {trial} was told without its harm, which can no longer be told; tell harm and reward "
            "of later trials together"
        )
    raise RewardRefused(
        f"trial {trial} was told with harm {before:g}, now {harm:g}; a harm cannot be changed, and counts "
        "as it was told"
    )


def check_correction(transaction: WriteTransaction, trial: int) -> None:
    """Refuse to correct a reward after something that may have used it."""
    (told,) = (event.seq for event in transaction.log.events_of_trial(trial) if isinstance(event.body, Told))
    if transaction.progress.verdict is not None:
        raise _too_late(trial, f"the study has ended ({transaction.progress.verdict.status})")
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

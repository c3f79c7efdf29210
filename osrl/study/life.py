"""What people do with a running study: pause it, close it, raise its budget, withdraw or add arms."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral

from osrl.errors import OsrlError, StudyEnded
from osrl.study.events import Budgeted, Closed, Continued, Paused, Staged
from osrl.study.guardrail import arms_without, next_by_rule
from osrl.study.progress import Progress
from osrl.study.session import Session, Turn
from osrl.study.settings import check_names

MOST = 2**63 - 1
CLOSED = "closed"


def pause(session: Session, reason: str, by: str | None) -> None:
    """Hand out no more trials; those that are out may report."""
    _check_reason(reason, "the study is paused")
    with session.turn() as turn:
        _check_running(turn.progress)
        if turn.progress.paused is None:
            turn.do(Paused(reason, by))


def resume(session: Session, reason: str | None, by: str | None) -> None:
    """Go on with a study that was paused."""
    with session.turn() as turn:
        _check_running(turn.progress)
        if turn.progress.paused is not None:
            turn.do(Continued(reason, by))


def close(session: Session, reason: str, by: str | None) -> None:
    """End the study, with its best guess."""
    _check_reason(reason, "the study is closed")
    with session.turn() as turn:
        if turn.progress.verdict is not None and turn.progress.verdict.status == CLOSED:
            return
        _check_running(turn.progress)
        verdict = replace(turn.progress.best_guess(), status=CLOSED)
        turn.do(Closed(reason, verdict, by))


def raise_budget(session: Session, budget: int, reason: str | None, by: str | None) -> None:
    """Allow more trials in all."""
    if isinstance(budget, bool) or not isinstance(budget, Integral) or not 1 <= budget <= MOST:
        raise OsrlError(f"the budget is {budget!r}; give the largest number of trials, at least 1")
    with session.turn() as turn:
        _check_running(turn.progress)
        before = turn.progress.created.budget
        if before is None:
            raise OsrlError("the study has no budget, so there is nothing to raise; ask for more trials")
        if budget < before:
            raise OsrlError(f"the budget is {before:,}, and can only be raised; give a larger number")
        if budget > before:
            turn.do(Budgeted(int(budget), reason, by))


def withdraw(
    session: Session, representation: str | None, predictor: str | None, reason: str, by: str | None
) -> None:
    """Take a representation or a predictor out of the study; evidence counts from here on."""
    axis, name = _one(representation, predictor)
    _check_reason(reason, f"{name!r} is withdrawn")
    with session.turn() as turn:
        _check_running(turn.progress)
        turn.progress.index_of(axis, name)
        left = arms_without(turn.progress.created, axis, name)
        if left is None:
            raise OsrlError(f"without {name!r} there is nothing left to compare; close the study instead")
        turn.do(Staged(*left, reason, by))


def withdraw_by_rule(turn: Turn) -> None:
    """Do what the limit of harm asks for, after a harm was told."""
    while (event := next_by_rule(turn.progress)) is not None:
        turn.do(event)


def add(
    session: Session, representation: str | None, predictor: str | None, reason: str, by: str | None
) -> None:
    """Take a new representation or predictor into the study; evidence counts from here on."""
    axis, name = _one(representation, predictor)
    _check_reason(reason, f"{name!r} is added")
    with session.turn() as turn:
        _check_running(turn.progress)
        created = turn.progress.created
        names = [list(created.representations), list(created.predictors)]
        names[axis - 1].append(name)
        check_names(list(created.tasks), *names)
        turn.do(Staged(names[0], names[1], reason, by))


def _one(representation: str | None, predictor: str | None) -> tuple[int, str]:
    """Which axis, and which name on it."""
    if (representation is None) == (predictor is None):
        raise OsrlError("give one representation or one predictor; call again for another")
    return (1, representation) if representation is not None else (2, str(predictor))


def _check_reason(reason: object, what: str) -> None:
    if not isinstance(reason, str) or not reason.strip():
        raise OsrlError(f"there is no reason; say in a few words why {what}")


def _check_running(progress: Progress) -> None:
    if progress.verdict is not None:
        raise StudyEnded(
            f"the study has ended ({progress.verdict.status}), and its verdict is final; begin a new study"
        )

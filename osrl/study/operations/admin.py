"""What people do with a running study: pause it, close it, raise its budget, withdraw or add choices."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import NamedTuple

from osrl.errors import OsrlError, StudyEnded
from osrl.study.log.events import ArmsChanged, BudgetRaised, Closed, Paused, Unpaused
from osrl.study.log.identity import acting_as
from osrl.study.operations.writer import Session, WriteTransaction
from osrl.study.settings import check_names
from osrl.study.state.guardrail import names_without, next_by_harm_limit
from osrl.study.state.state import StudyState

MOST = 2**63 - 1
CLOSED = "closed"


def pause(session: Session, reason: str, by: str | None) -> None:
    """Hand out no more trials; those that are out may report."""
    _check_reason(reason, "the study is paused")
    with session.transaction() as transaction:
        _check_running(transaction.progress)
        if transaction.progress.paused is None:
            transaction.do(Paused(reason, by))


def resume(session: Session, reason: str | None, by: str | None) -> None:
    """Go on with a study that was paused."""
    with session.transaction() as transaction:
        _check_running(transaction.progress)
        if transaction.progress.paused is not None:
            transaction.do(Unpaused(reason, by))


def close(session: Session, reason: str, by: str | None) -> None:
    """End the study, with its best guess."""
    _check_reason(reason, "the study is closed")
    with session.transaction() as transaction:
        if transaction.progress.verdict is not None and transaction.progress.verdict.status == CLOSED:
            return
        _check_running(transaction.progress)
        verdict = replace(transaction.progress.best_guess(), status=CLOSED)
        transaction.do(Closed(reason, verdict, by))


def raise_budget(session: Session, budget: int, reason: str | None, by: str | None) -> None:
    """Allow more trials in all."""
    if isinstance(budget, bool) or not isinstance(budget, Integral) or not 1 <= budget <= MOST:
        raise OsrlError(f"the budget is {budget!r}; give the largest number of trials, at least 1")
    with session.transaction() as transaction:
        _check_running(transaction.progress)
        before = transaction.progress.created.budget
        if before is None:
            raise OsrlError("the study has no budget, so there is nothing to raise; ask for more trials")
        if budget < before:
            raise OsrlError(f"the budget is {before:,}, and can only be raised; give a larger number")
        if budget > before:
            transaction.do(BudgetRaised(int(budget), reason, by))


class ArmSelector(NamedTuple):
    """What is withdrawn or added: one task, representation or predictor."""

    task: str | None
    representation: str | None
    predictor: str | None

    @property
    def axis_and_name(self) -> tuple[int, str]:
        """Which of the three it is, and its name; refused where it is none or several."""
        given = [(axis, name) for axis, name in enumerate(self) if name is not None]
        if len(given) != 1:
            raise OsrlError(
                "give one task, one representation or one predictor (which goes for every task); call again for another"
            )
        return given[0]


def withdraw(session: Session, choice: ArmSelector, reason: str, by: str | None) -> None:
    """Take a task, a representation or a predictor out of the study; evidence counts from here on."""
    axis, name = choice.axis_and_name
    _check_reason(reason, f"{name!r} is withdrawn")
    with session.transaction() as transaction:
        _check_running(transaction.progress)
        transaction.progress.index_of(axis, name)
        left = names_without(transaction.progress.created, axis, name)
        if left is None:
            raise OsrlError(f"without {name!r} there is nothing left to compare; close the study instead")
        transaction.do(_staged(left, axis, reason, by))


def withdraw_by_rule(transaction: WriteTransaction) -> None:
    """Do what the limit of harm asks for, after a harm was told."""
    with acting_as(None):
        while (event := next_by_harm_limit(transaction.progress)) is not None:
            transaction.do(event)


def add(session: Session, choice: ArmSelector, reason: str, by: str | None) -> None:
    """Take a new task, representation or predictor into the study; evidence counts from here on."""
    axis, name = choice.axis_and_name
    _check_reason(reason, f"{name!r} is added")
    with session.transaction() as transaction:
        _check_running(transaction.progress)
        created = transaction.progress.created
        names = [list(created.tasks), list(created.representations), list(created.predictors)]
        names[axis].append(name)
        check_names(*names)
        transaction.do(_staged(names, axis, reason, by))


def _staged(names: list[list[str]], axis: int, reason: str, by: str | None) -> ArmsChanged:
    """The study goes on with these names, of which those on one axis are others than before."""
    tasks, representations, predictors = names
    return ArmsChanged(representations, predictors, reason, by, tasks if axis == 0 else None)


def _check_reason(reason: object, what: str) -> None:
    if not isinstance(reason, str) or not reason.strip():
        raise OsrlError(f"there is no reason; say in a few words why {what}")


def _check_running(progress: StudyState) -> None:
    if progress.verdict is not None:
        raise StudyEnded(
            f"the study has ended ({progress.verdict.status}), and its verdict is final; begin a new study"
        )

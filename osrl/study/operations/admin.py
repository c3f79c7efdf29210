"""Change a running study: pause it, close it, raise its budget, withdraw or add arms and tasks."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import NamedTuple

from osrl.errors import OsrlError, StudyEnded
from osrl.study.log.events import ArmsChanged, BudgetRaised, Closed, Paused, Unpaused
from osrl.study.operations.session import WriteTransaction
from osrl.study.settings import check_names
from osrl.study.state.policy_state import remaining_names
from osrl.study.state.state import StudyState

MAX_BUDGET = 2**63 - 1
CLOSED = "closed"


def pause(transaction: WriteTransaction, reason: str, by: str | None) -> None:
    """Issue no more trials; those that are out may report."""
    _check_reason(reason, "the study is paused")
    _check_running(transaction.state)
    if transaction.state.paused is None:
        transaction.apply(Paused(reason, by))


def resume(transaction: WriteTransaction, reason: str | None, by: str | None) -> None:
    """Go on with a study that was paused."""
    _check_running(transaction.state)
    if transaction.state.paused is not None:
        transaction.apply(Unpaused(reason, by))


def close(transaction: WriteTransaction, reason: str, by: str | None) -> None:
    """End the study, with its best guess."""
    _check_reason(reason, "the study is closed")
    state = transaction.state
    if state.verdict is not None and state.verdict.status == CLOSED:
        return
    _check_running(state)
    transaction.apply(Closed(reason, replace(state.best_guess(), status=CLOSED), by))


def raise_budget(transaction: WriteTransaction, budget: int, reason: str | None, by: str | None) -> None:
    """Allow more trials in all."""
    if isinstance(budget, bool) or not isinstance(budget, Integral) or not 1 <= budget <= MAX_BUDGET:
        raise OsrlError(f"the budget is {budget!r}; give the largest number of trials, at least 1")
    _check_running(transaction.state)
    before = transaction.state.created.budget
    if before is None:
        raise OsrlError("the study has no budget, so there is nothing to raise; ask for more trials")
    if budget < before:
        raise OsrlError(f"the budget is {before:,}, and can only be raised; give a larger number")
    if budget > before:
        transaction.apply(BudgetRaised(int(budget), reason, by))


class ArmSelector(NamedTuple):
    """What is withdrawn or added: one task, representation or predictor."""

    task: str | None
    representation: str | None
    predictor: str | None

    @property
    def axis_and_name(self) -> tuple[int, str]:
        """Return which of the three it is, and its name; refuse none and several."""
        given = [(axis, name) for axis, name in enumerate(self) if name is not None]
        if len(given) != 1:
            raise OsrlError(
                "give one task, one representation or one predictor (which goes for every task); call again for another"
            )
        return given[0]


def withdraw(transaction: WriteTransaction, selected: ArmSelector, reason: str, by: str | None) -> None:
    """Take a task, a representation or a predictor out of the study; evidence counts from here on."""
    axis, name = selected.axis_and_name
    _check_reason(reason, f"{name!r} is withdrawn")
    state = transaction.state
    _check_running(state)
    state.index_of(axis, name)
    left = remaining_names(state.created, axis, name)
    if left is None:
        raise OsrlError(f"without {name!r} there is nothing left to compare; close the study instead")
    transaction.apply(_arms_changed(left, axis, reason, by))


def add(transaction: WriteTransaction, selected: ArmSelector, reason: str, by: str | None) -> None:
    """Take a new task, representation or predictor into the study; evidence counts from here on."""
    axis, name = selected.axis_and_name
    _check_reason(reason, f"{name!r} is added")
    _check_running(transaction.state)
    created = transaction.state.created
    names = [list(created.tasks), list(created.representations), list(created.predictors)]
    names[axis].append(name)
    check_names(*names)
    transaction.apply(_arms_changed(names, axis, reason, by))


def _arms_changed(names: list[list[str]], axis: int, reason: str, by: str | None) -> ArmsChanged:
    """Return the event after which the study has these names, of which those on one axis are new."""
    tasks, representations, predictors = names
    return ArmsChanged(representations, predictors, reason, by, tasks if axis == 0 else None)


def _check_reason(reason: object, what: str) -> None:
    if not isinstance(reason, str) or not reason.strip():
        raise OsrlError(f"there is no reason; say in a few words why {what}")


def _check_running(state: StudyState) -> None:
    if state.verdict is not None:
        raise StudyEnded(f"the study has ended ({state.verdict.status}), and its verdict is final; begin a new study")

"""Claims and guarantees as sentences: one function for each kind of statement that is proved.

Page, terminal, report and notebook take their sentences from here. Without a tolerance two things are proved
(docs/guarantee.md): the answer names a wrong representation with probability at most delta_g, and in each
task it names the right one with a wrong predictor with probability at most delta_h. With a tolerance the
statement is about one task: its answer is not within the tolerance with probability at most
delta_g + delta_h. What holds for all tasks at once has the sum of these risks. A policy that shares nothing
names the best arm of a task, and is wrong in each with the smaller of its risks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from osrl.hypotheses.summary import Answer, Claim
from osrl.policies.registry import find
from osrl.report.numbers import risk as write_risk
from osrl.study.log.events import WITHIN
from osrl.study.views.status import Status
from osrl.text import printable

ALONE = "tasks"  # the stopping rule that decides every task by itself


class ChosenAnswer(NamedTuple):
    """An answer: a representation, what goes with it in each task, and the tolerances."""

    representation: str
    predictors: Mapping[str, str]  # task -> predictor
    several: bool  # whether there are predictors to choose among
    epsilon: tuple[float, float]


def chosen_of(answer: Answer, predictors: Sequence[str], epsilon: tuple[float, float]) -> ChosenAnswer | None:
    """Return the answer that statements are about; None where tasks have representations of their own."""
    own = {task: h for task, h in answer.predictors.items() if h is not None}
    if answer.representation is None or len(own) < len(answer.predictors):
        return None
    return ChosenAnswer(answer.representation, own, len(predictors) > 1, epsilon)


def chosen_by(status: Status) -> ChosenAnswer | None:
    """Return the answer or the guess of a study that statements are about, if there is one."""
    settings = status.settings
    return chosen_of(status.best, settings.predictors, (settings.epsilon_g, settings.epsilon_h))


class ClaimedStatement(NamedTuple):
    """A statement, and the risk at which it is proved."""

    statement: str
    risk: float


def is_best(chosen: ChosenAnswer) -> str:
    """Say that the representation is the best; proved for all tasks at once."""
    return f"{chosen.representation} is the best{' in every task' if len(chosen.predictors) > 1 else ''}"


def goes_best(chosen: ChosenAnswer, task: str) -> str:
    """Say that the predictor of a task is the best of the representation; proved if that is the best.

    >>> goes_best(ChosenAnswer("g1", {"x1": "h1"}, True, (0.0, 0.0)), "x1")
    'h1 is the best that goes with it in x1'
    """
    h, near = chosen.predictors[task], chosen.epsilon[1]
    if near > 0:
        return f"nothing that goes with it in {task} is better than {h} by more than {near:g} on average"
    return f"{h} is the best that goes with it in {task}"


def is_near(chosen: ChosenAnswer, task: str) -> str:
    """Say that the answer of a task is within the tolerance.

    >>> is_near(ChosenAnswer("g1", {"x1": "h1"}, True, (0.1, 0.1)), "x1")
    'in x1 nothing is better than g1 with h1 by more than 0.1 on average'
    """
    g, (wide, near) = chosen.representation, chosen.epsilon
    arm = f"{g} with {chosen.predictors[task]}" if chosen.several else g
    if wide == near or not chosen.several:
        return f"in {task} nothing is better than {arm} by more than {wide:g} on average"
    own = f"at most {near:g}" if near > 0 else "nothing"
    other = f"is worse than the best by at most {wide:g} on average"
    return f"in {task} {arm} {other}, or by {own} if {g} is the best"


def claims_of(chosen: ChosenAnswer, of_g: float, of_h: Mapping[str, float]) -> list[ClaimedStatement]:
    """Return what is proved for an answer, with the risk of each statement.

    ``of_g`` is the risk of the representation, 0 where there is only one, ``of_h`` that of the predictor of
    each task. These risks are read off the data: a statement that is false has a risk of at
    most alpha with probability at most alpha, whatever alpha is. A statement that is false in one of two ways
    keeps this with twice the larger of two risks; their sum would need levels that were fixed beforehand.

    >>> claims_of(ChosenAnswer("g1", {"x1": "h1"}, True, (0.1, 0.1)), 0.01, {"x1": 0.03})[0].risk
    0.06
    """
    tasks, several = chosen.predictors, chosen.several
    if chosen.epsilon[0] > 0:
        return [
            ClaimedStatement(is_near(chosen, task), _either(of_g, of_h[task] if several else 0.0)) for task in tasks
        ]
    found = [ClaimedStatement(is_best(chosen), of_g)] if of_g > 0 or not several else []
    if several:
        given = "if so, " if found else f"with {chosen.representation}, "
        found += [ClaimedStatement(given + goes_best(chosen, task), of_h[task]) for task in tasks]
    return found


def describe_claim(claim: Claim, chosen: ChosenAnswer) -> str:
    """Say what could be claimed of the best guess now, and at which risks."""
    claims = claims_of(chosen, claim.representation, claim.predictors)
    if claim.representation >= 1 or all(each.risk >= 1 for each in claims):
        return "Nothing could be claimed yet, at any risk"
    parts = (f"that {each.statement} (risk {write_risk(each.risk)})" for each in claims)
    return printable(f"It could be claimed now: {'; '.join(parts)}")


def _either(one: float, other: float) -> float:
    """Return the risk of a statement that is false in one of two ways."""
    return min(2 * max(one, other), 1.0) if min(one, other) > 0 else max(one, other)


def guarantee_by(status: Status, write: Callable[[float], str]) -> str:
    """Say the accepted risks of a study with a verdict."""
    settings = status.settings
    shape = (len(settings.tasks), len(settings.representations), len(settings.predictors))
    delta = settings.delta_g, settings.delta_h
    return guarantee_of(settings.policy, status.verdict, chosen_by(status), shape, delta, write)


def guarantee_of(
    policy: str,
    verdict: str,
    chosen: ChosenAnswer | None,
    shape: tuple[int, int, int],
    delta: tuple[float, float],
    write: Callable[[float], str],
) -> str:
    """Say the accepted risks of a verdict of a study with this policy, ``shape`` tasks, arms and ``delta``.

    A policy that decides every task by itself names its arm there with the smaller of both risks
    (`osrl.policies.stopping.per_task`). Nothing is said where there is no answer to speak of.
    """
    tasks, representations, predictors = shape
    if find(policy).stopping.name == ALONE:
        risk = delta[1] if representations == 1 else delta[0] if predictors == 1 else min(delta)
        return _in_tasks("the answer is wrong", tasks, risk, write)
    if chosen is None:
        return ""
    return guarantee(chosen, verdict, (delta[0] if representations > 1 else 0.0, delta[1]), write)


def guarantee(chosen: ChosenAnswer, verdict: str, delta: tuple[float, float], write: Callable[[float], str]) -> str:
    """Say the accepted risks of a verdict: of each statement, and of all of them together.

    A risk of 0 is that of a single representation, which cannot be wrong.
    """
    if verdict == WITHIN and chosen.epsilon[0] > 0:
        return _guarantee_within(chosen, delta, write)
    tasks, (of_g, of_h), said = len(chosen.predictors), delta, []
    if of_g > 0:
        said.append(f"The chance that {chosen.representation} is the wrong choice is at most {write(of_g)}.")
    if chosen.several:
        too, right = (" too" if of_g == of_h else "", "it is right and " if of_g > 0 else "")
        wrong = f"worse than another by more than {chosen.epsilon[1]:g}" if verdict == WITHIN else "wrong"
        own = f"{_where(tasks)} chance that {right}what goes with it is {wrong}"
        said.append(f"{own} is at most {write(of_h)}{too}.")
        if of_g > 0 or tasks > 1:
            said.append(_together("For the whole answer the chance of a mistake", of_g + tasks * of_h, write))
    return " ".join(said)


def _guarantee_within(chosen: ChosenAnswer, delta: tuple[float, float], write: Callable[[float], str]) -> str:
    tasks, (wide, near) = len(chosen.predictors), chosen.epsilon
    risk = sum(delta) if chosen.several else delta[0]
    better = f"something is better than this by more than {wide:g} on average"
    if chosen.several and wide != near:
        better += f" (more than {near:g} if {chosen.representation} is the best)"
    return _in_tasks(better, tasks, risk, write)


def _in_tasks(event: str, tasks: int, risk: float, write: Callable[[float], str]) -> str:
    """Say the risk of an event in each task, and that it happens in any of them."""
    said = f"{_where(tasks)} chance that {event} is at most {write(risk)}."
    if tasks < 2:
        return said
    return f"{said} {_together(f'For all {tasks} tasks at once it', tasks * risk, write)}"


def _where(tasks: int) -> str:
    return "In each task the" if tasks > 1 else "The"


def _together(what: str, total: float, write: Callable[[float], str]) -> str:
    """Say a sum of risks, which bounds nothing from 1 on."""
    if total >= 1:
        return f"{what} is not bounded: the risks add up to more than 1."
    return f"{what} is at most {write(total)}."

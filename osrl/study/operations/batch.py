"""Many calls in one transaction: what arrives together is answered together, once it is on the disk.

A commit that waits for the disk costs more than an ask or a tell. So a program with many callers collects
their calls and does them in one turn. Each call is refused or done by itself, as if it had come alone, in the
order in which they are given. An ask for which new weights must be solved first comes a turn later, and so
does the second of two calls that are known by the same key: it must find what the first has written.

Should a call break off after it has changed something, the turn is undone, and each call is done alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from osrl.errors import OsrlError, StorageError
from osrl.study.log.events import Designed
from osrl.study.operations import ask as asking
from osrl.study.operations.ask import AskRequest, hand_out
from osrl.study.operations.redesign import Redesign
from osrl.study.operations.tell import Abandonment, TrialKey, lose, resolve_trial, take
from osrl.study.operations.writer import Session, WriteTransaction
from osrl.study.state.trial import Token, Trial
from osrl.study.storage.base import Log


class IdempotencyStore(Protocol):
    """Which trials were handed out for which request, kept in the transaction of the ask."""

    def recall(self, log: Log, request: str) -> tuple[int, int] | None:
        """The first trial and how many, if this request was answered before."""

    def remember(self, log: Log, request: str, first: int, count: int) -> None:
        """This request was answered with these trials."""


class TellResult(NamedTuple):
    """What became of a call: the trial, whether it is new, and what was known afterwards."""

    trial: int
    new: bool
    verdict: str
    head: str


class Call(NamedTuple):
    """One of several calls; ``act`` gives its answer, or None where new weights are to be solved first.

    ``key``: by which it is known, if it is.
    """

    act: Callable[[WriteTransaction, Redesign], Any]
    asks: bool
    key: str | None


def ask_call(wanted: AskRequest, request: str | None = None, memory: IdempotencyStore | None = None) -> Call:
    """An ask; one with the ``request`` of an earlier one is given the same trials again."""

    def act(transaction: WriteTransaction, weights: Redesign) -> tuple[Trial, ...] | None:
        if request is not None and memory is not None:
            known = memory.recall(transaction.log, request)
            if known is not None:
                return _repeated(transaction, wanted, request, *known)
        trials = hand_out(transaction, wanted, weights)
        if trials and request is not None and memory is not None:
            memory.remember(transaction.log, request, trials[0].id, len(trials))
        return trials or None

    key = wanted.key if wanted.key is not None else request
    return Call(act, True, key)


def _repeated(
    transaction: WriteTransaction, wanted: AskRequest, request: str, first: int, count: int
) -> tuple[Trial, ...]:
    trials = tuple(asking.again(transaction, number) for number in range(first, first + count))
    asked = trials[0]
    if (
        count != wanted.n
        or wanted.task not in (None, asked.task)
        or wanted.key != asked.key
        or wanted.note not in (None, asked.note)
    ):
        raise OsrlError(
            f"the request {request!r:.60} was answered with {count} trials from {first} on, and now asks for "
            "something else; give every request a key of its own"
        )
    return trials


def tell_call(which: Token | TrialKey, reward: Any, harm: Any, by: str | None) -> Call:
    """The reward of a trial."""

    def act(transaction: WriteTransaction, weights: Redesign) -> TellResult:
        token = resolve_trial(transaction, which)
        return _done(transaction, token, take(transaction, token, reward, by, harm))

    return Call(act, False, None)


def abandon_call(which: Token | TrialKey, loss: Abandonment) -> Call:
    """The loss of a trial."""

    def act(transaction: WriteTransaction, weights: Redesign) -> TellResult:
        token = resolve_trial(transaction, which)
        return _done(transaction, token, lose(transaction, token, loss))

    return Call(act, False, None)


def _done(transaction: WriteTransaction, token: Token, new: bool) -> TellResult:
    return TellResult(token.trial, new, transaction.progress.status, transaction.progress.last.hash)


class _TornError(Exception):
    """A call has broken off after it has changed something."""


def do_together(session: Session, calls: Sequence[Call]) -> list[Any]:
    """The answers of all calls, each an `OsrlError` where the call was refused. All of it is on the disk."""
    answers: dict[int, Any] = {}
    weights = Redesign()
    while rest := [(i, call) for i, call in enumerate(calls) if i not in answers]:
        try:
            with session.transaction() as transaction:
                found, used = _one_turn(transaction, rest, weights)
            answers |= found
        except _TornError:
            for i, call in rest:
                answers[i] = _alone(session, call)
            break
        except OsrlError as error:  # of the storage: nothing of this turn is known to be stored
            answers |= {i: error for i, _ in rest}
            break
        if used:
            weights = Redesign()
        weights.solve()
    return [answers[i] for i in range(len(calls))]


def _one_turn(
    transaction: WriteTransaction, calls: Sequence[tuple[int, Call]], weights: Redesign
) -> tuple[dict[int, Any], bool]:
    """The answers that can be given in this turn, and whether new weights were used in it."""
    answers: dict[int, Any] = {}
    keys: set[str] = set()
    waiting = used = False  # for weights
    for i, call in calls:
        if call.asks:
            progress = transaction.progress
            if waiting or call.key in keys or (used and progress.steps.wants_design(progress.state)):
                continue
            if call.key is not None:
                keys.add(call.key)
        before, events = transaction.progress.position, len(transaction.events)
        try:
            answer = call.act(transaction, weights)
        except StorageError:
            raise
        except Exception as error:
            if transaction.progress.position != before or not isinstance(error, OsrlError):
                raise _TornError from error
            answer = error
        if answer is None:
            waiting = True
            continue
        answers[i] = answer
        if call.asks:
            used = used or any(isinstance(event.body, Designed) for event in transaction.events[events:])
    return answers, used


def _alone(session: Session, call: Call) -> Any:
    """The answer of one call in turns of its own."""
    weights = Redesign()
    try:
        while True:
            with session.transaction() as transaction:
                answer = call.act(transaction, weights)
            if answer is not None:
                return answer
            weights.solve()
    except OsrlError as error:
        return error

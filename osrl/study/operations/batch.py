"""Run calls in batches: those that arrive together share a transaction. A single call is a batch of one.

A commit that waits for the disk costs more than an ask or a tell, so a program with many callers collects
their calls. Each call is answered or refused by itself, in the order given, as if it had come alone. An ask
for which a design must be solved first takes part in the next transaction. So does the second of two asks with
the same key, because it must find what the first has written.

When a call fails after it has changed something, the transaction is undone, and every call of it gets a
transaction of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from osrl.errors import OsrlError, StorageError
from osrl.study.operations.ask import AskRequest, Redesign, issue_trials, reissue
from osrl.study.operations.session import Session, WriteTransaction
from osrl.study.operations.tell import Abandonment, TellResult, TrialKey, abandon, tell
from osrl.study.state.trial import Token, Trial
from osrl.study.storage.base import Log


class Call(NamedTuple):
    """One call of a batch.

    ``act`` returns its answer, or None where a design has to be solved for first, which only asks need.
    ``key``: an ask shares no transaction with another of the same key.
    """

    act: Callable[[WriteTransaction, Redesign], Any]
    asks: bool = False
    key: str | None = None


class IdempotencyStore(Protocol):
    """Which trials were issued for which request, kept in the transaction of the ask."""

    def recall(self, log: Log, request: str) -> tuple[int, int] | None:
        """Return the first trial and how many, if this request was answered before."""

    def remember(self, log: Log, request: str, first: int, count: int) -> None:
        """Store that this request was answered with these trials."""


def ask_call(request: AskRequest, idempotency_key: str | None = None, store: IdempotencyStore | None = None) -> Call:
    """Return the call of an ask; with the ``idempotency_key`` of an earlier one it gives the same trials again."""

    def act(transaction: WriteTransaction, redesign: Redesign) -> tuple[Trial, ...] | None:
        if idempotency_key is None or store is None:
            return issue_trials(transaction, request, redesign)
        known = store.recall(transaction.log, idempotency_key)
        if known is not None:
            return _same_trials(transaction, request, idempotency_key, *known)
        trials = issue_trials(transaction, request, redesign)
        if trials is not None:
            store.remember(transaction.log, idempotency_key, trials[0].id, len(trials))
        return trials

    return Call(act, asks=True, key=idempotency_key if request.key is None else request.key)


def _same_trials(
    transaction: WriteTransaction, request: AskRequest, idempotency_key: str, first: int, count: int
) -> tuple[Trial, ...]:
    trials = tuple(reissue(transaction, number) for number in range(first, first + count))
    asked = trials[0]
    if (
        count != request.n
        or request.task not in (None, asked.task)
        or request.key != asked.key
        or request.note not in (None, asked.note)
    ):
        raise OsrlError(
            f"the request {idempotency_key!r:.60} was answered with {count} trials from {first} on, and now asks for "
            "something else; give every request a key of its own"
        )
    return trials


def tell_call(ref: Token | TrialKey, reward: Any, harm: Any, by: str | None) -> Call:
    """Return the call that tells the reward of a trial."""

    def act(transaction: WriteTransaction, redesign: Redesign) -> TellResult:
        return tell(transaction, ref, reward, by, harm)

    return Call(act)


def abandon_call(ref: Token | TrialKey, loss: Abandonment) -> Call:
    """Return the call that abandons a trial."""

    def act(transaction: WriteTransaction, redesign: Redesign) -> TellResult:
        return abandon(transaction, ref, loss)

    return Call(act)


class _BrokenCallError(Exception):
    """A call has failed after it has changed something."""


def run_call(session: Session, call: Call) -> Any:
    """Return the answer of one call, or raise its error."""
    (answer,) = run_batch(session, [call])
    if isinstance(answer, Exception):
        raise answer
    return answer


def run_batch(session: Session, calls: Sequence[Call]) -> list[Any]:
    """Return the answers of all calls, each an `OsrlError` where it was refused; all of it is on the disk."""
    answers: dict[int, Any] = {}
    redesign = Redesign()
    if calls and calls[0].asks:
        session.peek(redesign.presolve)
    while rest := {i: call for i, call in enumerate(calls) if i not in answers}:
        with session.storage.fork_lock:  # nothing is compiled while the process forks
            redesign.solve()
        try:
            answers |= session.write(partial(_run_calls, calls=rest, redesign=redesign))
        except _BrokenCallError as broken:
            if len(rest) > 1:
                answers |= {i: run_batch(session, [call])[0] for i, call in rest.items()}
            elif isinstance(broken.__cause__, OsrlError):
                answers |= dict.fromkeys(rest, broken.__cause__)
            else:
                assert broken.__cause__ is not None
                raise broken.__cause__ from None
        except OsrlError as error:  # of the storage: nothing of this transaction is known to be stored
            answers |= dict.fromkeys(rest, error)
    return [answers[i] for i in range(len(calls))]


def _run_calls(transaction: WriteTransaction, calls: Mapping[int, Call], redesign: Redesign) -> dict[int, Any]:
    """Return the answers that this transaction can give: asks that wait for a design or for a key have none."""
    answers: dict[int, Any] = {}
    keys: set[str] = set()
    design_is_missing = False
    for i, call in calls.items():
        if call.asks and (design_is_missing or call.key in keys):
            continue
        if call.key is not None:
            keys.add(call.key)
        position = transaction.state.position
        try:
            answer = call.act(transaction, redesign)
        except StorageError:
            raise
        except Exception as error:
            if transaction.state.position != position or not isinstance(error, OsrlError):
                raise _BrokenCallError from error
            answer = error
        if answer is None:
            design_is_missing = True
        else:
            answers[i] = answer
    return answers

"""Tell: a trial ends, with its reward or without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from osrl.errors import OsrlError, RewardRefused, UnknownTrial
from osrl.jit.kernels import long_job
from osrl.study.log.events import Abandoned, Asked, Corrected, Told
from osrl.study.log.identity import acting_as, caller
from osrl.study.operations.session import WriteTransaction
from osrl.study.state.state import StudyState
from osrl.study.state.trial import Token, Trial, read_harm, read_key, read_reward, read_token

MAX_ROWS = 10_000  # trials of one call: others wait while they are taken in

TrialRef = Trial | str | int  # a trial, its token, or its number


class TrialKey(NamedTuple):
    """A trial that is named by its key."""

    key: str


class Abandonment(NamedTuple):
    """What is said about a trial that will never report."""

    ignorable: bool
    by: str | None
    reason: str | None


class TellResult(NamedTuple):
    """What became of a tell or an abandonment: the trial, whether it is new, and what was known afterwards."""

    trial: int
    new: bool
    verdict: str
    head: str


def parse_trial_ref(trial: object, key: object) -> Token | TrialKey:
    """Return which trial is meant; refuse where it is not said, or said twice."""
    if (trial is None) == (key is None):
        raise OsrlError(f"the trial is {trial!r}, and the key {key!r}; give a trial that was handed out, or its key")
    return read_token(trial) if key is None else TrialKey(read_key(key))


def tell(
    transaction: WriteTransaction, ref: Token | TrialKey, reward: Any, by: str | None, harm: Any = None
) -> TellResult:
    """Take in the reward of a trial, once."""
    state = transaction.state
    value = read_reward(reward, state.created)
    token = _resolve_trial(transaction, ref)
    hurt = read_harm(harm, state.created, token.trial)
    number, before = token.trial, find_end(transaction, token)
    if before is None:
        verdict = state.apply_reward(number, value, hurt)
        transaction.record(Told(number, value, verdict, by, hurt))
        _enforce_harm_limit(transaction)
        return _result(transaction, number, new=True)
    _check_blinding(number, before)
    if isinstance(before, Abandoned):
        raise RewardRefused(f"trial {number} was abandoned; its reward can no longer be told")
    if before.reward != value:
        raise RewardRefused(
            f"trial {number} was told {before.reward:g}, now {value:g}; a reward cannot be changed, "
            "only corrected (see `osrl study correct`)"
        )
    _check_same_harm(transaction, number, hurt)
    return _result(transaction, number, new=False)


def abandon(transaction: WriteTransaction, ref: Token | TrialKey, loss: Abandonment) -> TellResult:
    """Take in the loss of a trial, once."""
    token = _resolve_trial(transaction, ref)
    number, before = token.trial, find_end(transaction, token)
    if before is None:
        _check_loss(transaction.state, loss.ignorable)
        verdict = transaction.state.apply_loss(number, loss.ignorable)
        transaction.record(Abandoned(number, loss.ignorable, verdict, loss.by, loss.reason))
        return _result(transaction, number, new=True)
    _check_blinding(number, before)
    if isinstance(before, Told | Corrected):
        raise OsrlError(f"trial {number} was told {before.reward:g}; it can no longer be abandoned")
    if before.ignorable != loss.ignorable:
        raise OsrlError(f"trial {number} was abandoned with ignorable={before.ignorable}; this cannot be changed")
    return _result(transaction, number, new=False)


def _result(transaction: WriteTransaction, trial: int, new: bool) -> TellResult:
    return TellResult(trial, new, transaction.state.status, transaction.state.last.hash)


def _resolve_trial(transaction: WriteTransaction, ref: Token | TrialKey) -> Token:
    """Return the trial that is meant; refuse where no trial has the key."""
    if isinstance(ref, Token):
        return ref
    number = transaction.log.find_key(ref.key)
    if number is None:
        raise UnknownTrial(f"the study has no trial with key {ref.key!r}; ask for one with it first")
    return Token("", number, "")


def find_end(transaction: WriteTransaction, token: Token) -> Told | Abandoned | Corrected | None:
    """Return the event that ended a trial, None while it is pending; refuse a trial of another study."""
    state = transaction.state
    token.check_study(state.created)
    pending = state.pending.get(token.trial)
    if pending is not None:
        token.check_event(pending.hash)
        return None
    last: Told | Abandoned | Corrected | None = None
    for event in transaction.events_of_trial(token.trial):
        if isinstance(event.body, Asked):
            token.check_event(event.hash)
        if isinstance(event.body, Told | Abandoned | Corrected):
            last = event.body
    if last is None:
        raise UnknownTrial(f"the study has no trial {token.trial}; it has handed out {state.asked}, numbered from 1")
    return last


def _enforce_harm_limit(transaction: WriteTransaction) -> None:
    """Withdraw arms, or pause, as the limit of harm demands after a harm was told."""
    with acting_as(None):
        while (event := transaction.state.next_harm_action()) is not None:
            transaction.apply(event)


def _check_loss(state: StudyState, ignorable: bool) -> None:
    """Refuse a loss that the policy cannot bear."""
    if not ignorable and not state.bears_loss:
        rewards = state.family.name
        raise OsrlError(
            f"policy {state.policy.name!r} has no guarantee when trials with {rewards} rewards are "
            "lost for a reason that may tell something; state that it tells nothing (ignorable), or use "
            "policy 'osrl' with rewards in [0, 1]"
        )


def _check_blinding(trial: int, before: Told | Abandoned | Corrected) -> None:
    """Refuse to say anything about a result to a caller who must not see it, unless it told it."""
    who = caller()
    if who is not None and who.blind and before.via != who.token:
        raise RewardRefused(
            f"trial {trial} has ended, not by this token, which does not see results; report it to an owner"
        )


def _check_same_harm(transaction: WriteTransaction, trial: int, harm: float | None) -> None:
    """Refuse to tell a trial again with a harm that would be dropped."""
    events = transaction.events_of_trial(trial)
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


# Many trials, all of them or none


class Row(NamedTuple):
    """A row of a table of results: which trial, with which reward and harm, if these are told."""

    ref: Token | TrialKey
    reward: Any = None
    harm: Any = None


def parse_rewards(given: Iterable[Any]) -> list[Row]:
    """Return trials with their rewards: from pairs, or tables with ``trial`` or ``key``, ``reward``, ``harm``."""

    def parse(row: Any) -> Row:
        if isinstance(row, Mapping):
            _check_columns(row, {"trial", "key", "reward", "harm"})
            return Row(parse_trial_ref(row.get("trial"), row.get("key")), row.get("reward"), row.get("harm"))
        if isinstance(row, tuple | list) and len(row) == 2:
            return Row(read_token(row[0]), row[1])
        raise OsrlError(f"{row!r:.50} is no pair of a trial and its reward; give (trial, reward)")

    return _parse_rows(given, parse)


def parse_trial_refs(given: Iterable[Any]) -> list[Row]:
    """Return trials: from trials, tokens, numbers, or tables with ``trial`` or ``key``."""

    def parse(row: Any) -> Row:
        if isinstance(row, Mapping):
            _check_columns(row, {"trial", "key"})
            return Row(parse_trial_ref(row.get("trial"), row.get("key")))
        return Row(read_token(row))

    return _parse_rows(given, parse)


def _check_columns(row: Mapping[Any, Any], names: set[str]) -> None:
    if unknown := [name for name in row if name not in names]:
        raise OsrlError(f"{unknown[0]!r} is not known; give {', '.join(sorted(names))}")


def _parse_rows(given: Iterable[Any], parse: Callable[[Any], Row]) -> list[Row]:
    rows: list[Row] = []
    for row in given:
        with _in_row(len(rows) + 1):
            rows.append(parse(row))
        if len(rows) > MAX_ROWS:
            raise OsrlError(f"more than {MAX_ROWS:,} trials in one call; split them")
    return rows


def tell_rows(transaction: WriteTransaction, rows: list[Row], by: str | None) -> int:
    """Take in many rewards; return how many were new. The first that is refused refuses all."""
    return _end_all(rows, lambda row: tell(transaction, row.ref, row.reward, by, row.harm))


def abandon_rows(transaction: WriteTransaction, rows: list[Row], loss: Abandonment) -> int:
    """Take in many losses; return how many were new. The first that is refused refuses all."""
    return _end_all(rows, lambda row: abandon(transaction, row.ref, loss))


def _end_all(rows: list[Row], end: Callable[[Row], TellResult]) -> int:
    new = 0
    with long_job():
        for number, row in enumerate(rows, 1):
            with _in_row(number):
                new += end(row).new
    return new


class _in_row:  # noqa: N801 - used like a function
    """Say in which row something was refused."""

    def __init__(self, row: int) -> None:
        self._row = row

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OsrlError):
            raise type(error)(f"row {self._row}: {error}") from None

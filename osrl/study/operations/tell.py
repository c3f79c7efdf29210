"""How trials end: they are told, abandoned or corrected, alone or many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, SupportsFloat

from osrl.errors import OsrlError, RewardRefused, StorageBusy, UnknownTrial
from osrl.jit.kernel import long_job
from osrl.study.log.events import Abandoned, Amended, Corrected, Told
from osrl.study.log.identity import caller
from osrl.study.operations.admin import withdraw_by_rule
from osrl.study.operations.checks import (
    check_correction,
    check_loss,
    check_same_decisions,
    check_same_harm,
    ending,
)
from osrl.study.operations.writer import Session, WriteTransaction
from osrl.study.state.trial import Token, Trial, read_harm, read_key, read_reward, read_token, validate_actor_and_reason

MOST_AT_ONCE = 10_000  # trials of one call: others wait while they are taken in
CORRECTIONS = 3  # attempts, while others write
TrialRef = Trial | str | int  # a trial, its token, or its number


class Abandonment(NamedTuple):
    """What is said about a trial that will never report."""

    ignorable: bool
    by: str | None
    reason: str | None


def tell(session: Session, trial: TrialRef | None, key: str | None, reward: Any, by: str | None, harm: Any) -> None:
    """The reward of one trial."""
    which = parse_trial_ref(trial, key)
    validate_actor_and_reason(by)
    with session.transaction() as transaction:
        take(transaction, which, reward, by, harm)


def tell_many(session: Session, rewards: Iterable[Any], by: str | None) -> int:
    """The rewards of many trials, all of them or none; how many were new."""
    rows = _rows(rewards, "reward", "harm")
    validate_actor_and_reason(by)
    return _all_or_none(session, rows, lambda one, which, value: take(one, which, value[0], by, value[1]))


def abandon(session: Session, trial: TrialRef | None, key: str | None, loss: Abandonment) -> None:
    """The loss of one trial."""
    which = parse_trial_ref(trial, key)
    validate_actor_and_reason(loss.by, loss.reason)
    with session.transaction() as transaction:
        lose(transaction, which, loss)


def abandon_many(session: Session, trials: Iterable[Any], loss: Abandonment) -> int:
    """The loss of many trials, all of them or none; how many were new."""
    rows = _rows(trials)
    validate_actor_and_reason(loss.by, loss.reason)
    return _all_or_none(session, rows, lambda transaction, which, _: lose(transaction, which, loss))


class TrialKey(NamedTuple):
    """A trial that is meant by its key."""

    key: str


def parse_trial_ref(trial: object, key: object) -> Token | TrialKey:
    """Which trial is meant; refused where it is not said, or said twice."""
    if (trial is None) == (key is None):
        raise OsrlError(f"the trial is {trial!r}, and the key {key!r}; give a trial that was handed out, or its key")
    return read_token(trial) if key is None else TrialKey(read_key(key))


def _rows(given: Iterable[Any], value: str | None = None, more: str = "") -> list[tuple[Token | TrialKey, Any]]:
    """Which trials are meant, each with its ``value``: by pairs, or tables with ``trial`` or ``key``."""
    rows: list[tuple[Token | TrialKey, Any]] = []
    for row in given:
        with_row = _Where(len(rows) + 1)
        with with_row:
            if isinstance(row, Mapping):
                names = {"trial", "key"} | ({value, more} if value else set())
                if unknown := [name for name in row if name not in names]:
                    raise OsrlError(f"{unknown[0]!r} is not known; give {', '.join(sorted(names))}")
                which = parse_trial_ref(row.get("trial"), row.get("key"))
                rows.append((which, (row.get(value), row.get(more)) if value else None))
            elif value is None:
                rows.append((read_token(row), None))
            elif isinstance(row, tuple | list) and len(row) == 2:
                rows.append((read_token(row[0]), (row[1], None)))
            else:
                raise OsrlError(f"{row!r:.50} is no pair of a trial and its {value}; give (trial, {value})")
        if len(rows) > MOST_AT_ONCE:
            raise OsrlError(f"more than {MOST_AT_ONCE:,} trials in one call; split them")
    return rows


class _Where:
    """Says in which row something was refused."""

    def __init__(self, row: int) -> None:
        self._row = row

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OsrlError):
            raise type(error)(f"row {self._row}: {error}") from None


def _all_or_none(
    session: Session,
    rows: list[tuple[Token | TrialKey, Any]],
    act: Callable[[WriteTransaction, Token | TrialKey, Any], bool],
) -> int:
    """Do something to each of the trials in one transaction; to how many it was new."""
    if not rows:
        return 0
    new = 0
    with long_job(), session.transaction() as transaction:
        for number, (which, value) in enumerate(rows, 1):
            with _Where(number):
                new += act(transaction, which, value)
    return new


def resolve_trial(transaction: WriteTransaction, which: Token | TrialKey) -> Token:
    """The trial that is meant; refused where no trial has the key."""
    if isinstance(which, Token):
        return which
    number = transaction.log.find_key(which.key)
    if number is None:
        raise UnknownTrial(f"the study has no trial with key {which.key!r}; ask for one with it first")
    return Token("", number, "")


def take(transaction: WriteTransaction, which: Token | TrialKey, reward: Any, by: str | None, harm: Any) -> bool:
    """Take in a reward; whether it is new."""
    value = read_reward(reward, transaction.progress.created)
    token = resolve_trial(transaction, which)
    hurt = read_harm(harm, transaction.progress.created, token.trial)
    number, before = token.trial, ending(transaction, token)
    if before is None:
        verdict = transaction.progress.take(number, value, hurt)
        transaction.note(Told(number, value, verdict, by, hurt))
        withdraw_by_rule(transaction)
        return True
    _check_sight(number, before)
    if isinstance(before, Abandoned):
        raise RewardRefused(f"trial {number} was abandoned; its reward can no longer be told")
    if before.reward != value:
        raise RewardRefused(
            f"trial {number} was told {before.reward:g}, now {value:g}; a reward cannot be changed, "
            "only corrected (see `osrl study correct`)"
        )
    check_same_harm(transaction, number, hurt)
    return False


def _check_sight(trial: int, before: Told | Abandoned | Corrected) -> None:
    """Refuse to say anything about a result to a caller who must not see it, unless it told it."""
    who = caller()
    if who is not None and who.blind and before.via != who.token:
        raise RewardRefused(
            f"trial {trial} has ended, not by this token, which does not see results; report it to an owner"
        )


def lose(transaction: WriteTransaction, which: Token | TrialKey, loss: Abandonment) -> bool:
    """Take in a loss; whether it is new."""
    token = resolve_trial(transaction, which)
    number, before = token.trial, ending(transaction, token)
    if before is None:
        check_loss(transaction.progress, loss.ignorable)
        verdict = transaction.progress.give_up(number, loss.ignorable)
        transaction.note(Abandoned(number, loss.ignorable, verdict, loss.by, loss.reason))
        return True
    _check_sight(number, before)
    if isinstance(before, Told | Corrected):
        raise OsrlError(f"trial {number} was told {before.reward:g}; it can no longer be abandoned")
    if before.ignorable != loss.ignorable:
        raise OsrlError(f"trial {number} was abandoned with ignorable={before.ignorable}; this cannot be changed")
    return False


def correct(session: Session, trial: TrialRef, reward: SupportsFloat, reason: str, by: str | None) -> None:
    """The right reward of a trial that was told wrong."""
    validate_actor_and_reason(by, reason)
    if not reason.strip():
        raise OsrlError("there is no reason; say in a few words why the reward was wrong")
    token = read_token(trial)
    number = token.trial
    for _ in range(CORRECTIONS):
        with session.transaction() as transaction:
            value = read_reward(reward, transaction.progress.created)
            before = ending(transaction, token)
            if before is None or isinstance(before, Abandoned):
                raise RewardRefused(f"trial {number} has not told a reward; there is nothing to correct")
            if before.reward == value:
                return
            if isinstance(before, Corrected):
                raise RewardRefused(
                    f"trial {number} was corrected from {before.old:g} to {before.reward:g}; a reward is corrected once"
                )
            check_correction(transaction, number)
            known = transaction.progress.twin()
        without = session.without(number)  # which may take long
        check_same_decisions(number, known, without)
        with session.transaction(without) as transaction:
            if transaction.progress.last.hash == known.last.hash:
                verdict = transaction.progress.take(number, value)
                transaction.note(Corrected(number, before.reward, value, reason, verdict, by))
                return
    raise StorageBusy(f"others keep writing to the study; call again to correct trial {number}")


def amend(session: Session, trial: TrialRef, reward: SupportsFloat, reason: str, by: str | None) -> None:
    """Note the right reward of a trial whose wrong one was used."""
    validate_actor_and_reason(by, reason)
    if not reason.strip():
        raise OsrlError("there is no reason; say in a few words why the reward was wrong")
    token = read_token(trial)
    number = token.trial
    with session.transaction() as transaction:
        value = read_reward(reward, transaction.progress.created)
        used = ending(transaction, token)
        if used is None or isinstance(used, Abandoned):
            raise RewardRefused(f"trial {number} has not told a reward; there is nothing to amend")
        about = (*transaction.log.events_of_trial(number), *transaction.by_trial.get(number, ()))
        noted = next((event.body.reward for event in about if isinstance(event.body, Amended)), None)
        if noted is None and value != used.reward:
            transaction.note(Amended(number, used.reward, value, reason, by))
        elif value != (used.reward if noted is None else noted):
            raise RewardRefused(
                f"trial {number} was amended from {used.reward:g} to {noted:g}; a reward is amended once"
            )

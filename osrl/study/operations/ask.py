"""How trials are handed out, and found again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from numbers import Integral
from typing import Any, NamedTuple

from osrl.errors import OsrlError, StorageDamaged, UnknownTrial
from osrl.study.log.events import Abandoned, Amended, Asked, Corrected, Created, Event, Told, now
from osrl.study.operations.checks import check_ask
from osrl.study.operations.redesign import Redesign
from osrl.study.operations.writer import Session, WriteTransaction
from osrl.study.state.trial import Trial, new_trial, read_key, read_lease, read_note, read_token

MOST_AT_ONCE = 1000  # trials of one ask: others wait while they are handed out


@dataclass(frozen=True)
class TrialRecord(Trial):
    """A trial with what became of it; times in microseconds since 1970 (UTC).

    ``status`` is ``pending``, ``told``, ``abandoned`` or ``abandoned, ignorable``. ``amended``: the right
    reward, where it became known after the wrong one was used.
    """

    status: str
    reward: float | None
    asked_at: int
    ended_at: int | None
    amended: float | None = None


class AskRequest(NamedTuple):
    """What is asked for: how many trials, in which task, for how long, known by what."""

    task: str | None
    n: int
    length: int | None  # of the lease, in microseconds
    key: str | None
    note: dict[str, Any] | None


def parse_ask(
    task: str | None,
    n: int | None,
    lease: str | timedelta | None,
    key: str | None,
    note: Mapping[str, Any] | None,
) -> AskRequest:
    """What is asked for; an error where that cannot be."""
    length = None if lease is None else read_lease(lease)
    count = _count(n)
    if key is not None and n is not None:
        raise OsrlError("a key is that of one trial; ask without n, once for each key")
    if key is not None:
        read_key(key)
    return AskRequest(task, count, length, key, None if note is None else read_note(note))


def ask(session: Session, wanted: AskRequest) -> tuple[Trial, ...]:
    """Hand out the trials that are wanted; the one that has the key already, if there is one."""
    weights = Redesign()
    session.presolve(weights.presolve)
    while True:
        with session.storage.fork_lock:  # nothing is compiled while the process forks
            weights.solve()
        with session.transaction() as transaction:
            trials = hand_out(transaction, wanted, weights)
        if trials:
            return trials


def hand_out(transaction: WriteTransaction, wanted: AskRequest, weights: Redesign) -> tuple[Trial, ...]:
    """Hand out trials; none where the log is to be let go, to solve for new weights."""
    task, count, length, key, note = wanted
    progress = transaction.progress
    if key is not None and (again := _asked_before(transaction, key, task, note)) is not None:
        return (again,)
    check_ask(progress, task, count)
    trials = []
    for _ in range(count if weights.renew(transaction) else 0):
        until = None if length is None else now() + length
        asked = progress.choose(task, until, key, note)
        trials.append(new_trial(asked, progress.created, transaction.do(asked).hash))
    return tuple(trials)


def _count(n: int | None) -> int:
    count = 1 if n is None else n
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise OsrlError(f"n is {n!r}; give the number of trials to hand out, at least 1")
    if count > MOST_AT_ONCE:
        raise OsrlError(f"n is {n}; a call hands out at most {MOST_AT_ONCE:,} trials; ask again for more")
    return int(count)


def _asked_before(transaction: WriteTransaction, key: str, task: str | None, note: object) -> Trial | None:
    """The trial that was handed out for a key; refused where it was asked for with something else."""
    number = transaction.log.find_key(key)
    if number is None:
        return None
    asked, hash = _handed_out(transaction.log.events_of_trial(number), number, key)
    if task is not None and task != asked.task:
        raise OsrlError(
            f"key {key!r} is that of trial {number} in task {asked.task!r}, now the task is {task!r}; "
            "give every trial a key of its own"
        )
    if note is not None and note != asked.note:
        raise OsrlError(
            f"key {key!r} is that of trial {number}, which has another note; a note cannot be changed, "
            "ask again without one"
        )
    return new_trial(asked, transaction.progress.settings_of(number), hash)


def again(transaction: WriteTransaction, number: int) -> Trial:
    """A trial that was handed out before."""
    asked, hash = _handed_out(transaction.log.events_of_trial(number), number, None)
    return new_trial(asked, transaction.progress.settings_of(number), hash)


def find_trial(session: Session, which: Trial | str | int) -> TrialRecord:
    """A trial by itself, its number, its token or its key, with what became of it."""
    if isinstance(which, str) and not _is_token(which):
        key = read_key(which)
        number = session.storage.find_key(session.number, key)
        if number is None:
            raise UnknownTrial(f"the study has no trial with key {which!r}; ask for one with it")
    else:
        token, key = read_token(which), None
        number = token.trial
    with session.reading() as progress:
        created, handed = progress.settings_of(max(number, 1)), progress.asked
    events = session.storage.events_of_trial(session.number, number)
    if not events:
        raise UnknownTrial(f"the study has no trial {number}; it has handed out {handed}, numbered from 1")
    asked, hash = _handed_out(events, number, key)
    if key is None:
        token.check_study(created)
        token.check_event(hash)
    return _record(asked, created, events)


def find_trials(session: Session, first: int, last: int) -> list[TrialRecord]:
    """The trials from number ``first`` to ``last``, with what became of each."""
    trials: dict[int, list[Event]] = {}
    for event in session.storage.events_of_trials(session.number, first, last):
        assert event.trial is not None
        trials.setdefault(event.trial, []).append(event)
    with session.reading() as progress:
        created = {number: progress.settings_of(number) for number in trials}
    return [
        _record(_handed_out(events, number, None)[0], created[number], events)
        for number, events in sorted(trials.items())
    ]


def _is_token(text: str) -> bool:
    try:
        read_token(text)
    except OsrlError:
        return False
    return True


def _handed_out(events: Sequence[Event], number: int, key: str | None) -> tuple[Asked, str]:
    """The ask of a trial, and its hash; refused where it is not the one that the key is said to have."""
    first = events[0] if events else None
    if first is None or not isinstance(first.body, Asked) or key not in (None, first.body.key):
        raise StorageDamaged(f"trial {number} is said to have key {key!r}, and does not; restore a backup")
    return first.body, first.hash


def _record(asked: Asked, created: Created, events: Sequence[Event]) -> TrialRecord:
    status, reward, ended, amended = "pending", None, None, None
    for event in events[1:]:
        if isinstance(event.body, Amended):
            amended = event.body.reward
            continue
        ended = event.at
        match event.body:
            case Told() | Corrected() as told:
                status, reward = "told", told.reward
            case Abandoned() as lost:
                status = "abandoned, ignorable" if lost.ignorable else "abandoned"
    trial = new_trial(asked, created, events[0].hash)
    return TrialRecord(
        **vars(trial), status=status, reward=reward, asked_at=events[0].at, ended_at=ended, amended=amended
    )

"""Trials, with what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from osrl.errors import OsrlError, UnknownTrial
from osrl.study.log.events import Abandoned, Amended, Asked, Corrected, Created, Event, Told
from osrl.study.state.state import StudyState
from osrl.study.state.trial import Trial, arm_of, find_ask, new_trial, read_key, read_token
from osrl.study.storage.base import Storage


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


def find_trial(storage: Storage, study: int, state: StudyState, ref: Trial | str | int) -> TrialRecord:
    """Return a trial by itself, its number, its token or its key, with what became of it."""
    if isinstance(ref, str) and not _is_token(ref):
        key = read_key(ref)
        number = storage.find_key(study, key)
        if number is None:
            raise UnknownTrial(f"the study has no trial with key {ref!r}; ask for one with it")
    else:
        token, key = read_token(ref), None
        number = token.trial
    events = storage.events_of_trial(study, number)
    if not events:
        raise UnknownTrial(f"the study has no trial {number}; it has handed out {state.asked}, numbered from 1")
    asked, hash = find_ask(events, number, key)
    created = state.settings_of(max(number, 1))
    if key is None:
        token.check_study(created)
        token.check_event(hash)
    return _record(asked, created, events)


def find_trials(storage: Storage, study: int, state: StudyState, first: int, last: int) -> list[TrialRecord]:
    """Return the trials from number ``first`` to ``last``, with what became of each."""
    trials: dict[int, list[Event]] = {}
    for event in storage.events_of_trials(study, first, last):
        assert event.trial is not None
        trials.setdefault(event.trial, []).append(event)
    return [
        _record(find_ask(events, number, None)[0], state.settings_of(number), events)
        for number, events in sorted(trials.items())
    ]


def _is_token(text: str) -> bool:
    try:
        read_token(text)
    except OsrlError:
        return False
    return True


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
    trial = new_trial(asked, created, events[0].hash, arm_of(asked, created))
    return TrialRecord(
        **vars(trial), status=status, reward=reward, asked_at=events[0].at, ended_at=ended, amended=amended
    )

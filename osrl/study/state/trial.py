"""Trials, rewards and answers, as people give and get them: by name."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from numbers import Integral
from typing import Any, NamedTuple

from osrl.errors import OsrlError, RewardRefused, StorageDamaged, UnknownTrial
from osrl.hypotheses.summary import Answer
from osrl.model.families import Family
from osrl.study.log.events import Asked, Created, Event, Verdict

TOO_LARGE = 2**63  # numbers beyond it fit no database
MAX_KEY_LETTERS = 200  # letters
MAX_NOTE_LETTERS = 4000  # letters, as JSON
MAX_REASON_LETTERS = 10_000  # letters of who and why
MAX_LEASE = timedelta(days=3650)
_LEASE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TOKEN = re.compile(r"([0-9a-f]{12})-([0-9]{1,18})-([0-9a-f]{12})")


@dataclass(frozen=True)
class Trial:
    """A trial that was handed out: run it and tell its reward.

    ``propensity`` is the probability with which its arm was drawn, among the arms of its task. ``token``
    says which study has handed it out; a trial of another one is refused. ``key`` and ``note`` are those
    that it was asked for with.
    """

    id: int
    task: str
    representation: str
    predictor: str
    propensity: float
    token: str
    key: str | None
    note: Mapping[str, Any] | None


TrialRef = Trial | str | int  # a trial, its token (or, where keys are read, its key), or its number


def new_trial(asked: Asked, created: Created, hash: str, a: int) -> Trial:
    """Return the trial of an ask for arm ``a`` of its task, which was written with this hash."""
    token = str(Token(short_id(created), asked.trial, hash[:12]))
    arm = asked.task, asked.representation, asked.predictor
    drawn = asked.propensities
    propensity = 1.0 if drawn is None else drawn[a] / sum(drawn)
    return Trial(asked.trial, *arm, propensity, token, asked.key, asked.note)


def find_ask(events: Sequence[Event], number: int, key: str | None) -> tuple[Asked, str]:
    """Return the ask of a trial and its hash; refuse a trial that has not the key by which it was found."""
    first = events[0] if events else None
    if first is None or not isinstance(first.body, Asked) or key not in (None, first.body.key):
        raise StorageDamaged(f"trial {number} is said to have key {key!r}, and does not; restore a backup")
    return first.body, first.hash


def arm_of(asked: Asked, created: Created) -> int:
    """Return the number of an ask's arm among the arms of its task."""
    g = created.representations.index(asked.representation)
    return g * len(created.predictors) + created.predictors.index(asked.predictor)


class Token(NamedTuple):
    """By which a trial is known again: the study, its number, and the event that handed it out.

    Written ``study-number-event``: the beginnings of the study's id and of the event's hash. Where only the
    number is known, both are empty. A copy of a study that has diverged issues trials of the same
    numbers; the hashes of their events differ, by time if by nothing else.
    """

    study: str
    trial: int
    event: str

    def __str__(self) -> str:
        return f"{self.study}-{self.trial}-{self.event}"

    def check_study(self, created: Created) -> None:
        """Refuse a trial of another study."""
        if self.study and self.study != short_id(created):
            raise UnknownTrial(
                f"trial {self.trial} was handed out by another study ({self.study}, this one is "
                f"{short_id(created)}); tell it there"
            )

    def check_event(self, hash: str) -> None:
        """Refuse a trial that another copy of the study has handed out under this number."""
        if not hash.startswith(self.event):
            raise UnknownTrial(
                f"trial {self.trial} was handed out by another branch of this study, a copy or a lost "
                "log; here this number is another trial, and the reward is not its reward"
            )


def short_id(created: Created) -> str:
    """Return the beginning of the id of a study; of a digest of its settings, where the log has no id."""
    return (created.id or hashlib.sha256(repr(created).encode()).hexdigest())[:12]


def read_token(trial: object) -> Token:
    """Return which trial is meant: by the trial, its token or its number."""
    text = trial.token if isinstance(trial, Trial) else trial
    if isinstance(text, str) and (parts := _TOKEN.fullmatch(text)):
        return Token(parts[1], int(parts[2]), parts[3])
    if isinstance(text, bool) or not isinstance(text, Integral):
        raise OsrlError(f"the trial is {trial!r}; give a trial that was handed out, or its number")
    if abs(int(text)) >= TOO_LARGE:
        raise UnknownTrial("the study has no such trial; they are numbered from 1")
    return Token("", int(text), "")


def read_key(key: object) -> str:
    """Return the key of a trial: one line of text."""
    if not isinstance(key, str) or not key.strip() or not key.isprintable():
        raise OsrlError(f"the key is {key!r:.50}; give one line of text, such as 'patient-17'")
    if len(key) > MAX_KEY_LETTERS:
        raise OsrlError(f"the key has {len(key):,} letters; use at most {MAX_KEY_LETTERS:,}")
    return key


def read_note(note: object) -> dict[str, Any] | None:
    """Return the note of a trial: names with texts, numbers, truths or null; None if it is empty."""
    if not isinstance(note, Mapping) or not all(isinstance(name, str) for name in note):
        raise OsrlError(f"the note is {note!r:.50}; give a table of names and values, such as {{'site': 'Rome'}}")
    for name, value in note.items():
        if value is not None and not isinstance(value, str | int | float | bool):
            raise OsrlError(f"{name!r} of the note is {value!r:.50}; give a text, a number, true, false or null")
    try:
        text = json.dumps(dict(note), allow_nan=False, ensure_ascii=False)
        text.encode()
    except ValueError:
        raise OsrlError(f"the note {note!r:.50} cannot be stored; give finite numbers and plain text") from None
    if len(text) > MAX_NOTE_LETTERS:
        raise OsrlError(f"the note has {len(text):,} letters; use at most {MAX_NOTE_LETTERS:,}")
    attributes: dict[str, Any] = json.loads(text)
    return attributes or None


def validate_actor_and_reason(by: object, reason: object = None) -> None:
    """Refuse who and why something is said, where it is no text or far too long for a log."""
    for what, text in (("by", by), ("reason", reason)):
        if text is not None and not isinstance(text, str):
            raise OsrlError(f"{what} is {text!r:.50}; give a text")
        if text is not None and len(text) > MAX_REASON_LETTERS:
            raise OsrlError(f"{what} has {len(text):,} letters; use at most {MAX_REASON_LETTERS:,}")


def read_lease(lease: str | timedelta) -> int:
    """Return how long a trial may take, in microseconds: from a time, or a text such as 30m, 1h or 2d."""
    given = lease
    if isinstance(lease, str) and (parts := _LEASE.fullmatch(lease.strip())):
        lease = timedelta(**{_UNITS[parts[2]]: float(parts[1])})
    if not isinstance(lease, timedelta) or not timedelta(0) < lease <= MAX_LEASE:
        raise OsrlError(
            f"the lease is {given!r:.50}; give a time such as 30m, 1h or 2d, and at most {MAX_LEASE.days} days"
        )
    return lease // timedelta(microseconds=1)


def read_reward(reward: Any, created: Created) -> float:
    """Return the reward as a number that the family of the study can have."""
    family, low, high = Family(created.family, created.noise_sd), created.low, created.high
    try:
        value = None if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None or not family.accepts_reward((value - low) / (high - low)):
        shown = family.reward_range if (low, high) == (0.0, 1.0) else f"a number from {low:g} to {high:g}"
        advice = _ADVICE[family.name]
        raise RewardRefused(f"the reward is {reward!r:.50}; give {shown}, as the {family.name} family has{advice}")
    return value + 0.0  # no negative zero


_ADVICE = {
    "bernoulli": " (true and false will do; for other rewards create the study with family 'bounded' and "
    "their limits, low and high, fixed in advance)",
    "bounded": " (limits are fixed in advance: create the study with low and high)",
    "gaussian": "",
}


def read_harm(harm: Any, created: Created, trial: int) -> float | None:
    """Return the harm of a trial, from 0 to 1; None where there is no limit of it.

    Where it has one, it must be told: evidence that nobody has is never found. (Studies that were begun
    before this was so may leave it out.)
    """
    if harm is None and created.harm_limit is not None and created.revision:
        raise RewardRefused(
            f"the harm of trial {trial} is missing, and the study has a limit of harm; give harm, from 0 to "
            "1: 0 if there was none, and 1, the worst, if nobody knows"
        )
    if harm is None:
        return None
    if created.harm_limit is None:
        raise RewardRefused("the study has no limit of harm; tell the reward alone, or create it with harm_limit")
    value = None if isinstance(harm, str | bytes) else float(harm)
    if value is None or not 0.0 <= value <= 1.0:
        raise RewardRefused(f"the harm is {harm!r:.50}; give a number from 0 to 1, or true or false")
    return value


def read_answer(created: Created, verdict: Verdict) -> Answer:
    """Return the answer of a verdict, or of a best guess."""
    chosen = set(verdict.representations)
    return Answer(
        chosen.pop() if len(chosen) == 1 else None,
        dict(zip(created.tasks, verdict.representations, strict=True)),
        dict(zip(created.tasks, verdict.predictors, strict=True)),
    )

"""Trials, rewards and answers, as people give and get them: by name."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from numbers import Integral
from typing import Any, NamedTuple

from osrl.errors import OsrlError, RewardRefused, UnknownTrial
from osrl.families import Family
from osrl.hypotheses.words import Answer
from osrl.study.events import Asked, Created, Verdict

MOST = 2**63  # numbers beyond it fit no database
LONGEST_LEASE = timedelta(days=3650)
_LEASE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TOKEN = re.compile(r"([0-9a-f]{12})-([0-9]{1,18})-([0-9a-f]{12})")


class Trial(NamedTuple):
    """A trial that was handed out: run it and tell its reward.

    ``propensity`` is the probability with which its arm was drawn, among the arms of its task. ``token``
    says which study has handed it out; a trial of another one is refused.
    """

    id: int
    task: str
    representation: str
    predictor: str
    propensity: float
    token: str


def new_trial(asked: Asked, created: Created, hash: str) -> Trial:
    """The trial of an ask, which was written with this hash."""
    propensity = 1.0
    if asked.propensities is not None:
        g = created.representations.index(asked.representation)
        h = created.predictors.index(asked.predictor)
        propensity = asked.propensities[g * len(created.predictors) + h] / sum(asked.propensities)
    token = Token(short_id(created), asked.trial, hash[:12])
    return Trial(asked.trial, asked.task, asked.representation, asked.predictor, propensity, str(token))


class Token(NamedTuple):
    """By which a trial is known again: the study, its number, and the event that handed it out.

    Written ``study-number-event``: the beginnings of the study's id and of the event's hash. Where only the
    number is known, both are empty. A copy of a study that goes its own way hands out trials of the same
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
    """The beginning of the id of a study; of a digest of its settings, where the log has no id."""
    return (created.id or hashlib.sha256(repr(created).encode()).hexdigest())[:12]


def read_token(trial: object) -> Token:
    """Which trial is meant: by the trial, its token or its number."""
    text = trial.token if isinstance(trial, Trial) else trial
    if isinstance(text, str) and (found := _TOKEN.fullmatch(text)):
        return Token(found[1], int(found[2]), found[3])
    if isinstance(text, bool) or not isinstance(text, Integral):
        raise OsrlError(f"the trial is {trial!r}; give a trial that was handed out, or its number")
    if abs(int(text)) >= MOST:
        raise UnknownTrial("the study has no such trial; they are numbered from 1")
    return Token("", int(text), "")


def read_lease(lease: str | timedelta) -> int:
    """How long a trial may take, in microseconds: a time, or a text such as 30m, 1h or 2d."""
    given = lease
    if isinstance(lease, str) and (found := _LEASE.fullmatch(lease.strip())):
        lease = timedelta(**{_UNITS[found[2]]: float(found[1])})
    if not isinstance(lease, timedelta) or not timedelta(0) < lease <= LONGEST_LEASE:
        raise OsrlError(
            f"the lease is {given!r:.50}; give a time such as 30m, 1h or 2d, and at most "
            f"{LONGEST_LEASE.days} days"
        )
    return lease // timedelta(microseconds=1)


def read_reward(reward: Any, family: Family) -> float:
    """The reward as a number that the family can have."""
    try:
        value = None if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None or not family.accepts_reward(value):
        raise RewardRefused(
            f"the reward is {reward!r}; give {family.reward_range}, as the {family.name} family has"
        )
    return value + 0.0  # no negative zero


def read_answer(created: Created, verdict: Verdict) -> Answer:
    """The answer of a verdict, or of a best guess."""
    found = set(verdict.representations)
    return Answer(
        found.pop() if len(found) == 1 else None,
        dict(zip(created.tasks, verdict.representations, strict=True)),
        dict(zip(created.tasks, verdict.predictors, strict=True)),
    )

"""The life of a study, as events: it rests, goes on, gets more budget, loses or gains arms, or is closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """How a study ended, with an answer for each task; a best guess when it did not end by its evidence."""

    status: str
    representations: Sequence[str | None]
    predictors: Sequence[str | None]


@dataclass(frozen=True)
class Paused:
    """No more trials are handed out, until the study goes on."""

    reason: str
    by: str | None = None


@dataclass(frozen=True)
class Continued:
    """A study that was paused goes on."""

    reason: str | None = None
    by: str | None = None


@dataclass(frozen=True)
class Budgeted:
    """The budget is ``budget`` from here on."""

    budget: int
    reason: str | None = None
    by: str | None = None


@dataclass(frozen=True)
class Staged:
    """A representation or a predictor is withdrawn or added: evidence counts from here on.

    ``representations`` and ``predictors`` are all that are left or there now.
    """

    representations: Sequence[str]
    predictors: Sequence[str]
    reason: str
    by: str | None = None


@dataclass(frozen=True)
class Closed:
    """A person has ended the study; the verdict has its best guess."""

    reason: str
    verdict: Verdict | None = None
    by: str | None = None

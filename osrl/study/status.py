"""The status of a study: everything that is known, at one moment."""

from __future__ import annotations

from typing import NamedTuple

from osrl.study.events import Created
from osrl.study.fold import Fold
from osrl.study.standing import Claim, Hypothesis, Objection, read_standing
from osrl.study.trial import Answer, read_answer


class PendingTrial(NamedTuple):
    """A trial that has not reported; ``asked_at`` in microseconds since 1970 (UTC)."""

    id: int
    task: str
    representation: str
    predictor: str
    asked_at: int


class Status(NamedTuple):
    """What is decided, what is open, how far it is, and who has not reported.

    ``head`` is the hash of the last event, which stands for the whole log.
    """

    settings: Created
    verdict: str
    best: Answer
    handed_out: int
    told: int
    abandoned: int
    pending: tuple[PendingTrial, ...]
    hypotheses: tuple[Hypothesis, ...]
    claim: Claim | None
    objections: tuple[Objection, ...]
    expected_remaining: float | None
    head: str


def read_status(fold: Fold) -> Status:
    """The status of a study, from its fold."""
    created, predictors = fold.created, fold.shape[2]
    pending = tuple(
        PendingTrial(
            trial,
            created.tasks[one.x],
            created.representations[one.a // predictors],
            created.predictors[one.a % predictors],
            one.at,
        )
        for trial, one in fold.pending.items()
    )
    standing = read_standing(fold)
    return Status(
        created,
        fold.status,
        read_answer(created, fold.verdict or fold.best_guess()),
        fold.asked,
        fold.told,
        fold.abandoned,
        pending,
        standing.hypotheses,
        standing.claim,
        standing.objections,
        standing.expected_remaining,
        fold.last.hash,
    )

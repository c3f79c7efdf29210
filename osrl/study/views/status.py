"""The status of a study: everything that is known, at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.hypotheses.summary import Answer, Arm, Claim, Hypothesis, Objection
from osrl.notebook import as_html
from osrl.study.log.events import Created, now
from osrl.study.state.harm import HarmOf
from osrl.study.state.state import StudyState
from osrl.study.state.trial import Trial, read_answer
from osrl.study.views.arms import ArmRate, read_rates
from osrl.study.views.evidence import current, read_standing
from osrl.study.views.forecast import Forecast

FEW = 100  # pending trials that a status has
MOST = 1_000  # that are read at once
HOUR = 3_600_000_000  # microseconds


@dataclass(frozen=True)
class PendingTrial(Trial):
    """A trial that has not reported; times in microseconds since 1970 (UTC).

    ``until``: when it was to report, if it was handed out with a lease; ``overdue``: that time is over.
    """

    asked_at: int
    until: int | None
    overdue: bool


class Ages(NamedTuple):
    """How many trials have not reported, by how long they have been out: less than an hour, a day, a week."""

    hour: int
    day: int
    week: int
    longer: int


NO_AGES = Ages(0, 0, 0, 0)


class Suspect(NamedTuple):
    """An arm that is lost more often than its draws explain: ``lost`` of ``ended`` trials were left out."""

    task: str
    representation: str
    predictor: str
    lost: int
    ended: int


class Alarm(NamedTuple):
    """Losses that were declared ignorable depend on the arm.

    The chance of such evidence, if they did not, is at most exp(-log_evidence). ``void``: the alarm came
    after a verdict that rests on these losses; otherwise every loss counts by its worst reward since the
    alarm.
    """

    log_evidence: float
    suspects: tuple[Suspect, ...]
    void: bool


class Status(NamedTuple):
    """What is decided, what is open, how far it is, and who has not reported.

    ``pending`` are the trials that have been out longest, at most `FEW`; ``pending_next`` is the last of them
    if there are more, see `osrl.Study.pending_trials`. ``head`` is the hash of the last event, which stands
    for the whole log.
    """

    settings: Created
    verdict: str
    best: Answer
    handed_out: int
    told: int
    abandoned: int
    left_out: int  # losses that were declared ignorable
    alarm: Alarm | None
    pending: tuple[PendingTrial, ...]
    hypotheses: tuple[Hypothesis, ...]
    claim: Claim | None
    objections: tuple[Objection, ...]
    as_good: tuple[Arm, ...]  # as the answer, within the tolerance
    arms: tuple[ArmRate, ...]
    paused: str | None  # why no trials are handed out
    since: int  # the first trial that is evidence: arms were withdrawn or added just before, if it is not 1
    forecast: Forecast | None  # None where nothing is known yet
    head: str
    harm: tuple[HarmOf, ...] = ()  # of representations, then predictors, where it has a limit
    unchecked: tuple[str, ...] = ()  # tasks in which a model check lacks evidence for the answer or the guess
    pending_next: int | None = None
    pending_ages: Ages = NO_AGES
    stages: int = 1  # arms were withdrawn or added one time less

    def _repr_html_(self) -> str:
        return as_html(self)

    @property
    def waiting(self) -> int:
        """How many trials have not reported."""
        return self.handed_out - self.told - self.abandoned

    @property
    def without_data(self) -> tuple[str, ...]:
        """The tasks in which nothing was told yet."""
        told = {arm.task for arm in self.arms if arm.told}
        return tuple(task for task in self.settings.tasks if task not in told)

    @property
    def expected_remaining(self) -> float | None:
        """About how many more trials are needed: the median of the forecast."""
        return None if self.forecast is None else self.forecast.median


def read_status(progress: StudyState, at: int | None = None) -> Status:
    """The status of a study, from its progress, but for the forecast; ``at`` is the time of looking."""
    created, at = progress.created, now() if at is None else at
    pending = read_pending(progress, 0, FEW, at)
    guess = progress.verdict or progress.best_guess()
    hypotheses = current(progress)
    standing = read_standing(progress, hypotheses, guess)
    alarm = _read_alarm(progress)
    return Status(
        created,
        progress.status,
        read_answer(created, guess),
        progress.asked,
        progress.told,
        progress.abandoned,
        progress.left_out,
        alarm,
        pending,
        standing.hypotheses,
        None if alarm is not None and alarm.void else standing.claim,
        standing.objections,
        standing.as_good,
        read_rates(progress, guess),
        progress.paused,
        progress.stages[-1][0],
        None,
        progress.last.hash,
        () if progress.harm is None else progress.harm.table(),
        standing.unchecked,
        pending[-1].id if len(pending) < len(progress.pending) else None,
        _read_ages(progress, at),
        len(progress.stages),
    )


def read_pending(progress: StudyState, after: int, limit: int, at: int | None = None) -> tuple[PendingTrial, ...]:
    """The first ``limit`` pending trials after number ``after``, those that have been out longest first."""
    if not 1 <= limit <= MOST or after < 0:
        raise OsrlError(f"{limit} pending trials after number {after}; give at most {MOST:,} after a number from 0 on")
    at = now() if at is None else at
    return tuple(
        PendingTrial(
            **vars(progress.trial_of(one)),
            asked_at=one.at,
            until=one.asked.until,
            overdue=(one.asked.until or at) < at,
        )
        for one in islice((one for trial, one in progress.pending.items() if trial > after), limit)
    )


def _read_ages(progress: StudyState, at: int) -> Ages:
    since = np.fromiter((one.at for one in progress.pending.values()), np.int64, len(progress.pending))
    longer = [int(np.count_nonzero(at - since >= hours * HOUR)) for hours in (1, 24, 168)]
    counts = -np.diff([since.size, *longer, 0])
    return Ages(*counts.tolist())


def _read_alarm(progress: StudyState) -> Alarm | None:
    """The alarm of the watch on losses, in the words of the study."""
    losses = progress.missingness
    if losses is None or not losses.alarm:
        return None
    created, predictors = progress.created, progress.shape[2]
    suspects = tuple(
        Suspect(
            created.tasks[x],
            created.representations[a // predictors],
            created.predictors[a % predictors],
            *of,
        )
        for x, a, *of in losses.suspects()
    )
    return Alarm(losses.log_evidence, suspects, losses.void)

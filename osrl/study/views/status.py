"""The status of a study: the one document that every view reads.

It is computed once from the state of the study. Terminal, page, HTTP and notebook only format it. Its times are
microseconds since 1970 (UTC).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.hypotheses.summary import Answer, Arm, Claim, Hypothesis, Objection
from osrl.study.log.events import ANSWERED, OVER, Created, now
from osrl.study.state.harm import HarmOf
from osrl.study.state.state import StudyState
from osrl.study.state.trial import Trial, read_answer
from osrl.study.views.arms import ArmRate, estimate_arms, tasks_beaten, tasks_without_result
from osrl.study.views.evidence import current_hypotheses, read_evidence
from osrl.study.views.forecast import Forecast

MAX_PENDING_SHOWN = 100  # pending trials in a status
MAX_PENDING_PAGE = 1_000  # pending trials in one page of them
HOUR = 3_600_000_000  # microseconds


@dataclass(frozen=True)
class PendingTrial(Trial):
    """A trial that has not reported.

    ``until``: when it was to report, if it was handed out with a lease; ``overdue``: that time is over.
    """

    asked_at: int
    until: int | None
    overdue: bool


class Ages(NamedTuple):
    """Counts of pending trials, by how long they have been out: less than an hour, a day, a week, or longer."""

    hour: int
    day: int
    week: int
    longer: int


NO_AGES = Ages(0, 0, 0, 0)


class SuspectArm(NamedTuple):
    """An arm that is lost more often than its draws explain: ``lost`` of ``ended`` trials were left out."""

    task: str
    representation: str
    predictor: str
    lost: int
    ended: int


class MissingnessAlarm(NamedTuple):
    """Losses that were declared ignorable depend on the arm.

    The chance of such evidence, if they did not, is at most exp(-log_evidence). ``void``: the alarm came
    after a verdict that rests on these losses; otherwise every loss counts by its worst reward since the
    alarm.
    """

    log_evidence: float
    suspects: tuple[SuspectArm, ...]
    void: bool


class Status(NamedTuple):
    """The status of a study: verdict, evidence, arms, pending trials, forecast.

    ``pending`` are the trials that have been out longest, at most `MAX_PENDING_SHOWN`; ``pending_next`` is the last
    of them if there are more, see `osrl.Study.pending_trials`. ``head`` is the hash of the last event, which stands
    for the whole log.
    """

    settings: Created
    verdict: str
    best: Answer
    handed_out: int
    told: int
    abandoned: int
    left_out: int  # losses that were declared ignorable
    alarm: MissingnessAlarm | None
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
        from osrl.report.notebook import html

        return html(self)

    @property
    def waiting(self) -> int:
        """Return how many trials have not reported."""
        return self.handed_out - self.told - self.abandoned

    @property
    def without_data(self) -> tuple[str, ...]:
        """Return the tasks in which nothing was told yet."""
        told = {arm.task for arm in self.arms if arm.told}
        return tuple(task for task in self.settings.tasks if task not in told)

    @property
    def expected_remaining(self) -> float | None:
        """Return about how many more trials are needed: the median of the forecast."""
        return None if self.forecast is None else self.forecast.median

    @property
    def is_answered(self) -> bool:
        """Tell whether the study has ended with an answer."""
        return self.verdict in ANSWERED

    @property
    def is_over(self) -> bool:
        """Tell whether the study has ended."""
        return self.verdict in OVER

    @property
    def is_void(self) -> bool:
        """Tell whether an alarm has made the guarantee of the verdict void."""
        return self.alarm is not None and self.alarm.void

    @property
    def arms_left(self) -> list[ArmRate]:
        """Return the arms that were not withdrawn."""
        g, h = self.settings.representations, self.settings.predictors
        return [arm for arm in self.arms if arm.representation in g and arm.predictor in h]

    @property
    def beaten_in(self) -> list[str]:
        """Return the tasks in which another arm has a larger mean reward than that of the guess."""
        return tasks_beaten(self.arms_left, self.best)

    @property
    def guess_without_result(self) -> list[str]:
        """Return the tasks with results in which the arm of the guess has none yet."""
        return [task for task in tasks_without_result(self.arms, self.best) if task not in self.without_data]

    @property
    def looks_best(self) -> bool:
        """Tell whether in every task no arm has a larger mean reward than that of the guess."""
        return not tasks_without_result(self.arms_left, self.best) and not self.beaten_in


def read_status(state: StudyState, at: int | None = None) -> Status:
    """Return the status of a study, but for its forecast; ``at`` is the time of looking, by default now."""
    created, at = state.created, now() if at is None else at
    pending = read_pending(state, 0, MAX_PENDING_SHOWN, at)
    guess = state.verdict or state.best_guess()
    hypotheses = current_hypotheses(state)
    evidence = read_evidence(state, hypotheses, guess)
    alarm = _read_alarm(state)
    return Status(
        created,
        state.status,
        read_answer(created, guess),
        state.asked,
        state.told,
        state.abandoned,
        state.left_out,
        alarm,
        pending,
        evidence.hypotheses,
        None if alarm is not None and alarm.void else evidence.claim,
        evidence.objections,
        evidence.as_good,
        estimate_arms(state, guess),
        state.paused,
        state.stages[-1][0],
        None,
        state.last.hash,
        () if state.harm is None else state.harm.table(),
        evidence.unchecked,
        pending[-1].id if len(pending) < len(state.pending) else None,
        _read_ages(state, at),
        len(state.stages),
    )


def read_pending(state: StudyState, after: int, limit: int, at: int | None = None) -> tuple[PendingTrial, ...]:
    """Return the first ``limit`` pending trials after number ``after``, those out longest first."""
    if not 1 <= limit <= MAX_PENDING_PAGE or after < 0:
        raise OsrlError(
            f"{limit} pending trials after number {after}; give at most {MAX_PENDING_PAGE:,} after a number from 0 on"
        )
    at = now() if at is None else at
    return tuple(
        PendingTrial(
            **vars(state.trial_of(one)),
            asked_at=one.at,
            until=one.asked.until,
            overdue=(one.asked.until or at) < at,
        )
        for one in islice((one for trial, one in state.pending.items() if trial > after), limit)
    )


def _read_ages(state: StudyState, at: int) -> Ages:
    since = np.fromiter((one.at for one in state.pending.values()), np.int64, len(state.pending))
    longer = [int(np.count_nonzero(at - since >= hours * HOUR)) for hours in (1, 24, 168)]
    counts = -np.diff([since.size, *longer, 0])
    return Ages(*counts.tolist())


def _read_alarm(state: StudyState) -> MissingnessAlarm | None:
    """Return the alarm of the missingness test, with the names of the study."""
    losses = state.missingness
    if losses is None or not losses.alarm:
        return None
    created, predictors = state.created, state.shape[2]
    suspects = tuple(
        SuspectArm(
            created.tasks[x],
            created.representations[a // predictors],
            created.predictors[a % predictors],
            *of,
        )
        for x, a, *of in losses.suspects()
    )
    return MissingnessAlarm(losses.log_evidence, suspects, losses.void)

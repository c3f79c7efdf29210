"""The evidence of a study, plainly computed from its log: trials that reported, are late or were lost."""

from __future__ import annotations

import math
from typing import Any

from osrl.hypotheses import trials as of_hypotheses
from osrl.hypotheses.refresh import refresh_evidence
from osrl.study.log.events import Abandoned, Asked, Created, Told
from osrl.study.state.state import StudyState
from osrl.study.study import Study

PENDING, LOST, LEFT_OUT = "pending", "lost", "left out"


def handed_out(study: Study) -> list[list[Any]]:
    """Return every trial in order of hand-out: task, arm, ticket, and its reward or what became of it."""
    events = list(study.events())
    assert isinstance(events[0].body, Created)
    progress, trials = StudyState(events[0].body), []
    for event in events[1:]:
        progress.apply(event)
        match event.body:
            case Asked() as asked:
                one = progress.pending[asked.trial]
                trials.append([one.x, one.a, one.ticket, PENDING])
            case Told() as told:
                trials[told.trial - 1][3] = told.reward
            case Abandoned() as lost:
                trials[lost.trial - 1][3] = LEFT_OUT if lost.ignorable else LOST
    return trials


def evidence_of(study: Study, trials: list[Any]) -> tuple[Any, Any]:
    """Return the log evidence of these trials alone: against representations, and predictors."""
    tests = StudyState(study.settings).policy_state.stopping
    tests.limits[:] = math.inf  # nothing is rejected on the way
    for x, a, ticket, end in trials:
        if end == PENDING:
            of_hypotheses.pend_trial(tests, x, a, ticket)
        elif end == LOST:
            of_hypotheses.forfeit_trial(tests, x, a, ticket)
        elif end != LEFT_OUT:
            of_hypotheses.observe_reward(tests, x, a, end, ticket)
    refresh_evidence(tests)
    return tests.evidence_g, tests.evidence_h


def prefix(trials: list[Any]) -> list[Any]:
    """Return the trials before the first one that has not reported."""
    late = [i for i, trial in enumerate(trials) if trial[3] == PENDING]
    return trials[: late[0]] if late else trials

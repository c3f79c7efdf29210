"""Documents of a server, read as the objects that a local study returns."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from osrl.hypotheses.summary import Answer, Arm, Claim, Hypothesis, Objection
from osrl.study.log.events import Created
from osrl.study.state.harm import HarmOf
from osrl.study.state.trial import Trial
from osrl.study.views.arms import ArmRate
from osrl.study.views.forecast import Forecast
from osrl.study.views.status import NO_AGES, Ages, MissingnessAlarm, PendingTrial, Status, SuspectArm
from osrl.study.views.trials import TrialRecord
from osrl.study.views.verify import Verification

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_trial(document: dict[str, Any]) -> Trial:
    """Return a trial."""
    return Trial(**_with_id(document))


def read_record(document: dict[str, Any]) -> TrialRecord:
    """Return a trial with its outcome."""
    return TrialRecord(**_with_id(document))


def _with_id(document: dict[str, Any]) -> dict[str, Any]:
    fields = dict(document)
    return {"id": fields.pop("trial"), **fields}


def read_summary(document: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a study, without the fields that only a server has."""
    return {key: value for key, value in document.items() if key not in ("study", "task_attribute")}


def read_hypotheses(document: dict[str, Any]) -> tuple[Hypothesis, ...]:
    """Return the hypotheses; null stands for infinity, which JSON lacks."""
    return tuple(
        Hypothesis(**{**each, "log_evidence": math.inf if each["log_evidence"] is None else each["log_evidence"]})
        for each in document["evidence"]
    )


def read_arms(document: dict[str, Any]) -> tuple[ArmRate, ...]:
    """Return the estimates of every arm."""
    return tuple(ArmRate(**each) for each in document["arms"])


def read_status(document: dict[str, Any], settings: Created) -> Status:
    """Return the status of a study."""
    trials, alarm, claim, forecast = (document[key] for key in ("trials", "alarm", "claim", "forecast"))
    return Status(
        settings,
        document["verdict"],
        Answer(**document["best"]),
        trials["handed_out"],
        trials["told"],
        trials["abandoned"],
        document["left_out"],
        None if alarm is None else _alarm(alarm),
        read_pending(document),
        read_hypotheses(document),
        None if claim is None else Claim(**claim),
        tuple(Objection(**each) for each in document["objections"]),
        tuple(Arm(**each) for each in document["as_good"]),
        read_arms(document),
        document["paused"],
        document["since"],
        None if forecast is None else Forecast(**forecast),
        document["head"],
        tuple(HarmOf(**each) for each in document.get("harm", ())),
        tuple(document.get("unchecked", ())),
        document.get("pending_next"),
        Ages(**document.get("pending_ages", NO_AGES._asdict())),
        document.get("stages", 1),
    )


def _alarm(document: dict[str, Any]) -> MissingnessAlarm:
    suspects = tuple(SuspectArm(**each) for each in document["suspects"])
    return MissingnessAlarm(document["log_evidence"], suspects, document["void"])


def read_pending(document: dict[str, Any]) -> tuple[PendingTrial, ...]:
    """Return the trials that have not reported."""
    return tuple(map(_pending, document["pending"]))


def _pending(document: dict[str, Any]) -> PendingTrial:
    times = {key: _microseconds(document[key]) for key in ("asked_at", "until") if document[key] is not None}
    return PendingTrial(**{**_with_id(document), **times})


def _microseconds(text: str) -> int:
    """Return a time as microseconds since 1970."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def read_verification(document: dict[str, Any]) -> Verification:
    """Return the result of a replay."""
    fields = {key: value for key, value in document.items() if key != "ok"}
    lists = {key: tuple(document[key]) for key in ("problems", "notes")}
    return Verification(**{**fields, **lists})

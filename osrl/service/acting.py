"""What is done in the name of a token: events have its id, and whoever is blinded sees no results."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from osrl.errors import StudyEnded, StudyPaused
from osrl.service.context import context_of
from osrl.service.roles import Grant
from osrl.service.routing import grant_of
from osrl.service.workers import Job
from osrl.study.log.identity import Caller, acting_as
from osrl.study.operations.ask import Redesign
from osrl.study.operations.batch import Call
from osrl.study.operations.session import WriteTransaction
from osrl.study.study import Study

RUNNING, ENDED = "running", "ended"  # all that is said of a verdict to who must not see it


def signed(job: Job, grant: Grant) -> Job:
    """Return something that is done to a study, done by the bearer of a token."""
    who = Caller(grant.id, grant.blind)
    if isinstance(job, Call):
        act = job.act

        def act_signed(transaction: WriteTransaction, weights: Redesign) -> Any:
            with acting_as(who):
                return act(transaction, weights)

        return job._replace(act=act_signed)
    do = job

    def do_signed(study: Study) -> Any:
        with acting_as(who):
            return do(study)

    return do_signed


async def act(request: Request, name: str, job: Job) -> Any:
    """Do something to a study. A blinded caller is not told why it has ended or rests, by its results."""
    grant = grant_of(request)
    try:
        return await context_of(request).workers.do(name, signed(job, grant))
    except StudyPaused:
        if not grant.blind:
            raise
        raise StudyPaused("the study is paused; ask again later") from None
    except StudyEnded:
        if not grant.blind:
            raise
        raise StudyEnded("the study has ended; there is nothing more to ask") from None


def seen_by(grant: Grant, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without what follows from results, where its reader must not see them."""
    if not grant.blind:
        return document
    hidden: dict[str, Any] = {"propensity": None, "head": "", "best": None}
    seen = {key: hidden.get(key, value) for key, value in document.items()}
    if "verdict" in seen:
        seen["verdict"] = RUNNING if seen["verdict"] == RUNNING else ENDED
    if seen.get("paused") is not None:
        seen["paused"] = "paused"
    if "settings" in seen:
        seen["settings"] = {**seen["settings"], "seed": None}  # by which arms could be foreseen
    return seen

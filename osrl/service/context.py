"""The objects that the routes of one server share, and calls to a study in the name of a token.

Events have the id of the token that has caused them. A caller with the role `blind` sees no results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from starlette.requests import Request

from osrl.errors import StudyEnded, StudyPaused
from osrl.service.downloads import Downloads
from osrl.service.event_stream import Feeds
from osrl.service.page_cache import PageCaches
from osrl.service.routing import grant_of
from osrl.service.tokens import Grant, TokenCache
from osrl.service.workers import Job, Workers
from osrl.study.log.identity import Caller, acting_as
from osrl.study.operations.batch import Call
from osrl.study.storage.sql import SqlStorage

CONTEXT = "osrl.context"  # in the scope of a request
RUNNING, ENDED = "running", "ended"  # all that a blind caller sees of a verdict


class Context(NamedTuple):
    """The objects that the routes share."""

    place: str  # as it was given, with its password: never shown
    storage: SqlStorage
    workers: Workers
    feeds: Feeds
    tokens: TokenCache
    pages: PageCaches
    downloads: Downloads


def context_of(request: Request) -> Context:
    """Return the objects that the routes share."""
    context: Context = request.scope[CONTEXT]
    return context


async def act(request: Request, name: str, job: Job) -> Any:
    """Do something to a study in the name of the caller; hide from a blind one why it has ended or is paused."""
    grant = grant_of(request)
    who = Caller(grant.id, grant.blind)
    signed = job._replace(act=_acting(who, job.act)) if isinstance(job, Call) else _acting(who, job)
    try:
        return await context_of(request).workers.do(name, signed)
    except StudyPaused:
        if not grant.blind:
            raise
        raise StudyPaused("the study is paused; ask again later") from None
    except StudyEnded:
        if not grant.blind:
            raise
        raise StudyEnded("the study has ended; there is nothing more to ask") from None


def _acting(who: Caller, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs in the name of a caller, in whichever thread it is called."""

    def signed(*given: Any) -> Any:
        with acting_as(who):
            return function(*given)

    return signed


def visible_to(grant: Grant, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document; for a blind caller, without anything that follows from results."""
    if not grant.blind:
        return document
    hidden: dict[str, Any] = {"propensity": None, "head": "", "best": None}
    seen = {key: hidden.get(key, value) for key, value in document.items()}
    if "verdict" in seen:
        seen["verdict"] = RUNNING if seen["verdict"] == RUNNING else ENDED
    if seen.get("paused") is not None:
        seen["paused"] = "paused"
    if "settings" in seen:
        seen["settings"] = {**seen["settings"], "seed": None}  # which would let arms be foreseen
    return seen

"""The routes of the experiment itself: ask, tell, abandon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from osrl.errors import OsrlError
from osrl.service.acting import act, seen_by
from osrl.service.context import context_of
from osrl.service.idempotency import read_request
from osrl.service.models import (
    Abandon,
    AbandonMany,
    Ask,
    DoneDocument,
    ManyDocument,
    RecordDocument,
    Tell,
    TellMany,
    Track,
    TrialDocument,
    TrialsDocument,
)
from osrl.service.roles import BLIND, READ, needs
from osrl.service.routing import OPTIONAL_BODY, answer, grant_of, new_router
from osrl.study.operations.ask import parse_ask
from osrl.study.operations.batch import abandon_call, ask_call, tell_call
from osrl.study.operations.tell import Abandonment, TellResult, parse_trial_ref
from osrl.study.state.trial import Trial, validate_actor_and_reason
from osrl.study.study import Study

router = new_router("/api/v1/studies", tags=["trials"])

_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Repeated with the same key, within a week, the same trials are given again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}


def trial_document(trial: Trial) -> dict[str, Any]:
    """A trial as JSON knows it."""
    fields = dict(vars(trial))
    return {"trial": fields.pop("id"), **fields}


@router.post(
    "/{name:study}/ask",
    response_model=TrialDocument | TrialsDocument,
    openapi_extra={"parameters": [_KEY], **OPTIONAL_BODY},
)
@needs(BLIND)
async def ask(request: Request, name: str, body: Ask) -> Response:
    """The next trial, or `n` of them; with a key that was used before, the same trial again."""
    worker = await context_of(request).workers.worker(name)
    wanted = parse_ask(body.task, body.n, body.lease, body.key, body.note)
    key = read_request(request.headers.get("idempotency-key"))
    trials = await act(request, name, ask_call(wanted, key, worker.requests))
    documents = [seen_by(grant_of(request), trial_document(trial)) for trial in trials]
    return answer(documents[0] if body.n is None else {"trials": documents})


@router.post("/{name:study}/tell", response_model=DoneDocument)
@needs(BLIND)
async def tell(request: Request, name: str, body: Tell) -> Response:
    """The reward of a trial: on the disk when this is answered. Told twice, it counts once."""
    validate_actor_and_reason(body.by)
    which = parse_trial_ref(body.trial, body.key)
    done: TellResult = await act(request, name, tell_call(which, body.reward, body.harm, body.by))
    return answer(seen_by(grant_of(request), done._asdict()))


@router.post("/{name:study}/track", response_model=DoneDocument)
@needs(BLIND)
async def track(request: Request, name: str, body: Track) -> Response:
    """The reward of the subject of an OpenFeature flag."""
    call = tell_call(parse_trial_ref(None, body.targetingKey), body.reward, body.harm, None)
    done: TellResult = await act(request, name, call)
    return answer(seen_by(grant_of(request), done._asdict()))


@router.post("/{name:study}/abandon", response_model=DoneDocument)
@needs(BLIND)
async def abandon(request: Request, name: str, body: Abandon) -> Response:
    """A trial will never report; it counts by its worst reward, unless that is stated to be ignorable."""
    validate_actor_and_reason(body.by, body.reason)
    loss = Abandonment(body.ignorable, body.by, body.reason)
    done: TellResult = await act(request, name, abandon_call(parse_trial_ref(body.trial, body.key), loss))
    return answer(seen_by(grant_of(request), done._asdict()))


@router.post("/{name:study}/tell-many", response_model=ManyDocument)
@needs(BLIND)
async def tell_many(request: Request, name: str, body: TellMany) -> Response:
    """Many rewards in one transaction, all of them or none."""
    rows = [row.model_dump(exclude_none=True) for row in body.rewards]
    return await _many(request, name, len(rows), lambda study: study.tell_many(rows, by=body.by))


@router.post("/{name:study}/abandon-many", response_model=ManyDocument)
@needs(BLIND)
async def abandon_many(request: Request, name: str, body: AbandonMany) -> Response:
    """Many trials will never report: all of them or none."""
    rows = [row.model_dump(exclude_none=True) for row in body.trials]
    about: dict[str, Any] = {"ignorable": body.ignorable, "by": body.by, "reason": body.reason}
    return await _many(request, name, len(rows), lambda study: study.abandon_many(rows, **about))


@router.get("/{name:study}/trial", response_model=RecordDocument)
@needs(READ)
async def trial(
    request: Request,
    name: str,
    number: Annotated[int | None, Query(description="its number")] = None,
    token: Annotated[str | None, Query(description="its token", max_length=100)] = None,
    key: Annotated[str | None, Query(description="its key", max_length=200)] = None,
) -> Response:
    """A trial by its number, its token or its key, with what became of it."""
    given = [each for each in (number, token, key) if each is not None]
    if len(given) != 1:
        raise OsrlError("say which trial is meant; give its number, its token or its key")
    record = await context_of(request).workers.look(name, lambda study: study.trial(given[0]))
    return answer(trial_document(record))


async def _many(request: Request, name: str, rows: int, count: Callable[[Study], int]) -> Response:
    def do(study: Study) -> dict[str, Any]:
        new = count(study)
        return {"rows": rows, "new": new, "verdict": study.verdict, "head": study.head}

    return answer(seen_by(grant_of(request), await act(request, name, do)))

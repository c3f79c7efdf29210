"""The routes of the experiment itself: ask, tell, abandon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from osrl.errors import OsrlError
from osrl.service.context import act, context_of, visible_to
from osrl.service.idempotency import MAX_KEY_LENGTH, read_idempotency_key
from osrl.service.models import (
    AbandonManyRequest,
    AbandonRequest,
    AskRequest,
    RecordDocument,
    StoredDocument,
    StoredManyDocument,
    TellManyRequest,
    TellRequest,
    TrackRequest,
    TrialDocument,
    TrialsDocument,
)
from osrl.service.routing import Routes, grant_of, json_response
from osrl.service.tokens import BLIND, READ, Permission
from osrl.study.operations.ask import parse_ask
from osrl.study.operations.batch import Call, abandon_call, ask_call, tell_call
from osrl.study.operations.tell import Abandonment, TellResult, parse_trial_ref
from osrl.study.state.trial import Trial, validate_actor_and_reason
from osrl.study.study import Study

routes = Routes("/api/v1/studies", tag="trials")

_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Repeated with the same key, within a week, the same trials are given again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
}


def trial_document(trial: Trial) -> dict[str, Any]:
    """Return a trial as a JSON document."""
    fields = dict(vars(trial))
    return {"trial": fields.pop("id"), **fields}


@routes.post(
    "/{name}/ask",
    Permission(BLIND),
    answer=TrialDocument | TrialsDocument,
    optional_body=True,
    headers=[_IDEMPOTENCY_KEY],
)
async def ask(request: Request, name: str, body: AskRequest) -> Response:
    """Hand out the next trial, or `n` of them; with a key that was used before, the same trial again."""
    worker = await context_of(request).workers.worker(name)
    wanted = parse_ask(body.task, body.n, body.lease, body.key, body.note)
    key = read_idempotency_key(request.headers.get("idempotency-key"))
    trials = await act(request, name, ask_call(wanted, key, worker.idempotency_keys))
    documents = [visible_to(grant_of(request), trial_document(trial)) for trial in trials]
    return json_response(documents[0] if body.n is None else {"trials": documents})


@routes.post("/{name}/tell", Permission(BLIND), answer=StoredDocument)
async def tell(request: Request, name: str, body: TellRequest) -> Response:
    """Store the reward of a trial: it is on the disk when this is answered. Told twice, it counts once."""
    validate_actor_and_reason(body.by)
    which = parse_trial_ref(body.trial, body.key)
    return await _store(request, name, tell_call(which, body.reward, body.harm, body.by))


@routes.post("/{name}/track", Permission(BLIND), answer=StoredDocument)
async def track(request: Request, name: str, body: TrackRequest) -> Response:
    """Store the reward of the subject of an OpenFeature flag."""
    which = parse_trial_ref(None, body.targetingKey)
    return await _store(request, name, tell_call(which, body.reward, body.harm, None))


@routes.post("/{name}/abandon", Permission(BLIND), answer=StoredDocument)
async def abandon(request: Request, name: str, body: AbandonRequest) -> Response:
    """Give up a trial that will never report; it counts by its worst reward, unless stated to be ignorable."""
    validate_actor_and_reason(body.by, body.reason)
    loss = Abandonment(body.ignorable, body.by, body.reason)
    return await _store(request, name, abandon_call(parse_trial_ref(body.trial, body.key), loss))


@routes.post("/{name}/tell-many", Permission(BLIND), answer=StoredManyDocument)
async def tell_many(request: Request, name: str, body: TellManyRequest) -> Response:
    """Store many rewards in one transaction, all of them or none."""
    rows = [row.model_dump(exclude_none=True) for row in body.rewards]
    return await _store_many(request, name, len(rows), lambda study: study.tell_many(rows, by=body.by))


@routes.post("/{name}/abandon-many", Permission(BLIND), answer=StoredManyDocument)
async def abandon_many(request: Request, name: str, body: AbandonManyRequest) -> Response:
    """Give up many trials that will never report: all of them or none."""
    rows = [row.model_dump(exclude_none=True) for row in body.trials]
    about: dict[str, Any] = {"ignorable": body.ignorable, "by": body.by, "reason": body.reason}
    return await _store_many(request, name, len(rows), lambda study: study.abandon_many(rows, **about))


@routes.get("/{name}/trial", Permission(READ), answer=RecordDocument)
async def trial(
    request: Request,
    name: str,
    number: Annotated[int | None, Field(description="its number")] = None,
    token: Annotated[str | None, Field(description="its token", max_length=100)] = None,
    key: Annotated[str | None, Field(description="its key", max_length=200)] = None,
) -> Response:
    """Return a trial by its number, its token or its key, with its outcome."""
    given = [each for each in (number, token, key) if each is not None]
    if len(given) != 1:
        raise OsrlError("say which trial is meant; give its number, its token or its key")
    record = await context_of(request).workers.look(name, lambda study: study.trial(given[0]))
    return json_response(trial_document(record))


async def _store(request: Request, name: str, call: Call) -> Response:
    result: TellResult = await act(request, name, call)
    return json_response(visible_to(grant_of(request), result._asdict()))


async def _store_many(request: Request, name: str, rows: int, store: Callable[[Study], int]) -> Response:
    def do(study: Study) -> dict[str, Any]:
        new = store(study)
        return {"rows": rows, "new": new, "verdict": study.verdict, "head": study.head}

    return json_response(visible_to(grant_of(request), await act(request, name, do)))

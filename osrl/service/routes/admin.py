"""The routes of owners: create, pause, change, close and delete a study."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import delete as sql_delete
from sqlalchemy import insert
from starlette.requests import Request
from starlette.responses import Response

from osrl.errors import OsrlError
from osrl.service.context import act, context_of
from osrl.service.models import (
    ArmChangeRequest,
    BudgetRequest,
    ChangeDocument,
    CorrectRequest,
    CreateRequest,
    OptionalReasonRequest,
    ReasonRequest,
)
from osrl.service.routes.read import show_study
from osrl.service.routing import Routes, grant_of, json_response, study_url
from osrl.service.tables import flags
from osrl.service.tokens import OWN, Permission
from osrl.study.log.identity import Caller, acting_as
from osrl.study.study import Study

routes = Routes("/api/v1/studies", tag="life")

MAX_ARMS = 10_000  # of a study that is created by a request

QueryText = Annotated[str | None, Field(max_length=10_000, pattern="^[^\u0000]*$")]


@routes.post("", Permission(OWN, "every"), status=201, answer=dict[str, Any])
async def create(request: Request, body: CreateRequest) -> Response:
    """Create a study."""
    context = context_of(request)
    options = body.model_dump()
    attribute, name = options.pop("task_attribute"), options["name"]
    if name in (".", ".."):
        raise OsrlError(f"the name {name!r} cannot stand in an address; give another")
    arms = math.prod(given if isinstance(given, int) else len(given) for given in body.axes)
    if arms > MAX_ARMS:
        raise OsrlError(f"the study would have {arms:,} arms; over HTTP it may have {MAX_ARMS:,}, give fewer names")

    def create_with_flag() -> None:
        with acting_as(Caller(grant_of(request).id, False)):
            Study.create(context.place, **options).close()
        number = context.storage.find(name)
        with context.storage.transaction(write=True) as connection:
            connection.execute(sql_delete(flags).where(flags.c.study == number))
            connection.execute(insert(flags), {"study": number, "attribute": attribute})

    await context.workers.read(create_with_flag)
    response = await show_study(request, name)
    response.status_code = 201
    response.headers["Location"] = study_url(request, name)
    return response


@routes.delete("/{name}", Permission(OWN), answer=dict[str, str])
async def delete(request: Request, name: str, by: QueryText = None, reason: QueryText = None) -> Response:
    """Remove a study and all its events, for good; a record that it was there is kept."""
    context = context_of(request)
    await context.workers.worker(name)
    await context.workers.read(lambda: Study.delete(context.place, name, by=by, reason=reason))
    context.workers.forget(name)
    await context.tokens.refresh()
    return json_response({"deleted": name})


@routes.post("/{name}/pause", Permission(OWN), answer=ChangeDocument)
async def pause(request: Request, name: str, body: ReasonRequest) -> Response:
    """Hand out no more trials until `resume`; those that are out may be told."""
    return await _change(request, name, lambda study: study.pause(body.reason, by=body.by))


@routes.post("/{name}/resume", Permission(OWN), answer=ChangeDocument, optional_body=True)
async def resume(request: Request, name: str, body: OptionalReasonRequest) -> Response:
    """Go on after a pause."""
    return await _change(request, name, lambda study: study.resume(body.reason, by=body.by))


@routes.post("/{name}/close", Permission(OWN), answer=ChangeDocument)
async def close(request: Request, name: str, body: ReasonRequest) -> Response:
    """End the study with its best guess; results that come later change nothing."""
    return await _change(request, name, lambda study: study.close(body.reason, by=body.by))


@routes.post("/{name}/raise-budget", Permission(OWN), answer=ChangeDocument)
async def raise_budget(request: Request, name: str, body: BudgetRequest) -> Response:
    """Allow so many trials in all; before the budget is exhausted."""
    return await _change(request, name, lambda study: study.raise_budget(**body.model_dump()))


@routes.post("/{name}/withdraw", Permission(OWN), answer=ChangeDocument)
async def withdraw(request: Request, name: str, body: ArmChangeRequest) -> Response:
    """Take a representation, a predictor or a task out; evidence counts from the next trial on."""
    return await _change(request, name, lambda study: study.withdraw(**body.model_dump()))


@routes.post("/{name}/add", Permission(OWN), answer=ChangeDocument)
async def add(request: Request, name: str, body: ArmChangeRequest) -> Response:
    """Take a new representation, predictor or task in; evidence counts from the next trial on."""
    return await _change(request, name, lambda study: study.add(**body.model_dump()))


@routes.post("/{name}/correct", Permission(OWN), answer=ChangeDocument)
async def correct(request: Request, name: str, body: CorrectRequest) -> Response:
    """Correct the reward of a trial: once, and while nothing was decided by the wrong value."""
    return await _change(request, name, lambda study: study.correct(**body.model_dump()))


@routes.post("/{name}/amend", Permission(OWN), answer=ChangeDocument)
async def amend(request: Request, name: str, body: CorrectRequest) -> Response:
    """Note the right reward of a trial, where it is too late to correct it: the evidence is unchanged."""
    return await _change(request, name, lambda study: study.amend(**body.model_dump()))


@routes.post("/{name}/recover", Permission(OWN), answer=ChangeDocument)
async def recover(request: Request, name: str, body: ReasonRequest) -> Response:
    """Confirm that the study goes on from its log as it is, though others may have seen a longer one."""
    return await _change(request, name, lambda study: study.recover(body.reason, by=body.by))


async def _change(request: Request, name: str, change: Callable[[Study], None]) -> Response:
    def do(study: Study) -> dict[str, Any]:
        change(study)
        return {"verdict": study.verdict, "head": study.head}

    return json_response(await act(request, name, do))

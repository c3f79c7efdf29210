"""The routes of owners: a study is created, paused, changed, closed, deleted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Query
from sqlalchemy import delete as sql_delete
from sqlalchemy import insert
from starlette.requests import Request
from starlette.responses import Response

from osrl.errors import OsrlError
from osrl.service.acting import act
from osrl.service.context import context_of
from osrl.service.models import Arm, Budget, Correct, Create, LifeDocument, Whether, Why
from osrl.service.roles import OWN, needs
from osrl.service.routes.read import show_study
from osrl.service.routing import OPTIONAL_BODY, answer, grant_of, new_router
from osrl.service.tables import flags
from osrl.study.log.identity import Caller, acting_as
from osrl.study.study import Study

router = new_router("/api/v1/studies", tags=["life"])

MOST_ARMS = 10_000  # what a request may make the server hold

Said = Annotated[str | None, Query(max_length=10_000, pattern="^[^\u0000]*$")]


@router.post("", status_code=201, response_model=dict[str, Any])
@needs(OWN, "every")
async def create(request: Request, body: Create) -> Response:
    """Begin a study."""
    context = context_of(request)
    settings = body.model_dump()
    attribute, name = settings.pop("task_attribute"), settings["name"]
    if name in (".", ".."):
        raise OsrlError(f"the name {name!r} cannot stand in an address; give another")
    arms = math.prod(given if isinstance(given, int) else len(given) for given in body.axes)
    if arms > MOST_ARMS:
        raise OsrlError(f"the study would have {arms:,} arms; over HTTP it may have {MOST_ARMS:,}, give fewer names")

    def begin() -> None:
        with acting_as(Caller(grant_of(request).id, False)):
            Study.create(context.place, **settings).close()
        number = context.storage.find(name)
        with context.storage.beside(write=True) as connection:
            connection.execute(sql_delete(flags).where(flags.c.study == number))
            connection.execute(insert(flags), {"study": number, "attribute": attribute})

    await context.workers.read(begin)
    response = await show_study(request, name)
    response.status_code = 201
    response.headers["Location"] = str(request.url_for("show", name=name))
    return response


@router.delete("/{name:study}", response_model=dict[str, str])
@needs(OWN)
async def delete(request: Request, name: str, by: Said = None, reason: Said = None) -> Response:
    """Remove a study and all its events, for good; that it was there is kept."""
    context = context_of(request)
    await context.workers.worker(name)
    await context.workers.read(lambda: Study.delete(context.place, name, by=by, reason=reason))
    context.workers.forget(name)
    await context.access.refresh()
    return answer({"deleted": name})


@router.post("/{name:study}/pause", response_model=LifeDocument)
@needs(OWN)
async def pause(request: Request, name: str, body: Why) -> Response:
    """Hand out no more trials until `resume`; those that are out may be told."""
    return await _do(request, name, lambda study: study.pause(body.reason, by=body.by))


@router.post("/{name:study}/resume", response_model=LifeDocument, openapi_extra=OPTIONAL_BODY)
@needs(OWN)
async def resume(request: Request, name: str, body: Whether) -> Response:
    """Go on after a pause."""
    return await _do(request, name, lambda study: study.resume(body.reason, by=body.by))


@router.post("/{name:study}/close", response_model=LifeDocument)
@needs(OWN)
async def close(request: Request, name: str, body: Why) -> Response:
    """End the study with its best guess; results that come later change nothing."""
    return await _do(request, name, lambda study: study.close(body.reason, by=body.by))


@router.post("/{name:study}/raise-budget", response_model=LifeDocument)
@needs(OWN)
async def raise_budget(request: Request, name: str, body: Budget) -> Response:
    """Allow so many trials in all; before the budget is exhausted."""
    return await _do(request, name, lambda study: study.raise_budget(body.budget, reason=body.reason, by=body.by))


@router.post("/{name:study}/withdraw", response_model=LifeDocument)
@needs(OWN)
async def withdraw(request: Request, name: str, body: Arm) -> Response:
    """Take a representation, a predictor or a task out; evidence counts from the next trial on."""
    return await _do(request, name, lambda study: study.withdraw(**body.model_dump()))


@router.post("/{name:study}/add", response_model=LifeDocument)
@needs(OWN)
async def add(request: Request, name: str, body: Arm) -> Response:
    """Take a new representation, predictor or task in; evidence counts from the next trial on."""
    return await _do(request, name, lambda study: study.add(**body.model_dump()))


@router.post("/{name:study}/correct", response_model=LifeDocument)
@needs(OWN)
async def correct(request: Request, name: str, body: Correct) -> Response:
    """The reward of a trial was told wrong: once, and while nothing was decided by the wrong value."""
    return await _do(
        request,
        name,
        lambda study: study.correct(body.trial, body.reward, reason=body.reason, by=body.by),
    )


@router.post("/{name:study}/amend", response_model=LifeDocument)
@needs(OWN)
async def amend(request: Request, name: str, body: Correct) -> Response:
    """Note the right reward of a trial, where it is too late to correct it: the evidence is unchanged."""
    return await _do(
        request,
        name,
        lambda study: study.amend(body.trial, body.reward, reason=body.reason, by=body.by),
    )


@router.post("/{name:study}/recover", response_model=LifeDocument)
@needs(OWN)
async def recover(request: Request, name: str, body: Why) -> Response:
    """Confirm that the study goes on from its log as it is, though others may have seen a longer one."""
    return await _do(request, name, lambda study: study.recover(body.reason, by=body.by))


async def _do(request: Request, name: str, change: Callable[[Study], None]) -> Response:
    def do(study: Study) -> dict[str, Any]:
        change(study)
        return {"verdict": study.verdict, "head": study.head}

    return answer(await act(request, name, do))

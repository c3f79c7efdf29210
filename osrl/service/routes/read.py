"""The routes that change nothing: studies, status, evidence, arms, history, the log and its events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Header, Query
from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from osrl.report.study import StudyReport, pending_document
from osrl.service.acting import seen_by
from osrl.service.context import Context, context_of
from osrl.service.downloads import Download, Parts, made_file
from osrl.service.models import PageDocument, StudiesDocument
from osrl.service.roles import ENTER, READ, needs
from osrl.service.routes.trials import trial_document
from osrl.service.routing import answer, grant_of, new_router
from osrl.service.tables import flags
from osrl.study.log.export import STREAMED
from osrl.study.study import Study

router = new_router("/api/v1/studies", tags=["reading"])

MOST_ROWS = 1_000  # of a page
After = Annotated[int, Query(ge=0, le=2**53, description="the pending trials after this one")]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]
ATTRIBUTE = "segment"  # of an OpenFeature context, where nothing else was said

Format = Literal["json", "csv", "jsonl", "parquet"]
_MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}
_FILES: dict[str, Any] = {
    "description": "A JSON document, or a file of the format that is asked for.",
    "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in _MEDIA.values()},
}


@router.get("", response_model=StudiesDocument)
@needs(ENTER, "any")
async def studies(request: Request) -> Response:
    """The studies that the token may see."""
    context, grant = context_of(request), grant_of(request)
    names = await context.workers.read(context.storage.names)
    seen = [name for name in names if grant.allows(ENTER, name)]
    found = [await context.workers.look(name, summary) for name in seen]
    return answer({"studies": [seen_by(grant, each) for each in found]})


def summary(study: Study) -> dict[str, Any]:
    """A study in a list."""
    known = study.summary
    return {"study": study.name, **{key: known[key] for key in ("verdict", "handed_out", "told")}}


@router.get("/{name:study}", response_model=dict[str, Any], name="show")
@needs(ENTER)
async def show(request: Request, name: str, after: After = 0, limit: Limit = MOST_ROWS) -> Response:
    """What the study was created with, and where its log stands; the pending trials in pages."""
    return await show_study(request, name, after, limit)


async def show_study(request: Request, name: str, after: int = 0, limit: int = MOST_ROWS) -> Response:
    """What the study was created with, and where its log stands."""
    context = context_of(request)

    def look(study: Study) -> dict[str, Any]:
        known = study.summary
        waiting = [trial for trial in study.pending if trial > after]
        page = waiting[:limit]
        paged = {"pending": page, "pending_next": page[-1] if len(page) < len(waiting) else None}
        attribute = attribute_of(context, study.name)
        return {"study": study.name, **known, **paged, "task_attribute": attribute}

    return answer(seen_by(grant_of(request), await context.workers.look(name, look)))


def attribute_of(context: Context, name: str) -> str:
    """By which attribute of an OpenFeature context the task of a subject is known."""
    number = context.storage.find(name)
    with context.storage.beside() as connection:
        found = connection.execute(select(flags.c.attribute).where(flags.c.study == number)).scalar()
    return ATTRIBUTE if found is None else str(found)


@router.get("/{name:study}/status", response_model=dict[str, Any])
@needs(READ)
async def status(request: Request, name: str) -> Response:
    """Everything that is known, at one moment: the document of `osrl study status --json`."""
    here = str(request.url_for("show", name=name))

    def look(study: Study) -> dict[str, Any]:
        return StudyReport(here, study.name, study.status, datetime.now(UTC)).document()

    workers = context_of(request).workers
    async with (await workers.worker(name)).looking:  # a forecast takes long: others may use the same
        return answer(await workers.look(name, look))


@router.get("/{name:study}/pending", response_model=dict[str, Any])
@needs(READ)
async def pending(request: Request, name: str, after: After = 0, limit: Limit = 100) -> Response:
    """The trials that have not reported, those that have been out longest first: a page of them."""

    def look(study: Study) -> dict[str, Any]:
        page = study.pending_trials(after, limit)
        more = len(page) == limit and bool(study.pending_trials(page[-1].id, 1))
        return {
            "study": study.name,
            "pending": [pending_document(each) for each in page],
            "next": page[-1].id if more else None,
        }

    return answer(await context_of(request).workers.look(name, look))


@router.get("/{name:study}/evidence", response_model=dict[str, Any])
@needs(READ)
async def evidence(request: Request, name: str) -> Response:
    """Each hypothesis with the log evidence against it, and the limit at which it is rejected."""
    return await _rows(request, name, "evidence", lambda study: study.evidence.to_dicts())


@router.get("/{name:study}/arms", response_model=dict[str, Any])
@needs(READ)
async def arms(request: Request, name: str) -> Response:
    """Every arm: trials, told, mean and lift, each with an interval that holds at all times at once."""
    return await _rows(request, name, "arms", lambda study: study.arms.to_dicts())


async def _rows(request: Request, name: str, what: str, read: Callable[[Study], list[dict[str, Any]]]) -> Response:
    def look(study: Study) -> dict[str, Any]:
        finite = [{key: _finite(value) for key, value in row.items()} for row in read(study)]
        return {"study": study.name, what: finite}

    return answer(await context_of(request).workers.look(name, look))


def _finite(value: Any) -> Any:
    """JSON has no infinity: null."""
    return None if isinstance(value, float) and abs(value) == float("inf") else value


@router.get("/{name:study}/history", response_model=PageDocument, responses={200: _FILES})
@needs(READ)
async def history(
    request: Request,
    name: str,
    after: Annotated[int, Query(ge=0, le=2**53, description="the trials after this one")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 100,
    format: Annotated[Format, Query(description="a page as json, or all trials as a file")] = "json",
) -> Response:
    """The trials: a page of them, or all as a table for other programs."""
    if format != "json":
        return await _file(request, name, "trials", format, lambda study, path: study.write_trials(path))

    def look(study: Study) -> dict[str, Any]:
        records = study.records(after + 1, after + limit)
        more = after + limit < study.trials
        return {
            "trials": [trial_document(each) for each in records],
            "next": after + limit if more else None,
        }

    return answer(await context_of(request).workers.look(name, look))


@router.get("/{name:study}/log", response_model=None, responses={200: _FILES})
@needs(READ)
async def log(
    request: Request, name: str, format: Annotated[Literal["jsonl", "csv", "parquet"], Query()] = "jsonl"
) -> Response:
    """The complete log: `osrl study import` makes the same study from it."""
    suffix = f".{format}"
    if suffix in STREAMED:
        return await _download(request, name, "log", format, lambda study: Parts(study.log_parts(suffix)))
    return await _file(request, name, "log", format, lambda study, path: study.write_log(path))


async def _file(
    request: Request, name: str, what: str, format: str, write: Callable[[Study, Path], object]
) -> Response:
    """A file that is made for this answer alone."""

    def make(study: Study) -> Parts:
        return made_file(format, lambda path: write(study, path))

    async with (await context_of(request).workers.worker(name)).reading:
        return await _download(request, name, what, format, make)


async def _download(request: Request, name: str, what: str, format: str, begin: Callable[[Study], Parts]) -> Response:
    """A file that is sent in parts."""
    context = context_of(request)
    context.downloads.enter()
    try:
        parts = await context.workers.look(name, begin)
    except BaseException:
        context.downloads.leave()
        raise
    return Download(parts, context.downloads.leave, name=f"{what}.{format}", media_type=_MEDIA[format])


@router.get("/{name:study}/verify", response_model=dict[str, Any])
@needs(READ)
async def verify(
    request: Request,
    name: str,
    head: Annotated[str | None, Query(description="a hash that the log must contain", max_length=64)] = None,
) -> Response:
    """Replay the log from its first event, and compare."""

    def look(study: Study) -> dict[str, Any]:
        found = study.verify(head)
        return {"ok": found.ok, **found._asdict()}

    workers = context_of(request).workers
    async with (await workers.worker(name)).reading:
        return answer(await workers.look(name, look))


@router.get(
    "/{name:study}/events",
    response_model=None,
    responses={200: {"description": "The log as it grows.", "content": {"text/event-stream": {}}}},
)
@needs(READ)
async def events(
    request: Request,
    name: str,
    after: Annotated[int, Query(ge=-1, le=2**53, description="the number of the last event that is known")] = -1,
    last: Annotated[int | None, Header(alias="Last-Event-ID", ge=-1, le=2**53)] = None,
) -> Response:
    """Server-sent events: every event after a point of the log, and those to come, without gaps."""
    context, grant = context_of(request), grant_of(request)
    worker = await context.workers.worker(name)
    context.feeds.check_room()
    known = after if last is None else last
    stream = context.feeds.stream(worker.number, known, lambda: context.access.still(grant))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

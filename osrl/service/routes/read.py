"""The routes that change nothing: studies, status, evidence, arms, history, the log and its events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from osrl.report.study import StudyReport, pending_document
from osrl.service.context import Context, context_of, visible_to
from osrl.service.downloads import Download, Parts, temporary_file
from osrl.service.models import HistoryDocument, StudiesDocument
from osrl.service.openapi import describe_parameters
from osrl.service.routes.trials import trial_document
from osrl.service.routing import Routes, grant_of, json_response, study_url, validate
from osrl.service.tables import flags
from osrl.service.tokens import ENTER, READ, Permission
from osrl.study.log.export import STREAMED
from osrl.study.study import Study

routes = Routes("/api/v1/studies", tag="reading")

MAX_ROWS = 1_000  # of a page
After = Annotated[int, Field(ge=0, le=2**53, description="the pending trials after this one")]
Limit = Annotated[int, Field(ge=1, le=MAX_ROWS)]
DEFAULT_ATTRIBUTE = "segment"  # of an OpenFeature context, where nothing else was said

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


@routes.get("", Permission(ENTER, "any"), answer=StudiesDocument)
async def studies(request: Request) -> Response:
    """List the studies that the token may see."""
    context, grant = context_of(request), grant_of(request)
    names = await context.workers.read(context.storage.names)
    seen = [name for name in names if grant.allows(ENTER, name)]
    found = [await context.workers.look(name, summary) for name in seen]
    return json_response({"studies": [visible_to(grant, each) for each in found]})


def summary(study: Study) -> dict[str, Any]:
    """Return a study as an entry of a list."""
    known = study.summary
    return {"study": study.name, **{key: known[key] for key in ("verdict", "handed_out", "told")}}


@routes.get("/{name}", Permission(ENTER), answer=dict[str, Any])
async def show(request: Request, name: str, after: After = 0, limit: Limit = MAX_ROWS) -> Response:
    """Show what the study was created with, and where its log stands; the pending trials in pages."""
    return await show_study(request, name, after, limit)


async def show_study(request: Request, name: str, after: int = 0, limit: int = MAX_ROWS) -> Response:
    """Show what the study was created with, and where its log stands."""
    context = context_of(request)

    def look(study: Study) -> dict[str, Any]:
        known = study.summary
        waiting = [trial for trial in study.pending if trial > after]
        page = waiting[:limit]
        paged = {"pending": page, "pending_next": page[-1] if len(page) < len(waiting) else None}
        attribute = attribute_of(context, study.name)
        return {"study": study.name, **known, **paged, "task_attribute": attribute}

    return json_response(visible_to(grant_of(request), await context.workers.look(name, look)))


def attribute_of(context: Context, name: str) -> str:
    """Return the attribute of an OpenFeature context that has the task of its subject."""
    number = context.storage.find(name)
    with context.storage.transaction() as connection:
        found = connection.execute(select(flags.c.attribute).where(flags.c.study == number)).scalar()
    return DEFAULT_ATTRIBUTE if found is None else str(found)


@routes.get("/{name}/status", Permission(READ), answer=dict[str, Any])
async def status(request: Request, name: str) -> Response:
    """Show everything that is known, at one moment: the document of `osrl study status --json`."""
    here = study_url(request, name)

    def look(study: Study) -> dict[str, Any]:
        return StudyReport(here, study.name, study.status).document()

    workers = context_of(request).workers
    async with (await workers.worker(name)).forecasting:  # it takes long: others may use the same
        return json_response(await workers.look(name, look))


@routes.get("/{name}/pending", Permission(READ), answer=dict[str, Any])
async def pending(request: Request, name: str, after: After = 0, limit: Limit = 100) -> Response:
    """List the trials that have not reported, those that have been out longest first: a page of them."""

    def look(study: Study) -> dict[str, Any]:
        page = study.pending_trials(after, limit)
        more = len(page) == limit and bool(study.pending_trials(page[-1].id, 1))
        return {
            "study": study.name,
            "pending": [pending_document(each) for each in page],
            "next": page[-1].id if more else None,
        }

    return json_response(await context_of(request).workers.look(name, look))


@routes.get("/{name}/evidence", Permission(READ), answer=dict[str, Any])
async def evidence(request: Request, name: str) -> Response:
    """List each hypothesis with the log evidence against it, and the limit at which it is rejected."""
    return await _rows(request, name, "evidence", lambda study: study.evidence.to_dicts())


@routes.get("/{name}/arms", Permission(READ), answer=dict[str, Any])
async def arms(request: Request, name: str) -> Response:
    """List every arm: trials, told, mean and lift, each with an interval that holds at all times at once."""
    return await _rows(request, name, "arms", lambda study: study.arms.to_dicts())


async def _rows(request: Request, name: str, what: str, read: Callable[[Study], list[dict[str, Any]]]) -> Response:
    def look(study: Study) -> dict[str, Any]:
        finite = [{key: _finite(value) for key, value in row.items()} for row in read(study)]
        return {"study": study.name, what: finite}

    return json_response(await context_of(request).workers.look(name, look))


def _finite(value: Any) -> Any:
    """Return a value that JSON can hold: null for infinity."""
    return None if isinstance(value, float) and abs(value) == float("inf") else value


@routes.get("/{name}/history", Permission(READ), answer=HistoryDocument, responses={"200": _FILES})
async def history(
    request: Request,
    name: str,
    after: Annotated[int, Field(ge=0, le=2**53, description="the trials after this one")] = 0,
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 100,
    format: Annotated[Format, Field(description="a page as json, or all trials as a file")] = "json",
) -> Response:
    """List the trials: a page of them, or all as a table for other programs."""
    if format != "json":
        return await _file(request, name, "trials", format, lambda study, path: study.write_trials(path))

    def look(study: Study) -> dict[str, Any]:
        records = study.records(after + 1, after + limit)
        more = after + limit < study.trials
        return {
            "trials": [trial_document(each) for each in records],
            "next": after + limit if more else None,
        }

    return json_response(await context_of(request).workers.look(name, look))


@routes.get("/{name}/log", Permission(READ), responses={"200": _FILES})
async def log(
    request: Request, name: str, format: Annotated[Literal["jsonl", "csv", "parquet"], Field()] = "jsonl"
) -> Response:
    """Send the complete log: `osrl study import` makes the same study from it."""
    suffix = f".{format}"
    if suffix in STREAMED:
        return await _download(request, name, "log", format, lambda study: Parts(study.log_parts(suffix)))
    return await _file(request, name, "log", format, lambda study, path: study.write_log(path))


async def _file(
    request: Request, name: str, what: str, format: str, write: Callable[[Study, Path], object]
) -> Response:
    """Send a file that is made for this answer alone."""

    def make(study: Study) -> Parts:
        return temporary_file(format, lambda path: write(study, path))

    async with (await context_of(request).workers.worker(name)).reading_log:
        return await _download(request, name, what, format, make)


async def _download(request: Request, name: str, what: str, format: str, begin: Callable[[Study], Parts]) -> Response:
    """Send a file in parts."""
    context = context_of(request)
    context.downloads.enter()
    try:
        parts = await context.workers.look(name, begin)
    except BaseException:
        context.downloads.leave()
        raise
    return Download(parts, context.downloads.leave, name=f"{what}.{format}", media_type=_MEDIA[format])


@routes.get("/{name}/verify", Permission(READ), answer=dict[str, Any])
async def verify(
    request: Request,
    name: str,
    head: Annotated[str | None, Field(description="a hash that the log must contain", max_length=64)] = None,
) -> Response:
    """Replay the log from its first event, and compare."""

    def look(study: Study) -> dict[str, Any]:
        found = study.verify(head)
        return {"ok": found.ok, **found._asdict()}

    workers = context_of(request).workers
    async with (await workers.worker(name)).reading_log:
        return json_response(await workers.look(name, look))


class StreamHeaders(BaseModel):
    """The header by which a browser resumes a stream."""

    last: Annotated[int | None, Field(alias="Last-Event-ID", ge=-1, le=2**53)] = None


@routes.get(
    "/{name}/events",
    Permission(READ),
    headers=describe_parameters(StreamHeaders, "header"),
    responses={"200": {"description": "The log as it grows.", "content": {"text/event-stream": {}}}},
)
async def events(
    request: Request,
    name: str,
    after: Annotated[int, Field(ge=-1, le=2**53, description="the number of the last event that is known")] = -1,
) -> Response:
    """Stream every event after a point of the log, and those to come, without gaps, as server-sent events."""
    context, grant = context_of(request), grant_of(request)
    last = validate(StreamHeaders, "header", {"Last-Event-ID": request.headers.get("last-event-id")})["last"]
    worker = await context.workers.worker(name)
    context.feeds.check_room()
    known = after if last is None else last
    stream = context.feeds.stream(worker.number, known, lambda: context.tokens.is_valid(grant))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

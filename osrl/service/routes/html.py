"""The pages of studies in a browser: the list, one page for each, and the files that they load."""

from __future__ import annotations

import gzip
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from osrl.errors import OsrlError
from osrl.page.format import things
from osrl.page.render import ASSETS, asset, list_page, study_page
from osrl.page.sentences import ANSWERED, OVER
from osrl.service.context import context_of
from osrl.service.page_cache import Look
from osrl.service.problems import Problem
from osrl.service.roles import OPERATE, OWN, READ, needs
from osrl.service.routing import grant_of, new_router
from osrl.study.study import Study

router = new_router(include_in_schema=False)

LEAST = 1000  # bytes that are worth compressing
YEAR = 31_536_000  # seconds; the address of an asset changes with its content


@router.get("/", response_model=None)
@needs(READ, "any")
async def studies(request: Request) -> Response:
    """The list of studies."""
    context, grant = context_of(request), grant_of(request)
    names = await context.workers.read(context.storage.names)
    seen = [name for name in names if grant.allows(READ, name)]
    found = [await context.workers.look(name, _entry) for name in seen]
    return _answer(request, list_page(found, root=request.scope.get("root_path", "")))


def _entry(study: Study) -> dict[str, Any]:
    known = study.summary
    verdict = known["verdict"] if known["paused"] is None else "paused"
    state = "decided" if verdict in ANSWERED else "closed" if verdict in OVER or known["paused"] else ""
    counts = f"{known['told']:,} of {things(known['handed_out'], 'trial')} reported"
    return {"study": study.name, "verdict": verdict, "state": state, "counts": counts}


@router.get("/studies/{name:study}", response_model=None)
@needs(READ)
async def study(request: Request, name: str) -> Response:
    """The page of a study."""
    context, grant = context_of(request), grant_of(request)
    here = str(request.url_for("show", name=name))
    may = [role for role in (OPERATE, OWN) if grant.allows(role, name)]

    def look(study: Study) -> Look:
        return context.watches.of(study.id).look(study, here)

    moment, due = await context.workers.look(name, look)
    root = request.scope.get("root_path", "")
    page = await context.workers.read(lambda: study_page(name, moment, root=root, may=may, due=due))
    return _answer(request, page)


@router.get("/assets/{file}", response_model=None)
@needs(READ, "any")
async def assets(request: Request, file: str) -> Response:
    """What pages load: a style sheet and a module."""
    if file not in ASSETS:
        raise Problem(404, OsrlError(f"there is no {file!r:.40}; see the page of a study"))
    response = _answer(request, asset(file), ASSETS[file])
    response.headers["Cache-Control"] = f"private, max-age={YEAR}, immutable"
    return response


def _answer(request: Request, text: str, kind: str = "text/html; charset=utf-8") -> Response:
    """A text, compressed where the browser can read that."""
    content, headers = text.encode(), {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", "") and len(content) > LEAST:
        content, headers["Content-Encoding"] = gzip.compress(content, 5, mtime=0), "gzip"
    return Response(content, headers=headers, media_type=kind)

"""The pages in a browser: signing in, the list of studies, one page for each, and the files that they load.

A token is given once, in a form. The browser keeps it in a cookie that no script can read and that is sent to
this server alone; it never stands in an address.
"""

from __future__ import annotations

import gzip
import json
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from osrl.errors import AccessRefused, OsrlError
from osrl.page.render import ASSETS, asset, list_page, study_page
from osrl.report.numbers import count_noun
from osrl.service.context import context_of
from osrl.service.middleware import COOKIE, path_within, sign_in
from osrl.service.page_cache import PageView
from osrl.service.problems import Refusal, problem_response
from osrl.service.routing import OPEN, Routes, grant_of
from osrl.service.tokens import OPERATE, OWN, READ, Permission
from osrl.service.workers import STUCK
from osrl.study.log.events import ANSWERED, OVER
from osrl.study.study import Study

routes = Routes()

MIN_COMPRESSED_BYTES = 1000
YEAR = 31_536_000  # seconds; the address of an asset changes with its content


@routes.get("/healthz", OPEN)
async def healthz(request: Request) -> Response:
    """Say whether the server is alive: 503 where reads do not come back."""
    health = await context_of(request).workers.health()
    return Response(f"{health}\n", 503 if health == STUCK else 200, media_type="text/plain")


@routes.post("/session", OPEN)
async def begin_session(request: Request) -> Response:
    """Sign in: a form with a token, or a JSON document with one."""
    root = request.scope["root_path"]
    token, to, by_form = _read_sign_in(request.headers.get("content-type", ""), await request.body())
    grant = None if token is None else await context_of(request).tokens.find(token)
    if grant is None:
        why = "This token is not known, or was revoked. Give another."
        return sign_in(why, root, to) if by_form else problem_response(AccessRefused("this token is not known"), 401)
    response = RedirectResponse(path_within(to, root), 303) if by_form else Response(status_code=204)
    response.set_cookie(
        COOKIE,
        str(token),
        path=root or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


@routes.delete("/session", OPEN)
async def end_session(request: Request) -> Response:
    """Sign out."""
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path=request.scope["root_path"] or "/")
    return response


def _read_sign_in(kind: str, content: bytes) -> tuple[str | None, str, bool]:
    """Return the token in a body, the path to continue to, and whether it came by a form."""
    by_form = kind.startswith("application/x-www-form-urlencoded")
    try:
        if by_form:
            given = dict(parse_qsl(content.decode(), max_num_fields=5))
            return given.get("token"), given.get("to", ""), True
        token: Any = json.loads(content).get("token")
    except (ValueError, AttributeError, RecursionError):
        return None, "", by_form
    return (token if isinstance(token, str) else None), "", False


@routes.get("/", Permission(READ, "any"))
async def studies(request: Request) -> Response:
    """Show the list of studies."""
    context, grant = context_of(request), grant_of(request)
    names = await context.workers.read(context.storage.names)
    found = [await context.workers.look(name, _list_entry) for name in names if grant.allows(READ, name)]
    return _compressed(request, list_page(found, root=request.scope["root_path"]))


def _list_entry(study: Study) -> dict[str, Any]:
    known = study.summary
    verdict = known["verdict"] if known["paused"] is None else "paused"
    state = "decided" if verdict in ANSWERED else "closed" if verdict in OVER or known["paused"] else ""
    counts = f"{known['told']:,} of {count_noun(known['handed_out'], 'trial')} reported"
    return {"study": study.name, "verdict": verdict, "state": state, "counts": counts}


@routes.get("/studies/{name}", Permission(READ))
async def study(request: Request, name: str) -> Response:
    """Show the page of a study."""
    context, grant = context_of(request), grant_of(request)
    root = request.scope["root_path"]
    may = [role for role in (OPERATE, OWN) if grant.allows(role, name)]

    def view(study: Study) -> PageView:
        return context.pages.of(study.id).view(study)

    snapshot, due = await context.workers.look(name, view)
    page = await context.workers.read(lambda: study_page(name, snapshot, root=root, may=may, due=due))
    return _compressed(request, page)


@routes.get("/assets/{file}", Permission(READ, "any"))
async def assets(request: Request, file: str) -> Response:
    """Return a file that pages load: a style sheet or a module."""
    if file not in ASSETS:
        raise Refusal(404, OsrlError(f"there is no {file!r:.40}; see the page of a study"))
    response = _compressed(request, asset(file), ASSETS[file])
    response.headers["Cache-Control"] = f"private, max-age={YEAR}, immutable"
    return response


def _compressed(request: Request, text: str, kind: str = "text/html; charset=utf-8") -> Response:
    """Return a text, compressed where the browser can read that."""
    content, headers = text.encode(), {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", "") and len(content) > MIN_COMPRESSED_BYTES:
        content, headers["Content-Encoding"] = gzip.compress(content, 5, mtime=0), "gzip"
    return Response(content, headers=headers, media_type=kind)

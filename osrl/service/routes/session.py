"""What a person sees in a browser: signing in, and the pages of studies.

A token is given once, in a form. The browser keeps it in a cookie that no script can read and that is sent to
this server alone; it never stands in an address.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from osrl.errors import AccessRefused
from osrl.service.context import context_of
from osrl.service.middleware import COOKIE, path_within, sign_in
from osrl.service.problems import problem
from osrl.service.workers import STUCK

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
async def healthz(request: Request) -> Response:
    """Say whether the server is alive: 503 where reads do not come back."""
    found = await context_of(request).workers.health()
    return Response(f"{found}\n", 503 if found == STUCK else 200, media_type="text/plain")


@router.post("/session")
async def begin(request: Request) -> Response:
    """Sign in: a form with a token, or a JSON document with one."""
    root = request.scope.get("root_path", "")
    token, to, by_form = _given(request.headers.get("content-type", ""), await request.body())
    grant = None if token is None else await context_of(request).access.find(token)
    if grant is None:
        why = "This token is not known, or was revoked. Give another."
        return sign_in(why, root, to) if by_form else problem(AccessRefused("this token is not known"), 401)
    response: Response = Response(status_code=204)
    if by_form:
        response = RedirectResponse(path_within(to, root), 303)
    response.set_cookie(
        COOKIE,
        str(token),
        path=root or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


@router.delete("/session")
async def end(request: Request) -> Response:
    """Sign out."""
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path=request.scope.get("root_path", "") or "/")
    return response


def _given(kind: str, content: bytes) -> tuple[str | None, str, bool]:
    """Return the token in a body, the path to go on to, and whether it came by a form."""
    by_form = kind.startswith("application/x-www-form-urlencoded")
    try:
        if by_form:
            given = dict(parse_qsl(content.decode(), max_num_fields=5))
            return given.get("token"), given.get("to", ""), True
        token: Any = json.loads(content).get("token")
    except (ValueError, AttributeError, RecursionError):
        return None, "", by_form
    return (token if isinstance(token, str) else None), "", False

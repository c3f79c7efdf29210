"""Routes that are closed by default, and that read their bodies without detours.

A route says with `needs` what it needs; one that says nothing is closed to everybody. Declarations are
FastAPI's, and so is the description of the API. Calls to a study go past FastAPI's general machinery, which
takes longer than an ask: straight to the route, and from the bytes of the body to its model.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute, APIRouter
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from osrl.errors import AccessRefused, OsrlError
from osrl.service.models import Problem as ProblemDocument
from osrl.service.paths import NAME
from osrl.service.problems import MEDIA_TYPE, Problem, problem
from osrl.service.roles import Grant, Need

GRANT = "osrl.grant"  # in the scope of a request

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_REFUSALS = {
    400: "it cannot be understood",
    401: "without a token, or with one that is not known",
    403: "the token does not allow this",
    404: "there is no such study, trial or token",
    405: "another method is needed",
    409: "the study has ended, is paused, or its budget is spent",
    413: "the request is too large",
    415: "the body is not JSON",
    422: "it cannot be used: the sentence says why, and what to do",
    429: "there are too many at once",
    500: "the storage is damaged",
    503: "the storage is busy or out of reach: call again",
}
_PROBLEM = {MEDIA_TYPE: {"schema": ProblemDocument.model_json_schema()}}
OPTIONAL_BODY = {"requestBody": {"required": False}}  # without one, everything is as it is by default
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": why, "content": _PROBLEM} for status, why in _REFUSALS.items()
}


class ClosedRoute(APIRoute):
    """A route that checks what it needs before anything else.

    ``direct`` answers a request without FastAPI, where the endpoint takes a body and the study's name alone.
    """

    direct: Handler | None = None

    def get_route_handler(self) -> Handler:
        """What answers a request."""
        reads = self._reads_body()
        handler = self._closed(reads or super().get_route_handler())
        self.direct = handler if reads is not None else None
        return handler

    def _closed(self, answer: Handler) -> Handler:
        need: Need | None = getattr(self.endpoint, "__needs__", None)

        async def handle(request: Request) -> Response:
            if need is None:
                raise AccessRefused("this is closed to everybody")
            grant_of(request).meet(need, request.path_params.get("name"))
            return await answer(request)

        return handle

    def _reads_body(self) -> Handler | None:
        """What reads a body and calls the endpoint, where this takes nothing else but the study's name."""
        parameters = inspect.signature(self.endpoint, eval_str=True).parameters
        if not parameters.keys() <= {"request", "name", "body"} or "body" not in parameters:
            return None
        model, named = parameters["body"].annotation, "name" in parameters
        endpoint = self.endpoint

        async def answer(request: Request) -> Response:
            body = await read_body(request, model)
            given = {"name": request.path_params["name"]} if named else {}
            response: Response = await endpoint(request=request, body=body, **given)
            return response

        return answer


class Shortcut:
    """Calls to a study go straight to their handlers, all else to the application.

    FastAPI looks at one route after the other for longer than an ask takes.
    """

    def __init__(self, api: FastAPI, prefix: str, routers: Sequence[APIRouter]) -> None:
        self._api, self._prefix = api, prefix
        self._calls = {
            route.path.rpartition("/")[2]: route.direct
            for router in routers
            for route in router.routes
            if isinstance(route, ClosedRoute) and route.direct and route.path_format.startswith(f"{prefix}{{name}}/")
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and scope["method"] == "POST":
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            name, _, verb = path.removeprefix(self._prefix).rpartition("/")
            call = self._calls.get(verb)
            if call is not None and path.startswith(self._prefix) and name and "/" not in name:
                scope["path_params"], scope["app"] = {"name": NAME.convert(name)}, self._api
                try:
                    response = await call(Request(scope, receive))
                except OsrlError as error:
                    response = problem(error)
                await response(scope, receive, send)
                return
        await self._api(scope, receive, send)


async def read_body(request: Request, model: type[BaseModel]) -> BaseModel:
    """The body of a request; an error that says what is wrong with it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    content = await request.body()
    if kind != "application/json" and content:
        raise Problem(415, OsrlError(f"the content is {kind!r:.60}; send application/json"))
    if b"\\u0000" in content:
        raise OsrlError("a text has the character \\u0000, which cannot be stored; leave it out")
    try:
        return model.model_validate_json(content or b"{}")
    except ValidationError as error:
        raise OsrlError(said(error.errors(include_url=False, include_context=False))) from None


def said(errors: Any) -> str:
    """What is wrong with a request, in a sentence."""
    parts = []
    for each in list(errors)[:3]:
        where = ".".join(str(part) for part in each["loc"]) or "the body"
        given = repr(each.get("input"))
        parts.append(f"{where} is {given:.50}: {each['msg']}")
    return "; ".join(parts) + "; see the description of the API"


def grant_of(request: Request) -> Grant:
    """What the caller may do."""
    grant: Grant = request.scope[GRANT]
    return grant


def answer(document: Any, status: int = 200) -> Response:
    """A JSON document."""
    content = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Response(content.encode(), status, media_type="application/json")


def new_router(prefix: str = "", **more: Any) -> APIRouter:
    """A router whose routes are closed by default."""
    return APIRouter(prefix=prefix, route_class=ClosedRoute, responses=REFUSALS, **more)

"""Routes: a method, a path, a permission and a handler; and how the path of a request becomes a route.

The signature of a handler says what it reads: ``name`` (of a study) and ``id`` from the path, ``body`` from the
JSON body, all other parameters from the query string. A route without a permission is closed to everybody.

The name of a study may have a ``/``, written ``%2F`` in an address. It belongs to the name, so a path is split
before it is decoded. A proxy may take its own path away or leave it, but must pass on the rest as it came.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from pydantic import BaseModel, ValidationError, create_model
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from osrl.errors import AccessRefused, OsrlError
from osrl.service.problems import Refusal
from osrl.service.tokens import Grant, Permission

GRANT, PARTS = "osrl.grant", "osrl.parts"  # in the scope of a request: the caller's rights, the parts of its path
OPEN = Permission("nobody", "any")  # of a route that checks nothing
OWN_PATHS = ("api", "ofrep", "studies", "assets", "session", "healthz")  # first parts of our own paths

Handler = Callable[..., Coroutine[Any, Any, Response]]
Model = TypeVar("Model", bound=BaseModel)


class Route:
    """A route. ``details`` describe it in the OpenAPI document: see `osrl.service.openapi`."""

    def __init__(
        self, method: str, path: str, handler: Handler, permission: Permission | None, details: Mapping[str, Any]
    ) -> None:
        self.method, self.path, self.handler, self.permission = method, path, handler, permission
        self.details = details
        parameters = dict(inspect.signature(handler, eval_str=True).parameters)
        del parameters["request"]
        self.path_parameters = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        for name in self.path_parameters:
            del parameters[name]
        body = parameters.pop("body", None)
        self.body: type[BaseModel] | None = None if body is None else body.annotation
        fields: Any = {name: (each.annotation, each.default) for name, each in parameters.items()}
        self.query: type[BaseModel] | None = create_model("Query", **fields) if fields else None

    async def answer(self, request: Request, given: dict[str, Any]) -> Response:
        """Check the permission, read the parameters, and call the handler."""
        if self.permission is None:
            raise AccessRefused("this is closed to everybody")
        if self.permission is not OPEN:
            self.permission.require(grant_of(request), given.get("name"))
        if self.query is not None:
            given.update(validate(self.query, "query", dict(request.query_params)))
        if self.body is not None:
            given["body"] = await read_body(request, self.body)
        return await self.handler(request, **given)


class Routes:
    """The routes of a module, under one prefix; ``tag``: their group in the OpenAPI document, None for none."""

    def __init__(self, prefix: str = "", tag: str | None = None) -> None:
        self.list: list[Route] = []
        self._prefix, self._tag = prefix, tag

    def add(
        self, method: str, path: str, permission: Permission | None, **details: Any
    ) -> Callable[[Handler], Handler]:
        """Add the decorated handler as a route."""

        def decorate(handler: Handler) -> Handler:
            about = {"tag": self._tag, **details}
            self.list.append(Route(method, f"{self._prefix}{path}", handler, permission, about))
            return handler

        return decorate

    def get(self, path: str, permission: Permission | None, **details: Any) -> Callable[[Handler], Handler]:
        """Add the decorated handler for GET."""
        return self.add("GET", path, permission, **details)

    def post(self, path: str, permission: Permission | None, **details: Any) -> Callable[[Handler], Handler]:
        """Add the decorated handler for POST."""
        return self.add("POST", path, permission, **details)

    def delete(self, path: str, permission: Permission | None, **details: Any) -> Callable[[Handler], Handler]:
        """Add the decorated handler for DELETE."""
        return self.add("DELETE", path, permission, **details)


class _Node:
    """The routes whose paths begin with the same parts."""

    def __init__(self) -> None:
        self.fixed: dict[str, _Node] = {}
        self.variable: _Node | None = None
        self.routes: dict[str, Route] = {}  # by method


class Router:
    """Finds the route of a request, part by part of its path."""

    def __init__(self, routes: Iterable[Route] = ()) -> None:
        self._root = _Node()
        for route in routes:
            self.add(route)

    def add(self, route: Route) -> None:
        """Add a route."""
        node = self._root
        for part in route.path.split("/"):
            if part.startswith("{"):
                node.variable = node.variable or _Node()
                node = node.variable
            else:
                node = node.fixed.setdefault(part, _Node())
        node.routes[route.method] = route

    def find(self, scope: Scope) -> tuple[Route, dict[str, Any]]:
        """Return the route of a request, and the values in its path; refuse a path or method without a route."""
        node, values = self._root, []
        for part in scope[PARTS]:
            following = node.fixed.get(part)
            if following is None and part and node.variable is not None:
                following = node.variable
                values.append(part)
            if following is None:
                break
            node = following
        else:
            route = node.routes.get(scope["method"])
            if route is not None:
                return route, dict(zip(route.path_parameters, values, strict=True))
        what = f"{scope['method']} {scope['path']}"
        if following is None or not node.routes:
            raise Refusal(404, OsrlError(f"there is no {what}; see /api/v1/openapi.json"))
        error = OsrlError(f"{what} is not possible; see /api/v1/openapi.json")
        raise Refusal(405, error, {"Allow": ", ".join(node.routes)})


def read_root_path(path: str) -> str:
    """Return the path under which a proxy shows the server, such as ``/osrl``; none is empty."""
    root = path.rstrip("/")
    if root and (not root.startswith("/") or root.split("/")[1] in OWN_PATHS):
        raise OsrlError(f"the root path is {path!r:.60}; give one such as /osrl, not one of /{', /'.join(OWN_PATHS)}")
    return root


def normalise_path(scope: Scope, root: str) -> None:
    """Split and decode the path of a request, without the path of a proxy."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    parts = scope[PARTS] = [unquote(part) for part in path.split("/")]
    scope["root_path"], scope["path"] = root, root + "/".join(part.replace("/", "%2F") for part in parts)


def study_url(request: Request, name: str) -> str:
    """Return the address of a study in the API."""
    return f"{request.base_url}api/v1/studies/{quote(name, safe='')}"


async def read_body(request: Request, model: type[Model]) -> Model:
    """Return the body of a request; an error says what is wrong with it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    content = await request.body()
    if kind != "application/json" and content:
        raise Refusal(415, OsrlError(f"the content is {kind!r:.60}; send application/json"))
    if b"\\u0000" in content:
        raise OsrlError("a text has the character \\u0000, which cannot be stored; leave it out")
    try:
        return model.model_validate_json(content or b"{}")
    except ValidationError as error:
        raise OsrlError(_validation_message(error)) from None


def validate(model: type[BaseModel], where: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request by a model of them; ``where``: query or header."""
    try:
        return dict(model.model_validate(values))
    except ValidationError as error:
        raise OsrlError(_validation_message(error, where)) from None


def _validation_message(error: ValidationError, *where: str) -> str:
    """Return what is wrong with a request, in a sentence."""
    parts = []
    for each in error.errors(include_url=False, include_context=False)[:3]:
        location = ".".join(map(str, (*where, *each["loc"]))) or "the body"
        parts.append(f"{location} is {each['input']!r:.50}: {each['msg']}")
    return "; ".join(parts) + "; see the description of the API"


def grant_of(request: Request) -> Grant:
    """Return the rights of the caller."""
    grant: Grant = request.scope[GRANT]
    return grant


def json_response(document: Any, status: int = 200) -> Response:
    """Return a JSON document as a response."""
    content = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Response(content.encode(), status, media_type="application/json")

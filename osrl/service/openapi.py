"""The OpenAPI document of the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel, TypeAdapter

from osrl.service.models import ProblemDocument
from osrl.service.problems import MEDIA_TYPE
from osrl.service.routing import Route

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


def describe(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of all routes that have a tag.

    The details of a route that stand in it are ``answer`` (the type of its document), ``status`` of success,
    ``optional_body``, ``headers`` (parameters) and ``responses``, which add to the usual ones.
    """
    shown = [route for route in routes if route.details["tag"] is not None]
    inputs: list[Any] = []
    for i, route in enumerate(shown):
        if route.body is not None:
            inputs.append((("body", i), "validation", TypeAdapter(route.body)))
        if "answer" in route.details:
            inputs.append((("answer", i), "serialization", TypeAdapter(route.details["answer"])))
    found, definitions = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")
    schemas: dict[Any, Any] = {key: schema for (key, _), schema in found.items()}
    paths: dict[str, dict[str, Any]] = {}
    for i, route in enumerate(shown):
        operation = _operation(route, schemas.get(("body", i)), schemas.get(("answer", i), {}))
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    for schema in definitions["$defs"].values():
        _drop_null_defaults(schema)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "osrl",
            "description": "Studies over HTTP: ask for a trial, run it, tell its reward, until there is a verdict.",
            "version": version("osrl"),
        },
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(route: Route, body: Any, answer: Any) -> dict[str, Any]:
    details, name = route.details, route.handler.__name__
    problem = {MEDIA_TYPE: {"schema": ProblemDocument.model_json_schema()}}
    responses: dict[str, Any] = {
        str(details.get("status", 200)): {
            "description": "Successful Response",
            "content": {"application/json": {"schema": answer}},
        },
        **{str(status): {"description": why, "content": problem} for status, why in _REFUSALS.items()},
    }
    for status, response in details.get("responses", {}).items():
        content = responses[status]["content"] if status == "200" else {}
        responses[status] = {**response, "content": {**content, **response["content"]}}
    parameters = [
        {"name": each, "in": "path", "required": True, "schema": {"type": "string", "title": each.title()}}
        for each in route.path_parameters
    ]
    if route.query is not None:
        parameters += describe_parameters(route.query, "query")
    operation = {
        "tags": [details["tag"]],
        "summary": name.replace("_", " ").title(),
        "description": (route.handler.__doc__ or "").strip(),
        "operationId": f"{name}{re.sub(r'[^0-9a-zA-Z]', '_', route.path)}_{route.method.lower()}",
        "responses": responses,
    }
    if parameters := parameters + details.get("headers", []):
        operation["parameters"] = parameters
    if body is not None:
        content = {"application/json": {"schema": body}}
        operation["requestBody"] = {"required": not details.get("optional_body", False), "content": content}
    return operation


def describe_parameters(model: type[BaseModel], where: str) -> list[dict[str, Any]]:
    """Return the fields of a model as parameters in the query or the headers."""
    parameters = []
    for name, schema in model.model_json_schema()["properties"].items():
        described = {"description": schema["description"]} if "description" in schema else {}
        parameters.append({"name": name, "in": where, "required": False, **described, "schema": schema})
        _drop_null_defaults({"properties": {name: schema}})
    return parameters


def _drop_null_defaults(schema: dict[str, Any]) -> None:
    """Remove defaults that are null: leaving a field out means the same."""
    for field in schema.get("properties", {}).values():
        if "default" in field and field["default"] is None:
            del field["default"]

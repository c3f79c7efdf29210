"""Schemathesis over the whole API: no answer of 5xx, and none that the description does not foresee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from osrl.service.app import openapi_document
from tests.support.servers import NAMES, Serving, serving

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)

# A stream of events has no end; `test_service.py` reads it.
schema = schemathesis.openapi.from_dict(openapi_document()).exclude(path_regex="/events$")
schema.config.phases.coverage.enabled = False  # takes a minute; the long form has it
thorough = schemathesis.openapi.from_dict(openapi_document()).exclude(path_regex="/events$")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(str(tmp_path_factory.mktemp("schema") / "studies.db")) as found:
        yield found


@pytest.fixture(scope="module")
def token(server: Serving) -> str:
    return server.token()


def call(case: Any, server: Serving, token: str) -> None:
    """Send a request, mostly to a study that is there, and look at the answer."""
    headers = {"Authorization": f"Bearer {token}"}
    if "name" in (case.path_parameters or {}) and case.method != "DELETE":
        httpx.post(
            f"{server.url}/api/v1/studies",
            headers=headers,
            json={"name": "schema", **NAMES, "policy": "uniform", "seed": 1},
        )
        case.path_parameters["name"] = "schema"
    case.call_and_validate(base_url=server.url, headers=headers, checks=CHECKS)


@schema.parametrize()
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_operation(case: Any, server: Serving, token: str) -> None:
    call(case, server, token)


@pytest.mark.validate
@thorough.parametrize()
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_operation_at_length(case: Any, server: Serving, token: str) -> None:
    call(case, server, token)

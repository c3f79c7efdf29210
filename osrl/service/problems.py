"""Refusals as RFC 9457 problem documents: the ``type`` is the class of the Python error."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from osrl.errors import (
    AccessRefused,
    BudgetSpent,
    OsrlError,
    StorageDamaged,
    StorageError,
    StudyEnded,
    UnknownStudy,
    UnknownTrial,
)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = 1  # seconds, for a storage that is busy or out of reach

_STATUS: tuple[tuple[type[OsrlError], int], ...] = (
    (UnknownStudy, 404),
    (UnknownTrial, 404),
    (AccessRefused, 403),
    (StudyEnded, 409),
    (BudgetSpent, 409),
    (StorageError, 503),
    (StorageDamaged, 500),
    (OsrlError, 422),
)
_TITLES = {
    400: "The request cannot be understood",
    401: "A token is needed",
    403: "The token does not allow this",
    404: "There is no such thing",
    405: "This cannot be done here",
    409: "The study does not go on",
    413: "The request is too large",
    415: "The content is of another kind",
    422: "The request cannot be used",
    429: "There are too many at once",
    500: "The server has failed",
    503: "The storage is busy or out of reach",
}


class Refusal(Exception):  # noqa: N818 - it is not an error of the server
    """A refusal with an HTTP status of its own."""

    def __init__(self, status: int, error: OsrlError, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(str(error))
        self.status, self.error, self.headers = status, error, headers


def status_of(error: OsrlError) -> int:
    """Return the HTTP status of an error."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def title_of(status: int) -> str:
    """Return what an HTTP status means here."""
    return _TITLES.get(status, "The request was refused")


def problem_response(error: OsrlError, status: int | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as a problem document."""
    status = status_of(error) if status is None else status
    given = dict(headers or {})
    if status in (429, 503):
        given.setdefault("Retry-After", str(RETRY_AFTER))
    document = {"type": type(error).__name__, "title": title_of(status), "status": status, "detail": str(error)}
    return Response(json.dumps(document), status, given, MEDIA_TYPE)


def failure_response() -> Response:
    """Return the problem document for a mistake of the server, which its log describes."""
    return problem_response(OsrlError("the server has failed; its log says why"), 500)

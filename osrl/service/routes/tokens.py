"""The routes of tokens: made, listed and revoked by owners."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from osrl.errors import OsrlError
from osrl.service.context import context_of
from osrl.service.models import NewToken, SecretDocument, TokensDocument
from osrl.service.problems import Problem
from osrl.service.roles import OWN, Grant, needs
from osrl.service.routing import answer, grant_of, new_router
from osrl.service.tokens import TokenRecord, create_token, list_tokens, revoke_token

router = new_router("/api/v1/tokens", tags=["tokens"])


def _may(grant: Grant, study: str | None, everywhere: bool) -> bool:
    return grant.allows(OWN, None if everywhere else study)


@router.get("", response_model=TokensDocument)
@needs(OWN, "any")
async def tokens(request: Request) -> Response:
    """The tokens of the studies that the caller owns, without their secrets."""
    context, grant = context_of(request), grant_of(request)
    found = await context.workers.read(lambda: list_tokens(context.storage))
    seen = [each._asdict() for each in found if _may(grant, each.study, each.everywhere)]
    return answer({"tokens": seen})


@router.post("", status_code=201, response_model=SecretDocument)
@needs(OWN, "any")
async def create(request: Request, body: NewToken) -> Response:
    """A new token; it is shown this once."""
    context, grant = context_of(request), grant_of(request)
    grant.check(OWN, body.study)
    made = await context.workers.read(lambda: create_token(context.storage, body.role, body.study, body.label))
    await context.access.refresh()
    return answer(made._asdict(), 201)


@router.delete("/{id}", response_model=dict[str, Any])
@needs(OWN, "any")
async def revoke(request: Request, id: str) -> Response:
    """A token allows nothing any more; its open streams end."""
    context, grant = context_of(request), grant_of(request)

    def find() -> TokenRecord | None:
        return next((each for each in list_tokens(context.storage) if each.id == id), None)

    found = await context.workers.read(find)
    if found is None or not _may(grant, found.study, found.everywhere):
        raise Problem(404, OsrlError(f"there is no token {id!r:.40} that you own; list them first"))
    await context.workers.read(lambda: revoke_token(context.storage, id))
    await context.access.refresh()
    return answer({"revoked": id})

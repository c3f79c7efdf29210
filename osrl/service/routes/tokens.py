"""The routes of tokens: made, listed and revoked by owners."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from osrl.errors import OsrlError
from osrl.service.context import context_of
from osrl.service.models import TokenRequest, TokensDocument
from osrl.service.problems import Refusal
from osrl.service.routing import Routes, grant_of, json_response
from osrl.service.tokens import OWN, NewToken, Permission, TokenRecord, create_token, list_tokens, revoke_token

routes = Routes("/api/v1/tokens", tag="tokens")


@routes.get("", Permission(OWN, "any"), answer=TokensDocument)
async def tokens(request: Request) -> Response:
    """List the tokens of the studies that the caller owns, without their secrets."""
    return json_response({"tokens": [asdict(each) for each in await _owned(request)]})


@routes.post("", Permission(OWN, "any"), status=201, answer=NewToken)
async def create(request: Request, body: TokenRequest) -> Response:
    """Make a token; it is shown this once."""
    context = context_of(request)
    grant_of(request).require(OWN, body.study)
    made = await context.workers.read(lambda: create_token(context.storage, body.role, body.study, body.label))
    await context.tokens.refresh()
    return json_response(asdict(made), 201)


@routes.delete("/{id}", Permission(OWN, "any"), answer=dict[str, Any])
async def revoke(request: Request, id: str) -> Response:
    """Revoke a token; its open streams end."""
    context = context_of(request)
    if id not in [each.id for each in await _owned(request)]:
        raise Refusal(404, OsrlError(f"there is no token {id!r:.40} that you own; list them first"))
    await context.workers.read(lambda: revoke_token(context.storage, id))
    await context.tokens.refresh()
    return json_response({"revoked": id})


async def _owned(request: Request) -> list[TokenRecord]:
    """Return the tokens of the studies that the caller owns."""
    context, grant = context_of(request), grant_of(request)
    found = await context.workers.read(lambda: list_tokens(context.storage))
    return [each for each in found if grant.allows(OWN, None if each.everywhere else each.study)]

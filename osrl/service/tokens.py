"""Tokens: who may do what. `operate` includes `blind` and `read`, and `own` includes all.

| role | what it allows |
|---|---|
| `blind` | ask, tell, abandon, without seeing results |
| `read` | everything that can be seen |
| `operate` | both, and feature flags |
| `own` | create, pause, close, withdraw, delete, correct, and tokens |

A token is for one study or for all of them. It is `osrl_ID_SECRET`, with 256 random bits in its secret, and is
shown once, when it is made. The database has its SHA-256 alone: a secret of that length cannot be guessed, so
that a slow hash would protect nothing more.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, NamedTuple

from sqlalchemy import insert, inspect, select, update

from osrl.errors import AccessRefused, OsrlError, StorageDamaged
from osrl.service.blocking import in_thread
from osrl.service.tables import prepare_tables, tokens
from osrl.study.log.events import now
from osrl.study.state.trial import validate_actor_and_reason
from osrl.study.storage.schema import studies
from osrl.study.storage.sql import SqlStorage

BLIND, READ, OPERATE, OWN = "blind", "read", "operate", "own"
ROLES = (BLIND, READ, OPERATE, OWN)
ENTER = "enter"  # to see that a study is there, and how it was created: part of every role
_ALLOWS = {
    BLIND: (ENTER, BLIND),
    READ: (ENTER, READ),
    OPERATE: (ENTER, BLIND, READ, OPERATE),
    OWN: (ENTER, BLIND, READ, OPERATE, OWN),
}
_USUAL_ROLE = {ENTER: READ, BLIND: OPERATE}  # the role to ask for, in a refusal

REFRESH_SECONDS = 1.0  # after which a token that was made or revoked elsewhere is known here
MIN_REFRESH_SECONDS = 0.2  # between two reads of the tokens, however many unknown ones arrive
_TOKEN = re.compile(r"osrl_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class Grant(NamedTuple):
    """The rights of a token; ``study`` is None for one that was deleted."""

    id: str
    role: str
    study: str | None
    everywhere: bool

    @property
    def blind(self) -> bool:
        """Tell whether its bearer must not see results."""
        return self.role == BLIND

    def allows(self, role: str, study: str | None) -> bool:
        """Tell whether the token has a role for a study; for all of them, where ``study`` is None."""
        enough = role in _ALLOWS.get(self.role, ())
        return enough and (self.everywhere or (study is not None and study == self.study))

    def require(self, role: str, study: str | None) -> None:
        """Refuse a token without a role for a study."""
        if not self.allows(role, study):
            what = f"{_USUAL_ROLE.get(role, role)!r} for {'all studies' if study is None else f'study {study!r}'}"
            raise AccessRefused(f"this token does not allow that; it takes the role {what}, ask for such a token")


class Permission(NamedTuple):
    """What a route requires: a role for the study that its path names, for every study, or for any.

    A route for any study checks itself which ones the token allows.
    """

    role: str
    studies: Literal["named", "every", "any"] = "named"

    def require(self, grant: Grant, named: str | None) -> None:
        """Refuse a token that does not give this permission."""
        grant.require(self.role, {"named": named, "every": None, "any": grant.study}[self.studies])


def read_role(role: str) -> str:
    """Return the name of a role; refuse one that does not exist."""
    if role not in ROLES:
        raise OsrlError(f"the role is {role!r}; give one of {', '.join(ROLES)}")
    return role


@dataclass(frozen=True)
class NewToken:
    """A new token: it is shown this once."""

    id: str
    token: str


@dataclass(frozen=True)
class TokenRecord:
    """A token, without its secret; times in microseconds since 1970 (UTC)."""

    id: str
    role: str
    study: str | None
    everywhere: bool
    label: str | None
    at: int
    revoked_at: int | None


def new_token() -> NewToken:
    """Make a token that nobody has."""
    id = secrets.token_hex(6)
    return NewToken(id, f"osrl_{id}_{secrets.token_urlsafe(32)}")


def token_id(token: str) -> str:
    """Return the public part of a token; refuse a text that is none."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        raise OsrlError("that is not a token; make one with `osrl token create`")
    return parts[1]


def create_token(storage: SqlStorage, role: str, study: str | None, label: str | None) -> NewToken:
    """Make a token with a role for one study, or for all of them."""
    read_role(role)
    validate_actor_and_reason(None, label)
    prepare_tables(storage)
    number = None if study is None else storage.find(study)
    made = new_token()
    row = {"id": made.id, "hash": _hash(made.token), "role": role, "study": number, "label": label, "at": now()}
    with storage.transaction(write=True) as connection:
        connection.execute(insert(tokens), row)
    return made


def list_tokens(storage: SqlStorage) -> list[TokenRecord]:
    """Return every token, in the order in which they were made."""
    return [
        TokenRecord(row.id, row.role, row.name, row.study is None, row.label, row.at, row.revoked_at)
        for row in _rows(storage)
    ]


def revoke_token(storage: SqlStorage, id: str) -> None:
    """Revoke a token."""
    prepare_tables(storage)
    with storage.transaction(write=True) as connection:
        known = connection.execute(select(tokens.c.revoked_at).where(tokens.c.id == id)).one_or_none()
        if known is None:
            raise OsrlError(f"there is no token {id!r:.40}; list them with `osrl token list`")
        if known.revoked_at is None:
            connection.execute(update(tokens).where(tokens.c.id == id).values(revoked_at=now()))


def _rows(storage: SqlStorage) -> list[Any]:
    named = tokens.outerjoin(studies, tokens.c.study == studies.c.id)
    wanted = select(*tokens.c, studies.c.name).select_from(named).order_by(tokens.c.at)
    with storage.transaction() as connection:
        return list(connection.execute(wanted).all())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class TokenCache:
    """The valid tokens, read from the database again and again.

    ``own`` is a token for everything that the operator has given at the start: it is not in the database.
    ``changed`` is called in the event loop after tokens were made or revoked.
    """

    def __init__(
        self, storage: SqlStorage, own: str | None = None, changed: Callable[[], object] = lambda: None
    ) -> None:
        self._storage, self._changed = storage, changed
        self._own: dict[str, tuple[str, Grant]] = {}
        if own is not None:
            id = token_id(own)
            self._own[id] = _hash(own), Grant(id, OWN, None, True)
        self._known: dict[str, tuple[str, Grant]] = dict(self._own)
        self._reading = Lock()
        self._read_at = 0.0
        self._refreshing = asyncio.Lock()

    @property
    def grants(self) -> frozenset[Grant]:
        """Return the rights of all valid tokens."""
        return frozenset(grant for _, grant in self._known.values())

    def read(self) -> None:
        """Read the tokens from the database."""
        with self._reading:
            known = dict(self._own)
            for row in self._rows():
                if row.revoked_at is None:
                    known[row.id] = row.hash, Grant(row.id, row.role, row.name, row.study is None)
            self._known = known

    def _rows(self) -> list[Any]:
        """Return the tokens of the database; none where it was replaced by one without tables for them."""
        try:
            return _rows(self._storage)
        except StorageDamaged:
            with self._storage.transaction() as connection:
                if inspect(connection).has_table(tokens.name):
                    raise
        self._known = dict(self._own)
        prepare_tables(self._storage)
        return _rows(self._storage)

    def lookup(self, token: str) -> Grant | None:
        """Return the rights of a token; None where it is unknown or revoked."""
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            return None
        hash, grant = self._known.get(parts[1], ("", None))
        return grant if hmac.compare_digest(_hash(token), hash) else None

    def is_valid(self, grant: Grant) -> bool:
        """Tell whether a token still has the same rights."""
        return self._known.get(grant.id, ("", None))[1] == grant

    async def find(self, token: str) -> Grant | None:
        """Return the rights of a token; an unknown one may have been made just now, so look again."""
        grant = self.lookup(token)
        if grant is None and _TOKEN.fullmatch(token):
            await self._refresh(time.monotonic())
            grant = self.lookup(token)
        return grant

    async def refresh(self) -> None:
        """Read the tokens again after one was made or revoked here."""
        await self._refresh(time.monotonic())
        self._changed()

    async def _refresh(self, since: float) -> None:
        """Read the tokens, unless that has begun after ``since``; not too often, whoever asks."""
        async with self._refreshing:
            if self._read_at >= since:
                return
            await asyncio.sleep(self._read_at + MIN_REFRESH_SECONDS - time.monotonic())
            self._read_at = time.monotonic()
            with suppress(OsrlError):  # the database is away: known tokens stay known
                await in_thread(self.read)

    async def keep_fresh(self) -> None:
        """Read the tokens again and again."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            before = self.grants
            await self._refresh(time.monotonic())
            if self.grants != before:
                self._changed()

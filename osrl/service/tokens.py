"""Tokens: how the bearer of one is known again, without the server keeping it.

A token is `osrl_ID_SECRET`, with 256 random bits in its secret. The database has its SHA-256 alone: a secret
of that length cannot be guessed, so that a slow hash would protect nothing more. It is shown once, when it is
made.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from threading import Lock
from typing import Any, NamedTuple

from sqlalchemy import insert, inspect, select, update

from osrl.errors import OsrlError, StorageDamaged
from osrl.service.roles import OWN, Grant, read_role
from osrl.service.tables import prepare_tables, tokens
from osrl.study.log.events import now
from osrl.study.state.trial import validate_actor_and_reason
from osrl.study.storage.schema import studies
from osrl.study.storage.sql import SqlStorage

_TOKEN = re.compile(r"osrl_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class NewToken(NamedTuple):
    """A token that was made now, and will not be shown again."""

    id: str
    token: str


class TokenRecord(NamedTuple):
    """What is known of a token; times in microseconds since 1970 (UTC)."""

    id: str
    role: str
    study: str | None
    everywhere: bool
    label: str | None
    at: int
    revoked_at: int | None


def new_token() -> NewToken:
    """A token that nobody has."""
    id = secrets.token_hex(6)
    return NewToken(id, f"osrl_{id}_{secrets.token_urlsafe(32)}")


def create_token(storage: SqlStorage, role: str, study: str | None, label: str | None) -> NewToken:
    """Make a token with a role for one study, or for all of them."""
    read_role(role)
    validate_actor_and_reason(None, label)
    prepare_tables(storage)
    number = None if study is None else storage.find(study)
    made = new_token()
    row = {
        "id": made.id,
        "hash": _hash(made.token),
        "role": role,
        "study": number,
        "label": label,
        "at": now(),
    }
    with storage.beside(write=True) as connection:
        connection.execute(insert(tokens), row)
    return made


def list_tokens(storage: SqlStorage) -> list[TokenRecord]:
    """Every token, in the order in which they were made."""
    return [_record(row) for row in _read(storage)]


def revoke_token(storage: SqlStorage, id: str) -> None:
    """Let a token allow nothing from now on."""
    prepare_tables(storage)
    with storage.beside(write=True) as connection:
        known = connection.execute(select(tokens.c.revoked_at).where(tokens.c.id == id)).one_or_none()
        if known is None:
            raise OsrlError(f"there is no token {id!r:.40}; list them with `osrl token list`")
        if known.revoked_at is None:
            connection.execute(update(tokens).where(tokens.c.id == id).values(revoked_at=now()))


def _read(storage: SqlStorage) -> list[Any]:
    named = tokens.outerjoin(studies, tokens.c.study == studies.c.id)
    wanted = select(*tokens.c, studies.c.name).select_from(named).order_by(tokens.c.at)
    with storage.beside() as connection:
        return list(connection.execute(wanted).all())


def _record(row: Any) -> TokenRecord:
    return TokenRecord(row.id, row.role, row.name, row.study is None, row.label, row.at, row.revoked_at)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Roster:
    """The tokens that are valid now, as far as they were read from the database.

    ``own`` is a token that the operator has given at the start: it is not in the database.
    """

    def __init__(self, storage: SqlStorage, own: str | None = None) -> None:
        self._storage = storage
        self._lock = Lock()
        self._own: dict[str, tuple[str, Grant]] = {}
        if own is not None:
            id = read_token(own)
            self._own[id] = _hash(own), Grant(id, OWN, None, True)
        self._known: dict[str, tuple[str, Grant]] = dict(self._own)

    @property
    def valid(self) -> frozenset[Grant]:
        """What the tokens allow that are valid now."""
        return frozenset(grant for _, grant in self._known.values())

    def refresh(self) -> None:
        """Read the tokens again."""
        with self._lock:
            known = dict(self._own)
            for row in self._rows():
                if row.revoked_at is None:
                    known[row.id] = row.hash, Grant(row.id, row.role, row.name, row.study is None)
            self._known = known

    def _rows(self) -> list[Any]:
        """Return the tokens of the database; none where another one without tables for them is there now."""
        try:
            return _read(self._storage)
        except StorageDamaged:
            with self._storage.beside() as connection:
                if inspect(connection).has_table(tokens.name):
                    raise
        self._known = dict(self._own)
        prepare_tables(self._storage)
        return _read(self._storage)

    def find(self, token: str) -> Grant | None:
        """What a token allows; None where it is not known, or was revoked."""
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            return None
        hash, grant = self._known.get(parts[1], ("", None))
        return grant if hmac.compare_digest(_hash(token), hash) else None

    def still(self, grant: Grant) -> bool:
        """Whether a token that was known before still allows the same."""
        return self._known.get(grant.id, ("", None))[1] == grant


def is_token(text: str) -> bool:
    """Whether a text looks like a token."""
    return _TOKEN.fullmatch(text) is not None


def read_token(token: str) -> str:
    """The public part of a token; an error where it is none."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        raise OsrlError("that is not a token; make one with `osrl token create`")
    return parts[1]

"""The tables of the service, beside the studies: tokens, idempotency keys, flags, messages.

None of it is part of a log, but for the id of a token in the events that it has caused.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text, text

from osrl.study.storage.sql import SqlStorage

_LOCK = 0x6F737276  # of PostgreSQL, while tables are made

metadata = MetaData()

# `study` is its number: a new study of the same name has other tokens. Null: all studies.
tokens = Table(
    "osrl_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False),  # SHA-256 of the token
    Column("role", Text, nullable=False),
    Column("study", Integer),
    Column("label", Text),
    Column("at", BigInteger, nullable=False),  # microseconds since 1970 (UTC)
    Column("revoked_at", BigInteger),
)

# Which trials were handed out for which request, so that one that is repeated gets them again.
requests = Table(
    "osrl_requests",
    metadata,
    Column("study", Integer, primary_key=True, autoincrement=False),
    Column("request", Text, primary_key=True),
    Column("first", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    Column("at", BigInteger, nullable=False, index=True),
)

# By which attribute of an OpenFeature context the task of a subject is known.
flags = Table(
    "osrl_flags",
    metadata,
    Column("study", Integer, primary_key=True, autoincrement=False),
    Column("attribute", Text, nullable=False),
)

# The message about the verdict of a study, until it was delivered or is a day old.
messages = Table(
    "osrl_messages",
    metadata,
    Column("study", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("at", BigInteger, nullable=False),  # when the verdict was reached
    Column("attempts", Integer, nullable=False),
    Column("due", BigInteger),  # when it is tried next; null when nothing is left to do
    Column("delivered_at", BigInteger),
)


def prepare_tables(storage: SqlStorage) -> None:
    """Make the tables of the service where they are missing."""
    with storage.transaction(write=True) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
        metadata.create_all(connection)

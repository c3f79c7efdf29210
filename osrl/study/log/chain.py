"""The hash chain of a log, and its events as they are stored.

Each event has a hash of its own content and of the hash before it, so the last one, the *head*, stands for the whole
log: whoever has noted a head can tell whether a log still contains it. An event that was changed, left out or put in
between breaks the chain where it is read. Somebody who may write to the database can compute the whole chain anew;
only a head that is kept elsewhere shows that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from osrl.errors import StorageDamaged
from osrl.study.log.events import KINDS, Asked, Body, Event, Verdict, is_well_typed, now
from osrl.study.log.identity import caller


class Row(NamedTuple):
    """An event as it is stored."""

    seq: int
    at: int
    kind: str
    trial: int | None
    payload: str
    hash: str


Stored = tuple[int, int, str, int | None, str, str]  # a `Row` as databases return it, without field names


def row_of(event: Event) -> Row:
    """Return an event as it is stored."""
    return Row(event.seq, event.at, event.kind, event.trial, event.payload, event.hash)


def link(before: str, seq: int, at: int, kind: str, payload: str) -> str:
    """Return the hash of an event: of its content, and of the hash of the event before (empty for the first)."""
    return hashlib.sha256(f"{before}\n{seq}\n{at}\n{kind}\n{payload}".encode()).hexdigest()


def next_event(before: Event | None, body: Body) -> Event:
    """Return an event that happens now, after ``before``; the first one of a study where that is None."""
    return next_stored(before, body)[0]


def next_stored(before: Event | None, body: Body) -> tuple[Event, Row]:
    """Return an event that happens now, and its row, with its fields encoded only once."""
    seq, head = (0, "") if before is None else (before.seq + 1, before.hash)
    event = Event(seq, now(), body := _signed(body))
    kind, payload = event.kind, event.payload
    hash = link(head, seq, event.at, kind, payload)
    return Event(seq, event.at, body, hash), Row(seq, event.at, kind, event.trial, payload, hash)


def _signed(body: Body) -> Body:
    """Return an event with the identity of the caller, where it is known."""
    who = caller()
    return body if who is None or not hasattr(body, "via") else replace(body, via=who.token)  # type: ignore[arg-type]


def key_of(row: Stored) -> str | None:
    """Return the key of the trial that is handed out, if this is an ask with a key."""
    seq, at, kind, _, payload, _ = row
    if kind != "ask" or '"key":' not in payload:
        return None
    body = read_event(seq, at, kind, payload).body
    return body.key if isinstance(body, Asked) else None


def check_rows(rows: Iterable[Row | Sequence[Any]], before: str | None) -> str | None:
    """Refuse rows whose chain is broken; return the hash of the last one.

    ``before`` is the hash of the event before the first one, or None where it is not known here.
    """
    sha256 = hashlib.sha256
    for seq, at, kind, _, payload, given in rows:
        intact = type(seq) is int and type(at) is int and type(payload) is str and type(given) is str
        if intact and before is not None:  # `link` inlined: this loop runs over every event of every log
            intact = sha256(f"{before}\n{seq}\n{at}\n{kind}\n{payload}".encode()).hexdigest() == given
        if not intact:
            raise StorageDamaged(
                f"event {seq} is not the one that was written after the one before: its content, its number "
                "or its hash was changed; events before it can still be read, restore a backup"
            )
        before = given
    return before


def read_events(rows: Iterable[Row | Sequence[Any]], before: str | None) -> Iterator[Event]:
    """Yield the events that are stored in these rows; refuse them where the chain is broken."""
    for row in rows:
        before = check_rows((row,), before)
        seq, at, kind, trial, payload, given = row
        event = read_event(seq, at, kind, payload, given)
        if event.trial != trial:
            raise StorageDamaged(
                f"event {seq} is about trial {event.trial} and stored under trial {trial}; restore a backup"
            )
        yield event


def read_event(seq: int, at: int, kind: str, payload: str, hash: str = "") -> Event:
    """Return the event that was stored with these values."""
    try:
        values = _parse(payload)
        if values.get("verdict"):
            values["verdict"] = Verdict(**values["verdict"])
        body = KINDS[kind](**values)
        if not is_well_typed(body):
            raise ValueError
        return Event(seq, at, body, hash)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise StorageDamaged(
            f"event {seq} of kind {kind!r} cannot be read; use the osrl that wrote it, or restore a backup"
        ) from None


_DECODER = json.JSONDecoder()


def _parse(payload: str) -> Any:
    """Parse a JSON text: without spaces around it, as ours are, in half the time that `json.loads` takes."""
    try:
        value, end = _DECODER.raw_decode(payload)
    except ValueError:
        end = -1
    return value if end == len(payload) else json.loads(payload)

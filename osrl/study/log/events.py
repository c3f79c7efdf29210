"""The events of a study: what happened, in order. Everything else follows from them.

An event is stored as its kind and a JSON object with the fields of one of the classes below. Names,
not indices, so that a log can be read without the program; numbers keep all their digits.

**The chain.** Each event has a hash of its own content and of the hash before it, so the last one, the
*head*, stands for the whole log: who has noted a head can tell whether a log still contains it. An event
that was changed, left out or put in between breaks the chain where it is read. Somebody who may write to the
database can compute the whole chain anew; only a head that is kept elsewhere shows that.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.errors import StorageDamaged
from osrl.study.log.bodies import REVISION as REVISION
from osrl.study.log.bodies import SAMPLING as SAMPLING
from osrl.study.log.bodies import SECRET_BITS as SECRET_BITS
from osrl.study.log.bodies import Abandoned as Abandoned
from osrl.study.log.bodies import Amended as Amended
from osrl.study.log.bodies import ArmsChanged as ArmsChanged
from osrl.study.log.bodies import Asked as Asked
from osrl.study.log.bodies import Budgeted as Budgeted
from osrl.study.log.bodies import Closed as Closed
from osrl.study.log.bodies import Continued as Continued
from osrl.study.log.bodies import Corrected as Corrected
from osrl.study.log.bodies import Created as Created
from osrl.study.log.bodies import Designed as Designed
from osrl.study.log.bodies import Overruled as Overruled
from osrl.study.log.bodies import Paused as Paused
from osrl.study.log.bodies import Recovered as Recovered
from osrl.study.log.bodies import Resumed as Resumed
from osrl.study.log.bodies import SnapshotTaken as SnapshotTaken
from osrl.study.log.bodies import Told as Told
from osrl.study.log.bodies import Verdict as Verdict
from osrl.study.log.bodies import sound
from osrl.study.log.identity import caller

Life = Paused | Continued | Budgeted | ArmsChanged | Closed
Body = (
    Created
    | Resumed
    | SnapshotTaken
    | Recovered
    | Designed
    | Asked
    | Told
    | Abandoned
    | Corrected
    | Amended
    | Overruled
    | Life
)

KINDS: dict[str, type[Body]] = {
    "create": Created,
    "resume": Resumed,
    "snapshot": SnapshotTaken,
    "recover": Recovered,
    "design": Designed,
    "ask": Asked,
    "tell": Told,
    "abandon": Abandoned,
    "correct": Corrected,
    "amend": Amended,
    "pause": Paused,
    "continue": Continued,
    "budget": Budgeted,
    "stage": ArmsChanged,
    "close": Closed,
}
_KIND = {body: kind for kind, body in KINDS.items()}
_FIELDS = {body: tuple(field.name for field in fields(body)) for body in (*KINDS.values(), Verdict)}
_OPTIONAL = (
    "id",
    "by",
    "reason",
    "until",
    "key",
    "note",
    "after",
    "epsilon_g",
    "epsilon_h",
    "low",
    "harm_limit",
    "revision",
    "tasks",
    "via",
)  # left out where they are empty, as in logs that do not know them


class Row(NamedTuple):
    """An event as it is stored."""

    seq: int
    at: int
    kind: str
    trial: int | None
    payload: str
    hash: str


Stored = tuple[int, int, str, int | None, str, str]  # a `Row` as databases give it, without its names


class Event(NamedTuple):
    """What happened, as number ``seq`` of its study, ``at`` microseconds since 1970 (UTC).

    ``hash`` is that of this event and of all before it, see `link`.
    """

    seq: int
    at: int
    body: Body
    hash: str = ""

    @property
    def kind(self) -> str:
        """The kind of event, as it is stored."""
        return _KIND[type(self.body)]

    @property
    def trial(self) -> int | None:
        """The trial it is about, if any."""
        return getattr(self.body, "trial", None)

    @property
    def payload(self) -> str:
        """The fields of the event as a JSON object."""
        return _ENCODER.encode(_plain(self.body))

    @property
    def row(self) -> Row:
        """The event as it is stored."""
        return Row(self.seq, self.at, self.kind, self.trial, self.payload, self.hash)


def link(before: str, seq: int, at: int, kind: str, payload: str) -> str:
    """The hash of an event: of its content, and of the hash of the event before (empty for the first)."""
    return hashlib.sha256(f"{before}\n{seq}\n{at}\n{kind}\n{payload}".encode()).hexdigest()


def next_event(before: Event | None, body: Body) -> Event:
    """The event that happens now, after ``before``; the first one of a study where that is None."""
    return next_stored(before, body)[0]


def next_stored(before: Event | None, body: Body) -> tuple[Event, Row]:
    """The same, and how it is stored: its fields are put into words once."""
    seq, head = (0, "") if before is None else (before.seq + 1, before.hash)
    event = Event(seq, now(), body := _signed(body))
    kind, payload = event.kind, event.payload
    hash = link(head, seq, event.at, kind, payload)
    return Event(seq, event.at, body, hash), Row(seq, event.at, kind, event.trial, payload, hash)


def _signed(body: Body) -> Body:
    """Return an event with the identity of the caller, where it is known."""
    who = caller()
    if who is None or "via" not in _FIELDS[type(body)]:
        return body
    return replace(body, via=who.token)  # type: ignore[arg-type]


def key_of(row: Stored) -> str | None:
    """The key of the trial that an event hands out, if it does, and it has one."""
    seq, at, kind, _, payload, _ = row
    if kind != "ask" or '"key":' not in payload:
        return None
    body = read_event(seq, at, kind, payload).body
    return body.key if isinstance(body, Asked) else None


def check_rows(rows: Iterable[Row | Sequence[Any]], before: str | None) -> str | None:
    """Refuse rows whose chain is broken; the hash of the last one.

    ``before`` is the hash of the event before the first one, or None where it is not known here.
    """
    sha256 = hashlib.sha256
    for seq, at, kind, _, payload, given in rows:
        sound = type(seq) is int and type(at) is int and type(payload) is str and type(given) is str
        if sound and before is not None:  # `link`, written out: every event of every log comes through here
            sound = sha256(f"{before}\n{seq}\n{at}\n{kind}\n{payload}".encode()).hexdigest() == given
        if not sound:
            raise StorageDamaged(
                f"event {seq} is not the one that was written after the one before: its content, its number "
                "or its hash was changed; events before it can still be read, restore a backup"
            )
        before = given
    return before


def read_events(rows: Iterable[Row | Sequence[Any]], before: str | None) -> Iterator[Event]:
    """The events that are stored in these rows, one after the other; refused where the chain is broken."""
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
    """The event that was stored with these values."""
    try:
        values = _parse(payload)
        if values.get("verdict"):
            values["verdict"] = Verdict(**values["verdict"])
        body = KINDS[kind](**values)
        if not sound(body):
            raise ValueError
        return Event(seq, at, body, hash)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise StorageDamaged(
            f"event {seq} of kind {kind!r} cannot be read; use the osrl that wrote it, or restore a backup"
        ) from None


_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _parse(payload: str) -> Any:
    """A JSON text; one without spaces around it, as ours are, in half the time that `json.loads` takes."""
    try:
        value, end = _DECODER.raw_decode(payload)
    except ValueError:
        end = -1
    return value if end == len(payload) else json.loads(payload)


def now() -> int:
    """The time of an event: microseconds since 1970 (UTC)."""
    return time.time_ns() // 1000


_EARLIEST, _LATEST = -62_135_596_800 * 10**6, 253_402_300_799 * 10**6  # of the years 1 to 9999


def moment(at: int) -> datetime:
    """Return the time of an event; the nearest one that a calendar has, where a clock was far off."""
    return datetime.fromtimestamp(min(max(at, _EARLIEST), _LATEST) / 1e6, UTC)


def to_lists(array: NDArray[Any]) -> Any:
    """An array as nested lists; JSON has no infinity, so such numbers become words."""
    finite = array.dtype.kind != "f" or math.isfinite(np.vdot(array, array))  # then all of them are
    return array.tolist() if finite else _words(array.tolist())


def _words(value: Any) -> Any:
    if isinstance(value, list):
        return [_words(item) for item in value]
    return value if np.isfinite(value) else str(value)


def _plain(body: Any) -> dict[str, Any]:
    """The fields of an event as JSON knows them."""
    values = {}
    for name in _FIELDS[type(body)]:
        value = getattr(body, name)
        if value or name not in _OPTIONAL:
            values[name] = value
    for name in ("harm", "bits"):
        if values.get(name, 0) is None:
            del values[name]
    if values.get("high") == 1.0 and "low" not in values:
        del values["high"]
    if values.get("verdict") is not None:
        values["verdict"] = _plain(values["verdict"])
    return values

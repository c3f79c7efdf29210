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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.errors import StorageDamaged
from osrl.instance import MOST_LETTERS
from osrl.study.life_events import Budgeted as Budgeted
from osrl.study.life_events import Closed as Closed
from osrl.study.life_events import Continued as Continued
from osrl.study.life_events import Paused as Paused
from osrl.study.life_events import Staged as Staged
from osrl.study.life_events import Verdict as Verdict


@dataclass(frozen=True)
class Created:
    """The study begins: names, family, risks, and all that its course depends on besides the rewards.

    ``options`` are the parameters of the policy, defaults written out; ``evidence`` has every constant of
    its evidence, see `osrl.study.constants`. ``versions`` are those of the program that wrote the event,
    see `osrl.study.versions`. ``id`` is drawn at random and is that of this study alone; early logs
    have none. The tolerances are left out where they are 0.
    """

    tasks: Sequence[str]
    representations: Sequence[str]
    predictors: Sequence[str]
    family: str
    noise_sd: float | None
    delta_g: float
    delta_h: float
    seed: int
    budget: int | None
    policy: str
    threshold: str
    options: Mapping[str, Any]
    evidence: Mapping[str, Any]
    versions: Mapping[str, str]
    id: str = ""
    epsilon_g: float = 0.0
    epsilon_h: float = 0.0
    low: float = field(default=0.0, repr=False)  # of bounded rewards; early logs know neither,
    high: float = field(default=1.0, repr=False)  # nor do their digests

    @property
    def scale(self) -> float:
        """The length of the range of rewards: 1 but for bounded ones with other limits."""
        return self.high - self.low

    @property
    def tolerances(self) -> tuple[float, float]:
        """The tolerances in the scale of the evidence."""
        return self.epsilon_g / self.scale, self.epsilon_h / self.scale


@dataclass(frozen=True)
class Resumed:
    """A program of versions that the study has not seen before takes part from here on."""

    versions: Mapping[str, str]


@dataclass(frozen=True)
class Kept:
    """A snapshot of all events before this one was kept; ``digest`` is that of its content (SHA-256)."""

    digest: str


@dataclass(frozen=True)
class Recovered:
    """A person has confirmed that this log is the study from here on, though others may know a longer one.

    A new branch begins: trials that were handed out after this point of the log and are not in it are lost.
    """

    reason: str
    by: str | None = None


@dataclass(frozen=True)
class Designed:
    """The policy has solved for new weights: every array of its state that changed, by name.

    ``before`` is the digest of the state that was solved for, by which a replay can be checked. Where others
    have written meanwhile, that was the state ``after`` an earlier event, and only arrays of the sampling
    rule are changed.
    """

    arrays: Mapping[str, Any]  # nested lists
    before: str
    after: int | None = None


SAMPLING = "sampling."  # with which the names of those arrays begin


@dataclass(frozen=True)
class Asked:
    """A trial is handed out.

    ``propensities`` of the task's arms, representation by representation; null where nothing was left
    to chance. ``given``: the task had arrived from outside. ``design``: the last event of that kind.
    ``until``: when its report is due (microseconds since 1970), if it was handed out with a lease.
    ``key`` and ``note`` are what the experimenter knows it by, and about it.
    """

    trial: int
    task: str
    representation: str
    predictor: str
    propensities: Sequence[float] | None
    given: bool
    design: int | None
    until: int | None = None
    key: str | None = None
    note: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Told:
    """The reward of a trial; ``verdict`` where it ended the study; ``by``: who says so."""

    trial: int
    reward: float
    verdict: Verdict | None = None
    by: str | None = None


@dataclass(frozen=True)
class Abandoned:
    """A trial will never report; ``ignorable``: that it does not, tells nothing about its reward."""

    trial: int
    ignorable: bool
    verdict: Verdict | None = None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Corrected:
    """The reward of a trial was told wrong (``old``), and is this one; see `osrl.study.corrections`."""

    trial: int
    old: float
    reward: float
    reason: str
    verdict: Verdict | None = None
    by: str | None = None


@dataclass(frozen=True)
class Overruled:
    """A tell that a later correction overrules. It is stored as a tell; so it is read."""

    trial: int
    told: Told


Life = Paused | Continued | Budgeted | Staged | Closed
Body = (
    Created | Resumed | Kept | Recovered | Designed | Asked | Told | Abandoned | Corrected | Overruled | Life
)

KINDS: dict[str, type[Body]] = {
    "create": Created,
    "resume": Resumed,
    "snapshot": Kept,
    "recover": Recovered,
    "design": Designed,
    "ask": Asked,
    "tell": Told,
    "abandon": Abandoned,
    "correct": Corrected,
    "pause": Paused,
    "continue": Continued,
    "budget": Budgeted,
    "stage": Staged,
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
        return json.dumps(_plain(self.body), allow_nan=False, ensure_ascii=False, separators=(",", ":"))

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
    event = Event(seq, now(), body)
    kind, payload = event.kind, event.payload
    hash = link(head, seq, event.at, kind, payload)
    return Event(seq, event.at, body, hash), Row(seq, event.at, kind, event.trial, payload, hash)


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
        if not _sound(body):
            raise ValueError
        return Event(seq, at, body, hash)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise StorageDamaged(
            f"event {seq} of kind {kind!r} cannot be read; use the osrl that wrote it, or restore a backup"
        ) from None


_DECODER = json.JSONDecoder()


def _parse(payload: str) -> Any:
    """A JSON text; one without spaces around it, as ours are, in half the time that `json.loads` takes."""
    try:
        value, end = _DECODER.raw_decode(payload)
    except ValueError:
        end = -1
    return value if end == len(payload) else json.loads(payload)


def _sound(body: Body) -> bool:
    """Whether the fields that kernels and tables take as they are have the right types."""
    match body:
        case Asked():
            names = type(body.task) is type(body.representation) is type(body.predictor) is str
            return (
                type(body.trial) is int
                and names
                and (body.until is None or type(body.until) is int)
                and (body.key is None or type(body.key) is str)
                and (body.note is None or type(body.note) is dict)
            )
        case Told():
            whole = type(body.reward) is int and abs(body.reward) < 2**63
            return type(body.trial) is int and (whole or type(body.reward) is float)
        case Created():
            texts = (body.family, body.policy, body.threshold, body.id)
            tables = (body.options, body.evidence, body.versions)
            return (
                all(map(_are_names, (body.tasks, body.representations, body.predictors)))
                and all(type(text) is str for text in texts)
                and all(type(table) is dict for table in tables)
                and type(body.seed) is int
                and 0 <= body.seed < 2**63
                and all(type(risk) in (float, int) and 0 < risk < 1 for risk in (body.delta_g, body.delta_h))
                and all(
                    type(each) in (float, int) and 0 <= each < math.inf
                    for each in (body.epsilon_g, body.epsilon_h)
                )
                and (body.budget is None or type(body.budget) is int)
                and all(type(each) in (float, int) and abs(each) < 1e100 for each in (body.low, body.high))
                and body.low < body.high
            )
        case Paused() | Closed():
            return type(body.reason) is str
        case Budgeted():
            return type(body.budget) is int and 0 < body.budget < 2**63
        case Staged():
            return _are_names(body.representations) and _are_names(body.predictors)
        case Resumed():
            return type(body.versions) is dict
        case Designed():
            return type(body.arrays) is dict and (body.after is None or type(body.after) is int)
        case Abandoned():
            return type(body.trial) is int and type(body.ignorable) is bool
        case Corrected():
            rewards = (body.old, body.reward)
            numbers = all(type(each) in (float, int) and abs(each) < 2**63 for each in rewards)
            return type(body.trial) is int and numbers and type(body.reason) is str
    return True


def _are_names(names: object) -> bool:
    """Whether these can be the names of tasks, representations or predictors."""
    if not isinstance(names, list) or not all(type(name) is str for name in names):
        return False
    return 0 < len(names) == len(set(names)) and max(map(len, names)) <= MOST_LETTERS


def now() -> int:
    """The time of an event: microseconds since 1970 (UTC)."""
    return time.time_ns() // 1000


def to_lists(array: NDArray[Any]) -> Any:
    """An array as nested lists; JSON has no infinity, so such numbers become words."""
    finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
    return array.tolist() if finite else _words(array.tolist())


def _words(value: Any) -> Any:
    if isinstance(value, list):
        return [_words(item) for item in value]
    return value if np.isfinite(value) else str(value)


def _plain(body: Any) -> dict[str, Any]:
    """The fields of an event as JSON knows them."""
    values = {name: getattr(body, name) for name in _FIELDS[type(body)]}
    for name in _OPTIONAL:
        if not values.get(name, True):
            del values[name]
    if values.get("high") == 1.0 and "low" not in values:
        del values["high"]
    if values.get("verdict") is not None:
        values["verdict"] = _plain(values["verdict"])
    return values

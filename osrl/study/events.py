"""The events of a study: what happened, in order. Everything else follows from them.

An event is stored as its kind and a JSON object with the fields of one of the classes below. Names,
not indices, so that a log can be read without the program; numbers keep all their digits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.errors import OsrlError


@dataclass(frozen=True)
class Created:
    """The study begins: names, family, risks, and all that its course depends on besides the rewards.

    ``options`` are the parameters of the policy, defaults written out; ``evidence`` has every constant of
    its evidence, see `osrl.study.constants`. ``versions`` are those of the program that wrote the event,
    see `osrl.study.versions`. ``id`` is drawn at random and is that of this study alone; early logs
    have none.
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


@dataclass(frozen=True)
class Resumed:
    """A program of versions that the study has not seen before takes part from here on."""

    versions: Mapping[str, str]


@dataclass(frozen=True)
class Designed:
    """The policy has solved for new weights: every array of its state that changed, by name.

    ``before`` is the digest of the state that was solved for, by which a replay can be checked.
    """

    arrays: Mapping[str, Any]  # nested lists
    before: str


@dataclass(frozen=True)
class Asked:
    """A trial is handed out.

    ``propensities`` of the task's arms, representation by representation; null where nothing was left
    to chance. ``given``: the task had arrived from outside. ``design``: the last event of that kind.
    """

    trial: int
    task: str
    representation: str
    predictor: str
    propensities: Sequence[float] | None
    given: bool
    design: int | None


@dataclass(frozen=True)
class Verdict:
    """How a study ended, with an answer for each task; a best guess when the budget was exhausted."""

    status: str
    representations: Sequence[str | None]
    predictors: Sequence[str | None]


@dataclass(frozen=True)
class Told:
    """The reward of a trial; ``verdict`` where it ended the study."""

    trial: int
    reward: float
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Abandoned:
    """A trial will never report; ``ignorable``: that it does not, tells nothing about its reward."""

    trial: int
    ignorable: bool
    verdict: Verdict | None = None


Body = Created | Resumed | Designed | Asked | Told | Abandoned

KINDS: dict[str, type[Body]] = {
    "create": Created,
    "resume": Resumed,
    "design": Designed,
    "ask": Asked,
    "tell": Told,
    "abandon": Abandoned,
}
_KIND = {body: kind for kind, body in KINDS.items()}
_FIELDS = {body: tuple(field.name for field in fields(body)) for body in (*KINDS.values(), Verdict)}


class Event(NamedTuple):
    """What happened, as number ``seq`` of its study, ``at`` microseconds since 1970 (UTC)."""

    seq: int
    at: int
    body: Body

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


def read_event(seq: int, at: int, kind: str, payload: str) -> Event:
    """The event that was stored with these values."""
    try:
        values = json.loads(payload)
        if values.get("verdict"):
            values["verdict"] = Verdict(**values["verdict"])
        return Event(seq, at, KINDS[kind](**values))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise OsrlError(
            f"event {seq} of kind {kind!r} cannot be read; use the osrl that wrote it, or restore a backup"
        ) from None


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
    if values.get("verdict") is not None:
        values["verdict"] = _plain(values["verdict"])
    return values

"""The events of a study: what happened, in order. Everything else follows from them.

One class for each kind of event, with the fields that are stored. An event is stored as its kind and a JSON object
with these fields: names, not indices, so that a log can be read without the program; numbers keep all their digits.
`osrl.study.log.chain` stores events and chains them by hashes.

``by`` is who did it, as the caller says; ``via`` the id of the token with which the call came over HTTP.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.model.instance import MAX_NAME_LETTERS

# How stages and alarms are handled, by the ``revision`` of a study. 0: the harm limit, the missingness test and the
# best guess begin again with each stage; at an alarm of the missingness test, the loss that raised it is taken back
# only in part. 1: they are carried over stages, and that loss is taken back altogether.
REVISION = 1
SAMPLING = "sampling."  # prefix of the names of arrays that belong to the sampling rule
SECRET_BITS = 53  # random bits that draw an arm
# Statuses of verdicts: of those with an answer, which rule out every other arm, and of all that end a study.
WITHIN = "decided within the tolerance"
ANSWERED = ("decided", WITHIN)
OVER = (*ANSWERED, "no shared representation", "budget exhausted", "closed")


@dataclass(frozen=True)
class Verdict:
    """How a study ended, with an answer for each task; a best guess when it did not end by its evidence."""

    status: str
    representations: Sequence[str | None]
    predictors: Sequence[str | None]


@dataclass(frozen=True)
class Created:
    """The settings of a new study: names, family, risks, and all else that its course depends on but rewards.

    ``options`` are the parameters of the policy, with defaults written out; ``evidence`` has every constant of
    its evidence, see `osrl.study.state.constants`. ``versions`` are those of the program that wrote the event,
    see `osrl.study.log.versions`. ``id`` is random and unique to this study; early logs have none. The
    tolerances are left out where they are 0. Without a ``seed`` (None) each arm is drawn by secret bits of its
    own, see `Asked`.
    """

    tasks: Sequence[str]
    representations: Sequence[str]
    predictors: Sequence[str]
    family: str
    noise_sd: float | None
    delta_g: float
    delta_h: float
    seed: int | None
    budget: int | None
    policy: str
    threshold: str
    options: Mapping[str, Any]
    evidence: Mapping[str, Any]
    versions: Mapping[str, str]
    id: str = ""
    epsilon_g: float = 0.0
    epsilon_h: float = 0.0
    # Not in the repr, and so not in the digests of early logs, which do not have these fields.
    low: float = field(default=0.0, repr=False)
    high: float = field(default=1.0, repr=False)
    harm_limit: float | None = field(default=None, repr=False)  # see `osrl.study.state.harm`
    revision: int = field(default=0, repr=False)  # see `REVISION`
    via: str | None = field(default=None, repr=False)

    @property
    def scale(self) -> float:
        """Return the length of the range of rewards: 1 but for bounded ones with other limits."""
        return self.high - self.low

    @property
    def tolerances(self) -> tuple[float, float]:
        """Return the tolerances in the scale of the evidence."""
        return self.epsilon_g / self.scale, self.epsilon_h / self.scale

    @property
    def margin(self) -> float:
        """Return the margin of the model check in the scale of the evidence; 0 where there is no check."""
        return float(self.options.get("model_check", 0.0))

    @property
    def model_check(self) -> float | None:
        """Return the margin of the model check in the scale of the rewards; None where there is no check."""
        return float(f"{self.margin * self.scale:.12g}") or None


@dataclass(frozen=True)
class VersionsChanged:
    """A program with versions that have not written to this study before takes part from here on."""

    versions: Mapping[str, str]


@dataclass(frozen=True)
class SnapshotTaken:
    """A snapshot of all events before this one was stored; ``digest`` is that of its content (SHA-256)."""

    digest: str


@dataclass(frozen=True)
class Recovered:
    """A person has confirmed that this log is the study from here on, though others may have a longer one.

    A new branch begins: trials that were handed out after this point of the log and are not in it are lost.
    """

    reason: str
    by: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class Designed:
    """The policy has solved for new weights: every array of its state that changed, by name, as nested lists.

    ``before`` is the digest of the state that was solved for, by which a replay can be checked. Where others
    have written meanwhile, that was the state ``after`` an earlier event, and only arrays of the sampling
    rule are changed.
    """

    arrays: Mapping[str, Any]
    before: str
    after: int | None = None


@dataclass(frozen=True)
class Asked:
    """A trial is handed out.

    ``propensities`` are those of the task's arms, representation by representation; null where the choice was
    not random. ``given``: the task had arrived from outside. ``design``: the last event of that kind.
    ``until``: when its report is due (microseconds since 1970), if it was handed out with a lease.
    ``key`` and ``note`` are the experimenter's name for it and remarks about it. ``bits``: the 53 secret random
    bits that drew the arm, unknown to everybody before; None where nothing was drawn, or a seed draws.
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
    bits: int | None = None
    via: str | None = None


@dataclass(frozen=True)
class Told:
    """The reward of a trial, and its ``harm``; ``verdict`` where it ended the study."""

    trial: int
    reward: float
    verdict: Verdict | None = None
    by: str | None = None
    harm: float | None = None
    via: str | None = None


@dataclass(frozen=True)
class Abandoned:
    """A trial will never report; ``ignorable``: that it does not report carries no information on its reward."""

    trial: int
    ignorable: bool
    verdict: Verdict | None = None
    by: str | None = None
    reason: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class Corrected:
    """The reward of a trial was told wrong (``old``), and is this one; see `osrl.study.log.corrections`."""

    trial: int
    old: float
    reward: float
    reason: str
    verdict: Verdict | None = None
    by: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class Amended:
    """The right reward of a trial that was told wrong, noted after the wrong one (``used``) was used.

    Nothing else changes: evidence, means and verdict go on with the one that was used.
    """

    trial: int
    used: float
    reward: float
    reason: str
    by: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class Superseded:
    """A tell that a later correction replaces. It is stored as a tell, and read as this."""

    trial: int
    told: Told


@dataclass(frozen=True)
class Paused:
    """No more trials are handed out until the study is resumed."""

    reason: str
    by: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class Unpaused:
    """A study that was paused hands out trials again."""

    reason: str | None = None
    by: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class BudgetRaised:
    """The budget is ``budget`` from here on."""

    budget: int
    reason: str | None = None
    by: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class ArmsChanged:
    """A task, a representation or a predictor is withdrawn or added: evidence counts from here on.

    ``representations`` and ``predictors`` are all that remain or are new; ``tasks`` too, where they changed.
    """

    representations: Sequence[str]
    predictors: Sequence[str]
    reason: str
    by: str | None = None
    tasks: Sequence[str] | None = None
    via: str | None = None


@dataclass(frozen=True)
class Closed:
    """A person has ended the study; the verdict has its best guess."""

    reason: str
    verdict: Verdict | None = None
    by: str | None = None
    via: str | None = None


Body = (
    Created
    | VersionsChanged
    | SnapshotTaken
    | Recovered
    | Designed
    | Asked
    | Told
    | Abandoned
    | Corrected
    | Amended
    | Superseded
    | Paused
    | Unpaused
    | BudgetRaised
    | ArmsChanged
    | Closed
)

KINDS: dict[str, type[Body]] = {
    "create": Created,
    "resume": VersionsChanged,
    "snapshot": SnapshotTaken,
    "recover": Recovered,
    "design": Designed,
    "ask": Asked,
    "tell": Told,
    "abandon": Abandoned,
    "correct": Corrected,
    "amend": Amended,
    "pause": Paused,
    "continue": Unpaused,
    "budget": BudgetRaised,
    "stage": ArmsChanged,
    "close": Closed,
}
_KIND = {body: kind for kind, body in KINDS.items()}
_FIELDS = {body: tuple(field.name for field in fields(body)) for body in (*KINDS.values(), Verdict)}
# Left out where they are empty, as in logs from before they existed: hashes depend on it.
_OPTIONAL = frozenset("id by reason until key note after epsilon_g epsilon_h low harm_limit revision tasks via".split())
_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))


class Event(NamedTuple):
    """An event with its number ``seq`` in the study and its time ``at`` (microseconds since 1970, UTC).

    ``hash`` is that of this event and of all before it, see `osrl.study.log.chain.link`.
    """

    seq: int
    at: int
    body: Body
    hash: str = ""

    @property
    def kind(self) -> str:
        """Return the kind of event, as it is stored."""
        return _KIND[type(self.body)]

    @property
    def trial(self) -> int | None:
        """Return the number of the trial it is about, if any."""
        return getattr(self.body, "trial", None)

    @property
    def payload(self) -> str:
        """Return the fields of the event as a JSON object."""
        return _ENCODER.encode(_stored_fields(self.body))


def _stored_fields(body: Any) -> dict[str, Any]:
    """Return the fields of an event that are stored, as JSON has them."""
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
        values["verdict"] = _stored_fields(values["verdict"])
    return values


def is_well_typed(body: Body) -> bool:
    """Tell whether the fields that kernels and tables use unchecked have the right types."""
    if type(getattr(body, "via", None)) not in (str, type(None)) or type(getattr(body, "trial", 0)) is not int:
        return False
    match body:
        case Asked():
            return (
                type(body.task) is type(body.representation) is type(body.predictor) is str
                and type(body.until) in (int, type(None))
                and type(body.key) in (str, type(None))
                and type(body.note) in (dict, type(None))
                and (body.bits is None or (type(body.bits) is int and 0 <= body.bits < 2**SECRET_BITS))
            )
        case Told():
            whole = type(body.reward) is int and abs(body.reward) < 2**63
            harmless = body.harm is None or (_is_number(body.harm) and 0 <= body.harm <= 1)
            return (whole or type(body.reward) is float) and harmless
        case Created():
            texts = (body.family, body.policy, body.threshold, body.id)
            tables = (body.options, body.evidence, body.versions)
            return (
                all(map(_are_names, (body.tasks, body.representations, body.predictors)))
                and all(type(text) is str for text in texts)
                and all(type(table) is dict for table in tables)
                and (body.seed is None or (type(body.seed) is int and 0 <= body.seed < 2**63))
                and (body.seed is not None or body.id != "")
                and all(_is_number(risk) and 0 < risk < 1 for risk in (body.delta_g, body.delta_h))
                and all(_is_number(each) and 0 <= each < math.inf for each in (body.epsilon_g, body.epsilon_h))
                and type(body.budget) in (int, type(None))
                and all(_is_number(each) and abs(each) < 1e100 for each in (body.low, body.high))
                and body.low < body.high
                and (body.harm_limit is None or (type(body.harm_limit) is float and 0 < body.harm_limit < 1))
                and type(body.revision) is int
                and 0 <= body.revision <= REVISION
            )
        case Paused() | Closed():
            return type(body.reason) is str
        case BudgetRaised():
            return type(body.budget) is int and 0 < body.budget < 2**63
        case ArmsChanged():
            tasks = body.tasks is None or _are_names(body.tasks)
            return tasks and _are_names(body.representations) and _are_names(body.predictors)
        case VersionsChanged():
            return type(body.versions) is dict
        case Designed():
            return type(body.arrays) is dict and type(body.after) in (int, type(None))
        case Abandoned():
            return type(body.ignorable) is bool
        case Corrected():
            return _is_reward(body.old) and _is_reward(body.reward) and type(body.reason) is str
        case Amended():
            return _is_reward(body.used) and _is_reward(body.reward) and type(body.reason) is str
    return True


def _is_number(value: object) -> bool:
    return type(value) in (float, int)


def _is_reward(value: object) -> bool:
    return isinstance(value, float | int) and type(value) is not bool and abs(value) < 2**63


def _are_names(names: object) -> bool:
    """Tell whether these can be the names of tasks, representations or predictors."""
    if not isinstance(names, list) or not all(type(name) is str for name in names):
        return False
    return 0 < len(names) == len(set(names)) and max(map(len, names)) <= MAX_NAME_LETTERS


def to_lists(array: NDArray[Any]) -> Any:
    """Return an array as nested lists; JSON has no infinity, so such numbers become text."""
    finite = array.dtype.kind != "f" or math.isfinite(np.vdot(array, array))  # then all of them are
    return array.tolist() if finite else _infinity_as_text(array.tolist())


def _infinity_as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [_infinity_as_text(item) for item in value]
    return value if np.isfinite(value) else str(value)


# Times are whole microseconds since 1970 (UTC) everywhere, durations are microseconds, until they are printed.
_EARLIEST, _LATEST = -62_135_596_800 * 10**6, 253_402_300_799 * 10**6  # of the years 1 to 9999


def now() -> int:
    """Return the current time in microseconds since 1970 (UTC)."""
    return time.time_ns() // 1000


def as_datetime(at: int) -> datetime:
    """Return a time as a date; the nearest one that a calendar has, where a clock was far off."""
    return datetime.fromtimestamp(min(max(at, _EARLIEST), _LATEST) / 1e6, UTC)

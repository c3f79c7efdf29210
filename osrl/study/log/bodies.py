"""What an event of a study says: one class for each kind, with the fields that are stored.

``by`` is who did it, as the caller says; ``via`` the id of the token with which the call came over HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from osrl.model.instance import MOST_LETTERS


@dataclass(frozen=True)
class Verdict:
    """How a study ended, with an answer for each task; a best guess when it did not end by its evidence."""

    status: str
    representations: Sequence[str | None]
    predictors: Sequence[str | None]


# How stages and alarms are handled, by the ``revision`` of a study. 0: the guardrail, the watch on losses and
# the best guess begin again with each stage; at the alarm of the watch, the loss that raised it is taken back
# only in part. 1: they are carried over stages, and the loss is taken back altogether.
REVISION = 1


@dataclass(frozen=True)
class Created:
    """The study begins: names, family, risks, and all that its course depends on besides the rewards.

    ``options`` are the parameters of the policy, defaults written out; ``evidence`` has every constant of
    its evidence, see `osrl.study.state.constants`. ``versions`` are those of the program that wrote the event,
    see `osrl.study.log.versions`. ``id`` is drawn at random and is that of this study alone; early logs
    have none. The tolerances are left out where they are 0. Without a ``seed`` (None) each arm is drawn by
    secret bits of its own, see `Asked`.
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
    low: float = field(default=0.0, repr=False)  # of bounded rewards; early logs know neither,
    high: float = field(default=1.0, repr=False)  # nor do their digests
    harm_limit: float | None = field(default=None, repr=False)  # see `osrl.study.state.harm`
    revision: int = field(default=0, repr=False)  # see `REVISION`
    via: str | None = field(default=None, repr=False)  # the id of the token by which it came over HTTP

    @property
    def scale(self) -> float:
        """The length of the range of rewards: 1 but for bounded ones with other limits."""
        return self.high - self.low

    @property
    def tolerances(self) -> tuple[float, float]:
        """The tolerances in the scale of the evidence."""
        return self.epsilon_g / self.scale, self.epsilon_h / self.scale

    @property
    def margin(self) -> float:
        """That of the model check in the scale of the evidence, 0 for none: an option of the policy."""
        return float(self.options.get("model_check", 0.0))

    @property
    def model_check(self) -> float | None:
        """The margin of the model check in the scale of the rewards; None where there is no check."""
        return float(f"{self.margin * self.scale:.12g}") or None


@dataclass(frozen=True)
class Resumed:
    """A program of versions that the study has not seen before takes part from here on."""

    versions: Mapping[str, str]


@dataclass(frozen=True)
class SnapshotTaken:
    """A snapshot of all events before this one was kept; ``digest`` is that of its content (SHA-256)."""

    digest: str


@dataclass(frozen=True)
class Recovered:
    """A person has confirmed that this log is the study from here on, though others may know a longer one.

    A new branch begins: trials that were handed out after this point of the log and are not in it are lost.
    """

    reason: str
    by: str | None = None
    via: str | None = None


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
SECRET_BITS = 53  # that draw an arm


@dataclass(frozen=True)
class Asked:
    """A trial is handed out.

    ``propensities`` of the task's arms, representation by representation; null where nothing was left
    to chance. ``given``: the task had arrived from outside. ``design``: the last event of that kind.
    ``until``: when its report is due (microseconds since 1970), if it was handed out with a lease.
    ``key`` and ``note`` are what the experimenter knows it by, and about it. ``bits``: the 53 secret random
    bits that drew the arm, which nobody knew before; None where nothing was drawn, or a seed draws.
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
    """The reward of a trial, and its ``harm``; ``verdict`` where it ended the study; ``by``: who says so."""

    trial: int
    reward: float
    verdict: Verdict | None = None
    by: str | None = None
    harm: float | None = None
    via: str | None = None


@dataclass(frozen=True)
class Abandoned:
    """A trial will never report; ``ignorable``: that it does not, tells nothing about its reward."""

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
    """The reward of a trial was told wrong, and was used before that was known.

    The right one is noted. Nothing else changes: evidence, means and verdict go on with the one ``used``.
    """

    trial: int
    used: float
    reward: float
    reason: str
    by: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class Overruled:
    """A tell that a later correction overrules. It is stored as a tell; so it is read."""

    trial: int
    told: Told


# The life of a study: it rests, goes on, gets more budget, loses or gains arms, or is closed.


@dataclass(frozen=True)
class Paused:
    """No more trials are handed out, until the study goes on."""

    reason: str
    by: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class Continued:
    """A study that was paused goes on."""

    reason: str | None = None
    by: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class Budgeted:
    """The budget is ``budget`` from here on."""

    budget: int
    reason: str | None = None
    by: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class ArmsChanged:
    """A task, a representation or a predictor is withdrawn or added: evidence counts from here on.

    ``representations`` and ``predictors`` are all that are left or there now; ``tasks`` too, where they are
    others than before.
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


def sound(body: object) -> bool:
    """Whether the fields that kernels and tables take as they are have the right types."""
    if type(getattr(body, "via", None)) not in (str, type(None)):
        return False
    match body:
        case Asked():
            names = type(body.task) is type(body.representation) is type(body.predictor) is str
            return (
                type(body.trial) is int
                and names
                and (body.until is None or type(body.until) is int)
                and (body.key is None or type(body.key) is str)
                and (body.note is None or type(body.note) is dict)
                and (body.bits is None or (type(body.bits) is int and 0 <= body.bits < 2**SECRET_BITS))
            )
        case Told():
            whole = type(body.reward) is int and abs(body.reward) < 2**63
            harmless = body.harm is None or (type(body.harm) in (int, float) and 0 <= body.harm <= 1)
            return type(body.trial) is int and (whole or type(body.reward) is float) and harmless
        case Created():
            texts = (body.family, body.policy, body.threshold, body.id)
            tables = (body.options, body.evidence, body.versions)
            return (
                all(map(_are_names, (body.tasks, body.representations, body.predictors)))
                and all(type(text) is str for text in texts)
                and all(type(table) is dict for table in tables)
                and (body.seed is None or (type(body.seed) is int and 0 <= body.seed < 2**63))
                and (body.seed is not None or body.id != "")
                and all(type(risk) in (float, int) and 0 < risk < 1 for risk in (body.delta_g, body.delta_h))
                and all(
                    type(each) in (float, int) and 0 <= each < math.inf for each in (body.epsilon_g, body.epsilon_h)
                )
                and (body.budget is None or type(body.budget) is int)
                and all(type(each) in (float, int) and abs(each) < 1e100 for each in (body.low, body.high))
                and body.low < body.high
                and (body.harm_limit is None or (type(body.harm_limit) is float and 0 < body.harm_limit < 1))
                and type(body.revision) is int
                and 0 <= body.revision <= REVISION
            )
        case Paused() | Closed():
            return type(body.reason) is str
        case Budgeted():
            return type(body.budget) is int and 0 < body.budget < 2**63
        case ArmsChanged():
            tasks = body.tasks is None or _are_names(body.tasks)
            return tasks and _are_names(body.representations) and _are_names(body.predictors)
        case Resumed():
            return type(body.versions) is dict
        case Designed():
            return type(body.arrays) is dict and (body.after is None or type(body.after) is int)
        case Abandoned():
            return type(body.trial) is int and type(body.ignorable) is bool
        case Corrected():
            rewards = (body.old, body.reward)
            return type(body.trial) is int and all(map(_is_reward, rewards)) and type(body.reason) is str
        case Amended():
            rewards = (body.used, body.reward)
            return type(body.trial) is int and all(map(_is_reward, rewards)) and type(body.reason) is str
    return True


def _is_reward(value: object) -> bool:
    return isinstance(value, float | int) and type(value) is not bool and abs(value) < 2**63


def _are_names(names: object) -> bool:
    """Whether these can be the names of tasks, representations or predictors."""
    if not isinstance(names, list) or not all(type(name) is str for name in names):
        return False
    return 0 < len(names) == len(set(names)) and max(map(len, names)) <= MOST_LETTERS

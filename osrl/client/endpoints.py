"""What is sent for each call to a study, and how its answer is read. Nothing here knows a network."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from osrl.client.decode import read_record, read_trial
from osrl.errors import OsrlError, RewardRefused
from osrl.study.operations.ask import TrialRecord
from osrl.study.state.trial import Trial, read_token
from osrl.study.views.verify import Verification

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and what its answer means. ``again``: it may be sent again when its answer was lost."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: dict[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    again: bool = True


def nothing(document: Any) -> None:
    """What is read from an answer that says only that it is done."""


def document(found: Any) -> dict[str, Any]:
    """What is read from an answer that is wanted as it is."""
    assert isinstance(found, dict)
    return found


def studies() -> Call[list[dict[str, Any]]]:
    """The studies that the token may see."""
    return Call("GET", "/studies", lambda found: list(found["studies"]))


def create(settings: Mapping[str, Any]) -> Call[dict[str, Any]]:
    """A new study."""
    body = {key: value for key, value in settings.items() if value is not None}
    return Call("POST", "/studies", document, body, again=False)


class StudyCalls:
    """The calls to one study."""

    def __init__(self, name: str) -> None:
        self._path = f"/studies/{quote(name, safe='')}"

    def get(self, what: str, **parameters: Any) -> Call[dict[str, Any]]:
        """Something that is read."""
        given = {key: value for key, value in parameters.items() if value is not None}
        path = f"{self._path}/{what}" if what else self._path
        return Call("GET", path, document, parameters=given)

    def ask(
        self,
        task: str | None,
        n: int | None,
        key: str | None,
        note: Mapping[str, Any] | None,
        lease: str | timedelta | None,
    ) -> Call[tuple[Trial, ...]]:
        """The next trials. It has a key of its own, so that one whose answer is lost is not asked twice."""

        def read(found: Any) -> tuple[Trial, ...]:
            return tuple(map(read_trial, found["trials"] if n is not None else [found]))

        if isinstance(lease, timedelta):
            lease = f"{lease.total_seconds():f}s"
        given = {
            "task": task,
            "n": n,
            "key": key,
            "note": None if note is None else dict(note),
            "lease": lease,
        }
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return Call("POST", f"{self._path}/ask", read, _given(given), headers=headers)

    def tell(self, trial: Any, key: str | None, reward: Any, harm: Any, by: str | None) -> Call[dict[str, Any]]:
        """The reward of a trial."""
        given = {**_which(trial, key), "reward": _number("reward", reward), "by": by}
        if harm is not None:
            given["harm"] = _number("harm", harm)
        return self._post("tell", given)

    def tell_many(self, rewards: Iterable[Any], by: str | None) -> Call[dict[str, Any]]:
        """The rewards of many trials."""
        return self._post("tell-many", {"rewards": [_row(row) for row in rewards], "by": by})

    def abandon(self, trial: Any, key: str | None, **loss: Any) -> Call[dict[str, Any]]:
        """The loss of a trial."""
        return self._post("abandon", {**_which(trial, key), **loss})

    def abandon_many(self, trials: Iterable[Any], **loss: Any) -> Call[dict[str, Any]]:
        """The loss of many trials."""
        rows = [_lost(each) for each in trials]
        return self._post("abandon-many", {"trials": rows, **loss})

    def correct(self, trial: Any, reward: Any, reason: str, by: str | None) -> Call[dict[str, Any]]:
        """The right reward of a trial."""
        given = {**_which(trial, None), "reward": _number("reward", reward), "reason": reason, "by": by}
        return self._post("correct", given)

    def amend(self, trial: Any, reward: Any, reason: str, by: str | None) -> Call[dict[str, Any]]:
        """The right reward of a trial whose wrong one was used."""
        given = {**_which(trial, None), "reward": _number("reward", reward), "reason": reason, "by": by}
        return self._post("amend", given)

    def change(self, what: str, *, again: bool = True, **given: Any) -> Call[dict[str, Any]]:
        """Something that is done to the study."""
        return self._post(what, given, again)

    def delete(self, by: str | None, reason: str | None) -> Call[dict[str, Any]]:
        """Remove the study."""
        return Call("DELETE", self._path, document, parameters=_given({"by": by, "reason": reason}), again=False)

    def trial(self, which: Any) -> Call[TrialRecord]:
        """A trial with what became of it."""
        given: dict[str, Any] = {"key": which}
        if not isinstance(which, str) or _is_token(which):
            token = read_token(which)
            given = {"token": str(token)} if token.study else {"number": token.trial}
        return Call("GET", f"{self._path}/trial", read_record, parameters=given)

    def verify(self, head: str | None) -> Call[Verification]:
        """A replay of the log by the server."""

        def read(found: dict[str, Any]) -> Verification:
            lists = {key: tuple(found[key]) for key in ("problems", "notes")}
            return Verification(**{key: value for key, value in found.items() if key != "ok"} | lists)

        return Call("GET", f"{self._path}/verify", read, parameters=_given({"head": head}))

    def _post(self, what: str, given: dict[str, Any], again: bool = True) -> Call[dict[str, Any]]:
        return Call("POST", f"{self._path}/{what}", document, _given(given), again=again)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _which(trial: Any, key: str | None) -> dict[str, Any]:
    """Which trial is meant, as it is sent."""
    if trial is None:
        return {} if key is None else {"key": key}
    token = read_token(trial)
    return {"trial": str(token) if token.study else token.trial, **({} if key is None else {"key": key})}


def _row(row: Any) -> dict[str, Any]:
    """One of many rewards, as it is sent."""
    if isinstance(row, Mapping):
        rest = {key: value for key, value in row.items() if key not in ("trial", "key")}
        numbers = {key: _number(key, rest[key]) for key in ("reward", "harm") if rest.get(key) is not None}
        return {**rest, **_which(row.get("trial"), row.get("key")), **numbers}
    if isinstance(row, tuple | list) and len(row) == 2:
        return {**_which(row[0], None), "reward": _number("reward", row[1])}
    raise OsrlError(f"{row!r:.50} is no pair of a trial and its reward; give (trial, reward)")


def _lost(row: Any) -> dict[str, Any]:
    """Return one of many trials that are lost, as it is sent."""
    if not isinstance(row, Mapping):
        return _which(row, None)
    rest = {key: value for key, value in row.items() if key not in ("trial", "key")}
    return {**rest, **_which(row.get("trial"), row.get("key"))}


def _number(what: str, value: Any) -> bool | float:
    """A number as JSON knows it; the server says which ones the study can have."""
    if isinstance(value, bool):
        return value
    try:
        number = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise RewardRefused(f"the {what} is {value!r:.50}; give a number")
    return number


def _is_token(text: str) -> bool:
    try:
        read_token(text)
    except OsrlError:
        return False
    return True

"""The calls to a study on a server, without any network: which requests each sends, and what its answer means.

A call is a generator: it yields requests, is sent the content of each response, and returns its result. So
calls that take several requests are written once, and `osrl.client.transport` runs them, blocking or awaited.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeVar, Unpack, overload
from urllib.parse import quote

from osrl.client import decode
from osrl.client.files import read_events, read_history, suffix_without_dot, write_file, write_head
from osrl.errors import OsrlError, RewardRefused
from osrl.hypotheses.summary import Answer
from osrl.study.log.events import Created, Event
from osrl.study.log.export import write_frame
from osrl.study.settings import CreateOptions, Place
from osrl.study.state.trial import Trial, TrialRef, read_token
from osrl.study.views.history import arms_frame, evidence_frame
from osrl.study.views.trials import TrialRecord
from osrl.study.views.verify import Verification

if TYPE_CHECKING:
    import polars as pl

    from osrl.study.views.forecast import Forecast
    from osrl.study.views.status import PendingTrial, Status

MAX_PAGE_TRIALS = 1000  # trials in a page of the history

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """A request. ``repeatable``: a second arrival changes nothing, so it may be sent again if its answer is lost."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True


Exchange = Generator[Request, bytes, T]


def list_studies() -> Exchange[tuple[str, ...]]:
    """Return the names of the studies that the token may see."""
    document = json.loads((yield Request("GET", "/studies")))
    return tuple(each["study"] for each in document["studies"])


def create_study(name: str, **options: Unpack[CreateOptions]) -> Exchange[str]:
    """Create a study and return its name."""
    yield Request("POST", "/studies", _given({"name": name, **options}), repeatable=False)
    return name


def find_study(server: str, name: str | None) -> Exchange[str]:
    """Return the name of a study that is there; without one, the name of the only study."""
    if name is not None:
        yield from StudyEndpoints(name).summary()
        return name
    names = yield from list_studies()
    if len(names) != 1:
        what = "has no study; create one" if not names else "has several studies; name one of "
        raise OsrlError(f"{server} {what}{', '.join(map(repr, names))}")
    return names[0]


def delete_study(name: str, by: str | None, reason: str | None) -> Exchange[None]:
    """Remove a study and all its events, for good."""
    path = StudyEndpoints(name).path
    yield Request("DELETE", path, parameters=_given({"by": by, "reason": reason}), repeatable=False)


class StudyEndpoints:
    """The calls to one study. `osrl.study.study.Study` says in full what each of them does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = f"/studies/{quote(name, safe='')}"

    def _get(self, what: str, **parameters: Any) -> Exchange[dict[str, Any]]:
        document = json.loads((yield Request("GET", f"{self.path}{what}", parameters=_given(parameters))))
        assert isinstance(document, dict)
        return document

    def _post(
        self, what: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None, repeatable: bool = True
    ) -> Exchange[dict[str, Any]]:
        request = Request("POST", f"{self.path}/{what}", _given(body), headers=headers or {}, repeatable=repeatable)
        document = json.loads((yield request))
        assert isinstance(document, dict)
        return document

    def _download(self, what: str, format: str = "jsonl") -> Exchange[bytes]:
        return (yield Request("GET", f"{self.path}/{what}", parameters={"format": format}))

    # State

    def summary(self) -> Exchange[dict[str, Any]]:
        """Return what is known without any computation, at one moment."""
        return decode.read_summary((yield from self._get("")))

    def id(self) -> Exchange[str]:
        """Return the beginning of the id of this study, which no other one has."""
        return str((yield from self.summary())["id"])

    def head(self) -> Exchange[str]:
        """Return the hash of the last event, which stands for the whole log."""
        return str((yield from self.summary())["head"])

    def settings(self) -> Exchange[Created]:
        """Return the settings that the study was created with."""
        return Created(**(yield from self.summary())["settings"])

    def verdict(self) -> Exchange[str]:
        """Return ``running``, ``decided``, ``no shared representation`` or ``budget exhausted``."""
        return str((yield from self.summary())["verdict"])

    def trials(self) -> Exchange[int]:
        """Return how many trials were handed out."""
        return int((yield from self.summary())["handed_out"])

    def pending(self) -> Exchange[tuple[int, ...]]:
        """Return the numbers of the trials that have not reported."""
        page = yield from self._get("")
        numbers = [*page["pending"]]
        while page.get("pending_next") is not None:
            page = yield from self._get("", after=page["pending_next"])
            numbers += page["pending"]
        return tuple(numbers)

    def pending_trials(self, after: int = 0, limit: int = 100) -> Exchange[tuple[PendingTrial, ...]]:
        """Return a page of the trials that have not reported, those that have been out longest first.

        A page has at most 1,000 of them, with numbers above ``after``: give the last number of the page
        before.
        """
        return decode.read_pending((yield from self._get("/pending", after=after, limit=limit)))

    def status(self) -> Exchange[Status]:
        """Return everything that is known, at one moment."""
        settings = yield from self.settings()
        return decode.read_status((yield from self._get("/status")), settings)

    def best(self) -> Exchange[Answer]:
        """Return the answer, as far as it is known."""
        return (yield from self.status()).best

    def forecast(self) -> Exchange[Forecast | None]:
        """Return how long the study still takes."""
        return (yield from self.status()).forecast

    def expected_remaining(self) -> Exchange[float | None]:
        """Return about how many more trials are needed."""
        return (yield from self.status()).expected_remaining

    def evidence(self) -> Exchange[pl.DataFrame]:
        """Return each hypothesis with the log evidence against it."""
        return evidence_frame(decode.read_hypotheses((yield from self._get("/evidence"))))

    def arms(self) -> Exchange[pl.DataFrame]:
        """Return every arm: trials, told, mean and lift with their intervals."""
        return arms_frame(decode.read_arms((yield from self._get("/arms"))))

    # Trials and the log

    def history(self) -> Exchange[pl.DataFrame]:
        """Return every trial, one row each."""
        return read_history((yield from self._download("log")))

    def records(self, first: int, last: int) -> Exchange[list[TrialRecord]]:
        """Return the trials from number ``first`` to ``last``."""
        found: list[TrialRecord] = []
        after: int | None = max(first, 1) - 1
        while after is not None and after < last:
            page = yield from self._get("/history", after=after, limit=min(last - after, MAX_PAGE_TRIALS))
            found += map(decode.read_record, page["trials"])
            after = page["next"]
        return found

    def trial(self, which: TrialRef) -> Exchange[TrialRecord]:
        """Return a trial by its number, its key or its token, with its outcome."""
        if isinstance(which, str) and not _is_token(which):
            return decode.read_record((yield from self._get("/trial", key=which)))
        token = read_token(which)
        given = {"token": str(token)} if token.study else {"number": token.trial}
        return decode.read_record((yield from self._get("/trial", **given)))

    def events(self) -> Exchange[list[Event]]:
        """Return the log: every event so far."""
        return read_events((yield from self._download("log")))

    def write_log(self, file: Place) -> Exchange[None]:
        """Write every event to a .csv, .jsonl or .parquet file."""
        write_file(file, (yield from self._download("log", suffix_without_dot(file))))

    def write_trials(self, file: Place) -> Exchange[None]:
        """Write the history to a .csv, .jsonl or .parquet file."""
        write_file(file, (yield from self._download("history", suffix_without_dot(file))))

    def write_arms(self, file: Place) -> Exchange[None]:
        """Write `arms` to a .csv, .jsonl or .parquet file."""
        write_frame((yield from self.arms()), file)

    def verify(self, head: str | None = None) -> Exchange[Verification]:
        """Let the server replay the log from its first event, and compare."""
        return decode.read_verification((yield from self._get("/verify", head=head)))

    def anchor(self, file: Place) -> Exchange[dict[str, Any]]:
        """Note the head of the log in a file, as one more line of JSON."""
        return write_head(file, self.name, (yield from self.summary()))

    # The experiment

    @overload
    def ask(
        self,
        task: str | None = None,
        *,
        n: None = None,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> Exchange[Trial]: ...

    @overload
    def ask(
        self,
        task: str | None = None,
        *,
        n: int,
        key: None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> Exchange[tuple[Trial, ...]]: ...

    def ask(
        self,
        task: str | None = None,
        *,
        n: int | None = None,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> Exchange[Any]:
        """Return the next trial, or ``n`` of them."""
        if isinstance(lease, timedelta):
            lease = f"{lease.total_seconds():f}s"
        body = {"task": task, "n": n, "key": key, "note": None if note is None else dict(note), "lease": lease}
        # If the answer is lost, the same key gets the same trials.
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        document = yield from self._post("ask", body, headers)
        return decode.read_trial(document) if n is None else tuple(map(decode.read_trial, document["trials"]))

    def tell(
        self,
        trial: TrialRef | None = None,
        reward: SupportsFloat | None = None,
        *,
        key: str | None = None,
        harm: SupportsFloat | None = None,
        by: str | None = None,
    ) -> Exchange[None]:
        """Store the reward of a trial: it is on the server's disk when this returns."""
        body = {**_trial_and_key(trial, key), "reward": _number("reward", reward), "by": by}
        if harm is not None:
            body["harm"] = _number("harm", harm)
        yield from self._post("tell", body)

    def tell_many(self, rewards: Iterable[Any], *, by: str | None = None) -> Exchange[int]:
        """Store the rewards of many trials in one transaction, all of them or none; return how many were new."""
        body = {"rewards": [_reward_row(row) for row in rewards], "by": by}
        return int((yield from self._post("tell-many", body))["new"])

    def correct(self, trial: TrialRef, reward: SupportsFloat, *, reason: str, by: str | None = None) -> Exchange[None]:
        """Correct the reward of a trial that was told wrong."""
        yield from self._post("correct", _right_reward(trial, reward, reason, by))

    def amend(self, trial: TrialRef, reward: SupportsFloat, *, reason: str, by: str | None = None) -> Exchange[None]:
        """Note the right reward of a trial, where it is too late to correct it."""
        yield from self._post("amend", _right_reward(trial, reward, reason, by))

    def abandon(
        self,
        trial: TrialRef | None = None,
        *,
        key: str | None = None,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> Exchange[None]:
        """Declare that a trial will never report."""
        loss = {"ignorable": ignorable, "by": by, "reason": reason}
        yield from self._post("abandon", {**_trial_and_key(trial, key), **loss})

    def abandon_many(
        self,
        trials: Iterable[Any],
        *,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> Exchange[int]:
        """Declare that many trials will never report; return how many were new."""
        body = {"trials": [_trial_row(row) for row in trials], "ignorable": ignorable, "by": by, "reason": reason}
        return int((yield from self._post("abandon-many", body))["new"])

    # Changes of the study

    def recover(self, reason: str, *, by: str | None = None) -> Exchange[None]:
        """Confirm that the study goes on from the log as it is now."""
        yield from self._post("recover", {"reason": reason, "by": by}, repeatable=False)

    def pause(self, reason: str, *, by: str | None = None) -> Exchange[None]:
        """Hand out no more trials, until `resume`."""
        yield from self._post("pause", {"reason": reason, "by": by})

    def resume(self, reason: str | None = None, *, by: str | None = None) -> Exchange[None]:
        """Go on after a pause."""
        yield from self._post("resume", {"reason": reason, "by": by})

    def raise_budget(self, budget: int, *, reason: str | None = None, by: str | None = None) -> Exchange[None]:
        """Allow ``budget`` trials in all."""
        yield from self._post("raise-budget", {"budget": budget, "reason": reason, "by": by})

    def withdraw(
        self,
        *,
        representation: str | None = None,
        predictor: str | None = None,
        task: str | None = None,
        reason: str,
        by: str | None = None,
    ) -> Exchange[None]:
        """Take a representation, a predictor or a task out of the study."""
        arm = {"representation": representation, "predictor": predictor, "task": task}
        yield from self._post("withdraw", {**arm, "reason": reason, "by": by}, repeatable=False)

    def add(
        self,
        *,
        representation: str | None = None,
        predictor: str | None = None,
        task: str | None = None,
        reason: str,
        by: str | None = None,
    ) -> Exchange[None]:
        """Take a new representation, predictor or task into the study."""
        arm = {"representation": representation, "predictor": predictor, "task": task}
        yield from self._post("add", {**arm, "reason": reason, "by": by}, repeatable=False)

    def close(self, reason: str, *, by: str | None = None) -> Exchange[None]:
        """End the study."""
        yield from self._post("close", {"reason": reason, "by": by})


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _trial_and_key(trial: Any, key: str | None) -> dict[str, Any]:
    """Return a reference to a trial as fields of a body."""
    if trial is None:
        return _given({"key": key})
    token = read_token(trial)
    return _given({"trial": str(token) if token.study else token.trial, "key": key})


def _right_reward(trial: TrialRef, reward: SupportsFloat, reason: str, by: str | None) -> dict[str, Any]:
    return {**_trial_and_key(trial, None), "reward": _number("reward", reward), "reason": reason, "by": by}


def _trial_row(row: Any) -> dict[str, Any]:
    """Return one of many trials as it is sent."""
    if not isinstance(row, Mapping):
        return _trial_and_key(row, None)
    rest = {key: value for key, value in row.items() if key not in ("trial", "key")}
    return {**rest, **_trial_and_key(row.get("trial"), row.get("key"))}


def _reward_row(row: Any) -> dict[str, Any]:
    """Return one of many rewards as it is sent."""
    if isinstance(row, Mapping):
        numbers = {key: _number(key, row[key]) for key in ("reward", "harm") if row.get(key) is not None}
        return {**_trial_row(row), **numbers}
    if isinstance(row, tuple | list) and len(row) == 2:
        return {**_trial_and_key(row[0], None), "reward": _number("reward", row[1])}
    raise OsrlError(f"{row!r:.50} is no pair of a trial and its reward; give (trial, reward)")


def _number(what: str, value: Any) -> bool | float:
    """Return a number that JSON can hold; the server refuses those that the study cannot have."""
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

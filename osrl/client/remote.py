"""`RemoteStudy`: a study that a server keeps, with the interface of `Study`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, SupportsFloat, overload

from osrl.client import endpoints as calls
from osrl.client.decode import (
    read_arms,
    read_hypotheses,
    read_pending,
    read_record,
    read_status,
    read_summary,
)
from osrl.client.endpoints import Call, StudyCalls
from osrl.client.files import format_of, read_events, read_history, write_file, write_head
from osrl.client.transport import Sender
from osrl.errors import OsrlError
from osrl.hypotheses.summary import Answer
from osrl.study.interface import AnyStudy, TrialRef
from osrl.study.log.events import Created, Event
from osrl.study.log.export import write_frame
from osrl.study.operations.ask import TrialRecord
from osrl.study.operations.loop import Result, run_study
from osrl.study.state.trial import Trial
from osrl.study.views.history import evidence, rates
from osrl.study.views.reading import Place

if TYPE_CHECKING:
    import polars as pl

    from osrl.study.views.forecast import Forecast
    from osrl.study.views.status import PendingTrial, Status
    from osrl.study.views.verify import Verification


def connect(url: str, token: str | None = None, study: str | None = None) -> RemoteStudy:
    """A study of the server at ``url``; its name is needed only where the token may see several.

    Without a ``token`` that of the environment variable ``OSRL_TOKEN`` is used. Lost requests are repeated,
    and never hand out a trial twice.
    """
    sender = Sender(url, token)
    try:
        return RemoteStudy(sender, only_study(sender.base, sender.send(calls.studies())) if study is None else study)
    except BaseException:
        sender.close()
        raise


def only_study(place: str, found: list[dict[str, Any]]) -> str:
    """The name of the one study that there is."""
    names = [each["study"] for each in found]
    if len(names) != 1:
        what = "has no study; create one" if not names else "has several studies; name one of "
        raise OsrlError(f"{place} {what}{', '.join(map(repr, names))}")
    return str(names[0])


class RemoteStudy:
    """A study that a server keeps; see `osrl.study.study.Study` for what each call means."""

    def __init__(self, sender: Sender, name: str) -> None:
        self.name = name
        self._sender = sender
        self._calls = StudyCalls(name)
        self._show()  # refuses a study that is not there

    @classmethod
    def create(cls, url: str, token: str | None = None, **settings: Any) -> RemoteStudy:
        """Begin a study with a server, as `Study.create` does."""
        sender = Sender(url, token)
        try:
            return cls(sender, sender.send(calls.create(settings))["study"])
        except BaseException:
            sender.close()
            raise

    @staticmethod
    def list(url: str, token: str | None = None) -> tuple[str, ...]:
        """The names of the studies that the token may see."""
        sender = Sender(url, token)
        try:
            return tuple(each["study"] for each in sender.send(calls.studies()))
        finally:
            sender.close()

    @staticmethod
    def delete(
        url: str, name: str, *, token: str | None = None, by: str | None = None, reason: str | None = None
    ) -> None:
        """Remove a study and all its events, for good."""
        sender = Sender(url, token)
        try:
            sender.send(StudyCalls(name).delete(by, reason))
        finally:
            sender.close()

    # What is known

    def _show(self) -> dict[str, Any]:
        return self._sender.send(self._calls.get(""))

    def _send(self, call: Call[Any]) -> Any:
        return self._sender.send(call)

    @property
    def summary(self) -> dict[str, Any]:
        """What is known without any computation, at one moment."""
        return read_summary(self._show())

    @property
    def id(self) -> str:
        """The beginning of the id of this study, which no other one has."""
        return str(self._show()["id"])

    @property
    def head(self) -> str:
        """The hash of the last event, which stands for the whole log."""
        return str(self._show()["head"])

    @property
    def place(self) -> str:
        """The address of the server."""
        return self._sender.base

    @property
    def settings(self) -> Created:
        """What the study was created with."""
        return Created(**self._show()["settings"])

    @property
    def verdict(self) -> str:
        """``running``, ``decided``, ``no shared representation`` or ``budget exhausted``."""
        return str(self._show()["verdict"])

    @property
    def trials(self) -> int:
        """How many trials were handed out."""
        return int(self._show()["handed_out"])

    @property
    def pending(self) -> tuple[int, ...]:
        """The numbers of the trials that have not reported."""
        found = self._show()
        numbers = [*found["pending"]]
        while found.get("pending_next") is not None:
            found = self._send(self._calls.get("", after=found["pending_next"]))
            numbers += found["pending"]
        return tuple(numbers)

    def pending_trials(self, after: int = 0, limit: int = 100) -> tuple[PendingTrial, ...]:
        """The trials that have not reported, those that have been out longest first, in pages.

        A page has at most 1,000 of them, with numbers above ``after``: give the last number of the page
        before.
        """
        return read_pending(self._send(self._calls.get("pending", after=after, limit=limit)))

    @property
    def status(self) -> Status:
        """Everything that is known, at one moment."""
        return read_status(self._send(self._calls.get("status")), self.settings)

    @property
    def best(self) -> Answer:
        """The answer, as far as it is known."""
        return self.status.best

    @property
    def forecast(self) -> Forecast | None:
        """How long it still takes."""
        return self.status.forecast

    @property
    def expected_remaining(self) -> float | None:
        """About how many more trials are needed."""
        return self.status.expected_remaining

    @property
    def evidence(self) -> pl.DataFrame:
        """Each hypothesis with the log evidence against it."""
        return evidence(read_hypotheses(self._send(self._calls.get("evidence"))))

    @property
    def arms(self) -> pl.DataFrame:
        """Every arm: trials, told, mean and lift with their intervals."""
        return rates(read_arms(self._send(self._calls.get("arms"))))

    @property
    def history(self) -> pl.DataFrame:
        """Every trial, one row each."""
        return read_history(self._download("log"))

    def records(self, first: int, last: int) -> list[TrialRecord]:  # type: ignore[valid-type]
        """The trials from number ``first`` to ``last``."""
        found: Any = []
        after = max(first, 1) - 1
        while after < last:
            page = self._send(self._calls.get("history", after=after, limit=min(last - after, 1000)))
            found += map(read_record, page["trials"])
            if page["next"] is None:
                break
            after = page["next"]
        return found  # type: ignore[no-any-return]

    def trial(self, which: TrialRef) -> TrialRecord:
        """A trial by its number, its key or its token, with what became of it."""
        return self._sender.send(self._calls.trial(which))

    def events(self) -> Iterator[Event]:
        """The log: every event so far."""
        return iter(read_events(self._download("log")))

    def write_log(self, file: Place) -> None:
        """Write every event to a .csv, .jsonl or .parquet file."""
        write_file(file, self._download("log", format_of(file)))

    def write_trials(self, file: Place) -> None:
        """Write the history to a .csv, .jsonl or .parquet file."""
        write_file(file, self._download("history", format_of(file)))

    def write_arms(self, file: Place) -> None:
        """Write `arms` to a .csv, .jsonl or .parquet file."""
        write_frame(self.arms, file)

    def _download(self, what: str, format: str = "jsonl") -> bytes:
        return self._sender.answer(self._calls.get(what, format=format)).content

    def verify(self, head: str | None = None) -> Verification:
        """Let the server replay the log from its first event, and compare."""
        return self._sender.send(self._calls.verify(head))

    def anchor(self, file: Place) -> dict[str, Any]:
        """Note the head of the log in a file, as one more line of JSON."""
        return write_head(file, self.name, self._show())

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
    ) -> Trial: ...

    @overload
    def ask(
        self,
        task: str | None = None,
        *,
        n: int,
        key: None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> tuple[Trial, ...]: ...

    def ask(
        self,
        task: str | None = None,
        *,
        n: int | None = None,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> Trial | tuple[Trial, ...]:
        """The next trial, or ``n`` of them."""
        trials = self._sender.send(self._calls.ask(task, n, key, note, lease))
        return trials[0] if n is None else trials

    def tell(
        self,
        trial: TrialRef | None = None,
        reward: SupportsFloat | None = None,
        *,
        key: str | None = None,
        harm: SupportsFloat | None = None,
        by: str | None = None,
    ) -> None:
        """The reward of a trial: on the server's disk when this returns."""
        self._send(self._calls.tell(trial, key, reward, harm, by))

    def tell_many(self, rewards: Iterable[Any], *, by: str | None = None) -> int:
        """The rewards of many trials in one transaction, all of them or none; how many were new."""
        return int(self._send(self._calls.tell_many(rewards, by))["new"])

    def correct(self, trial: TrialRef, reward: SupportsFloat, *, reason: str, by: str | None = None) -> None:
        """The reward of a trial was told wrong."""
        self._send(self._calls.correct(trial, reward, reason, by))

    def amend(self, trial: TrialRef, reward: SupportsFloat, *, reason: str, by: str | None = None) -> None:
        """Note the right reward of a trial, where it is too late to correct it."""
        self._send(self._calls.amend(trial, reward, reason, by))

    def abandon(
        self,
        trial: TrialRef | None = None,
        *,
        key: str | None = None,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """A trial will never report."""
        self._send(self._calls.abandon(trial, key, ignorable=ignorable, by=by, reason=reason))

    def abandon_many(
        self,
        trials: Iterable[Any],
        *,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Many trials will never report; how many were new."""
        call = self._calls.abandon_many(trials, ignorable=ignorable, by=by, reason=reason)
        return int(self._send(call)["new"])

    def run(
        self,
        function: Callable[[Trial], Result],
        *,
        workers: int = 1,
        task: str | None = None,
        lease: str | timedelta | None = None,
        retries: int = 0,
        progress: bool | None = None,
        by: str | None = None,
    ) -> str:
        """Ask, do it by ``function(trial)``, tell what it returns, until the study ends; the verdict."""
        return run_study(self, function, workers, task, lease, retries, progress, by)

    # Its life

    def recover(self, reason: str, *, by: str | None = None) -> None:
        """Confirm that the study goes on from the log as it is now."""
        self._send(self._calls.change("recover", again=False, reason=reason, by=by))

    def pause(self, reason: str, *, by: str | None = None) -> None:
        """Hand out no more trials, until `resume`."""
        self._send(self._calls.change("pause", reason=reason, by=by))

    def resume(self, reason: str | None = None, *, by: str | None = None) -> None:
        """Go on after a pause."""
        self._send(self._calls.change("resume", reason=reason, by=by))

    def raise_budget(self, budget: int, *, reason: str | None = None, by: str | None = None) -> None:
        """Allow ``budget`` trials in all."""
        self._send(self._calls.change("raise-budget", budget=budget, reason=reason, by=by))

    def withdraw(
        self,
        *,
        representation: str | None = None,
        predictor: str | None = None,
        task: str | None = None,
        reason: str,
        by: str | None = None,
    ) -> None:
        """Take a representation, a predictor or a task out of the study."""
        choice = {"representation": representation, "predictor": predictor, "task": task}
        self._send(self._calls.change("withdraw", again=False, **choice, reason=reason, by=by))

    def add(
        self,
        *,
        representation: str | None = None,
        predictor: str | None = None,
        task: str | None = None,
        reason: str,
        by: str | None = None,
    ) -> None:
        """Take a new representation, predictor or task into the study."""
        choice = {"representation": representation, "predictor": predictor, "task": task}
        self._send(self._calls.change("add", again=False, **choice, reason=reason, by=by))

    def close(self, reason: str | None = None, *, by: str | None = None) -> None:
        """End the study for a ``reason``; without one, only let go of connections."""
        if reason is not None:
            self._send(self._calls.change("close", reason=reason, by=by))
        self._sender.close()

    def __enter__(self) -> RemoteStudy:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteStudy({self.place!r}, {self.name!r})"


if TYPE_CHECKING:

    def _is_a_study(study: RemoteStudy) -> AnyStudy:
        return study

"""`AsyncRemoteStudy`: a study that a server keeps, for programs with an event loop.

Its calls are those of `RemoteStudy`, to be awaited, and what is a property there is a call here. The function
of a run is awaited as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from osrl.client.endpoints import Call, StudyCalls, T
from osrl.client.files import format_of, read_events, read_history, write_file, write_head
from osrl.client.loop import Function, run_awaited
from osrl.client.remote import only_study
from osrl.client.transport import AsyncSender
from osrl.hypotheses.summary import Answer
from osrl.study.interface import TrialRef
from osrl.study.log.events import Created, Event
from osrl.study.log.export import write_frame
from osrl.study.operations.ask import TrialRecord
from osrl.study.state.trial import Trial
from osrl.study.views.history import evidence, rates
from osrl.study.views.reading import Place
from osrl.study.views.verify import Verification

if TYPE_CHECKING:
    import polars as pl

    from osrl.study.views.forecast import Forecast
    from osrl.study.views.status import PendingTrial, Status


async def connect_async(url: str, token: str | None = None, study: str | None = None) -> AsyncRemoteStudy:
    """A study of the server at ``url``, as `osrl.connect` gives it, whose calls are awaited."""
    sender = AsyncSender(url, token)
    try:
        if study is None:
            study = only_study(sender.base, await sender.send(calls.studies()))
        await sender.send(StudyCalls(study).get(""))  # refuses a study that is not there
    except BaseException:
        await sender.close()
        raise
    return AsyncRemoteStudy(sender, study)


class AsyncRemoteStudy:
    """A study that a server keeps; see `osrl.study.study.Study` for what each call means."""

    def __init__(self, sender: AsyncSender, name: str) -> None:
        self.name = name
        self._sender = sender
        self._calls = StudyCalls(name)

    async def _send(self, call: Call[T]) -> T:
        return await self._sender.send(call)

    @overload
    async def ask(
        self,
        task: str | None = None,
        *,
        n: None = None,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> Trial: ...

    @overload
    async def ask(
        self,
        task: str | None = None,
        *,
        n: int,
        key: None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> tuple[Trial, ...]: ...

    async def ask(
        self,
        task: str | None = None,
        *,
        n: int | None = None,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> Trial | tuple[Trial, ...]:
        """The next trial, or ``n`` of them."""
        trials = await self._send(self._calls.ask(task, n, key, note, lease))
        return trials[0] if n is None else trials

    async def trial(self, which: TrialRef) -> TrialRecord:
        """A trial by its number, its key or its token, with what became of it."""
        return await self._send(self._calls.trial(which))

    async def tell(
        self,
        trial: TrialRef | None = None,
        reward: SupportsFloat | None = None,
        *,
        key: str | None = None,
        harm: SupportsFloat | None = None,
        by: str | None = None,
    ) -> None:
        """The reward of a trial: on the server's disk when this returns."""
        await self._send(self._calls.tell(trial, key, reward, harm, by))

    async def tell_many(self, rewards: Iterable[Any], *, by: str | None = None) -> int:
        """The rewards of many trials in one transaction, all of them or none; how many were new."""
        return int((await self._send(self._calls.tell_many(rewards, by)))["new"])

    async def abandon(
        self,
        trial: TrialRef | None = None,
        *,
        key: str | None = None,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """A trial will never report."""
        await self._send(self._calls.abandon(trial, key, ignorable=ignorable, by=by, reason=reason))

    async def abandon_many(
        self,
        trials: Iterable[Any],
        *,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Many trials will never report; how many were new."""
        call = self._calls.abandon_many(trials, ignorable=ignorable, by=by, reason=reason)
        return int((await self._send(call))["new"])

    async def correct(self, trial: TrialRef, reward: SupportsFloat, *, reason: str, by: str | None = None) -> None:
        """The reward of a trial was told wrong."""
        await self._send(self._calls.correct(trial, reward, reason, by))

    async def amend(self, trial: TrialRef, reward: SupportsFloat, *, reason: str, by: str | None = None) -> None:
        """Note the right reward of a trial, where it is too late to correct it."""
        await self._send(self._calls.amend(trial, reward, reason, by))

    async def run(
        self,
        function: Function,
        *,
        workers: int = 1,
        task: str | None = None,
        lease: str | timedelta | None = None,
        retries: int = 0,
        by: str | None = None,
    ) -> str:
        """Ask, await ``function(trial)``, tell what it returns, until the study ends; the verdict.

        ``workers`` trials are out at the same time.
        """
        return await run_awaited(self, function, workers, task, lease, retries, by)

    # Its life

    async def recover(self, reason: str, *, by: str | None = None) -> None:
        """Confirm that the study goes on from the log as it is now."""
        await self._send(self._calls.change("recover", again=False, reason=reason, by=by))

    async def raise_budget(self, budget: int, *, reason: str | None = None, by: str | None = None) -> None:
        """Allow ``budget`` trials in all."""
        await self._send(self._calls.change("raise-budget", budget=budget, reason=reason, by=by))

    async def withdraw(
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
        await self._send(self._calls.change("withdraw", again=False, **choice, reason=reason, by=by))

    async def add(
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
        await self._send(self._calls.change("add", again=False, **choice, reason=reason, by=by))

    async def pause(self, reason: str, *, by: str | None = None) -> None:
        """Hand out no more trials, until `resume`."""
        await self._send(self._calls.change("pause", reason=reason, by=by))

    async def resume(self, reason: str | None = None, *, by: str | None = None) -> None:
        """Go on after a pause."""
        await self._send(self._calls.change("resume", reason=reason, by=by))

    # What is known

    @property
    def place(self) -> str:
        """The address of the server."""
        return self._sender.base

    async def summary(self) -> dict[str, Any]:
        """What is known without any computation, at one moment."""
        return read_summary(await self._send(self._calls.get("")))

    async def id(self) -> str:
        """The beginning of the id of this study, which no other one has."""
        return str((await self.summary())["id"])

    async def head(self) -> str:
        """The hash of the last event, which stands for the whole log."""
        return str((await self.summary())["head"])

    async def settings(self) -> Created:
        """What the study was created with."""
        return Created(**(await self.summary())["settings"])

    async def verdict(self) -> str:
        """``running``, or how the study has ended."""
        return str((await self.summary())["verdict"])

    async def trials(self) -> int:
        """How many trials were handed out."""
        return int((await self.summary())["handed_out"])

    async def pending(self) -> tuple[int, ...]:
        """The numbers of the trials that have not reported."""
        found = await self.summary()
        numbers = [*found["pending"]]
        while found.get("pending_next") is not None:
            found = await self._send(self._calls.get("", after=found["pending_next"]))
            numbers += found["pending"]
        return tuple(numbers)

    async def pending_trials(self, after: int = 0, limit: int = 100) -> tuple[PendingTrial, ...]:
        """The trials that have not reported, those that have been out longest first, in pages.

        A page has at most 1,000 of them, with numbers above ``after``: give the last number of the page
        before.
        """
        return read_pending(await self._send(self._calls.get("pending", after=after, limit=limit)))

    async def status(self) -> Status:
        """Everything that is known, at one moment."""
        settings = await self.settings()
        return read_status(await self._send(self._calls.get("status")), settings)

    async def best(self) -> Answer:
        """The answer, as far as it is known."""
        return (await self.status()).best

    async def forecast(self) -> Forecast | None:
        """How long it still takes."""
        return (await self.status()).forecast

    async def expected_remaining(self) -> float | None:
        """About how many more trials are needed."""
        return (await self.status()).expected_remaining

    async def evidence(self) -> pl.DataFrame:
        """Each hypothesis with the log evidence against it."""
        return evidence(read_hypotheses(await self._send(self._calls.get("evidence"))))

    async def arms(self) -> pl.DataFrame:
        """Every arm: trials, told, mean and lift with their intervals."""
        return rates(read_arms(await self._send(self._calls.get("arms"))))

    async def history(self) -> pl.DataFrame:
        """Every trial, one row each."""
        return read_history(await self._download("log"))

    async def records(self, first: int, last: int) -> list[TrialRecord]:
        """The trials from number ``first`` to ``last``."""
        found: list[TrialRecord] = []
        after: int | None = max(first, 1) - 1
        while after is not None and after < last:
            page = await self._send(self._calls.get("history", after=after, limit=min(last - after, 1000)))
            found += map(read_record, page["trials"])
            after = page["next"]
        return found

    async def events(self) -> list[Event]:
        """The log: every event so far."""
        return read_events(await self._download("log"))

    async def write_log(self, file: Place) -> None:
        """Write every event to a .csv, .jsonl or .parquet file."""
        write_file(file, await self._download("log", format_of(file)))

    async def write_trials(self, file: Place) -> None:
        """Write the history to a .csv, .jsonl or .parquet file."""
        write_file(file, await self._download("history", format_of(file)))

    async def write_arms(self, file: Place) -> None:
        """Write `arms` to a .csv, .jsonl or .parquet file."""
        write_frame(await self.arms(), file)

    async def _download(self, what: str, format: str = "jsonl") -> bytes:
        return (await self._sender.answer(self._calls.get(what, format=format))).content

    async def verify(self, head: str | None = None) -> Verification:
        """Let the server replay the log from its first event, and compare."""
        return await self._send(self._calls.verify(head))

    async def anchor(self, file: Place) -> dict[str, Any]:
        """Note the head of the log in a file, as one more line of JSON."""
        return write_head(file, self.name, await self.summary())

    async def close(self, reason: str | None = None, *, by: str | None = None) -> None:
        """End the study for a ``reason``; without one, only let go of connections."""
        if reason is not None:
            await self._send(self._calls.change("close", reason=reason, by=by))
        await self._sender.close()

    async def __aenter__(self) -> AsyncRemoteStudy:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

"""`AsyncRemoteStudy`: a study that a server keeps, for programs with an event loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, SupportsFloat, overload

from osrl.client import calls
from osrl.client.calls import Call, StudyCalls, T
from osrl.client.documents import read_arms, read_hypotheses, read_status
from osrl.client.remote import only_study
from osrl.client.sending import AsyncSender
from osrl.study.asking import TrialRecord
from osrl.study.events import Created
from osrl.study.history import evidence, rates
from osrl.study.interface import Which
from osrl.study.trial import Trial

if TYPE_CHECKING:
    import polars as pl

    from osrl.study.status import Status


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

    async def trial(self, which: Which) -> TrialRecord:
        """A trial by its number, its key or its token, with what became of it."""
        return await self._send(self._calls.trial(which))

    async def tell(
        self,
        trial: Which | None = None,
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
        trial: Which | None = None,
        *,
        key: str | None = None,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """A trial will never report."""
        await self._send(self._calls.abandon(trial, key, ignorable=ignorable, by=by, reason=reason))

    async def pause(self, reason: str, *, by: str | None = None) -> None:
        """Hand out no more trials, until `resume`."""
        await self._send(self._calls.change("pause", reason=reason, by=by))

    async def resume(self, reason: str | None = None, *, by: str | None = None) -> None:
        """Go on after a pause."""
        await self._send(self._calls.change("resume", reason=reason, by=by))

    async def summary(self) -> dict[str, Any]:
        """What is known without any computation, at one moment."""
        return await self._send(self._calls.get(""))

    async def verdict(self) -> str:
        """``running``, or how the study has ended."""
        return str((await self.summary())["verdict"])

    async def status(self) -> Status:
        """Everything that is known, at one moment."""
        settings = Created(**(await self.summary())["settings"])
        return read_status(await self._send(self._calls.get("status")), settings)

    async def evidence(self) -> pl.DataFrame:
        """Each hypothesis with the log evidence against it."""
        return evidence(read_hypotheses(await self._send(self._calls.get("evidence"))))

    async def arms(self) -> pl.DataFrame:
        """Every arm: trials, told, mean and lift with their intervals."""
        return rates(read_arms(await self._send(self._calls.get("arms"))))

    async def close(self, reason: str | None = None, *, by: str | None = None) -> None:
        """End the study for a ``reason``; without one, only let go of connections."""
        if reason is not None:
            await self._send(self._calls.change("close", reason=reason, by=by))
        await self._sender.close()

    async def __aenter__(self) -> AsyncRemoteStudy:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

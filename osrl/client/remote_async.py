"""`AsyncRemoteStudy`: a study on a server, for programs with an event loop.

Its methods are those of `RemoteStudy`, to be awaited; the properties of `RemoteStudy` are methods, too. The
function of a run is awaited as well.

A run ends as in `osrl.study.operations.loop`: when the function fails, no more trials are handed out, those
that are running are finished and told, and then the error is raised. When the run is cancelled, it does not
wait: trials that have not reported stay pending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from osrl.client.endpoints import Exchange, StudyEndpoints, find_study
from osrl.client.transport import AsyncTransport
from osrl.errors import BudgetSpent, StudyEnded
from osrl.study.operations.loop import Result, Told, check_counts, read_result
from osrl.study.state.trial import Trial

P = ParamSpec("P")
T = TypeVar("T")
Function = Callable[[Trial], Awaitable[Result]]


async def connect_async(url: str, token: str | None = None, study: str | None = None) -> AsyncRemoteStudy:
    """Return a study of the server at ``url``, as `osrl.connect` does, with methods to be awaited."""
    transport = AsyncTransport(url, token)
    try:
        return AsyncRemoteStudy(transport, await transport.run(find_study(transport.base, study)))
    except BaseException:
        await transport.close()
        raise


def _method(
    call: Callable[Concatenate[StudyEndpoints, P], Exchange[T]],
) -> Callable[Concatenate[AsyncRemoteStudy, P], Coroutine[Any, Any, T]]:
    """Make a method that sends a call of `StudyEndpoints` and returns its result."""

    async def method(study: AsyncRemoteStudy, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await study._transport.run(call(study._endpoints, *args, **kwargs))

    update_wrapper(method, call)
    return method


class AsyncRemoteStudy:
    """A study on a server; `osrl.study.study.Study` says in full what each method does."""

    def __init__(self, transport: AsyncTransport, name: str) -> None:
        self.name = name
        self._transport, self._endpoints = transport, StudyEndpoints(name)

    @property
    def place(self) -> str:
        """Return the address of the server."""
        return self._transport.base

    summary = _method(StudyEndpoints.summary)
    id = _method(StudyEndpoints.id)
    head = _method(StudyEndpoints.head)
    settings = _method(StudyEndpoints.settings)
    verdict = _method(StudyEndpoints.verdict)
    trials = _method(StudyEndpoints.trials)
    pending = _method(StudyEndpoints.pending)
    pending_trials = _method(StudyEndpoints.pending_trials)
    status = _method(StudyEndpoints.status)
    best = _method(StudyEndpoints.best)
    forecast = _method(StudyEndpoints.forecast)
    expected_remaining = _method(StudyEndpoints.expected_remaining)
    evidence = _method(StudyEndpoints.evidence)
    arms = _method(StudyEndpoints.arms)
    history = _method(StudyEndpoints.history)
    records = _method(StudyEndpoints.records)
    trial = _method(StudyEndpoints.trial)
    events = _method(StudyEndpoints.events)
    write_log = _method(StudyEndpoints.write_log)
    write_trials = _method(StudyEndpoints.write_trials)
    write_arms = _method(StudyEndpoints.write_arms)
    verify = _method(StudyEndpoints.verify)
    anchor = _method(StudyEndpoints.anchor)

    ask = _method(StudyEndpoints.ask)
    tell = _method(StudyEndpoints.tell)
    tell_many = _method(StudyEndpoints.tell_many)
    correct = _method(StudyEndpoints.correct)
    amend = _method(StudyEndpoints.amend)
    abandon = _method(StudyEndpoints.abandon)
    abandon_many = _method(StudyEndpoints.abandon_many)

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
        """Ask, await ``function(trial)``, tell its result, until the study ends; return the verdict.

        ``workers`` trials are out at the same time.
        """
        check_counts(workers, retries)
        ended, errors = False, list[Exception]()

        async def work() -> None:
            nonlocal ended
            try:
                while not ended:
                    trial = await self.ask(task, lease=lease)
                    reward, harm = await _run_trial(function, trial, retries)
                    await self.tell(trial, reward, harm=harm, by=by)
            except (StudyEnded, BudgetSpent):
                ended = True
            except Exception as error:
                ended = True
                errors.append(error)

        await asyncio.gather(*(work() for _ in range(workers)))
        if errors:
            raise errors[0]
        return await self.verdict()

    recover = _method(StudyEndpoints.recover)
    pause = _method(StudyEndpoints.pause)
    resume = _method(StudyEndpoints.resume)
    raise_budget = _method(StudyEndpoints.raise_budget)
    withdraw = _method(StudyEndpoints.withdraw)
    add = _method(StudyEndpoints.add)

    async def close(self, reason: str | None = None, *, by: str | None = None) -> None:
        """End the study for a ``reason``; without one, only close connections."""
        if reason is not None:
            await self._transport.run(self._endpoints.close(reason, by=by))
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


async def _run_trial(function: Function, trial: Trial, retries: int) -> Told:
    """Return the result of a trial; call the function again where it fails."""
    while True:
        try:
            result = await function(trial)
        except Exception as error:
            if not retries:
                error.add_note(f"trial {trial.id} has not reported: tell its reward, or abandon it")
                raise
            retries -= 1
        else:
            return read_result(result, trial)

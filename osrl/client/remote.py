"""`RemoteStudy`: a study on a server, with the methods of `Study`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import update_wrapper
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar, Unpack, cast

from osrl.client.endpoints import Exchange, StudyEndpoints, create_study, delete_study, find_study, list_studies
from osrl.client.transport import Transport, read_url
from osrl.study.log.events import Event
from osrl.study.operations.loop import Result, run_study
from osrl.study.settings import DEFAULT_NAME, CreateOptions
from osrl.study.state.trial import Trial

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def connect(url: str, token: str | None = None, study: str | None = None) -> RemoteStudy:
    """Return a study of the server at ``url``; its name is needed only where the token may see several.

    Without a ``token`` that of the environment variable ``OSRL_TOKEN`` is used. Lost requests are repeated,
    and never hand out a trial twice.
    """
    return _open(url, token, find_study(read_url(url), study))


def _open(url: str, token: str | None, find_name: Exchange[str]) -> RemoteStudy:
    transport = Transport(url, token)
    try:
        return RemoteStudy(transport, transport.run(find_name))
    except BaseException:
        transport.close()
        raise


def _method(call: Callable[Concatenate[StudyEndpoints, P], Exchange[T]]) -> Callable[Concatenate[RemoteStudy, P], T]:
    """Make a method that sends a call of `StudyEndpoints` and returns its result."""

    def method(study: RemoteStudy, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return study._transport.run(call(study._endpoints, *args, **kwargs))

    update_wrapper(method, call)
    return method


class _Property(Protocol[T_co]):
    """A property as type checkers see it."""

    def __get__(self, study: RemoteStudy, owner: type) -> T_co: ...


def _property(call: Callable[[StudyEndpoints], Exchange[T]]) -> _Property[T]:
    """Make a property that sends a call of `StudyEndpoints` and returns its result."""
    return cast("_Property[T]", property(_method(call), doc=call.__doc__))


class RemoteStudy:
    """A study on a server; `osrl.study.study.Study` says in full what each method does."""

    def __init__(self, transport: Transport, name: str) -> None:
        self.name = name
        self._transport, self._endpoints = transport, StudyEndpoints(name)

    @classmethod
    def create(
        cls, url: str, token: str | None = None, *, name: str = DEFAULT_NAME, **options: Unpack[CreateOptions]
    ) -> RemoteStudy:
        """Create a study on a server, as `Study.create` does."""
        return _open(url, token, create_study(name, **options))

    @staticmethod
    def list(url: str, token: str | None = None) -> tuple[str, ...]:
        """Return the names of the studies that the token may see."""
        with Transport(url, token) as transport:
            return transport.run(list_studies())

    @staticmethod
    def delete(
        url: str, name: str, *, token: str | None = None, by: str | None = None, reason: str | None = None
    ) -> None:
        """Remove a study and all its events, for good."""
        with Transport(url, token) as transport:
            transport.run(delete_study(name, by, reason))

    @property
    def place(self) -> str:
        """Return the address of the server."""
        return self._transport.base

    summary = _property(StudyEndpoints.summary)
    id = _property(StudyEndpoints.id)
    head = _property(StudyEndpoints.head)
    settings = _property(StudyEndpoints.settings)
    verdict = _property(StudyEndpoints.verdict)
    trials = _property(StudyEndpoints.trials)
    pending = _property(StudyEndpoints.pending)
    pending_trials = _method(StudyEndpoints.pending_trials)
    status = _property(StudyEndpoints.status)
    best = _property(StudyEndpoints.best)
    forecast = _property(StudyEndpoints.forecast)
    expected_remaining = _property(StudyEndpoints.expected_remaining)
    evidence = _property(StudyEndpoints.evidence)
    arms = _property(StudyEndpoints.arms)
    history = _property(StudyEndpoints.history)
    records = _method(StudyEndpoints.records)
    trial = _method(StudyEndpoints.trial)

    def events(self) -> Iterator[Event]:
        """Yield the log: every event so far."""
        return iter(self._transport.run(self._endpoints.events()))

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
        """Ask, call ``function(trial)``, tell its result, until the study ends; return the verdict."""
        return run_study(self, function, workers, task, lease, retries, progress, by)

    recover = _method(StudyEndpoints.recover)
    pause = _method(StudyEndpoints.pause)
    resume = _method(StudyEndpoints.resume)
    raise_budget = _method(StudyEndpoints.raise_budget)
    withdraw = _method(StudyEndpoints.withdraw)
    add = _method(StudyEndpoints.add)

    def close(self, reason: str | None = None, *, by: str | None = None) -> None:
        """End the study for a ``reason``; without one, only close connections."""
        if reason is not None:
            self._transport.run(self._endpoints.close(reason, by=by))
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteStudy({self.place!r}, {self.name!r})"

"""What a study is to whoever uses it: one that is kept here (`Study`), or by a server (`RemoteStudy`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, Self, SupportsFloat, overload

from osrl.hypotheses.summary import Answer
from osrl.study.log.events import Created, Event
from osrl.study.operations.ask import TrialRecord
from osrl.study.operations.loop import Result
from osrl.study.state.trial import Trial
from osrl.study.views.reading import Place

if TYPE_CHECKING:
    import polars as pl

    from osrl.study.views.forecast import Forecast
    from osrl.study.views.status import PendingTrial, Status
    from osrl.study.views.verify import Verification

TrialRef = Trial | str | int  # a trial, its token, or its number


class AnyStudy(Protocol):
    """A study: see `osrl.study.study.Study` for what each call means."""

    name: str

    # What is known

    @property
    def id(self) -> str: ...
    @property
    def head(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def settings(self) -> Created: ...
    @property
    def verdict(self) -> str: ...
    @property
    def best(self) -> Answer: ...
    @property
    def evidence(self) -> pl.DataFrame: ...
    @property
    def arms(self) -> pl.DataFrame: ...
    @property
    def expected_remaining(self) -> float | None: ...
    @property
    def forecast(self) -> Forecast | None: ...
    @property
    def trials(self) -> int: ...
    @property
    def pending(self) -> tuple[int, ...]: ...
    @property
    def status(self) -> Status: ...

    def pending_trials(self, after: int = 0, limit: int = 100) -> tuple[PendingTrial, ...]: ...
    @property
    def history(self) -> pl.DataFrame: ...
    @property
    def summary(self) -> dict[str, Any]: ...
    def records(self, first: int, last: int) -> list[TrialRecord]: ...
    def trial(self, which: TrialRef) -> TrialRecord: ...
    def events(self) -> Iterator[Event]: ...
    def write_log(self, file: Place) -> None: ...
    def write_trials(self, file: Place) -> None: ...
    def write_arms(self, file: Place) -> None: ...
    def verify(self, head: str | None = None) -> Verification: ...
    def anchor(self, file: Place) -> dict[str, Any]: ...

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
    def tell(
        self,
        trial: TrialRef | None = None,
        reward: SupportsFloat | None = None,
        *,
        key: str | None = None,
        harm: SupportsFloat | None = None,
        by: str | None = None,
    ) -> None: ...
    def tell_many(self, rewards: Iterable[Any], *, by: str | None = None) -> int: ...
    def correct(self, trial: TrialRef, reward: SupportsFloat, *, reason: str, by: str | None = None) -> None: ...
    def amend(self, trial: TrialRef, reward: SupportsFloat, *, reason: str, by: str | None = None) -> None: ...
    def abandon(
        self,
        trial: TrialRef | None = None,
        *,
        key: str | None = None,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> None: ...
    def abandon_many(
        self,
        trials: Iterable[Any],
        *,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> int: ...
    def recover(self, reason: str, *, by: str | None = None) -> None: ...
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
    ) -> str: ...

    # Its life

    def pause(self, reason: str, *, by: str | None = None) -> None: ...
    def resume(self, reason: str | None = None, *, by: str | None = None) -> None: ...
    def raise_budget(self, budget: int, *, reason: str | None = None, by: str | None = None) -> None: ...
    def withdraw(
        self,
        *,
        representation: str | None = None,
        predictor: str | None = None,
        task: str | None = None,
        reason: str,
        by: str | None = None,
    ) -> None: ...
    def add(
        self,
        *,
        representation: str | None = None,
        predictor: str | None = None,
        task: str | None = None,
        reason: str,
        by: str | None = None,
    ) -> None: ...
    def close(self, reason: str | None = None, *, by: str | None = None) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

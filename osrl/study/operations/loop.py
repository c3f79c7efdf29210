"""The loop that everybody writes: ask, do it, tell, until the study ends; by several threads.

It ends cleanly. When the study is over, or the budget is handed out, the workers stop. When the function
fails, or at Ctrl-C, no more trials are handed out; what is being done is finished and told, and then the
error is raised. At a second Ctrl-C nobody waits any more: what has not reported stays pending, and is named.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Lock, Thread
from typing import Any, Protocol, SupportsFloat, TypeVar

from osrl.errors import BudgetSpent, OsrlError, RewardRefused, StorageBusy, StorageError, StudyEnded
from osrl.study.state.trial import Trial

T = TypeVar("T")

POLL_SECONDS = 0.1  # between two checks of the thread that waits
RETRY_SECONDS = 0.5  # before a storage that is busy is called again
STORAGE_RETRIES = 20

Ask = Callable[[], Trial]
Result = SupportsFloat | tuple[SupportsFloat, SupportsFloat]  # a reward, or a reward and a harm
Told = tuple[SupportsFloat, SupportsFloat | None]
Tell = Callable[[Trial, Told], None]
Function = Callable[[Trial], Result]


def check_counts(workers: object, retries: object) -> None:
    """Refuse numbers of workers and retries that are none."""
    for name, value, least in (("workers", workers, 1), ("retries", retries, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise OsrlError(f"{name} is {value!r}; give a whole number, at least {least}")


def read_result(result: Result | None, trial: Trial) -> Told:
    """Return reward and harm from what a function returned for a trial; refuse nothing."""
    reward, harm = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if reward is None:
        raise RewardRefused(f"the function returned no reward for trial {trial.id}; let it return a number")
    return reward, harm


class Run:
    """Threads that ask for trials, do them by ``function``, and tell what they brought."""

    def __init__(self, ask: Ask, tell: Tell, function: Function, workers: int, retries: int) -> None:
        check_counts(workers, retries)
        self._ask, self._tell, self._function, self._retries = ask, tell, function, retries
        self._stop, self._finished, self._lock = Event(), Event(), Lock()
        self._working = workers
        self._out: dict[int, Trial] = {}  # trials that are being done
        self._error: BaseException | None = None
        self.done = 0
        # Of a function that hangs, the program must not wait to end.
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(workers)]

    def wait(self, show: Callable[[int], object]) -> None:
        """Work until the study ends; raise what went wrong, after all that is being done has been told."""
        for thread in self._threads:
            thread.start()
        try:
            self._join(show)
        except KeyboardInterrupt:
            self._stop.set()
            try:
                self._join(show)
            except KeyboardInterrupt:
                left = ", ".join(map(str, sorted(self._out))) or "none"
                raise KeyboardInterrupt(f"trials that have not reported: {left}") from None
            raise
        if self._error is not None:
            raise self._error

    def _join(self, show: Callable[[int], object]) -> None:
        # Not by `Thread.join`: Python 3.11 takes a thread for dead when that is interrupted.
        while not self._finished.wait(POLL_SECONDS):
            show(self.done)

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                trial = self._patiently(self._ask, StorageBusy)
                with self._lock:
                    self._out[trial.id] = trial
                result = self._do(trial)
                self._patiently(lambda: self._tell(trial, result), StorageError)  # noqa: B023 - called at once
                with self._lock:
                    del self._out[trial.id]
                    self.done += 1
        except (StudyEnded, BudgetSpent):
            self._stop.set()
        except BaseException as error:
            with self._lock:
                self._error = self._error or error
            self._stop.set()
        finally:
            with self._lock:
                self._working -= 1
                if not self._working:
                    self._finished.set()

    def _do(self, trial: Trial) -> Told:
        """Return what the trial brings; try again where the function fails."""
        for attempt in range(self._retries + 1):
            try:
                result = self._function(trial)
            except Exception as error:
                if attempt == self._retries:
                    error.add_note(f"trial {trial.id} has not reported: tell its reward, or abandon it")
                    raise
            else:
                return read_result(result, trial)
        raise AssertionError

    def _patiently(self, act: Callable[[], T], trouble: type[StorageError]) -> T:
        """Do something that may be repeated; again where the storage cannot just now."""
        for _ in range(STORAGE_RETRIES):
            try:
                return act()
            except trouble:
                time.sleep(RETRY_SECONDS)
        return act()


@contextmanager
def shown(total: int | None, told: int, progress: bool | None) -> Iterator[Callable[[int], None]]:
    """Show how far the study is: a bar on a terminal; nothing elsewhere, unless it is asked for."""
    from rich import progress as rich
    from rich.console import Console

    console = Console(stderr=True)
    if not (console.is_interactive and sys.stderr.isatty() if progress is None else progress):
        yield lambda done: None
        return
    parts = (
        rich.BarColumn(),
        rich.TextColumn("{task.completed:,.0f} trials told"),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*parts, console=console, transient=True) as bar:
        task = bar.add_task("told", total=total, completed=told)
        yield lambda done: bar.update(task, completed=told + done)


class Runnable(Protocol):
    """What a run needs of a study."""

    def ask(self, task: str | None = None, *, lease: str | timedelta | None = None) -> Trial:
        """Return the next trial."""

    def tell(
        self,
        trial: Trial,
        reward: SupportsFloat,
        *,
        harm: SupportsFloat | None = None,
        by: str | None = None,
    ) -> None:
        """Return the reward of a trial, and its harm."""

    @property
    def summary(self) -> dict[str, Any]:
        """What is known without any computation."""

    @property
    def verdict(self) -> str:
        """How it has ended, if it has."""


def run_study(
    study: Runnable,
    function: Function,
    workers: int,
    task: str | None,
    lease: str | timedelta | None,
    retries: int,
    progress: bool | None,
    by: str | None,
) -> str:
    """Ask, call ``function``, tell what it returns, until the study ends; return the verdict."""
    run = Run(
        lambda: study.ask(task, lease=lease),
        lambda trial, told: study.tell(trial, told[0], harm=told[1], by=by),
        function,
        workers,
        retries,
    )
    known = study.summary
    with shown(known["settings"]["budget"], known["told"] + known["abandoned"], progress) as show:
        run.wait(show)
    return study.verdict

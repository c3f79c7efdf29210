"""The experiment as a loop, for programs with an event loop: ask, await a function, tell, until the study ends.

It ends as `osrl.study.operations.loop` does: when the function fails, no more trials are handed out, those
that are running are finished and told, and then the error is raised. When the run is cancelled, it does not
wait: trials that have not reported stay pending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Protocol, SupportsFloat

from osrl.errors import BudgetSpent, StudyEnded
from osrl.study.operations.loop import Result, Told, check_counts, read_result
from osrl.study.state.trial import Trial

Function = Callable[[Trial], Awaitable[Result]]


class Runnable(Protocol):
    """The methods of a study that a run uses."""

    async def ask(self, task: str | None = None, *, lease: str | timedelta | None = None) -> Trial:
        """Return the next trial."""

    async def tell(
        self, trial: Trial, reward: SupportsFloat, *, harm: SupportsFloat | None = None, by: str | None = None
    ) -> None:
        """Store the reward of a trial, and its harm."""

    async def verdict(self) -> str:
        """Return how the study has ended."""


async def run_study_async(
    study: Runnable,
    function: Function,
    workers: int,
    task: str | None,
    lease: str | timedelta | None,
    retries: int,
    by: str | None,
) -> str:
    """Ask, await ``function``, tell its result, until the study ends; return the verdict."""
    check_counts(workers, retries)
    ended, errors = False, list[Exception]()

    async def work() -> None:
        nonlocal ended
        try:
            while not ended:
                trial = await study.ask(task, lease=lease)
                reward, harm = await _run_trial(function, trial, retries)
                await study.tell(trial, reward, harm=harm, by=by)
        except (StudyEnded, BudgetSpent):
            ended = True
        except Exception as error:
            ended = True
            errors.append(error)

    await asyncio.gather(*(work() for _ in range(workers)))
    if errors:
        raise errors[0]
    return await study.verdict()


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

"""One thread for each study: calls that arrive together are answered from one transaction.

Calls wait in a queue. The thread takes all of them, does them in one transaction (`osrl.study.operations.batch`),
and answers each when all of it is on the disk. While the disk works, the next ones gather. A study without
calls for a while is dropped from memory, and read again when it is needed.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import literal, select

from osrl.errors import OsrlError, StorageBusy, UnknownStudy
from osrl.service.blocking import as_exception, in_thread
from osrl.service.idempotency import IdempotencyKeys
from osrl.study.operations.batch import Call
from osrl.study.storage.sql import SqlStorage
from osrl.study.study import Study

MAX_BATCH = 256  # calls of one transaction
MAX_WAITING = 2_000  # calls that wait for one study
MAX_READS = 8  # at the same time: connections of the storage are limited
GRACE_SECONDS = 0.5  # for running calls, when the server ends
IDLE_SECONDS = 60.0  # without a call, after which a study is dropped from memory
HEALTH_TIMEOUT = 5.0  # seconds for the smallest read
HEALTH_SECONDS = 1.0  # for which a result of the health check is used
ALIVE, STUCK = "alive", "reads do not come back"

T = TypeVar("T")
Job = Call | Callable[[Study], Any]


class _Waiting(NamedTuple):
    """A job, and the future for its answer."""

    job: Job
    answer: asyncio.Future[Any]


class Worker:
    """The thread of one study; ``wrote`` is called in the event loop after each transaction."""

    def __init__(self, study: Study, number: int, keys: IdempotencyKeys, wrote: Callable[[], object]) -> None:
        self.study, self.number, self.idempotency_keys = study, number, keys
        self.forecasting = asyncio.Lock()  # one forecast at a time,
        self.reading_log = asyncio.Lock()  # and one reader of the whole log
        self.task_attribute: str | None = None  # of an OpenFeature context, once it was read
        self._wrote = wrote
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, job: Job) -> asyncio.Future[Any]:
        """Queue a call, or a function of the study, and return the future of its answer; in the event loop."""
        if self._queue.qsize() >= MAX_WAITING:
            raise StorageBusy(f"{MAX_WAITING:,} calls wait for this study; call again a little later")
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put(_Waiting(job, answer))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="osrl study", daemon=True)
            self._thread.start()
        return answer

    @property
    def idle(self) -> bool:
        """Tell whether the worker has no thread, so that nothing waits or runs."""
        return self._thread is None

    async def stop(self) -> None:
        """Wait a moment for queued calls; those that are not done then were not acknowledged."""
        thread = self._thread
        self._queue.put(None)
        if thread is not None:
            await in_thread(lambda: thread.join(GRACE_SECONDS))

    def _run(self) -> None:
        """Take all queued calls, do them, answer them, again and again."""
        later: _Waiting | None = None
        while True:
            try:
                first = later or self._queue.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                self._tell_loop(self._end_thread)
                first = self._queue.get()  # a call that came meanwhile, or the end
            if first is None:
                return
            together, later = [first], None
            if isinstance(first.job, Call):
                with suppress(queue.Empty):
                    while len(together) < MAX_BATCH:
                        following = self._queue.get_nowait()
                        if following is None:
                            self._queue.put(None)
                            break
                        if not isinstance(following.job, Call):
                            later = following
                            break
                        together.append(following)
                answers = self._answer([each.job for each in together if isinstance(each.job, Call)])
            else:
                answers = [self._call(first.job)]
            self._tell_loop(self._deliver, together, answers)

    def _answer(self, calls: list[Call]) -> list[Any]:
        try:
            return list(self.study.together(calls))
        except BaseException as error:
            return [as_exception(error)] * len(calls)

    def _call(self, function: Callable[[Study], Any]) -> Any:
        try:
            return function(self.study)
        except BaseException as error:
            return as_exception(error)

    def _tell_loop(self, function: Callable[..., object], *given: object) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it all callers
            self._loop.call_soon_threadsafe(function, *given)

    def _deliver(self, together: list[_Waiting], answers: list[Any]) -> None:
        for waiting, answer in zip(together, answers, strict=True):
            if waiting.answer.done():
                continue
            if isinstance(answer, Exception):
                waiting.answer.set_exception(answer)
            else:
                waiting.answer.set_result(answer)
        self._wrote()

    def _end_thread(self) -> None:
        if self._queue.empty():
            self._queue.put(None)
            self._thread = None


class Workers:
    """The workers of the studies that are in use."""

    def __init__(self, storage: SqlStorage, wrote: Callable[[int], object]) -> None:
        self.storage = storage
        self._wrote = wrote
        self._workers: dict[str, Worker] = {}
        self._reading = asyncio.Semaphore(MAX_READS)
        self._checking = asyncio.Lock()
        self._checked_at, self._health = -HEALTH_SECONDS, ALIVE

    async def worker(self, name: str) -> Worker:
        """Return the worker of a study."""
        found = self._workers.get(name)
        if found is not None:
            return found
        if not name.isprintable():
            raise _unknown(name)
        try:
            number = await self.read(lambda: self.storage.find(name))
        except UnknownStudy:
            raise _unknown(name) from None
        self._drop_idle()
        if name not in self._workers:
            study = Study(self.storage, number, name)
            keys = IdempotencyKeys(self.storage, number)
            self._workers[name] = Worker(study, number, keys, lambda: self._wrote(number))
        return self._workers[name]

    async def do(self, name: str, job: Job) -> Any:
        """Do a call to a study and return its answer."""
        worker = await self.worker(name)
        try:
            return await worker.do(job)
        except UnknownStudy:
            self.forget(name)
            raise _unknown(name) from None

    async def look(self, name: str, function: Callable[[Study], T]) -> T:
        """Read something from a study, beside the calls and without waiting for them."""
        worker = await self.worker(name)
        try:
            return await self.read(lambda: function(worker.study))
        except UnknownStudy:
            self.forget(name)
            raise _unknown(name) from None

    async def read(self, function: Callable[[], T]) -> T:
        """Run a function that may block in a thread, and return its result."""
        async with self._reading:
            return await in_thread(function)

    async def health(self) -> str:
        """Return ``alive`` if reads come back, or what is wrong.

        Anybody may ask, so the check runs once in a second, and those who ask meanwhile wait for the same one.
        """
        async with self._checking:
            if time.monotonic() >= self._checked_at + HEALTH_SECONDS:
                try:
                    await asyncio.wait_for(self.read(self._touch), HEALTH_TIMEOUT)
                    self._health = ALIVE
                except OsrlError:
                    self._health = "alive, but the storage is out of reach"
                except Exception:
                    self._health = STUCK
                self._checked_at = time.monotonic()
            return self._health

    def _touch(self) -> None:
        with self.storage.transaction() as connection:
            connection.execute(select(literal(1)))

    def forget(self, name: str) -> None:
        """Drop a study that is no longer there."""
        self._workers.pop(name, None)

    def _drop_idle(self) -> None:
        """Drop the studies that are idle."""
        for name in [name for name, worker in self._workers.items() if worker.idle]:
            del self._workers[name]

    async def stop(self) -> None:
        """Wait until running calls are done, and close the storage."""
        await asyncio.gather(*(worker.stop() for worker in self._workers.values()))
        self.storage.close()


def _unknown(name: str) -> UnknownStudy:
    """Return the error for a study that is not there; it does not say which others are."""
    return UnknownStudy(f"there is no study {name!r}; see which there are with GET /api/v1/studies")

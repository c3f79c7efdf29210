"""One thread for each study: what arrives together is answered from one transaction.

Requests wait in a queue. The thread takes all that are there, does them in one turn (`osrl.study.operations.batch`),
and answers each when all of it is on the disk. While the disk works, the next ones gather. A study that
nobody has asked for a while is put down, and is read again when it is needed.
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
from osrl.service.idempotency import Requests
from osrl.study.operations.batch import Call
from osrl.study.storage.sql import SqlStorage
from osrl.study.study import Study

MOST_TOGETHER = 256  # calls of one transaction
MOST_WAITING = 2_000  # calls that wait for one study
GRACE = 0.5  # seconds for what is being done, when the server ends
REST = 60.0  # seconds without a call, after which a study is put down
PATIENCE = 5.0  # seconds in which the smallest read must come back
TRIED = 1.0  # seconds for which it is believed that it does
ALIVE, STUCK = "alive", "reads do not come back"

T = TypeVar("T")
Job = Call | Callable[[Study], Any]


class _Waiting(NamedTuple):
    """A job, and who waits for its answer."""

    job: Job
    answer: asyncio.Future[Any]


class Worker:
    """The thread of one study; ``wrote`` is called in the event loop after each transaction."""

    def __init__(self, study: Study, number: int, requests: Requests, wrote: Callable[[], object]) -> None:
        self.study, self.number, self.requests = study, number, requests
        self.looking = asyncio.Lock()  # of whoever computes a forecast,
        self.reading = asyncio.Lock()  # and of whoever reads the whole log: one at a time
        self.attribute: str | None = None  # by which OpenFeature knows the task of a subject, once it was read
        self._wrote = wrote
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, job: Job) -> asyncio.Future[Any]:
        """The answer of a call, or of a function of the study; to be called in the event loop."""
        if self._queue.qsize() >= MOST_WAITING:
            raise StorageBusy(f"{MOST_WAITING:,} calls wait for this study; call again a little later")
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put(_Waiting(job, answer))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="osrl study", daemon=True)
            self._thread.start()
        return answer

    @property
    def resting(self) -> bool:
        """Whether nothing is to be done, and nothing is being done."""
        return self._thread is None

    async def stop(self) -> None:
        """Wait a moment until what is there is done; what is not was not acknowledged."""
        thread = self._thread
        self._queue.put(None)
        if thread is not None:
            await in_thread(lambda: thread.join(GRACE))

    def _run(self) -> None:
        """The thread: take all that is there, do it, answer."""
        later: _Waiting | None = None
        while True:
            try:
                first = later or self._queue.get(timeout=REST)
            except queue.Empty:
                self._tell_loop(self._rest)
                first = self._queue.get()  # until somebody calls, or nobody will
            if first is None:
                return
            together, later = [first], None
            if isinstance(first.job, Call):
                with suppress(queue.Empty):
                    while len(together) < MOST_TOGETHER:
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
        with suppress(RuntimeError):  # the loop has ended, and with it whoever waited
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

    def _rest(self) -> None:
        if self._queue.empty():
            self._queue.put(None)
            self._thread = None


class Workers:
    """The studies of a database that are in use."""

    def __init__(self, storage: SqlStorage, wrote: Callable[[int], object]) -> None:
        self.storage = storage
        self._wrote = wrote
        self._workers: dict[str, Worker] = {}
        self._reading = asyncio.Semaphore(8)  # connections of the storage are not without end
        self._trying = asyncio.Lock()
        self._tried, self._health = -TRIED, ALIVE

    async def worker(self, name: str) -> Worker:
        """The worker of a study."""
        found = self._workers.get(name)
        if found is not None:
            return found
        if not name.isprintable():
            raise unknown(name)
        try:
            number = await self.read(lambda: self.storage.find(name))
        except UnknownStudy:
            raise unknown(name) from None
        self._put_down()
        if name not in self._workers:
            study = Study(self.storage, number, name)
            requests = Requests(self.storage, number)
            self._workers[name] = Worker(study, number, requests, lambda: self._wrote(number))
        return self._workers[name]

    async def do(self, name: str, job: Job) -> Any:
        """The answer of a call to a study."""
        worker = await self.worker(name)
        try:
            return await worker.do(job)
        except UnknownStudy:
            self.forget(name)
            raise unknown(name) from None

    async def look(self, name: str, function: Callable[[Study], T]) -> T:
        """Something that is read from a study: beside the calls, and without waiting for them."""
        worker = await self.worker(name)
        try:
            return await self.read(lambda: function(worker.study))
        except UnknownStudy:
            self.forget(name)
            raise unknown(name) from None

    async def read(self, function: Callable[[], T]) -> T:
        """Do something that may block, in a thread."""
        async with self._reading:
            return await in_thread(function)

    async def health(self) -> str:
        """Whether reads come back: ``alive``, or what is wrong.

        Anybody may ask, so it is tried once in a second, and whoever comes meanwhile waits for the same.
        """
        async with self._trying:
            if time.monotonic() >= self._tried + TRIED:
                try:
                    await asyncio.wait_for(self.read(self._touch), PATIENCE)
                    self._health = ALIVE
                except OsrlError:
                    self._health = "alive, but the storage is out of reach"
                except Exception:
                    self._health = STUCK
                self._tried = time.monotonic()
            return self._health

    def _touch(self) -> None:
        with self.storage.beside() as connection:
            connection.execute(select(literal(1)))

    def forget(self, name: str) -> None:
        """Put a study down that is no longer there."""
        self._workers.pop(name, None)

    def _put_down(self) -> None:
        """Let go of studies that rest."""
        for name in [name for name, worker in self._workers.items() if worker.resting]:
            del self._workers[name]

    async def stop(self) -> None:
        """Wait until what was begun is done."""
        await asyncio.gather(*(worker.stop() for worker in self._workers.values()))
        self.storage.close()


def unknown(name: str) -> UnknownStudy:
    """There is no such study; which others there are is not said."""
    return UnknownStudy(f"there is no study {name!r}; see which there are with GET /api/v1/studies")

"""Executors: where chunks of runs are computed, and the loop that keeps them busy.

- `Schedule`: the runs that are left, cut into chunks of about the length that an executor asks for
- `ThreadExecutor`: one machine, one thread per core, since compiled kernels run side by side
- `DaskExecutor`: many machines, chunks as futures of a Dask cluster

Workers of a cluster share nothing with this machine but the versions of what they run, which every chunk checks: a
job and two numbers are sent, a small table comes back. When a worker is lost, the scheduler gives its chunks to
others. When all are lost, or the scheduler is, an executor waits no longer than a minute.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from osrl.errors import OsrlError
from osrl.simulation.campaign import read_whole
from osrl.simulation.chunk import CancelToken, Chunk, ChunkHeader, Job, run_chunk

if TYPE_CHECKING:
    from distributed import Client

MAX_CHUNK_BYTES = 2**23  # before compression
INTERRUPT_POLL_SECONDS = 0.2  # a waiting thread does not receive Ctrl-C where Polars handles signals
CONNECT_SECONDS = 10
WORKER_SECONDS = 45  # without a sign of any worker
ANSWER_SECONDS = 15  # for the scheduler to answer
REFRESH_SECONDS = 2  # between two queries of the workers
DASK_POLL_SECONDS = 0.02  # between two queries of finished chunks
MIN_DASK_CHUNK_SECONDS = 5.0
MAX_CHUNKS_PER_SECOND = 20  # finished; so more workers get longer chunks
_AGAIN = "mend the cluster and repeat the command; runs in an output folder are kept"


class Schedule:
    """The runs that are left, job after job.

    The first chunks of a job are single runs. From then on chunks take as long as is asked for, by the
    pace of the latest one. Towards the end of a job they become shorter, down to a tenth, so that workers
    finish at about the same time.
    """

    def __init__(self, gaps: Iterable[tuple[Job, range]]) -> None:
        self._gaps = deque((job, gap) for job, gap in gaps if gap)
        self._pace: dict[int, float] = {}  # job -> seconds of a run

    def take(self, slots: int, seconds: float) -> tuple[Job, int, int] | None:
        """Return the next chunk of about ``seconds``, as job, first run and number of runs; None at the end.

        ``slots`` is the number of chunks that are computed at the same time.
        """
        if not self._gaps:
            return None
        job, gap = self._gaps.popleft()
        left = len(gap) + sum(len(more) for other, more in self._gaps if other is job)
        pace = self._pace.get(job.number)
        size = 1
        if pace is not None:
            usual = min(seconds / pace, MAX_CHUNK_BYTES / job.bytes_of_a_run)
            size = max(1, int(min(usual, max(left / slots, usual / 10))))
        size = min(size, len(gap))
        if size < len(gap):
            self._gaps.appendleft((job, gap[size:]))
        return job, gap.start, size

    def learn(self, header: ChunkHeader) -> None:
        """Record the pace of a finished chunk, for the next ones."""
        self._pace[header.job] = max(header.seconds / header.runs, 1e-6)


class Executor(ABC):
    """What computes chunks: threads of this process, or a cluster. It is closed at the end of a ``with`` block."""

    @property
    def seconds(self) -> float:
        """How long a chunk should take."""
        return 1.0

    @abstractmethod
    def prepare(self, jobs: Sequence[Job]) -> None:
        """Prepare to compute chunks of ``jobs``."""

    @abstractmethod
    def slots(self) -> int:
        """Return how many chunks to have under way: enough to be busy, few enough for flat memory."""

    @abstractmethod
    def start(self, job: Job, first: int, runs: int) -> None:
        """Start to compute a chunk."""

    @abstractmethod
    def finished(self) -> list[Chunk]:
        """Wait until some chunks are finished; raise the error of one that failed."""

    @abstractmethod
    def stop(self) -> list[Chunk]:
        """Cancel the chunks under way, and return those that were finished."""

    @abstractmethod
    def close(self) -> None:
        """Release threads and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def run_all(executor: Executor, schedule: Schedule, keep: Callable[[Chunk], None]) -> None:
    """Compute all that is scheduled. When interrupted, keep what is finished; ``keep`` may see it twice."""
    under_way = 0
    chunks: list[Chunk] = []
    try:
        while True:
            slots = executor.slots()
            while under_way < slots and (piece := schedule.take(slots, executor.seconds)) is not None:
                executor.start(*piece)
                under_way += 1
            if under_way == 0:
                return
            chunks = executor.finished()
            under_way -= len(chunks)
            for chunk in chunks:
                schedule.learn(chunk.header)
                keep(chunk)
    except BaseException:
        for chunk in [*chunks, *executor.stop()]:
            keep(chunk)
        raise


class ThreadExecutor(Executor):
    """An executor with ``workers`` threads of this process (default: one for each core)."""

    def __init__(self, workers: int | None = None) -> None:
        given = _cores() if workers is None else workers
        self._workers = read_whole("workers", given, 1, "the number of threads, at least 1")
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="osrl")
        self._done: SimpleQueue[Chunk | BaseException | None] = SimpleQueue()
        self._cancel = CancelToken()

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Compile in this thread, which receives Ctrl-C."""
        for job in jobs:
            job.warm_up()

    def slots(self) -> int:
        """Return two chunks for each thread: one under way and one waiting."""
        return 2 * self._workers

    def start(self, job: Job, first: int, runs: int) -> None:
        self._pool.submit(self._work, job, first, runs)

    def finished(self) -> list[Chunk]:
        while True:
            try:
                done = self._done.get(timeout=INTERRUPT_POLL_SECONDS)
            except Empty:
                continue
            if isinstance(done, BaseException):
                raise done
            return [] if done is None else [done]

    def stop(self) -> list[Chunk]:
        """End the runs under way within a round; return chunks with the runs that were finished."""
        self._cancel.cancel()
        self._pool.shutdown(cancel_futures=True)
        left = [self._done.get() for _ in range(self._done.qsize())]
        return [chunk for chunk in left if isinstance(chunk, Chunk)]

    def _work(self, job: Job, first: int, runs: int) -> None:
        try:
            self._done.put(run_chunk(job, first, runs, self._cancel))
        except BaseException as error:
            self._done.put(error)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class DaskExecutor(Executor):
    """An executor on a Dask cluster: the address of its scheduler, a client, or a cluster object."""

    def __init__(self, where: Any) -> None:
        try:
            import distributed
        except ImportError:
            raise OsrlError("dask needs the package distributed; install it with: pip install 'osrl[dask]'") from None
        self._owns_client = not isinstance(where, distributed.Client)
        self._client: Client = _connect(where) if self._owns_client else where
        if self._client.asynchronous:
            raise OsrlError("the Dask client is asynchronous; give one made with asynchronous=False")
        self._futures = distributed.as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        self._name = f"osrl-{secrets.token_hex(4)}"  # no other campaign on the cluster has our keys
        self._slots, self._refreshed = 0, 0.0
        self._last_seen, self._seen_at = 0.0, time.monotonic()  # the latest sign of a worker, and when it was seen
        self._left: list[Chunk] = []
        self._lost = False

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Wait for a first worker."""
        try:
            self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise OsrlError(
                f"the Dask scheduler has had no worker for {WORKER_SECONDS} seconds; "
                "start some with: dask worker ADDRESS"
            ) from None
        self._seen_at = time.monotonic()

    def slots(self) -> int:
        """Return two chunks for each thread of each worker: one under way and one waiting."""
        self._refresh_workers()
        return self._slots

    def _refresh_workers(self) -> None:
        """Count the workers, and refuse to wait when none has reported for long: all do every few seconds."""
        now = time.monotonic()
        if now - self._refreshed < REFRESH_SECONDS:
            return
        with self._connected():
            scheduler: Any = self._client.scheduler
            identity = self._client.sync(scheduler.identity, callback_timeout=ANSWER_SECONDS)
        self._refreshed = now
        workers = identity["workers"].values()
        self._slots = max(2 * sum(worker["nthreads"] for worker in workers), 1)
        sign = max((worker["last_seen"] for worker in workers), default=self._last_seen)
        if sign != self._last_seen:
            self._last_seen, self._seen_at = sign, now
        elif now - self._seen_at > WORKER_SECONDS:
            raise OsrlError(f"no worker of the Dask cluster has been heard of for {WORKER_SECONDS} seconds; {_AGAIN}")

    @property
    def seconds(self) -> float:
        """How long a chunk should take: longer where many workers return some."""
        return max(MIN_DASK_CHUNK_SECONDS, 0.5 * self._slots / MAX_CHUNKS_PER_SECOND)

    def start(self, job: Job, first: int, runs: int) -> None:
        key = f"{self._name}-{job.number}-{first}-{runs}"
        self._futures.add(self._client.submit(run_chunk, job, first, runs, key=key))

    def finished(self) -> list[Chunk]:
        while not self._futures.has_ready():
            self._refresh_workers()
            time.sleep(DASK_POLL_SECONDS)
        chunks, errors = self._ready()
        with self._connected():
            for error in errors:
                self._left = chunks
                raise error
        return chunks

    def stop(self) -> list[Chunk]:
        """Cancel the chunks that wait. Those that workers compute at this moment are lost when they are done."""
        chunks = [*self._left, *self._ready()[0]]
        if not self._lost:
            with suppress(OsrlError), self._connected():
                self._client.cancel(list(self._futures.futures))
        return chunks

    def _ready(self) -> tuple[list[Chunk], list[BaseException]]:
        """Return what has come back: chunks, and errors in place of chunks."""
        chunks: list[Chunk] = []
        errors: list[BaseException] = []
        for future, result in self._futures.next_batch(block=False):
            if future.status == "finished":
                chunks.append(result)
            else:
                errors.append(result[1] if future.status == "error" else result)
        return chunks, errors

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Raise an error of one line when the cluster, not a run, is to blame."""
        from distributed import CancelledError, KilledWorker

        try:
            yield
        except KilledWorker:
            raise OsrlError(f"several workers died one after the other with the same chunk; {_AGAIN}") from None
        except (CancelledError, OSError) as error:
            self._lost = True
            raise OsrlError(f"lost the Dask scheduler ({type(error).__name__}); {_AGAIN}") from None

    def close(self) -> None:
        if self._owns_client:
            self._client.close()


def _connect(where: Any) -> Client:
    """Return a client of our own for the address of a scheduler, or for a cluster object."""
    from distributed import Client

    try:
        return Client(where, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise OsrlError(
            f"cannot reach a Dask scheduler at {where!r} ({type(error).__name__}); "
            "give its address, such as tcp://127.0.0.1:8786"
        ) from None

"""The engine of one machine: a thread for each core, since compiled kernels run side by side."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from types import TracebackType

from osrl.jit.compiling import work_alone
from osrl.simulation.campaign import read_whole
from osrl.simulation.chunk import Chunk, Job, Stop, run_chunk

HEARING = 0.2  # seconds: a thread that waits does not hear Ctrl-C where Polars handles signals


class Threads:
    """Computes chunks in ``workers`` threads of this process (default: one for each core)."""

    seconds = 1.0  # of a chunk

    def __init__(self, workers: int | None = None) -> None:
        given = _cores() if workers is None else workers
        self._workers = read_whole("workers", given, 1, "the number of threads, at least 1")
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="osrl")
        self._done: SimpleQueue[Chunk | BaseException | None] = SimpleQueue()
        self._stop = Stop()

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Compile in this thread, where Ctrl-C is heard."""
        if len(jobs) > 1:
            work_alone()
        for job in jobs:
            job.warm_up()

    def slots(self) -> int:
        """One chunk under way and one waiting, for each thread."""
        return 2 * self._workers

    def start(self, job: Job, first: int, runs: int) -> None:
        """Begin to compute a chunk."""
        self._pool.submit(self._work, job, first, runs)

    def finished(self) -> list[Chunk]:
        """Wait for the next chunk; an error in a thread is raised here."""
        while True:
            try:
                done = self._done.get(timeout=HEARING)
            except Empty:
                continue
            if isinstance(done, BaseException):
                raise done
            return [] if done is None else [done]

    def stop(self) -> list[Chunk]:
        """End the runs under way within a round; chunks become as long as they have got."""
        self._stop.ask()
        self._pool.shutdown(cancel_futures=True)
        left = [self._done.get() for _ in range(self._done.qsize())]
        return [chunk for chunk in left if isinstance(chunk, Chunk)]

    def _work(self, job: Job, first: int, runs: int) -> None:
        try:
            self._done.put(run_chunk(job, first, runs, self._stop))
        except BaseException as error:
            self._done.put(error)

    def __enter__(self) -> Threads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def _cores() -> int:
    """How many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

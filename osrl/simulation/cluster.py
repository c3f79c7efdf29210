"""The engine of many machines: chunks as futures of a Dask cluster.

Workers share nothing with this machine but the versions of what they run, which every chunk checks: a
job and two numbers go out, a small table comes back. When a worker is lost, the scheduler gives its
chunks to others. When all are lost, or the scheduler is, nobody waits for longer than a minute.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from osrl.errors import OsrlError
from osrl.simulation.chunk import Chunk, Job, run_chunk

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10
WORKER_SECONDS = 45  # without a sign of any worker
ANSWER_SECONDS = 15  # for the scheduler to answer
REFRESH_SECONDS = 2  # between two looks at the workers
HEARING = 0.02  # seconds between two looks at what has come back
_AGAIN = "mend the cluster and repeat the command; runs in an output folder are kept"
LEAST_SECONDS = 5.0  # of a chunk
MOST_CHUNKS = 20  # that come back in a second: the more workers, the longer a chunk


class Cluster:
    """Computes chunks on a Dask cluster: the address of its scheduler, a client, or a cluster object."""

    def __init__(self, where: Any) -> None:
        try:
            import distributed
        except ImportError:
            raise OsrlError("dask needs the package distributed; install it with: pip install 'osrl[dask]'") from None
        self._ours = not isinstance(where, distributed.Client)
        self._client: Client = _connect(where) if self._ours else where
        if self._client.asynchronous:
            raise OsrlError("the Dask client is asynchronous; give one made with asynchronous=False")
        self._futures = distributed.as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        self._name = f"osrl-{secrets.token_hex(4)}"  # no other campaign on the cluster has our keys
        self._slots, self._looked = 0, 0.0
        self._sign, self._heard = 0.0, time.monotonic()  # the latest sign of a worker, and when it was seen
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
        self._heard = time.monotonic()

    def slots(self) -> int:
        """One chunk under way and one waiting, for each thread of each worker; they come and go."""
        self._look()
        return self._slots

    def _look(self) -> None:
        """How many workers there are, and whether any of them lives: they all report every few seconds."""
        now = time.monotonic()
        if now - self._looked < REFRESH_SECONDS:
            return
        with self._connected():
            scheduler: Any = self._client.scheduler
            identity = self._client.sync(scheduler.identity, callback_timeout=ANSWER_SECONDS)
        self._looked = now
        workers = identity["workers"].values()
        self._slots = max(2 * sum(worker["nthreads"] for worker in workers), 1)
        sign = max((worker["last_seen"] for worker in workers), default=self._sign)
        if sign != self._sign:
            self._sign, self._heard = sign, now
        elif now - self._heard > WORKER_SECONDS:
            raise OsrlError(f"no worker of the Dask cluster has been heard of for {WORKER_SECONDS} seconds; {_AGAIN}")

    @property
    def seconds(self) -> float:
        """How long a chunk should take."""
        return max(LEAST_SECONDS, 0.5 * self._slots / MOST_CHUNKS)

    def start(self, job: Job, first: int, runs: int) -> None:
        """Begin to compute a chunk."""
        key = f"{self._name}-{job.number}-{first}-{runs}"
        self._futures.add(self._client.submit(run_chunk, job, first, runs, key=key))

    def finished(self) -> list[Chunk]:
        """Wait for chunks; an error of a worker is raised here."""
        while not self._futures.has_ready():
            self._look()
            time.sleep(HEARING)
        chunks, errors = self._ready()
        with self._connected():
            for error in errors:
                self._left = chunks
                raise error
        return chunks

    def stop(self) -> list[Chunk]:
        """Cancel what is waiting. What workers are computing at this moment is lost when it is done."""
        chunks = [*self._left, *self._ready()[0]]
        if not self._lost:
            with suppress(OsrlError), self._connected():
                self._client.cancel(list(self._futures.futures))
        return chunks

    def _ready(self) -> tuple[list[Chunk], list[BaseException]]:
        """What has come back: chunks, and errors in place of chunks."""
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
        """Say in one line what happened when the cluster, not a run, is to blame."""
        from distributed import CancelledError, KilledWorker

        try:
            yield
        except KilledWorker:
            raise OsrlError(f"several workers died one after the other with the same chunk; {_AGAIN}") from None
        except (CancelledError, OSError) as error:
            self._lost = True
            raise OsrlError(f"lost the Dask scheduler ({type(error).__name__}); {_AGAIN}") from None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ours:
            self._client.close()


def _connect(where: Any) -> Client:
    """A client of our own for the address of a scheduler, or for a cluster object."""
    from distributed import Client

    try:
        return Client(where, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise OsrlError(
            f"cannot reach a Dask scheduler at {where!r} ({type(error).__name__}); "
            "give its address, such as tcp://127.0.0.1:8786"
        ) from None

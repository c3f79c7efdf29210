"""The engine of many machines: chunks as futures of a Dask cluster.

Workers share nothing with this machine but the versions of what they run, which every chunk checks: a
job and two numbers go out, a small table comes back. When a worker is lost, the scheduler gives its
chunks to others.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from osrl.errors import OsrlError
from osrl.simulation.job import Chunk, Job, run_chunk

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10
WORKER_SECONDS = 60
REFRESH_SECONDS = 2  # between two looks at how many workers there are
LEAST_SECONDS = 5.0  # of a chunk
MOST_CHUNKS = 20  # that come back in a second: the more workers, the longer a chunk


class Cluster:
    """Computes chunks on a Dask cluster: the address of its scheduler, a client, or a cluster object."""

    def __init__(self, where: Any) -> None:
        try:
            import distributed
        except ImportError:
            raise OsrlError(
                "dask needs the package distributed; install it with: pip install 'osrl[dask]'"
            ) from None
        self._ours = not isinstance(where, distributed.Client)
        self._client: Client = _connect(where) if self._ours else where
        if self._client.asynchronous:
            raise OsrlError("the Dask client is asynchronous; give one made with asynchronous=False")
        self._futures = distributed.as_completed(loop=self._client.loop)
        self._name = f"osrl-{secrets.token_hex(4)}"  # no other campaign on the cluster has our keys
        self._slots, self._seen = 0, 0.0
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

    def slots(self) -> int:
        """One chunk under way and one waiting, for each thread of each worker; they come and go."""
        if time.monotonic() - self._seen > REFRESH_SECONDS:
            with self._connected():
                self._slots = max(2 * sum(self._client.nthreads().values()), 1)
            self._seen = time.monotonic()
        return self._slots

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
        with self._connected():
            return list(self._client.gather(self._futures.next_batch()))

    def stop(self) -> list[Chunk]:
        """Cancel what is waiting. What workers are computing at this moment is lost when it is done."""
        if self._lost:
            return []
        ready = [future for future in self._futures.next_batch(block=False) if future.status == "finished"]
        with self._connected():
            self._client.cancel(list(self._futures.futures))
            return list(self._client.gather(ready, errors="skip"))

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Say in one line what happened when the cluster, not a run, is to blame."""
        from distributed import CancelledError, KilledWorker

        again = "mend the cluster and repeat the command; runs in an output folder are kept"
        try:
            yield
        except KilledWorker:
            raise OsrlError(
                f"several workers died one after the other with the same chunk; {again}"
            ) from None
        except (CancelledError, OSError) as error:
            self._lost = True
            raise OsrlError(f"lost the Dask scheduler ({type(error).__name__}); {again}") from None

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

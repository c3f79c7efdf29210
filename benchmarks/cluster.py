"""What it costs to hand runs to a Dask cluster: bytes, processor time of the collecting process, and speed.

    python benchmarks/cluster.py    # two minutes; a scheduler and two worker processes on this machine

The collecting process is this one. The scheduler and the workers are processes of their own. Processor
time counts only what a process has used itself; wall time depends on what else the machine is doing.
"""

from __future__ import annotations

import pickle
import tempfile
import time
import warnings
from pathlib import Path
from unittest.mock import patch

from distributed import Client, LocalCluster

import osrl
from osrl.simulation import executors
from osrl.simulation.campaign import read_campaign
from osrl.simulation.chunk import run_chunk

PAPER = osrl.Instance.load("paper")
EASY = osrl.Instance.bernoulli([[[0.9, 0.2], [0.3, 0.1]], [[0.2, 0.9], [0.3, 0.1]]])
RISKS = [0.1, 0.05, 0.01]
CHUNK = 200  # runs
SHORT = 0.003  # seconds of a chunk when handling is measured


def job_of(policy: str) -> osrl.simulation.chunk.Job:
    """Return the job of a policy on the paper's instance, three risks."""
    return read_campaign(
        PAPER, policy, RISKS, 1, 0, delta_g=None, delta_h=None, threshold=None, budget=None, options=None
    ).jobs[0]


def sizes() -> list[tuple[str, str]]:
    """Return what goes out for a chunk, and what comes back for a run."""
    job = job_of("tas")
    chunk = run_chunk(job, 0, CHUNK)
    assert chunk is not None
    return [
        ("description of a chunk, paper's instance, three risks", f"{len(pickle.dumps(job)) / 1000:.1f} kB"),
        (f"table of a run, three risks, in a chunk of {CHUNK} runs", f"{len(chunk.table) / CHUNK:.0f} bytes"),
    ]


def handling(client: Client) -> list[tuple[str, str]]:
    """Many chunks of a few milliseconds: nearly all of the time goes to handing them out and back."""
    with tempfile.TemporaryDirectory() as folder, patch.object(executors, "MIN_DASK_CHUNK_SECONDS", SHORT):
        began, used = time.monotonic(), time.process_time()
        osrl.simulate(EASY, "tas", RISKS, runs=20_000, dask=client, out=f"{folder}/out")
        wall, used = time.monotonic() - began, time.process_time() - used
        chunks = len(list(Path(folder, "out").glob("*.parquet")))
    return [
        (
            "processor time of the collecting process for a chunk: submit, gather, write",
            f"{1e3 * used / chunks:.1f} ms",
        ),
        ("chunks a second through scheduler, two workers and client", f"{chunks / wall:.0f}"),
    ]


def campaigns(client: Client, runs: int) -> list[tuple[str, str]]:
    """Measure the same runs on the cluster, in two threads and in one."""
    rows = []
    for name, where in {
        "Dask with two worker processes": {"dask": client},
        "two threads, without Dask": {"workers": 2},
        "one thread": {"workers": 1},
    }.items():
        began = time.monotonic()
        found = osrl.simulate(PAPER, "tas", 0.1, runs=runs, **where).summary()
        wall = time.monotonic() - began
        text = f"{found['seconds'][0]:.1f} s of processor time in the runs, {wall:.1f} s on the clock"
        rows.append((f"{runs:,} runs of `tas` at delta = 0.1: {name}", text))
    return rows


def main() -> None:
    """Measure, and print the table of docs/cluster.md."""
    warnings.simplefilter("ignore")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        Client(local) as client,
    ):
        osrl.simulate(PAPER, "tas", 0.1, runs=4, dask=client)  # compiled, or loaded, everywhere
        rows = [*sizes(), *handling(client), *campaigns(client, 2000)]
    print("| what | measured |\n|---|---|")
    for what, found in rows:
        print(f"| {what} | {found} |")


if __name__ == "__main__":
    main()

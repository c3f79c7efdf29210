"""`osrl.simulate` on a Dask cluster: a real scheduler and worker processes on the loopback interface."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import distributed
import pytest
from polars.testing import assert_frame_equal

import osrl
from osrl.cli import main
from osrl.simulation.chunk import run_chunk
from osrl.simulation.executors import DaskExecutor
from osrl.simulation.store import ResultsStore
from tests.support.instances import refused
from tests.support.processes import wait_until
from tests.support.simulations import EASY, campaign_of

RUNS = 200
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")]


class LoopbackCluster:
    """A scheduler and two workers with one thread each, as processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.folder = folder
        self.processes = [self._start("scheduler", "--port", "0")]
        self.address = self._wait_for_address()
        self.workers = [self.add_worker(), self.add_worker()]

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker without a nanny, which would start it again."""
        options = ("--no-nanny", "--nthreads", "1", "--local-directory", str(self.folder))
        worker = self._start("worker", *options)
        self.processes.append(worker)
        return worker

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(60)

    def _start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", kind, "--scheduler-file", str(self.file)]
        loopback = ["--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        with (self.folder / f"{kind}.log").open("ab") as log:
            return subprocess.Popen([*command, *loopback, *options], stdout=log, stderr=log)

    def _wait_for_address(self) -> str:
        found: list[str] = []

        def read() -> bool:
            with suppress(OSError, ValueError):  # it is not there, or half written
                found.append(str(json.loads(self.file.read_text())["address"]))
            return bool(found)

        wait_until(read)
        return found[0]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    found = LoopbackCluster(tmp_path_factory.mktemp("dask"))
    yield found
    found.close()


def threads(workers: int) -> distributed.LocalCluster:
    """Return a cluster object whose workers are threads of this process."""
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
    )


def test_a_killed_worker_loses_nothing(
    cluster: LoopbackCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers are busy; one is killed with chunks under way; the other computes them again."""
    monkeypatch.setattr("osrl.simulation.executors.MIN_DASK_CHUNK_SECONDS", 0.2)
    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    victim = cluster.workers[0]
    done_at_death: list[int] = []

    def kill(done: int, total: int) -> None:
        if done > total / 4 and victim.poll() is None:
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait(60)
            done_at_death.append(done)

    found = osrl.simulate(
        EASY,
        ["osrl-sc", "tas"],
        [0.1, 0.01],
        runs=RUNS,
        dask=cluster.address,
        out=tmp_path / "out",
        progress=kill,
    )
    assert victim.returncode == -signal.SIGKILL
    assert done_at_death[0] < RUNS, "in the middle of the first policy"
    assert len(list((tmp_path / "out").glob("*.parquet"))) > 8
    assert_frame_equal(found.frame, osrl.simulate(EASY, ["osrl-sc", "tas"], [0.1, 0.01], runs=RUNS).frame)


def test_the_command_line_on_a_cluster(
    cluster: LoopbackCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    EASY.save(tmp_path / "easy.toml")
    command = ["simulate", str(tmp_path / "easy.toml"), "--policy", "tas", "--runs", "20", "--json"]
    documents = []
    for engine in ([], ["--dask", cluster.address]):
        assert main([*command, *engine]) == 0
        documents.append(json.loads(capsys.readouterr().out)["results"][0])
    assert {**documents[0], "seconds": 0} == {**documents[1], "seconds": 0}


def test_a_client_and_a_cluster_object(cluster: LoopbackCluster) -> None:
    expected = osrl.simulate(EASY, "tas", runs=20).frame
    with distributed.Client(cluster.address, set_as_default=False) as client:
        assert_frame_equal(osrl.simulate(EASY, "tas", runs=20, dask=client).frame, expected)
        assert client.status == "running", "it is not ours to close"
    with threads(1) as local:
        assert_frame_equal(osrl.simulate(EASY, "tas", runs=20, dask=local).frame, expected)


def test_an_error_on_a_worker_is_raised_here(cluster: LoopbackCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osrl.simulation.campaign.versions", lambda module: {"osrl": "0.0.1"})
    with refused('not {"osrl": "0.0.1"}; install the same everywhere'):
        osrl.simulate(EASY, "tas", runs=5, dask=cluster.address)


def test_what_is_finished_is_kept_when_stopped(cluster: LoopbackCluster) -> None:
    job = campaign_of(EASY, "tas", runs=100).jobs[0]
    with DaskExecutor(cluster.address) as engine:
        engine.prepare([job])
        engine.start(job, 0, 5)
        wait_until(engine._futures.has_ready)
        engine.start(job, 5, 3000)
        kept = engine.stop()
    expected = run_chunk(job, 0, 5)
    assert expected is not None
    assert [chunk.header._replace(seconds=0) for chunk in kept] == [expected.header._replace(seconds=0)]


def test_a_cluster_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osrl.simulation.executors.WORKER_SECONDS", 0.5)
    with threads(0) as local, refused("has had no worker for 0.5 seconds"):
        osrl.simulate(EASY, "tas", runs=5, dask=local)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("workers killed", "no worker of the Dask cluster has been heard of for 3 seconds"),
        ("workers stopped", "no worker of the Dask cluster has been heard of for 3 seconds"),
        ("scheduler stopped", "lost the Dask scheduler (TimeoutError)"),
    ],
)
def test_nobody_waits_for_ever(what: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When all workers or the scheduler fall silent there is an error, and finished runs are kept."""
    monkeypatch.setattr("osrl.simulation.executors.MIN_DASK_CHUNK_SECONDS", 0.2)
    cluster = LoopbackCluster(tmp_path)
    number = signal.SIGKILL if what.endswith("killed") else signal.SIGSTOP
    victims = cluster.workers if what.startswith("workers") else cluster.processes[:1]
    kept: list[int] = []

    def silence(done: int, total: int) -> None:
        kept.append(done)
        if done >= 20:  # only from now on, because a busy machine may be silent for as long
            monkeypatch.setattr("osrl.simulation.executors.WORKER_SECONDS", 3)
            monkeypatch.setattr("osrl.simulation.executors.ANSWER_SECONDS", 2)
            for victim in victims:
                victim.send_signal(number)

    try:
        with DaskExecutor(cluster.address) as engine:
            engine.prepare([])
        with refused(message):
            osrl.simulate(EASY, "tas", runs=50_000, dask=cluster.address, out=tmp_path / "out", progress=silence)
    finally:
        cluster.close()
    left: list[int] = []
    job = campaign_of(EASY, "tas", runs=50_000)
    with ResultsStore(job, tmp_path / "out") as store:
        left.append(store.left())
    assert 50_000 - left[0] == kept[-1] >= 20


def test_a_lost_scheduler_is_an_error_of_one_line(tmp_path: Path) -> None:
    cluster = LoopbackCluster(tmp_path)
    try:

        def kill(done: int, total: int) -> None:
            if done:
                cluster.processes[0].kill()

        with refused("lost the Dask scheduler"):
            osrl.simulate(EASY, "tas", runs=2000, dask=cluster.address, out=tmp_path / "out", progress=kill)
    finally:
        cluster.close()
    assert len(osrl.simulate(EASY, "tas", runs=50, out=tmp_path / "out").frame) == 50

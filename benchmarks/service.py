"""How fast a served study is: ask and tell over HTTP, beside Optuna's gRPC proxy and beside no server.

    python benchmarks/service.py            # everything; writes benchmarks/results/service.md
    python benchmarks/service.py --quick    # short; prints only

Every side keeps every ask and every tell on the disk before it answers: SQLite with a write-ahead log and
synchronous = FULL. All sides take turns in one run, on the same disk. The callers of our server are 32
connections of one process that writes HTTP by hand, so that little of the machine goes to them; Optuna's are
32 threads with its own client. Optuna is given its fastest sampler (RandomSampler) and a single parameter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from osrl.jit.mode import compile_now
from osrl.service.tokens import create_token
from osrl.study.storage.sql import SqlStorage
from osrl.study.study import Study

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = 32
ARMS = 12


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def new_study(place: str, name: str) -> Study:
    """Make a study that never ends: all arms are equal, and the risk is tiny."""
    return Study.create(place, tasks=2, representations=3, predictors=2, delta=1e-12, seed=0, name=name)


# Our server --------------------------------------------------------------------------------------------


class Server:
    """`osrl serve` as a process of its own."""

    def __init__(self, place: str) -> None:
        command = [sys.executable, "-m", "osrl.cli", "serve", place, "--port", "0"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        self.port = int(self._process.stderr.readline().rsplit(":", 1)[1])
        storage = SqlStorage(place, make=True)
        self.token = create_token(storage, "own", None, None).token
        storage.close()

    @property
    def memory(self) -> float:
        """Megabytes that it holds."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    @property
    def seconds(self) -> float:
        """Seconds of the processor that it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()


class Connection:
    """One caller: HTTP by hand over one connection."""

    def __init__(self, server: Server, study: str) -> None:
        self._server, self._study = server, study

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._server.port)

    def close(self) -> None:
        """Let go."""
        self._writer.close()

    async def post(self, what: str, body: dict[str, Any]) -> Any:
        """Return the answer to a call."""
        content = json.dumps(body).encode()
        self._writer.write(
            f"POST /api/v1/studies/{self._study}/{what} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {self._server.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = await self._reader.readexactly(length)
        if b" 200 " not in head[:20]:
            raise RuntimeError(answer.decode())
        return json.loads(answer)


async def pairs(server: Server, study: str, count: int, batch: int = 1, rate: float | None = None) -> list[float]:
    """Ask and tell ``count`` times; the seconds of each call. ``rate``: pairs a second.

    In batches there are two callers: each pending trial adds to what a tell costs.
    """
    connections = [Connection(server, study) for _ in range(CLIENTS if batch == 1 else 2)]
    for each in connections:
        await each.open()
    left, took, rng = count, [], random.Random(0)
    began = time.perf_counter()

    async def call(connection: Connection, what: str, body: dict[str, Any]) -> Any:
        start = time.perf_counter()
        answer = await connection.post(what, body)
        took.append(time.perf_counter() - start)
        return answer

    async def work(connection: Connection) -> None:
        nonlocal left
        while left > 0:
            left -= batch
            if rate is not None:
                due = began + (count - left) / rate
                await asyncio.sleep(max(due - time.perf_counter(), 0))
            if batch == 1:
                trial = await call(connection, "ask", {})
                await call(connection, "tell", {"trial": trial["token"], "reward": rng.randrange(2)})
            else:
                trials = (await call(connection, "ask", {"n": batch}))["trials"]
                rows = [{"trial": each["token"], "reward": rng.randrange(2)} for each in trials]
                await call(connection, "tell-many", {"rewards": rows})

    await asyncio.gather(*map(work, connections))
    for each in connections:
        each.close()
    return took


class Rate(NamedTuple):
    """Pairs a second, and how long calls took: the median and the 99 % quantile, in milliseconds."""

    rate: float
    p50: float
    p99: float


def measure(server: Server, study: str, count: int, batch: int = 1, rate: float | None = None) -> Rate:
    """Measure the rate of our server."""
    began = time.perf_counter()
    took = asyncio.run(pairs(server, study, count, batch, rate))
    seconds = time.perf_counter() - began
    return Rate(count / seconds, *(float(np.quantile(took, q)) * 1e3 for q in (0.5, 0.99)))


def in_process(place: str, count: int) -> float:
    """Pairs a second without a server, by one caller."""
    rng = random.Random(0)
    with new_study(place, f"local-{time.time_ns()}") as study:
        for _ in range(50):
            study.tell(study.ask(), 1)
        began = time.perf_counter()
        for _ in range(count):
            study.tell(study.ask(), rng.randrange(2))
        return count / (time.perf_counter() - began)


# Optuna ------------------------------------------------------------------------------------------------


class OptunaServer:
    """Optuna's gRPC storage proxy as a process of its own, on SQLite with the same durability."""

    def __init__(self, place: str, port: int) -> None:
        self.port = port
        self._process = subprocess.Popen([sys.executable, __file__, "--optuna", place, str(port)])
        import grpc

        grpc.channel_ready_future(grpc.insecure_channel(f"localhost:{port}")).result(60)

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def run_optuna(place: str, port: int) -> None:
    """Run the proxy: the process that `OptunaServer` starts."""
    import optuna
    from sqlalchemy import event

    storage = optuna.storages.RDBStorage(f"sqlite:///{place}", engine_kwargs={"connect_args": {"timeout": 60}})

    def set_up(connection: Any, record: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    event.listen(storage.engine, "connect", set_up)
    storage.engine.dispose()
    optuna.storages.run_grpc_proxy_server(storage, host="localhost", port=port)


def optuna_rate(server: OptunaServer, count: int) -> float:
    """Pairs a second through Optuna's proxy, by as many callers."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.GrpcStorageProxy(host="localhost", port=server.port)
    study = optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(seed=0))
    left, lock = count, threading.Lock()

    def work() -> None:
        nonlocal left
        while True:
            with lock:
                if left <= 0:
                    return
                left -= 1
            trial = study.ask()
            trial.suggest_categorical("arm", range(ARMS))
            study.tell(trial, 1.0)

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (time.perf_counter() - began)


# Streams -----------------------------------------------------------------------------------------------


async def streams(server: Server, study: str, count: int) -> float:
    """Open so many event streams; seconds from a tell until all of them have said so."""
    head = (
        f"GET /api/v1/studies/{study}/events HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {server.token}\r\n\r\n"
    ).encode()
    opened = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head)
        opened.append((reader, writer))
    for reader, _ in opened:
        await reader.readuntil(b'"kind": "create"')
    caller = Connection(server, study)
    await caller.open()
    trial = await caller.post("ask", {})
    began = time.perf_counter()
    await caller.post("tell", {"trial": trial["token"], "reward": 1})
    for reader, _ in opened:
        await reader.readuntil(b"event: tell")
    seconds = time.perf_counter() - began
    for _, writer in opened:
        writer.close()
    caller.close()
    return seconds


def run(quick: bool) -> str:
    """All measurements, as a page."""
    rounds, count, few = (2, 600, 100) if quick else (5, 5_000, 500)
    long, watchers = (3_000, 200) if quick else (100_000, 1_000)
    with tempfile.TemporaryDirectory(prefix="osrl-bench-") as folder:
        place = f"{folder}/studies.db"
        server, other = Server(place), OptunaServer(f"{folder}/optuna.db", 18_765)
        try:
            return _measure_all(place, server, other, rounds, count, few, long, watchers)
        finally:
            server.end()
            other.end()


def _measure_all(
    place: str,
    server: Server,
    other: OptunaServer,
    rounds: int,
    count: int,
    few: int,
    long: int,
    watchers: int,
) -> str:
    ours, alone, theirs, batched = [], [], [], []
    for turn in range(rounds):
        for name in (f"s{turn}", f"b{turn}"):
            new_study(place, name).close()
        measure(server, f"s{turn}", 200)
        ours.append(measure(server, f"s{turn}", count))
        batched.append(measure(server, f"b{turn}", 10 * count, batch=100).rate)
        alone.append(in_process(place, count))
        theirs.append(optuna_rate(other, few))
        say(
            f"turn {turn + 1}: {ours[-1].rate:,.0f} served, {batched[-1]:,.0f} in batches of 100, "
            f"{alone[-1]:,.0f} without a server, Optuna {theirs[-1]:,.1f}"
        )
    top = float(np.median([each.rate for each in ours]))
    half = measure(server, "s0", count, rate=top / 2)
    new_study(place, "long").close()
    measure(server, "long", 500)
    before, seconds = server.memory, server.seconds
    measure(server, "long", long)
    after, used = server.memory, server.seconds - seconds
    new_study(place, "watched").close()
    said = asyncio.run(streams(server, "watched", watchers))
    local, optuna = float(np.median(alone)), float(np.median(theirs))
    rows = [
        ("`osrl serve`", f"{CLIENTS} callers", top),
        ("the same in batches of 100", "2 callers", float(np.median(batched))),
        ("without a server", "one caller", local),
        ("Optuna with its gRPC proxy", f"{CLIENTS} callers", optuna),
    ]
    lines = [
        "# A served study",
        "",
        f"`python benchmarks/service.py`: {os.cpu_count()} cores, SQLite, Optuna {version('optuna')}; "
        f"medians of {rounds} turns.",
        "",
        "| pairs of ask and tell | | a second | beside ours |",
        "|---|---|---|---|",
        *(f"| {what} | {who} | {rate:,.1f} | {rate / top:.3g} |" for what, who, rate in rows),
        "",
        f"The server is {top / optuna:,.1f} times as fast as Optuna's, and has {top / local:.2f} of our own "
        "rate without a server.",
        "",
        f"At half of the top rate ({half.rate:,.0f} pairs a second) a call takes {half.p50:.1f} ms (median) "
        f"and {half.p99:.1f} ms (99 %).",
        "",
        f"Memory: {before:,.0f} MB after 500 pairs, {after:,.0f} MB after {long:,} more, each of which took "
        f"{1e6 * used / long:,.0f} µs of the processor in the server.",
        "",
        f"With {watchers:,} event streams open, a tell has reached all of them after {said:.2f} s.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Parse the command line, measure, and print."""
    os.environ["OSRL_COMPILE"] = "now"  # servers begin with machine code
    compile_now()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--optuna", nargs=2, metavar=("FILE", "PORT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.optuna:
        run_optuna(given.optuna[0], int(given.optuna[1]))
        return
    page = run(given.quick)
    print(page)
    if not given.quick:
        (ROOT / "benchmarks" / "results" / "service.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

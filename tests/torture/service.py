"""Attacks on a server, with a token and without one: see `tests.torture.run`."""

from __future__ import annotations

import os
import random
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import polars as pl

from osrl.service.app import ROUTES
from osrl.service.tokens import ROLES, create_token
from osrl.study.storage.sql import SqlStorage
from osrl.study.study import Study
from tests.support.processes import wait_until
from tests.support.servers import NAMES, Process, Serving, serving
from tests.torture.base import Found, folder

STUDIES = "/api/v1/studies"
MOST_MEMORY = 150  # megabytes by which a server may grow under an attack
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@contextmanager
def server_process(**settings: Any) -> Iterator[tuple[Process, str, str]]:
    """Start a server as a process of its own; give it, the token of its owner, and its database."""
    with folder() as place:
        path = str(place / "studies.db")
        storage = SqlStorage(path, make=True)
        token = create_token(storage, "own", None, None).token
        storage.close()
        with Study.create(path, **NAMES, policy="uniform", name="one", **settings):
            pass
        process = Process(path)
        try:
            with client(process.url, token) as http:  # whatever is loaded for the first call
                assert http.post(f"{STUDIES}/one/ask", json={"key": "first"}).status_code == 200
                assert http.post(f"{STUDIES}/one/tell", json={"key": "first", "reward": 1}).status_code == 200
            yield process, token, path
        finally:
            if process.process.poll() is None:
                process.kill()


def client(url: str, token: str, **given: Any) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60, **given)


def connect(url: str, buffer: int | None = None) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    made = socket.socket()
    if buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    made.settimeout(30)
    made.connect((host, int(port)))
    return made


def memory(process: Process) -> float:
    """Return the megabytes that a process has in memory."""
    status = Path(f"/proc/{process.process.pid}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) / 1000


def endless_headers(times: int) -> Found:
    """Send headers without a token for as long as they are read."""
    with server_process() as (process, token, _), client(process.url, token) as http:
        before, most, survived = memory(process), 0, 0
        for _ in range(times):
            sent = 0
            with connect(process.url) as attacker, suppress(OSError):
                attacker.sendall(GET)
                while sent < 2**24:
                    attacker.sendall(b"a: b\r\n" * 2**12)
                    sent += 6 * 2**12
            most = max(most, sent)
            survived += sent < 2**24 and http.post(f"{STUDIES}/one/ask", json={}).status_code == 200
        grown = memory(process) - before
    return Found(times, survived if grown < MOST_MEMORY else 0, f"cut off, the server grew by {grown:.0f} MB")


def half_open(times: int) -> Found:
    """Open sockets on which a request begins and does not go on."""
    with server_process() as (process, token, _), client(process.url, token) as http:
        sockets = [connect(process.url) for _ in range(times)]
        for i, each in enumerate(sockets):
            each.sendall((b"", b"GET /", GET)[i % 3])
        answered = http.post(f"{STUDIES}/one/ask", json={}).status_code == 200
        closed = 0
        for each in sockets:
            with each, suppress(OSError):
                while each.recv(4096):
                    pass
                closed += 1
    return Found(times, closed if answered else 0, "closed after 10 s; asks are answered meanwhile")


def panics(times: int) -> Found:
    """Let polars panic inside of reads: no place is lost."""

    def panic(study: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds")

    with folder() as place, serving(str(place / "s.db")) as server, server.client() as http:
        http.post(STUDIES, json={"name": "one", **NAMES, "policy": "uniform"})
        with patch.object(Study, "evidence", property(panic)):
            survived = sum(http.get(f"{STUDIES}/one/evidence").status_code == 500 for _ in range(times))
        works = http.get(f"{STUDIES}/one/evidence").status_code == 200
    return Found(times, survived if works else 0, "each is an error (500), and reads go on")


def unread_downloads(times: int) -> Found:
    """Start downloads of a log of 200 MB that nobody reads."""
    block = b"x" * 2**20
    survived = 0
    with folder() as place, serving(str(place / "s.db")) as server, server.client() as http:
        http.post(STUDIES, json={"name": "one", **NAMES, "policy": "uniform"})
        scratch = place / "scratch"
        scratch.mkdir()
        with (
            patch.object(Study, "log_parts", lambda study, suffix: iter([block] * 200)),
            patch.object(tempfile, "tempdir", str(scratch)),
        ):
            readers = []
            for _ in range(times):
                readers.append(reader := connect(server.url, 4096))
                token = server.token("read")
                line = f"GET {STUDIES}/one/log HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}"
                reader.sendall(f"{line}\r\n\r\n".encode())
                kept = sum(file.stat().st_size for file in scratch.rglob("*"))
                survived += kept == 0 and reader.recv(12) in (b"HTTP/1.1 200", b"HTTP/1.1 429")
            for reader in readers:
                reader.close()
    return Found(times, survived, "nothing on the disk; four are sent at a time, the others refused (429)")


def stalled_streams(times: int) -> Found:
    """Tell a server to end while it sends streams of events that nobody reads."""
    with server_process() as (process, token, path):
        with Study.open(path) as study:
            study.ask(n=1000, note={"a": "b" * 900})
        line = f"GET {STUDIES}/one/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        streams = [connect(process.url, 4096) for _ in range(times)]
        for each in streams:
            each.sendall(line.encode())
        began = sum(each.recv(12) == b"HTTP/1.1 200" for each in streams)
        taken = memory(process)
        told_to_end = time.monotonic()
        process.end()
        took = time.monotonic() - told_to_end
        for each in streams:
            each.close()
        said = len(process.said)
    sound = said < 10_000
    return Found(
        times,
        began if sound else 0,
        f"{taken:.0f} MB of memory; ended within {took:.1f} s, with {said} letters on its log",
    )


def strangers(times: int) -> Found:
    """Send requests without a token, with wrong ones, and in wrong places, to all routes by all methods."""
    rng = random.Random(1)
    paths = sorted({route.path for route in ROUTES} - {"/healthz", "/session"})
    survived = 0
    with folder() as place, serving(str(place / "s.db")) as server:
        token = server.token()
        _, id, secret = token.split("_", 2)
        wrong: list[dict[str, str]] = [
            {},
            {"Authorization": f"Bearer osrl_{id}_{'A' * 43}"},
            {"Authorization": f"Bearer {token[:-1]}"},
            {"Authorization": f"Basic {token}"},
            {"Authorization": token},
            {"Cookie": f"osrl-token=osrl_{id}_{secret[::-1]}"},
            {"X-Token": token},
        ]
        with httpx.Client(base_url=server.url, timeout=60) as http:
            for _ in range(times):
                path = rng.choice(paths).replace("{name:study}", "one").replace("{", "").replace("}", "")
                method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"])
                answer = http.request(method, path, headers=rng.choice(wrong), params={"token": token})
                survived += answer.status_code == 401
    return Found(times, survived, f"{len(paths)} routes, six methods, seven kinds of wrong tokens: 401")


BY_ROLE = {
    "read": ["GET status", "GET evidence", "GET arms", "GET history", "GET log", "GET verify", "GET events"],
    "operate": ["POST ask", "POST tell", "POST abandon", "POST tell-many", "POST abandon-many", "POST track"],
    "own": [
        "POST pause",
        "POST resume",
        "POST close",
        "POST withdraw",
        "POST add",
        "POST correct",
        "POST amend",
    ],
}
ALLOWED = {"blind": ("operate",), "read": ("read",), "operate": ("read", "operate"), "own": tuple(BY_ROLE)}


def crossed_roles(times: int) -> Found:
    """Try every role at every route, in its study, in another one and in none: refused where not allowed."""
    tried = survived = 0
    with folder() as place, serving(str(place / "s.db")) as server, server.client() as owner:
        for name in ("one", "two"):
            owner.post(STUDIES, json={"name": name, **NAMES, "policy": "uniform"})
        for role in ROLES:
            with server.client(role, "one") as http:
                for needed, calls in BY_ROLE.items():
                    for call in calls:
                        for study in ("one", "two", "nobody"):
                            if tried >= times:
                                return Found(tried, survived, "403, and nothing is said of other studies")
                            if study == "one" and needed in ALLOWED[role]:
                                continue
                            method, what = call.split()
                            answer = http.request(method, f"{STUDIES}/{study}/{what}")
                            tried, survived = tried + 1, survived + (answer.status_code == 403)
    return Found(tried, survived, "403, and nothing is said of other studies")


VALUES: list[Any] = [
    None, True, 0, 1, -1, 2**70, 0.5, 1e308, "", "one", "\u0000", "x" * 5000, "=1+1", [], [[]], {}, {"a": 1},
    {"trial": 1}, [{"trial": 1, "reward": 1}], [{"key": "k"}], "2h", "young",
]  # fmt: skip


def fuzzed_calls(times: int) -> Found:
    """Call as an owner with fields of any kind: an answer or a refusal, and never a failure."""
    rng = random.Random(2)
    fields = [
        "trial",
        "reward",
        "key",
        "note",
        "n",
        "task",
        "lease",
        "rewards",
        "trials",
        "by",
        "reason",
        "harm",
    ]
    fields += [
        "budget",
        "representation",
        "predictor",
        "ignorable",
        "context",
        "targetingKey",
        "name",
        "tasks",
    ]
    calls = [call.split()[1] for kind in ("operate", "own") for call in BY_ROLE[kind] if "close" not in call]
    survived, failures = 0, []
    with folder() as place, serving(str(place / "s.db")) as server, server.client() as http:
        http.post(STUDIES, json={"name": "one", **NAMES, "policy": "uniform"})
        for _ in range(times):
            body = {name: rng.choice(VALUES) for name in rng.sample(fields, rng.randrange(4))}
            path = rng.choice([f"{STUDIES}/one/{rng.choice(calls)}", "/ofrep/v1/evaluate/flags/one", STUDIES])
            answer = http.post(path, json=rng.choice([body, rng.choice(VALUES)]))
            survived += answer.status_code < 500
            if answer.status_code >= 500:
                failures.append(f"{path} {body}")
        sound = http.get(f"{STUDIES}/one/verify").json()["ok"]
    said = failures[0] if failures else "no failure (5xx), and the log replays"
    return Found(times, survived if sound else 0, said)


def repeated_requests(times: int) -> Found:
    """Use the same Idempotency-Key for another subject."""
    survived = 0
    with folder() as place, serving(str(place / "s.db")) as server, server.client() as http:
        http.post(STUDIES, json={"name": "one", **NAMES, "policy": "uniform"})
        for i in range(times):
            headers = {"Idempotency-Key": f"request-{i}"}
            first = http.post(f"{STUDIES}/one/ask", json={"key": f"a{i}"}, headers=headers)
            other = http.post(f"{STUDIES}/one/ask", json={"key": f"b{i}"}, headers=headers)
            survived += first.status_code == 200 and other.status_code == 422
    return Found(times, survived, "refused (422)")


def killed_servers(times: int) -> Found:
    """Kill a server, or suspend it for a while, under eight callers: what it acknowledged is there."""
    told, lost = 0, 0
    for i in range(times):
        with server_process() as (process, token, path):
            acknowledged: list[int] = []
            over = threading.Event()

            def work(url: str, token: str, done: list[int], over: threading.Event) -> None:
                with client(url, token) as http, suppress(httpx.HTTPError, KeyError):
                    while not over.is_set():
                        trial = http.post(f"{STUDIES}/one/ask", json={}).json()["trial"]
                        if http.post(f"{STUDIES}/one/tell", json={"trial": trial, "reward": 1}).status_code == 200:
                            done.append(trial)

            with ThreadPoolExecutor(8) as pool:
                for _ in range(8):
                    pool.submit(work, process.url, token, acknowledged, over)
                wait_until(lambda done=acknowledged: len(done) > 200)  # type: ignore[misc]
                if i % 2:
                    process.process.send_signal(signal.SIGSTOP)
                    time.sleep(0.5)  # a machine that is suspended for so long
                    process.process.send_signal(signal.SIGCONT)
                    wait_until(lambda done=acknowledged: len(done) > 400)  # type: ignore[misc]
                process.kill()
                over.set()
            with Study.open(path) as study:
                stored = set(study.history.filter(status="told")["trial"].to_list())
                sound = study.verify().ok
            told += len(acknowledged)
            lost += len(set(acknowledged) - stored) if sound else len(acknowledged)
    return Found(told, told - lost, f"tells that were acknowledged, by {times} servers")


def foreign_sites(times: int) -> Found:
    """Sign in, and write with a cookie, from pages of other sites; send two hosts, and other hosts."""
    survived = 0
    with folder() as place, serving(str(place / "s.db")) as server:
        token = server.token()
        cookie = {"Cookie": f"osrl-token={token}"}
        foreign = [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
        for i in range(times):
            headers = foreign[i % 3]
            if i % 2:
                answer = httpx.post(f"{server.url}/session", data={"token": token}, headers=headers)
                survived += answer.status_code == 403 and "set-cookie" not in answer.headers
            else:
                survived += _hosts(server) and (
                    httpx.post(f"{server.url}{STUDIES}", json=NAMES, headers=headers | cookie).status_code == 403
                )
    return Found(times, survived, "403; two headers Host, or another one: 400")


def _hosts(server: Serving) -> bool:
    for hosts in ("evil.example", "localhost\r\nHost: evil.example", "evil.example\r\nHost: localhost"):
        with connect(server.url) as caller:
            caller.sendall(f"GET /healthz HTTP/1.1\r\nHost: {hosts}\r\n\r\n".encode())
            if not caller.recv(12).endswith(b" 400"):
                return False
    return True


def replaced_databases(times: int) -> Found:
    """Put another database under the same name: the tokens of the first one end."""
    survived = 0
    for _ in range(times):
        with folder() as place:
            path, other = str(place / "s.db"), place / "other.db"
            with Study.create(str(other), **NAMES, policy="uniform", name="one"):
                pass
            with serving(path) as server, server.client() as http:
                http.get(STUDIES)
                for suffix in ("-wal", "-shm"):
                    Path(f"{path}{suffix}").unlink(missing_ok=True)
                os.replace(other, path)
                survived += _in_time(lambda http=http: http.get(STUDIES).status_code == 401)  # type: ignore[misc]
    return Found(times, survived, "unknown (401) within a second or two")


def _in_time(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return False

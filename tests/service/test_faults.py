"""What a server survives: being killed, a database that goes away, a restart; and how it ends."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from osrl.client import connect, transport
from osrl.service.tokens import create_token
from osrl.study.log.events import Told
from osrl.study.storage.sql import SqlStorage
from osrl.study.study import Study
from tests.support.databases import new_place, own_server, remove_place
from tests.support.processes import wait_until
from tests.support.requirements import missing
from tests.support.servers import NAMES, Process, free_port, serving

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {**NAMES, "policy": "uniform", "seed": 1, "delta": 1e-12}


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that look again soon; how often they try does not matter here, but that they do."""
    monkeypatch.setattr(transport, "LONGEST_WAIT", 0.3)


def new(place: str) -> str:
    """A study at a place, and a token for it."""
    Study.create(place, **SETTINGS).close()
    storage = SqlStorage(place)
    token = create_token(storage, "operate", "study", None).token
    storage.close()
    return token


class Load:
    """Clients that ask and tell without a pause, each trial with a key of its own; what was acknowledged."""

    def __init__(self, url: str, token: str, clients: int = 8) -> None:
        self.asked: dict[str, int] = {}
        self.told: dict[int, float] = {}
        self.errors: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(url, token, i)) for i in range(clients)]

    def _work(self, url: str, token: str, client: int) -> None:
        rng = random.Random(client)
        try:
            with connect(url, token, "study") as study:
                count = 0
                while not self._stop.is_set():
                    count += 1
                    key = f"{client}-{count}" if count % 2 else None  # of the others only the client knows
                    trial = study.ask(key=key)
                    self.asked[key or f"{client}-{count}"] = trial.id
                    reward = float(rng.randrange(2))
                    study.tell(trial, reward)
                    self.told[trial.id] = reward
        except BaseException as error:
            self.errors.append(error)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)

    def wait_for(self, results: int) -> None:
        """Return when so many more results are acknowledged, or a client has failed."""
        enough = len(self.told) + results
        wait_until(lambda: len(self.told) >= enough or self.errors)

    def check(self, place: str) -> None:
        """All that was acknowledged is there, and no trial was handed out twice."""
        assert not self.errors, self.errors
        assert len(set(self.asked.values())) == len(self.asked)
        with Study.open(place) as study:
            stored = {each.body.trial: each.body.reward for each in study.events() if isinstance(each.body, Told)}
            assert stored == self.told
            assert study.trials == len(self.asked)  # no second trial for any ask, with a key or without
            assert study.verify().ok


def kill_again_and_again(path: str, kills: int) -> None:
    token = new(path)
    rng = random.Random(kills)
    server = Process(path)
    port = server.port
    with Load(server.url, token) as load:
        for _ in range(kills):
            load.wait_for(rng.randrange(10, 30))  # so it is killed at another moment each time
            server.kill()
            server = Process(path, port)
        load.wait_for(10)
    server.end()
    load.check(path)


def test_a_server_that_is_killed_loses_nothing(path: str) -> None:
    kill_again_and_again(path, 2)


@pytest.mark.validate
def test_a_server_that_is_killed_a_hundred_times_loses_nothing(path: str) -> None:
    kill_again_and_again(path, 100)


def test_it_ends_with_streams_open(path: str) -> None:
    token = new(path)
    server = Process(path)
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=30) as http:
        events = "/api/v1/studies/study/events"
        with http.stream("GET", events) as one, http.stream("GET", events) as other:
            assert next(one.iter_lines()) and next(other.iter_lines())
            answers: list[int] = []

            def ask() -> None:
                answers.append(
                    httpx.post(f"{server.url}/api/v1/studies/study/ask", json={}, headers=headers).status_code
                )

            thread = threading.Thread(target=ask)
            thread.start()
            thread.join(20)
            server.end()
        assert answers == [200]
    with Study.open(path) as study:
        assert study.trials == 1


def test_it_does_not_wait_for_what_takes_long(path: str) -> None:
    """A forecast or a verification may take minutes; the server ends while they still run."""
    new(path)
    running, free, done = threading.Event(), threading.Event(), threading.Event()
    with serving(path) as server, server.client() as http:
        context = server.application.context
        assert http.get("/api/v1/studies/study").status_code == 200
        loop = context.workers._workers["study"]._loop

        def slow(study: object) -> None:
            running.set()
            free.wait(60)
            done.set()

        loop.call_soon_threadsafe(lambda: context.workers._workers["study"].do(slow))
        asyncio.run_coroutine_threadsafe(context.workers.look("study", slow), loop)
        assert running.wait(60)
    assert not done.is_set()
    free.set()


def test_a_database_that_goes_away_and_comes_back() -> None:
    with own_server() as database:
        token = new(database.url)
        with serving(database.url) as server, Load(server.url, token, clients=4) as load:
            load.wait_for(5)
            database.stop()
            headers = {"Authorization": f"Bearer {token}"}
            answer = httpx.post(f"{server.url}/api/v1/studies/study/ask", json={}, headers=headers, timeout=60)
            assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1
            assert answer.json()["type"] == "StorageError"
            assert httpx.get(f"{server.url}/healthz").status_code == 200
            database.start()
            load.wait_for(5)
        assert not load.errors
        load.check(database.url)


@contextmanager
def nginx(program: str, folder: Path, servers: list[int]) -> Iterator[str]:
    """Start a proxy before several servers, which it shows under /osrl/; give its address."""
    port = free_port()  # nginx cannot say which port the system has chosen
    upstream = "\n".join(f"server 127.0.0.1:{each} max_fails=1 fail_timeout=1s;" for each in servers)
    places = "\n".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"""daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
        events {{ worker_connections 200; }}
        http {{ access_log off; {places}
          upstream osrl {{ {upstream} keepalive 16; }}
          server {{ listen 127.0.0.1:{port}; location /osrl/ {{ proxy_pass http://osrl;
            proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
            proxy_buffering off; }} }} }}"""
    )
    process = subprocess.Popen([program, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/error.log"])
    try:
        yield f"http://127.0.0.1:{port}/osrl"
    finally:
        process.terminate()
        process.wait(10)


def test_two_servers_behind_a_proxy(tmp_path: Path) -> None:
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        missing("nginx is not installed (Debian: apt-get install nginx)")
    place = new_place("postgresql", tmp_path)
    try:
        token = new(place)
        one, other = (Process(place, 0, "--root-path", "/osrl") for _ in range(2))
        with nginx(program, tmp_path, [one.port, other.port]) as url:
            with Load(url, token, clients=4) as load:
                load.wait_for(20)
                one.kill()
                load.wait_for(20)
            other.end()
        load.check(place)
    finally:
        remove_place(place)

"""Clients that mean harm, with a token or without: what each of them costs the server."""

from __future__ import annotations

import asyncio
import logging
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NoReturn

import httpx
import polars as pl
import pytest

from osrl.errors import StorageError
from osrl.service import downloads, event_stream, workers
from osrl.service.middleware import SECURITY
from osrl.service.protocol import Limits
from osrl.study.storage.sql import SqlStorage
from osrl.study.study import Study
from tests.support.processes import wait_until
from tests.support.servers import NAMES, STUDIES, Serving, raw, serving, until_end

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"POST /session HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(str(tmp_path_factory.mktemp("hostile") / "studies.db")) as found:
        begin(found)
        yield found


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that waits for nobody."""
    limits = Limits(head_seconds=0.2, body_seconds=0.4, stall_seconds=0.3)
    with serving(str(tmp_path_factory.mktemp("hasty") / "studies.db"), limits=limits) as found:
        begin(found)
        yield found


def begin(server: Serving) -> None:
    with server.client() as http:
        made = http.post(STUDIES, json={"name": "one", **NAMES, "policy": "uniform", "seed": 1})
        assert made.status_code == 201


@pytest.mark.parametrize(
    "begin",
    [GET, GET + b"X: ", b"GET /", b"\r\n", CHUNKED + b"0\r\n", CHUNKED + b"0\r\nX: ", CHUNKED + b"1;"],
    ids=["headers", "one header", "address", "empty lines", "trailers", "one trailer", "extension"],
)
def test_headers_end_within_64_kb(server: Serving, begin: bytes) -> None:
    """A client without a token that never ends its headers is cut off, and read no further."""
    filler = {GET: b"a: b\r\n", b"\r\n": b"\r\n", CHUNKED + b"0\r\n": b"a: b\r\n"}.get(begin, b"aaaaaa")
    most = 2**16 + (2**14 if begin.startswith(CHUNKED) else 0)  # a part of a body may be counted late
    with raw(server) as attacker:
        attacker.sendall((begin + filler * most)[:most])
        answer = until_end(attacker)
    assert answer.startswith(b"HTTP/1.1 431 "), answer[:200]
    for name, value in SECURITY.items():
        assert f"{name}: {value}\r\n".encode() in answer


def test_headers_of_nearly_64_kb_are_read(server: Serving) -> None:
    with raw(server) as client:
        for _ in range(2):  # the count begins anew with every request
            client.sendall(GET + b"X: " + b"a" * 65_000 + b"\r\n\r\n")
            assert client.recv(2**16).startswith(b"HTTP/1.1 200 ")


def test_many_small_chunks_are_read(server: Serving) -> None:
    with server.client() as http:
        body = (b'{"n": 2, "note": {"a": "' + b"b" * 900 + b'"}}').ljust(20_000)
        sent = (body[i : i + 1] for i in range(len(body)))
        answer = http.post(f"{STUDIES}/one/ask", content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", b""),
        (b"GET / HTT", b"HTTP/1.1 408 "),
        (GET, b"HTTP/1.1 408 "),
        (CHUNKED, b"HTTP/1.1 408 "),
        (CHUNKED + b"5\r\nab", b"HTTP/1.1 408 "),
        (GET + b"Content-Length: 9\r\n\r\n", b"HTTP/1.1 200 "),
        (GET + b"\r\n" + GET, b"HTTP/1.1 200 "),
    ],
    ids=[
        "nothing",
        "address",
        "headers",
        "no body",
        "half a body",
        "body of an answered one",
        "the second one",
    ],
)
def test_a_request_that_never_ends_is_ended(
    hasty: Serving, sent: bytes, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with raw(hasty) as slow, caplog.at_level(logging.DEBUG):
        slow.sendall(sent)
        answer = until_end(slow)  # the server closes it
    assert answer.startswith(said) and bool(answer) == bool(said), answer[:200]
    assert not [record for record in caplog.records if record.exc_info]
    assert httpx.get(f"{hasty.url}/healthz").status_code == 200


def test_an_open_stream_has_no_deadline(hasty: Serving) -> None:
    """Deadlines are those of requests: an answer may take as long as it likes."""
    with hasty.client() as http, http.stream("GET", f"{STUDIES}/one/events") as stream, raw(hasty) as slow:
        lines = stream.iter_lines()
        assert next(lines)
        until_end(slow)  # longer than a request may take
        http.post(f"{STUDIES}/one/ask", json={})
        assert any("event: ask" in line for line in lines)


def test_a_panic_gives_its_place_back(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A panic of polars is no `Exception`: as many as there are places to read, and reads still work."""

    def panic(study: object) -> NoReturn:
        raise pl.exceptions.PanicException("index out of bounds")

    with server.client() as http:
        with monkeypatch.context() as patch:
            patch.setattr(Study, "evidence", property(panic))
            patch.setattr(Study, "verify", lambda study, head: panic(study))
            patch.setattr(Study, "pause", lambda study, reason, by: panic(study))
            for _ in range(9):
                for answer in (
                    http.get(f"{STUDIES}/one/evidence"),
                    http.get(f"{STUDIES}/one/verify"),
                    http.post(f"{STUDIES}/one/pause", json={"reason": "a test"}),
                ):
                    assert answer.status_code == 500 and answer.headers["x-frame-options"] == "DENY"
                    assert answer.json()["detail"] == "the server has failed; its log says why"
        assert http.get(f"{STUDIES}/one/evidence").status_code == 200
        assert http.get(f"{STUDIES}/one/verify").json()["ok"]
        assert http.post(f"{STUDIES}/one/ask", json={}).status_code == 200
        assert http.get("/healthz").text == "alive\n"


def test_health_says_whether_reads_come_back(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "HEALTH_TIMEOUT", 0.05)
    monkeypatch.setattr(workers, "HEALTH_SECONDS", 0.0)
    free = threading.Event()
    with serving(path) as server:
        found: workers.Workers = server.application.context.workers
        health = f"{server.url}/healthz"
        assert httpx.get(health).text == "alive\n"
        monkeypatch.setattr(workers.Workers, "_touch", lambda self: free.wait(60))
        stuck = httpx.get(health)
        assert (stuck.status_code, stuck.text) == (503, "reads do not come back\n")

        def away(self: workers.Workers) -> None:
            raise StorageError("the database is away; call again")

        monkeypatch.setattr(workers.Workers, "_touch", away)
        free.set()
        lost = httpx.get(health)
        assert (lost.status_code, lost.text) == (200, "alive, but the storage is out of reach\n")
        assert found._reading._value == 8  # every place was given back


def stalled(server: Serving, token: str, path: str) -> socket.socket:
    """A client that has asked for something, and does not read it."""
    connection = raw(server)
    lines = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    connection.sendall(lines.encode())
    return connection


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_downloads_that_nobody_reads(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    """Each kept a copy of the log on the disk: none does now, there are few, and their time is limited."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    begun = large_logs(monkeypatch)
    with serving(path) as server, server.client() as owner:
        begin(server)
        places = server.application.context.downloads
        log, token = f"{STUDIES}/one/log?format={format}", server.token("read")
        readers = [stalled(server, token, log) for _ in range(downloads.MAX_DOWNLOADS)]
        wait_until(lambda: len(begun) == downloads.MAX_DOWNLOADS and not list(folder.iterdir()))
        assert places.open == downloads.MAX_DOWNLOADS
        refused = owner.get(log)
        assert refused.status_code == 429 and refused.headers["retry-after"]
        for reader in readers:
            reader.close()
        wait_until(lambda: places.open == 0)
        monkeypatch.setattr(downloads, "MAX_SECONDS", 0.0)
        with pytest.raises(httpx.RemoteProtocolError):
            owner.get(log)
        assert places.open == 0 and not list(folder.iterdir())


def test_a_client_that_reads_nothing_is_cut_off(hasty: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = large_logs(monkeypatch)
    places = hasty.application.context.downloads
    with stalled(hasty, hasty.token("read"), f"{STUDIES}/one/log") as reader:
        wait_until(lambda: bool(begun) and places.open == 0)
        assert not until_end(reader).endswith(b"0\r\n\r\n")  # the answer is not complete


def large_logs(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Let logs have 200 MB, or as a table 20; what is returned grows with each that is begun."""
    begun: list[object] = []
    block = b"x" * 2**20

    def parts(study: Study, suffix: str) -> Iterator[bytes]:
        begun.append(study)
        return (block for _ in range(200))

    def write(study: Study, file: Path) -> None:
        file.write_bytes(block * 20)
        begun.append(study)

    monkeypatch.setattr(Study, "log_parts", parts)
    monkeypatch.setattr(Study, "write_log", write)
    return begun


def test_a_stream_holds_few_bytes_however_long_its_events_are(path: str) -> None:
    """Not 500 events with long notes for each of 2,000 clients that do not read."""
    with serving(path) as server, server.client() as http:
        begin(server)
        http.post(f"{STUDIES}/one/ask", json={"n": 300, "note": {"a": "b" * 900}})

        async def parts() -> list[bytes]:
            found = event_stream.Feeds(server.application.context.storage)
            stream = found.stream(1, -1, lambda: True)
            return [await anext(stream) for _ in range(5)]

        retry, *rest = asyncio.run(parts())
        assert retry.startswith(b"retry") and max(map(len, rest)) <= event_stream.MAX_PAGE_BYTES
        ids = [int(line[4:]) for line in b"".join(rest).split(b"\n") if line.startswith(b"id: ")]
        assert ids == list(range(len(ids))) and len(ids) > 100  # without a gap


def test_streams_that_wait_to_read_do_so_no_more_at_the_end(path: str) -> None:
    storage = SqlStorage(path, make=True)
    found = event_stream.Feeds(storage)
    found.closing = True
    assert asyncio.run(found._earlier(event_stream.Feed(storage, 1, 0), 0)) == []  # there is no study 1
    storage.close()


def test_the_end_does_not_wait_for_clients_that_do_not_read(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor for anything that takes long; and no error is logged for each of them."""
    began, free = threading.Event(), threading.Event()

    async def endless(*given: object) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 2**20
            await asyncio.sleep(0)

    def slow(study: Study) -> None:
        began.set()
        free.wait(60)

    monkeypatch.setattr(event_stream.Feeds, "stream", endless)
    with caplog.at_level(logging.WARNING), serving(path) as server, server.client() as owner:
        owner.post(STUDIES, json={"name": "one", **NAMES, "policy": "uniform"})
        token = server.token("read")
        readers = [stalled(server, token, f"{STUDIES}/one/events") for _ in range(50)]
        monkeypatch.setattr(Study, "evidence", property(slow))
        readers.append(stalled(server, token, f"{STUDIES}/one/evidence"))
        assert began.wait(60)
        connections = server._server.server_state.connections
        wait_until(lambda: sum(each.flow.write_paused for each in connections) == 50)  # type: ignore[union-attr]
    assert not [record for record in caplog.records if record.exc_info]
    assert b"HTTP/1.1 503 " in readers[-1].recv(2**16)
    free.set()
    for reader in readers:
        reader.close()

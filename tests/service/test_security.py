"""Who may do what, and what every answer has: each a test of its own."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import Response

from osrl.cli import main
from osrl.errors import OsrlError
from osrl.service import event_stream, middleware, workers
from osrl.service.app import ROUTES, Application
from osrl.service.middleware import COOKIE, SECURITY
from osrl.service.routing import OPEN, Route
from osrl.service.server import read_token_file
from osrl.service.tables import tokens
from osrl.service.tokens import Permission, TokenCache, create_token, new_token
from osrl.study.storage.sql import SqlStorage
from tests.support.processes import wait_until
from tests.support.servers import NAMES, Serving, serving

STUDIES = "/api/v1/studies"


def every_route() -> list[tuple[str, str]]:
    """All routes of the application, and one that is not there."""
    return sorted({*((route.method, route.path) for route in ROUTES), ("GET", "/nowhere")})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(str(tmp_path_factory.mktemp("security") / "studies.db")) as found:
        with found.client() as http:
            for name in ("one", "two"):
                made = http.post(STUDIES, json={"name": name, **NAMES, "policy": "uniform", "seed": 1})
                assert made.status_code == 201
        yield found


@pytest.fixture
def stranger(server: Serving) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


def concrete(path: str) -> str:
    return re.sub(r"\{(\w+)\}", "one", path)


@pytest.mark.parametrize(("method", "path"), every_route())
def test_every_route_needs_a_token(stranger: httpx.Client, method: str, path: str) -> None:
    if (method, path) == ("DELETE", "/session"):
        return  # signing out only forgets a cookie
    for headers in (
        {},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": f"Bearer {new_token().token}"},
    ):
        answer = stranger.request(method, concrete(path), headers=headers)
        if path == "/healthz" and method == "GET":
            assert answer.text == "alive\n"
        else:
            assert answer.status_code == 401, answer.text
            assert answer.headers["content-type"] == "application/problem+json"
        for name, value in SECURITY.items():
            assert answer.headers[name] == value


def test_there_are_all_the_routes_that_are_promised() -> None:
    wanted = {"ask", "tell", "tell-many", "abandon", "track", "status", "evidence", "arms", "history", "log"}
    paths = {path for _, path in every_route()}
    for each in wanted | {"events", "verify"}:
        assert f"{STUDIES}/{{name}}/{each}" in paths
    assert {"/ofrep/v1/evaluate/flags", "/ofrep/v1/evaluate/flags/{name}", "/healthz"} <= paths


def test_a_token_for_a_study_whose_name_has_a_slash(server: Serving) -> None:
    with server.client() as owner:
        for name in ("team/one", "team"):
            made = owner.post(STUDIES, json={"name": name, **NAMES, "policy": "uniform", "seed": 1})
            assert made.status_code == 201, made.text
            assert owner.get(made.headers["location"]).json()["study"] == name
        assert owner.post(STUDIES, json={"name": "..", **NAMES}).status_code == 422
    with server.client("operate", "team") as http:
        assert http.post(f"{STUDIES}/team/ask").status_code == 200
        assert http.post(f"{STUDIES}/team%2Fone/ask").status_code == 403
        assert http.post(f"{STUDIES}/team%1Fone/ask").status_code == 403
        assert http.get("/studies/team%2Fone").status_code == 403
    with server.client("operate", "team/one") as http:
        assert http.post(f"{STUDIES}/team%2Fone/ask").status_code == 200
        assert http.get(f"{STUDIES}/team%2Fone/status").json()["study"] == "team/one"
        assert http.get("/studies/team%2Fone").status_code == 200
        assert http.post(f"{STUDIES}/team/ask").status_code == 403
        assert http.get(f"{STUDIES}/team/one").status_code == 404


def test_a_request_cannot_make_a_study_that_fills_the_memory(server: Serving) -> None:
    with server.client() as http:
        body = {"name": "huge", "tasks": 5_000, "representations": 5_000, "predictors": 5_000}
        refused = http.post(STUDIES, json=body)
    assert refused.status_code == 422 and "125,000,000,000 arms" in refused.json()["detail"]


def test_a_proxy_may_leave_its_path_or_take_it_away(tmp_path: Path) -> None:
    with serving(str(tmp_path / "studies.db"), root="/osrl/") as server, server.client() as http:
        assert server.url.endswith("/osrl")
        base = server.url.removesuffix("/osrl")
        for path in ("", "/osrl"):
            assert http.get(f"{base}{path}{STUDIES}").json() == {"studies": []}
            assert 'href="/osrl/assets/page.css' in http.get(f"{base}{path}/").text
            assert httpx.get(f"{base}{path}/healthz").text == "alive\n"
            assert httpx.get(f"{base}{path}{STUDIES}").status_code == 401
        assert http.get(f"{base}/osrlstudies").status_code == 404
    for wrong in ("osrl", "/api", "/studies/x"):
        with pytest.raises(OsrlError, match="root path"):
            Application(str(tmp_path / "studies.db"), root=wrong)


def test_people_are_told_by_a_page_and_programs_by_a_document(server: Serving) -> None:
    with server.client("read") as http:
        page = http.get("/studies/<b>nobody", headers={"Accept": "text/html,*/*"})
        assert page.status_code == 404 and page.headers["content-type"].startswith("text/html")
        assert "There is no study" in page.text and "<b>" not in page.text
        for path in ("/studies/nobody", "/nowhere"):
            document = http.get(path)
            assert document.status_code == 404
            assert document.headers["content-type"] == "application/problem+json"
        api = http.get(f"{STUDIES}/nobody", headers={"Accept": "text/html"})
        assert api.json()["type"] == "UnknownStudy"
    with server.client("read", "one") as http:
        page = http.get("/studies/two", headers={"Accept": "text/html"})
        assert page.status_code == 403 and "does not allow" in page.text


def test_a_new_route_is_closed_by_default(server: Serving) -> None:
    async def forgotten(request: Request) -> Response:
        return Response("secret")

    async def thought_of(request: Request) -> Response:
        return Response("fine")

    router = server.application.router
    router.add(Route("GET", "/forgotten", forgotten, None, {}))
    router.add(Route("GET", "/thought-of", thought_of, Permission("own", "every"), {}))
    with (
        server.client() as owner,
        server.client("read") as reader,
        httpx.Client(base_url=server.url) as stranger,
    ):
        assert stranger.get("/forgotten").status_code == 401
        assert owner.get("/forgotten").status_code == 403
        assert owner.get("/thought-of").text == "fine"
        assert reader.get("/thought-of").status_code == 403


CALLS: list[tuple[str, str, str, Any]] = [
    ("read", "GET", "status", None),
    ("read", "GET", "", None),
    ("read", "GET", "history", None),
    ("operate", "POST", "ask", {}),
    ("operate", "POST", "tell", {"trial": 999, "reward": 1}),
    ("operate", "POST", "tell-many", {"rewards": []}),
    ("operate", "POST", "abandon", {"trial": 999}),
    ("operate", "POST", "track", {"targetingKey": "nobody", "reward": 1}),
    ("own", "POST", "pause", {"reason": ""}),
    ("own", "POST", "close", {"reason": ""}),
    ("own", "POST", "withdraw", {"reason": ""}),
    ("own", "POST", "correct", {"trial": 999, "reward": 1, "reason": "r"}),
    ("own", "POST", "amend", {"trial": 999, "reward": 1, "reason": "r"}),
]


ALLOWED = {
    "read": {"read"},
    "operate": {"read", "operate"},
    "own": {"read", "operate", "own"},
    "blind": {"operate"},
}


@pytest.mark.parametrize("role", ALLOWED)
def test_a_role_allows_what_it_says_and_no_more(server: Serving, role: str) -> None:
    with server.client(role, "one") as http:
        for needed, method, what, body in CALLS:
            for study in ("one", "two", "nobody"):
                path = f"{STUDIES}/{study}/{what}".rstrip("/")
                answer = http.request(method, path, json=body) if body is not None else http.get(path)
                shown = what == "" and role == "blind"  # that there is a study, and how it was created
                allowed = (needed in ALLOWED[role] or shown) and study == "one"
                assert (answer.status_code != 403) == allowed, (role, what, study, answer.text)
        assert http.post(STUDIES, json=NAMES).status_code == 403  # that takes an owner of everything
        seen = [each["study"] for each in http.get(STUDIES).json()["studies"]]
        assert seen == ["one"]
        assert (http.get("/api/v1/tokens").status_code == 200) == (role == "own")
        made = http.post("/api/v1/tokens", json={"role": "read", "study": "one"})
        assert made.status_code == (201 if role == "own" else 403)
        assert http.post("/api/v1/tokens", json={"role": "own"}).status_code == 403
        assert http.post("/api/v1/tokens", json={"role": "read", "study": "two"}).status_code == 403
    with server.client() as owner:
        foreign = owner.post("/api/v1/tokens", json={"role": "read", "study": "two"}).json()["id"]
        with server.client(role, "one") as http:
            assert http.delete(f"/api/v1/tokens/{foreign}").status_code == (404 if role == "own" else 403)


def test_tokens_are_long_hashed_and_compared_in_constant_time(server: Serving, monkeypatch: Any) -> None:
    storage = server.application.context.storage
    made = create_token(storage, "read", None, "a test")
    secret = made.token.split("_", 2)[2]
    assert len(secret) == 43 and len({new_token().token for _ in range(100)}) == 100
    with storage.transaction() as connection:
        rows = [json.dumps(list(row), default=str) for row in connection.execute(select(tokens))]
    assert not any(secret in row for row in rows)
    compared: list[str] = []

    def compare(one: str, other: str) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr("osrl.service.tokens.hmac.compare_digest", compare)
    known = TokenCache(storage)
    known.read()
    assert known.lookup(made.token) is not None
    assert known.lookup(made.token[:-1] + ("A" if made.token[-1] != "A" else "B")) is None
    assert len(compared) == 2


def test_a_token_is_never_logged_nor_taken_from_an_address(
    server: Serving, stranger: httpx.Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = server.token()
    assert stranger.get(STUDIES, params={"token": token, "access_token": token}).status_code == 401

    def fail(self: object, name: str) -> None:
        raise RuntimeError("a mistake in the server")

    monkeypatch.setattr(workers.Workers, "worker", fail)
    headers = {"Authorization": f"Bearer {token}"}
    with caplog.at_level(logging.DEBUG):
        for answer in (
            stranger.get(f"{STUDIES}/one", headers=headers),
            stranger.post(f"{STUDIES}/one/ask", json={}, headers=headers),
        ):
            assert answer.status_code == 500
            assert answer.json()["detail"] == "the server has failed; its log says why"
            assert "Traceback" not in answer.text and "mistake" not in answer.text
            assert answer.headers["x-content-type-options"] == "nosniff"
    assert "a mistake in the server" in caplog.text and token not in caplog.text


def test_revocation_ends_everything(server: Serving) -> None:
    token = server.token("read", "one")
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=20) as http, server.client() as owner:
        assert http.get(f"{STUDIES}/one").status_code == 200
        with http.stream("GET", f"{STUDIES}/one/events") as stream:
            lines = stream.iter_lines()
            while "event: create" not in next(lines):
                pass
            assert owner.delete(f"/api/v1/tokens/{token.split('_')[1]}").json()["revoked"]
            rest = list(lines)  # it ends
            assert any("access ended" in line for line in rest)
        assert http.get(f"{STUDIES}/one").status_code == 401
    other = server.token("read", "one")
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {other}"}, timeout=20) as http:
        with http.stream("GET", f"{STUDIES}/one/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            assert main(["token", "revoke", server.place, other.split("_")[1]]) == 0  # by another process
            assert any("access ended" in line for line in lines)
    wait_until(lambda: server.application.context.feeds.streams == 0)


def test_hosts_that_are_not_allowed(server: Serving, tmp_path: Path) -> None:
    for host in ("evil.example", "evil.example:80", "", "127.0.0.1.evil.example"):
        answer = httpx.get(f"{server.url}/healthz", headers={"Host": host})
        assert answer.status_code == 400 and answer.headers["x-frame-options"] == "DENY"
    with serving(str(tmp_path / "s.db"), hosts=["studies.example"]) as other:
        assert httpx.get(f"{other.url}/healthz", headers={"Host": "studies.example"}).status_code == 200


def test_no_other_origin(server: Serving) -> None:
    with server.client() as http:
        answer = http.options(f"{STUDIES}/one/ask", headers={"Origin": "https://evil.example"})
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_cookies_write_from_the_same_origin_alone(server: Serving) -> None:
    with httpx.Client(base_url=server.url) as browser:
        refused = browser.get("/", headers={"Accept": "text/html"})
        assert refused.status_code == 401 and "<form" in refused.text
        assert "form-action 'self'" in refused.headers["content-security-policy"]
        assert browser.post("/session", data={"token": "nonsense"}).status_code == 401
        signed = browser.post("/session", data={"token": server.token()})
        assert signed.status_code == 303
        cookie = signed.headers["set-cookie"].lower()
        assert cookie.startswith(COOKIE) and "httponly" in cookie and "samesite=strict" in cookie
        ask = f"{STUDIES}/one/ask"
        assert browser.get(f"{STUDIES}/one").status_code == 200
        assert browser.post(ask, json={}).status_code == 403
        assert browser.post(ask, json={}, headers={"Origin": "https://evil.example"}).status_code == 403
        assert browser.post(ask, json={}, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert browser.post(ask, json={}, headers={"Origin": server.url}).status_code == 200
        browser.delete("/session")
        assert browser.get(f"{STUDIES}/one").status_code == 401


def test_limits_are_said_clearly(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    with server.client() as http:
        large = http.post(f"{STUDIES}/one/ask", content=b" " * (middleware.MAX_REQUEST_BYTES + 1))
        assert large.status_code == 413 and "in parts" in large.json()["detail"]

        def chunks() -> Iterator[bytes]:
            for _ in range(middleware.MAX_REQUEST_BYTES // 2**16 + 2):
                yield b" " * 2**16

        json_kind = {"Content-Type": "application/json"}
        assert http.post(f"{STUDIES}/one/ask", content=chunks(), headers=json_kind).status_code == 413
        batch = http.post(f"{STUDIES}/one/ask", json={"n": 1001})
        assert batch.status_code == 422 and "1,000" in batch.json()["detail"]
        page = http.get(f"{STUDIES}/one/history", params={"limit": 1001})
        assert page.status_code == 422 and "1000" in page.json()["detail"]
        assert http.post(f"{STUDIES}/one/ask", content=b"n=1").status_code == 415
        monkeypatch.setattr(event_stream, "MAX_STREAMS", 0)
        streams = http.get(f"{STUDIES}/one/events")
        assert streams.status_code == 429 and "streams are open" in streams.json()["detail"]
        assert streams.headers["retry-after"]
        monkeypatch.setattr(workers, "MAX_WAITING", 0)
        busy = http.post(f"{STUDIES}/one/ask", json={})
        assert busy.status_code == 503 and busy.headers["retry-after"]


@pytest.mark.parametrize(
    "text",
    [
        "\ud800",
        "a\u0000b",
        "../../etc/passwd",
        "file:///etc/passwd",
        "<script>",
        "'; DROP TABLE osrl_events;--",
    ],
)
def test_hostile_texts(server: Serving, text: str) -> None:
    """Nothing that a request says is a path, a database or an address; and nothing breaks the server."""
    with server.client() as http:
        for path, body in (
            (f"{STUDIES}/one/ask", {"key": text, "note": {text: text}}),
            (f"{STUDIES}/one/ask", {"task": text}),
            (f"{STUDIES}/one/abandon", {"trial": 999, "by": text, "reason": text}),
            (f"{STUDIES}/one/pause", {"reason": "", "by": text}),
            (STUDIES, {**NAMES, "name": text, "policy": "uniform", "place": text}),
            ("/api/v1/tokens", {"role": text}),
        ):
            answer = http.post(path, content=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
            assert answer.status_code < 500, answer.text
        for name in ("%00", "%2e%2e%2f", "%ff", "a%2Fb", "."):
            assert http.get(f"{STUDIES}/{name}/status").status_code in (404, 422)
        assert http.get(f"{STUDIES}/one").json()["verdict"] == "running"


def test_what_is_not_http_is_refused(server: Serving) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 10) as raw:
        raw.sendall(b"nonsense\r\n\r\n")
        answer = raw.recv(10_000).lower()
        assert b" 400 " in answer
        for name, value in SECURITY.items():
            assert f"{name}: {value}\r\n".lower().encode() in answer


def test_a_server_for_others_needs_a_token(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", path, "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "there is no token yet" in capsys.readouterr().err


def test_a_token_in_a_file(tmp_path: Path, path: str) -> None:
    file = tmp_path / "token"
    token = read_token_file(file)
    assert read_token_file(file) == token and file.stat().st_mode & 0o777 == 0o600
    with serving(path, token=token) as server:
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{server.url}/api/v1/tokens", headers=headers).json() == {"tokens": []}
    file.write_text("nonsense")
    with pytest.raises(OsrlError, match="no token"):
        read_token_file(file)


def test_tokens_on_the_command_line(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create", path, "--role", "own", "--label", "me"]) == 0
    token = capsys.readouterr().out.strip()
    assert main(["token", "list", path, "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["tokens"]
    assert listed["role"] == "own" and listed["everywhere"] and token.split("_")[1] == listed["id"]
    assert main(["token", "revoke", path, listed["id"]]) == 0
    assert main(["token", "list", path]) == 0
    assert "revoked" in capsys.readouterr().out
    assert main(["token", "revoke", path, "nobody"]) == 2
    assert main(["token", "create", path, "--role", "king"]) == 2
    assert "read, operate, own" in capsys.readouterr().err
    storage = SqlStorage(path)
    known = TokenCache(storage)
    known.read()
    assert known.lookup(token) is None
    storage.close()


def test_requests_that_come_at_once_do_not_wait_for_a_slow_one(server: Serving) -> None:
    """The event loop never blocks: a call that takes long holds up its own study alone."""
    began, free = threading.Event(), threading.Event()
    context = server.application.context

    def slow(study: object) -> None:
        began.set()
        free.wait(20)

    with server.client() as http:
        assert http.get(f"{STUDIES}/two").status_code == 200
        loop = context.workers._workers["two"]._loop
        loop.call_soon_threadsafe(lambda: context.workers._workers["two"].do(slow))
        assert began.wait(10)
        assert http.post(f"{STUDIES}/one/ask", json={}).status_code == 200
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        free.set()


def test_routes_of_the_api_say_what_they_need() -> None:
    for route in ROUTES:
        if route.details["tag"] is not None:
            assert route.permission is not None and route.permission is not OPEN, route.path

"""Misuse that costs nothing but a trick: another database, another site, another clock, a signal."""

from __future__ import annotations

import os
import signal
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import httpx
import polars as pl
import pytest
from packaging.requirements import Requirement

import osrl
from osrl.analysis.trials import read_table
from osrl.cli import main
from osrl.cli.table_input import read_rows
from osrl.errors import OsrlError
from osrl.service.middleware import path_within
from osrl.service.page_cache import PageCache
from osrl.service.server import read_token_file
from osrl.study.state.state import StudyState
from osrl.study.storage.locked_log import LockedLog
from osrl.study.views import forecast
from tests.support.instances import refused
from tests.support.processes import wait_until
from tests.support.servers import NAMES, STUDIES, raw, serving, until_end
from tests.support.studies import new_study

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
FORMULAS = ["=1+1", "-2", "@sum", "+3", "'=4", "''-5", "plain", "it's"]


def test_tokens_end_with_their_database(path: str, tmp_path: Path) -> None:
    """Who had a token for a database has none for the one that is put in its place."""
    other, stale = tmp_path / "other.db", tmp_path / "stale.db"
    with new_study(str(other), name="two"):
        pass
    with serving(path) as server, server.client() as http:
        http.post(STUDIES, json={"name": "one", **NAMES})
        assert http.get(STUDIES).status_code == 200
        os.rename(path, stale)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        os.rename(other, path)
        wait_until(lambda: http.get(STUDIES).status_code == 401)
        with server.client() as known:  # tokens are made for the new one
            assert known.get(f"{STUDIES}/two").json()["events"] == 1
        assert http.get(STUDIES).status_code == 401


def test_a_page_of_another_site_signs_nobody_in(path: str) -> None:
    """Otherwise a victim would work on the studies of an attacker."""
    with serving(path) as server:
        session, token = f"{server.url}/session", server.token("read")
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site", "Origin": server.url},
        ):
            for given in ({"data": {"token": token}}, {"json": {"token": token}}):
                answer = httpx.post(session, headers=headers, **given)  # type: ignore[arg-type]
                assert answer.status_code == 403 and "set-cookie" not in answer.headers
            assert httpx.delete(session, headers=headers).status_code == 403
        for headers in ({}, {"Origin": server.url}, {"Origin": "null", "Sec-Fetch-Site": "same-origin"}):
            answer = httpx.post(session, headers=headers, data={"token": token})
            assert answer.status_code == 303 and "osrl-token" in answer.headers["set-cookie"]
        page = httpx.get(f"{server.url}/", headers={"Accept": "text/html"})
        assert page.headers["referrer-policy"] == "same-origin"  # or browsers would say that the origin is null


@pytest.mark.parametrize("root", ["", "/osrl"])
def test_signing_in_leads_to_the_page_that_was_wanted(path: str, root: str) -> None:
    with new_study(path, name='a/b "c"'):
        pass
    wanted = f"{root}/studies/a%2Fb%20%22c%22?look=1&more='2'"
    with serving(path, root=root) as server, httpx.Client() as browser:
        origin = server.url.removesuffix(root)
        page = browser.get(origin + wanted, headers={"Accept": "text/html"})
        assert page.status_code == 401
        shown = wanted.replace("&", "&amp;").replace("'", "&#39;")
        assert f'name="to" value="{shown}"' in page.text
        wrong = browser.post(f"{server.url}/session", data={"token": "x", "to": wanted})
        assert wrong.status_code == 401 and f'name="to" value="{shown}"' in wrong.text
        right = browser.post(f"{server.url}/session", data={"token": server.token("read"), "to": wanted})
        assert (right.status_code, right.headers["location"]) == (303, wanted)
        assert browser.get(origin + wanted, headers={"Accept": "text/html"}).status_code == 200


@pytest.mark.parametrize(
    "wanted",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "/a\r\nSet-Cookie: b=c",
        "",
        "x",
        "/session",
    ],
)
def test_signing_in_leads_nowhere_else(wanted: str) -> None:
    assert path_within(wanted, "") == "/"
    assert path_within(f"/osrl{wanted}", "/osrl") in ("/osrl/", f"/osrl/osrl{wanted}")


def test_two_hosts_are_refused(path: str) -> None:
    """A proxy may look at the first of them, and we at the last."""
    with serving(path) as server:
        for hosts in ("evil.example\r\nHost: localhost", "localhost\r\nHost: evil.example"):
            with raw(server) as client:
                lines = f"GET /healthz HTTP/1.1\r\nHost: {hosts}\r\nConnection: close\r\n\r\n"
                client.sendall(lines.encode())
                assert until_end(client).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("at", [-(10**15), 5 * 10**15, 9 * 10**17, -9 * 10**17])
def test_clocks_may_be_far_off(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The years 1938 and 2128, and some that no calendar has: pages, documents and reports all the same."""
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: at * 1000)
        with new_study(path, name="one") as study:
            study.tell(study.ask(), 1)
            study.ask(lease="1h")
            assert main(["study", "report", path, "--out", str(tmp_path / "page.html")]) == 0
            assert main(["study", "status", path]) == 0
    if abs(at) < 10**16:  # for the server itself the present has a year
        monkeypatch.setattr(time, "time", lambda: at / 1e6)
    with serving(path) as server, server.client() as http:
        for where in ("/studies/one", "/", f"{STUDIES}/one/status", f"{STUDIES}/one/history"):
            assert http.get(where).status_code == 200, where


def test_a_page_shows_one_moment(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status is that after the event whose number it shows, also where somebody writes meanwhile."""
    look_ahead = forecast.look_ahead

    def meanwhile(progress: StudyState) -> Callable[[], forecast.Forecast | None]:
        thread = threading.Thread(target=other.ask)
        found = look_ahead(progress)
        thread.start()
        thread.join()
        return found

    with new_study(path) as study, osrl.Study.open(path) as other:
        study.ask()
        monkeypatch.setattr(forecast, "look_ahead", meanwhile)
        snapshot, _ = PageCache().view(study)
        shown = snapshot.status.head
        assert [event.hash for event in study.events()][snapshot.sequence] == shown


def test_a_call_in_a_signal_handler_does_not_wait_for_itself(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has interrupted the call that it would wait for; what it has interrupted goes on."""
    said: list[str] = []
    append = LockedLog.append

    def handle(number: int, frame: FrameType | None) -> None:
        with osrl.Study.open(path) as again:
            for call in (again.ask, study.ask, lambda: study.verdict):
                with pytest.raises(OsrlError) as caught:
                    call()
                said.append(str(caught.value))

    def interrupted(log: LockedLog, events: object) -> None:
        signal.raise_signal(signal.SIGUSR1)
        append(log, events)  # type: ignore[arg-type]

    with new_study(path) as study:
        before = signal.signal(signal.SIGUSR1, handle)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(LockedLog, "append", interrupted)
                trial = study.ask()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert len(said) == 3 and all("interrupted another one in its thread" in each for each in said)
        study.tell(trial, 1)
        assert study.ask().id == 2 and study.verify().ok


def test_cells_are_no_formulas(path: str, tmp_path: Path) -> None:
    """A spreadsheet computes what begins with =, +, - or @; the same names come back."""
    out = tmp_path / "trials.csv"
    with osrl.Study.create(
        path, tasks=FORMULAS, representations=["=A", "B"], predictors=["-p"], policy="uniform", seed=1
    ) as study:
        for i, task in enumerate(FORMULAS):
            study.tell(study.ask(task, key=f"={i}"), 1)
        study.write_trials(out)
        study.write_arms(tmp_path / "arms.csv")
    for file in (out, tmp_path / "arms.csv"):
        read = pl.read_csv(file, infer_schema=False)
        for name in ("task", "representation", "predictor", "key"):
            cells = read[name].to_list() if name in read.columns else []
            assert not [cell for cell in cells if cell[0] in "=+-@"]
    assert sorted(read_table(out).task_names) == sorted(FORMULAS)
    (tmp_path / "rewards.csv").write_text("key,reward\n'=1,0\n''@b,1\nit's,1\n")
    assert [row["key"] for row in read_rows(str(tmp_path / "rewards.csv"), ["reward"])] == [
        "=1",
        "'@b",
        "it's",
    ]


def test_files_that_only_their_owner_may_read(path: str, tmp_path: Path) -> None:
    page, token = tmp_path / "page.html", tmp_path / "token"
    before = os.umask(0o022)
    try:
        with new_study(path):
            assert main(["study", "report", path, "--out", str(page)]) == 0
        read_token_file(token)
    finally:
        os.umask(before)
    assert page.stat().st_mode & 0o777 == token.stat().st_mode & 0o777 == 0o600
    for mode in (0o644, 0o620, 0o602):
        token.chmod(mode)
        with refused(f"others may read or change the token (mode {mode:03o})"):
            read_token_file(token)
    token.chmod(0o640)  # of a group that was given it on purpose
    read_token_file(token)


def test_floors_are_above_known_holes() -> None:
    """Of starlette: CVE-2025-62727 (0.49.1), CVE-2026-48710 (1.0.1), CVE-2026-54283 (1.3.1)."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    required = [Requirement(each) for each in project["optional-dependencies"]["service"]]
    floors = {each.name: each.specifier for each in required}
    assert not floors["starlette"].contains("1.3.0") and floors["starlette"].contains("1.3.1")

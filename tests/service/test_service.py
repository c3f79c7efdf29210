"""The service: every call over HTTP does what it does in Python, and says the same."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from osrl.study.log.events import Asked
from osrl.study.study import Study
from tests.support.servers import NAMES, Serving, serving

STUDIES = "/api/v1/studies"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One server for the tests of this module."""
    with serving(str(tmp_path_factory.mktemp("service") / "studies.db")) as found:
        yield found


@pytest.fixture
def http(server: Serving) -> Iterator[httpx.Client]:
    """An owner of everything."""
    with server.client() as client:
        yield client


def create(http: httpx.Client, name: str, **changes: Any) -> str:
    """A study with a cheap policy; its address."""
    body = {"name": name, **NAMES, "policy": "uniform", "seed": 7, "delta": 0.2, **changes}
    answer = http.post(STUDIES, json=body)
    assert answer.status_code == 201, answer.text
    return f"{STUDIES}/{name}"


def post(http: httpx.Client, address: str, status: int = 200, /, **body: Any) -> Any:
    """The answer to a call."""
    answer = http.post(address, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_study_from_creation_to_verdict(http: httpx.Client, server: Serving) -> None:
    at = create(http, "whole", budget=6)
    shown = http.get(at).json()
    assert shown["verdict"] == "running" and shown["settings"]["tasks"] == NAMES["tasks"]
    first = post(http, f"{at}/ask", key="patient-1", task="old", note={"site": "Rome"})
    assert (first["trial"], first["task"], first["note"]) == (1, "old", {"site": "Rome"})
    assert post(http, f"{at}/ask", key="patient-1") == first
    several = post(http, f"{at}/ask", n=3)["trials"]
    assert [each["trial"] for each in several] == [2, 3, 4]
    told = post(http, f"{at}/tell", key="patient-1", reward=True)
    assert (told["trial"], told["new"], told["verdict"]) == (1, True, "running")
    assert not post(http, f"{at}/tell", trial=first["token"], reward=1)["new"]
    assert post(http, f"{at}/abandon", trial=2)["new"]
    rows = [{"trial": 3, "reward": 1}, {"trial": several[2]["token"], "reward": 0}]
    assert post(http, f"{at}/tell-many", rewards=rows)["new"] == 2
    last = post(http, f"{at}/ask", n=2)["trials"]
    assert post(http, f"{at}/abandon-many", trials=[{"trial": last[0]["trial"]}])["new"] == 1
    done = post(http, f"{at}/tell", trial=last[1]["trial"], reward=1)
    assert done["verdict"] == "budget exhausted"
    refused = post(http, f"{at}/ask", 409)
    assert refused["type"] == "StudyEnded" and "read its verdict" in refused["detail"]
    with Study.open(server.place, "whole") as study:
        assert study.head == done["head"] == http.get(at).json()["head"]
        assert study.verify().ok


def test_what_can_be_read_is_what_python_reads(http: httpx.Client, server: Serving) -> None:
    from osrl.cli.study import _report

    at = create(http, "read")
    for i in range(9):
        trial = post(http, f"{at}/ask", key=f"k{i}")
        if i < 7:
            post(http, f"{at}/tell", trial=trial["trial"], reward=i % 2)
    with Study.open(server.place, "read") as study:
        status = http.get(f"{at}/status").json()
        expected = json.loads(json.dumps(_report(study).document()))
        assert {**status, "place": None} == {**expected, "place": None}
        assert http.get(f"{at}/arms").json()["arms"] == study.arms.to_dicts()
        evidence = http.get(f"{at}/evidence").json()["evidence"]
        assert [each["representation"] for each in evidence] == study.evidence["representation"].to_list()
        checked = http.get(f"{at}/verify", params={"head": study.head}).json()
        assert checked["ok"] and checked["trials"] == 9
        assert not http.get(f"{at}/verify", params={"head": "0" * 64}).json()["ok"]
        record = http.get(f"{at}/trial", params={"key": "k3"}).json()
        assert record["trial"] == study.trial("k3").id and record["reward"] == 1.0
        assert http.get(f"{at}/trial", params={"number": 99}).json()["type"] == "UnknownTrial"
        page = http.get(f"{at}/history", params={"after": 4, "limit": 3}).json()
        assert [each["trial"] for each in page["trials"]] == [5, 6, 7] and page["next"] == 7
        assert http.get(f"{at}/history", params={"after": 7, "limit": 3}).json()["next"] is None
        for name, read in (("csv", pl.read_csv), ("jsonl", pl.read_ndjson), ("parquet", pl.read_parquet)):
            table = read(io.BytesIO(http.get(f"{at}/history", params={"format": name}).content))
            assert table["trial"].to_list() == study.history["trial"].to_list()


def test_the_log_makes_the_same_study(http: httpx.Client, server: Serving, tmp_path: Path) -> None:
    at = create(http, "log")
    post(http, f"{at}/tell", trial=post(http, f"{at}/ask")["trial"], reward=1)
    for suffix in ("jsonl", "csv", "parquet"):
        file = tmp_path / f"log.{suffix}"
        file.write_bytes(http.get(f"{at}/log", params={"format": suffix}).content)
        with Study.read_log(tmp_path / f"{suffix}.db", file) as copy:
            assert copy.head == http.get(at).json()["head"]


def test_the_life_of_a_study(http: httpx.Client) -> None:
    at = create(http, "life", budget=10, policy="osrl")
    post(http, f"{at}/pause", reason="holiday", by="me")
    assert post(http, f"{at}/ask", 409)["type"] == "StudyPaused"
    post(http, f"{at}/resume")
    post(http, f"{at}/raise-budget", budget=20)
    post(http, f"{at}/add", representation="C", reason="new")
    post(http, f"{at}/withdraw", representation="A", reason="rash")
    trial = post(http, f"{at}/ask")
    post(http, f"{at}/tell", trial=trial["trial"], reward=0)
    post(http, f"{at}/correct", trial=trial["trial"], reward=1, reason="typo")
    assert http.get(f"{at}/trial", params={"number": trial["trial"]}).json()["reward"] == 1.0
    assert post(http, f"{at}/close", reason="enough")["verdict"] == "closed"
    assert "life" in [each["study"] for each in http.get(STUDIES).json()["studies"]]
    assert http.delete(at).json() == {"deleted": "life"}
    assert http.get(at).status_code == 404
    again = create(http, "life")  # another study of the same name
    assert http.get(again).json()["handed_out"] == 0


def test_a_request_that_is_repeated_gets_the_same_trials(http: httpx.Client, server: Serving) -> None:
    at = create(http, "again")
    headers = {"Idempotency-Key": "request-1"}
    one = http.post(f"{at}/ask", json={"n": 3}, headers=headers).json()
    assert http.post(f"{at}/ask", json={"n": 3}, headers=headers).json() == one
    other = http.post(f"{at}/ask", json={"n": 2}, headers=headers)
    assert other.status_code == 422 and "something else" in other.json()["detail"]
    with Study.open(server.place, "again") as study:
        assert study.trials == 3
        assert study.history["key"].to_list() == [None] * 3  # it is no part of the log


def test_a_request_is_that_of_one_subject(http: httpx.Client) -> None:
    """Who repeats a request for another subject is refused: it would be given the other one's trial."""
    at, headers = create(http, "subjects"), {"Idempotency-Key": "request-1"}
    body = {"task": "young", "key": "patient-1", "note": {"site": "Rome"}}
    one = http.post(f"{at}/ask", json=body, headers=headers).json()
    assert http.post(f"{at}/ask", json=body, headers=headers).json() == one
    assert http.post(f"{at}/ask", json={"key": "patient-1"}, headers=headers).json() == one
    for other in ({"key": "patient-2"}, {"key": None}, {"note": {"site": "Bern"}}):
        refused = http.post(f"{at}/ask", json={**body, **other}, headers=headers)
        assert refused.status_code == 422 and "something else" in refused.json()["detail"], refused.text
    assert http.post(f"{at}/ask", json={}, headers={"Idempotency-Key": "request-2"}).json()["trial"] == 2


def test_a_remote_study_has_the_log_of_a_local_one(http: httpx.Client, server: Serving, path: str) -> None:
    at = create(http, "equal", policy="osrl")
    with Study.create(path, **NAMES, policy="osrl", seed=7, delta=0.2, name="equal") as local:
        for i in range(30):
            trial, other = post(http, f"{at}/ask"), local.ask()
            assert trial["representation"] == other.representation
            post(http, f"{at}/tell", trial=trial["trial"], reward=i % 2)
            local.tell(other, i % 2)
        with Study.open(server.place, "equal") as remote:
            ours, theirs = list(remote.events()), list(local.events())
        assert [each.kind for each in ours] == [each.kind for each in theirs]
        bodies = [[{**vars(each.body), "via": None} for each in log[1:]] for log in (ours, theirs)]
        assert bodies[0] == bodies[1]  # but for who did it


def test_what_arrives_together_is_answered_together(http: httpx.Client, server: Serving) -> None:
    at = create(http, "many", delta=1e-9)
    found: list[int] = []

    def work() -> None:
        with server.client("operate", "many") as own:
            for _ in range(20):
                trial = post(own, f"{at}/ask")
                found.append(trial["trial"])
                post(own, f"{at}/tell", trial=trial["token"], reward=trial["trial"] % 2)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 161))
    with Study.open(server.place, "many") as study:
        assert study.pending == () and study.verify().ok


def test_refusals_say_what_python_says(http: httpx.Client, server: Serving) -> None:
    at = create(http, "refusals")
    trial = post(http, f"{at}/ask")
    with Study.open(server.place, "refusals") as study, pytest.raises(ValueError) as refused:
        study.tell(trial["trial"], 7)
    found = post(http, f"{at}/tell", 422, trial=trial["trial"], reward=7)
    assert found["type"] == "RewardRefused" and found["detail"] == str(refused.value).replace("7;", "7.0;")
    assert post(http, f"{at}/tell", 404, trial=99, reward=1)["type"] == "UnknownTrial"
    assert post(http, f"{STUDIES}/nobody/ask", 404)["type"] == "UnknownStudy"
    assert post(http, f"{at}/ask", 422, tusk="young")["type"] == "OsrlError"
    assert post(http, f"{at}/ask", 422, task="nowhere")["type"] == "OsrlError"
    assert "10000" in post(http, f"{at}/tell-many", 422, rewards=[{"trial": 1, "reward": 1}] * 10_001)["detail"]
    assert post(http, STUDIES, 422, **NAMES, name="refusals")["type"] == "OsrlError"
    bad = http.post(f"{at}/ask", content=b"{", headers={"Content-Type": "application/json"})
    assert bad.status_code == 422 and bad.headers["content-type"] == "application/problem+json"


def lines(stream: httpx.Response) -> Iterator[dict[str, Any]]:
    """The events of a stream."""
    for line in stream.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])


def test_events_from_any_point_without_gaps(http: httpx.Client, server: Serving) -> None:
    at = create(http, "events", delta=1e-9)
    post(http, f"{at}/ask", n=3)
    with http.stream("GET", f"{at}/events") as stream:
        events = lines(stream)
        assert [next(events)["kind"] for _ in range(4)] == ["create", "ask", "ask", "ask"]
        post(http, f"{at}/tell", trial=2, reward=1)  # by this server
        told = next(events)
        assert (told["seq"], told["kind"], told["payload"]["reward"]) == (4, "tell", 1.0)
        with Study.open(server.place, "events") as study:
            study.tell(1, 0)  # by another process
        assert next(events)["trial"] == 1
    with http.stream("GET", f"{at}/events", headers={"Last-Event-ID": "2"}) as stream:
        seen = [event["seq"] for event in islice(lines(stream), 3)]
        assert seen == [3, 4, 5]
    with Study.open(server.place, "events") as study:
        hashes = [event.hash for event in study.events()]
        asked = [event for event in study.events() if isinstance(event.body, Asked)]
    with http.stream("GET", f"{at}/events", params={"after": 3}) as stream:
        assert next(lines(stream))["hash"] == hashes[4]
    assert len(asked) == 3

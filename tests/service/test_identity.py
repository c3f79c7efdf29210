"""Who did it: events have the token, whatever the caller says; and whoever is blinded sees no results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import osrl
from osrl.service.tokens import create_token
from osrl.study.log.events import Created, Designed, SnapshotTaken, VersionsChanged
from osrl.study.study import Study
from tests.support.servers import NAMES, STUDIES, Serving, serving

ONE = f"{STUDIES}/one"


@pytest.fixture
def server(path: str) -> Iterator[Serving]:
    with serving(path) as found:
        yield found


def holder(server: Serving, role: str) -> tuple[httpx.Client, str]:
    """A client with a new token, and the id of the token."""
    made = create_token(server.application.context.storage, role, None, role)
    headers = {"Authorization": f"Bearer {made.token}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60), made.id


def post(http: httpx.Client, path: str, status: int = 200, **body: Any) -> Any:
    answer = http.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_events_have_the_token_that_wrote_them(server: Serving, path: str) -> None:
    """All kinds, alone and many at once; what a rule does, and what is done locally, has none."""
    owner, own = holder(server, "own")
    worker, operate = holder(server, "operate")
    with owner, worker:
        post(owner, STUDIES, 201, name="one", **NAMES, policy="osrl", budget=50, harm_limit=0.3)
        for _ in range(4):
            post(worker, f"{ONE}/ask")
        post(worker, f"{ONE}/tell", trial=1, reward=1, harm=0, by="Ada")
        post(owner, f"{ONE}/correct", trial=1, reward=0, reason="typo", by="Bob")
        post(worker, f"{ONE}/tell-many", rewards=[{"trial": 2, "reward": 1, "harm": 0}])
        post(worker, f"{ONE}/abandon", trial=3)
        post(owner, f"{ONE}/amend", trial=2, reward=0, reason="typo")
        flag = {"context": {"targetingKey": "user", "segment": "young"}}
        assert worker.post("/ofrep/v1/evaluate/flags/one", json=flag).status_code == 200
        post(worker, f"{ONE}/track", targetingKey="user", reward=1, harm=0)
        for what, body in (
            ("pause", {"reason": "r"}),
            ("resume", {}),
            ("raise-budget", {"budget": 60}),
            ("withdraw", {"predictor": "low", "reason": "r"}),
            ("recover", {"reason": "r"}),
            ("close", {"reason": "r"}),
        ):
            post(owner, f"{ONE}/{what}", **body)
        page = owner.get("/studies/one").text
        assert f"Bob (token {own})" in page
    with Study.open(path) as study:
        wanted = {"ask": operate, "tell": operate, "abandon": operate}
        for event in study.events():
            if not isinstance(event.body, Designed | SnapshotTaken | VersionsChanged):
                via = getattr(event.body, "via", None)
                assert via == wanted.get(event.kind, own) and f'"via":"{via}"' in event.payload, event
        assert study.verify().ok


def test_what_a_rule_does_and_what_is_done_locally_has_no_token(server: Serving, path: str) -> None:
    with server.client() as http:
        post(http, STUDIES, 201, name="one", **NAMES, policy="osrl", harm_limit=0.1)
        with Study.open(path) as study:
            trial = study.ask()
            while len(study.settings.representations) == 2 and study.look()[0].paused is None:
                post(http, f"{ONE}/tell", trial=trial.id, reward=1, harm=1)
                trial = study.ask() if study.look()[0].paused is None else trial
            events = list(study.events())
            ruled = [event for event in events if event.kind in ("stage", "pause")]
            assert ruled and not any(event.body.via for event in ruled)  # type: ignore[union-attr]
            assert not any('"via"' in event.payload for event in events if event.kind == "ask")
            assert all('"via"' in event.payload for event in events if event.kind == "tell")
            assert study.verify().ok
            assert isinstance(events[0].body, Created) and events[0].body.via


SEEN = [
    "status",
    "evidence",
    "arms",
    "history",
    "history?format=csv",
    "log",
    "events",
    "verify",
    "trial?number=1",
]


def test_who_is_blinded_asks_and_tells_and_sees_no_results(server: Serving) -> None:
    owner, _ = holder(server, "own")
    blind, _ = holder(server, "blind")
    with owner, blind:
        post(owner, STUDIES, 201, name="one", **NAMES, policy="osrl", seed=5)
        mine = post(blind, f"{ONE}/ask")
        assert mine["propensity"] is None and mine["representation"] in NAMES["representations"]
        assert all(each["propensity"] is None for each in post(blind, f"{ONE}/ask", n=2)["trials"])
        told = post(blind, f"{ONE}/tell", trial=1, reward=1)
        assert told == {"trial": 1, "new": True, "verdict": "running", "head": ""}
        assert post(blind, f"{ONE}/tell", trial=1, reward=1)["new"] is False  # its own, repeated
        assert post(blind, f"{ONE}/abandon-many", trials=[{"trial": 2}])["head"] == ""
        for what in SEEN:
            assert blind.get(f"{ONE}/{what}").status_code == 403, what
        for where in ("/", "/studies/one", "/api/v1/tokens"):
            assert blind.get(where).status_code == 403
        assert blind.post("/ofrep/v1/evaluate/flags/one", json={}).status_code == 403
        shown = blind.get(ONE).json()
        assert shown["settings"]["seed"] is None and shown["head"] == ""
        post(owner, f"{ONE}/pause", reason="g1 harms")
        assert "g1" not in blind.get(ONE).text and "g1" not in str(post(blind, f"{ONE}/ask", 409))
        post(owner, f"{ONE}/close", reason="r")
        assert post(blind, f"{ONE}/tell", trial=3, reward=1)["verdict"] == "ended"
        assert "closed" not in str(post(blind, f"{ONE}/ask", 409))
        assert blind.get(STUDIES).json()["studies"][0]["verdict"] == "ended"


def test_results_of_others_cannot_be_found_out_by_telling_them(server: Serving) -> None:
    """Whatever is told of a trial that somebody else has told, the answer is the same."""
    owner, _ = holder(server, "own")
    blind, _ = holder(server, "blind")
    with owner, blind:
        post(owner, STUDIES, 201, name="one", **NAMES, policy="osrl")
        post(owner, f"{ONE}/ask", n=3)
        post(owner, f"{ONE}/tell", trial=1, reward=1)
        post(owner, f"{ONE}/abandon", trial=2)
        for trial in (1, 2):
            calls = [("tell", {"trial": trial, "reward": reward}) for reward in (0, 1)]
            calls += [("abandon", {"trial": trial, "ignorable": ignorable}) for ignorable in (True, False)]
            answers = {post(blind, f"{ONE}/{what}", 422, **body)["detail"] for what, body in calls}
            assert len(answers) == 1 and "does not see results" in answers.pop()


def test_a_blinded_client(server: Serving) -> None:
    with server.client() as owner:
        post(owner, STUDIES, 201, name="one", **NAMES, policy="uniform", budget=5)
    with osrl.connect(server.url, server.token("blind")) as study:
        assert study.run(lambda trial: 1) == "ended"
        assert study.trials == 5
        with pytest.raises(osrl.AccessRefused):
            _ = study.arms

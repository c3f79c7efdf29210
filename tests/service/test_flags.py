"""OpenFeature: the public SDK and its OFREP provider as the client of a study."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

from osrl.client import RemoteStudy
from osrl.study.study import Study
from tests.support.servers import NAMES, Serving, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(str(tmp_path_factory.mktemp("flags") / "studies.db")) as found:
        yield found


@pytest.fixture
def features(server: Serving) -> Iterator[OpenFeatureClient]:
    """The public client, with a token that may ask and tell."""
    token = server.token("operate")
    provider = OFREPProvider(server.url, headers_factory=lambda: {"Authorization": f"Bearer {token}"})
    api.set_provider(provider)
    yield api.get_client()
    api.shutdown()


def new(server: Serving, name: str, **changes: Any) -> RemoteStudy:
    settings = {**NAMES, "policy": "uniform", "seed": 7, "delta": 0.2, "name": name, **changes}
    return RemoteStudy.create(server.url, server.token(), **settings)


def subject(key: str, **attributes: Any) -> EvaluationContext:
    return EvaluationContext(key, attributes)


def test_a_subject_keeps_its_arm(server: Serving, features: OpenFeatureClient) -> None:
    with new(server, "prices") as study, server.client("operate") as http:
        found = features.get_string_details("prices", "none", subject("user-1", segment="old"))
        trial = study.trial("user-1")
        assert found.value == found.variant == f"{trial.representation}/{trial.predictor}"
        assert found.reason == Reason.SPLIT
        assert found.flag_metadata["representation"] == trial.representation
        assert (found.flag_metadata["task"], found.flag_metadata["trial"]) == ("old", trial.id)
        again = features.get_string_value("prices", "none", subject("user-1", segment="old"))
        assert again == found.value and study.trials == 1
        told = http.post("/api/v1/studies/prices/track", json={"targetingKey": "user-1", "reward": 1})
        assert told.status_code == 200 and study.trial("user-1").reward == 1.0
        assert features.get_string_value("prices", "none", subject("user-1", segment="old")) == found.value


def test_what_cannot_be_evaluated_is_the_default(server: Serving, features: OpenFeatureClient) -> None:
    with new(server, "odd") as study:
        cases = [
            ("nobody", subject("u", segment="old"), ErrorCode.FLAG_NOT_FOUND),
            ("odd", EvaluationContext(attributes={"segment": "old"}), ErrorCode.TARGETING_KEY_MISSING),
            ("odd", subject("u"), ErrorCode.INVALID_CONTEXT),
            ("odd", subject("u", segment="nowhere"), ErrorCode.INVALID_CONTEXT),
            ("odd", subject("u", segment=3), ErrorCode.INVALID_CONTEXT),
        ]
        for name, context, code in cases:
            found = features.get_string_details(name, "none", context)
            assert (found.value, found.error_code) == ("none", code)
        study.pause("a while")
        found = features.get_string_details("odd", "none", subject("u", segment="old"))
        assert (found.value, found.error_code) == ("none", ErrorCode.GENERAL)
        assert "a while" in str(found.error_message) and study.trials == 0


def test_a_study_that_has_ended_gives_its_answer(server: Serving, features: OpenFeatureClient) -> None:
    with new(server, "ended", budget=2, task_attribute="group") as study:
        first = features.get_string_details("ended", "none", subject("u1", group="old"))
        study.tell(key="u1", reward=1)
        features.get_string_details("ended", "none", subject("u2", group="young"))
        study.tell(key="u2", reward=0)
        assert study.verdict == "budget exhausted"
        assert features.get_string_value("ended", "none", subject("u1", group="old")) == first.value
        found = features.get_string_details("ended", "none", subject("u3", group="old"))
        best = study.best
        assert found.value == f"{best.representations['old']}/{best.predictors['old']}"
        assert found.reason == Reason.STATIC and "trial" not in found.flag_metadata
        assert study.trials == 2


def test_all_flags_of_a_subject(server: Serving) -> None:
    new(server, "bulk-1", tasks=["only"]).close()
    new(server, "bulk-2").close()
    with server.client("operate", "bulk-1") as http:
        where, body = "/ofrep/v1/evaluate/flags", {"context": {"targetingKey": "u"}}
        answer = http.post(where, json=body)
        (flag,) = answer.json()["flags"]  # the token may operate one of them
        assert flag["key"] == "bulk-1" and "/" in flag["variant"]
        tag = answer.headers["etag"]
        assert http.post(where, json=body, headers={"If-None-Match": tag}).status_code == 304
        assert http.post(f"{where}/bulk-2", json=body).status_code == 403
    with server.client("operate") as http:
        flags = {each["key"]: each for each in http.post(where, json=body).json()["flags"]}
        assert flags["bulk-1"] == flag and flags["bulk-2"]["errorCode"] == "INVALID_CONTEXT"
        assert http.post(where, json={}).json()["flags"][0]["errorCode"] == "TARGETING_KEY_MISSING"
    with httpx.Client(base_url=server.url) as stranger:
        assert stranger.post(where, json=body).status_code == 401
    with Study.open(server.place, "bulk-1") as study:
        assert study.trials == 1

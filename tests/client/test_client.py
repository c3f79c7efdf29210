"""One contract for every study, wherever it is kept; and a client that loses answers, and no trials."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import polars as pl
import pytest
import typer
from polars.testing import assert_frame_equal

import osrl
from osrl.cli import app, main
from osrl.client import AsyncRemoteStudy, RemoteStudy, connect, connect_async, transport
from osrl.client.transport import Transport
from osrl.report.study import StudyReport
from osrl.service.models import CreateRequest
from osrl.study.settings import CreateOptions, new_settings
from osrl.study.study import Study
from tests.support.databases import new_place, remove_place
from tests.support.servers import NAMES, Serving, serving

Capture = pytest.CaptureFixture[str]
AnyStudy = Study | RemoteStudy
New = Callable[..., AnyStudy]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One server for the tests of this module."""
    with serving(str(tmp_path_factory.mktemp("client") / "studies.db")) as found:
        yield found


class Awaited:
    """An awaited study with the interface of the others, so that one contract holds for all of them."""

    def __init__(self, url: str, token: str, name: str) -> None:
        self.name = name
        self._loop = asyncio.new_event_loop()
        self._study = self._loop.run_until_complete(connect_async(url, token, name))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._study, name)
        if not callable(found):
            return found
        if isinstance(getattr(RemoteStudy, name), property):
            return self._loop.run_until_complete(found())
        return lambda *given, **named: self._wait(name, found(*given, **named))

    def _wait(self, name: str, call: Any) -> Any:
        answer = self._loop.run_until_complete(call)
        return iter(answer) if name == "events" else answer

    def run(self, function: Callable[[Any], float], **given: Any) -> Any:
        async def awaited(trial: Any) -> float:
            await asyncio.sleep(0)
            return function(trial)

        return self._loop.run_until_complete(self._study.run(awaited, **given))

    def __enter__(self) -> Awaited:
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run_until_complete(self._study.close())
        self._loop.close()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server on PostgreSQL."""
    place = new_place("postgresql", tmp_path_factory.mktemp("client"))
    with serving(place) as found:
        yield found
    remove_place(place)


LONG = [pytest.param(each, marks=pytest.mark.validate) for each in ("on PostgreSQL", "awaited, on PostgreSQL")]


@pytest.fixture(params=["local", "remote", "awaited", *LONG])
def new(request: pytest.FixtureRequest, tmp_path: Path) -> New:
    """Makes a study: one that is kept here, or by a server."""
    server: Serving = request.getfixturevalue("other" if "PostgreSQL" in request.param else "server")
    name = request.node.name.replace("[", "-").replace("]", "")

    def create(**changes: Any) -> AnyStudy:
        settings = {**NAMES, "policy": "uniform", "seed": 7, "delta": 0.2, "name": name, **changes}
        if request.param == "local":
            return Study.create(str(tmp_path / "study.db"), **settings)
        study = RemoteStudy.create(server.url, server.token(), **settings)
        if "awaited" not in request.param:
            return study
        study.close()
        return cast(AnyStudy, Awaited(server.url, server.token(), settings["name"]))

    return create


# What only a local study has, and what begins with a database here, with an address and a token there.
LOCAL = {"deleted", "log_parts", "look", "look_at", "name", "open", "plot", "read_log", "together"}
PLACED = {"create", "delete", "list"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def parameters(kind: type, name: str) -> list[Any] | None:
    """The parameters of a method, with their kinds and defaults; None for a property."""
    found = getattr(kind, name)
    if isinstance(found, property):
        return None
    given = inspect.signature(found).parameters.values()
    return [(each.name, each.kind, each.default) for each in given]


def test_the_three_kinds_of_study_have_the_same_methods() -> None:
    assert public(RemoteStudy) == public(Study) - LOCAL
    assert public(AsyncRemoteStudy) == public(RemoteStudy) - PLACED
    for name in public(AsyncRemoteStudy) - {"events"}:  # those of a local study also begin at any position
        remote, awaited = parameters(RemoteStudy, name), parameters(AsyncRemoteStudy, name)
        assert parameters(Study, name) == remote, name
        if remote is not None and name != "run":  # an awaited run shows no progress
            assert remote == awaited, name


def test_a_new_study_has_the_same_options_everywhere() -> None:
    options = set(CreateOptions.__annotations__)
    assert set(CreateRequest.model_fields) == options | {"name", "task_attribute"}
    commands: Any = typer.main.get_command(app)
    declared = {each.name for each in commands.commands["study"].commands["create"].params}
    assert declared - {"place", "instance", "as_json"} == options - {"options"} | {"name", "option"}
    for create in (Study.create, RemoteStudy.create):
        assert inspect.signature(create).parameters["options"].annotation == "Unpack[CreateOptions]"
    with pytest.raises(TypeError, match="no option 'tusks'"):
        new_settings(**NAMES, tusks=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="needs the option 'tasks'"):
        new_settings(representations=2, predictors=2)  # type: ignore[call-arg]


def test_ask_and_tell(new: New) -> None:
    with new() as study:
        trial = study.ask("old", key="patient-1", note={"site": "Rome"}, lease="1h")
        assert study.ask(key="patient-1") == trial
        assert (trial.id, trial.task, trial.key, trial.note) == (1, "old", "patient-1", {"site": "Rome"})
        several = study.ask(n=3)
        assert [each.id for each in several] == [2, 3, 4] and study.pending == (1, 2, 3, 4)
        study.tell(trial, True)
        study.tell(trial.token, 1)
        study.tell(key="patient-1", reward=1.0, by="me")
        with pytest.raises(osrl.RewardRefused, match="cannot be changed"):
            study.tell(1, 0)
        assert study.tell_many([(several[0], 1), {"trial": 3, "reward": 0}, {"key": "patient-1", "reward": 1}]) == 2
        study.abandon(4, reason="gone")
        assert study.abandon_many([4, {"trial": 4}]) == 0
        record = study.trial("patient-1")
        assert (record.status, record.reward) == ("told", 1.0) and study.trial(trial) == record
        assert [each.id for each in study.records(2, 10)] == [2, 3, 4]
        assert study.trials == 4 and study.verdict == "running" and not study.pending


def test_what_is_known(new: New, tmp_path: Path) -> None:
    with new(policy="osrl", budget=100) as study:
        for i in range(8):
            trial = study.ask(key=f"k{i}")
            if i < 6:
                study.tell(trial, i % 2)
        status = study.status
        assert (status.handed_out, status.told, len(status.pending)) == (8, 6, 2)
        assert status.settings == study.settings and status.head == study.head
        assert status.pending[0].key == "k6" and not status.pending[0].overdue
        assert status.best == study.best and study.expected_remaining == status.expected_remaining
        assert study.summary["told"] == 6 and study.summary["id"] == study.id
        assert study.arms["told"].sum() == 6 and study.evidence.columns[3] == "log_evidence"
        assert study.history["status"].to_list() == ["told"] * 6 + ["pending"] * 2
        assert study.verify(study.head).ok and not study.verify("0" * 64).ok
        assert [event.kind for event in study.events()][:2] == ["create", "design"]
        assert study.anchor(tmp_path / "heads")["head"] == study.head
        for name, write in (
            ("log", study.write_log),
            ("trials", study.write_trials),
            ("arms", study.write_arms),
        ):
            for suffix in ("csv", "jsonl", "parquet"):
                write(tmp_path / f"{name}.{suffix}")
        assert pl.read_parquet(tmp_path / "trials.parquet").height == 8
        with Study.read_log(tmp_path / "copy.db", tmp_path / "log.jsonl") as copy:
            assert copy.head == study.head
            assert_frame_equal(copy.history, study.history)
            assert_frame_equal(copy.arms, study.arms)
            assert_frame_equal(copy.evidence, study.evidence)
            assert copy.status == study.status
        with pytest.raises(osrl.OsrlError, match="unknown suffix"):
            study.write_log(tmp_path / "log.txt")


def test_pending_trials_come_in_pages(new: New) -> None:
    """Everywhere: what is shown of thousands of them does not grow with their number."""
    with new(policy="osrl") as study:
        for _ in range(3):
            study.ask(n=500)
        study.tell(7, 1)
        numbers = [1, 2, 3, 4, 5, 6, *range(8, 1501)]
        status = study.status
        assert [each.id for each in status.pending] == numbers[:100] and status.pending_next == 101
        assert status.waiting == 1499 and status.pending_ages == (1499, 0, 0, 0)
        assert len(json.dumps(StudyReport("", "", status).document())) < 60_000
        assert study.pending == tuple(numbers) and study.summary["pending"] == numbers[:1000]
        assert study.summary["pending_next"] == 1001
        assert [each.id for each in study.pending_trials(101, 1000)] == numbers[100:1100]
        assert [each.id for each in study.pending_trials(1498)] == [1499, 1500]
        assert study.pending_trials(1500) == ()
        for after, limit in ((0, 0), (0, 1001), (-1, 5)):
            with pytest.raises(osrl.OsrlError):
                study.pending_trials(after, limit)


def test_its_life(new: New) -> None:
    with new(policy="osrl", budget=5) as study:
        study.pause("holiday", by="me")
        with pytest.raises(osrl.StudyPaused, match="holiday"):
            study.ask()
        study.resume()
        study.raise_budget(6)
        study.add(representation="C", reason="new")
        study.withdraw(representation="A", reason="rash")
        trial = study.ask()
        study.tell(trial, 0)
        study.correct(trial, 1, reason="typo")
        study.amend(trial, 0, reason="another one")
        assert study.trial(trial).amended == 0.0
        study.recover("a test")
        assert study.trial(trial).reward == 1.0 and study.settings.representations == ["B", "C"]
        with pytest.raises(osrl.BudgetSpent):
            study.ask(n=6)
        study.close("enough")
    assert study.place


def test_rows_of_many_losses(new: New) -> None:
    """Trials, their tokens, numbers or keys, alone or in tables: locally and remotely the same."""
    with new() as study:
        trials = [study.ask() for _ in range(4)]
        keyed = study.ask(key="k")
        rows = [trials[0], {"trial": trials[1]}, {"trial": trials[2].token}, {"trial": 4}, {"key": keyed.key}]
        assert study.abandon_many(rows) == 5
        for wrong in ({"trial": object()}, {"trial": 1, "more": 2}, {"trial": None}, object()):
            with pytest.raises(osrl.OsrlError):
                study.abandon_many([wrong])


def test_a_study_that_runs_to_its_end(new: New) -> None:
    with new(budget=6) as study:
        assert study.run(lambda trial: trial.predictor == "low", workers=2) == "budget exhausted"
        with pytest.raises(osrl.StudyEnded):
            study.ask()


def test_a_run_that_fails_tells_what_was_being_done(new: New) -> None:
    calls: list[int] = []

    def fail_once_then_for_good(trial: Any) -> float:
        calls.append(trial.id)
        if calls.count(1) == 1 and trial.id == 1:
            raise RuntimeError("the first attempt")
        if trial.id == 3:
            raise RuntimeError("broken")
        return 1.0

    with new(budget=20) as study:
        with pytest.raises(RuntimeError, match="broken") as failed:
            study.run(fail_once_then_for_good, workers=2, retries=1)
        assert calls.count(1) == 2 and calls.count(3) == 2
        assert "trial 3 has not reported" in str(failed.value.__notes__)
        assert study.pending == (3,) and study.trials <= 4
        with pytest.raises(osrl.OsrlError, match="workers is 0"):
            study.run(lambda trial: 1, workers=0)
        with pytest.raises(osrl.RewardRefused, match="no reward for trial"):
            study.run(lambda trial: None)  # type: ignore[arg-type,return-value]


def test_awaited_trials_are_out_at_the_same_time(server: Serving) -> None:
    together = RemoteStudy.create(server.url, server.token(), **NAMES, name="together", policy="uniform", budget=10)

    async def work() -> None:
        barrier = asyncio.Barrier(5)

        async def all_at_once(trial: Any) -> float:
            await asyncio.wait_for(barrier.wait(), 30)
            return 1.0

        async with await connect_async(server.url, server.token(), "together") as study:
            assert await study.run(all_at_once, workers=5) == "budget exhausted"

    with together:
        asyncio.run(work())
        assert together.trials == 10


def test_a_name_may_have_a_slash(new: New, request: pytest.FixtureRequest) -> None:
    name = f"a/{request.node.name}/b c/%2F/status"
    with new(name=name) as study:
        assert study.name == name
        study.tell(study.ask(), 1)
        assert study.status.told == 1 and study.records(1, 1)[0].reward == 1.0
        assert study.verify().ok


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda study: study.tell(99, 1), osrl.UnknownTrial),
        (lambda study: study.tell(1, 7), osrl.RewardRefused),
        (lambda study: study.tell(1, "much"), osrl.RewardRefused),
        (lambda study: study.tell(1, float("nan")), osrl.RewardRefused),
        (lambda study: study.tell(None, 1), osrl.OsrlError),
        (lambda study: study.tell(1, 1, key="k"), osrl.OsrlError),
        (lambda study: study.ask(n=0), osrl.OsrlError),
        (lambda study: study.ask(n=2, key="k"), osrl.OsrlError),
        (lambda study: study.ask("nowhere"), osrl.OsrlError),
        (lambda study: study.ask(lease="soon"), osrl.OsrlError),
        (lambda study: study.trial("nobody"), osrl.UnknownTrial),
        (lambda study: study.tell_many([(1, 1), (99, 1)]), osrl.UnknownTrial),
        (lambda study: study.withdraw(representation="Z", reason="r"), osrl.OsrlError),
        (lambda study: study.pause(""), osrl.OsrlError),
    ],
)
def test_what_is_refused(new: New, call: Callable[[AnyStudy], object], error: type[Exception]) -> None:
    with new() as study:
        study.ask()
        with pytest.raises(error) as refused:
            call(study)
        assert type(refused.value) is error
        assert study.trials == 1 and study.pending == (1,)


# The network ---------------------------------------------------------------------------------------------


class Lossy(httpx.HTTPTransport):
    """Every answer is lost twice, after the server has done what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[bytes, int] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        what = request.method.encode() + request.url.raw_path + request.content
        what += request.headers.get("idempotency-key", "").encode()
        answer = super().handle_request(request)
        self.sent[what] = self.sent.get(what, 0) + 1
        if self.sent[what] % 3:
            answer.close()
            raise httpx.ReadError("lost")
        return answer


def test_lost_answers_make_no_second_trial(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "FIRST_WAIT", 0.001)
    token = server.token()
    RemoteStudy.create(server.url, token, **NAMES, policy="uniform", seed=1, name="lossy").close()
    lossy = Lossy()
    with RemoteStudy(Transport(server.url, token, transport=lossy), "lossy") as study:
        for i in range(5):
            study.tell(study.ask(), i % 2)
        study.tell_many((trial, 1) for trial in study.ask(n=3))
        study.pause("a while")
        with pytest.raises(osrl.StorageError, match="nobody knows"):
            study.withdraw(representation="A", reason="rash")
    assert max(lossy.sent.values()) >= 3
    with Study.open(server.place, "lossy") as local:
        assert local.trials == 8 and local.pending == ()
        assert local.settings.representations == ["B"]  # it was done, once
        assert local.history["key"].null_count() == 8


def test_a_server_that_is_away_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.2)
    with pytest.raises(osrl.StorageError, match="cannot be reached"):
        connect("http://127.0.0.1:9", "osrl_x", "study")


def test_addresses_and_tokens(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OSRL_TOKEN", raising=False)
    for url, why in (("ftp://x", "not the address"), ("http://me:secret@x", "no token in it")):
        with pytest.raises(osrl.OsrlError, match=why):
            connect(url, "token")
    with pytest.raises(osrl.OsrlError, match="there is no token"):
        connect(server.url)
    with pytest.raises(osrl.AccessRefused):
        connect(server.url, "osrl_" + "0" * 12 + "_" + "x" * 43)
    with pytest.raises(osrl.UnknownStudy):
        connect(server.url, server.token(), "nobody")
    RemoteStudy.create(server.url, server.token(), **NAMES, policy="uniform", name="mine").close()
    with connect(server.url, server.token("read", "mine")) as study:  # the only one it may see
        assert study.name == "mine"
        with pytest.raises(osrl.AccessRefused, match="'operate'"):
            study.ask()


def test_the_same_to_be_awaited(server: Serving) -> None:
    token = server.token()
    RemoteStudy.create(server.url, token, **NAMES, policy="uniform", seed=1, name="awaited").close()

    async def work() -> None:
        async with await connect_async(server.url, token, "awaited") as study:
            trials = await asyncio.gather(*(study.ask() for _ in range(8)))
            assert sorted(each.id for each in trials) == list(range(1, 9))
            await asyncio.gather(*(study.tell(each, 1) for each in trials[:5]))
            assert await study.tell_many([(each, 0) for each in trials[5:7]]) == 2
            await study.abandon(trials[7])
            assert (await study.trial(trials[0])).reward == 1.0
            assert (await study.status()).told == 7 and (await study.arms())["told"].sum() == 7
            assert await study.verdict() == "running" and (await study.evidence()).height > 0
            with connect(server.url, token, "awaited") as twin:
                assert await study.summary() == twin.summary
            await study.pause("a while")
            with pytest.raises(osrl.StudyPaused):
                await study.ask(n=2)

    asyncio.run(work())


def test_the_command_line_takes_an_address(
    server: Serving, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OSRL_TOKEN", server.token())

    def run(*arguments: str, code: int = 0) -> Any:
        assert main(["study", *arguments, "--json"]) == code, capsys.readouterr().err
        said = capsys.readouterr()
        return json.loads(said.out) if code == 0 else said.err

    where = (server.url, "--name", "shell")
    arms = ("--tasks", "a,b", "--representations", "g,h", "--predictors", "1,2", "--policy", "uniform")
    assert run("create", *where, *arms, "--seed", "1")["verdict"] == "running"
    trial = run("ask", *where, "--key", "k", "--task", "b")
    assert run("tell", *where, str(trial["trial"]), "1")["verdict"] == "running"
    run("abandon", *where, str(run("ask", *where)["trial"]))
    assert run("status", *where)["trials"]["told"] == 1
    assert run("verify", *where)["ok"]
    assert "shell" in run("list", server.url)["studies"]
    assert run("export", *where, str(tmp_path / "log.jsonl"))["trials"] == 2
    run("pause", *where, "--reason", "a while")
    assert "is paused" in run("ask", *where, code=3)
    assert "where its database is" in run("backup", server.url, str(tmp_path / "b.db"), code=2)
    assert run("delete", server.url, "shell", "--yes") == {"deleted": "shell"}
    assert "no study 'shell'" in run("status", *where, code=2)

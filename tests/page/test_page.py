"""The page of a study: its words, its numbers, and the file that it can be frozen to."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from osrl.cli import main
from osrl.page.render import frozen_page, study_page
from osrl.page.snapshot import snapshot_at
from osrl.page.view import page_view
from osrl.service import page_cache
from osrl.study.log.events import Event
from osrl.study.study import Study
from tests.support.pages import HOSTILE, STATES, begin, play, snapshot_of
from tests.support.processes import wait_until


@pytest.fixture(scope="module")
def place(states: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = shutil.copytree(states, tmp_path_factory.mktemp("page") / "copy")
    return str(folder / "studies.db")


class Values(HTMLParser):
    """The numbers of a page: where they stand in the status document, and their values."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "data":
            self.found.append((str(given["data-key"]), str(given["value"])))
        if "data-mark" in given:
            self.found.append((str(given["data-mark"]), str(given["data-value"])))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def at(document: Any, key: str) -> Any:
    """What stands at a place of a document, such as ``arms.3.mean``."""
    for part in key.split("."):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


@pytest.mark.parametrize(("name", "state"), STATES.items())
def test_every_state_has_its_own_wording(place: str, name: str, state: str) -> None:
    assert page_view(name, snapshot_of(place, name))["sentence"].state == state


def test_sentences_that_can_be_repeated(place: str) -> None:
    def said(name: str) -> str:
        sentence = page_view(name, snapshot_of(place, name))["sentence"]
        return " ".join([sentence.headline, *sentence.more])

    decided = said("decided")
    assert decided.startswith("ibex is the best choice in every task: with low in young and with high in old.")
    assert "The chance that ibex is the wrong choice is at most 10 %" in decided
    assert "by more than 0.9" in said("within")
    assert "young speaks against lynx" in said("none") and "old speaks against ibex" in said("none")
    assert said("paused").startswith("Paused: the freezer is broken")
    assert "no result yet from old" in said("missing")
    assert "no result has come for 3 days" in said("stale")
    assert "The budget of 20 trials is spent" in said("spent")
    for over in ("spent", "closed"):
        assert "may change" not in said(over) and "If it ended now" not in said(over)


@pytest.mark.parametrize("name", ["running", "decided", "missing", "within", "empty"])
def test_every_number_is_that_of_the_status(place: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "status", place, "--name", name, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    values = Values(frozen_page(name, snapshot_of(place, name))).found
    assert len(values) > 20
    for key, value in values:
        expected = at(document, key)
        if isinstance(expected, dict):  # a hypothesis: its share of the limit
            expected = min(max(expected["log_evidence"] / expected["limit"], 0.0), 1.0)
        assert value == ("" if expected is None else str(expected)), key


def test_a_rival_is_struck_through_with_the_trial_that_ruled_it_out(place: str) -> None:
    page = frozen_page("decided", snapshot_of(place, "decided"))
    trial = re.search(r"<s><bdi>lynx</bdi></s>.*?ruled out at trial (\d+)", page, re.DOTALL)
    assert trial is not None
    with Study.open(place, "decided") as study:
        ends = {event.trial: event.seq for event in study.events() if event.kind == "tell"}
        just = ends[int(trial[1])]

        def rejected(sequence: int) -> bool:
            status = snapshot_at(study.events(), sequence).status
            return any(each.rejected for each in status.hypotheses if each.representation == "lynx")

        assert rejected(just) and not rejected(just - 1)


def test_a_frozen_page_follows_from_the_log_alone(place: str, tmp_path: Path) -> None:
    with begin(place, "grows", delta=1e-9) as study:
        play(study, 20)
        sequence = study.summary["events"] - 1
        command = ["study", "report", place, "--name", "grows", "--at", str(sequence), "--out"]
        assert main([*command, str(tmp_path / "one.html")]) == 0
        play(study, 10)
        study.write_log(tmp_path / "log.jsonl")
    assert main([*command, str(tmp_path / "two.html")]) == 0
    one = (tmp_path / "one.html").read_bytes()
    assert one == (tmp_path / "two.html").read_bytes()
    elsewhere = str(tmp_path / "copy.db")
    Study.read_log(elsewhere, tmp_path / "log.jsonl", "grows").close()
    command[2] = elsewhere
    assert main([*command, str(tmp_path / "three.html")]) == 0
    assert one == (tmp_path / "three.html").read_bytes()
    assert b"<script" not in one and b"http://" not in one and b"https://" not in one


def test_a_sequence_that_is_not_there_is_refused(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    for sequence, said in (("99999", "the last event of the log is"), ("-1", "numbered from 0 on")):
        assert main(["study", "report", place, "--name", "empty", "--out", "x.html", "--at", sequence]) == 2
        assert said in capsys.readouterr().err


def test_hostile_names_are_text(place: str) -> None:
    page = frozen_page("hostile", snapshot_of(place, "hostile"))
    for wrong in ("<script", "<img", "<b>low", "onload=alert(1)>"):
        assert wrong not in page
    assert HOSTILE[0] in "".join(Values(page).text)
    assert "\u202e" not in page  # would turn the text after it round


def test_what_holds_a_study_up_is_a_rival_of_its_leader(place: str) -> None:
    view = page_view("running", snapshot_of(place, "running"))
    open_rivals = {
        (rival.name, rival.percent.text)
        for group in view["groups"]
        for rival in group.rivals
        if not rival.leads and not rival.rejected and rival.key[1] in ("ibex", rival.name)
    }
    named = re.search(r"(\w+)(?:\. It)? is still possible, with (\d+ %) of the evidence", view["why"])
    assert named is not None and (named[1], named[2]) in open_rivals


def test_which_task_needs_results_is_said(tmp_path: Path) -> None:
    place = str(tmp_path / "needs.db")
    with begin(place, "needs", delta=0.05) as study:
        play(study, 150, task="young")
        play(study, 6, task="old")
    sentence = page_view("needs", snapshot_of(place, "needs"))["sentence"]
    wanted = "What goes with ibex is settled in young, and open in old. old needs results most: it has 6 so far."
    assert sentence.state == "running" and wanted in sentence.more


def test_who_may_only_read_sees_no_controls(place: str) -> None:
    snapshot = snapshot_of(place, "running")

    def page(*may: str) -> str:
        return study_page("running", snapshot, root="", may=may, due=False)

    token = snapshot.status.pending[0].token
    assert "data-verb" not in page() and token not in page()
    assert 'data-verb="tell"' in page("operate") and 'data-verb="withdraw"' not in page("operate")
    assert 'data-verb="withdraw"' in page("operate", "own")
    assert 'data-verb="ask"' not in study_page(
        "decided", snapshot_of(place, "decided"), root="", may=("operate",), due=False
    )


@pytest.mark.slow
def test_policies_without_evidence_and_rewards_without_limits(tmp_path: Path) -> None:
    place = str(tmp_path / "others.db")
    with begin(place, "tas", policy="tas") as study:
        play(study, 20)
    page = frozen_page("tas", snapshot_of(place, "tas"))
    assert "keeps no evidence about single rivals" in page
    with begin(place, "gaussian", family="gaussian", noise_sd=1.0, predictors=["one"]) as study:
        for i in range(12):
            study.tell(study.ask(), -2.5 + i)
    assert "ibex" in frozen_page("gaussian", snapshot_of(place, "gaussian"))


def test_a_page_does_not_wait_for_the_log_to_be_read(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "MAX_EVENTS_NOW", 0)
    go_on, cache = threading.Event(), page_cache.PageCache()
    read = Study.events

    def slowly(study: Study, *given: int) -> Iterator[Event]:
        assert go_on.wait(30)
        return read(study, *given)

    monkeypatch.setattr(Study, "events", slowly)
    with Study.open(place, "running") as study:
        first = cache.view(study)
        assert first.due and first.snapshot.history is None
        assert "the paths will be here in a moment" in study_page("running", first.snapshot, root="", may=(), due=True)
        go_on.set()
        wait_until(lambda: cache.view(study).snapshot.history is not None)
        history = cache.view(study).snapshot.history
        assert history is not None and history.points

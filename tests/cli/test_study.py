"""`osrl study`: from the shell, for people and for programs."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from osrl.cli import main
from osrl.study.log.events import Asked
from osrl.study.study import Study
from osrl.study.views.history import arm_columns
from tests.support.instances import refused
from tests.support.studies import late_and_lost, new_study, play

Capture = pytest.CaptureFixture[str]
Run = Callable[..., str]

NAMES = ("--tasks", "young,old", "--representations", "A,B", "--predictors", "low,high")


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "trial.db")


@pytest.fixture
def run(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command that must go well; what it prints."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object, code: int = 0) -> str:
        found = main(["study", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert (found, err) == (code, "")
        return out

    return call


def document(out: str) -> Any:
    assert out.count("\n") == 1, "one JSON document on one line"
    return json.loads(out)


def fails(capsys: Capture, *arguments: object) -> str:
    """Run a command that must be refused: the one line on standard error."""
    assert main(["study", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1
    return err


def test_from_nothing_to_a_verdict(run: Run, db: str) -> None:
    created = document(run("create", db, *NAMES, "--policy", "tas", "--seed", 3, "--delta", 0.2, "--json"))
    assert (created["study"], created["verdict"], created["seed"]) == ("study", "running", 3)
    best = {"young": ("A", "low"), "old": ("A", "high")}
    verdict, trials = "running", 0
    while verdict == "running":
        trial = document(run("ask", db, "--json"))
        fields = {"trial", "task", "representation", "predictor", "propensity", "token", "key", "note"}
        assert set(trial) == fields
        reward = int((trial["representation"], trial["predictor"]) == best[trial["task"]])
        told = document(run("tell", db, trial["trial"], reward, "--json"))
        verdict, trials = told["verdict"], trials + 1
        assert trials < 200
    status = document(run("status", db, "--json"))
    assert status["verdict"] == "decided"
    assert status["best"]["representation"] == "A"
    assert status["best"]["predictors"] == {"young": "low", "old": "high"}
    assert status["trials"] == {"handed_out": trials, "told": trials, "pending": 0, "abandoned": 0}
    assert document(run("verify", db, "--json"))["ok"] is True
    listed = document(run("list", db, "--json"))
    assert (listed["studies"], listed["deleted"]) == (["study"], [])
    assert listed["summaries"][0]["verdict"] == "decided"
    assert document(run("watch", db, "--json"))["verdict"] == "decided"


def test_pending_trials_are_shown_in_pages(run: Run, db: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("create", db, *NAMES, "--policy", "osrl", "--seed", 1)
    run("ask", db, "-n", 130)
    first = document(run("status", db, "--json"))
    assert (len(first["pending"]), first["pending_next"], first["trials"]["pending"]) == (100, 100, 130)
    assert sum(first["pending_ages"].values()) == 130
    last = document(run("status", db, "--after", first["pending_next"], "--json"))
    assert [each["trial"] for each in last["pending"]] == [*range(101, 131)] and last["pending_next"] is None
    few = document(run("status", db, "--after", 100, "--limit", 30, "--json"))
    assert few["pending"] == last["pending"] and few["pending_next"] is None
    few = document(run("status", db, "--after", 100, "--limit", 29, "--json"))
    assert few["pending_next"] == 129
    assert "and 118 more" in run("status", db)
    assert "give at most 1,000" in fails(capsys, "status", db, "--limit", 5000)


def test_what_a_person_reads(run: Run, db: str) -> None:
    assert "osrl study ask" in run("create", db, *NAMES, "--policy", "osrl", "--seed", 1)
    assert run("ask", db, "--task", "old").startswith("trial 1: ")
    assert run("ask", db, "-n", 2).count("in ") >= 2
    assert run("tell", db, 1, 1).startswith("trial 1: reward 1 is stored; verdict: running\nhead of the log: ")
    assert run("abandon", db, 2, "--ignorable") == "trial 2 is abandoned; verdict: running\n"
    report = run("status", db)
    for text in (
        "running (the experiment goes on)",
        "3 handed out, 1 told, 1 pending, 1 abandoned",
        "Best guess (the least evidence against it): representation",
        "Which representation is the best?",
        "Which predictor of A is the best?",
        "possible",
        "Not reported yet",
        "trial 3: ",
    ):
        assert text in report
    for _ in range(7):
        run("tell", db, document(run("ask", db, "--json"))["trial"], 1)
    assert "more trials" in run("status", db)
    assert "replay agrees bit for bit" in run("verify", db)
    assert run("list", db).startswith("study: running, ")
    assert run("delete", db, "study", "--yes") == "study 'study' is removed\n"
    assert run("list", db) == ""


def test_names_with_commas_and_an_instance_file(capsys: Capture, run: Run, db: str) -> None:
    out = run("create", db, "--instance", "paper", "--tasks", "one, two", "--tasks", "three", "--json")
    status = document(out)
    assert status["tasks"] == ["one, two", "three"]
    assert status["representations"] == ["g1", "g2", "g3"] and status["policy"] == "osrl"
    assert "3 predictors, and 2 in the file" in fails(
        capsys, "create", db, "--instance", "paper", "--predictors", "a,b,c"
    )
    gaussian = ("--family", "gaussian", "--noise-sd", 2, "--policy", "tas", "--name", "normal")
    run("create", db, *NAMES, *gaussian, "--option", "growth=0.1", "--json")
    run("ask", db, "--name", "normal")
    assert document(run("tell", db, 1, -0.5, "--name", "normal", "--json"))["reward"] == -0.5
    assert document(run("status", db, "--name", "normal", "--json"))["options"] == {"growth": 0.1}


def test_refusals_are_one_line(capsys: Capture, run: Run, db: str) -> None:
    assert "no such file" in fails(capsys, "ask", db)
    assert "the tasks are missing; give --tasks" in fails(capsys, "create", db, "--predictors", "a,b")
    run("create", db, *NAMES, "--policy", "tas")
    assert "already" in fails(capsys, "create", db, *NAMES)
    assert "has no trial 5" in fails(capsys, "tell", db, 5, 1)
    run("ask", db)
    assert "give 0 or 1" in fails(capsys, "tell", db, 1, 0.5)
    assert "give 0 or 1" in fails(capsys, "tell", db, 1, "nan")
    assert "has no study 'x'" in fails(capsys, "status", db, "--name", "x")
    assert "add --yes" in fails(capsys, "delete", db, "study", "--json")
    assert "give key=value" in fails(capsys, "create", db, *NAMES, "--option", "growth")
    assert "from 0 on" in fails(capsys, "create", db, *NAMES, "--policy", "tas", "--option", "growth=-1")
    assert "give a number of seconds" in fails(capsys, "watch", db, "--every", "nan")
    assert "has no study 'x'" in fails(capsys, "delete", db, "x")
    for released in (("osrl-sc-released",), ("osrl-sc", "--threshold", "released")):
        assert "nobody has proved" in fails(capsys, "create", db, *NAMES, "--policy", *released)
    normal = ("--family", "gaussian", "--noise-sd", 1, "--name", "normal")
    run("create", db, *NAMES, *normal)
    run("ask", db, "--name", "normal")
    assert "below 1e100" in fails(capsys, "tell", db, 1, "1e308", "--name", "normal")


def test_a_log_that_was_changed_by_hand_has_exit_code_5(run: Run, db: str) -> None:
    with new_study(db, policy="osrl", delta=0.01) as study:
        play(study, 30)
    with sqlite3.connect(db) as connection:
        connection.execute("DROP TRIGGER osrl_events_update")
        connection.execute(
            "UPDATE osrl_events SET payload = replace(payload, '\"reward\":0.0', '\"reward\":1.0') "
            "WHERE kind = 'tell' AND trial < 10"
        )
    connection.close()
    found = document(run("verify", db, "--json", code=5))
    assert not found["ok"] and found["problems"]
    assert "replay differs in" in run("verify", db, code=5)


def test_a_pipe_that_watches_gets_a_line_for_each_change(db: str) -> None:
    study = new_study(db, policy="tas", budget=3)
    code = "import sys; from osrl.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "study", "watch", db, "--every", "0.05"]
    with study, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "0 handed out, 0 told, 0 abandoned: running\n"
        trials = study.ask(n=3)
        assert watching.stdout.readline() == "3 handed out, 0 told, 0 abandoned: running\n"
        for trial in trials:
            study.tell(trial, 0)
        rest = watching.stdout.read()
        assert "budget exhausted" in " ".join(rest.split()) and watching.wait(20) == 0


def test_a_person_who_watches_sees_what_happens_and_may_leave(db: str) -> None:
    """On a terminal: the status changes when others tell, and Ctrl-C ends it with one word."""
    with new_study(db, policy="uniform", delta=0.01) as study:
        study.tell(study.ask(), 1)
        terminal, end = pty.openpty()
        code = "import sys; from osrl.cli import main; sys.exit(main())"
        watching = subprocess.Popen(
            [sys.executable, "-c", code, "study", "watch", db, "--every", "0.1"], stdout=end, stderr=end
        )
        os.close(end)
        try:
            wait_for(terminal, "1 handed out, 1 told")
            study.tell(study.ask(), 0)
            wait_for(terminal, "2 handed out, 2 told")
            watching.send_signal(signal.SIGINT)
            said = wait_for(terminal, "interrupted")
            assert "Traceback" not in said
            assert watching.wait(20) == 130
        finally:
            watching.kill()
            watching.wait(20)
            os.close(terminal)


@pytest.mark.parametrize(
    ("command", "line"),
    [(["report", "--out", "page.html"], "events"), (["verify"], "replaying the log")],
)
def test_who_waits_for_a_replay_sees_that_it_goes_on(db: str, command: list[str], line: str, tmp_path: Path) -> None:
    """On a terminal, and nowhere else: what is printed stays what it is."""
    with new_study(db, policy="uniform", delta=0.01) as study:
        play(study, 3)
    terminal, end = pty.openpty()
    code = "import sys; from osrl.cli import main; sys.exit(main())"
    start = [sys.executable, "-c", code, "study", command[0], db, *command[1:]]
    with subprocess.Popen(
        start,
        stdout=subprocess.PIPE,
        stderr=end,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm"},
    ) as run:
        os.close(end)
        try:
            wait_for(terminal, line)
            threading.Thread(target=read_on, args=(terminal,), daemon=True).start()
            assert run.stdout is not None and line not in run.stdout.read()
            assert run.wait(20) == 0
        finally:
            run.kill()
            os.close(terminal)


def read_on(terminal: int) -> None:
    """Read what is written to a terminal until nobody writes any more: who fills it would wait for ever."""
    with suppress(OSError):
        while os.read(terminal, 65536):
            pass


def test_a_list_does_not_look_ahead(run: Run, db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To name studies takes no forecast of each."""
    new_study(db, policy="uniform").close()
    monkeypatch.setattr("osrl.study.views.forecast.look_ahead", None)
    assert run("list", db) == "study: running, 0 of 0 trials told\n"


def wait_for(terminal: int, text: str) -> str:
    """Read from a terminal until a text appears."""
    said, end = "", time.monotonic() + 60
    while text not in said:
        assert time.monotonic() < end, said
        if select.select([terminal], [], [], 0.2)[0]:
            said += os.read(terminal, 65536).decode(errors="replace")
    return said


def test_a_verdict_without_an_answer_is_explained(run: Run, db: str) -> None:
    with new_study(db, policy="uniform", budget=30, delta=0.001) as study:
        play(study, 30)
    report = run("status", db)
    assert "budget exhausted (the budget is spent, and the answer is a best guess)" in report
    assert "It could be claimed now: that " in report
    found = document(run("status", db, "--json"))
    assert 0 < found["claim"]["representation"] <= 1 and set(found["claim"]["predictors"]) == {"young", "old"}
    with new_study(db, policy="uniform", name="apart") as study:
        while study.verdict == "running":
            trial = study.ask()
            study.tell(trial, (trial.representation == "A") == (trial.task == "old"))
    report = run("status", db, "--name", "apart")
    assert "The tasks pull apart: young speaks against A (evidence" in report
    found = document(run("status", db, "--name", "apart", "--json"))
    assert {each["representation"]: each["task"] for each in found["objections"]} == {
        "A": "young",
        "B": "old",
    }


# Export and import --------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_round_trip_is_lossless(run: Run, db: str, tmp_path: Path, suffix: str) -> None:
    tasks = ["young", 'old, "very" old: ü']
    with new_study(db, policy="osrl", tasks=tasks, delta=0.05) as study:
        late_and_lost(study, 25)
        before = list(study.events())
        file, back = tmp_path / f"log{suffix}", str(tmp_path / "back.db")
        assert document(run("export", db, file, "--json"))["trials"] == study.trials
        run("import", back, file, "--name", "copy")
        with Study.open(back, "copy") as copy:
            assert list(copy.events()) == before
            assert copy.history.equals(study.history)
            # Both go on in the same way.
            assert replace(copy.ask(), token="") == replace(study.ask(), token="")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_trials_as_a_table(run: Run, db: str, tmp_path: Path, suffix: str) -> None:
    with new_study(db, policy="osrl") as study:
        play(study, 5)
        study.ask()
        asked = [event.body for event in study.events() if isinstance(event.body, Asked)]
        arms = arm_columns(study.settings.representations, study.settings.predictors)
    file = tmp_path / f"trials{suffix}"
    run("export", db, file, "--trials")
    read = {".csv": pl.read_csv, ".jsonl": pl.read_ndjson, ".parquet": pl.read_parquet}[suffix]
    frame: pl.DataFrame = read(file)  # type: ignore[operator]
    assert frame["trial"].to_list() == [1, 2, 3, 4, 5, 6]
    assert frame["reward"].null_count() == 1
    for row, ask in zip(frame.select(arms).rows(), asked, strict=True):
        assert ask.propensities is not None
        total = sum(ask.propensities)
        assert row == pytest.approx([p / total for p in ask.propensities], rel=1e-12)


def test_files_that_are_no_logs_are_refused(db: str, tmp_path: Path) -> None:
    with new_study(db, policy="tas") as study:
        play(study, 3)
        with refused("unknown suffix '.xls'; use one of .csv, .jsonl, .parquet"):
            study.write_log(tmp_path / "log.xls")
        with refused("cannot be written"):
            study.write_log(tmp_path / "none" / "log.csv")
        study.write_log(tmp_path / "log.jsonl")
    back = str(tmp_path / "back.db")
    with refused("no such file"):
        Study.read_log(back, tmp_path / "none.csv")
    for name in ("log.csv", "other.jsonl", "log.parquet"):
        (tmp_path / name).write_text("task,reward\n1,2\n", encoding="utf-8")
        with refused("the log of a study"):
            Study.read_log(back, tmp_path / name)
    lines = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "torn.jsonl").write_text("\n".join(lines[:3] + lines[4:]), encoding="utf-8")
    with refused("torn.jsonl: event 4 is not the one that was written after the one before"):
        Study.read_log(back, tmp_path / "torn.jsonl")
    (tmp_path / "cut.jsonl").write_text("\n".join(lines[:4]), encoding="utf-8")
    with refused(f"cut.jsonl: the log is cut: 4 of {len(lines)} events"):
        Study.read_log(back, tmp_path / "cut.jsonl")
    (tmp_path / "mixed.jsonl").write_text("\n".join(lines[:3] + lines[3:][::-1]), encoding="utf-8")
    with refused(f"event {len(lines) - 1} is not the one that was written after the one before"):
        Study.read_log(back, tmp_path / "mixed.jsonl")
    assert not Path(back).exists()

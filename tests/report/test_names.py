"""Names are text, whatever stands in them; passwords are never shown; files are for their owner."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import osrl
from osrl.cli import main
from osrl.errors import OsrlError
from osrl.files import replace_file
from osrl.model.instance import Instance
from osrl.report.html import Section, render_page
from osrl.report.study import StudyReport
from osrl.text import is_control, printable, without_passwords
from tests.support.databases import new_place, remove_place

HOSTILE = ["drug[a]", "drug[b]", "[/nope]", "[bold red]x[/]", ":smile:", "<b>&amp;", "a,b;c|d", "[link=x]y"]
CONTROLS = ["\x1b[31mred", "\x9b31m", "bell\x07", "back\x08\x08", "line\r", "\u202edetrever", "a\tb"]
SECRET = "sesame!"

Capture = pytest.CaptureFixture[str]


def steers_the_terminal(shown: str) -> bool:
    return any(is_control(each) or each == "\u202e" for each in shown.replace("\n", ""))


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")


def run(capsys: Capture, *arguments: object, code: int = 0) -> str:
    assert main([str(argument) for argument in arguments]) == code
    out, err = capsys.readouterr()
    assert not steers_the_terminal(out + err)
    return out + err


def hostile_instance() -> Instance:
    means = [
        [[0.9, 0.1]] + [[0.3, 0.2]] * (len(HOSTILE) - 1),
        [[0.9, 0.2]] + [[0.2, 0.1]] * (len(HOSTILE) - 1),
    ]
    return Instance.bernoulli(means, tasks=HOSTILE[:2], representations=HOSTILE, predictors=["[p]", "[/p]"])


def test_every_report_shows_names_as_they_are(tmp_path: Path, capsys: Capture) -> None:
    hostile_instance().save(tmp_path / "hostile.toml")
    db = tmp_path / "study.db"
    shown = run(capsys, "bound", tmp_path / "hostile.toml")
    assert all(name in shown for name in (*HOSTILE[:2], "[p]", "[/p]"))
    run(
        capsys,
        "study",
        "create",
        db,
        "--instance",
        tmp_path / "hostile.toml",
        "--name",
        "[/study]",
        "--seed",
        1,
    )
    first = run(capsys, "study", "ask", db, "-n", 3)
    assert first.count("drug[") >= 3
    run(capsys, "study", "tell", db, 1, 1)
    status = run(capsys, "study", "status", db)
    assert "Study [/study] in" in status
    table = status[: status.index("Which predictor")]
    for name in HOSTILE:
        assert any(line.strip().startswith(name) for line in table.splitlines()), f"a row of its own for {name}"
    run(capsys, "study", "export", db, tmp_path / "trials.csv", "--trials")
    assert run(capsys, "study", "list", db).startswith("[/study]: running, ")
    with osrl.Study.open(db) as study:
        console = Console(file=io.StringIO(), width=1000)  # another console, which reads markup
        console.print(StudyReport(study.place, study.name, study.status))
    assert "[/nope]" in console.file.getvalue()  # type: ignore[attr-defined]


def test_controls_in_a_log_do_not_reach_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    rows = [f'"{name}","[{name}]",h,{i % 2}' for i, name in enumerate(CONTROLS * 2)]
    log = tmp_path / "log\x1b[2J.csv"
    log.write_text("\n".join(["task,representation,predictor,reward", *rows]), encoding="utf-8", newline="")
    shown = run(capsys, "analyse", log)
    assert "log\\x1b[2J.csv" in shown and "\\x1b[31mred" in shown and "\\u202edetrever" in shown
    assert "no such file" in run(capsys, "analyse", "none\x1b[2J.csv", code=2)
    assert "\\x1b" in run(capsys, "study", "status", "none\x1b[2J.db", code=2)


@given(st.text())
def test_what_is_printable_has_no_controls(name: str) -> None:
    assert not steers_the_terminal(printable(name).replace("\n", "!"))
    assert str(OsrlError(f"unknown name {name}")).isprintable() or "\\" not in name
    if name.isprintable():
        assert printable(name) == name


def test_names_in_the_page_are_text() -> None:
    shown = render_page("<script>alert(1)</script>", ["</p><script>x"], [Section("<b>", ["&lt;"])], "<footer>")
    assert "<script>" not in shown and "<b>" not in shown and "&amp;lt;" in shown


# Passwords ------------------------------------------------------------------------------------------------

URLS = [
    f"postgresql://me:{SECRET}@127.0.0.1:1/db",
    f"postgresql://:{SECRET}@127.0.0.1:1/db",
    f"postgresql://me@127.0.0.1:1/db?password={SECRET}",
    f"postgresql://me@127.0.0.1:1/db?connect_timeout=1&PASSWORD={SECRET}",
    f"postgresql://me@127.0.0.1:1/db?sslpassword={SECRET}",
    f"postgresql://me:two words {SECRET}@127.0.0.1:1/db",
    f"postgresql://me:at@{SECRET}@127.0.0.1:1/db",
    f"postgresql://me:{SECRET}@127.0.0.1:port/db",
    f"mysql://me:{SECRET}@127.0.0.1/db",
    f"://me:{SECRET}@127.0.0.1/db",
]


@pytest.mark.parametrize("url", URLS)
def test_no_password_in_a_message(url: str, capsys: Capture) -> None:
    for command in (["status"], ["create", "--tasks", "a"], ["verify"], ["delete"], ["list"]):
        arguments = [*command[:1], url, *command[1:], *(["study", "--yes"] if command == ["delete"] else [])]
        assert main(["study", *arguments]) in (2, 4)
        out, err = capsys.readouterr()
        assert SECRET not in out + err and err.count("\n") == 1


@pytest.mark.parametrize("url", URLS[:5])
def test_a_url_in_a_sentence_loses_its_password(url: str) -> None:
    for sentence in (url, f"cannot reach {url}; try again", f"in {url!r}", f"({url})"):
        assert SECRET not in without_passwords(sentence)
        assert "127.0.0.1" in without_passwords(sentence)
    assert str(OsrlError(f"no {url}")) == without_passwords(f"no {url}")


def test_no_password_in_what_a_study_says(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server trusts everybody here, so that any password will do."""
    plain = new_place("postgresql", tmp_path)
    place = f"{plain}&password={SECRET}"
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    try:
        shown = run(
            capsys,
            "study",
            "create",
            place,
            "--tasks",
            "a,b",
            "--representations",
            "g",
            "--predictors",
            "h,i",
        )
        shown += run(capsys, "study", "status", place) + run(capsys, "study", "status", place, "--json")
        shown += run(capsys, "study", "export", place, tmp_path / "log.jsonl")
        shown += (tmp_path / "log.jsonl").read_text(encoding="utf-8")
        shown += run(capsys, "study", "import", place, tmp_path / "log.jsonl", "--name", "copy")
        assert main(["study", "delete", place, "copy"]) == 1
        shown += "".join(capsys.readouterr())
        with osrl.Study.open(place, "study") as study:
            shown += repr(study) + study.place
        assert SECRET not in shown and "password=***" in shown
    finally:
        remove_place(plain)


# Permissions ----------------------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_studies_and_exports_are_for_their_owner(tmp_path: Path) -> None:
    study = osrl.Study.create(tmp_path / "s.db", tasks=1, representations=2, predictors=2)
    study.ask()
    assert {mode(path) for path in tmp_path.iterdir()} == {0o600}, "the files that SQLite makes beside it, too"
    study.write_log(tmp_path / "log.csv")
    study.write_trials(tmp_path / "trials.parquet")
    assert mode(tmp_path / "log.csv") == mode(tmp_path / "trials.parquet") == 0o600
    (tmp_path / "log.csv").chmod(0o640)
    study.write_log(tmp_path / "log.csv")
    assert mode(tmp_path / "log.csv") == 0o640


def test_other_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        replace_file(tmp_path / "a", b"")
        (tmp_path / "b").touch(mode=0o600)
        replace_file(tmp_path / "b", b"new")
    finally:
        os.umask(before)
    assert (mode(tmp_path / "a"), mode(tmp_path / "b")) == (0o644, 0o600)

"""The tutorial on studies: every command is run, and prints what stands there, but for numbers and arms."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from osrl.cli import main
from osrl.study.study import Study

Capture = pytest.CaptureFixture[str]
PAGE = Path(__file__).resolve().parents[1] / "docs" / "study.md"
NAMES = "ibex|lynx|low|high|young|old"


def blocks() -> Iterator[tuple[str, str, str]]:
    """The console and Python blocks of the page, in order, the latter with what they print."""
    block = r"```(console|python)\n(.*?)```(?:\n\n```\n(.*?)```)?"
    yield from re.findall(block, PAGE.read_text(encoding="utf-8"), re.S)


def masked(text: str) -> list[str]:
    """The lines of a text without what depends on chance, time and the width of a terminal."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"\b[0-9a-f]{64}\b", "HASH", line)
        line = re.sub(r"[█░]+", "=", line)
        line = re.sub(r"─+", "-", line)
        line = re.sub(rf"\b({NAMES})\b", "@", line)
        line = re.sub(r"-?\d[\d,.]*", "#", line)
        line = " ".join(line.split())
        if line:
            lines.append(line)
    return lines


def compare(written: list[str], printed: list[str]) -> None:
    """All lines that stand in the page were printed, in this order; "..." stands for any lines."""
    skipping = False
    rest = iter(printed)
    for line in written:
        if line == "...":
            skipping = True
            continue
        found = next(rest, None)
        while skipping and found is not None and found != line:
            found = next(rest, None)
        assert found == line
        skipping = False
    assert skipping or next(rest, None) is None


def test_the_tutorial(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    for kind, text, output in blocks():
        if kind == "python":
            exec(compile(text, str(PAGE), "exec"), {})
            compare(masked(output), masked(capsys.readouterr().out))
            continue
        for step in text.split("$ ")[1:]:
            command, _, written = step.partition("\n")
            assert main(shlex.split(command)[1:]) == 0
            printed, wrong = capsys.readouterr()
            assert wrong == ""
            compare(masked(written), masked(printed.replace(f"{tmp_path}/", "")))
    with Study.open("trial.db") as study:
        assert study.best.representation == "ibex"
        assert study.best.predictors == {"young": "low", "old": "high"}

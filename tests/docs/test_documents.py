"""The page of the JSON documents names the keys that the commands print, all of them and no others."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from osrl.cli import main

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "documents.md"
CREATE = "study create study.db --tasks x1,x2 --representations g1,g2 --predictors h1,h2 --seed 1"
COMMANDS = [
    "osrl bound paper",
    "osrl simulate paper --runs 1 --budget 50",
    "osrl plan paper --runs 20 --budget 50",
    "osrl rules",
    "osrl study ask study.db",
    "osrl study tell study.db 1 1",
    "osrl study ask study.db --task x2",
    "osrl study abandon study.db 2",
    "osrl study status study.db",
    "osrl study verify study.db",
    "osrl study list study.db",
    "osrl analyse trials.csv",
]


def promised() -> dict[str, list[str]]:
    """The keys of each command: the first paragraph below its heading, up to the first full stop."""
    found = re.findall(r"^## `([^`]+)`\n\n(.*?)\.(?:\s|$)", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return {command: re.findall(r"`(\w+)`", keys) for command, keys in found}


def test_the_keys_of_the_page(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keys = promised()
    seen = set()
    assert main(shlex.split(CREATE)) == 0
    for command in COMMANDS:
        if command.startswith("osrl analyse"):
            assert main(shlex.split("study export study.db trials.csv --trials")) == 0
        capsys.readouterr()
        assert main([*shlex.split(command)[1:], "--json"]) == 0, command
        name = next(name for name in keys if f"{command} ".startswith(f"{name} "))
        assert list(json.loads(capsys.readouterr().out)) == keys[name], name
        seen.add(name)
    assert seen == set(keys)

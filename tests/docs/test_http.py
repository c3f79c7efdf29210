"""The page for callers: every command is run against a server, and prints what stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from osrl.client import RemoteStudy
from osrl.service.app import openapi_document
from osrl.service.webhooks import sign
from tests.support.processes import TIMEOUT
from tests.support.requirements import missing
from tests.support.servers import NAMES, Serving, serving

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "http.md").read_text(encoding="utf-8")


def masked(text: str) -> str:
    """A text without what depends on chance and time."""
    text = re.sub(r"osrl_[0-9a-f]{12}_[\w-]{43}", "osrl_...", text)
    text = re.sub(r'"[0-9a-f]{64}"', '"..."', text)
    text = re.sub(r'"[0-9a-f]{12}(-[^"]*)?"', '"@"', text)
    text = re.sub(r'"(A|B|C|low|high|young|old|[ABC]/(low|high))"', '"@"', text)
    return re.sub(r"-?\d+(\.\d+)?", "#", text).strip()


def compare(written: str, printed: str, command: str) -> None:
    """What stands in the page was printed; from "..." at the end of a line on, anything."""
    for line, found in zip(masked(written).splitlines(), masked(printed).splitlines(), strict=False):
        if line == "...":
            return
        if line.endswith("...") and not line.endswith('"..."}'):
            assert found.startswith(line[:-3]), (command, found)
        else:
            assert found == line, (command, found)
    assert bool(written.strip()) == bool(printed.strip()), (command, printed)


@pytest.mark.slow
def test_every_call_of_the_page(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        missing("curl is not installed")
    with serving(str(tmp_path / "studies.db")) as server:
        run_page(server, tmp_path)


def run_page(server: Serving, folder: Path) -> None:
    token = server.token()
    environment = {**os.environ, "URL": server.url, "AUTH": f"Authorization: Bearer {token}"}
    called = set()
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.S):
        for step in block.split("$ curl")[1:]:
            command, _, written = step.partition("\n")
            done = subprocess.run(
                ["bash", "-c", f"curl{command}"],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=True,
            )
            compare(written, done.stdout, command)
            called |= set(re.findall(r"\$URL/([\w/.-]*)", command))
            if found := re.search(r'"id":"(\w{12})","token"', done.stdout):
                environment["ID"] = found[1]
    assert (folder / "trials.csv").read_text().startswith("trial,task")
    assert (folder / "log.jsonl").read_text().count("\n") > 5
    for route in openapi_document()["paths"]:
        path = route.strip("/").replace("{name}", "prices").replace("{id}", "")
        assert path in called, route
    run_python(server, token)


def run_python(server: Serving, token: str) -> None:
    ((code, output),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.S)
    RemoteStudy.create(server.url, token, **NAMES, name="prices", policy="uniform").close()
    printed: list[str] = []

    def show(*given: object) -> None:
        printed.append(" ".join(map(str, given)))

    exec(compile(code, "http.md", "exec"), {"URL": server.url, "TOKEN": token, "print": show})
    assert "\n".join(printed) == output.strip()


def test_the_signature_as_operators_check_it() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "service.md").read_text(encoding="utf-8"), re.S)
    scope: dict[str, object] = {}
    exec(compile(code, "service.md", "exec"), scope)
    genuine, now = scope["genuine"], int(time.time())
    assert callable(genuine)
    header = sign("0123456789abcdef", now, "body")
    assert genuine("0123456789abcdef", header, b"body", now)
    assert not genuine("0123456789abcdef", header, b"other", now)
    assert not genuine("0123456789abcdef", header, b"body", now + 301)

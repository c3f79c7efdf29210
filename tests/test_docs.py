"""Pages of the docs: every block of code is run, and prints what stands there, but for numbers and arms."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from osrl.cli import main
from osrl.study.study import Study

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    "docs/study.md",
    "docs/solver.md",
    "docs/start/index.md",
    "docs/start/experimenter.md",
    "docs/start/statistician.md",
    "docs/start/researcher.md",
]
ELSEWHERE = {
    "docs/bound.md": "tests/test_cli_bound.py runs its command",
    "docs/cluster.md": "needs a Slurm cluster",
    "docs/gallery/class_sizes.md": "tests/test_examples.py runs its program",
    "docs/gallery/evaluation.md": "tests/test_examples.py, after the program that makes its answers",
    "docs/gallery/prices.md": "tests/test_examples.py runs its program",
    "docs/gallery/therapies.md": "tests/test_examples.py runs its program",
    "docs/http.md": "tests/test_docs_http.py, on a server",
    "docs/page.md": "needs a browser; tests/test_page.py and tests/test_page_browser.py do the same",
    "docs/paper.md": "takes minutes; tests/test_paper.py does the same with fewer runs",
    "docs/policies.md": "tests/test_my_policy.py",
    "docs/rules.md": "takes minutes; tests/test_rules_of_others.py does the same with fewer runs",
    "docs/service.md": "tests/test_docs_http.py, on a server",
    "docs/simulate.md": "tests/test_cli_simulate.py",
}
NAMES = "ibex|lynx|low|high|young|old|France|Spain|plain|friendly"


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """The console and Python blocks of a page, in order, the latter with what they print."""
    block = r"```(console|python)\n(.*?)```(?:\n\n```(?:text)?\n(.*?)```)?"
    yield from re.findall(block, (ROOT / page).read_text(encoding="utf-8"), re.S)


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


def test_every_page_with_code_is_run() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    with_code = {page.relative_to(ROOT).as_posix() for page in pages if "```python" in page.read_text()}
    with_code |= {page.relative_to(ROOT).as_posix() for page in pages if "```console" in page.read_text()}
    assert with_code - set(PAGES) - set(ELSEWHERE) == set()


@pytest.mark.parametrize("page", PAGES)
def test_a_page(page: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, from the top to the end; what one Python block defines is there in the next."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    known: dict[str, object] = {}
    for kind, text, output in blocks(page):
        if kind == "python":
            exec(compile(text, page, "exec"), known)
            printed = capsys.readouterr().out
            if output:
                compare(masked(output), masked(printed))
            continue
        for step in text.split("$ ")[1:]:
            command, _, written = step.partition("\n")
            assert main(shlex.split(command)[1:]) == 0
            printed, wrong = capsys.readouterr()
            assert wrong == ""
            compare(masked(written), masked(printed.replace(f"{tmp_path}/", "")))
    if page == "docs/study.md":
        with Study.open("trial.db") as study:
            assert study.best.representation == "ibex"
            assert study.best.predictors == {"young": "low", "old": "high"}

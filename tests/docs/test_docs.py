"""Pages of the docs: every block of code is run, and prints what stands there, but for numbers and arms."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from osrl.cli import main
from osrl.study.study import Study
from tests.support.code_blocks import ROOT, blocks, compare, masked

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
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
    "docs/bound.md": "tests/cli/test_bound.py runs its command",
    "docs/cluster.md": "needs a Slurm cluster",
    "docs/gallery/class_sizes.md": "tests/docs/test_examples.py runs its program",
    "docs/gallery/evaluation.md": "tests/docs/test_examples.py, after the program that makes its answers",
    "docs/gallery/prices.md": "tests/docs/test_examples.py runs its program",
    "docs/gallery/therapies.md": "tests/docs/test_examples.py runs its program",
    "docs/http.md": "tests/docs/test_http.py, on a server",
    "docs/page.md": "needs a browser; tests/page/test_page.py and tests/page/test_browser.py do the same",
    "docs/paper.md": "takes minutes; tests/paper/test_paper.py does the same with fewer runs",
    "docs/policies.md": "tests/policies/test_my_policy.py",
    "docs/rules.md": "takes minutes; tests/policies/test_foreign_rules.py does the same with fewer runs",
    "docs/service.md": "tests/docs/test_http.py, on a server",
    "docs/simulate.md": "tests/cli/test_simulate.py",
}


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

"""The package as others get it: sdist and wheel are built, and the wheel starts in a new environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.processes import TIMEOUT, run_python

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("sqlalchemy", "altair", "distributed", "starlette", "httpx", "psycopg")
START = f"""
import sys

for name in {EXTRAS}:
    sys.modules[name] = None  # as if it were not installed
from osrl.cli import main

sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and with the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    run_python("-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT))
    return out


def test_the_wheel_has_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"osrl/py.typed", "osrl/data/paper.toml", "osrl/cli/__init__.py"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"osrl", f"osrl-{PROJECT['version']}.dist-info"}
    assert [name for name in names if "__pycache__" in name] == []


def test_the_sdist_can_be_tested_and_documented(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [
        "Makefile",
        ".ci/run",
        "docs/site/conf.py",
        "docs/index.md",
        "tests/conftest.py",
        "constraints.txt",
    ]
    assert [name for name in wanted if name not in names] == []


def test_the_wheel_starts_without_extras(built: Path, tmp_path: Path) -> None:
    """In a new environment, which borrows the third packages of this one: nothing has to be downloaded."""
    venv.create(tmp_path / "env", with_pip=False)
    (wheel,) = built.glob("*.whl")
    python = tmp_path / "env" / "bin" / "python"
    (home,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(home)
    borrowed = Path(sys.modules["pytest"].__file__ or "").parents[1]
    (home / "zz_borrowed.pth").write_text(f"{borrowed}\n")

    def run(*command: str) -> str:
        # Interpreted, because a new environment would have to compile first. -I: PYTHONPATH does not count.
        quick = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
        done = subprocess.run(
            [python, "-I", *command], cwd=tmp_path, env=quick, capture_output=True, text=True, timeout=TIMEOUT
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = run("-c", "import osrl; print(osrl.__file__)")
    assert Path(where.strip()).parent == home / "osrl"
    assert "K_G_sigma" in run("-c", START, "bound", "paper")
    assert run("-c", START, "--version") == f"osrl {PROJECT['version']}\n"


def test_the_version_is_the_same_everywhere() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(\d[^\]]*)\] - (\d{4}-\d\d-\d\d)$", changelog, re.M)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert newest is not None
    assert newest[1] == PROJECT["version"]
    assert f"version: {newest[1]}\n" in citation and f"date-released: {newest[2]}\n" in citation

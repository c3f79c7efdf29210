"""Commands load what they need, so that they come at once: none of the small ones loads the compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from osrl.jit.cache import PACKAGE
from tests.support.processes import run_python

HEAVY = {"altair", "distributed", "httpx", "numpy", "polars", "scipy", "sqlalchemy", "starlette"}
COMPILER = {"llvmlite", "numba"}
CREATE = ["study", "create", "study.db", "--tasks", "2", "--representations", "2", "--predictors", "2"]
ASK_AND_TELL = [CREATE, ["study", "ask", "study.db"], ["study", "tell", "study.db", "1", "1"]]


@pytest.mark.parametrize(
    ("commands", "loaded"),
    [
        ([], ""),
        ([["study", "ask", "--help"]], ""),
        ([["bound", "paper", "--json"]], "numpy"),
        (ASK_AND_TELL, "numpy sqlalchemy"),
    ],
)
def test_nothing_heavy_is_imported(commands: list[list[str]], loaded: str, tmp_path: Path) -> None:
    code = "import osrl, sys\n" + "".join(f"from osrl.cli import main; main({each})\n" for each in commands)
    look = f"{code}print('loaded:', *sorted({HEAVY | COMPILER} & set(sys.modules)))"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OSRL")}
    environment["PYTHONPATH"] = str(PACKAGE.parent)
    done = run_python("-c", look, cwd=tmp_path, env=environment)
    assert done.stdout.splitlines()[-1].split() == ["loaded:", *loaded.split()]


def run_with(package: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run a program that imports this copy of the package."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    return run_python("-c", code, cwd=package.parent, env=environment, check=False)


def test_a_study_needs_no_locks_and_forks_that_windows_has_not(tmp_path: Path) -> None:
    without = "import os, sys; sys.modules['fcntl'] = None; del os.register_at_fork, os.fork\n"
    play = "from osrl.cli import main\n" + "".join(f"assert main({each}) == 0\n" for each in ASK_AND_TELL)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    code = without + play + "import osrl.study.storage.socket_timeout"
    done = run_python("-c", code, cwd=tmp_path, env=environment)
    assert "trial 1: reward 1 is stored" in done.stdout


def test_files_of_another_project_in_the_package_are_noticed(tmp_path: Path) -> None:
    """osrl-lib installs osrl/__init__.py, osrl/algorithms and osrl/common."""
    package = tmp_path / "osrl"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert run_with(package, "import osrl").stderr == ""
    (package / "algorithms").mkdir()
    assert "osrl-lib installs a module osrl, too" in run_with(package, "import osrl").stderr
    (package / "__init__.py").write_text("__all__ = ['algorithms', 'common']")
    done = run_with(package, "from osrl.cli import main; raise SystemExit(main(['bound', 'paper']))")
    assert done.returncode == 2
    assert done.stderr == "error: osrl-lib, another project, has replaced files of this; uninstall both\n"

"""Commands load what they need, so that they come at once: none of the small ones loads the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from osrl.way import PACKAGE

HEAVY = {"altair", "distributed", "fastapi", "httpx", "numpy", "polars", "scipy", "sqlalchemy"}
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
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["loaded:", *loaded.split()]

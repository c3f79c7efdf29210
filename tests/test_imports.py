"""`import osrl` and the help of the commands load nothing heavy, so that they come at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"altair", "distributed", "fastapi", "httpx", "numba", "numpy", "polars", "scipy", "sqlalchemy"}


@pytest.mark.parametrize(
    "code", ["import osrl", "from osrl.cli import main; main(['study', 'ask', '--help'])"]
)
def test_nothing_heavy_is_imported(code: str) -> None:
    look = f"{code}\nimport sys\nprint('loaded:', *sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:"

"""The core works without the extras of the service, and a command that needs one names it."""

from __future__ import annotations

import pytest

from tests.support.processes import run_python

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
import osrl, osrl.cli, osrl.study.study
{code}
"""


@pytest.mark.parametrize(
    ("missing", "code", "said"),
    [
        ({"starlette", "uvicorn", "httpx"}, "sys.exit(osrl.cli.main(['serve', 'x.db']))", "osrl[service]"),
        ({"httpx"}, "sys.exit(osrl.cli.main(['study', 'status', 'http://localhost']))", "osrl[client]"),
    ],
)
def test_an_extra_that_is_missing_is_named(missing: set[str], code: str, said: str) -> None:
    program = BLOCKED.format(missing=missing, code=code)
    done = run_python("-c", program, check=False)
    assert done.returncode != 0 and said in done.stderr

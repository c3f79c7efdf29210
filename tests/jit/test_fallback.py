"""Where Numba's internals are not as expected, plain `njit` serves: the same runs, and one line of the log."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from osrl.jit.cache import PACKAGE
from osrl.jit.mode import process
from tests.support.processes import run_python

PLAIN_TIMEOUT = 600.0  # seconds: plain `njit` compiles everything anew, and takes three times as long

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2 * PLAIN_TIMEOUT),
    pytest.mark.skipif(process.switched_off, reason="nothing is compiled"),
]

RUNS = """
import json, sys
import osrl
from osrl.jit import backend
instance = osrl.Instance.bernoulli([[[0.9, 0.3], [0.2, 0.1]], [[0.2, 0.8], [0.1, 0.3]]])
runs = [osrl.simulate(instance, policy, 0.1, runs=5, seed=3, workers=1) for policy in sys.argv[1:]]
columns = ("tau", "tau_g", "representation", "predictor")
print(json.dumps([{name: run.frame[name].to_list() for name in columns if name in run.frame} for run in runs]))
print(backend.is_linked())
"""
BREAKS = {
    "the user says so": "import os; os.environ['OSRL_JIT'] = 'plain'\n",
    "a module is gone": "import sys; sys.modules['osrl.jit.linking'] = None\n",
    "a name is gone": "import numba.experimental.function_type\nimport numba.core.ccallback as m; del m.CFunc\n",
    "a class is another": "import numba.core.codegen as module; module.JITCodeLibrary = object\n",
    "a cache has another interface": "import numba.core.compiler as module; del module.CompileResult._reduce\n",
}


def runs(code: str, cache: Path, *policies: str) -> tuple[list[dict[str, list[int]]], bool, list[str]]:
    """What a new process finds, whether it used Numba's internals, and the lines that it logged."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "NUMBA_CACHE_DIR": str(cache)}
    done = run_python("-c", code + RUNS, *policies, env=environment, timeout=PLAIN_TIMEOUT)
    found, linked = done.stdout.splitlines()
    return json.loads(found), linked == "True", done.stderr.splitlines()


def test_plain_njit_gives_the_same_runs(tmp_path: Path) -> None:
    expected, linked, lines = runs("", tmp_path, "uniform", "tas")
    assert linked and not lines and list(tmp_path.rglob("*.nbc"))
    found, linked, lines = runs(BREAKS["the user says so"], tmp_path / "other", "uniform", "tas")
    assert not linked and found == expected
    assert len(lines) == 1 and "plain numba.njit is used: compiling is slow" in lines[0]
    assert not list((tmp_path / "other").rglob("*.nbc"))


@pytest.mark.parametrize("what", list(BREAKS)[1:])
def test_whatever_has_changed_is_found_by_the_probe(tmp_path: Path, what: str) -> None:
    code = "from osrl.jit import backend; from osrl.model.families import variance; import osrl.jit.mode as mode\n"
    code += "mode.compile_now(); assert variance(0.5, 0.0) == 0.25 and variance.backend.dispatcher.signatures\n"
    found, linked, lines = runs(BREAKS[what] + code, tmp_path)
    assert found == [] and (not linked or what == "a cache has another interface") and len(lines) == 1


def test_the_floor_of_numba_is_the_one_that_is_tested() -> None:
    project = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8")
    workflow = (PACKAGE.parent / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    floor = re.search(r'"numba>=([\d.]+)"', project)
    assert floor is not None and f'"numba=={floor[1]}.*"' in workflow

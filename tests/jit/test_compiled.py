"""The on-disk cache of kernels: nothing is compiled twice, and no edit goes unnoticed."""

from __future__ import annotations

import gc
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest

import osrl
from osrl.jit import kernel, kernel_in_place
from osrl.jit.cache import PACKAGE, source_digest
from osrl.jit.kernels import Kernel, direct
from tests.oracle import paper as oracle
from tests.support.processes import run_python

config: Any = numba.core.config
runtime: Any = numba.core.runtime

# Prints what ell costs for two arms, and how many functions were compiled for it.
COSTS = """
import numpy as np
from numba.core import event
compiled = []
class Count(event.Listener):
    def on_start(self, event): compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event): pass
event.register("numba:compile", Count())
from osrl.glr.transport_cost import sorted_costs
sums, level, mass, cost = np.empty((4, 3)), np.empty(2), np.empty(2), np.empty(2)
sorted_costs(np.array([0.6, 0.5]), np.ones(2), 0.0, sums, level, np.empty(2, np.int64), mass, cost)
print(cost[1], len(compiled))
"""


def run(code: str, cache: Path, package: Path = PACKAGE, **variables: str) -> str:
    """What a new process prints that imports ``osrl`` from ``package``; nothing on standard error."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    environment |= {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(package.parent), "OSRL_COMPILE": "now"}
    environment |= variables
    done = run_python("-c", code, env=environment, cwd=cache)
    assert done.stderr == ""
    return done.stdout.strip()


def copied_package(folder: Path) -> Path:
    """A copy of the package that may be edited."""
    return Path(shutil.copytree(PACKAGE, folder / "osrl", ignore=shutil.ignore_patterns("__pycache__")))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    cost, count = run(COSTS, tmp_path).split()
    assert int(count) >= 3
    assert run(COSTS, tmp_path) == f"{cost} 0"
    assert [path.name for path in tmp_path.iterdir()] == [f"osrl-{source_digest()}"]


def test_an_edit_of_one_file_reaches_the_callers_in_others(tmp_path: Path) -> None:
    """Numba alone would go on running the old divergence inside `sorted_costs`."""
    package = copied_package(tmp_path)
    cost, _ = run(COSTS, tmp_path, package).split()
    edit(package / "model" / "families.py", "return b * _surprise(d / b)", "return 2 * b * _surprise(d / b)")
    edit(package / "model" / "families.py", "+ (1.0 - b) * _surprise", "+ 2 * (1.0 - b) * _surprise")
    doubled, count = run(COSTS, tmp_path, package).split()
    assert float(doubled) == pytest.approx(2 * float(cost), rel=1e-12)
    assert int(count) >= 3


def test_the_digest_covers_every_kernel_and_nothing_else(tmp_path: Path) -> None:
    package = copied_package(tmp_path)
    before = source_digest(package)
    assert before == source_digest()
    (package / "errors.py").write_text("# no kernel here\n", encoding="utf-8")
    assert source_digest(package) == before
    for name in ("glr/transport_cost.py", "allocation/program.py", "jit/kernels.py"):
        path = package / name
        path.write_text(path.read_text(encoding="utf-8") + "# edited\n", encoding="utf-8")
        assert source_digest(package) != before
        before = source_digest(package)
    (package / "glr" / "statistic.py").rename(package / "glr" / "likelihood.py")
    assert source_digest(package) != before


def test_without_the_JIT_kernels_are_plain_functions(tmp_path: Path) -> None:
    code = COSTS + "print(type(sorted_costs).__name__)"
    lines = run(code, tmp_path, NUMBA_DISABLE_JIT="1").splitlines()
    assert lines[0].split()[1] == "0"
    assert lines[1] == "function"
    assert float(lines[0].split()[0]) == pytest.approx(oracle.two_arm_cost(1.0, 0.6, 1.0, 0.5), rel=1e-12)


# Where the cache is ---------------------------------------------------------------------------------------

FOLDER = """
from numba.core import config
before = config.CACHE_DIR
from osrl.model.families import variance
from osrl.jit.cache import cache_folder
assert variance(0.5, 0.0) == 0.25
print(cache_folder(), config.CACHE_DIR == before, sep="|")
"""


def test_numba_is_left_as_it_was_found(tmp_path: Path) -> None:
    folder, same = run(FOLDER, tmp_path).split("|")
    assert Path(folder) == tmp_path / f"osrl-{source_digest()}"
    assert same == "True"


COLLECTING = """
import gc
from osrl.jit import backend
inside = backend._compile(lambda: (gc.isenabled(), backend._compile(gc.isenabled)))
try:
    backend._compile(lambda: 1 / 0)
except ZeroDivisionError:
    pass
print(inside, gc.isenabled())
"""


def test_the_collector_rests_while_something_is_compiled(tmp_path: Path) -> None:
    assert run(COLLECTING, tmp_path) == "(False, False) True"


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_the_cache_is_in_the_users_cache_folder(tmp_path: Path, variable: str) -> None:
    places = {"XDG_CACHE_HOME": "", "HOME": str(tmp_path / "none"), variable: str(tmp_path)}
    folder, _ = run(FOLDER, tmp_path, PACKAGE, NUMBA_CACHE_DIR="", **places).split("|")
    root = tmp_path if variable == "XDG_CACHE_HOME" else tmp_path / ".cache"
    assert Path(folder) == root / "osrl" / source_digest()


def test_a_folder_that_cannot_be_written_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    quiet = "import logging; logging.disable()\n" + FOLDER
    folder, _ = run(quiet, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "file")).split("|")
    assert folder == "None" and [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="the JIT is off")
def test_a_kernel_is_compiled_by_numba_and_keeps_its_name() -> None:
    before = config.CACHE_DIR

    def twice(x: float) -> float:
        """Twice the argument."""
        return 2.0 * x

    fast: Any = kernel(twice)
    assert config.CACHE_DIR == before
    assert isinstance(fast, Kernel) and fast.interpret(1.5) == 3.0 and not fast.backend.dispatcher.signatures
    assert fast(1.5) == 3.0 and fast.backend.dispatcher.signatures
    assert fast.__name__ == "twice" and fast.__doc__ == "Twice the argument."


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="the JIT is off")
def test_division_by_zero_gives_infinity_in_kernels() -> None:
    @kernel
    def divide(a: float, b: float) -> float:
        return a / b

    assert divide(1.0, 0.0) == float("inf")


# What the reader of a terminal sees -----------------------------------------------------------------------

LINE = "osrl: compiling its kernels, once for this version"
CLEAR = "\r\x1b[K"


def test_the_line_is_for_terminals_and_for_compilations_only(tmp_path: Path) -> None:
    """`run` checks that a process without a terminal says nothing."""
    code = "from osrl.model.families import variance; variance(0.5, 0.0)"
    on_a_terminal(code.replace("0.5", "1"), tmp_path)
    assert on_a_terminal(code, tmp_path) == CLEAR + LINE + CLEAR
    assert on_a_terminal(code, tmp_path) == ""


def on_a_terminal(code: str, cache: Path) -> str:
    """What a process writes to a terminal as its standard error."""
    controller, terminal = pty.openpty()
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(PACKAGE.parent)}
    environment |= {"NUMBA_DISABLE_JIT": "0", "OSRL_COMPILE": "now"}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=terminal):
        os.close(terminal)
        written = b""
        try:
            while chunk := os.read(controller, 4096):
                written += chunk
        except OSError:  # Linux reports the end of a terminal as an error
            pass
    os.close(controller)
    return written.decode()


@kernel
def _half(array: Any) -> float:
    """Called by another kernel, and by Python."""
    if array.size == 0:
        raise ValueError("nothing to halve")
    return float(array[0]) / 2.0


@kernel
def _quarter(array: Any) -> float:
    """Calls another kernel, and is called by Python."""
    return _half(array) / 2.0


def made(kernel: Any) -> int:
    """For how many kinds of arguments there is machine code."""
    return len(kernel.backend.dispatcher.signatures)


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
def test_a_kernel_has_machine_code_only_where_python_calls_it() -> None:
    quarter, half = SimpleNamespace(call=_quarter), SimpleNamespace(call=_half)
    assert quarter.call(np.ones(1)) == 0.25
    assert (made(quarter.call), made(half.call)) == (1, 0)
    assert half.call(np.ones(1)) == 0.5
    assert made(half.call) == 1


@pytest.mark.slow
@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
@pytest.mark.parametrize("policy", ["osrl", "osrl-sc", "uniform", "tas"])
def test_every_array_that_kernels_make_is_given_back(policy: str) -> None:
    """Those that count no references are handed arrays by others that do."""

    def balance() -> tuple[int, int]:
        osrl.simulate("paper", policy, 0.1, runs=2, seed=1, workers=1, budget=2000)
        gc.collect()
        counted = runtime.rtsys.get_allocation_stats()
        return counted.mi_alloc, counted.mi_alloc - counted.mi_free

    runtime._nrt_python.memsys_enable_stats()
    try:
        (made, kept), (made_since, kept_since) = balance(), balance()
    finally:
        runtime._nrt_python.memsys_disable_stats()
    assert made_since > made and kept_since == kept


@kernel_in_place
def _rest(array: Any) -> Any:
    """A view that would be given back once too often."""
    return array[1:], 0


@kernel
def _second(array: Any) -> float:
    return float(_rest(array)[0][0])


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
def test_a_kernel_in_place_may_not_return_an_array() -> None:
    with pytest.raises(numba.errors.TypingError, match="_rest is declared with kernel_in_place, and returns an"):
        _second(np.ones(2))


def test_an_error_in_a_kernel_comes_through_the_kernel_that_calls_it() -> None:
    with pytest.raises(ValueError, match="nothing to halve"):
        _quarter(np.ones(0))


def test_a_direct_call_gives_what_the_kernel_gives() -> None:
    call = direct(_quarter)
    assert [call(np.full(1, value)) for value in (1.0, 3.0)] == [0.25, 0.75]
    assert direct(abs) is abs

"""Kernels are interpreted at first, and machine code when there is much to do; nobody sees it in a log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from osrl.allocation import partition
from osrl.jit import kernel, mode
from osrl.jit.cache import PACKAGE
from osrl.jit.mode import process
from osrl.model.instance import read_instance
from osrl.study.study import Study
from tests.support.processes import run_python

pytestmark = pytest.mark.slow

# Plays a study while the clock stands still, changes in the middle as it is told, and prints its log.
PLAY = """
import secrets, sys, time
time.time_ns = lambda: 1_700_000_000_000_000_000
secrets.token_hex = lambda size: "5" * 2 * size
from osrl.jit import mode
from osrl.study.study import Study

path, policy, family, change = sys.argv[1:]
about = {"family": family, "noise_sd": 1.0} if family == "gaussian" else {"family": family}
with Study.create(path, tasks=2, representations=2, predictors=2, seed=3, policy=policy, **about) as study:
    for i in range(60):
        if i == 30 and change:
            getattr(mode, change)()
        soon, late = study.ask(), study.ask()
        study.tell(soon, (7 * i // 3) % 2)
        if i % 5 == 4 and policy in ("osrl", "uniform"):
            study.abandon(late, ignorable=family == "gaussian" or i % 2 == 0)
        else:
            study.tell(late, (5 * i // 4) % 2)
    for page in study._session.rows():
        print(*page, sep="\\n")
print(mode.process.mode, "numba" in sys.modules, file=sys.stderr)
"""
INTERPRETED, ON_DISK, COMPILED = "0 False\n", "1 True\n", "2 True\n"


def run(code: str, *arguments: str, **variables: str | None) -> tuple[str, str]:
    """What a new process writes on its two outputs; a variable that is None is not there."""
    given = {"PYTHONPATH": str(PACKAGE.parent), "NUMBA_DISABLE_JIT": None, "OSRL_COMPILE": None, **variables}
    environment = {key: value for key, value in {**os.environ, **given}.items() if value is not None}
    done = run_python("-c", code, *arguments, env=environment)
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("policy", "family"),
    [("osrl", "bernoulli"), ("osrl", "gaussian"), ("osrl-sc", "bernoulli")],
)
def test_an_empty_cache_and_a_full_one_give_the_same_log(tmp_path: Path, policy: str, family: str) -> None:
    """Also when a process changes from one to the other, and whoever replays it."""
    places = [str(tmp_path / name) for name in ("empty.db", "full.db", "both.db")]
    empty = run(PLAY, places[0], policy, family, "", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    full = run(PLAY, places[1], policy, family, "", OSRL_COMPILE="now")
    both = run(PLAY, places[2], policy, family, "use_machine_code")
    assert [full[1], both[1]] == [COMPILED, ON_DISK] and empty[1] in (INTERPRETED, ON_DISK)
    assert not [path for path in (tmp_path / "cache").rglob("*.nbc") if "jit.backend" not in path.name]
    assert len(empty[0].splitlines()) > 240
    assert empty[0] == full[0] == both[0]
    for place in places:
        with Study.open(place) as study:
            found = study.verify()
        assert (found.ok, found.exact) == (True, True)


def test_a_snapshot_counts_in_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken by a process that interprets, and used by this one, which does not."""
    place = str(tmp_path / "study.db")
    often = "import osrl.study.operations.session as session; session.SNAPSHOT_INTERVAL = 50\n" + PLAY
    run(often, place, "osrl", "bernoulli", "")
    with Study.open(place) as study:
        kept = study._session.snapshot()
        assert kept is not None and kept.position > 50
        assert study._session._load().position == kept.position


# Opens a study in a process in which the interpreter is always too slow; prints when it would compile.
LONG = """
import sys
from osrl.jit import mode
from osrl.jit.kernels import Kernel
from osrl.model.families import variance
from osrl.study.study import Study

modes = []
mode.LIMIT, mode.WAIT = 0.0, 1e-3
Kernel.code = lambda self, *values: modes.append(mode.current_mode())
variance(0.5, 0.0), variance(0.5, 0.0)
print(mode.COMPILED in modes, end=" ")
with Study.open(sys.argv[1]) as study:
    study.ask() if sys.argv[2] == "ask" else getattr(study, sys.argv[2])
print(mode.COMPILED in modes, mode.current_mode() == mode.COMPILED, end="")
"""


@pytest.mark.parametrize("what", ["ask", "verdict"])
def test_what_is_long_is_not_interpreted_to_its_end(tmp_path: Path, what: str) -> None:
    """Short calls go on with what the disk has; who waits for a replay waits for the compiler instead."""
    place = str(tmp_path / "study.db")
    run(PLAY, place, "osrl", "bernoulli", "")
    empty = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "CI": "true"}
    assert run(LONG, place, what, **empty)[0] == "False True False"


@pytest.mark.parametrize(("shape", "compiles"), [((2, 3, 2), False), ((10, 10, 10), True), ((9, 40, 9), True)])
def test_a_long_search_is_compiled(shape: Any, compiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition of a lower bound took the interpreter two minutes for (10, 10, 10)."""
    expected: list[float] = []
    monkeypatch.setattr(partition, "expect", expected.append)
    for search in ("_every_partition", "_local_search"):
        monkeypatch.setattr(partition, search, lambda top, rivals, noise: (0.0, rivals[0, :, 0] * 0))
    means = np.full(shape, 0.2)
    means[:, 0, 0] = 0.8
    partition.best_partition(read_instance(means))
    assert [seconds > mode.WAIT for seconds in expected] == [compiles]


# Without a job --------------------------------------------------------------------------------------------

# Calls a kernel after the interpreter was used for long.
CALLS = """
import sys
from osrl.jit import mode
from osrl.model.families import variance
mode.LIMIT = 0.0
assert variance(0.5, 0.0) == 0.25 and "numba" not in sys.modules
for _ in range(3):
    assert variance(0.5, 0.0) == 0.25
backend = variance._backend
print(mode.process.mode, backend and len(backend.dispatcher.signatures))
"""
COMPILE = "from osrl.model.families import variance; variance(0.5, 0.0)"


def test_what_is_on_the_disk_is_used_and_nothing_else_is_compiled(tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(CALLS, **cache) == ("1 0\n", "")
    run(COMPILE, **cache, OSRL_COMPILE="now")
    for said in (None, "background"):
        assert run(CALLS, **cache, OSRL_COMPILE=said) == ("1 1\n", ""), "from the disk"
    assert run(CALLS, **cache, OSRL_COMPILE="never") == ("0 None\n", "")


def test_a_wish_that_nobody_can_read_is_said_in_one_line(tmp_path: Path) -> None:
    code = "from osrl.cli import main; main(['bound', 'paper'])"
    said = "error: OSRL_COMPILE is 'later'; set it to now, background or never\n"
    assert run(code, OSRL_COMPILE="later") == ("", said)


# Interpreted ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(process.switched_off, reason="there are no kernels")
def test_interpreted_kernels_calculate_like_machine_code() -> None:
    import numpy as np

    from osrl.jit.kernels import Kernel

    def ratio(values: np.ndarray, i: int) -> float:
        return values[i] / values[i + 1]  # type: ignore[no-any-return]

    both = kernel(ratio)
    assert isinstance(both, Kernel)
    values = np.array([1.0, 0.0, 3.0])
    assert both.interpret(values, 0) == both(values, 0) == np.inf
    assert type(both.interpret(values, 1)) is type(both(values, 1)) is float

"""Stamps: a policy is known by its code in memory, so that no version of it runs, or is kept, as another."""

from __future__ import annotations

import functools
import importlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

import osrl
from osrl.policies import registry
from osrl.policies.fingerprint import FingerprintError, fingerprint
from tests.support.instances import refused
from tests.support.simulations import EASY

RUNS = 4

# A policy that pulls one arm STEPS times. `observe` calls a kernel, and reads a constant, of another file.
STATE = """
from typing import NamedTuple
import numpy as np
from osrl.model.outcome import Outcome, new_outcome
class State(NamedTuple):
    seen: np.ndarray
    outcome: Outcome
def new(problem, draw):
    X, G, H = problem.shape
    return State(np.zeros(1), new_outcome(len(problem.criteria), X, G * H))
class First(NamedTuple):
    arm: int
def first(problem, draw):
    return First(0)
"""
KERNELS = """
import helpers
from osrl.jit import kernel
from osrl.model.outcome import DECIDED, STATUS, TAU
from osrl.policies.contract import Policy, SamplingRule, StoppingRule
from osrl.policies.registry import register
@kernel
def select(first, state, task, propensities):
    return first.arm
@kernel
def observe(state, x, a, reward, ticket):
    state.seen[0] += helpers.step(1.0)
    if state.seen[0] >= helpers.STEPS:
        conclude(state, 0)
@kernel
def conclude(state, criterion):
    outcome = state.outcome
    outcome.reached[STATUS, criterion] = DECIDED
    outcome.reached[TAU, criterion] = np.int64(state.seen[0])
    outcome.answer[:, criterion] = 0
sampling = SamplingRule("first", "", First, first, select)
stopping = StoppingRule("count", "", State, new, observe, conclude)
policy = register(Policy("stamped", "", sampling, stopping))
"""
HELPERS = """
from osrl.jit import kernel
STEPS = 3
@kernel
def step(x):
    return x
"""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Policies of one test are not there in the next."""
    for name in ("_RULES", "_POLICIES", "_BY_STATES", "_FINGERPRINTS"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    yield
    for name in ("stamped", "stamped_state", "helpers"):
        sys.modules.pop(name, None)


class Files:
    """The policy in three files that can be imported, edited and loaded again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts = {
            "stamped_state": STATE,
            "helpers": HELPERS,
            "stamped": "from stamped_state import *\nimport numpy as np\n" + KERNELS,
        }
        self.texts["stamped"] = self.texts["stamped"].replace("import *", "import First, State, first, new")
        for name, text in self.texts.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        self.load("stamped")

    def load(self, *names: str) -> None:
        """Import files, or load them again, in this order."""
        importlib.invalidate_caches()
        for name in names:
            known = sys.modules.get(name)
            importlib.import_module(name) if known is None else importlib.reload(known)

    def edit(self, name: str, old: str, new: str) -> None:
        assert self.texts[name].count(old) == 1
        self.texts[name] = self.texts[name].replace(old, new)
        (self.folder / f"{name}.py").write_text(self.texts[name], encoding="utf-8")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Files(tmp_path)


def taus(out: Path | None = None) -> list[int]:
    """The lengths of the runs: how many steps the code that ran makes of each."""
    found = osrl.simulate(EASY, "stamped", runs=RUNS, out=out).frame["tau"]
    return sorted(found.unique().to_list())


def test_an_edited_and_reloaded_policy_runs_as_edited(files: Files) -> None:
    assert taus() == [3]
    files.edit("stamped", "state.seen[0] += ", "state.seen[0] += 2 * ")
    files.load("stamped_state", "stamped")
    assert taus() == [4]


def test_an_edited_and_reloaded_callee_runs_as_edited(files: Files) -> None:
    assert taus() == [3]
    files.edit("helpers", "return x", "return x + 1.0")
    files.load("helpers", "stamped_state", "stamped")
    assert taus() == [4]
    files.edit("helpers", "STEPS = 3", "STEPS = 9")
    files.load("helpers", "stamped_state", "stamped")
    assert taus() == [10]


def test_two_versions_of_a_policy_are_not_mixed(files: Files, tmp_path: Path) -> None:
    assert taus(tmp_path / "out") == [3]
    for name, old, new in (("stamped", "+= ", "+= 2 * "), ("helpers", "STEPS = 3", "STEPS = 5")):
        files.edit(name, old, new)
        files.load("helpers", "stamped_state", "stamped")
        with refused("made with other versions of osrl, numpy, numba or a policy"):
            taus(tmp_path / "out")


def test_an_edit_that_is_not_loaded_changes_nothing(files: Files, tmp_path: Path) -> None:
    """The fingerprint is that of the code that runs, not of the file."""
    assert taus(tmp_path / "out") == [3]
    files.edit("helpers", "STEPS = 3", "STEPS = 5")
    assert taus(tmp_path / "out") == [3]


def test_half_a_reload_is_refused(files: Files) -> None:
    """What was compiled would go on running with the old half."""
    assert taus() == [3]
    files.edit("helpers", "STEPS = 3", "STEPS = 5")
    files.load("helpers")
    with refused("'stamped' uses has changed since it was compiled"):
        taus()
    with refused("the state First belongs to a rule 'first' with other kernels"):
        files.load("stamped")
    files.load("stamped_state", "stamped")
    assert taus() == [5]


def notebook(text: str, scope: dict[str, Any] | None = None) -> dict[str, Any]:
    """A cell that is run: code without a file, in the module of the session."""
    scope = {"__name__": "__main__"} if scope is None else scope
    exec(compile(text, "<cell>", "exec"), scope)
    return scope


@pytest.mark.parametrize("name", [{"__name__": "__main__"}, {"__name__": "no_such_module"}])
def test_a_notebook_is_stamped_like_a_file(tmp_path: Path, name: dict[str, Any]) -> None:
    helpers = ModuleType("helpers")
    notebook(HELPERS, vars(helpers))
    sys.modules["helpers"] = helpers
    scope = notebook(STATE + KERNELS, dict(name))
    assert taus(tmp_path / "out") == taus(tmp_path / "out") == [3]
    with refused("belongs to a rule 'first' with other kernels"):
        notebook(KERNELS.replace("+= ", "+= 2 * "), scope)
    notebook(STATE + KERNELS.replace("+= ", "+= 2 * "), scope)
    with refused("made with other versions"):
        taus(tmp_path / "out")
    assert taus() == [4]


def test_what_cannot_be_stamped_is_not_kept(files: Files, tmp_path: Path) -> None:
    files.edit("stamped_state", "    X, G, H = problem.shape", "    X, G, H = problem.shape if LOCK else ()")
    files.edit("stamped_state", "import numpy as np", "from threading import Lock; import numpy as np; LOCK = Lock()")
    files.load("stamped_state", "stamped")
    assert taus() == [3]
    with refused("policy 'stamped' depends on <unlocked _thread.lock"):
        taus(tmp_path / "out")
    assert not (tmp_path / "out").exists()


# What a fingerprint covers --------------------------------------------------------------------------------------


def made(text: str) -> Any:
    """``f`` of a piece of code."""
    return notebook(text, {"__name__": "nowhere"})["f"]


@pytest.mark.parametrize(
    "text",
    [
        "def f(): return 1",
        "def f(x=1): return x",
        "def f(*, x=1): return x",
        "def f(x): return x.a1",
        "def f(x): return x in {1, 3}",
        "C = 1\ndef f(): return C",
        "C = [1]\ndef f(): return C",
        "def g(): return 1\ndef f(): return g()",
        "def g(): return 1\ndef f(): return lambda: g()",
        "def g(a): return lambda: a\nf = g(1)",
        "class A:\n x = 1\ndef f(): return A.x",
        "class A:\n def g(self): return 1\ndef f(): return A()",
        "class A: pass\na = A()\na.x = 1\ndef f(): return a",
        "import functools\ndef g(x): return 1\nf = functools.partial(g, 0)",
        "import numba\n@numba.njit\ndef g(): return 1\n@numba.njit\ndef f(): return g()",
        "import numba\n@numba.njit(fastmath=1 % 2 == 0)\ndef f(): return 0",
        "import math\ndef f(x): return math.log1p(x) if 1 else 0",
        "import numpy as np\nA = np.full(3, 1)\ndef f(): return A",
        "import numba.extending as e\ndef f(x): pass\n@e.overload(f)\ndef g(x): return lambda x: 1",
    ],
)
def test_a_stamp_covers_what_code_depends_on(text: str) -> None:
    assert fingerprint(made(text)) == fingerprint(made("\n\n" + text)), "wherever it stands"
    assert fingerprint(made(text)) != fingerprint(made(text.replace("1", "2")))


def test_a_name_does_not_make_code_ours() -> None:
    """Code that only says that it belongs to a library is read like any other."""
    text = "def f(): return {}"
    scopes = [{"__name__": "osrl.policies"}, {"__name__": "numpy"}, {}]
    for scope in scopes:
        one, other = (notebook(text.format(i), dict(scope))["f"] for i in (1, 2))
        assert fingerprint(one) != fingerprint(other)


def test_cycles_and_libraries_come_to_an_end() -> None:
    def ping(n: int) -> int:
        return pong(n - 1) if n else int(np.exp(0) * math.log(1))

    def pong(n: int) -> int:
        return ping(n)

    assert fingerprint(ping) != fingerprint(pong)
    loop: list[Any] = []
    loop.append(loop)
    assert fingerprint(loop) == fingerprint(loop)


def frompyfunc() -> Callable[..., Any]:
    made: Callable[..., Any] = np.frompyfunc(lambda x: x, 1, 1)
    return made


@pytest.mark.parametrize("value", [Lock(), functools.partial(print, Lock()), frompyfunc()])
def test_what_has_no_stamp_says_so(value: object) -> None:
    with pytest.raises(FingerprintError):
        fingerprint(value)


def test_the_stamp_of_a_deep_structure_is_an_error_of_ours() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(FingerprintError, match="too deep"):
        fingerprint(deep)


def test_the_folder_says_which_policy_it_was(files: Files, tmp_path: Path) -> None:
    taus(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["versions"]["policy stamped"] == registry.fingerprint_of(registry.find("stamped"))
    assert len(pl.read_parquet(tmp_path / "out" / "*.parquet")) == RUNS

"""A policy outside the package: it keeps the contract, and no edit of it goes unnoticed."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import config

import osrl
from osrl.jit import kernel
from osrl.model.arrays import Floats
from osrl.model.rng import Key, new_key
from osrl.policies.contract import Policy, Problem
from osrl.policies.registry import find, loop_for, register
from osrl.policies.steps import apply_reward, issue_trial
from osrl.policies.stopping.per_task_test import ASKED_TASK, TEST_PULLS
from osrl.testing import (
    EASY,
    Designed,
    Observed,
    check_policy,
    check_relabelling,
    check_replay,
    criteria_for,
    new_state,
    step_through,
)
from tests.support.processes import run_python

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "my_policy.py"


@pytest.fixture
def my_policy(monkeypatch: pytest.MonkeyPatch) -> Policy:
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    module: Any = __import__("my_policy")
    assert find("round-robin") is module.policy
    found: Policy = module.policy
    return found


def test_the_example_keeps_the_contract(my_policy: Policy) -> None:
    check_policy(my_policy, relabel_tasks=False)


@kernel
def some_rounds(state: Any, key: Key, rounds: int) -> int:
    """A driver of one's own."""
    propensities, ticket = np.zeros((2, 4)), np.zeros(0)
    for t in range(rounds):
        arm = issue_trial(state, -1, key, t, propensities, ticket)
        apply_reward(state, arm // 4, arm % 4, 1.0, ticket)
    return rounds


def test_a_driver_of_your_own_plays_the_same_rounds(my_policy: Policy) -> None:
    state = new_state(my_policy, EASY, criteria_for(my_policy), new_key(0, 0))
    assert loop_for(some_rounds, my_policy)(state, new_key(0, 0), 5) == 5
    assert state.stopping.contests.arms[TEST_PULLS].sum() == state.sampling.pulls.sum() == 5


def test_without_decorators_it_is_the_same_policy(my_policy: Policy, tmp_path: Path) -> None:
    """In plain Python: the same runs in `simulate`, and a study; the code itself has fewer than 40 lines."""
    text = EXAMPLE.read_text(encoding="utf-8").replace("@kernel\n", "").replace("RoundRobin", "Plain")
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text.replace('"round-robin"', '"plain"'), "<a notebook cell>", "exec"), scope)
    plain: Policy = scope["policy"]
    assert plain.compiled == getattr(config, "DISABLE_JIT")  # noqa: B009
    ours, theirs = (osrl.simulate(EASY, name, runs=5, seed=3).frame for name in ("plain", "round-robin"))
    assert ours.drop("policy").equals(theirs.drop("policy"))
    with osrl.Study.create(f"{tmp_path}/s.db", tasks=2, representations=2, predictors=2, policy="plain") as study:
        study.tell(study.ask(), 1)
        assert study.verify().ok
    body = [line for line in re.sub(r'"""[^"]*"""', "", text).splitlines() if line.strip()]
    rules = body[next(i for i, line in enumerate(body) if line.startswith("class")) :]
    assert len(rules) < 40, len(rules)


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert EXAMPLE.read_text(encoding="utf-8") in blocks


# Edits ----------------------------------------------------------------------------------------------------

SIXTEEN_ROUNDS = """
from numba.core import event
compiled = []
class Count(event.Listener):
    def on_start(self, event): compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event): pass
event.register("numba:compile", Count())
import my_policy
from osrl.model.rng import new_key
from osrl.testing import EASY, criteria_for, new_state, run_compiled
policy, key = my_policy.policy, new_key(0, 0)
state = new_state(policy, EASY, criteria_for(policy), key)
run_compiled(state, EASY, key, 16)
print(state.sampling.pulls.max(), len(compiled))
"""


def sixteen_rounds(folder: Path) -> tuple[float, int]:
    """The pulls of the arm that is pulled most, and how many functions were compiled, in a new process."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    path = os.pathsep.join([str(folder), str(Path(osrl.__file__).parent.parent)])
    environment |= {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": path}
    done = run_python("-c", SIXTEEN_ROUNDS, env=environment)
    assert done.stderr == ""
    pulls, compiled = done.stdout.split()
    return float(pulls), int(compiled)


def test_an_edited_policy_is_compiled_anew(tmp_path: Path) -> None:
    """The loop of a policy outside the package is not taken from the cache of its old version."""
    copy = tmp_path / "my_policy.py"
    text = EXAMPLE.read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    pulls, compiled = sixteen_rounds(tmp_path)
    assert pulls == 4 and compiled > 0
    line = "return x * robin.pulls.shape[1] + np.argmin(robin.pulls[x])"
    assert text.count(line) == 1
    copy.write_text(text.replace(line, "return 0"), encoding="utf-8")
    pulls, compiled = sixteen_rounds(tmp_path)
    assert pulls == 16 and compiled > 0
    kept = [path.read_bytes() for path in (tmp_path / "cache").rglob("*.nbc")]
    assert kept and not any(b"my_policy" in content for content in kept), "its machine code is not kept"


# What the contract test finds -----------------------------------------------------------------------------


class Other(NamedTuple):
    """The state of a rule with functions of its own."""

    pulls: Floats
    memory: Floats


def with_rules(policy: Policy, **functions: Any) -> Policy:
    """A policy in plain Python that samples by other functions."""

    class Mine(Other):
        pass

    def new(problem: Problem, draw: float) -> Other:
        return Mine(policy.sampling.new(problem, draw).pulls, np.zeros(1))

    sampling = replace(policy.sampling, name="other", state=Mine, new=new, **functions)
    return register(Policy("other", "", sampling, policy.stopping))


def test_a_choice_that_changes_the_state_is_found_out(my_policy: Policy) -> None:
    def select(sampling: Other, stopping: Any, task: int, propensities: Any) -> int:
        sampling.memory[0] += 1.0
        return 0

    with pytest.raises(AssertionError, match=r"sampling\.memory.* changed"):
        check_replay(with_rules(my_policy, select=select))


def test_a_memory_outside_the_state_is_found_out(my_policy: Policy) -> None:
    seen: list[float] = []

    def observe(sampling: Other, stopping: Any, x: int, a: int, reward: float) -> None:
        seen.append(reward)
        sampling.pulls[x, a] += 1.0
        sampling.memory[0] = len(seen)

    with pytest.raises(AssertionError, match="differ after replay"):
        check_replay(with_rules(my_policy, observe=observe))


def test_a_choice_by_label_is_found_out(my_policy: Policy) -> None:
    def select(sampling: Other, stopping: Any, task: int, propensities: Any) -> int:
        """The least pulled arm, but the first one every other time."""
        x = int(stopping.contests.asked[ASKED_TASK])
        pulls = sampling.pulls[x]
        return x * int(pulls.size) + (0 if pulls.sum() % 2 else int(np.argmin(pulls)))

    with pytest.raises(AssertionError, match="depends on the labels"):
        check_relabelling(with_rules(my_policy, select=select), relabel_tasks=False)


def test_a_design_is_replayed_from_what_it_changed(my_policy: Policy) -> None:
    """A design that would come out differently the second time does no harm."""
    solved: list[int] = []

    def design(sampling: Other, stopping: Any) -> None:
        solved.append(1)
        sampling.memory[0] = float(len(solved))

    def wants_design(sampling: Other, stopping: Any) -> bool:
        return bool(sampling.pulls.sum() % 7 == 3 and sampling.memory[0] < 3)

    check_replay(with_rules(my_policy, design=design, wants_design=wants_design))
    assert solved


def test_events_are_designs_and_observations(my_policy: Policy) -> None:
    key = new_key(0, 0)
    state = new_state(my_policy, EASY, criteria_for(my_policy), key)
    events = list(step_through(state, EASY, key, 5))
    assert len(events) == 5 and not any(isinstance(event, Designed) for event in events)
    assert [event.x * 4 + event.a for event in events if isinstance(event, Observed)] == [0, 1, 2, 3, 0]

"""Rules from outside the package: what they may leave out, and one line where they are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pytest

import osrl
from osrl.errors import OsrlError
from osrl.jit import kernel
from osrl.model.arrays import Floats
from osrl.policies import registry
from osrl.policies.contract import Policy, Problem, SamplingRule, StoppingRule
from osrl.policies.registry import find, register, register_rule
from osrl.policies.stopping import bets
from osrl.policies.stopping import per_task as tasks
from osrl.policies.stopping.per_task_test import ASKED_TASK
from osrl.report.rules import RulesReport
from osrl.testing import EASY, check_replay, check_stepping
from tests.support.processes import run_python
from tests.validation.attacks_rules import HASTY, outside_rule_in_pairs


def in_turn(tally: Any, stopping: Any, task: int, propensities: Floats) -> int:
    """The least pulled arm of the task in progress."""
    x = int(stopping.contests.asked[ASKED_TASK])
    return int(x * tally.pulls.shape[1] + np.argmin(tally.pulls[x]))


def policy_with(select: Callable[..., Any], stopping: Any = tasks.RULE, **functions: Any) -> Policy:
    """A policy whose sampling rule is in plain Python."""
    rule = SamplingRule(name="mine", select=select, **functions)
    return register(Policy(name=f"mine-{id(rule)}", sampling=rule, stopping=stopping))


def test_select_alone_makes_a_rule() -> None:
    policy = policy_with(in_turn)
    found = osrl.simulate(EASY, policy.name, runs=5).summary()
    assert found["error_g"].to_list() == [0.0] and 20 < found["mean"][0] < 400
    check_stepping(policy)
    check_replay(policy)


CELL = """
import numpy as np
from typing import NamedTuple
from osrl.jit import kernel
from osrl.policies.contract import Policy, SamplingRule
from osrl.policies.registry import register
from osrl.policies.stopping import per_task as tasks
from osrl.testing import check_policy

def select(tally, stopping, task, propensities):
    x = int(stopping.contests.asked[1])
    return int(x * tally.pulls.shape[1] + np.argmin(tally.pulls[x]))

rule = SamplingRule(name="in-a-cell", select=select)
check_policy(register(Policy(name="in-a-cell", sampling=rule, stopping=tasks.RULE)), relabel_tasks=False)
print("passed")
"""


@pytest.mark.slow
def test_the_contract_test_passes_in_a_notebook_cell() -> None:
    assert run_python("-c", CELL).stdout == "passed\n"


def test_a_rule_in_plain_python_is_called_once_a_round() -> None:
    """What a round costs beside the rule is measured by `benchmarks/rules.py`."""
    seen = [Lock()]  # nothing that has a lock has a fingerprint: the rule may change something outside of itself
    calls: list[int] = []

    def counted(tally: Any, stopping: Any, task: int, propensities: Floats) -> int:
        calls.append(len(seen))
        return in_turn(tally, stopping, task, propensities)

    policy = policy_with(counted)
    hard = osrl.Instance.bernoulli([[[0.5, 0.49], [0.48, 0.47]], [[0.5, 0.49], [0.48, 0.47]]])
    osrl.simulate(hard, policy.name, runs=1, budget=5, workers=1)  # the first run tries the rule out
    calls.clear()
    summary = osrl.simulate(hard, policy.name, runs=1, budget=4000, workers=1).summary()
    assert summary["rounds"][0] == 4000
    assert 4000 <= len(calls) < 4100


def test_a_rule_by_its_own_name_in_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SAMPLING", dict(registry._SAMPLING))  # others do not see the rule

    def even(tally: Any, stopping: Any, task: int, propensities: Floats) -> int:
        propensities[:] = 1 / propensities.size
        return -1

    register_rule(SamplingRule(name="even-in-python", select=even))
    one = osrl.simulate(EASY, sample="even-in-python", stop="bets", runs=3).frame.drop("policy")
    assert one.equals(osrl.simulate(EASY, "uniform", runs=3).frame.drop("policy"))


@pytest.mark.slow
def test_a_rule_from_outside_goes_with_every_stopping_rule_in_one_call() -> None:
    """Stopping rules that share a state and its kernels differ in their names and thresholds alone."""

    found = outside_rule_in_pairs()
    assert found.tried > 8 and found.wrong == 0


def test_nothing_is_proved_unless_the_rule_says_by_what() -> None:
    policy = policy_with(returns(0), HASTY)
    row = osrl.simulate(EASY, policy.name, runs=2).summary().to_dicts()[0]
    assert row["error_g"] == 1.0 and not row["proved"]
    with pytest.raises(OsrlError, match="nobody has proved that policy"):
        osrl.Study.create(":memory:", tasks=2, representations=2, predictors=2, policy=policy.name)
    said = replace(HASTY, proofs={"own": "a statement, and where it is proved"})
    assert Policy("said", sampling=policy.sampling, stopping=said).proves("own")
    wrong: tuple[Any, ...] = ({"own": " "}, {"other": "a statement"}, "a statement")
    for proofs in wrong:
        with pytest.raises(OsrlError, match="say what is proved and where"):
            replace(HASTY, proofs=proofs)


def test_every_rule_of_the_package_says_by_what_it_is_proved() -> None:
    rows = {row["name"]: row for row in RulesReport().document()["stopping"]}
    assert rows["glr-gk"]["proof"] is None and not rows["glr-gk"]["proved"]
    for name in ("glr-tas", "glr-kk", "glr-theorem", "race-tas", "intervals-kk", "bets", "counts"):
        assert rows[name]["proved"] and len(rows[name]["proof"]) > 20
    for policy in (find(name) for name in ("osrl", "uniform", "osrl-sc", "tas", "tas-transfer")):
        assert policy.proves(policy.thresholds[0])
    assert find("osrl-sc").unproved == ("released",) and find("osrl-sc-released").unproved == ("own",)


def returns(value: Any) -> Callable[..., Any]:
    return lambda tally, stopping, task, propensities: value


def writes(value: float) -> Callable[..., Any]:
    def select(tally: Any, stopping: Any, task: int, propensities: Floats) -> int:
        propensities[:] = value
        return -1

    return select


def resizes(tally: Any, stopping: Any, x: int, a: int, reward: float) -> None:
    tally.pulls.resize((1, 2), refcheck=False)


def undefined(tally: Any, stopping: Any, task: int, propensities: Floats) -> int:
    return act  # type: ignore[name-defined,no-any-return]  # noqa: F821


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"select": returns(99)}, "select of sampling rule 'mine' returned 99; .* from 0 to 7"),
        ({"select": returns(-5)}, "select of sampling rule 'mine' returned -5"),
        ({"select": returns(1.5)}, r"returned 1\.5; the contract wants an arm .* a whole number"),
        ({"select": returns(None)}, "returned None; the contract wants an arm"),
        ({"select": writes(float("nan"))}, "wrote a probability that is NaN"),
        ({"select": writes(0.5)}, "wrote probabilities that sum to 4"),
        ({"select": undefined}, "select of sampling rule 'mine' failed: NameError: name 'act' is not"),
        ({"select": in_turn, "observe": resizes}, r"observe .* changed 'pulls' from float64 \(2, 4\) to"),
        ({"select": in_turn, "observe": lambda t, *_: t}, "observe of .* returned TallyOf_mine; it changes"),
    ],
)
def test_what_is_wrong_is_one_line(functions: dict[str, Any], message: str) -> None:
    with pytest.raises(OsrlError, match=message) as caught:
        osrl.simulate(EASY, policy_with(**functions).name, runs=1)
    assert "\n" not in str(caught.value)


def test_bets_on_arms_that_are_not_drawn_are_refused() -> None:
    with pytest.raises(OsrlError, match="stopping rule 'bets' needs draws"):
        osrl.simulate(EASY, policy_with(returns(0), bets.RULE).name, runs=1)


def test_what_a_rule_has_to_have() -> None:
    with pytest.raises(OsrlError, match=r"sampling rule 'x' has no select; give it select\("):
        SamplingRule(name="x")
    with pytest.raises(OsrlError, match="stopping rule 'x' has no new"):
        StoppingRule(name="x")
    with pytest.raises(OsrlError, match="policy 'x' has no stopping rule"):
        Policy(name="x", sampling=SamplingRule(name="x", select=in_turn))
    with pytest.raises(OsrlError, match="is compiled and has no state"):
        SamplingRule(name="x", select=select)


class Mode(NamedTuple):
    """What the compiled rule gets wrong, and from which round on."""

    rounds: Floats  # (1,)
    mode: int


def new(problem: Problem, draw: float, *, mode: int = 0) -> Mode:
    return Mode(np.zeros(1), mode)


@kernel
def select(mode: Mode, stopping: Any, task: int, propensities: Floats) -> int:
    n = propensities.shape[1]
    late = mode.rounds[0] >= 20
    if mode.mode == 1 and late:
        return 10**6
    if mode.mode == 2 and late:
        propensities[:] = np.nan
        return -1
    return int(stopping.contests.asked[ASKED_TASK] * n + mode.rounds[0] % n)


@kernel
def observe(mode: Mode, stopping: Any, x: int, a: int, reward: float) -> None:
    mode.rounds[0] += 1.0


@pytest.fixture(scope="module")
def compiled() -> Iterator[str]:
    rule = SamplingRule(name="compiled", state=Mode, new=new, select=select, observe=observe)
    yield register(Policy(name="compiled-rule", sampling=rule, stopping=tasks.RULE)).name


def test_a_compiled_rule_that_goes_wrong_later_does_not_end_the_process(compiled: str) -> None:
    assert osrl.simulate(EASY, compiled, runs=2).summary()["error_g"][0] == 0.0
    with pytest.raises(OsrlError, match="in round 21: select of sampling rule 'compiled' returned 1000000"):
        osrl.simulate(EASY, compiled, runs=1, options={"mode": 1})
    with pytest.raises(OsrlError, match="in round 21: select .* wrote a probability that is NaN"):
        osrl.simulate(EASY, compiled, runs=1, options={"mode": 2})


class Other(NamedTuple):
    """Another type, for a rule that does not compile."""

    rounds: Floats


def test_a_rule_that_does_not_compile_is_one_line() -> None:
    def pick(other: Other, stopping: Any, task: int, propensities: Floats) -> int:
        return int({"a": other.rounds[0]}.popitem()[1])  # Numba knows no dict of this kind

    def start(problem: Problem, draw: float) -> Other:
        return Other(np.zeros(1))

    rule = SamplingRule(name="odd", state=Other, new=start, select=kernel(pick))
    name = register(Policy(name="odd", sampling=rule, stopping=tasks.RULE)).name
    assert find(name).compiled == hasattr(rule.select, "py_func")
    try:
        osrl.simulate(EASY, name, runs=1, budget=8)
    except OsrlError as error:
        assert "policy 'odd' does not compile: " in str(error) and "\n" not in str(error)
        assert "leave @kernel out" in str(error)

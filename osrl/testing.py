"""The contract test of policies: what every policy must do, yours too.

    from osrl.testing import check_policy

    def test_my_policy():
        check_policy(my_policy)

Each check runs the policy on a small problem with fixed seeds and raises `AssertionError`:

- `check_stepping`: one step at a time from Python and in the compiled loop, it ends in the same
  state, bit for bit; only ``design``, ``observe`` and ``conclude`` change a state; the books balance;
- `check_replay`: the recorded events lead a new state to the same end, bit for bit. A design is
  replayed from what it changed: replay never solves again;
- `check_criteria`: a criterion decides the same alone as in a list, where criteria share runs;
- `check_without_jit`: compiled and interpreted, it draws the same arms and stops at the same time;
- `check_relabelling`: with other labels it makes the same choices, up to ties;
- `check_distribution`: with other labels its stopping times have the same distribution.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from osrl.jit.mode import compile_now, process
from osrl.model.arrays import Floats
from osrl.model.environment import STREAMS, draw_reward, new_environment
from osrl.model.instance import Instance
from osrl.model.outcome import DECIDED, RUNNING, Outcome, is_open
from osrl.model.rng import START_LANE, Key, new_key, uniform
from osrl.policies.contract import Criterion, Policy, Problem
from osrl.policies.registry import find
from osrl.policies.state_arrays import arrays_of, contents, differences
from osrl.policies.steps import (
    apply_reward,
    conclude,
    design,
    interpreted,
    issue_trial,
    new_ticket,
    stream,
    wants_design,
    write_ticket,
)
from osrl.simulation.run import episode

EASY = Instance.bernoulli([[[0.9, 0.3], [0.2, 0.1]], [[0.2, 0.8], [0.1, 0.3]]])
WITHOUT_TIES = Instance.bounded([[[0.9, 0.3], [0.2, 0.1], [0.4, 0.2]], [[0.2, 0.8], [0.1, 0.3], [0.3, 0.1]]])
RISKS = (0.3, 0.1)
WORDS = ("status", "tau", "tau_g", "representation", "predictor", "pulls")  # of an outcome


class Designed(NamedTuple):
    """A design, as the arrays that it changed: name in the state and new content."""

    changes: dict[str, NDArray[Any]]


class Observed(NamedTuple):
    """A trial: task, arm of the task, reward, the ticket it was judged with, and how it was drawn."""

    x: int
    a: int
    reward: float
    ticket: Floats
    propensities: Floats | None  # (X, n) of a randomised choice


def check_policy(policy: Policy, *, relabel_tasks: bool = True) -> None:
    """Run all checks, on small problems.

    Say ``relabel_tasks=False`` for a policy that goes through tasks in their order: its choices
    depend on the labels of tasks, and are compared under other labels of arms only.
    """
    check_stepping(policy)
    check_replay(policy)
    check_criteria(policy)
    check_relabelling(policy, relabel_tasks=relabel_tasks)
    check_distribution(policy)
    check_without_jit(policy)


# Driving a policy ---------------------------------------------------------------------------------


def criteria_for(policy: Policy, risks: Sequence[float] = RISKS) -> tuple[Criterion, ...]:
    """Return criteria for some risks and every threshold of the policy; one criterion if it does not share runs."""
    criteria = policy.criteria([(risk, risk) for risk in risks], policy.thresholds)
    return criteria if policy.shares_runs({}) else criteria[:1]


def new_state(policy: Policy, instance: Instance, criteria: tuple[Criterion, ...], key: Key) -> Any:
    """Return the state of a policy before its first sample, in the run with this key."""
    problem = Problem(instance.shape, instance.family, criteria, truth=instance.means)
    return policy.new(problem, uniform(key, START_LANE, 0))


def run_compiled(state: Any, instance: Instance, key: Key, budget: int = 10**6) -> int:
    """Drive ``state`` to its end in the compiled loop; return the rounds played."""
    return episode(state, instance, key, budget)


def step_through(state: Any, instance: Instance, key: Key, budget: int = 10**6) -> Iterator[Designed | Observed]:
    """Drive ``state`` one step at a time, as the compiled loop does; yield every event after it has happened."""
    environment = new_environment(instance, key)
    n = environment.means.shape[1]
    rounds = 0
    while rounds < budget and is_open(state.outcome):
        before = contents(state)
        if wants_design(state):
            design(state)
            after = contents(state)
            yield Designed({name: after[name] for name in differences(before, after)})
            before = after
        propensities, ticket = np.zeros(environment.means.shape), new_ticket(state)
        arm = int(issue_trial(state, -1, key, rounds, propensities, ticket))
        drawn = bool(propensities.any())
        assert not drawn or (abs(propensities.sum() - 1) < 1e-9 and propensities.min() >= 0), "no probabilities"
        changed = differences(before, contents(state))
        assert not changed, f"{changed} changed; only design, observe and conclude may change a state"
        x, a = arm // n, arm % n
        value = draw_reward(environment, stream(state), x, a)
        apply_reward(state, x, a, value, ticket)
        rounds += 1
        yield Observed(x, a, value, ticket, propensities if drawn else None)
    conclude_all(state)


def replay(state: Any, events: Sequence[Designed | Observed]) -> None:
    """Lead a new state through recorded events, without solving anything."""
    arrays = dict(arrays_of(state))
    for event in events:
        if isinstance(event, Designed):
            for name, content in event.changes.items():
                arrays[name][...] = content
        else:
            apply_reward(state, event.x, event.a, event.reward, event.ticket)
    conclude_all(state)


def conclude_all(state: Any) -> None:
    """Write best guesses for the criteria that are still open."""
    for criterion in np.flatnonzero(state.outcome.status == RUNNING):
        conclude(state, int(criterion))


# The checks ---------------------------------------------------------------------------------------


def check_stepping(policy: Policy, instance: Instance = EASY, seed: int = 0) -> None:
    """Check that the policy ends in the same state when stepped from Python and in the compiled loop."""
    criteria = criteria_for(policy)
    for run, budget in enumerate((10**6, 10**6, 40, 1)):
        key = new_key(seed, run)
        stepped, looped = (new_state(policy, instance, criteria, key) for _ in range(2))
        events = list(step_through(stepped, instance, key, budget))
        rounds = run_compiled(looped, instance, key, budget)
        assert rounds == sum(isinstance(event, Observed) for event in events), "other numbers of rounds"
        changed = differences(contents(stepped), contents(looped))
        assert not changed, f"{changed} differ between steps from Python and the compiled loop"
        check_outcome(looped, instance, events)


def check_outcome(state: Any, instance: Instance, events: Sequence[Designed | Observed]) -> None:
    """Check that the books balance: pulls sum to tau, tau_g is a part of it, and every answer exists."""
    out = state.outcome
    _, G, H = instance.shape
    played = np.zeros(out.pulls.shape[1:], np.int64)
    for event in events:
        if isinstance(event, Observed):
            played[event.x, event.a] += 1
    assert (out.status != RUNNING).all(), "a criterion is open at the end"
    assert (out.pulls.sum(axis=(1, 2)) == out.tau).all(), "the pulls of a criterion do not sum to its tau"
    assert (out.pulls <= played).all() and (out.pulls >= 0).all(), "more pulls than were made"
    assert ((out.tau_g >= 0) & (out.tau_g <= out.tau)).all(), "tau_g is not a part of tau"
    for answer, count in ((out.representation, G), (out.predictor, H)):
        known = answer[(out.status == DECIDED) | (answer >= 0).all(axis=1)]
        assert ((known >= 0) & (known < count)).all(), "an answer is missing or does not exist"


def check_replay(policy: Policy, instance: Instance = EASY, seed: int = 1) -> None:
    """Check that the recorded events lead a new state to the same end."""
    criteria = criteria_for(policy)
    for run, budget in enumerate((10**6, 50)):
        key = new_key(seed, run)
        live, again = (new_state(policy, instance, criteria, key) for _ in range(2))
        replay(again, list(step_through(live, instance, key, budget)))
        changed = differences(contents(live), contents(again))
        assert not changed, f"{changed} differ after replay"


def check_criteria(policy: Policy, instance: Instance = EASY, seed: int = 2, runs: int = 5) -> None:
    """Check that a criterion decides the same alone as in a list."""
    criteria = criteria_for(policy)
    for run in range(runs):
        key = new_key(seed, run)
        together = new_state(policy, instance, criteria, key)
        run_compiled(together, instance, key)
        for r, criterion in enumerate(criteria):
            alone = new_state(policy, instance, (criterion,), key)
            run_compiled(alone, instance, key)
            for name in WORDS:
                mine, shared = getattr(alone.outcome, name)[0], getattr(together.outcome, name)[r]
                assert (mine == shared).all(), f"{name} of {criterion} differs alone and in a list"


def check_relabelling(
    policy: Policy, *, relabel_tasks: bool = True, instance: Instance = WITHOUT_TIES, seed: int = 3
) -> None:
    """Check that the policy makes the same choices with other labels; where they tie, it may take the other arm.

    Two states are led through the same samples, under two labellings. Rewards are continuous, so
    ties are between arms that were pulled equally often from a stream. Phases with a stream of their
    own may go through tasks in their order, so tasks are relabelled up to there only.
    """
    _compare_choices(policy, instance, _orders(instance, seed, tasks=False), seed, whole=True)
    if relabel_tasks:
        _compare_choices(policy, instance, _orders(instance, seed, tasks=True), seed, whole=False)


def check_distribution(policy: Policy, instance: Instance = EASY, seed: int = 4, runs: int = 200) -> None:
    """Check that stopping times have the same distribution with other labels (Mann and Whitney, p > 1e-4)."""
    criteria = criteria_for(policy)
    order = _orders(instance, seed, tasks=True)
    other = Instance(instance.means[np.ix_(*order)], instance.family)

    def stopping_time(of: Instance, run: int) -> NDArray[np.int64]:
        key = new_key(seed, run)
        state = new_state(policy, of, criteria, key)
        run_compiled(state, of, key)
        tau: NDArray[np.int64] = state.outcome.tau
        return tau

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        one = np.array(list(pool.map(stopping_time, [instance] * runs, range(runs))))
        two = np.array(list(pool.map(stopping_time, [other] * runs, range(runs, 2 * runs))))
    for r, criterion in enumerate(criteria):
        p = float(mannwhitneyu(one[:, r], two[:, r]).pvalue)
        assert p > 1e-4, f"stopping times of {criterion} depend on the labels (p = {p:.1e})"


def check_without_jit(policy: Policy, instance: Instance = EASY, seed: int = 5, budget: int = 10**4) -> None:
    """Check for the same arms and stopping times with the JIT on and off, each in a process of its own kind.

    A policy that no other process can import, such as one of a notebook cell, is played here both ways: its
    own functions by the interpreter.
    """
    compile_now()
    if not _importable(policy):
        _check_interpreted(policy, instance, seed, budget)
        return
    order = {
        "module": policy.outside or "osrl.policies",
        "policy": policy.name,
        "means": instance.means.tolist(),
        "seed": seed,
        "budget": budget,
    }
    assert instance.family.name == "bernoulli", "give an instance with rewards 0 and 1"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "NUMBA_DISABLE_JIT": "0" if process.switched_off else "1",
        "OSRL_COMPILE": "now",
    }
    command = [sys.executable, "-m", "osrl.testing", json.dumps(order)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the run in another process failed: {done.stderr}"
    here, there = trace(order), json.loads(done.stdout)
    for name, mine in here.items():
        assert mine == there[name], f"{name} differ with the JIT on and off: {mine} and {there[name]}"


def _importable(policy: Policy) -> bool:
    """Tell whether another process can import the policy."""
    home = policy.outside
    return home is None or (home != "__main__" and hasattr(sys.modules.get(home), "__file__"))


def _check_interpreted(policy: Policy, instance: Instance, seed: int, budget: int) -> None:
    """Compare a run in the compiled loop with one by the functions of the policy as plain Python."""
    key, criteria = new_key(seed, 0), criteria_for(policy)
    looped, plain = (new_state(policy, instance, criteria, key) for _ in range(2))
    rounds = run_compiled(looped, instance, key, budget)
    steps, environment = interpreted(plain), new_environment(instance, key)
    propensities, ticket = np.zeros(environment.means.shape), new_ticket(plain)
    for number in range(rounds):
        steps(plain, environment, propensities, ticket, number)
    conclude_all(plain)
    changed = differences(contents(looped), contents(plain))
    assert not changed, f"{changed} differ with the JIT on and off"


def trace(order: dict[str, Any]) -> dict[str, Any]:
    """Return arms, rewards and outcome of one run, as JSON may hold them."""
    import_module(order["module"])
    policy, instance = find(order["policy"]), Instance.bernoulli(order["means"])
    key = new_key(order["seed"], 0)
    state = new_state(policy, instance, criteria_for(policy), key)
    trials = [e for e in step_through(state, instance, key, order["budget"]) if isinstance(e, Observed)]
    outcome = {name: array.tolist() for name, array in arrays_of(state.outcome)}
    return {"arms": [[t.x, t.a] for t in trials], "rewards": [t.reward for t in trials], **outcome}


# Relabelling --------------------------------------------------------------------------------------

Orders = tuple[NDArray[np.int64], ...]


def _orders(instance: Instance, seed: int, *, tasks: bool) -> Orders:
    """Return another order of tasks, representations and predictors: new label i is old label order[i]."""
    rng = np.random.default_rng(seed)
    found = []
    for n in instance.shape:
        order = rng.permutation(n)
        found.append(np.roll(order, 1) if (order == np.arange(n)).all() else order)
    return tuple(found) if tasks else (np.arange(instance.shape[0]), *found[1:])


class Twin(NamedTuple):
    """A state that is led through the samples of another one under other labels."""

    state: Any
    old: NDArray[np.int64]  # the old label x * n + a of a new one
    new: NDArray[np.int64]  # and the new one of an old one
    n: int

    def relabelled(self, propensities: Floats) -> Floats:
        """Probabilities (X, n) of the other state, under the labels of this one."""
        return propensities.ravel()[self.old].reshape(propensities.shape)

    def observe(self, event: Observed, propensities: Floats) -> None:
        """Take in what the other state has observed."""
        x, a = divmod(int(self.new[event.x * self.n + event.a]), self.n)
        ticket = new_ticket(self.state)
        write_ticket(self.state, x, a, propensities[x], ticket)
        apply_reward(self.state, x, a, event.reward, ticket)


def _compare_choices(policy: Policy, instance: Instance, orders: Orders, seed: int, *, whole: bool) -> None:
    """Lead two states through the same samples, the second one under other labels.

    Before the first samples everything ties: the states begin with some that the policy has drawn.
    """
    n, criteria, key = instance.means[0].size, criteria_for(policy), new_key(seed, 0)
    early, one, two = (new_state(policy, instance, criteria, key) for _ in range(3))
    old = np.arange(instance.means.size).reshape(instance.shape)[np.ix_(*orders)].ravel()
    twin = Twin(two, old, np.argsort(old), n)
    pulls = np.zeros((STREAMS, instance.means.size), np.int64)
    propensities = np.zeros((instance.shape[0], n))
    for event in step_through(early, instance, key, 2 * instance.means.size):
        if isinstance(event, Observed):
            pulls[stream(two), event.x * n + event.a] += 1
            apply_reward(one, event.x, event.a, event.reward, event.ticket)
            twin.observe(event, propensities if event.propensities is None else twin.relabelled(event.propensities))
    designed = False
    for event in step_through(one, instance, new_key(seed, 1)):
        if isinstance(event, Designed):
            designed = True
            continue
        s = stream(two)
        if not whole and s != 0:
            return
        assert wants_design(two) == designed, "whether a design is due depends on the labels"
        if designed:
            design(two)
        designed = False
        arm = event.x * n + event.a
        chosen = policy.sampling.select(two.sampling, two.stopping, -1, propensities)
        if event.propensities is not None:
            close = np.allclose(propensities, twin.relabelled(event.propensities), rtol=1e-5, atol=1e-9)
            assert chosen < 0 and close, "the probabilities of arms depend on the labels"
        elif chosen != twin.new[arm]:
            assert pulls[s, old[chosen]] == pulls[s, arm], "the choice of an arm depends on the labels"
        twin.observe(event, propensities)
        pulls[s, arm] += 1
    conclude_all(two)
    _compare_outcomes(one.outcome, two.outcome, orders, twin.new)


def _compare_outcomes(one: Outcome, two: Outcome, orders: Orders, new: NDArray[np.int64]) -> None:
    """Check that the second outcome is the first one under other labels."""
    of_g, of_h = np.argsort(orders[1]), np.argsort(orders[2])
    representation = np.where(one.representation < 0, -1, of_g[one.representation])[:, orders[0]]
    predictor = np.where(one.predictor < 0, -1, of_h[one.predictor])[:, orders[0]]
    relabelled = one._replace(
        answer=np.stack([representation, predictor]),
        pulls=one.pulls.reshape(len(one.tau), -1)[:, np.argsort(new)].reshape(one.pulls.shape),
    )
    for name in WORDS:
        assert (getattr(relabelled, name) == getattr(two, name)).all(), f"{name} depends on the labels"


if __name__ == "__main__":
    print(json.dumps(trace(json.loads(sys.argv[1]))))

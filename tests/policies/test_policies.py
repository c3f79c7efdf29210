"""Policies: the contract, every choice and stop against the oracle, shapes, and runs that are cut."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osrl.errors import OsrlError
from osrl.model.families import Family
from osrl.model.instance import Instance
from osrl.model.outcome import DECIDED, EXHAUSTED, Outcome
from osrl.model.rng import new_key
from osrl.paper.authors_code import clear_leader
from osrl.policies.builtin import OSRL, OSRL_SC, RELEASED, TAS, TAS_TRANSFER, UNIFORM
from osrl.policies.contract import Criterion, Policy, Problem, State
from osrl.policies.registry import find, policy_of, registered
from osrl.policies.sampling.per_task import WEIGHTS_ALL
from osrl.policies.steps import apply_reward, design, wants_design, write_ticket
from osrl.policies.stopping.per_task_test import TEST_MEANS, TEST_PULLS
from osrl.testing import EASY, check_policy, criteria_for, new_state, run_compiled
from tests.oracle import policies as oracle
from tests.oracle.paper import in_class
from tests.support.instances import Shape, refused

TASK_BY_TASK = {"tas", "tas-transfer"}
NOTHING = np.empty(0)


def play(policy: Policy, instance: Instance, run: int = 0, budget: int = 10**7, **options: Any) -> Outcome:
    """The outcome of one run, for every criterion of the policy."""
    criteria: tuple[Criterion, ...] = options.pop("criteria", None) or criteria_for(policy)
    key = new_key(7, run)
    problem = Problem(instance.shape, instance.family, criteria)
    state = policy.new(problem, 0.0, **options)
    run_compiled(state, instance, key, budget)
    outcome: Outcome = state.outcome
    return outcome


def choice(state: State) -> int:
    """The arm that the sampling rule names."""
    rule, shape = policy_of(state).sampling, state.stopping.contests.arms.shape[1:]
    return rule.select(state.sampling, state.stopping, -1, np.zeros(shape))


# The contract ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", registered(), ids=lambda policy: policy.name)
def test_every_policy_keeps_the_contract(policy: Policy) -> None:
    check_policy(policy, relabel_tasks=policy.name not in TASK_BY_TASK)


def test_the_policies_of_the_paper_choose_their_tasks() -> None:
    for name in ("osrl-sc", "osrl-sc-released", "tas", "tas-transfer"):
        assert not find(name).given_tasks


def test_unknown_policies_and_thresholds_are_refused() -> None:
    with refused("unknown policy 'osrl-cs'"):
        find("osrl-cs")
    with refused("policy 'tas' has no threshold 'theorem'"):
        TAS.criteria([(0.1, 0.1)], ["theorem"])
    with refused("the risk is 1"):
        TAS.criteria([(0.1, 1.0)])


# Choices and stops against the oracle ---------------------------------------------------------------------

shapes = st.tuples(st.integers(1, 3), st.integers(2, 3), st.integers(1, 3))
seeds = st.integers(0, 2**32)
families = st.sampled_from([Family("bernoulli"), Family("gaussian", 0.5)])


def samples(rng: np.random.Generator, shape: Shape, family: Family, most: int) -> list[tuple[int, int, float]]:
    """Samples (task, arm, reward) of some arms, or of all, in random order."""
    X, n = shape[0], shape[1] * shape[2]
    least = int(rng.integers(0, 2))
    mean = rng.uniform(0.0, 1.0, (X, n))
    drawn = []
    for x, a in np.ndindex(X, n):
        for _ in range(int(rng.integers(least, most))):
            noise = rng.normal(0.0, family.noise**0.5) if family.noise else 0.0
            drawn.append((x, a, float(rng.random() < mean[x, a]) + noise))
    rng.shuffle(drawn)
    return [(int(x), int(a), float(y)) for x, a, y in drawn]


@settings(max_examples=60)
@given(shapes, seeds, families, st.integers(2, 30), st.sampled_from(["theorem", "released"]))
def test_osrl_sc_does_what_algorithm_1_says(shape: Shape, seed: int, family: Family, most: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    drawn = samples(rng, shape, family, most)
    deltas = (0.9, 0.5, 1e-3)
    problem = Problem(shape, family, tuple(Criterion(name, delta, 0.1) for delta in deltas))
    state = OSRL_SC.new(problem, 0.0)
    stopping = state.stopping
    terms = stopping.threshold.copy()
    stopping.threshold[:, 0] = math.inf  # no stop before the last sample
    ticket = np.zeros(1)
    weights = rng.dirichlet(np.full(math.prod(shape), 0.5)).reshape(shape)
    state.sampling.weights[:] = weights.reshape(shape[0], -1)
    for i, (x, a, y) in enumerate(drawn):
        if i == len(drawn) - 1:
            stopping.threshold[:] = terms
        write_ticket(state, x, a, NOTHING, ticket)
        apply_reward(state, x, a, y, ticket)
    pulls, means = (stopping.contests.arms[row].reshape(shape) for row in (TEST_PULLS, TEST_MEANS))
    everything = len(drawn) >= pulls.size
    for r, delta in enumerate(deltas):
        margin = oracle.osrl_sc_margin(pulls, means, delta, family.noise, theorem=name == "theorem")
        if abs(margin) > 1e-9 and drawn:
            stops = everything and margin > 0
            assert state.outcome.representation[r, 0] == (oracle.best_representation(means) if stops else -1)
    if stopping.contests.asked[0] < 0:
        chosen = choice(state)
        assert chosen == np.ravel_multi_index(oracle.osrl_sc_choice(pulls, means, weights), shape)


@settings(max_examples=200)
@given(st.integers(2, 6), seeds, families, st.integers(2, 60))
def test_track_and_stop_does_what_it_should(n: int, seed: int, family: Family, most: int) -> None:
    rng = np.random.default_rng(seed)
    deltas = (0.9, 0.5, 1e-3)
    problem = Problem((1, n, 1), family, tuple(Criterion("own", delta, 0.1) for delta in deltas))
    state = TAS.new(problem, 0.0)
    stopping = state.stopping
    drawn = samples(rng, (1, n, 1), family, most)
    terms = stopping.threshold.copy()
    stopping.threshold[:, 0] = math.inf
    weights = rng.dirichlet(np.full(n, 0.5))
    state.sampling.weights[WEIGHTS_ALL, 0] = weights
    for i, (_, a, y) in enumerate(drawn):
        if i == len(drawn) - 1:
            stopping.threshold[:] = terms
        apply_reward(state, 0, a, y, NOTHING)
    pulls, means = stopping.contests.arms[TEST_PULLS, 0], stopping.contests.arms[TEST_MEANS, 0]
    for r, delta in enumerate(deltas):
        margin = oracle.tas_margin(pulls, means, delta, family.noise) if drawn else -1.0
        if abs(margin) > 1e-9:
            expected = oracle.leaders(means)[0] if margin > 0 else -1
            assert state.outcome.representation[r, 0] == expected
    assert choice(state) == oracle.tas_choice(pulls, means, weights)


def test_a_lead_that_stays_shared_does_not_stop_exploration() -> None:
    """The best arm fails at first, and two others always yield the same."""
    state = TAS.new(Problem((1, 3, 1), Family("bounded"), (Criterion("own", 0.1, 0.1),)), 0.0)
    for _ in range(400):
        if wants_design(state):
            design(state)
        a = choice(state)
        apply_reward(state, 0, a, 0.5 if a else float(state.stopping.contests.arms[TEST_PULLS, 0, 0] > 0), NOTHING)
    assert state.outcome.status[0] == DECIDED and state.outcome.representation[0, 0] == 0


@given(shapes, seeds)
def test_the_released_code_wants_one_best_predictor_everywhere(shape: Shape, seed: int) -> None:
    means = np.random.default_rng(seed).integers(0, 4, shape) / 4.0
    unique = all((means[x, g] == means[x, g].max()).sum() == 1 for x, g in np.ndindex(shape[:2]))
    expected = oracle.best_representation(means) if unique and in_class(means) else -1
    assert clear_leader(means.reshape(shape[0], -1), shape[1]) == expected


# Shapes ---------------------------------------------------------------------------------------------------

POLICIES = [OSRL, OSRL_SC, RELEASED, TAS, TAS_TRANSFER, UNIFORM]


def gap_instance(shape: Shape) -> Instance:
    """Large gaps: the first representation is the best one, with the last predictor in the first task."""
    means = np.full(shape, 0.15)
    means[:, 0, :] = 0.3
    means[:, 0, 0] = 0.9
    means[0, 0] = means[0, 0][::-1].copy()
    return Instance.bernoulli(means)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("shape", [(1, 2, 2), (2, 1, 2), (2, 2, 1), (2, 1, 1), (1, 1, 1), (1, 1, 3), (3, 3, 1)])
def test_small_shapes(policy: Policy, shape: Shape) -> None:
    instance = gap_instance(shape)
    out = play(policy, instance)
    assert (out.status == DECIDED).all()
    assert (out.pulls.sum(axis=(1, 2)) == out.tau).all()
    assert (out.representation == 0).all()
    assert (out.predictor == instance.best.predictors).all()
    if shape[1:] == (1, 1) and policy.name.startswith("osrl-sc"):
        assert (out.tau == 0).all(), "nothing to learn"


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_criteria_that_choose_another_representation_have_a_phase_2_of_their_own(policy: Policy) -> None:
    """Two equal representations: criteria may differ in their choice, and each is served."""
    means = np.array([[[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.9, 0.1]]])
    means[:, 1] -= 0.02
    instance = Instance.bernoulli(means)
    criteria = policy.criteria([(0.9, 0.9), (0.01, 0.01)], policy.thresholds[:1])
    for run in range(5):
        together = play(policy, instance, run, budget=3000, criteria=criteria)
        assert (together.pulls.sum(axis=(1, 2)) == together.tau).all()


# Runs that are cut ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("shape", [(2, 2, 2), (2, 1, 3), (2, 3, 1)])
def test_a_run_that_is_cut_answers_with_its_best_guess(policy: Policy, shape: Shape) -> None:
    instance = gap_instance(shape)
    criteria = criteria_for(policy)[:1]
    whole = play(policy, instance, criteria=criteria)
    for budget in range(0, int(whole.tau[0]), 1 + int(whole.tau[0]) // 40):
        out = play(policy, instance, budget=budget, criteria=criteria)
        assert out.status[0] == EXHAUSTED
        assert out.tau[0] == out.pulls[0].sum() == budget
        assert (out.representation[0] >= 0).all() and (out.predictor[0] >= 0).all()
        assert out.tau_g[0] == min(budget, whole.tau_g[0]) or policy is TAS
    out = play(policy, instance, budget=int(whole.tau[0]), criteria=criteria)
    assert out.status[0] == DECIDED


def test_the_released_code_cuts_phase_1() -> None:
    """After 20001 rounds it goes on with the representation of the largest estimate."""
    means = np.full((2, 2, 2), 0.5)
    means[:, 0, 0] = 0.501
    out = play(RELEASED, Instance.bernoulli(means), budget=20050)
    assert (out.tau_g == 20001).all()
    assert (out.tau > 20001).all()


# Options --------------------------------------------------------------------------------------------------


def test_reused_samples_are_saved() -> None:
    instance = Instance.bernoulli([[[0.8, 0.5], [0.3, 0.2], [0.1, 0.3]], [[0.4, 0.7], [0.2, 0.1], [0.3, 0.2]]])
    criteria = OSRL_SC.criteria([(0.1, 0.1)])
    saved = []
    for run in range(20):
        plain = play(OSRL_SC, instance, run, criteria=criteria)
        reused = play(OSRL_SC, instance, run, criteria=criteria, reuse=True)
        assert (reused.status == DECIDED).all()
        assert (reused.pulls.sum(axis=(1, 2)) == reused.tau).all()
        assert (reused.tau_g == plain.tau_g).all(), "phase 1 is the same"
        assert (reused.tau >= reused.tau_g).all()
        saved.append(int(plain.tau[0] - reused.tau[0]))
    assert np.mean(saved) > 0


def test_samples_of_phase_1_may_be_enough() -> None:
    """With reuse, a task that phase 1 has decided already takes no further sample."""
    instance = Instance.bernoulli([[[0.95, 0.05], [0.5, 0.45]]])
    criteria = OSRL_SC.criteria([(0.01, 0.3)])
    out = play(OSRL_SC, instance, criteria=criteria, reuse=True)
    assert out.tau[0] == out.tau_g[0] and out.predictor[0, 0] == 0


def test_reuse_takes_one_criterion() -> None:
    assert not OSRL_SC.shares_runs({"reuse": True})
    with pytest.raises(OsrlError, match="one risk and threshold at a time"):
        play(OSRL_SC, EASY, reuse=True)


def first_task(state: State) -> int:
    """The task in progress."""
    return int(state.stopping.contests.asked[1])


def test_tas_transfer_starts_in_the_task_of_its_draw() -> None:
    problem = Problem((4, 2, 2), Family("bernoulli"), TAS_TRANSFER.criteria([(0.1, 0.1)]))
    tasks = [first_task(TAS_TRANSFER.new(problem, draw)) for draw in (0.0, 0.25, 0.6, 1 - 2**-53)]
    assert tasks == [0, 1, 2, 3]
    state = TAS_TRANSFER.new(problem, 0.6)
    assert choice(state) // 4 == 2


def test_tas_transfer_reuses_its_representation() -> None:
    out = play(TAS_TRANSFER, EASY)
    H = EASY.shape[2]
    assert (out.representation == out.representation[:, :1]).all()
    others = out.pulls[:, 1].reshape(-1, EASY.shape[1], H)
    for r, g in enumerate(out.representation[:, 0]):
        assert others[r, g].sum() == out.tau[r] - out.tau_g[r] == others[r].sum()


def test_new_state_uses_the_draw_of_its_run() -> None:
    """The task that `tas-transfer` begins with is a function of the key of the run."""
    criteria = TAS_TRANSFER.criteria([(0.1, 0.1)])
    first = [first_task(new_state(TAS_TRANSFER, EASY, criteria, new_key(0, run))) for run in range(40)]
    again = [first_task(new_state(TAS_TRANSFER, EASY, criteria, new_key(0, run))) for run in range(40)]
    assert first == again and set(first) == {0, 1}

"""No option breaks the risk: whatever a policy accepts, a true null earns nothing on average."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osrl.errors import OsrlError
from osrl.evidence.betting import Bets, check_bets, log_mixture, new_bets, rank, settle, write_ticket
from osrl.evidence.exponential_tilts import TILT_DOWN, TILT_UP, check_tilts, new_tilts
from osrl.hypotheses.product import VECTOR_LOOKS, are_vectors_due, evidence_against
from osrl.hypotheses.state import TASK_WEALTH, Hypotheses
from osrl.hypotheses.trials import observe_reward, ticket_size, write_trial_ticket
from osrl.model.families import Family
from osrl.policies.builtin import OSRL, OSRL_SC
from osrl.policies.contract import Criterion, Problem
from osrl.study.state.constants import set_constants, tilts_of
from osrl.study.state.state import StudyState
from tests.support.instances import Array, refused
from tests.support.memory_study import MemoryStudy

WIDE = st.floats(1e-6, 1e6) | st.floats(0.01, 3.0)
SHARE = st.floats(-0.5, 1.5) | st.sampled_from([0.5, 0.500001, 0.9, 1.0, math.nan])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "smallest": WIDE,
        "largest": WIDE,
        "points": st.integers(0, 12),
        "power": st.floats(-30.0, 30.0),
        "plugged": SHARE,
        "idle": SHARE,
        "shrinkage": st.floats(-1.0, 1e6),
        "safe": SHARE,
        "peak": st.just(0.0) | WIDE,
    },
)


def bets_or_none(options: dict[str, Any]) -> Bets | None:
    """The bets, or None where the options are refused."""
    try:
        return new_bets(**options)
    except OsrlError:
        return None


@settings(max_examples=300)
@given(OPTIONS, st.integers(0, 2**32 - 1), st.integers(2, 4))
def test_a_true_null_earns_nothing_whatever_the_options(options: dict[str, Any], seed: int, n: int) -> None:
    """One step, exactly: every bet and mixture, from any past, with any weights and rewards in [0, 1]."""
    bets = bets_or_none(options)
    if bets is None:
        return
    rng = np.random.default_rng(seed)
    pulls = np.floor(rng.exponential(20, n))
    sums = rng.uniform(0, 1, n) * pulls
    weights = rng.dirichlet(np.full(n, 0.5))
    b = int(rng.integers(n))
    truth = rng.uniform(0, 1, n)
    truth[b] = truth.max()
    low, high = rng.uniform(0, truth.min()), rng.uniform(truth.max(), 1)
    means, order = np.empty(n), np.arange(n)
    rank(pulls, sums, bets.shrinkage, means, order)
    wealth = rng.normal(0, 3, bets.beta.size)
    wealth[0] = 0.0
    mixtures = (bets.task, bets.shared, bets.local)
    before = np.exp([log_mixture(wealth, mixture) for mixture in mixtures])
    expected, single = np.zeros(3), np.zeros(bets.beta.size)
    for a in range(n):
        ticket = np.empty((n, 4))
        write_ticket(means, order, weights, a, bets.safe, np.ones(1, np.bool_), ticket)
        for reward, chance in (
            (high, (truth[a] - low) / (high - low)),
            (low, (high - truth[a]) / (high - low)),
        ):
            after = wealth.copy()
            settle(after, ticket[b], bets.beta, reward)
            single += weights[a] * chance * np.exp(after - wealth)
            expected += weights[a] * chance * np.exp([log_mixture(after, mixture) for mixture in mixtures])
    assert (single <= 1 + 1e-9).all()
    assert (expected <= before * (1 + 1e-9)).all()
    for mixture in mixtures:
        assert log_mixture(np.zeros(bets.beta.size), mixture) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.nojit
@pytest.mark.parametrize("seed", range(10))
def test_there_are_no_bets_against_what_is_ruled_out_and_the_others_stay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, size = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    n = groups * size
    means, order, weights = np.empty(n), np.arange(n), rng.dirichlet(np.ones(n))
    rank(rng.integers(0, 50, n).astype(float), rng.uniform(0, 20, n), 2.0, means, order)
    possible, drawn = rng.random(groups) < 0.5, int(rng.integers(n))
    every, some = np.full((2, n, 4), np.nan)
    write_ticket(means, order, weights, drawn, 0.98, np.ones(groups, np.bool_), every)
    write_ticket(means, order, weights, drawn, 0.98, possible, some)
    assert (some == np.where(np.repeat(possible, size)[:, None], every, 0.0)).all()


def wealth_of_truth(tests: Hypotheses, best: tuple[int, int]) -> float:
    """The supermartingale behind the evidence against a representation whose best arms are ``best``."""
    wealth = [tests.wealth[TASK_WEALTH, x, b] for x, b in enumerate(best)]
    apart = sum(log_mixture(each, tests.bets.task) for each in wealth)
    return 0.5 * math.exp(apart) + 0.5 * math.exp(log_mixture(sum(wealth), tests.bets.shared))


@settings(max_examples=60)
@given(OPTIONS, st.integers(0, 2**32 - 1))
def test_a_true_representation_earns_nothing_whatever_the_options(options: dict[str, Any], seed: int) -> None:
    """The same over two tasks, through the tests of the policy: the evidence lies below a supermartingale."""
    rng = np.random.default_rng(seed)
    problem = Problem((2, 2, 2), Family("bernoulli"), (Criterion("own", 1e-9, 1e-9),))
    try:
        tests = OSRL.new(problem, 0.0, **options).stopping
    except OsrlError:
        return
    truth, best = rng.uniform(0, 1, (2, 4)), (0, 1)  # representation 0 is the best in both
    for x, b in enumerate(best):
        truth[x, b] = truth[x].max()
    ticket = np.zeros(ticket_size(tests))

    def step(tests: Hypotheses, x: int, a: int, weights: Array, reward: float) -> None:
        write_trial_ticket(tests, x, a, weights, ticket)
        observe_reward(tests, x, a, reward, ticket)

    for _ in range(20):
        x, weights = int(rng.integers(2)), rng.dirichlet(np.ones(4))
        a = int(rng.choice(4, p=weights))
        step(tests, x, a, weights, float(rng.random() < truth[x, a]))
        assert evidence_against(tests.against, tests.bets, 0) <= math.log(wealth_of_truth(tests, best)) + 1e-9
    x, weights, expected = int(rng.integers(2)), rng.dirichlet(np.ones(4)), 0.0
    for a in range(4):
        for reward in (0.0, 1.0):
            after = copy.deepcopy(tests)
            step(after, x, a, weights, reward)
            chance = truth[x, a] if reward else 1 - truth[x, a]
            expected += weights[a] * chance * wealth_of_truth(after, best)
    assert expected <= wealth_of_truth(tests, best) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"plugged": 0.9}, "plugged is 0.9; give a number above 0 and at most 1/2"),
        ({"plugged": math.nan}, "plugged is nan"),
        ({"idle": 1.0}, "idle is 1.0"),
        ({"safe": 1.0}, "safe is 1.0"),
        ({"shrinkage": 0.0}, "shrinkage is 0.0"),
        ({"peak": -0.1}, "peak is -0.1"),
        ({"peak": math.nan}, "peak is nan"),
        ({"points": 10**9}, "a grid of 1000000000 bets"),
        ({"power": 1e4}, "a grid of 4 bets"),
        ({"smallest": 1e-200, "power": 20.0, "peak": 0.0}, "the weights of the bets"),
    ],
)
def test_what_could_break_the_risk_is_refused(options: dict[str, Any], said: str) -> None:
    with refused(said):
        new_bets(**options)


@pytest.mark.parametrize("options", [{"sigma": 0.0}, {"sigma": -1.0}, {"sigma": math.nan}, {"period": 0}])
def test_options_of_the_papers_algorithm_are_checked(options: dict[str, Any]) -> None:
    problem = Problem((2, 2, 2), Family("bernoulli"), (Criterion("theorem", 0.1, 0.1),))
    with refused(next(iter(options))):
        OSRL_SC.new(problem, 0.0, **options)


def test_constants_of_a_log_are_checked_too() -> None:
    """A log whose bets sum to more than one, or whose limits are not those of its risks, is refused."""
    created = MemoryStudy(tasks=1, representations=2, predictors=2, delta=0.1).progress.created
    problem = Problem((1, 2, 2), Family("bernoulli"), (Criterion("own", 0.1, 0.1),))
    state = OSRL.new(problem, 0.0)
    set_constants(state, created)
    for name, add in (("limits", -1.0), ("bets.local", 0.1), ("tilts.task", 0.1)):
        evidence = dict(created.evidence)
        evidence[name] = (np.array(evidence[name], float) + add).tolist()
        with refused("limits" if name == "limits" else "the weights of the"):
            set_constants(OSRL.new(problem, 0.0), replace(created, evidence=evidence))
    with refused("looks = 0"):
        set_constants(state, replace(created, evidence={**created.evidence, "looks": 0.0}))


def test_a_study_looks_at_vectors_as_often_as_when_it_was_begun() -> None:
    created = MemoryStudy(tasks=1, representations=2, predictors=2, delta=0.1).progress.created
    assert created.evidence["looks"] == VECTOR_LOOKS
    for looks in (50.0, VECTOR_LOOKS):
        begun = replace(created, evidence={**created.evidence, "looks": looks})
        hypotheses = StudyState(begun).hypotheses
        assert hypotheses is not None and hypotheses.looks == looks
        due = [t for t in range(2000, 2040) if are_vectors_due(hypotheses.struck, t, looks)]
        assert due == list(range(2000, 2040, round(2000 / looks)))


@pytest.mark.parametrize("rule", [{"family": "gaussian", "noise_sd": 0.5}, {"policy": "osrl-sc", "threshold": "sharp"}])
def test_a_study_goes_on_with_the_tilts_that_it_began_with(rule: dict[str, Any]) -> None:
    """Those of its log, also where this program has more; osrl 0.1 had one tilt for both arms of a pair."""
    created = MemoryStudy(tasks=1, representations=2, predictors=2, delta=0.1, **rule).progress.created
    tilts = tilts_of(StudyState(created).policy_state)
    assert tilts is not None
    made = new_tilts(0.25 if "family" in rule else 0.0)
    assert (tilts.grid == made.grid).all() and (tilts.shares == made.shares).all()
    kept = {name: value for name, value in created.evidence.items() if not name.startswith("tilts.")}
    old = {
        "tilts.half": [0.2, 0.4],
        "tilts.weight": np.log([0.5, 0.4]).tolist(),
        "tilts.mixture": math.log(0.1),
    }
    tilts = tilts_of(StudyState(replace(created, evidence={**kept, **old})).policy_state)
    assert tilts is not None
    assert tilts.by_pairs and tilts.grid[TILT_UP].tolist() == tilts.grid[TILT_DOWN].tolist() == [0.2, 0.4]
    with refused("sum to"):
        StudyState(replace(created, evidence={**kept, **old, "tilts.mixture": 0.0}))


def test_the_first_studies_that_stopped_by_counts_had_no_constants_in_their_log() -> None:
    created = MemoryStudy(tasks=1, representations=2, predictors=2, delta=0.1, policy="osrl-sc", threshold="sharp")
    tilts = tilts_of(StudyState(replace(created.progress.created, evidence={})).policy_state)
    assert tilts is not None and tilts.by_pairs
    assert tilts.grid[TILT_UP].tolist() == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8])
    assert math.exp(tilts.shares[0, 0]) == pytest.approx(0.15)


def test_weights_of_bets_fall_on_both_sides_of_the_peak() -> None:
    assert np.exp(new_bets().local[1:]) == pytest.approx([0.2, 0.4, 0.2, 0.1, 0.1])
    falling = np.exp(new_bets(power=0.5, peak=0.0).local[1:-1])  # as studies that were begun before have them
    assert falling / falling[0] == pytest.approx([1.0, 2**-0.5, 0.5, 8**-0.5])


def test_what_is_made_is_checked() -> None:
    check_bets(new_bets())
    check_tilts(new_tilts(0.0))
    check_tilts(new_tilts(2.0))


def test_what_a_study_writes_to_its_bets_and_tilts_stays_its_own() -> None:
    bets, tilts = new_bets(), new_tilts(0.0)
    before = bets.grid.copy(), tilts.grid.copy(), tilts.shares.copy()
    for written in (bets.grid, tilts.grid, tilts.shares):
        written[:] = 3.0
    after = new_bets().grid, new_tilts(0.0).grid, new_tilts(0.0).shares
    assert all(map(np.array_equal, before, after))

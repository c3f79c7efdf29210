"""The guarantee with a tolerance: no answer is worse than the best arm by more, but with the risks accepted.

The counts are compared with what an exact binomial of the risk exceeds with probability 1e-6 at most.
Deliberate mistakes are found out by the same tests.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import numpy as np
import pytest

from osrl.errors import OsrlError
from osrl.evidence.betting import log_mixture, settle, write_comparison
from osrl.hypotheses.state import new_hypotheses
from osrl.hypotheses.summary import Arm, Names, find_as_good
from osrl.hypotheses.tolerance import EPSILON_G, EPSILON_H, EXACT_SHARES, PAIR_LIMIT_G, PAIR_LIMIT_H
from osrl.hypotheses.trials import observe_reward, ticket_size, write_trial_ticket
from osrl.model.families import Family
from osrl.model.instance import Instance
from osrl.model.outcome import RUNNING, WITHIN
from osrl.model.risks import read_tolerances
from osrl.policies.builtin import UNIFORM
from osrl.simulation.api import simulate
from tests.oracle.tolerance import Comparison
from tests.validation.tolerances import CASES, Case, answers_of, unfinished
from tests.validation.walks import most_allowed

pytestmark = pytest.mark.slow

RUNS = 1000


@pytest.mark.parametrize("case", CASES)
def test_answers_are_within_the_tolerance(case: str) -> None:
    runs = 400 if "Gaussian" in case else RUNS  # they take three times as long
    found = answers_of(CASES[case], runs)
    assert found.worst <= most_allowed(runs)
    assert unfinished(found) == 0
    if case in ("ties of predictors", "equal representations"):
        assert found.verdicts[WITHIN] > 0.99 * runs


BOLD = {"largest": 1.6, "points": 5, "shrinkage": 20.0}  # bets with which a mistake shows sooner
MANY = Case(UNIFORM, Instance.bernoulli([[[0.9] + [0.4996] * 29]]), 0.4, options=BOLD)


def test_the_union_over_answers_is_needed() -> None:
    """29 answers are a little too bad: the risk is kept, and is not if each of them has all of it."""

    def without_union(hypotheses: Any) -> None:
        hypotheses.tolerance.numbers[PAIR_LIMIT_H] -= math.log(29)

    assert answers_of(MANY, RUNS).worst <= most_allowed(RUNS)
    assert answers_of(MANY, RUNS, change=without_union).worst > most_allowed(RUNS)


def test_a_shift_that_is_too_large_or_of_the_wrong_sign_is_found_out() -> None:
    def scale(factor: float) -> Any:
        def change(hypotheses: Any) -> None:
            hypotheses.tolerance.numbers[[EPSILON_G, EPSILON_H]] *= factor

        return change

    assert answers_of(MANY, RUNS, change=scale(2.0)).worst > most_allowed(RUNS)
    assert unfinished(answers_of(CASES["ties of predictors"], 100, 3000)) == 0
    assert unfinished(answers_of(CASES["ties of predictors"], 100, 3000, scale(-1.0))) > 50


# The evidence, exactly ----------------------------------------------------------------------------

LEVELS = (0.05, 0.3, 0.5, 0.65, 0.9)


@pytest.mark.parametrize("epsilon", [0.01, 0.2])
def test_one_step_of_the_shifted_factors(epsilon: float) -> None:
    """The expected factor is 1 where b is better by exactly epsilon, less above it, and more below."""
    rng = np.random.default_rng(0)
    for weights in ([0.2, 0.3, 0.5], [0.001, 0.9, 0.099], [0.98, 0.01, 0.01]):
        for means in rng.uniform(0.02, 0.98, (20, 3)):
            for beta, level in itertools.product((0.04, 0.4, 3.0, -1.0), LEVELS):
                for gap, sign in ((epsilon, 0), (epsilon + 0.04, -1), (0.0, 1)):
                    truth = np.array([level, level - gap, 0.5])
                    if truth.min() < 0:
                        continue
                    expected = _expected_factor(means, np.array(weights), truth, epsilon, beta)
                    if sign == 0:
                        assert expected == pytest.approx(1, abs=1e-13)
                    else:
                        assert (expected - 1) * sign >= -1e-13


def _expected_factor(means: Any, weights: Any, truth: Any, epsilon: float, beta: float) -> float:
    """Over all draws and rewards 0 and 1, against "arm 0 is better than arm 1 by epsilon"."""
    total = weights[2]
    for drawn in range(2):
        terms = np.zeros(4)
        write_comparison(means, weights, 0, 1, drawn, epsilon, 0.98, terms)
        for reward, chance in ((1.0, truth[drawn]), (0.0, 1 - truth[drawn])):
            wealth = np.zeros(2)
            settle(wealth, terms, np.array([0.0, beta]), reward)
            assert wealth[1] >= math.log(0.02) - 1e-12
            total += weights[drawn] * chance * math.exp(wealth[1])
    return float(total)


def test_no_stopping_rule_earns_from_a_true_comparison() -> None:
    """Over all reward sequences of a short horizon, with draws that follow the estimates."""
    epsilon, horizon = 0.2, 5

    def value(hypotheses: Any, truth: Any, left: int) -> float:
        held, bets = hypotheses.tolerance.wealth[0, 0, 0, 1], hypotheses.tolerance.bets
        now = math.exp(log_mixture(held, bets.local))
        if left == 0:
            return now
        means = (hypotheses.sums[0] + 0.5) / (hypotheses.pulls[0] + 1)
        weights, later = means / means.sum(), 0.0
        for a, reward in itertools.product(range(2), (0.0, 1.0)):
            after = copy.deepcopy(hypotheses)
            ticket = np.zeros(ticket_size(after))
            write_trial_ticket(after, 0, a, weights, ticket)
            observe_reward(after, 0, a, reward, ticket)
            chance = truth[a] if reward else 1 - truth[a]
            later += weights[a] * chance * value(after, truth, left - 1)
        return max(now, later)

    first = new_hypotheses((1, 1, 2), Family("bernoulli"), (1e-9, 1e-9), epsilon=(epsilon, epsilon))
    assert value(first, (0.7, 0.5), horizon) == pytest.approx(1, abs=1e-12)
    assert value(first, (0.9, 0.5), horizon) <= 1 + 1e-12
    assert value(first, (0.5, 0.5), horizon) > 1


def test_comparisons_are_those_of_the_oracle() -> None:
    """A literal transcription, with every bet and every pair, gives the same evidence on a random path."""
    rng = np.random.default_rng(2)
    shape, epsilon = (1, 2, 2), (0.1, 0.2)
    hypotheses = new_hypotheses(shape, Family("bounded"), (1e-9, 1e-9), epsilon=epsilon)
    ticket = np.zeros(ticket_size(hypotheses))
    bets = hypotheses.tolerance.bets
    oracle = {
        (b, c): Comparison(b, c, epsilon[0] if b // 2 != c // 2 else epsilon[1], bets.beta, np.exp(bets.local))
        for b, c in itertools.permutations(range(4), 2)
    }
    rewards: list[tuple[int, float]] = []
    for _ in range(40):  # so few that every answer is plausible still
        weights = rng.dirichlet(np.ones(4))
        a, reward = int(rng.integers(4)), float(rng.random())
        for each in oracle.values():
            each.play(rewards, weights, a, reward)
        write_trial_ticket(hypotheses, 0, a, weights, ticket)
        observe_reward(hypotheses, 0, a, reward, ticket)
        rewards.append((a, reward))
    for (b, c), each in oracle.items():
        found = log_mixture(hypotheses.tolerance.wealth[0, 0, b, c], bets.local)
        assert found == pytest.approx(math.log(each.wealth()), abs=1e-9)


# The verdict --------------------------------------------------------------------------------------


def test_the_limits_share_each_risk_between_exact_nulls_and_answers() -> None:
    made = new_hypotheses((2, 3, 4), Family("bernoulli"), (0.1, 0.05), epsilon=(0.1, 0.1))
    assert np.exp(-made.limits) == pytest.approx([EXACT_SHARES[0] * 0.1, EXACT_SHARES[1] * 0.05])
    near = np.exp(-made.tolerance.numbers[[PAIR_LIMIT_G, PAIR_LIMIT_H]])
    assert near == pytest.approx([(1 - EXACT_SHARES[0]) * 0.1 / 8, (1 - EXACT_SHARES[1]) * 0.05 / 3])
    exact = new_hypotheses((2, 3, 4), Family("bernoulli"), (0.1, 0.05), epsilon=(0.0, 0.1))
    assert np.exp(-exact.limits) == pytest.approx([0.1, EXACT_SHARES[1] * 0.05])
    none = new_hypotheses((2, 3, 4), Family("bernoulli"), (0.1, 0.05))
    assert np.exp(-none.limits) == pytest.approx([0.1, 0.05]) and none.tolerance.wealth.size == 0


def test_arms_that_are_as_good_are_named() -> None:
    rng = np.random.default_rng(4)
    hypotheses = new_hypotheses((1, 2, 2), Family("bernoulli"), (0.1, 0.1), epsilon=(0.2, 0.2))
    ticket, means = np.zeros(ticket_size(hypotheses)), (0.7, 0.7, 0.1, 0.1)
    while hypotheses.outcome.status[0] == RUNNING:
        a = int(rng.integers(4))
        write_trial_ticket(hypotheses, 0, a, np.full(4, 0.25), ticket)
        observe_reward(hypotheses, 0, a, float(rng.random() < means[a]), ticket)
    assert hypotheses.outcome.status[0] == WITHIN
    answer = int(hypotheses.outcome.predictor[0, 0])
    found = find_as_good(hypotheses, Names(["x"], ["g", "other"], ["one", "two"]))
    assert Arm("x", "g", ("one", "two")[1 - answer]) in found


def test_a_tolerance_is_checked() -> None:
    assert read_tolerances(None, None, None) == (0.0, 0.0)
    assert read_tolerances(0.1, None, None) == (0.1, 0.1)
    assert read_tolerances(None, None, 0.2) == (0.0, 0.2)
    for wrong in (-0.1, math.nan, math.inf, True, "0.1", 1e-9):
        with pytest.raises(OsrlError, match="epsilon_g is"):
            read_tolerances(None, wrong, None)  # type: ignore[arg-type]
    with pytest.raises(OsrlError, match="either epsilon"):
        read_tolerances(0.1, 0.1, None)
    with pytest.raises(OsrlError, match="give one below 1"):
        new_hypotheses((1, 2, 2), Family("bernoulli"), (0.1, 0.1), epsilon=(1.0, 0.0))
    with pytest.raises(OsrlError, match="use fewer"):
        new_hypotheses((30, 30, 30), Family("bernoulli"), (0.1, 0.1), epsilon=(0.1, 0.1))


# What it takes ------------------------------------------------------------------------------------

CLEAR = [
    [[0.44, 0.60, 0.49], [0.27, 0.13, 0.23], [0.24, 0.15, 0.32], [0.13, 0.22, 0.26]],
    [[0.35, 0.60, 0.41], [0.19, 0.10, 0.39], [0.19, 0.19, 0.37], [0.28, 0.24, 0.33]],
    [[0.60, 0.46, 0.48], [0.16, 0.29, 0.19], [0.32, 0.32, 0.17], [0.35, 0.30, 0.30]],
]


def test_a_tie_among_predictors_costs_little_with_a_tolerance_and_never_ends_without() -> None:
    tied = np.array(CLEAR)
    tied[0, 0, 2] = 0.6
    without = simulate(Instance.bernoulli(CLEAR), "osrl", 0.05, runs=60, epsilon=0.05)
    found = simulate(Instance.bernoulli(tied), "osrl", 0.05, runs=60, epsilon=0.05)
    assert set(found.frame["representations"].explode()) == {"g1"}
    assert found.summary()["error_eps"][0] == 0.0
    assert found.summary()["mean"][0] <= 2 * without.summary()["mean"][0]
    endless = simulate(Instance.bernoulli(tied), "osrl", 0.05, runs=6, budget=8000).summary()
    assert endless["budget_exhausted"][0] >= 5


def test_equal_representations_end() -> None:
    twins = np.array(CLEAR)
    twins[:, 1] = twins[:, 0]
    found = simulate(Instance.bernoulli(twins), "osrl", 0.05, runs=20, epsilon=0.1, budget=20_000).summary()
    assert found["within_tolerance"][0] == 20

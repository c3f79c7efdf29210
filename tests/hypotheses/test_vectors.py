"""Vectors of predictors: struck as the formula says, for good, and never later than without them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from osrl.evidence.betting import log_mixture, new_bets
from osrl.hypotheses.product import bound_of_vectors, head_starts, mark_open_arms, new_struck, strike_vectors_of
from osrl.hypotheses.state import IN_TASK, new_hypotheses
from osrl.hypotheses.trials import observe_reward, ticket_size, write_trial_ticket
from osrl.model.families import Family
from osrl.study.log.export import read_log
from osrl.study.state.state import initial_state
from tests.support.instances import Array, refused
from tests.support.trajectories import log_file

BETS = new_bets()
SMALL = new_bets(idle=0.25, shrinkage=20.0)


def evidence_of(held: Array, arms: list[int]) -> float:
    """By the formula: evidence against "these are the best arms of their tasks"; ``held`` (X, n, J)."""
    wealth = np.exp([held[x, a] for x, a in enumerate(arms)])
    apart = np.prod(wealth @ np.exp(BETS.task))
    return math.log(apart / 2 + wealth.prod(axis=0) @ np.exp(BETS.shared) / 2)


@pytest.mark.nojit
@pytest.mark.parametrize("seed", range(20))
def test_vectors_are_struck_when_their_evidence_reaches_the_limit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, H = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    held = rng.normal(0, 1.5, (X, H, BETS.beta.size))
    held[:, :, 0] = 0.0
    evidence = np.array([[log_mixture(held[x, h], BETS.task) for h in range(H)] for x in range(X)])
    limit, struck = rng.uniform(-1, 2), rng.random(H**X) < 0.3
    before = struck.copy()
    every = strike_vectors_of(struck, evidence, held, BETS, limit)
    found = [evidence_of(held, list(v)) for v in itertools.product(range(H), repeat=X)]
    assert struck.tolist() == (before | (np.array(found) >= limit)).tolist()
    assert every == struck.all()
    assert max(found) <= bound_of_vectors(held, np.zeros(held.shape), evidence, 0, H) + 1e-9


@pytest.mark.nojit
def test_arms_are_ahead_by_what_the_vectors_through_them_have() -> None:
    evidence, ahead = np.array([[1.0, 0.0, 0.5], [0.2, 2.0, 0.3]]), np.empty((2, 3))
    struck = new_struck((2, 1, 3), 9)[0]
    assert head_starts(struck, evidence, ahead) == pytest.approx(0.2)
    assert ahead == pytest.approx(np.array([[1.0, 0.0, 0.5], [0.0, 1.8, 0.1]]))
    struck[[3, 4]] = True  # (1, 0) and (1, 1): predictor 1 of the first task is left with 2 of the second
    assert head_starts(struck, evidence, ahead) == pytest.approx(0.3)
    assert ahead == pytest.approx(np.array([[0.9, 0.0, 0.4], [0.4, 2.2, 0.0]]))
    struck[5] = True
    head_starts(struck, evidence, ahead)
    assert math.isinf(ahead[0, 1])


@pytest.mark.nojit
def test_an_arm_is_open_while_a_vector_through_it_is() -> None:
    struck, passed = new_struck((2, 1, 3), 9)[0], np.empty((2, 3), np.bool_)
    struck[[3, 4, 5, 0, 6]] = True  # all of predictor 1 in the first task, and all of 0 in the second
    mark_open_arms(struck, passed)
    assert passed.tolist() == [[True, False, True], [False, True, True]]
    mark_open_arms(np.zeros(0, np.bool_), passed)
    assert passed.all()


def test_too_many_vectors_are_not_told_apart() -> None:
    assert new_struck((3, 2, 4), 64).shape == (2, 64)
    assert new_struck((3, 2, 4), 63).shape == new_struck((3, 2, 1), 64).shape == (2, 0)
    with refused("vectors is -1"):
        new_struck((3, 2, 4), -1)


@pytest.mark.parametrize("by_counts", [False, True])
def test_no_representation_is_ruled_out_later_than_without_them(by_counts: bool) -> None:
    means = np.array([[0.7, 0.6, 0.5, 0.5, 0.5, 0.45], [0.5, 0.7, 0.5, 0.4, 0.5, 0.6]])
    sooner = 0
    for seed in (2, 4, 9):
        rng = np.random.default_rng(seed)
        told, not_told = (
            new_hypotheses((2, 2, 3), Family("bernoulli"), (0.1, 0.1), SMALL, by_counts=by_counts, vectors=most)
            for most in (9, 0)
        )
        ticket, weights = np.zeros(ticket_size(told)), np.full(6, 1 / 6)
        while not_told.possible_g[1]:
            x, a = int(rng.integers(2)), int(rng.integers(6))
            reward = float(rng.random() < means[x, a])
            for tests in (told, not_told):
                write_trial_ticket(tests, x, a, weights, ticket)
                observe_reward(tests, x, a, reward, ticket)
            sooner += bool(not_told.possible_g[1]) and not told.possible_g[1]
        assert not told.possible_g[1] and told.possible_g[0]
        struck = told.struck[1]
        assert struck.all() or told.evidence[IN_TASK, :, 3:].min(axis=1).sum() > 0
    assert sooner > 0


def test_a_study_that_was_begun_before_there_were_vectors_does_without_them() -> None:
    for name in ("osrl", "uniform", "osrl-gaussian"):
        fold = initial_state(next(iter(read_log(log_file(name)))))
        assert fold.hypotheses is not None and fold.hypotheses.struck.shape == (2, 0)


@pytest.mark.nojit
def test_where_vectors_are_not_told_apart_arms_are_ahead_of_the_least_of_their_task() -> None:
    evidence, ahead = np.array([[1.0, 0.0, 0.5], [0.2, 2.0, 0.3]]), np.empty((2, 3))
    assert head_starts(np.zeros(0, np.bool_), evidence, ahead) == pytest.approx(0.2)
    assert ahead == pytest.approx(np.array([[1.0, 0.0, 0.5], [0.0, 1.8, 0.1]]))

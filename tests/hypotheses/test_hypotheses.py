"""The one set of hypotheses: the rule by which they are ruled out, and who uses it."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from osrl.hypotheses.refresh import recount_all, refresh_evidence
from osrl.hypotheses.state import HYP_RULED_OUT, new_hypotheses, rule_out
from osrl.hypotheses.trials import observe_reward, ticket_size, write_trial_ticket
from osrl.model.families import Family
from osrl.model.outcome import DECIDED, NO_SHARED
from osrl.policies.builtin import OSRL, TAS
from osrl.policies.contract import Criterion, Problem
from osrl.policies.steps import apply_reward, design, wants_design
from osrl.policies.stopping.per_task_test import ASKED_TASK
from osrl.study.log.export import read_log
from osrl.study.state.state import StudyState
from tests.support.studies import new_study, play
from tests.support.trajectories import log_file

LIMIT = math.log(10)


@pytest.mark.nojit
def test_the_most_evidence_goes_first_and_the_last_possibility_stays() -> None:
    """Whatever order the labels have: of several that reach the limit at once, the least refuted stays."""
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        evidence = np.array([LIMIT + 2, LIMIT + 1, LIMIT + 3])[order]
        possible = np.ones(3, bool)
        assert rule_out(possible, evidence, LIMIT, True) == 2
        assert evidence[possible].tolist() == [LIMIT + 1]
    possible = np.ones(3, bool)
    assert rule_out(possible, np.full(3, LIMIT), LIMIT, False) == 3 and not possible.any()
    possible = np.array([True, False, True])
    assert rule_out(possible, np.array([LIMIT - 1e-9, 99.0, LIMIT]), LIMIT, True) == 1
    assert possible.tolist() == [True, False, False]


@pytest.mark.parametrize("by_counts", [False, True])
def test_bets_and_counts_decide_about_the_same_hypotheses(by_counts: bool) -> None:
    rng = np.random.default_rng(1)
    means = np.array([[0.9, 0.2, 0.3, 0.1], [0.2, 0.9, 0.1, 0.3]])
    hypotheses = new_hypotheses((2, 2, 2), Family("bernoulli"), (0.1, 0.1), by_counts=by_counts)
    ticket, weights = np.zeros(ticket_size(hypotheses)), np.full(4, 0.25)
    assert ticket.size == (0 if by_counts else 24)
    for _ in range(3000):
        x, a = int(rng.integers(2)), int(rng.integers(4))
        write_trial_ticket(hypotheses, x, a, weights, ticket)
        observe_reward(hypotheses, x, a, float(rng.random() < means[x, a]), ticket)
        if hypotheses.outcome.status[0]:
            break
    assert hypotheses.outcome.status[0] == DECIDED
    assert hypotheses.outcome.predictor[0].tolist() == [0, 1]
    assert hypotheses.numbers[HYP_RULED_OUT] == (~hypotheses.possible_h).sum() + (~hypotheses.possible_g).sum()


@pytest.mark.parametrize("family", [Family("bernoulli"), Family("gaussian", 0.5)])
@pytest.mark.parametrize("vectors", [0, 1024])
def test_evidence_that_was_not_searched_for_could_not_have_decided(family: Family, vectors: int) -> None:
    """Counts are searched only where a bound reaches the limit: nothing that reached it stays possible."""
    rng, ruled_out = np.random.default_rng(5), 0
    means = np.array([[0.6, 0.45, 0.3, 0.35, 0.1, 0.2], [0.45, 0.6, 0.35, 0.2, 0.3, 0.1]])
    hypotheses = new_hypotheses((2, 3, 2), family, (0.1, 0.1), by_counts=True, vectors=vectors)
    for t in range(1, 1200):
        x, a = int(rng.integers(2)), int(rng.integers(6))
        reward = rng.normal(means[x, a], 0.5) if family.noise else float(rng.random() < means[x, a])
        observe_reward(hypotheses, x, a, reward, np.zeros(0))
        if t % 7 == 0:
            recount_all(hypotheses)
            exact = copy.deepcopy(hypotheses)
            refresh_evidence(exact)
            possible = exact.possible_g
            assert (exact.evidence_g[possible] < LIMIT).all()
            several = exact.possible_h.reshape(2, 3, 2).all(axis=2) & possible
            assert (exact.evidence_h.reshape(2, 3, 2)[several] < LIMIT).all()
            ruled_out = int(hypotheses.numbers[HYP_RULED_OUT])
    assert ruled_out >= 2


def test_counts_find_that_no_representation_is_shared() -> None:
    hypotheses = new_hypotheses((2, 2, 1), Family("gaussian", 0.1), (0.1, 0.1))
    for i in range(200):
        for x in range(2):
            for a in range(2):
                observe_reward(hypotheses, x, a, float(x == a) + 0.05 * (-1) ** i, np.zeros(0))
    recount_all(hypotheses)
    assert hypotheses.outcome.status[0] == NO_SHARED


def test_something_ruled_out_asks_for_new_weights() -> None:
    """Also where it is not a reward that rules it out, but a loss that is left out."""
    problem = Problem((2, 2, 2), Family("bernoulli"), (Criterion("own", 0.1, 0.1),))
    state = OSRL.new(problem, 0.0)
    assert wants_design(state)
    design(state)
    assert not wants_design(state)
    state.stopping.numbers[HYP_RULED_OUT] += 1
    assert wants_design(state)


def test_a_late_reward_of_a_finished_task_does_not_lead_back_to_it() -> None:
    state = TAS.new(Problem((3, 2, 1), Family("bernoulli"), (Criterion("own", 0.1, 0.1),)), 0.0)
    nothing, asked = np.zeros(0), state.stopping.contests.asked
    for x in range(2):
        while asked[ASKED_TASK] == x:
            for a in range(2):
                apply_reward(state, x, a, float(a == 0), nothing)
    apply_reward(state, 0, 0, 1.0, nothing)
    assert asked[ASKED_TASK] == 2


def test_evidence_is_read_without_a_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise AssertionError("the rest was simulated")

    monkeypatch.setattr("osrl.study.views.forecast.remaining_trials", refuse)
    with new_study(str(tmp_path / "study.db"), policy="uniform", delta=0.001) as study:
        play(study, 20)
        assert len(study.evidence) > 2
        with pytest.raises(AssertionError, match="simulated"):
            assert study.expected_remaining


def test_the_constants_of_an_older_log_are_those_of_its_time() -> None:
    created = read_log(log_file("osrl"))[0].body
    assert "apart" not in created.evidence  # type: ignore[union-attr]
    progress = StudyState(copy.deepcopy(created))  # type: ignore[arg-type]
    assert progress.hypotheses is not None and progress.hypotheses.bets.beta.size == 7

"""Trials that are late, lost or given: what they count for, and that the guarantee survives them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from osrl.hypotheses.summary import Hypothesis
from osrl.study.log.events import Abandoned, Created, Told
from osrl.study.state.bulk_replay import apply_all
from osrl.study.state.state import StudyState
from osrl.study.study import Study
from osrl.study.views.evidence import read_hypotheses
from tests.oracle.trials import evidence_of, handed_out, prefix
from tests.support.instances import refused
from tests.support.studies import MEANS, assert_sound, late_and_lost, new_study, play
from tests.validation.attacks import hostile_run


def index(study: Study, row: dict[str, Any]) -> tuple[int | None, int, int | None]:
    settings = study.settings
    x = None if row["task"] is None else list(settings.tasks).index(row["task"])
    h = None if row["predictor"] is None else list(settings.predictors).index(row["predictor"])
    return x, list(settings.representations).index(row["representation"]), h


def test_evidence_is_the_larger_of_the_prefix_and_the_worst_case(path: str) -> None:
    """Against a plain computation from the log; and each of the two is the larger one now and then."""
    seen = []
    for seed in range(6):
        with new_study(path, policy="osrl", delta=1e-4, name=f"study {seed}", seed=seed) as study:
            for part in range(4):
                late_and_lost(study, 12, seed=10 * seed + part)
                seen += compare_with_oracle(study)
            assert_sound(study)
    assert {True, False} == set(seen)


def compare_with_oracle(study: Study) -> list[bool]:
    """Compare every evidence that is shown; where it is that of the prefix."""
    trials = handed_out(study)
    found = []
    for row in study.evidence.filter(~study.evidence["rejected"]).to_dicts():
        x, g, h = index(study, row)
        if x is None or h is None:
            both = [evidence_of(study, part)[0][g] for part in (prefix(trials), trials)]
        else:
            own = [trial for trial in trials if trial[0] == x]
            both = [evidence_of(study, part)[1][x, 2 * g + h] for part in (prefix(own), own)]
        assert row["log_evidence"] == pytest.approx(max(both), abs=1e-9)
        found.append(both[0] > both[1] + 1e-6)
    return found


def test_a_trial_that_never_ends_does_not_hold_up_the_others(path: str, monkeypatch: Any) -> None:
    """The first trial never reports: what is remembered is bounded, and the evidence is a lower bound."""
    monkeypatch.setattr("osrl.study.state.in_order.WINDOW", 5)
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 10)
    with new_study(path, policy="osrl", delta=1e-4) as study:
        stuck = study.ask()
        for part in range(3):
            late_and_lost(study, 10, seed=part)
            order = study._session.refresh().in_order
            assert order is not None and len(order.ended) <= 5 and stuck.id in order.passed
            trials = handed_out(study)
            every = np.array([evidence_of(study, trials[:k])[0] for k in range(len(trials) + 1)])
            for row in study.evidence.filter(study.evidence["predictor"].is_null()).to_dicts():
                g = index(study, row)[1]
                assert every[-1, g] - 1e-9 <= row["log_evidence"] <= every[:, g].max() + 1e-9
            assert_sound(study)
        before = study.evidence
        study.tell(stuck, 1)
        assert study.verdict == "running" and len(study.evidence) == len(before)
        assert_sound(study)


def test_gaussian_rewards_are_judged_by_their_counts(path: str) -> None:
    """There is no worst reward: a loss has to be ignorable, and late trials are left out until they come."""
    best = {"A": {"low": 2.0, "high": 0.0}, "B": {"low": -1.0, "high": -2.0}}
    rng = random.Random(0)
    with new_study(path, policy="osrl", family="gaussian", noise_sd=1.0, delta=0.1) as study:
        late, lost = study.ask(n=2)
        with refused("policy 'osrl' has no guarantee when trials with"):
            study.abandon(lost)
        study.abandon(lost, ignorable=True)
        while study.verdict == "running":
            assert study.trials < 2000
            for trial in study.ask(n=3):
                study.tell(trial, rng.gauss(best[trial.representation][trial.predictor], 1.0))
            if study.trials % 15 == 5:
                left = study.expected_remaining
                assert left is not None and left >= 0
        assert study.verdict == "decided" and study.best.representation == "A"
        study.tell(late, 100.0)
        assert_sound(study)


# What follows from it -----------------------------------------------------------------------------


def test_late_lost_and_given_trials_are_replayed(path: str) -> None:
    with new_study(path, policy="osrl", delta=0.05) as study:
        late_and_lost(study, 60)
        kinds = {event.kind for event in study.events()}
        assert kinds == {"create", "design", "ask", "tell", "abandon"}
        assert_sound(study)
        evidence = study.evidence
        assert evidence.columns == list(Hypothesis._fields)
        assert evidence["representation"].to_list()[:2] == ["A", "B"]
        assert evidence["limit"].to_list()[0] == pytest.approx(np.log(20))
        assert study.expected_remaining is not None and study.expected_remaining > 0


def test_a_loss_counts_by_its_worst_reward(path: str) -> None:
    """The evidence without the trial, and with either of its rewards, is no smaller."""
    with new_study(path, policy="osrl", delta=1e-4) as study:
        play(study, 30)
        before = study.evidence["log_evidence"].to_numpy()
        trial = study.ask()
        # A trial in the air takes nothing away: the evidence of those before it stands.
        assert (study.evidence["log_evidence"].to_numpy() == before).all()
        events = list(study.events())
        evidence = {}
        for end in (Told(trial.id, 0.0), Told(trial.id, 1.0), Abandoned(trial.id, False)):
            assert isinstance(events[0].body, Created)
            progress = StudyState(events[0].body)
            apply_all(progress, [*events[1:], events[-1]._replace(seq=len(events), body=end)])
            evidence[end] = np.array([each.log_evidence for each in read_hypotheses(progress)])
        bad, good, lost = evidence.values()
        assert (lost <= np.minimum(bad, good) + 1e-12).all() and (lost < before).any()


def test_an_ignorable_loss_leaves_no_trace_in_the_evidence(path: str) -> None:
    with new_study(path, policy="osrl") as study:
        play(study, 30)
        before = study.evidence
        study.abandon(study.ask(), ignorable=True)
        assert study.evidence.equals(before)


@pytest.mark.parametrize("ignorable", [False, True])
def test_giving_up_a_trial_can_end_the_study(path: str, ignorable: bool) -> None:
    """What a pending trial held back counts as soon as it is given up, not only with the next reward."""
    with new_study(path, policy="uniform", delta=0.3) as study:
        play(study, 12)
        stuck, *main = study.ask(n=150)
        study.ask(n=100)  # that many at their worst say little; the trials before them say enough
        for trial in main:
            study.tell(trial, MEANS[trial.representation][trial.predictor] > 0.5)
        assert study.verdict == "running"
        study.abandon(stuck, ignorable=ignorable)
        assert study.verdict == "decided" and study.best.representation == "A"
        assert_sound(study)


def test_one_late_reward_does_not_block_the_verdict(path: str) -> None:
    with new_study(path, policy="osrl", delta=0.2) as study:
        late = study.ask(n=3)
        play(study, 2000)
        assert study.verdict == "decided"
        assert study.best.representation == "A"
        study.tell(late[0], 0)
        assert_sound(study)


def test_trials_in_the_air_do_not_change_the_best_guess(path: str) -> None:
    """At their worst they would speak for the representation that looks worse."""
    with new_study(path, policy="osrl", delta=1e-6) as study:
        play(study, 60)
        best = study.best
        assert best.representation == "A"
        study.ask(n=50)
        study.tell(study.ask(), 0)
        assert study.best.representation == "A"


def test_what_the_screen_says_agrees_with_the_stopping_rule(path: str) -> None:
    """A hypothesis is rejected if, and only if, the evidence shown has reached the limit shown."""
    with new_study(path, policy="osrl", delta=0.3) as study:
        for part in range(40):
            late_and_lost(study, 3, seed=part)
            frame = study.evidence
            for row in frame.filter(frame["predictor"].is_null()).to_dicts():
                assert row["rejected"] == (row["log_evidence"] >= row["limit"])
            for row in frame.filter(frame["rejected"]).to_dicts():
                assert row["log_evidence"] >= row["limit"]


@pytest.mark.parametrize("policy", ["osrl", "uniform"])
def test_delays_and_losses_that_depend_on_the_reward_keep_the_guarantee(policy: str) -> None:
    delta, runs = 0.2, 100
    wrong = sum(hostile_run(policy, delta, seed) for seed in range(runs))
    assert wrong <= binom.ppf(0.999, runs, delta)

"""Trials that are late, lost or given: what they count for, and that the guarantee survives them."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from osrl.hypotheses import trials as of_hypotheses
from osrl.hypotheses.possible import look
from osrl.hypotheses.words import Hypothesis
from osrl.study.events import Abandoned, Asked, Created, Event, Told
from osrl.study.fold import Fold
from osrl.study.settings import new_settings
from osrl.study.standing import read_hypotheses
from osrl.study.study import Study
from tests.instances import refused
from tests.test_study import MEANS, NAMES, new_study, play
from tests.test_study_processes import assert_sound


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "study.db")


def late_and_lost(study: Study, rounds: int, seed: int = 3, means: Any = MEANS) -> None:
    """Ask in batches, in arrived tasks and not; tell late, in any order; abandon some."""
    rng = random.Random(seed)
    waiting: list[Any] = []
    for _ in range(rounds):
        if study.verdict != "running":
            return
        if rng.random() < 0.5:
            waiting += study.ask(rng.choice([None, *study.settings.tasks]), n=rng.randrange(1, 5))
        rng.shuffle(waiting)
        for trial in waiting[: rng.randrange(4)]:
            waiting.remove(trial)
            if rng.random() < 0.15:
                study.abandon(trial, ignorable=rng.random() < 0.5)
            else:
                study.tell(trial, rng.random() < means[trial.representation][trial.predictor])


# A plain oracle -----------------------------------------------------------------------------------

PENDING, LOST, LEFT_OUT = "pending", "lost", "left out"


def handed_out(study: Study) -> list[list[Any]]:
    """Every trial in order of hand-out: task, arm, ticket, and its reward or what became of it."""
    events = list(study.events())
    assert isinstance(events[0].body, Created)
    fold, trials = Fold(events[0].body), []
    for event in events[1:]:
        fold.apply(event)
        match event.body:
            case Asked() as asked:
                one = fold.pending[asked.trial]
                trials.append([one.x, one.a, one.ticket, PENDING])
            case Told() as told:
                trials[told.trial - 1][3] = told.reward
            case Abandoned() as lost:
                trials[lost.trial - 1][3] = LEFT_OUT if lost.ignorable else LOST
    return trials


def evidence_of(study: Study, trials: list[Any]) -> tuple[Any, Any]:
    """Log evidence from these trials only, one after the other: against representations, and predictors."""
    tests = Fold(study.settings).state.hypotheses
    tests.limits[:] = math.inf  # nothing is rejected on the way
    for x, a, ticket, end in trials:
        if end == PENDING:
            of_hypotheses.pend_trial(tests, x, a, ticket)
        elif end == LOST:
            of_hypotheses.forfeit_trial(tests, x, a, ticket)
        elif end != LEFT_OUT:
            of_hypotheses.take_reward(tests, x, a, end, ticket)
    look(tests)
    return tests.evidence_g, tests.evidence_h


def prefix(trials: list[Any]) -> list[Any]:
    """The trials before the first one that has not reported."""
    late = [i for i, trial in enumerate(trials) if trial[3] == PENDING]
    return trials[: late[0]] if late else trials


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
    monkeypatch.setattr("osrl.study.prefix.WINDOW", 5)
    monkeypatch.setattr("osrl.study.session.EVERY", 10)
    with new_study(path, policy="osrl", delta=1e-4) as study:
        stuck = study.ask()
        for part in range(3):
            late_and_lost(study, 10, seed=part)
            order = study._session._current().prefix
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
            left = study.expected_remaining
            assert left is None if study.trials - 2 < 8 else left is not None and left >= 0
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
            fold = Fold(events[0].body)
            fold.apply_all([*events[1:], events[-1]._replace(seq=len(events), body=end)])
            evidence[end] = np.array([each.log_evidence for each in read_hypotheses(fold)])
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


def hostile_run(policy: str, delta: float, seed: int) -> bool:
    """Bad results of rivals come late or never, and so do good ones of the arm that is favoured.

    All arms are equal, so every hypothesis is true; whether the representation under attack is rejected.
    """
    fold = Fold(new_settings(**settings_of(policy, delta, seed)))
    rng = random.Random(seed)
    held: list[tuple[int, float]] = []

    def end(body: Told | Abandoned) -> None:
        fold.apply(Event(fold.position, 0, body))
        fold.verdict = fold._judge()

    for _ in range(20):
        for _ in range(8):
            if (designed := fold.solve()) is not None:
                fold.advance(Event(fold.position, 0, designed))
            asked = fold.choose(None)
            fold.apply(Event(fold.position, 0, asked))
            reward = float(rng.randrange(2))
            favoured = asked.representation == "A" and asked.predictor == "low"
            if fold.verdict is not None or reward == favoured:
                end(Told(asked.trial, reward))
            elif rng.random() < 0.6:
                end(Abandoned(asked.trial, False))
            else:
                held.append((asked.trial, reward))
        if fold.verdict is not None:
            break
        while len(held) > 40:
            end(Told(*held.pop(0)))
    return not fold.state.hypotheses.possible_g[1]


def settings_of(policy: str, delta: float, seed: int) -> dict[str, Any]:
    """The arguments of a small study."""
    given = {**NAMES, "policy": policy, "delta": delta, "seed": seed, "family": "bernoulli"}
    unset = ("noise_sd", "delta_g", "delta_h", "budget", "threshold", "options")
    return {**dict.fromkeys(unset), **given}


@pytest.mark.parametrize("policy", ["osrl", "uniform"])
def test_delays_and_losses_that_depend_on_the_reward_keep_the_guarantee(policy: str) -> None:
    delta, runs = 0.2, 100
    wrong = sum(hostile_run(policy, delta, seed) for seed in range(runs))
    assert wrong <= binom.ppf(0.999, runs, delta)

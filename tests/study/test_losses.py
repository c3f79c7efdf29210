"""Losses that are declared ignorable: the watch on them, its alarm, and what holds afterwards."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from osrl.cli import main
from osrl.evidence.missingness import (
    COUNTED,
    LEFT_OUT,
    MISSINGNESS_LEVEL,
    end_trial,
    issue_trial,
    log_odds,
    missingness_evidence,
    new_missingness_test,
)
from osrl.hypotheses.state import new_hypotheses
from osrl.model.families import Family
from osrl.study.state.missingness import MissingnessMonitor
from osrl.study.study import Study
from tests.oracle.trials import LOST, handed_out, prefix
from tests.oracle.trials import evidence_of as evidence_of_trials
from tests.support.memory_study import MemoryStudy
from tests.support.studies import assert_sound, new_study
from tests.validation.attacks import allowed

LIMIT = math.log(1 / MISSINGNESS_LEVEL)


# The watch


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_the_watch_earns_nothing_while_losses_do_not_depend_on_the_arm(seed: int, n: int) -> None:
    """One step, exactly, from any past and whatever the chance of a loss."""
    rng = np.random.default_rng(seed)
    watch = new_missingness_test(1, n)
    watch.number[:] = np.floor(rng.exponential(5, watch.number.shape))
    watch.expected[:] = rng.exponential(5, watch.expected.shape)
    watch.wealth[:] = rng.normal(0, 2, watch.wealth.shape)
    weights, loss = rng.dirichlet(np.full(n, 0.7)), rng.random()
    before, after = math.exp(missingness_evidence(watch)), 0.0
    for a in range(n):
        odds = log_odds(watch, 0, a, weights)
        for fate, chance in ((COUNTED, 1 - loss), (LEFT_OUT, loss)):
            one = watch._replace(**{name: array.copy() for name, array in watch._asdict().items()})
            issue_trial(one, odds)
            assert missingness_evidence(one) <= missingness_evidence(watch) + 1e-12  # a trial in the air earns nothing
            end_trial(one, 0, a, weights, odds, fate)
            after += weights[a] * chance * math.exp(missingness_evidence(one))
    assert after == pytest.approx(before, rel=1e-9)


@pytest.mark.parametrize("n", [2, 9, 150])
def test_trials_that_were_counted_one_by_one_are_counted_at_once_with_the_same_bits(n: int) -> None:
    """A log is replayed in long stretches: a snapshot of the watch must not depend on their length."""
    rng = np.random.default_rng(n)
    tasks, arms = rng.integers(0, 3, 400), rng.integers(0, n, 400)
    propensities = rng.dirichlet(np.full(n, 0.5), 400) / 3
    hypotheses = new_hypotheses((3, 1, n), Family("bernoulli"), (0.1, 0.1), by_counts=False)
    one_by_one, at_once = (
        MissingnessMonitor(hypotheses, MISSINGNESS_LEVEL),
        MissingnessMonitor(hypotheses, MISSINGNESS_LEVEL),
    )
    for each in (one_by_one, at_once):
        each.issue(1, 0, propensities[0])  # which is still out: what is pending is no whole number
    for x, a, drawn in zip(tasks.tolist(), arms.tolist(), propensities, strict=True):
        one_by_one.end(x, a, one_by_one.issue(x, a, drawn), ignorable=False, final=False)
    at_once.count_block(tasks, arms, propensities)
    for (name, array), (_, other) in zip(one_by_one.arrays(), at_once.arrays(), strict=True):
        assert array.tobytes() == other.tobytes(), name


def alarms(runs: int, loss: Any, delay: Any) -> int:
    """In how many runs a watch raises its alarm, when losses and delays are as given, for each arm."""
    found = 0
    for seed in range(runs):
        rng, watch, waiting = random.Random(seed), new_missingness_test(1, 4), []
        weights = np.array([0.4, 0.3, 0.2, 0.1])
        for t in range(400):
            a = rng.choices(range(4), weights.tolist())[0]
            odds = log_odds(watch, 0, a, weights)
            issue_trial(watch, odds)
            waiting.append((t + delay(a), a, odds, LEFT_OUT if rng.random() < loss(a) else COUNTED))
            for one in [one for one in waiting if one[0] <= t]:
                waiting.remove(one)
                end_trial(watch, 0, one[1], weights, one[2], one[3])
            if missingness_evidence(watch) >= LIMIT:
                found += 1
                break
    return found


def test_the_watch_rarely_raises_a_false_alarm() -> None:
    assert alarms(200, lambda a: 0.3, lambda a: 0) <= allowed(200, MISSINGNESS_LEVEL)
    assert alarms(200, lambda a: 0.3, lambda a: 60 * a) <= allowed(200, MISSINGNESS_LEVEL)  # delays depend on the arm


def test_the_watch_sees_losses_that_depend_on_the_arm() -> None:
    assert alarms(50, lambda a: 0.5 * (a == 1), lambda a: 0) >= 48


def alarms_over_stages(runs: int, carried: bool) -> int:
    """In how many runs the watch raises a false alarm, when a stage begins whenever it has lost wealth."""
    hypotheses = new_hypotheses((1, 2, 2), Family("bernoulli"), (0.1, 0.1), by_counts=False)
    weights, found = np.full(4, 0.25), 0
    for seed in range(runs):
        rng, losses, stages, trials = random.Random(seed), MissingnessMonitor(hypotheses, MISSINGNESS_LEVEL), 0, 0
        while stages < 150:
            a, trials = rng.randrange(4), trials + 1
            if losses.end(0, a, losses.issue(0, a, weights), rng.random() < 0.3, final=False):
                found += 1
                break
            if trials % 60 == 0 or missingness_evidence(losses.watch) < -0.6:
                losses, stages = (
                    MissingnessMonitor(hypotheses, MISSINGNESS_LEVEL, losses if carried else None),
                    stages + 1,
                )
    return found


def test_the_watch_rarely_raises_a_false_alarm_over_many_stages() -> None:
    """One that begins again with each stage does in 4 of 20 studies."""
    assert binom.sf(alarms_over_stages(60, carried=True) - 1, 60, MISSINGNESS_LEVEL) > 1e-3
    assert binom.sf(alarms_over_stages(20, carried=False) - 1, 20, MISSINGNESS_LEVEL) < 1e-3


# A study


def decline(study: Any, rng: random.Random, trial: Any, favoured: bool, means: float) -> None:
    """Tell the reward of a trial; half of those of the favoured arm are left out as ignorable."""
    if favoured and rng.random() < 0.6:
        study.abandon(trial, ignorable=True)
    else:
        study.tell(trial, rng.random() < means)


def play_until_alarm(study: Study, seed: int, most: int = 400) -> None:
    """Batches with late results, until the alarm; then some more."""
    waiting: list[Any] = []
    rng, left = random.Random(seed), 40
    for _ in range(most):
        waiting += study.ask(n=2)
        rng.shuffle(waiting)
        while len(waiting) > 6:
            trial = waiting.pop()
            favoured = (trial.representation, trial.predictor) == ("A", "low")
            decline(study, rng, trial, favoured, 0.5 + 0.02 * favoured)
        if study.look()[0].alarm is not None:  # without a forecast
            left -= 1
        if left == 0 or study.verdict != "running":
            return


def test_after_the_alarm_every_loss_counts_by_its_worst_reward(tmp_path: Path, monkeypatch: Any) -> None:
    """Against a plain computation from the log, in which no loss is ignorable; and everything is replayed."""
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 25)
    path = str(tmp_path / "study.db")
    with new_study(path, policy="osrl", delta=1e-6) as study:
        play_until_alarm(study, 1)
        status = study.status
        assert status.alarm is not None and not status.alarm.void and status.left_out > 3
        assert status.alarm.suspects[0][1:3] == ("A", "low")
        strict = [[*trial[:3], LOST if trial[3] == "left out" else trial[3]] for trial in handed_out(study)]
        every = np.array([evidence_of_trials(study, strict[:k])[0] for k in range(len(strict) + 1)])
        worst = evidence_of_trials(study, strict)[0]
        for g, row in enumerate(study.evidence.filter(study.evidence["predictor"].is_null()).to_dicts()):
            assert worst[g] - 1e-9 <= row["log_evidence"] <= every[:, g].max() + 1e-9
        assert prefix(strict)
        assert_sound(study)


BOLD = {"largest": 1.6, "points": 5, "shrinkage": 20.0}  # bets that are wrong sooner than the alarm comes


def test_an_alarm_takes_back_what_rested_on_losses_that_were_left_out() -> None:
    """Rejections from before the first loss stay; a wrong one that was made by leaving out does not."""
    for seed in range(20):
        study = MemoryStudy(
            tasks=1, representations=1, predictors=8, policy="uniform", delta=0.45, seed=seed, options=BOLD
        )
        rng, ruled_out = random.Random(seed), False
        for _ in range(600):
            asked = study.ask()
            h = study.arm(asked)[2]
            if h == 0 and rng.random() < 0.9:
                study.abandon(asked.trial, ignorable=True)
            else:
                study.tell(asked.trial, rng.random() < [0.95, 0.948, *[0.02] * 6][h])
            possible = study.progress.policy_state.stopping.possible_h[0, 0]
            ruled_out |= not possible and not study.progress.alarm
            if study.progress.alarm and ruled_out:
                assert possible and study.running
                return
            if study.progress.alarm or not study.running:
                break
    pytest.fail("in no run the best arm was ruled out before the alarm")


def test_a_verdict_that_rests_on_such_losses_is_void_after_the_alarm() -> None:
    study = MemoryStudy(tasks=1, representations=1, predictors=2, policy="uniform", delta=0.4, seed=3)
    rng, waiting = random.Random(3), []
    while study.running:
        asked = study.ask()
        h = study.arm(asked)[2]
        if h == 0 and rng.random() < 0.5:
            waiting.append(asked.trial)
        else:
            study.tell(asked.trial, float(h == 0))
        if len(waiting) == 1:
            study.abandon(waiting.pop(), ignorable=True)
            waiting += [study.ask().trial for _ in range(60)]
    assert study.progress.verdict is not None and not study.progress.alarm
    arm = {trial: one.a for trial, one in study.progress.pending.items()}
    for trial in waiting:
        if arm[trial] == 0:
            study.abandon(trial, ignorable=True)
        else:
            study.tell(trial, 0.0)
    assert study.progress.missingness is not None and study.progress.missingness.void


def test_the_screen_says_what_is_assumed_and_what_is_wrong(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "study.db")
    with new_study(path, policy="osrl", delta=1e-6) as study:
        trial = study.ask()
        study.abandon(trial, ignorable=True)
        assert main(["study", "status", path]) == 0
        assert "depends neither on the reward nor on the arm, given the" in " ".join(capsys.readouterr().out.split())
        play_until_alarm(study, 1)
    assert main(["study", "status", path]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Alarm: losses depend on the arm" in said and "(A, low)" in said
    assert main(["study", "status", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["alarm"]["suspects"][0]["predictor"] == "low" and found["left_out"] > 3
    assert found["assumed"] == ["one representation is the best in every task"]


def test_a_gaussian_study_says_what_it_assumes(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "study.db")
    new_study(path, policy="osrl", family="gaussian", noise_sd=1.0).close()
    assert main(["study", "status", path]) == 0
    assert "each arm's mean stayed the same" in " ".join(capsys.readouterr().out.split())

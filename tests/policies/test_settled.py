"""Settled tasks: an arrival in a task that is decided gets the answer, and the proofs do not change."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from osrl.errors import OsrlError
from osrl.hypotheses.state import LOCAL_WEALTH, TASK_WEALTH
from osrl.study.log.events import Asked
from osrl.study.state.state import StudyState
from osrl.study.study import Study
from tests.support.memory_study import MemoryStudy

EASY, HARD = "easy", "hard"  # a task with large gaps, and one in which two predictors are equal
MEANS = {EASY: [[0.8, 0.3], [0.3, 0.2], [0.2, 0.2]], HARD: [[0.6, 0.6], [0.2, 0.1], [0.1, 0.1]]}
NAMES: dict[str, Any] = {"tasks": [EASY, HARD], "representations": 3, "predictors": 2, "delta": 0.05}


def play(study: MemoryStudy, trials: int, rng: random.Random) -> list[Asked]:
    """Trials of tasks that arrive, half of them easy."""
    asked = []
    for _ in range(trials):
        one = study.ask(rng.choice((EASY, HARD)))
        _, g, h = study.arm(one)
        study.tell(one.trial, rng.random() < MEANS[one.task][g][h])
        asked.append(one)
    return asked


def is_settled(study: MemoryStudy) -> bool:
    """Whether one representation is left, and one predictor of it in the easy task."""
    hypotheses = study.progress.policy_state.stopping
    return list(hypotheses.possible_g) == [True, False, False] and hypotheses.possible_h[0, :2].sum() == 1


def settled(seed: int = 1, **settings: Any) -> tuple[MemoryStudy, random.Random]:
    """A study whose easy task is settled, and the other is not."""
    study, rng = MemoryStudy(**NAMES, seed=seed, **settings), random.Random(seed)
    while not is_settled(study):
        play(study, 1, rng)
    return study, rng


def test_a_settled_task_plays_its_answer() -> None:
    """All six arms were drawn about equally often, ruled-out representations among them."""
    study, rng = settled()
    asked = play(study, 400, rng)
    easy = [one for one in asked if one.task == EASY]
    assert len(easy) > 150
    assert all(one.propensities == [1.0, 0, 0, 0, 0, 0] for one in easy)
    assert {study.arm(one) for one in easy} == {(0, 0, 0)}
    assert all(one.representation == "g1" for one in asked[200:])  # in both tasks


def test_a_holdout_share_is_drawn_evenly_from_all_arms() -> None:
    study, rng = settled(options={"holdout": 0.3})
    easy = [one for one in play(study, 100, rng) if one.task == EASY]
    assert all(np.allclose(one.propensities or [], [0.75, *[0.05] * 5]) for one in easy)


@pytest.mark.parametrize("holdout", [-0.1, 1.1, float("nan")])
def test_a_holdout_that_is_no_share_is_refused(holdout: float) -> None:
    with pytest.raises(OsrlError, match="holdout"):
        MemoryStudy(**NAMES, options={"holdout": holdout})


def test_with_a_tolerance_a_task_is_settled_by_it() -> None:
    """Of two predictors that are equal one is played, once the other is not better by the tolerance."""
    study, rng = MemoryStudy(**NAMES, seed=2, epsilon_h=0.2), random.Random(2)
    hypotheses = study.progress.policy_state.stopping
    for _ in range(2000):
        one = study.ask(HARD)
        _, g, h = study.arm(one)
        study.tell(one.trial, rng.random() < MEANS[HARD][g][h])
        if hypotheses.tolerance.within[1, :2, :2].any() and hypotheses.possible_g.sum() == 1:
            break
    assert hypotheses.possible_h[1, :2].all()  # exactly, nothing is known about them
    assert sorted(study.ask(HARD).propensities or []) == [0.0] * 5 + [1.0]


def test_a_task_is_not_settled_before_its_model_check_is_done() -> None:
    """Arms that are ruled out are drawn until it is, then the answer is played."""
    study, rng = settled(options={"model_check": 0.1})
    check = study.progress.policy_state.stopping.check
    before: list[int] = []
    after: list[int] = []
    for _ in range(3000):
        done = bool(check.within[0, 1:, 0].all())
        one = study.ask(EASY)
        _, g, h = study.arm(one)
        (after if done else before).append(g * 2 + h)
        study.tell(one.trial, rng.random() < MEANS[EASY][g][h])
        if len(after) == 20:
            break
    assert set(before) > {0}
    assert after == [0] * 20


def test_a_trial_without_a_choice_is_no_evidence() -> None:
    """Whatever it brings, late or never, the wealth of every bet stays as it is."""
    study, rng = settled()
    wealth = study.progress.policy_state.stopping.wealth
    before = wealth.copy()
    for reward in (0.0, 1.0, 0.0, None):
        one = study.ask(EASY)
        if reward is None:
            study.abandon(one.trial)
        else:
            study.tell(one.trial, reward)
    assert np.array_equal(wealth[TASK_WEALTH], before[TASK_WEALTH])
    assert np.array_equal(wealth[LOCAL_WEALTH], before[LOCAL_WEALTH])
    play(study, 20, rng)
    assert not np.array_equal(wealth[LOCAL_WEALTH], before[LOCAL_WEALTH])


def test_a_settled_task_is_compared_again_when_another_representation_looks_better() -> None:
    """Then the tasks may share none: the answer and the arm that is in its way are drawn equally often."""
    study, _ = settled()
    rivals = []
    for _ in range(3000):
        one = study.ask(EASY)
        if one.propensities != [1.0, 0, 0, 0, 0, 0]:
            rivals.append(one)
        study.tell(one.trial, float(one.representation != "g1"))  # the answer turns bad
    assert rivals
    assert all(sorted(one.propensities or [])[-2:] == [0.5, 0.5] for one in rivals[:1])


def regret(holdout: float, seed: int, trials: int) -> tuple[float, float]:
    """Conversions lost in a study of ``trials`` arrivals, in the easy task after it is settled and in all."""
    study, rng = MemoryStudy(**NAMES, seed=seed, options={"holdout": holdout}), random.Random(seed)
    after = lost = 0.0
    for _ in range(trials):
        was = is_settled(study)
        (one,) = play(study, 1, rng)
        x, g, h = study.arm(one)
        here = max(map(max, MEANS[one.task])) - MEANS[one.task][g][h]
        lost += here
        after += here if was and x == 0 else 0.0
    return after, lost


def test_what_a_settled_task_costs() -> None:
    """Before (a holdout of 1) most of what a study lost was lost after the task had been settled."""
    before = np.mean([regret(1.0, seed, 1500) for seed in range(3)], axis=0)
    now = np.mean([regret(0.0, seed, 1500) for seed in range(3)], axis=0)
    assert now[0] == 0.0
    assert before[0] > 0.5 * before[1]
    assert now[1] < 0.5 * before[1]


def test_a_study_of_before_goes_on_as_it_was(tmp_path: Path) -> None:
    """Its first event has no holdout, which means 1."""
    study, rng = settled(options={"holdout": 1.0})
    easy = [one for one in play(study, 60, rng) if one.task == EASY]
    assert all(max(one.propensities or []) < 0.5 for one in easy)
    created = study.progress.created
    old = replace(created, options={name: created.options[name] for name in ("growth", "explore")})
    assert StudyState(old).policy_state.sampling.holdout == 1.0
    with Study.create(str(tmp_path / "new.db"), **NAMES) as fresh:
        assert fresh.settings.options["holdout"] == 0.0


def test_a_log_of_a_settled_task_replays(tmp_path: Path) -> None:
    rng = random.Random(1)
    with Study.create(str(tmp_path / "a.db"), **NAMES) as study:
        for _ in range(500):
            trial = study.ask(rng.choice((EASY, HARD)))
            g, h = int(trial.representation[1]) - 1, int(trial.predictor[1]) - 1
            study.tell(trial, rng.random() < MEANS[trial.task][g][h])
        assert study.ask(EASY).propensity == 1.0
        assert study.verify().problems == ()

"""What page and status claim: sentences are read again beside the true means."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from osrl.hypotheses.summary import Answer
from osrl.page.sentences import headline
from osrl.report.claims import ChosenAnswer, claims_of, guarantee, guarantee_of
from osrl.report.sentences import SHARED
from osrl.report.study import StudyReport
from osrl.study.log.events import WITHIN
from osrl.study.study import Study
from osrl.study.views.arms import ArmRate, tasks_beaten, tasks_without_result
from osrl.study.views.status import MissingnessAlarm, read_status
from tests.support.memory_study import MemoryStudy
from tests.validation.attacks import allowed
from tests.validation.attacks_claims import (
    all_within,
    called_best,
    claim_too_bad,
    claim_within,
    document_of,
    page_of,
    said,
    tasks_apart,
    tasks_within,
)


def test_what_is_claimed_with_a_tolerance_is_true() -> None:
    """It was false in 40 of 120: "is the best choice", at the risk of being within the tolerance."""
    runs = 10
    assert sum(map(claim_within, range(runs))) <= allowed(runs, 0.1) - 2


def test_a_claim_within_the_tolerance_keeps_its_risk_at_every_look() -> None:
    runs = 30
    assert sum(map(claim_too_bad, range(runs))) <= allowed(runs, 0.1)


def test_the_risk_of_one_task_is_not_said_of_all() -> None:
    """The answer of some task was too bad in 637 of 1,000 at a chance "of at most 1 %"."""
    tasks, found = 40, [tasks_within(seed) for seed in range(5)]
    assert all(one == 0.1 and every == 1.0 for _, one, every in found)
    assert sum(wrong for wrong, *_ in found) <= allowed(5 * tasks, 0.1)
    assert not any(map(all_within, range(5)))


@pytest.mark.parametrize("gap", [0.05, 0.1, 0.2])
def test_the_model_stands_beside_every_claim(gap: float) -> None:
    """The page named one "the best in every task" in 160, 105 and 42 of 200, and no assumption."""
    unsaid, named = map(sum, zip(*(tasks_apart(gap, seed) for seed in range(4)), strict=True))
    assert unsaid == 0 < named


def test_a_guess_that_does_not_look_best_is_not_said_to() -> None:
    """It was in six of six studies."""
    assert not any(map(called_best, range(20)))


def test_a_guess_says_where_it_has_no_result_or_a_lower_mean() -> None:
    def arm(task: str, g: str, told: int, mean: float | None) -> ArmRate:
        return ArmRate(task, g, "h", told, told, mean, None, None, None, None, None)

    arms = [arm("x", "a", 3, 0.5), arm("x", "b", 3, 0.4), arm("y", "a", 0, None), arm("y", "b", 1, 1.0)]
    best = Answer(None, {"x": "b", "y": "a"}, {"x": "h", "y": "h"})
    assert (tasks_beaten(arms, best), tasks_without_result(arms, best)) == (["x"], ["y"])
    best = Answer(None, {"x": "a", "y": "b"}, {"x": "h", "y": "h"})
    assert not tasks_beaten(arms, best) and not tasks_without_result(arms, best)


def test_a_study_always_says_what_it_rests_on() -> None:
    study = MemoryStudy(tasks=2, representations=2, predictors=1, delta=0.1, seed=1)
    rng = random.Random(1)
    for _ in range(5):
        study.tell(study.ask().trial, rng.random() < 0.5)
    assert document_of(study)["assumed"] == [SHARED]
    assert SHARED in page_of(study)


def test_a_verdict_within_the_tolerance_names_both_risks() -> None:
    study = MemoryStudy(tasks=2, representations=2, predictors=2, delta=0.05, epsilon=0.5, seed=1)
    rng, means = random.Random(1), np.array([0.6, 0.5])
    while study.running:
        asked = study.ask()
        study.tell(asked.trial, rng.random() < means[study.arm(asked)[1]])
    text = said(study)
    assert "In each task the chance that something is better than this by more than 0.5" in text
    assert "is at most 10 %. For all 2 tasks at once it is at most 20 %." in text


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("epsilon", [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (0.1, 0.1), (0.1, 0.2)])
def test_every_statement_says_its_tolerance(several: bool, epsilon: tuple[float, float]) -> None:
    chosen = ChosenAnswer("g1", {"x1": "h1", "x2": "h2"}, several, epsilon)
    claims = claims_of(chosen, 0.01, {"x1": 0.02, "x2": 0.03})
    assert any("is the best in every task" in each.statement for each in claims) == (epsilon[0] == 0)
    if epsilon[0] > 0:
        assert [each.risk for each in claims] == ([0.04, 0.06] if several else [0.01, 0.01])
        assert all("0.1" in each.statement for each in claims)
    elif several:
        assert [each.risk for each in claims] == [0.01, 0.02, 0.03]
        assert ("0.1" in claims[1].statement) == (epsilon[1] > 0)
    told = guarantee(chosen, WITHIN, (0.01, 0.03), "{:g}".format)
    assert guarantee(chosen, "decided", (0.01, 0.03), "{:g}".format).startswith(
        "The chance that g1 is the wrong choice is at most 0.01."
    )
    if epsilon[0] > 0:
        assert f"at most {0.08 if several else 0.02:g}." in told, "the sum over tasks"


def test_one_representation_is_not_claimed_to_be_the_best() -> None:
    chosen = ChosenAnswer("g1", {"x1": "h1"}, True, (0.0, 0.0))
    assert [each.risk for each in claims_of(chosen, 0.0, {"x1": 0.02})] == [0.02]
    assert guarantee(chosen, "decided", (0.0, 0.02), "{:g}".format).startswith(
        "The chance that what goes with it is wrong is at most 0.02"
    )


@pytest.mark.parametrize("shape", [(2, 2, 2), (2, 2, 1), (1, 1, 2)])
def test_a_policy_that_shares_nothing_is_right_in_each_task_by_itself(shape: tuple[int, int, int]) -> None:
    """It said one risk of the representation in every task, which each task takes anew."""
    risk = min(each for each, arms in zip((0.1, 0.2), shape[1:], strict=True) if arms > 1)
    told = guarantee_of("tas", "decided", None, shape, (0.1, 0.2), "{:g}".format)
    assert f"chance that the answer is wrong is at most {risk:g}." in told
    assert ("For all 2 tasks at once it is at most 0.2." in told) == (shape[0] > 1)


def test_after_an_alarm_that_makes_a_verdict_void_no_risk_is_claimed() -> None:
    study = MemoryStudy(tasks=1, representations=2, predictors=1, delta=0.1, seed=1)
    while study.running:
        asked = study.ask()
        study.tell(asked.trial, study.arm(asked)[1] == 0)
    status = read_status(study.progress)
    assert "is at most 10 %" in " ".join(headline(status, None, None).more)
    void = status._replace(alarm=MissingnessAlarm(20.0, (), True))
    assert "at most" not in " ".join(headline(void, None, None).more)
    printed = Console(width=200, record=True, file=io.StringIO())
    printed.print(StudyReport("", "s", void))
    text = printed.export_text()
    assert "at most" not in text and "could be claimed" not in text


def test_a_guess_is_compared_with_the_arms_that_are_left(tmp_path: Path) -> None:
    names: dict[str, Any] = {"tasks": ["x"], "representations": ["a", "b", "c"], "predictors": ["p"]}
    with Study.create(tmp_path / "s.db", **names, delta=0.001, seed=1) as study:
        for _ in range(40):
            trial = study.ask()
            study.tell(trial, trial.representation == "a")
        study.withdraw(representation="a", reason="rash")
        for _ in range(12):
            trial = study.ask()
            study.tell(trial, trial.representation == "b")
        status = study.status
    assert {arm.representation for arm in status.arms} == {"a", "b", "c"}
    assert {arm.representation for arm in status.arms_left} == {"b", "c"}
    assert status.looks_best and "So far b looks best" in " ".join(headline(status, None, None).more)

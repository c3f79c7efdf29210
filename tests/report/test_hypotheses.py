"""What the table of hypotheses says, and small things around it that a reader stumbles over."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import osrl
from osrl.hypotheses.summary import Claim, Hypothesis
from osrl.report.claims import ChosenAnswer, describe_claim
from osrl.report.plan import PlanReport
from osrl.report.study_tables import HypothesesView
from osrl.simulation.plan import plan
from tests.support.instances import refused
from tests.support.studies import new_study


def printed(*hypotheses: Hypothesis) -> list[list[str]]:
    """The rows of the table, as cells."""
    console = Console(file=io.StringIO(), width=200)
    console.print(HypothesesView(hypotheses, None))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return [[cell for cell in line.strip().split("  ") if cell.strip()] for line in lines if "░" in line or "█" in line]


def test_the_way_to_the_limit_comes_first_and_the_winner_is_named() -> None:
    rows = printed(
        Hypothesis(None, "a", None, -math.inf, 3.0, False),
        Hypothesis(None, "b", None, 1.5, 3.0, True),
        Hypothesis(None, "c", None, 7.0, 3.0, True),
    )
    assert [(row[0].strip(), row[1].strip(), row[3].strip()) for row in rows] == [
        ("a", "0 %", "the only one left"),
        ("b", "100 %", "ruled out"),
        ("c", "100 %", "ruled out"),
    ]
    assert rows[0][4].strip() == "-", "nothing speaks against it yet"


def test_what_is_not_ruled_out_is_never_at_its_limit() -> None:
    rows = printed(
        Hypothesis("x", "a", "p", 2.9999, 3.0, False),
        Hypothesis("x", "a", "q", 1.5, 3.0, False),
        Hypothesis("y", "a", "p", 1.0, 3.0, False),
        Hypothesis("y", "a", "q", 3.0, 3.0, True),
    )
    assert [row[2].strip() for row in rows] == ["99 %", "50 %", "33 %", "100 %"]
    assert [row[4].strip() for row in rows] == ["possible", "possible", "the only one left", "ruled out"]


def test_a_risk_is_rounded_up_but_for_noise() -> None:
    chosen = ChosenAnswer("a", {"x": "p", "y": "q"}, True, (0.0, 0.0))
    shown = describe_claim(Claim(0.0500000001, {"x": 0.0501, "y": 1.0}), chosen)
    assert "that a is the best in every task (risk 0.05)" in shown
    assert "that if so, p is the best that goes with it in x (risk 0.051)" in shown
    assert "goes with it in y (risk 1)" in shown


@pytest.mark.parametrize("family", ["bernoulli", "bounded"])
def test_the_plan_compares_averages_with_averages(family: str) -> None:
    instance = getattr(osrl.Instance, family)([[[0.9, 0.1], [0.2, 0.1]]])
    found = plan(instance, "uniform", delta=0.1, runs=20, budget=10_000)
    sentence = PlanReport(found).sentence()
    assert f"On average it needs {found.policies[0].mean:,.0f}." in sentence
    assert ("With rewards 0 or 1 of these means no policy" in sentence) == (family == "bounded")


@pytest.mark.parametrize("task", [["young"], {"young": 1}, 0, b"young"])
def test_a_task_that_is_no_name_is_refused(tmp_path: Path, task: Any) -> None:
    with new_study(str(tmp_path / "s.db"), policy="uniform") as study, refused("; give its name"):
        study.ask(task=task)


def test_what_a_study_was_created_with_cannot_be_set(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "s.db"), budget=3) as study:
        for name in ("budget", "delta_g", "verdict", "seed"):
            with pytest.raises(AttributeError):
                setattr(study, name, 5)

"""The best guess of a study from which something was withdrawn, or to which something was added."""

from __future__ import annotations

import random
from typing import Any

import pytest

from osrl.cli import main
from osrl.study.study import Study
from tests.support.studies import assert_sound, new_study

SHOP: dict[str, Any] = {
    "tasks": ["AT", "DE"],
    "representations": ["grid", "list", "story"],
    "predictors": ["p", "q"],
    "policy": "osrl",
    "delta": 1e-9,
}
BEST = {"AT": ("story", "q"), "DE": ("story", "q")}


def play(study: Study, trials: int) -> None:
    """In every task ``story`` with ``q`` is the best by far."""
    rng = random.Random(study.status.told)
    for _ in range(trials):
        trial = study.ask()
        mean = 0.3 + 0.4 * (trial.representation == "story") * (trial.predictor == "q")
        study.tell(trial, rng.random() < mean)


def guess(study: Study) -> dict[str, tuple[str | None, str | None]]:
    """The best guess of each task."""
    best = study.best
    return {task: (best.representations[task], best.predictors[task]) for task in best.predictors}


@pytest.mark.parametrize("policy", ["osrl", "osrl-sc"])
def test_the_guess_survives_a_withdrawal(policy: str, place: str) -> None:
    """By all results of the arms that are left; a few unlucky ones do not turn it over."""
    with new_study(place, **{**SHOP, "policy": policy}) as study:
        play(study, 400)
        assert guess(study) == BEST
        study.withdraw(representation="grid", reason="too slow")
        assert guess(study) == BEST
        for trial in study.ask(n=3):
            study.tell(trial, (trial.representation, trial.predictor) != ("story", "q"))
        assert guess(study) == BEST
        study.close("the season is over")
        assert guess(study) == BEST and study.verdict == "closed"
        assert_sound(study)


def test_at_the_end_of_the_budget_too(path: str) -> None:
    with new_study(path, **SHOP, budget=203) as study:
        play(study, 200)
        study.withdraw(predictor="p", reason="too dear")
        play(study, 3)
        assert study.verdict == "budget exhausted" and guess(study) == BEST
        assert_sound(study)


def test_what_has_no_result_is_not_guessed(path: str) -> None:
    with new_study(path, **SHOP) as study:
        study.withdraw(representation="list", reason="before anything is known")
        assert guess(study) == {"AT": ("grid", "p"), "DE": ("grid", "p")}
        play(study, 200)
        study.add(representation="film", reason="a new idea")
        study.add(predictor="r", reason="another")
        assert guess(study) == BEST


def test_what_is_ruled_out_in_the_stage_is_not_guessed(path: str) -> None:
    """Though it looked best before: a stage of its own decides."""
    with new_study(path, **{**SHOP, "delta": 0.3}) as study:
        rng = random.Random(1)
        for trial in study.ask(n=300):
            study.tell(trial, rng.random() < 0.2 + 0.1 * (trial.representation == "grid"))
        study.withdraw(representation="list", reason="x")
        assert study.best.representation == "grid"
        for _ in range(400):
            trial = study.ask()
            study.tell(trial, trial.representation == "story")
            tests = study.look()[0].hypotheses
            if any(each.rejected for each in tests if (each.representation, each.predictor) == ("grid", None)):
                break
        assert study.best.representation == "story"


def test_a_study_that_was_begun_before_guesses_as_it_did(path: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("osrl.study.settings.REVISION", 0)
    with new_study(path, **SHOP) as study:
        play(study, 200)
        study.withdraw(representation="list", reason="too slow")
        assert guess(study) == {"AT": ("grid", "p"), "DE": ("grid", "p")}
        study.close("the season is over")
        assert_sound(study)


# The command line asks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["withdraw", "add"])
def test_the_command_line_asks_before_evidence_begins_again(
    command: str, path: str, capsys: Any, monkeypatch: Any
) -> None:
    with new_study(path, **SHOP) as study:
        play(study, 12)
        late = study.ask(n=2)
    name = "grid" if command == "withdraw" else "film"
    words = ["study", command, path, "--representation", name, "--reason", "x"]
    asked: list[str] = []

    def confirm(text: str, abort: bool) -> bool:
        asked.append(text)
        return True

    monkeypatch.setattr("typer.confirm", confirm)
    assert main(words) == 0  # nobody is there to be asked
    assert not asked and "the 12 results so far are no evidence from now on" in " ".join(
        capsys.readouterr().out.split()
    )
    with Study.open(path) as study:
        for trial in late:
            study.tell(trial, 1)
        play(study, 5)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    words[3:5] = ["--predictor", "p" if command == "withdraw" else "r"]
    assert main([*words, "--yes"]) == 0 and not asked
    with Study.open(path) as study:
        play(study, 7)
    words[3:5] = ["--task", "AT" if command == "withdraw" else "CH"]
    assert main(words) == 0
    assert asked == ["evidence begins again: the 7 results of this stage are no evidence from then on; go on?"]

"""`Study`: ask and tell, on every backend; what is refused, and that nothing changes then."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from osrl.errors import OsrlError, UnknownTrial
from osrl.evidence.betting import new_bets
from osrl.study.study import Study
from tests.support.instances import refused
from tests.support.studies import NAMES, new_study, play


def log_of(study: Study) -> list[Any]:
    return list(study.events())


@pytest.fixture
def study(place: str) -> Iterator[Study]:
    with new_study(place) as found:
        yield found


# Asking and telling -------------------------------------------------------------------------------


def test_a_study_goes_from_its_first_trial_to_a_verdict(study: Study) -> None:
    assert study.verdict == "running"
    play(study, 1000)
    assert study.verdict == "decided"
    assert study.best.representation == "A"
    assert study.best.predictors == {"young": "low", "old": "low"}
    assert study.pending == ()
    assert study.verify().ok


def test_another_object_on_the_same_database_sees_everything(study: Study, place: str) -> None:
    with Study.open(place) as other:
        trial = study.ask()
        assert other.pending == (trial.id,)
        other.tell(trial.id, 1)
        assert study.pending == ()
        assert study.ask().id == 2
        assert other.ask().id == 3
        assert study.settings == other.settings
        assert study.history.equals(other.history)


def test_trials_are_numbered_from_one_and_named(study: Study) -> None:
    trials = study.ask(n=5)
    assert [trial.id for trial in trials] == [1, 2, 3, 4, 5]
    assert {trial.task for trial in trials} <= set(NAMES["tasks"])
    assert study.trials == 5 and study.pending == (1, 2, 3, 4, 5)


def test_rewards_may_come_in_any_order(study: Study) -> None:
    trials = study.ask(n=6)
    for trial in reversed(trials):
        study.tell(trial, 1)
    assert study.pending == ()
    assert study.history["reward"].to_list() == [1.0] * 6
    assert study.verify().ok


def test_the_history_has_one_row_for_each_trial(study: Study) -> None:
    first, second, third = study.ask(n=3)
    study.tell(first, True)
    study.abandon(second, ignorable=True)
    frame = study.history
    assert frame["trial"].to_list() == [1, 2, 3]
    assert frame["reward"].to_list() == [1.0, None, None]
    assert frame["status"].to_list() == ["told", "abandoned, ignorable", "pending"]
    assert frame["task"].to_list() == [trial.task for trial in (first, second, third)]
    assert frame["propensity"].to_list() == [1.0] * 3
    assert frame["asked_at"].null_count() == 0 and frame["ended_at"].null_count() == 1
    assert frame.schema["asked_at"] == pl.Datetime("us", "UTC")


def test_a_budget_ends_the_study_with_a_best_guess(place: str) -> None:
    with new_study(place, budget=12) as study:
        trials = study.ask(n=12)
        with refused("all 12 trials of the budget are handed out"):
            study.ask()
        for trial in trials[1:]:
            study.tell(trial, 1)
        assert study.verdict == "running"
        study.abandon(trials[0], ignorable=True)
        assert study.verdict == "budget exhausted"
        assert study.best.representation in NAMES["representations"]
        assert study.verify().ok


def test_a_best_guess_comes_with_the_risk_at_which_it_could_be_claimed(place: str) -> None:
    """A study with that risk as its own would have been decided by the same rewards."""
    with new_study(place, policy="uniform", budget=240, delta=1e-9) as study:
        play(study, 240)
        status = study.status
        assert status.verdict == "budget exhausted" and status.claim is not None
        claim = status.claim
        frame = study.evidence
        rivals = [row for row in frame.rows() if row[2] is None and row[1] != status.best.representation]
        assert claim.representation == pytest.approx(math.exp(-min(row[3] for row in rivals)))
        history = study.history.select("task", "representation", "predictor", "reward").rows()
        assert 1e-9 < max(claim.representation, *claim.predictors.values()) < 1
        laxer = {"delta": None, "delta_g": claim.representation * 1.001}
        laxer["delta_h"] = max(claim.predictors.values()) * 1.001
    with new_study(place, policy="uniform", budget=240, name="laxer", **laxer) as other:
        for task, representation, predictor, reward in history:
            trial = other.ask()
            assert (trial.task, trial.representation, trial.predictor) == (task, representation, predictor)
            other.tell(trial, reward)
            if other.verdict != "running":
                break
        assert other.verdict == "decided" and other.best == status.best


def test_tasks_that_pull_apart_are_named(place: str) -> None:
    best = {"young": "A", "old": "B"}
    with new_study(place, policy="uniform") as study:
        while study.verdict == "running":
            trial = study.ask()
            study.tell(trial, trial.representation == best[trial.task])
        assert study.verdict == "no shared representation"
        assert study.best.representation is None and study.best.representations == best
        against = {each.representation: each.task for each in study.status.objections}
        assert against == {"A": "old", "B": "young"}
        assert study.status.claim is None
        assert study.verify().ok


def test_after_a_verdict_late_rewards_are_stored_and_change_nothing(study: Study) -> None:
    late = study.ask(n=3)
    play(study, 1000)
    assert study.verdict == "decided"
    best = study.best
    study.tell(late[0], 0)
    study.abandon(late[1], ignorable=True)
    assert (study.verdict, study.best) == ("decided", best)
    assert study.history["reward"][0] == 0.0
    assert study.pending == (late[2].id,)
    assert study.verify().ok


def test_a_database_holds_several_studies(place: str) -> None:
    with new_study(place) as one, new_study(place, name="second", seed=8) as two:
        one.ask(n=2)
        two.ask()
        assert Study.list(place) == ("study", "second")
        with refused("has several studies; name one of 'study', 'second'"):
            Study.open(place)
        with Study.open(place, "second") as opened:
            assert opened.trials == 1
        Study.delete(place, "study")
        assert Study.list(place) == ("second",)
        with refused("the study was deleted"):
            one.ask()
        with new_study(place) as again:
            assert again.trials == 0
            with refused("the study was deleted"):
                one.tell(1, 1)
        assert two.trials == 1


def test_defaults_are_written_out_and_there_is_no_seed(place: str) -> None:
    with Study.create(place, tasks=1, representations=2, predictors=3, policy="osrl-sc") as study:
        settings = study.settings
    assert list(settings.predictors) == ["h1", "h2", "h3"]
    assert (settings.delta_g, settings.delta_h) == (0.1, 0.1)
    assert settings.seed is None
    assert settings.options == {"sigma": 1e5, "period": None, "reuse": False}
    assert settings.threshold == "theorem"
    assert set(settings.versions) == {"osrl", "numpy", "numba", "kernels", "platform", "arithmetic"}


def test_every_constant_of_the_evidence_is_in_the_log(tmp_path: Path, monkeypatch: Any) -> None:
    """A later version that bets otherwise goes on with the bets of the study, or refuses."""
    path = str(tmp_path / "study.db")
    with new_study(path, policy="uniform") as study:
        play(study, 10)
        kept = study.settings.evidence
        before = study.evidence
        assert kept["limits"] == pytest.approx([math.log(5)] * 2)
        assert {f"bets.{name}" for name in ("beta", "task", "shared", "local", "shrinkage", "safe")} <= set(kept)
        assert {"apart", "clear", "patience", "far"} <= set(kept)

    def later(**changes: Any) -> None:
        monkeypatch.setattr("osrl.policies.stopping.bets.new_bets", lambda *options: new_bets()._replace(**changes))

    bets = new_bets()
    later(grid=np.stack([bets.beta, bets.task, bets.shared, bets.local[::-1]]))
    with Study.open(path) as study:
        assert study.evidence.equals(before) and study.verify().ok
    later(safe=0.5)
    begun = f"was begun by osrl {version('osrl')} with bets.safe = 0.98"
    with refused(f"{begun}; this one has 0.5; go on with that version"):
        Study.open(path).ask()
    later(grid=bets.grid[:, :-1].copy())
    with refused(f"with {bets.beta.size} numbers bets.beta; this one has {bets.beta.size - 1}"):
        Study.open(path).ask()


def test_names_of_any_kind_come_back_as_they_were(place: str) -> None:
    tasks = ["age < 40", "Größe, “groß”", "x'); DROP TABLE osrl_events; --"]
    with new_study(place, tasks=tasks, name="naïve 'study' %s :x") as study:
        trial = study.ask()
        study.tell(trial, 1)
        assert trial.task in tasks
        with Study.open(place, study.name) as other:
            assert list(other.settings.tasks) == tasks
            assert other.history["task"].to_list() == [trial.task]


# Misuse -------------------------------------------------------------------------------------------


def unchanged(study: Study, message: str, act: Callable[[], object]) -> None:
    """``act`` is refused with this message, and nothing has changed; the study goes on."""
    before = log_of(study)
    with refused(message):
        act()
    assert log_of(study) == before


def test_a_second_tell_with_the_same_value_counts_once(study: Study) -> None:
    trial = study.ask()
    study.tell(trial, 1)
    before = log_of(study)
    study.tell(trial, 1.0)
    study.tell(trial.id, np.True_)
    assert log_of(study) == before


def test_a_second_tell_with_another_value_is_refused(study: Study) -> None:
    trial = study.ask()
    study.tell(trial, 1)
    unchanged(study, "trial 1 was told 1, now 0", lambda: study.tell(trial, 0))


@pytest.mark.parametrize("trial", [0, 2, -1, 10**12])
def test_an_unknown_trial_is_refused(study: Study, trial: int) -> None:
    study.ask()
    unchanged(study, f"the study has no trial {trial}; it has handed out 1", lambda: study.tell(trial, 1))
    unchanged(study, f"the study has no trial {trial}", lambda: study.abandon(trial))


def test_a_trial_of_another_study_is_refused(place: str) -> None:
    """Its number exists here as well, with another arm perhaps; only who handed it out can tell."""
    with new_study(place) as study, new_study(place, name="other") as other:
        mine, foreign = study.ask(), other.ask()
        assert replace(mine, token="") == replace(foreign, token="") and mine.token != foreign.token
        for trial in (foreign, foreign.token):
            unchanged(study, "trial 1 was handed out by another study", lambda: study.tell(trial, 1))  # noqa: B023
            unchanged(study, "trial 1 was handed out by another study", lambda: study.abandon(trial))  # noqa: B023
        study.tell(mine, 1)
        with pytest.raises(UnknownTrial):
            study.tell(foreign, 1)
        other.tell(foreign.token, 1)
        assert study.pending == other.pending == ()


@pytest.mark.parametrize("trial", ["1", 1.5, True, None])
def test_what_is_no_trial_is_refused(study: Study, trial: Any) -> None:
    study.ask()
    unchanged(study, "give a trial that was handed out", lambda: study.tell(trial, 1))


@pytest.mark.parametrize("reward", [0.5, -1, 2, math.nan, math.inf, "1", None, [1]])
def test_a_reward_outside_the_family_is_refused(study: Study, reward: Any) -> None:
    trial = study.ask()
    unchanged(study, "give 0 or 1, as the bernoulli family has", lambda: study.tell(trial, reward))
    study.tell(trial, 1)


@pytest.mark.parametrize(
    ("family", "good", "bad"),
    [
        ({"family": "bounded"}, [0, 0.25, 1], [-0.1, 1.1, math.nan]),
        ({"family": "gaussian", "noise_sd": 2.0}, [-3.5, 0, 1e9], [math.nan, math.inf, -math.inf]),
    ],
)
def test_rewards_of_other_families(tmp_path: Path, family: Any, good: list[float], bad: list[float]) -> None:
    with new_study(str(tmp_path / "study.db"), **family) as study:
        for reward in good:
            study.tell(study.ask(), reward)
        trial = study.ask()
        for reward in bad:
            unchanged(study, "the reward is", lambda reward=reward: study.tell(trial, reward))  # type: ignore[misc]
        assert study.history["reward"].to_list()[:3] == good


def test_abandoned_trials(place: str) -> None:
    with new_study(place, policy="uniform") as study:
        one, two, three = study.ask(n=3)
        study.abandon(one)
        study.abandon(two, ignorable=True)
        study.abandon(one.id)
        assert study.history["status"].to_list() == ["abandoned", "abandoned, ignorable", "pending"]
        unchanged(study, "trial 1 was abandoned", lambda: study.tell(one, 1))
        unchanged(study, "was abandoned with ignorable=True", lambda: study.abandon(two))
        study.tell(three, 1)
        unchanged(study, "trial 3 was told 1; it can no longer be abandoned", lambda: study.abandon(three))


def test_a_policy_that_cannot_bear_a_loss_says_so(study: Study) -> None:
    trial = study.ask()
    unchanged(study, "policy 'tas' has no guarantee when trials with", lambda: study.abandon(trial))
    study.abandon(trial, ignorable=True)


def test_asking_after_a_verdict_is_refused(study: Study) -> None:
    play(study, 1000)
    unchanged(study, "the study has ended (decided)", study.ask)


def test_unknown_names_are_refused(study: Study, place: str) -> None:
    unchanged(study, "the study has no task 'ancient'; use one of 'young', 'old'", lambda: study.ask("ancient"))
    unchanged(study, "policy 'tas' chooses the tasks itself", lambda: study.ask("old"))
    with refused("has no study 'other'; it has 'study'"):
        Study.open(place, "other")
    with refused("has no study 'other'"):
        Study.delete(place, "other")


def test_a_name_that_exists_is_refused(study: Study, place: str) -> None:
    unchanged(study, "has a study 'study' already; open it, or give another name", lambda: new_study(place))


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2"])
def test_a_number_of_trials_that_makes_no_sense_is_refused(study: Study, n: Any) -> None:
    unchanged(study, "give the number of trials to hand out", lambda: study.ask(n=n))


def test_a_batch_has_a_limit(study: Study) -> None:
    """Others wait while trials are handed out, and all of them are in memory."""
    unchanged(study, "a call hands out at most 1,000 trials; ask again", lambda: study.ask(n=10**9))
    assert len(study.ask(n=1000)) == 1000


def test_more_trials_than_the_budget_allows_are_refused(place: str) -> None:
    with new_study(place, budget=5) as study:
        study.ask(n=3)
        unchanged(study, "2 of the 5 trials of the budget are left", lambda: study.ask(n=3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": []}, "tasks is empty; give at least one name"),
        ({"tasks": "ab"}, "give a list of names"),
        ({"tasks": ["a", "a"]}, "tasks repeats 'a'"),
        ({"representations": 0}, "representations is 0"),
        ({"family": "poisson"}, "unknown family 'poisson'"),
        ({"noise_sd": 1.0}, "noise_sd belongs to the gaussian family"),
        ({"policy": "magic"}, "unknown policy 'magic'"),
        ({"threshold": "lax"}, "has no threshold 'lax'"),
        ({"delta": 0}, "delta_g is 0"),
        ({"delta": None, "delta_h": "5 %"}, "delta_h is '5 %'"),
        ({"delta_g": 0.1}, "delta sets both risks"),
        ({"seed": -1}, "seed is -1"),
        ({"budget": 0}, "budget is 0"),
        ({"options": {"growht": 1}}, "has no option 'growht'; it has growth"),
        ({"options": {"growth": "much"}}, "option growth is 'much'; give a number"),
        ({"name": ""}, "the name of a study is ''"),
    ],
)
def test_a_study_that_cannot_be_run_is_refused(tmp_path: Path, changes: Any, message: str) -> None:
    with refused(message):
        new_study(str(tmp_path / "study.db"), **changes)
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_an_osrl_error(study: Study) -> None:
    with pytest.raises(OsrlError):
        study.tell(99, 1)

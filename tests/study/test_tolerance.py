"""A tolerance in studies, analyses and commands: stored, replayed, shown, and in every document."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from osrl.analysis.trials import read_table
from osrl.analysis.verdict import judge
from osrl.errors import OsrlError, RewardRefused, StorageDamaged
from osrl.hypotheses.tolerance import pair_evidence
from osrl.model.instance import Instance
from osrl.simulation.api import simulate
from osrl.study.log.chain import read_event
from osrl.study.log.events import Created
from osrl.study.operations.corrections import check_same_decisions
from osrl.study.state.state import StudyState
from osrl.study.study import Study
from tests.support.commands import Capture, printed, refusal
from tests.support.instances import Array
from tests.support.memory_study import MemoryStudy, evidence_with_pending
from tests.support.studies import NAMES, assert_sound, late_and_lost, new_study

WITHIN = "decided within the tolerance"
TIE = {"A": {"low": 0.8, "high": 0.8}, "B": {"low": 0.2, "high": 0.1}}
TIED = Instance.bernoulli([[[0.8, 0.8], [0.2, 0.1]], [[0.3, 0.8], [0.2, 0.1]]])


def tied_study(place: str, **changes: Any) -> Study:
    return new_study(place, **{"policy": "osrl", "epsilon": 0.3, **changes})


def play_tie(study: Study, seed: int = 0) -> None:
    rng = random.Random(seed)
    while study.verdict == "running":
        trial = study.ask()
        study.tell(trial, rng.random() < TIE[trial.representation][trial.predictor])


def test_a_study_with_a_tie_ends_and_says_what_is_as_good(tmp_path: Path, capsys: Capture) -> None:
    place = str(tmp_path / "tie.db")
    with tied_study(place) as study:
        play_tie(study)
        status = study.status
        assert status.verdict == WITHIN
        assert (status.settings.epsilon_g, status.settings.epsilon_h) == (0.3, 0.3)
        assert status.best.representation == "A"
        for task, answer in status.best.predictors.items():
            other = "high" if answer == "low" else "low"
            assert (task, "A", other) in status.as_good
        assert status.claim is not None
        assert max(status.claim.representation, *status.claim.predictors.values()) <= 0.2
        assert_sound(study)
        study.write_log(tmp_path / "log.jsonl")
    shown = " ".join(printed(capsys, "study", "status", place).split())
    assert WITHIN in shown and "tolerance 0.3" in shown and "As good, within the tolerance: (A, " in shown
    document = json.loads(printed(capsys, "study", "status", place, "--json"))
    assert document["verdict"] == WITHIN and document["epsilon_g"] == document["epsilon_h"] == 0.3
    assert {"task", "representation", "predictor"} == set(document["as_good"][0])
    with Study.read_log(str(tmp_path / "copy.db"), tmp_path / "log.jsonl") as copy:
        assert copy.status.as_good == status.as_good and copy.verify().ok


def test_late_lost_and_given_trials_are_replayed(tmp_path: Path) -> None:
    with tied_study(str(tmp_path / "late.db")) as study:
        late_and_lost(study, 900, means=TIE)
        assert study.status.told > 100
        assert_sound(study)


def test_what_is_pending_counts_by_its_worst() -> None:
    """Whatever order rewards come in, a comparison never has more evidence than when all are known."""
    study = MemoryStudy(**NAMES, delta=1e-6, epsilon=0.3, seed=3)
    hypotheses = study.progress.hypotheses
    assert hypotheses is not None
    tolerance = hypotheses.tolerance

    def evidence() -> Array:
        return np.array([[pair_evidence(tolerance, 0, b, c) for c in range(4)] for b in range(4)])

    pending, reported = evidence_with_pending(study, TIE, evidence)
    assert (pending <= reported + 1e-12).all() and (pending < reported - 0.1).any()


def test_logs_from_before_have_no_tolerance(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "plain.db"), policy="osrl") as study:
        first = next(iter(study.events()))
    assert "epsilon" not in first.payload and "tolerance" not in first.payload
    again = read_event(0, first.at, "create", first.payload).body
    assert isinstance(again, Created) and (again.epsilon_g, again.epsilon_h) == (0.0, 0.0)


def test_a_log_with_another_limit_or_a_wrong_tolerance_is_refused(tmp_path: Path) -> None:
    with tied_study(str(tmp_path / "tie.db")) as study:
        first = next(iter(study.events()))
    body = first.body
    assert isinstance(body, Created)
    StudyState(body)
    with pytest.raises(StorageDamaged, match="limits"):
        StudyState(replace(body, evidence={**body.evidence, "tolerance.limits": [0.1, 0.1]}))
    with pytest.raises(StorageDamaged, match="sum to"):
        weights = [-0.1] * len(body.evidence["tolerance.local"])
        StudyState(replace(body, evidence={**body.evidence, "tolerance.local": weights}))
    wrong = json.loads(first.payload) | {"epsilon_g": -0.5}
    with pytest.raises(StorageDamaged, match="cannot be read"):
        read_event(0, first.at, "create", json.dumps(wrong))


def test_policies_without_a_tolerance_refuse_it(tmp_path: Path) -> None:
    with pytest.raises(OsrlError, match="'tas' .* has no tolerance"):
        new_study(str(tmp_path / "tas.db"), policy="tas", epsilon=0.1)
    with pytest.raises(OsrlError, match="'tas' .* has no tolerance"):
        simulate(TIED, "tas", runs=1, epsilon=0.1)


def test_simulate_counts_answers_that_are_too_bad(capsys: Capture, tmp_path: Path) -> None:
    found = simulate(TIED, ["osrl", "uniform"], runs=20, epsilon=0.3, out=tmp_path / "runs")
    frame = found.frame
    assert set(frame["verdict"]) == {WITHIN}
    good = frame["as_good"].explode().struct.unnest()
    assert {"x1"} <= set(good["task"]) and set(good["representation"]) == {"g1"}
    assert frame["shortfall"].explode().to_numpy().max() <= 0.3
    summary = found.summary().row(0, named=True)
    assert (summary["error_eps"], summary["within_tolerance"]) == (0.0, 20)
    with pytest.raises(OsrlError, match="with another tolerance"):
        simulate(TIED, ["osrl", "uniform"], runs=20, epsilon_h=0.3, out=tmp_path / "runs")
    file = tmp_path / "tied.toml"
    TIED.save(file)
    arguments = ("simulate", file, "--runs", 20, "--epsilon-g", 0.3, "--epsilon-h", 0.3)
    result = json.loads(printed(capsys, *arguments, "--json"))["results"][0]
    assert (result["error_eps"], result["within_tolerance"]) == (0.0, 20)
    assert "tolerance 0.3" in " ".join(printed(capsys, *arguments).split())
    assert "epsilon_g is -1" in refusal(capsys, "simulate", file, "--epsilon", -1)
    plain = json.loads(printed(capsys, "simulate", "paper", "--runs", 1, "--budget", 50, "--json"))
    assert plain["results"][0]["error_eps"] is None and plain["results"][0]["within_tolerance"] == 0


def test_plan_and_bound_with_a_tolerance(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "tied.toml"
    TIED.save(file)
    planned = json.loads(printed(capsys, "plan", file, "--policy", "all", "--epsilon", 0.3, "--runs", 20, "--json"))
    assert planned["bound"] is None and planned["epsilon_h"] == 0.3
    assert {each["policy"] for each in planned["policies"]} == {"osrl", "uniform"}
    shown = printed(capsys, "plan", file, "--epsilon", 0.3, "--runs", 20)
    assert "tolerance 0.3" in " ".join(shown.split())
    bound = json.loads(printed(capsys, "bound", "paper", "--epsilon", 0.02, "--json"))["K_epsilon"]
    assert bound["known"] and bound["lower"] < 1122.4 < bound["upper"]
    several = json.loads(printed(capsys, "bound", "paper", "--epsilon", 0.05, "--json"))["K_epsilon"]
    assert not several["known"] and several["lower"] is None
    assert "several good answers" in " ".join(printed(capsys, "bound", "paper", "--epsilon", 0.05).split())


def test_analyse_with_a_tolerance(capsys: Capture, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arms = [(g, h) for g in "AB" for h in ("low", "high")]
    rows = []
    for _ in range(3000):
        g, h = arms[int(rng.integers(4))]
        rows.append({"task": "x", "representation": g, "predictor": h, "reward": int(rng.random() < TIE[g][h])})
    file = tmp_path / "log.csv"
    even = [pl.lit(0.25).alias(f"propensity[{g},{h}]") for g, h in arms]
    pl.DataFrame(rows).with_columns(even).write_csv(file)
    table = read_table(file)
    assert judge(table, delta_g=0.1, delta_h=0.1).verdict == "undecided"
    found = judge(table, delta_g=0.1, delta_h=0.1, epsilon=(0.2, 0.2))
    assert found.verdict == WITHIN and len(found.as_good) >= 1
    document = json.loads(printed(capsys, "analyse", file, "--epsilon", 0.2, "--json"))
    assert document["verdict"] == WITHIN and document["as_good"] and document["epsilon_g"] == 0.2
    shown = printed(capsys, "analyse", file, "--epsilon", 0.2)
    assert "As good, within the tolerance" in " ".join(shown.split())


def test_fewer_trials_are_expected_with_a_tolerance(tmp_path: Path) -> None:
    """Fewer trials are expected with a tolerance: arms may be out by the shorter way."""
    remaining = []
    for epsilon in (0.0, 0.3):
        with tied_study(str(tmp_path / f"{epsilon}.db"), epsilon=epsilon) as study:
            rng = random.Random(0)
            for _ in range(60):
                trial = study.ask()
                study.tell(trial, rng.random() < TIE[trial.representation][trial.predictor])
            assert study.verdict == "running" and not study.status.as_good
            assert study.status.expected_remaining is not None
            remaining.append(study.status.expected_remaining)
    assert remaining[1] < 0.8 * remaining[0], remaining


def test_a_reward_by_which_arms_were_compared_is_not_corrected() -> None:
    """What the tolerance has ruled out is a decision like any other."""
    one, other = (StudyState(MemoryStudy(**NAMES, epsilon=0.3, seed=1).progress.created) for _ in range(2))
    check_same_decisions(1, one, other)
    assert one.hypotheses is not None
    one.hypotheses.tolerance.within[0, 1, 0] = True
    with pytest.raises(RewardRefused, match="ruled out by it"):
        check_same_decisions(1, one, other)

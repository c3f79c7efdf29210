"""The model check: a study that decides has evidence in every task, whether or not tasks share anything."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import osrl
from osrl.client.remote import RemoteStudy
from osrl.errors import OsrlError, RewardRefused, StorageDamaged
from osrl.hypotheses.tolerance import pair_evidence
from osrl.model.instance import Instance
from osrl.page.view import page_view
from osrl.study.log.chain import read_event
from osrl.study.log.events import Created
from osrl.study.operations.corrections import check_same_decisions
from osrl.study.state.state import StudyState
from osrl.study.study import Study
from tests.support.commands import Capture, printed, refusal
from tests.support.instances import Array
from tests.support.memory_study import MemoryStudy, evidence_with_pending
from tests.support.pages import snapshot_of
from tests.support.servers import Serving
from tests.support.studies import MEANS, NAMES, assert_sound, late_and_lost, new_study, play
from tests.validation.attacks_model import DISAGREEMENTS, RISK, disagreements

pytestmark = pytest.mark.slow

RUNS = 100
ALLOWED = int(binom.isf(1e-6, RUNS, RISK))
TIE = {"A": {"low": 0.8, "high": 0.8}, "B": {"low": 0.2, "high": 0.1}}


def checked_study(place: str, **changes: Any) -> Study:
    return new_study(place, **{"policy": "osrl", "model_check": 0.2, **changes})


@pytest.mark.parametrize("case", DISAGREEMENTS)
def test_no_answer_is_beaten_by_the_margin_in_a_task_more_often_than_the_risk(case: str) -> None:
    """Without the check, 72 and 43 of 100 were in the first two."""
    found = disagreements(case, RUNS, margin=0.05, check=0.05)
    assert found.wrong <= ALLOWED
    assert found.decided <= ALLOWED  # every answer is beaten by 0.05 or more somewhere


def test_without_a_check_weak_disagreements_are_not_noticed() -> None:
    """What the check is for; and that the test above can fail."""
    for case in ("one of two tasks, by 0.05", "one of two tasks, by 0.1", "one of six tasks, by 0.1"):
        assert disagreements(case, RUNS, margin=0.05, check=0.0).wrong > ALLOWED


def test_a_smaller_risk_makes_wrong_answers_rarer() -> None:
    found = disagreements("one of two tasks, by 0.1", 300, margin=0.1, check=0.1, risk=0.01)
    assert found.wrong <= binom.isf(1e-6, 300, 0.01)


@pytest.mark.parametrize("policy", ["osrl", pytest.param("uniform", marks=pytest.mark.validate)])
def test_where_tasks_share_a_representation_it_is_found_and_false_alarms_stay_below_the_risk(
    policy: str,
) -> None:
    means = [[[0.6, 0.45], [0.5, 0.45]], [[0.45, 0.6], [0.45, 0.5]]]
    options = {"model_check": 0.1}
    found = osrl.simulate(Instance.bernoulli(means), policy, 0.2, 300, options=options).frame
    wrong = 300 - (found["correct_g"] & (found["verdict"] == "decided")).sum()
    assert wrong <= binom.isf(1e-6, 300, 0.2)


@pytest.mark.validate
def test_gaussian_tasks_that_disagree() -> None:
    instance = Instance.gaussian([[[1.0], [0.5]], [[0.5], [0.9]]], noise_sd=0.5)
    frames = [osrl.simulate(instance, "osrl", 0.1, 60, options={"model_check": check}).frame for check in (0.0, 0.4)]
    decided = [int((frame["verdict"] == "decided").sum()) for frame in frames]
    assert decided[1] <= binom.isf(1e-6, 60, 0.1) and decided[1] <= decided[0]


def test_the_limit_is_shared_by_the_answers_that_could_be_given() -> None:
    hypotheses = MemoryStudy(**NAMES, delta_g=0.05, delta_h=0.2, seed=1, model_check=0.1).progress.hypotheses
    assert hypotheses is not None and hypotheses.check is not None
    assert hypotheses.check.limits == pytest.approx([np.log(3 / 0.05)] * 2)
    assert hypotheses.limits == pytest.approx([np.log(1 / 0.05), np.log(1 / 0.2)])  # as without a check


def test_what_a_true_null_earns_is_at_most_its_stake() -> None:
    """The expected factor of the bets on every pair whose difference is the margin, after any past."""
    rng = np.random.default_rng(4)
    study = MemoryStudy(**NAMES, delta=1e-9, seed=3, model_check=0.2)
    progress = study.progress
    means = np.array([0.3, 0.5, 0.5, 0.3])  # b, one of the two in the middle, beats c by 0.2
    for step in range(120):
        asked = study.ask()
        if step % 10 == 9:
            _expect_no_gain(progress, progress.index_of(0, asked.task), means)
        arm = study.arm(asked)
        study.tell(asked.trial, float(rng.random() < means[arm[1] * 2 + arm[2]]))


def _expect_no_gain(progress: StudyState, x: int, means: Any) -> None:
    hypotheses = progress.hypotheses
    assert hypotheses is not None and hypotheses.check is not None
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    size = progress.steps.ticket_size
    beta = hypotheses.check.bets.beta
    expected = np.zeros((4, 4, beta.size))
    for a in range(4):
        ticket = np.zeros(size)
        progress.steps.write_ticket(progress.policy_state, x, a, weights, ticket)
        terms = ticket.reshape(-1, 4)[-8:]
        for i in range(8):
            b, c = (a, i) if i < 4 else (i - 4, a)
            xi, level, optimal, most = terms[i]
            bets = np.minimum(np.where(beta < 0, optimal, beta), most) if xi else np.zeros(beta.size)
            expected[b, c] += weights[a] * bets * xi * (means[a] - level) * (b != c)
    true = means[:, np.newaxis] - means[np.newaxis] >= 0.2 - 1e-12
    assert true.sum() == 4 and (expected[true] <= 1e-12).all()
    assert expected.any()


def test_a_study_says_where_the_check_lacks_evidence(tmp_path: Path, capsys: Capture) -> None:
    place = str(tmp_path / "checked.db")
    with checked_study(place) as study:
        play(study, 30)
        status = study.status
        assert status.unchecked == ("young", "old") and status.settings.model_check == 0.2
        assert status.claim is not None and status.claim.representation > 0.5  # it could not end here
        document = json.loads(printed(capsys, "study", "status", place, "--json"))
        assert document["model_check"] == 0.2 and document["unchecked"] == ["young", "old"]
        shown = " ".join(printed(capsys, "study", "status", place).split())
        said = "lacks evidence in young, old that no arm there beats the best guess by 0.2 or more"
        assert said in shown
        assert said in " ".join(page_view("s", snapshot_of(place, study.name))["sentence"].more)
        play(study)
        status = study.status
        assert status.verdict == "decided" and status.unchecked == ()
        assert status.claim is not None and status.claim.representation <= 0.2 + 1e-9
        assert_sound(study)
        said = "the study decides for an answer which some arm there beats by 0.2 or more is at most 0.2"
        assert said in " ".join(page_view("s", snapshot_of(place, study.name))["sentence"].more)
        study.write_log(tmp_path / "log.jsonl")
    assert said in " ".join(printed(capsys, "study", "status", place).split())
    with Study.read_log(str(tmp_path / "copy.db"), tmp_path / "log.jsonl") as copy:
        assert copy.status.unchecked == () and copy.verify().ok


def test_a_study_is_created_from_the_command_line_and_over_http(tmp_path: Path, capsys: Capture) -> None:
    place = str(tmp_path / "cli.db")
    sizes = ["--tasks", "young,old", "--representations", "A,B", "--predictors", "low,high"]
    printed(capsys, "study", "create", place, *sizes, "--model-check", "0.1")
    assert json.loads(printed(capsys, "study", "status", place, "--json"))["model_check"] == 0.1
    server = Serving(str(tmp_path / "http.db"))
    try:
        with RemoteStudy.create(server.url, server.token(), **NAMES, name="s", model_check=0.1) as study:
            play(study, 3)  # type: ignore[arg-type]
            assert study.settings.model_check == 0.1 and study.status.unchecked == ("young", "old")
    finally:
        server.stop()
    with checked_study(str(tmp_path / "wide.db"), family="bounded", low=0, high=250, model_check=10) as wide:
        assert wide.settings.model_check == 10 and wide.settings.margin == 0.04


def test_a_task_that_lacks_the_check_is_not_settled() -> None:
    """Tasks arrive: a settled one plays its answer, but not before the check has what it needs."""
    rng = random.Random(5)
    study = MemoryStudy(**NAMES, delta=0.2, seed=5, model_check=0.1)
    drawn = set()
    for trial in range(4000):
        if not study.running:
            break
        asked = study.ask(NAMES["tasks"][trial % 2])
        study.tell(asked.trial, float(rng.random() < MEANS[asked.representation][asked.predictor]))
        hypotheses = study.progress.hypotheses
        if hypotheses is not None and hypotheses.possible_g.sum() == 1:
            drawn.add(asked.representation)
    assert study.progress.status == "decided" and drawn == {"A", "B"}


def test_late_lost_and_given_trials_are_replayed(tmp_path: Path) -> None:
    with checked_study(str(tmp_path / "late.db"), epsilon=0.3) as study:
        late_and_lost(study, 900, means=TIE)
        assert study.status.told > 100
        assert_sound(study)


def test_what_is_pending_counts_by_its_worst() -> None:
    study = MemoryStudy(**NAMES, delta=1e-6, model_check=0.3, seed=3)
    hypotheses = study.progress.hypotheses
    assert hypotheses is not None and hypotheses.check is not None
    check = hypotheses.check

    def evidence() -> Array:
        return np.array([[pair_evidence(check, 0, b, c) for c in range(4)] for b in range(4)])

    pending, reported = evidence_with_pending(study, TIE, evidence)
    assert (pending <= reported + 1e-9).all() and (pending < reported - 0.1).any()


def test_after_a_withdrawal_the_check_begins_again(tmp_path: Path) -> None:
    names = {**NAMES, "representations": ["A", "B", "C"]}
    means = {**MEANS, "C": {"low": 0.2, "high": 0.2}}
    with checked_study(str(tmp_path / "stages.db"), **names, delta=0.05) as study:
        play(study, 120, means=means)
        study.withdraw(representation="C", reason="a rash")
        assert study.settings.model_check == 0.2
        assert study.status.unchecked == ("young", "old")
        play(study, means=means, seed=1)
        assert study.verdict == "decided" and not study.status.unchecked
        assert_sound(study)


def test_studies_from_before_have_no_check(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "plain.db"), policy="osrl") as study:
        first = next(iter(study.events()))
        assert study.settings.model_check is None and study.status.unchecked == ()
    assert "check." not in first.payload
    payload = json.loads(first.payload)
    del payload["options"]["model_check"]
    again = read_event(0, first.at, "create", json.dumps(payload)).body
    assert isinstance(again, Created) and again.model_check is None
    hypotheses = StudyState(again).hypotheses
    assert hypotheses is not None and hypotheses.check is None


def test_a_log_with_another_limit_is_refused(tmp_path: Path) -> None:
    with checked_study(str(tmp_path / "checked.db")) as study:
        body = next(iter(study.events())).body
    assert isinstance(body, Created)
    StudyState(body)
    with pytest.raises(StorageDamaged, match="limits"):
        StudyState(replace(body, evidence={**body.evidence, "check.limits": [0.1, 0.1]}))
    with pytest.raises(StorageDamaged, match="sum to"):
        weights = [-0.1] * len(body.evidence["check.local"])
        StudyState(replace(body, evidence={**body.evidence, "check.local": weights}))


def test_a_reward_by_which_the_check_was_passed_is_not_corrected() -> None:
    one, other = (StudyState(MemoryStudy(**NAMES, model_check=0.3, seed=1).progress.created) for _ in range(2))
    check_same_decisions(1, one, other)
    assert one.hypotheses is not None and one.hypotheses.check is not None
    one.hypotheses.check.within[0, 1, 0] = True
    with pytest.raises(RewardRefused, match="ruled out by it"):
        check_same_decisions(1, one, other)


@pytest.mark.parametrize("margin", [-0.1, float("nan"), float("inf"), True, "0.1", 1.0])
def test_margins_that_make_no_sense_are_refused(tmp_path: Path, margin: Any) -> None:
    with pytest.raises(OsrlError, match=r"model_check|margin of the model check"):
        checked_study(str(tmp_path / "wrong.db"), model_check=margin)


def test_policies_without_a_check_refuse_it(tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(OsrlError, match="'tas' has no model check"):
        checked_study(str(tmp_path / "tas.db"), policy="tas")
    sizes = ["--tasks", "young,old", "--representations", "A,B", "--predictors", "low,high"]
    said = refusal(capsys, "study", "create", str(tmp_path / "x.db"), *sizes, "--model-check", "-1")
    assert "model_check is -1" in said
    with pytest.raises(OsrlError, match="compares all pairs"):
        MemoryStudy(tasks=20, representations=22, predictors=22, model_check=0.1, seed=1)

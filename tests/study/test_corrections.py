"""A reward that was told wrong: corrected while nothing was decided by it, and refused afterwards."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from osrl.cli import main
from osrl.errors import OsrlError, RewardRefused
from osrl.policies.state_arrays import differences
from osrl.study.log.events import Amended, Corrected, SnapshotTaken, Told, Verdict
from osrl.study.state.trial import Trial
from osrl.study.study import Study
from osrl.study.views.verify import verify
from tests.support.instances import refused
from tests.support.studies import assert_sound, chained, folded, new_study, play


def waiting(study: Study) -> tuple[Trial, ...]:
    """Some trials that are out, after a few that were told."""
    play(study, 30)
    return study.ask(n=4)


def test_a_corrected_log_is_that_in_which_the_trial_reports_late_with_the_right_value(
    place: str, tmp_path: Path
) -> None:
    """For everybody: who has corrected, who had read the old value, who opens it later, who imports it."""
    with new_study(place, policy="osrl", delta=1e-4) as study, Study.open(place) as reader:
        one, two, three, _ = waiting(study)
        study.write_log(tmp_path / "before.jsonl")
        study.tell(one, 1)
        study.tell(two, 0)
        study.tell(three, 1)
        assert reader.status.told == 33
        study.correct(one, 0, reason="the wrong box was ticked", by="Ada")
        with Study.read_log(str(tmp_path / "late.db"), tmp_path / "before.jsonl") as late:
            for trial, reward in ((two, 0), (three, 1), (one, 0)):
                late.tell(trial.id, reward)
            expected = dict(folded(late).arrays())
        for each in (study, reader, Study.open(place)):
            with each._session.reading() as progress:
                assert differences(dict(progress.arrays()), expected) == []
                assert (progress.told, len(progress.pending)) == (33, 1)
        last = [event.body for event in study.events() if isinstance(event.body, Corrected)]
        assert last == [Corrected(one.id, 1.0, 0.0, "the wrong box was ticked", None, "Ada")]
        assert study.history.filter(trial=one.id)["reward"].to_list() == [0.0]
        assert study.history["status"].to_list().count("told") == 33 and len(study.history) == 34
        study.write_log(tmp_path / "log.jsonl")
        with Study.read_log(str(tmp_path / "again.db"), tmp_path / "log.jsonl") as again:
            assert again.head == study.head and again.history.equals(study.history)
        study.correct(one, 0, reason="said twice, counts once")
        study.tell(one, 0)
        with refused("was told 0, now 1; a reward cannot be changed"):
            study.tell(one, 1)
        with refused(f"trial {one.id} was corrected from 1 to 0; a reward is corrected once"):
            study.correct(one, 1, reason="or was it right?")
        study.correct(two, 1, reason="this one too")
        play(reader, 20)
        for each in (study, reader):
            assert_sound(each)


@pytest.mark.parametrize(
    ("since", "why"),
    [
        (lambda study, other: study.ask(), "trial 35 was handed out since, which may depend on it"),
        (lambda study, other: study.abandon(other), "trial 32 was abandoned since"),
    ],
)
def test_a_correction_is_refused_after_a_decision(path: str, since: Any, why: str) -> None:
    with new_study(path, policy="osrl", delta=1e-4) as study:
        one, two, *_ = waiting(study)
        study.tell(one, 1)
        since(study, two)
        before = list(study.events())
        with pytest.raises(RewardRefused, match=f"trial 31 can no longer be corrected: {why}"):
            study.correct(one, 0, reason="too late")
        assert list(study.events()) == before
        assert_sound(study)


def test_a_reward_that_has_ruled_something_out_is_not_corrected(path: str) -> None:
    """Found by playing on until a tell rules something out."""
    with new_study(path, policy="uniform", delta=0.05) as study:
        seen = False
        for _ in range(400):
            trial = study.ask()
            possible = folded(study).hypotheses.possible_h.copy()  # type: ignore[union-attr]
            reward = trial.predictor == "low"
            study.tell(trial, reward)
            if study.verdict == "running" and (possible != folded(study).hypotheses.possible_h).any():  # type: ignore[union-attr]
                seen = True
                break
        assert seen
        with refused("can no longer be corrected: a hypothesis was ruled out by it"):
            study.correct(trial, not reward, reason="too late")


@pytest.mark.parametrize("policy", ["uniform", "osrl"])
def test_a_correction_may_end_the_study_as_a_late_report_may(policy: str, path: str, tmp_path: Path) -> None:
    """The verdict is that of the log in which the trial has reported only then, and it is final."""

    def verdicts(study: Study, trial: Trial) -> list[Verdict | None]:
        with study._session.reading() as progress:
            return [copy.deepcopy(progress).apply_reward(trial.id, reward) for reward in (0.0, 1.0)]

    with new_study(path, policy=policy, delta=0.2) as study, Study.open(path) as reader:
        last = study.ask()
        while sum(verdict is None for verdict in verdicts(study, last)) != 1:  # one value ends it
            study.tell(last, (last.representation, last.predictor) == ("A", "low"))
            last = study.ask()
        ends = 0 if verdicts(study, last)[0] is not None else 1
        expected = verdicts(study, last)[ends]
        study.write_log(tmp_path / "before.jsonl")
        study.tell(last, 1 - ends)
        assert reader.verdict == study.verdict == "running"
        study.correct(last, ends, reason="the wrong box was ticked")
        with Study.read_log(tmp_path / "late.db", tmp_path / "before.jsonl") as late:
            late.tell(last.id, ends)
            arrays, best = dict(folded(late).arrays()), late.best
        for each in (study, reader, Study.open(path)):
            assert each.verdict == "decided" and each.best == best
            with each._session.reading() as progress:
                assert differences(dict(progress.arrays()), arrays) == []
        events = list(study.events())
        body: Any = events[-2].body
        assert isinstance(events[-1].body, SnapshotTaken) and isinstance(body, Corrected) and body.verdict == expected
        assert_sound(study)
        with refused("the study has ended"):
            study.ask()
        with refused("corrected once"):
            study.correct(last, 1 - ends, reason="or was it?")
        with refused("can no longer be corrected: the study has ended (decided)"):
            study.correct(1, 1 - study.history["reward"][0], reason="too late")
        study.write_log(tmp_path / "log.jsonl")
        with Study.read_log(tmp_path / "again.db", tmp_path / "log.jsonl") as again:
            assert again.verdict == "decided" and again.head == study.head
    silent = events[-2]._replace(body=replace(body, verdict=None))
    assert "the verdict is None, by replay" in " ".join(verify(chained(*events[:-2], silent)).problems)


def test_what_is_no_correction_is_refused(path: str) -> None:
    with new_study(path, policy="uniform", delta=0.2, budget=9) as study:
        one, two = study.ask(n=2)
        study.tell(one, 1)
        study.abandon(two)
        for trial in (two, study.ask()):
            with refused("has not told a reward; there is nothing to correct"):
                study.correct(trial, 1, reason="?")
        with refused("there is no reason"):
            study.correct(one, 0, reason=" ")
        with pytest.raises(RewardRefused):
            study.correct(one, 7, reason="a typo")
        with pytest.raises(OsrlError, match="no trial 99"):
            study.correct(99, 1, reason="?")
        study.tell(3, 1)
        play(study, 20)
        assert study.verdict == "budget exhausted"
        with refused("the study has ended"):
            study.correct(one, 0, reason="too late")
    with new_study(path + "2") as study:
        study.tell(trial := study.ask(), 1)
        with refused("policy 'tas' does not say what it has ruled out"):
            study.correct(trial, 0, reason="a typo")


def test_a_forged_correction_does_not_verify(path: str) -> None:
    with new_study(path, policy="uniform", delta=1e-4) as study:
        one, two, *_ = waiting(study)
        study.tell(one, 1)
        study.tell(two, 1)
        study.correct(one, 0, reason="a typo")
        study.ask()
        events = list(study.events())
    assert verify(events).ok
    i = next(i for i, event in enumerate(events) if isinstance(event.body, Corrected))
    body: Any = events[i].body
    for change, complaint in (
        ({"old": 0.5}, "the old reward is 0.5, which was not told"),
        ({"reward": 7.0}, "which the family does not have"),
        ({"trial": 3}, "trial 3 is not pending"),  # it was told long ago
    ):
        forged = [
            *events[:i],
            events[i]._replace(body=Corrected(**{**vars(body), **change})),
            *events[i + 1 :],
        ]
        assert complaint in " ".join(verify(chained(*forged)).problems)
    swapped = [*events[:i], *events[i + 1 :], events[i]]  # after a trial was handed out
    late = chained(*(event._replace(seq=seq) for seq, event in enumerate(swapped)))
    assert "is not pending" in " ".join(verify(late).problems)
    assert sum(isinstance(event.body, Told) for event in events) == 32


def test_a_correction_from_the_shell(path: str, capsys: Any) -> None:
    with new_study(path, policy="uniform", delta=1e-4) as study:
        study.tell(study.ask(), 1)
    assert main(["study", "correct", path, "1", "0", "--reason", "a typo", "--by", "Ada", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    with Study.open(path) as study:
        assert said == {"trial": 1, "reward": 0.0, "verdict": "running", "head": study.head}
    assert main(["study", "ask", path]) == 0
    assert main(["study", "correct", path, "1", "1", "--reason", "no", "--json"]) == 2
    assert "corrected once" in capsys.readouterr().err
    assert main(["study", "correct", path, "1", "1"]) == 2


# After it was used --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["osrl", "tas"])
def test_a_reward_that_was_used_is_amended_and_the_evidence_stays(policy: str, place: str, tmp_path: Path) -> None:
    """The log has the right value, for everybody; what was computed from the wrong one goes on with it."""
    with new_study(place, policy=policy, delta=1e-4) as study, Study.open(place) as reader:
        one, two, _, lost = waiting(study)
        study.tell(one, 1)
        study.abandon(lost, ignorable=True)
        study.ask()
        with refused("the right value can only be noted (`osrl study amend`)"):
            study.correct(one, 0, reason="the wrong box")
        arrays = dict(folded(study).arrays())
        before, arms, events = study.history, study.arms, len(list(study.events()))
        study.amend(one, 0, reason="the wrong box", by="Ada")
        study.amend(one.id, 0, reason="said twice, counts once")
        with refused("was amended from 1 to 0; a reward is amended once"):
            study.amend(one, 1, reason="or not")
        for trial in (two, lost):
            with refused(f"trial {trial.id} has not told a reward; there is nothing to amend"):
                study.amend(trial, 1, reason="r")
        with refused("there is no reason"):
            study.amend(one, 0, reason=" ")
        study.write_log(tmp_path / "log.jsonl")
        with Study.read_log(str(tmp_path / "again.db"), tmp_path / "log.jsonl") as again:
            for each in (study, reader, again):
                assert differences(dict(folded(each).arrays()), arrays) == []
                assert each.history.equals(before) and each.arms.equals(arms)
                record = each.trial(one.id)
                assert (record.status, record.reward, record.amended) == ("told", 1.0, 0.0)
                assert each.records(one.id, one.id) == [record] and each.trial(two.id).amended is None
        bodies = [event.body for event in study.events()][events:]
        assert bodies == [Amended(one.id, 1.0, 0.0, "the wrong box", "Ada")]
        study.tell(two, 1)
        assert study.verify().ok and len(study.ask(n=3)) == 3


def test_amending_on_the_command_line(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with new_study(path) as study:
        study.tell(study.ask(), 1)
        study.close("enough")  # also afterwards
    assert main(["study", "amend", path, "1", "0", "--reason", "the wrong box"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "evidence, means and verdict go on with 1, which was used; verdict: closed" in said
    assert main(["study", "amend", path, "1", "0", "--reason", "again", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["used"] == 1.0
    assert main(["study", "report", path, "--out", f"{path}.html"]) == 0
    assert "the evidence goes on with 1, which was used" in Path(f"{path}.html").read_text(encoding="utf-8")

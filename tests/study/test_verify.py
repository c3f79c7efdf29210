"""Replay: the log alone gives the same state, and a study is the simulation, one step at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from osrl.model.environment import draw_reward, new_environment
from osrl.model.instance import Instance
from osrl.model.rng import START_LANE, new_key, uniform
from osrl.policies.contract import Criterion, Problem
from osrl.policies.registry import find
from osrl.policies.state_arrays import contents, differences
from osrl.policies.steps import stream
from osrl.simulation.run import episode
from osrl.study.backup import backup
from osrl.study.log.chain import read_event
from osrl.study.log.events import Asked, Created, Designed, Event, Told, VersionsChanged
from osrl.study.log.versions import versions
from osrl.study.operations import session
from osrl.study.state import bulk_replay, snapshot
from osrl.study.state.bulk_replay import apply_all
from osrl.study.state.constants import CONTEST_RISK, set_constants
from osrl.study.state.policy_state import new_policy_state
from osrl.study.state.snapshot import facts
from osrl.study.state.state import StudyState
from osrl.study.study import Study
from osrl.study.views.verify import verify
from tests.support.instances import refused
from tests.support.processes import run_python
from tests.support.studies import assert_sound, chained, new_study, play

EASY = Instance.bernoulli([[[0.9, 0.3], [0.2, 0.1]], [[0.2, 0.8], [0.1, 0.3]]])


# The stepped study and the compiled simulation ----------------------------------------------------


def rewards(study: Study, seed: int) -> Iterator[None]:
    """Play the study with the rewards of the simulation's first run."""
    environment, H = new_environment(EASY, new_key(seed, 0)), EASY.shape[2]
    while study.verdict == "running":
        trial = study.ask()
        progress = study._session.refresh()
        x = progress.index_of(0, trial.task)
        a = progress.index_of(1, trial.representation) * H + progress.index_of(2, trial.predictor)
        value = draw_reward(environment, stream(progress.policy_state), x, a)
        study.tell(trial, value)
        yield


@pytest.mark.parametrize(
    ("policy", "budget"),
    [
        ("tas", None),
        ("tas", 20),
        ("osrl-sc", 120),
        ("tas-transfer", 60),
        ("uniform", 60),
        ("osrl", None),
        ("osrl", 30),
    ],
)
def test_a_study_is_the_simulation_one_step_at_a_time(path: str, policy: str, budget: int | None) -> None:
    seed, delta = 5, 0.3
    with Study.create(path, tasks=2, representations=2, predictors=2, policy=policy, seed=seed, delta=delta,
                      budget=budget) as study:  # fmt: skip
        rounds = sum(1 for _ in rewards(study, seed))
        stepped = contents(study._session.refresh().policy_state)
        key = new_key(seed, 0)
        rule = find(policy)
        problem = Problem(EASY.shape, EASY.family, (Criterion(rule.thresholds[0], delta, delta),))
        state = rule.new(problem, uniform(key, START_LANE, 0))
        assert episode(state, EASY, key, 10**6 if budget is None else budget) == rounds
        assert differences(contents(state), stepped) == []
        assert study.verdict == ("decided" if budget is None else "budget exhausted")
        assert_sound(study)


# Verification -------------------------------------------------------------------------------------


def played(path: str, policy: str = "osrl", trials: int = 25) -> list[Event]:
    with new_study(path, policy=policy, delta=0.05) as study:
        play(study, trials)
        return list(study.events())


def changed(events: list[Event], kind: type, change: Any) -> list[Event]:
    """The log with its last event of a kind before a design changed, and the chain computed anew.

    Replay alone can tell, and a reward matters at the next design at the latest.
    """
    events = list(events)
    last = max(i for i, event in enumerate(events) if isinstance(event.body, Designed))
    i = max(i for i, event in enumerate(events[:last]) if isinstance(event.body, kind))
    values = vars(events[i].body) | change(events[i].body)
    events[i] = events[i]._replace(body=kind(**values))
    return chained(*events)


@pytest.mark.parametrize(
    ("kind", "change", "complaint"),
    [
        (
            Asked,
            lambda asked: {"predictor": "low" if asked.predictor == "high" else "high"},
            "was handed out",
        ),
        (Asked, lambda asked: {"trial": asked.trial, "design": 1}, "of design 1, by replay"),
        (
            Asked,
            lambda asked: {"propensities": [p * (1 + 1e-12) for p in asked.propensities]},
            "propensities",
        ),
        (Told, lambda told: {"reward": 1.0 - told.reward}, "the state before new weights is not the one"),
        (Created, lambda created: {"seed": created.seed + 1}, "was handed out"),
    ],
)
def test_a_log_that_was_changed_is_noticed(path: str, kind: type, change: Any, complaint: str) -> None:
    events = played(path, trials=60)
    assert verify(events).ok
    found = verify(changed(events, kind, change))
    assert not found.ok
    assert complaint in " ".join(found.problems)


def test_replay_never_solves(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events = played(path)
    assert any(isinstance(event.body, Designed) for event in events)

    def solve(state: object) -> None:
        raise AssertionError("replay has called the solver")

    policy = find("osrl")
    monkeypatch.setitem(policy.__dict__, "design", solve)
    assert verify(events).ok


@pytest.mark.parametrize("policy", ["tas", "tas-transfer"])
def test_an_older_log_of_track_and_stop_goes_on_with_the_risk_that_it_had(path: str, policy: str) -> None:
    """It looked at delta_g alone; a study that begins now keeps the smaller of both risks."""
    with new_study(path, policy=policy, delta=None, delta_g=0.3, delta_h=0.01) as study:
        created = study._session.refresh().created
        now = study._session.refresh().policy_state.stopping.threshold[0, 0]
    assert created.evidence == {CONTEST_RISK: "smaller"}
    before = replace(created, evidence={})
    then = set_constants(new_policy_state(before), before).stopping.threshold[0, 0]
    assert now - then == pytest.approx(math.log(0.3 / 0.01))


def test_a_gap_in_the_log_is_noticed(path: str) -> None:
    events = played(path, "tas")
    found = verify(events[:5] + events[6:])
    assert not found.ok and found.events == 5 and "event 5 is missing from the log" in found.problems[0]
    with refused("does not begin with the creation"):
        verify(events[1:])


def test_other_versions_are_noted_and_compared_to_a_tolerance(path: str, monkeypatch: Any) -> None:
    """A program with other kernels takes part: the log says so, and replay allows for rounding from there."""
    with new_study(path, policy="osrl", delta=0.05) as study:
        play(study, 10)
    other = {**versions(), "kernels": "0123456789abcdef"}
    with monkeypatch.context() as patch:
        for module in (session, snapshot):
            patch.setattr(module, "versions", lambda: other)
        with Study.open(path) as study:
            play(study, 10)
    with Study.open(path) as study:
        play(study, 15)
        events = list(study.events())
        assert [event.body.versions for event in events if isinstance(event.body, VersionsChanged)] == [other]
        found = study.verify()
        assert found.ok and not found.exact
    i = next(i for i, event in enumerate(events) if isinstance(event.body, VersionsChanged))
    for where, factor, good in ((range(i), 1 + 1e-12, False), (range(i, len(events)), 1 + 1e-12, True),
                                (range(i, len(events)), 1 + 1e-6, False)):  # fmt: skip
        k = max(k for k in where if isinstance(events[k].body, Asked))
        asked: Any = events[k].body
        moved = vars(asked) | {"propensities": [p * factor for p in asked.propensities]}
        other_events = [*events[:k], events[k]._replace(body=Asked(**moved)), *events[k + 1 :]]
        assert verify(chained(*other_events)).ok is good


# Another C library: exp and log are rounded up at one point in eight.
OTHER_LIBRARY = """
import math, sys
def up(function):
    def rounded(value):
        found = function(value)
        return math.nextafter(found, math.inf) if hash(value) % 8 == 0 else found
    return rounded
math.exp, math.log, math.log1p = up(math.exp), up(math.log), up(math.log1p)
from tests.support.studies import new_study, play
with new_study(sys.argv[1], policy=sys.argv[2], delta=0.05) as study:
    play(study, 60)
"""


@pytest.mark.parametrize("policy", ["osrl", "tas"])
def test_a_log_from_where_exp_and_log_are_rounded_otherwise_is_sound(path: str, policy: str) -> None:
    interpreted = {**os.environ, "OSRL_COMPILE": "never"}
    run_python("-c", OTHER_LIBRARY, path, policy, env=interpreted)
    with Study.open(path) as study:
        found = study.verify()
        assert found.ok and not found.exact and found.trials > 20
        assert found.largest_difference < 1e-13
        play(study, 20)
        assert study.verify().ok
    backup(path, f"{path}.copy")
    with Study.open(f"{path}.copy") as study:
        assert study.verify().ok


def test_events_keep_every_digit_and_infinities() -> None:
    arrays = {"weights": [0.1 + 0.2, 1 / 3, 5e-324], "due": ["inf", "-inf", "nan"]}
    event = Event(3, 17, Designed(arrays, "0" * 16))
    assert read_event(3, 17, event.kind, event.payload) == event
    with refused("event 3 of kind 'sing' cannot be read"):
        read_event(3, 17, "sing", "{}")
    with refused("event 3 of kind 'tell' cannot be read"):
        read_event(3, 17, "tell", '{"tria')


def test_a_long_stretch_is_replayed_at_once_with_the_same_bits(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials that do not overlap, many at a time: state and verification are those of one by one."""
    with new_study(path, policy="osrl", delta=1e-6) as study:
        play(study, 40)
        late = study.ask(n=3)
        for trial in late:
            study.tell(trial, 1)
        play(study, 40, seed=1)
        events = list(study.events())
    one_by_one = StudyState(events[0].body)  # type: ignore[arg-type]
    one_by_one.last = events[0]
    for event in events[1:]:
        one_by_one.apply(event)
    taken = []
    run = bulk_replay.replay_block

    def counted(*arguments: Any, **options: Any) -> int:
        taken.append(run(*arguments, **options))
        return taken[-1]

    monkeypatch.setattr(bulk_replay, "MIN_BLOCK", 3)
    monkeypatch.setattr("osrl.study.state.bulk_replay.replay_block", counted)
    monkeypatch.setattr("osrl.study.views.verify.replay_block", counted)
    at_once = StudyState(events[0].body)  # type: ignore[arg-type]
    at_once.last = events[0]
    apply_all(at_once, events[1:])
    assert sum(taken) > 40
    assert differences(dict(at_once.arrays()), dict(one_by_one.arrays())) == []
    assert facts(at_once) == facts(one_by_one)
    taken.clear()
    assert verify(events).ok and sum(taken) > 40
    for kind, change in (
        (Asked, lambda asked: {"predictor": "low" if asked.predictor == "high" else "high"}),
        (Asked, lambda asked: {"propensities": [p * (1 + 1e-12) for p in asked.propensities]}),
        (Told, lambda told: {"reward": 1.0 - told.reward}),
    ):
        found = verify(changed(events, kind, change))
        monkeypatch.setattr(bulk_replay, "MIN_BLOCK", 10**6)
        assert found == verify(changed(events, kind, change))
        monkeypatch.setattr(bulk_replay, "MIN_BLOCK", 3)

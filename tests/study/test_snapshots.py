"""Snapshots: the state that the log gives, and ignored where they are old, damaged or forged."""

from __future__ import annotations

from typing import Any

import pytest

from osrl.policies.state_arrays import contents, differences
from osrl.study.log.events import Created, Event, SnapshotTaken, Verdict
from osrl.study.state.bulk_replay import apply_all
from osrl.study.state.snapshot import pack, unpack
from osrl.study.state.state import StudyState, initial_state
from osrl.study.storage.base import Snapshot
from osrl.study.study import Study
from tests.support.studies import assert_sound, folded, late_and_lost, new_study, play


def test_a_snapshot_gives_the_same_state_as_the_log(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 20)
    with new_study(place, policy="osrl", delta=0.01) as study:
        late_and_lost(study, 40)
        kept = study._storage.snapshot(study._session.number)
        assert kept is not None and kept.position > 20
        with Study.open(place) as other:
            assert (
                differences(contents(other._session.refresh().policy_state), contents(folded(study).policy_state)) == []
            )
            assert other.pending == study.pending
            waiting = other.pending
            other.tell(waiting[0], 1)
        assert_sound(study)


def test_who_had_much_to_replay_spares_the_next_process(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study that is used by one short process after the other is not replayed from far back in each."""
    with new_study(path, policy="uniform", delta=1e-9) as study:
        play(study, 20)
    monkeypatch.setattr("osrl.study.operations.session.LONG_REPLAY", 30)
    for expected in (1, 42, 42):  # where the replay begins: at first there is no snapshot
        with Study.open(path) as study:
            assert study._session._load().position == expected
            study.ask()
    with Study.open(path) as study:
        assert sum(isinstance(event.body, SnapshotTaken) for event in study.events()) == 1
        assert_sound(study)


def test_a_correction_replays_what_follows_the_snapshot(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 20)
    begun: list[Event] = []

    def noted(first: Event) -> StudyState:
        begun.append(first)
        return initial_state(first)

    monkeypatch.setattr("osrl.study.operations.session.initial_state", noted)
    with new_study(path, policy="uniform", delta=1e-9) as study:
        play(study, 12)
        trial = study.ask()
        study.tell(trial, 1)
        begun.clear()
        study.correct(trial, 0, reason="the wrong column")
        assert begun == []
        assert_sound(study)


def snapshot_of(path: str) -> tuple[StudyState, Snapshot, Created]:
    with new_study(path, policy="osrl", delta=0.01) as study:
        play(study, 5)
        study.ask(n=2)
        progress = study._session.refresh()
    return progress, pack(progress), progress.created


def test_a_snapshot_that_cannot_be_used_is_ignored(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    progress, snapshot, created = snapshot_of(path)
    good = unpack(snapshot, created)
    assert good is not None and good.position == progress.position
    assert good.pending.keys() == progress.pending.keys()
    for content in (
        b"",
        snapshot.content[:-100],
        snapshot.content[:2000] + b"?" * 50 + snapshot.content[2050:],
    ):
        assert unpack(Snapshot(snapshot.position, content), created) is None
    (position, part), *none = snapshot.parts
    for parts in ((), ((position, part[:-1]),), ((position, b""),), ((position + 1, part),)):
        assert not none and unpack(snapshot._replace(parts=parts), created) is None
    assert unpack(snapshot, Created(**{**vars(created), "tasks": ["a", "b", "c"]})) is None
    monkeypatch.setattr("osrl.study.state.snapshot.versions", lambda: {"osrl": "9"})
    assert unpack(snapshot, created) is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda progress: progress.policy_state.sampling.shares.__setitem__((0, 0, 0), 0.4), "shares differ"),
        (
            lambda progress: setattr(progress, "verdict", Verdict("decided", ["B", "B"], ["low", "low"])),
            "verdict is",
        ),
        (lambda progress: setattr(progress, "told", progress.told + 1), "told is"),
        (lambda progress: progress.pending.popitem(), "pending is"),
        (lambda progress: progress.in_order.order.clear(), "queues is"),
        (lambda progress: setattr(progress.in_order, "whole", not progress.in_order.whole), "whole is"),
        (lambda progress: progress.pending[26].ticket.__setitem__(0, 7.0), "tickets differ"),
    ],
)
def test_a_wrong_snapshot_is_not_used_and_found_by_verify(
    path: str, monkeypatch: pytest.MonkeyPatch, change: Any, complaint: str
) -> None:
    """Whoever puts another one in its place, with a verdict of his own perhaps, is not believed."""
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 20)
    with new_study(path, policy="osrl", delta=0.01) as study:
        play(study, 5)
        trials = study.ask(n=25)
        kept = study._session.snapshot()
        events = list(study.events())
        progress = StudyState(study.settings)
        progress.last = events[0]
        assert kept is not None
        apply_all(progress, events[1 : kept.position])
        assert pack(progress) == kept and progress.pending
        change(progress)
        with study._storage.lock_log(study._session.number) as log:
            log.keep(pack(progress))
        found = study.verify()
        said = " ".join(found.problems)
        assert not found.ok and "no event vouches for its content" in said and complaint in said
    with Study.open(path) as study:
        assert (study.verdict, len(study.pending)) == ("running", 25)
        study.tell(trials[0], 1)
        assert differences(contents(study._session.refresh().policy_state), contents(folded(study).policy_state)) == []

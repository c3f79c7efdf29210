"""Waiting: short, fair, and with an end; nothing slow happens while others wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from osrl.errors import StorageBusy
from osrl.policies.steps import wants_design
from osrl.study.log.events import Designed
from osrl.study.operations import session
from osrl.study.state.state import StudyState
from osrl.study.storage.sql import SqlStorage
from osrl.study.storage.sqlite import _queue_of, note_log
from osrl.study.storage.writer_queue import WriterQueue, queue_length
from osrl.study.study import Study
from osrl.study.views.verify import verify
from tests.support.instances import refused
from tests.support.processes import forked, run_python, wait_until
from tests.support.studies import assert_sound, chained, held, new_study, play


@contextmanager
def disturbed(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> Iterator[list[bool]]:
    """Call ``act`` each time that weights are solved for; it would be refused if the log were held meanwhile."""
    solve = StudyState.solve
    acted: list[bool] = []

    def interrupted(progress: StudyState) -> Any:
        if wants_design(progress.policy_state):
            act()
            acted.append(True)
        return solve(progress)

    with monkeypatch.context() as patch:
        patch.setattr(StudyState, "solve", interrupted)
        yield acted


def in_another_thread(act: Callable[[], object]) -> None:
    """Do something that a thread may not do in the middle of something else."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits for ever"


def late_designs(study: Study) -> list[Designed]:
    """Weights that were solved for a state before the last one."""
    bodies = (event.body for event in study.events())
    return [body for body in bodies if isinstance(body, Designed) and body.after is not None]


@pytest.mark.parametrize("policy", ["osrl", "tas", "osrl-sc"])
def test_nobody_waits_while_weights_are_solved_for(place: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One ask solves for long, and another process tells meanwhile: the weights are those of that state."""
    with new_study(place, policy=policy, delta=1e-6) as study, Study.open(place) as other:
        play(study, 30)
        waiting = list(other.ask(n=8))
        play(study, 1)
        with disturbed(monkeypatch, lambda: other.tell(waiting.pop(), 1)) as acted:
            while len(acted) < 2:
                trial = study.ask()
                study.tell(trial, trial.predictor == "low")
        late = late_designs(study)
        assert len(late) == 2 and all(name.startswith("sampling.") for each in late for name in each.arrays)
        play(study, 5)
        assert_sound(study)
        with Study.open(place) as again:
            assert again.head == study.head and again.verify().ok


def test_weights_that_depend_on_a_reward_that_was_wrong_are_not_used(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is corrected while they are solved for: they are solved for again."""
    with new_study(path, policy="osrl", delta=1e-6) as study, Study.open(path) as other:
        play(study, 10)
        trials = study.ask(n=9)
        due: list[int] = []
        for trial in trials:
            study.tell(trial, 1)
            with study._session.reading() as progress:
                if wants_design(progress.policy_state):
                    due.append(trial.id)
                    break
        corrected: list[bool] = []

        def correct() -> None:
            if not corrected:
                corrected.append(True)
                other.correct(due[0], 0, reason="a typo")

        with disturbed(monkeypatch, correct):
            study.ask()
        assert corrected and late_designs(study) == []
        assert_sound(study)


def test_a_forged_state_of_weights_does_not_verify(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_study(path, policy="osrl", delta=1e-6) as study, Study.open(path) as other:
        play(study, 10)
        waiting = list(other.ask(n=4))
        with disturbed(monkeypatch, lambda: other.tell(waiting.pop(), 1)) as acted:
            while not acted:
                study.tell(study.ask(), 0)
        events = list(study.events())
    assert verify(events).ok
    i = next(i for i, e in enumerate(events) if isinstance(e.body, Designed) and e.body.after is not None)
    body: Any = events[i].body
    for change, complaint in (
        ({"after": 3}, "new weights as of event 3, though it was not time"),
        ({"before": "0" * 16}, "is not the one of the log"),
        ({"arrays": {**body.arrays, "stopping.evidence": []}}, "change stopping.evidence"),
    ):
        forged = events[i]._replace(body=Designed(**{**vars(body), **change}))
        found = verify(chained(*events[:i], forged, *events[i + 1 :]))
        assert complaint in " ".join(found.problems)


def test_an_ask_in_peace_uses_what_was_solved_for_outside(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_study(path, policy="osrl", delta=1e-6) as study:
        held: list[bool] = []

        def watched(progress: StudyState) -> Designed | None:
            designed = solve(progress)
            if designed is not None:
                held.append(bool(study._session._write_lock._is_owned()))  # type: ignore[attr-defined]
            return designed

        solve = StudyState.solve
        monkeypatch.setattr(StudyState, "solve", watched)
        play(study, 20)
        assert held and not any(held)
        assert study.verify().notes == ()


def test_a_reader_does_not_wait_for_a_writer_of_its_own_process(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread waits until another process lets go of the log; another thread looks at the same object."""
    with new_study(place, policy="uniform") as study, Study.open(place) as other:
        play(study, 3)
        assert study.status.told == 3  # whatever is compiled for it
        waits, hold = threading.Event(), SqlStorage.lock_log

        def noted(storage: SqlStorage, *given: Any) -> Any:
            waits.set()
            return hold(storage, *given)

        with other._storage.lock_log(other._session.number):
            monkeypatch.setattr(SqlStorage, "lock_log", noted)
            thread = threading.Thread(target=lambda: study.tell(study.ask(), 1))
            thread.start()
            assert waits.wait(60)
            assert study.status.told == 3 and study.verdict == "running" and len(study.history) == 3
            assert thread.is_alive()
        thread.join(60)
        assert study.status.told == 4


def test_waiting_ends_with_an_error_of_its_own(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osrl.study.storage.url.WAIT", 0.1)
    with new_study(place) as study, Study.open(place) as other:
        with held(other), pytest.raises(StorageBusy, match="writing for too long") as caught:
            study.ask()
        assert caught.value.exit_code == 4


# Between BEGIN and COMMIT --------------------------------------------------------------------------

HELD = """
import sys, traceback
from contextlib import contextmanager
from osrl.study.state.state import StudyState
from osrl.study.storage.sql import SqlStorage
from osrl.study.study import Study

held, seen = [], []

def notice(what):
    if held:
        seen.append(what + "".join(traceback.format_stack(limit=12)))

@contextmanager
def watched(self, study, meanwhile=None):
    with hold(self, study, meanwhile) as log:
        held.append(True)
        try:
            yield log
        finally:
            held.clear()

def watched_solve(self):
    designed = solve(self)
    if designed is not None:
        notice("weights are solved for")
    return designed

hold, SqlStorage.lock_log = SqlStorage.lock_log, watched
solve, StudyState.solve = StudyState.solve, watched_solve
with Study.open(sys.argv[1]) as study, Study.open(sys.argv[1]) as other:
    one = study.ask()
    study.tell(one, 1)
    for i in range(4):
        one, two = study.ask(), other.ask(n=5)
        study.tell(two[1], i % 2)
        other.tell(one, 1)
        other.abandon(two[0], ignorable=study.settings.policy in ("tas", "osrl-sc"))
        study.abandon(two[2], ignorable=True)
        other.tell(two[4], 1)
        study.tell(two[3], 0)
print(len(seen), *seen[:1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["osrl", "uniform", "tas", "osrl-sc"])
def test_nothing_is_solved_for_while_the_log_is_held(path: str, policy: str) -> None:
    """In a new process, in which everything happens for the first time."""
    new_study(path, policy=policy, delta=1e-6).close()
    assert run_python("-c", HELD, path).stdout == "0\n"


def test_little_is_taken_in_while_the_log_is_held(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much others write: the log is let go, and what they wrote is read before it is held again."""
    inside: list[bool] = []
    taken: list[tuple[int, bool]] = []
    hold, take_in, few = SqlStorage.lock_log, session._take_in, 6

    @contextmanager
    def watched(self: Any, number: int, meanwhile: Any = None) -> Iterator[Any]:
        if self is other._storage and busy.pop():
            in_another_thread(lambda: play(study, few))  # two events each
        with hold(self, number, meanwhile) as log:
            inside.append(True)
            try:
                yield log
            finally:
                inside.pop()

    def counted(progress: StudyState, events: Any) -> None:
        events = list(events)
        taken.append((len(events), bool(inside)))
        take_in(progress, events)

    with new_study(path, policy="uniform", delta=1e-9) as study, Study.open(path) as other:
        play(study, 2)
        assert other.trials == 2
        monkeypatch.setattr(session, "MAX_NEWS", few)
        monkeypatch.setattr(session, "_take_in", counted)
        monkeypatch.setattr(SqlStorage, "lock_log", watched)
        busy = [False, True, True, True, True]
        other.ask()
        assert busy == [] and study.trials == 4 * few + 3
        assert [count for count, under_lock in taken if under_lock and count > few] == []
        assert [count for count, under_lock in taken if not under_lock and count > few]
        busy[:] = [True] * 1000
        monkeypatch.setattr(session, "MAX_REFRESHES", 3)
        with refused("others write faster than this process can read; call again"):
            other.ask()
        busy[:] = [False] * 1000
        assert other.ask().id == study.trials
        assert_sound(other)


# Standing in line ----------------------------------------------------------------------------------


@contextmanager
def first_in_line(path: str) -> Iterator[None]:
    line = WriterQueue(path)
    try:
        line.wait(None)
        yield
        line.leave()
    finally:
        line.close()


def test_writers_are_served_in_the_order_of_arrival(tmp_path: Path) -> None:
    (tmp_path / "study.db-wal").touch()
    path, served, threads, lengths = str(tmp_path / "study.db"), [], [], []

    def write(i: int) -> None:
        with first_in_line(path):
            served.append(i)

    with first_in_line(path):
        for i in range(8):
            threads.append(threading.Thread(target=write, args=(i,)))
            threads[-1].start()
            wait_until(lambda i=i: queue_length(path) >= i + 2)  # type: ignore[misc]
            lengths.append(queue_length(path))
        assert served == []
    for thread in threads:
        thread.join(60)
    assert served == list(range(8)) and lengths == list(range(2, 10))
    assert queue_length(path) == 0


def test_a_process_that_was_stopped_in_line_does_not_stop_the_others(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osrl.study.storage.writer_queue.MAX_QUEUED_SECONDS", 0.1)
    with new_study(path, policy="uniform") as study:
        play(study, 2)
        with first_in_line(path):  # and never goes on
            play(study, 2)
        assert study.trials == 4


def test_who_stands_in_line_reads_what_others_write(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So little is left to be done when it is their turn."""
    monkeypatch.setattr("osrl.study.storage.writer_queue.MAX_QUEUED_SECONDS", 0.2)
    with new_study(path, policy="uniform") as study, Study.open(path) as other:
        play(study, 2)
        assert other.trials == 2
        read: list[int] = []
        keep_up = other._session._refresh_a_little

        def counted() -> None:
            if not read:
                monkeypatch.setattr("osrl.study.storage.writer_queue.MAX_QUEUED_SECONDS", 0.0)
                in_another_thread(lambda: play(study, 3))
            keep_up()
            read.append(other._session._state.asked)  # type: ignore[union-attr]

        monkeypatch.setattr(type(other._session), "_refresh_a_little", lambda session: counted())
        with first_in_line(path):
            other.ask()
        assert read and read[0] == 5


def open_files() -> list[str]:
    """The files that this process has open, by name."""
    names = []
    for each in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing itself was open as well
            names.append(os.readlink(f"/proc/self/fd/{each}"))
    return sorted(names)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the files of a process are not listed here")
def test_a_connection_keeps_its_place_to_look_from(path: str) -> None:
    """One look at the line is enough where it is empty; nothing is left open at the end."""
    with new_study(path, policy="uniform") as study:
        play(study, 3)
        opened = open_files()
        play(study, 5)
        assert open_files() == opened and f"{path}-wal" in opened
        newcomer = WriterQueue(path)
        with first_in_line(path):
            assert queue_length(path) == 1 and not newcomer.is_empty()
        assert queue_length(path) == 0 and newcomer.is_empty()
        newcomer.close()
    assert not [name for name in open_files() if name.startswith(path)]


def test_a_connection_stands_in_the_line_of_the_log_that_it_uses(tmp_path: Path) -> None:
    """It may have looked before there was one."""
    path, connection = str(tmp_path / "study.db"), SimpleNamespace(info={})
    assert _queue_of(connection, path).is_empty()
    Path(f"{path}-wal").touch()
    note_log(connection.info, ((1, 1), (1, 2)))
    with first_in_line(path):
        assert not _queue_of(connection, path).is_empty()
    _queue_of(connection, path).close()


def test_many_writers_are_all_served(path: str) -> None:
    """How long they wait, `make torture` says."""

    def work() -> None:
        with Study.open(path) as study:
            play(study, 10)

    with new_study(path, policy="uniform", delta=1e-9) as study:
        play(study, 3)
        pids = [forked(work) for _ in range(12)]
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 12
        assert study.trials == 3 + 12 * 10
        assert_sound(study)

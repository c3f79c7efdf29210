"""Studies under attack: killed writers, many processes, forks, full disks, servers that go away."""

from __future__ import annotations

import importlib
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import event

from osrl.errors import OsrlError
from osrl.jit import kernels
from osrl.study.storage.transaction import Cursor
from osrl.study.study import Study
from tests.support.databases import cut_connections, own_server
from tests.support.instances import refused
from tests.support.processes import forked, run_python
from tests.support.studies import assert_sound, held, load_kernels, new_study, play
from tests.support.writers import BATCH, killed_writers, stored

pytestmark = pytest.mark.slow

KILLS = 40  # on each backend; `make torture` has many more


def test_writers_killed_at_any_moment_lose_nothing(place: str, tmp_path: Path, monkeypatch: Any) -> None:
    """SIGKILL, hundreds of times: all that was acknowledged is there, no event is torn, the study goes on."""
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 40)  # kills hit snapshots too
    rng = random.Random(0)
    # Equal rewards for all arms: no verdict comes in the way of the kills.
    with new_study(place, policy="osrl", delta=1e-5) as study:
        load_kernels(tmp_path, "osrl")  # a child that is cold is killed before it has written anything
        play(study, 3)
        promised: list[str] = []
        for _ in range(KILLS // BATCH):
            promised += killed_writers(study, place, rng)
        assert len(promised) > KILLS, "the writers hardly got anywhere"
        assert set(promised) <= stored(study)
        assert_sound(study)
        play(study, 5000)
        assert (study.verdict, study.best.representation) == ("decided", "A")
        assert_sound(study)


@pytest.mark.parametrize("policy", ["osrl", "tas"])
def test_eight_processes_share_one_study(place: str, policy: str) -> None:
    each = 6

    def work(seed: int) -> None:
        rng = random.Random(seed)
        with Study.open(place) as study:
            for _ in range(each):
                trials = study.ask(n=rng.choice([1, 2]))
                for trial in trials:
                    study.tell(trial, rng.randrange(2))

    with new_study(place, policy=policy, delta=1e-9) as study:
        play(study, 1)
        pids = [forked(partial(work, i)) for i in range(8)]
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 8
        assert study.trials >= 8 * each and study.pending == ()
        assert_sound(study)


def test_a_study_object_survives_a_fork(place: str) -> None:
    """Parent and child go on with the same object, each with a connection of its own."""
    with new_study(place, delta=1e-6) as study:
        play(study, 2)
        pids = [forked(lambda: play(study, 3)) for _ in range(3)]
        play(study, 3)
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 3
        assert study.trials == 2 + 4 * 3
        assert_sound(study)


# Seconds that a lock is held, in which the process forks. Nothing can tell the thread that it has forked, since the
# fork itself may wait for the lock. On a machine that is too slow less is tested, and nothing fails.
HELD = 0.3


class SlowImport(MetaPathFinder):
    """Find a module that takes a while to run."""

    def __init__(self, module: str, began: threading.Event) -> None:
        self.module, self.began = module, began

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == self.module else None
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = partial(self.run, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec

    def run(self, run: Callable[[ModuleType], None], module: ModuleType) -> None:
        self.began.set()
        time.sleep(HELD)
        run(module)


def import_slowly(study: Study, began: threading.Event) -> None:
    """Ask for the status for the first time in this process."""
    name = "osrl.study.views.status"
    kept, finder = importlib.import_module(name), SlowImport(name, began)
    del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        study.look()
    finally:
        sys.meta_path.remove(finder)
        sys.modules[name] = kept


def foresee_slowly(study: Study, began: threading.Event) -> None:
    """Look at the progress while nobody writes."""

    def look(progress: object) -> None:
        began.set()
        time.sleep(HELD)

    study._session.peek(look)


def compile_slowly(study: Study, began: threading.Event) -> None:
    """Compile something, outside of any study."""
    with kernels._loading:
        began.set()
        time.sleep(HELD)


def look_at_all(study: Study) -> None:
    """Do in a child what needs each of the locks."""
    play(study, 1)
    study.look()
    kernels.specialise(len, len)


@pytest.mark.parametrize("work", [import_slowly, foresee_slowly, compile_slowly])
def test_a_child_does_not_wait_for_a_thread_that_it_has_not(
    path: str, work: Callable[[Study, threading.Event], None]
) -> None:
    """Another thread of the parent holds a lock when the process forks."""

    def child() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # not the time limit of the test
        signal.alarm(60)  # ends a child that waits for ever
        look_at_all(study)

    with new_study(path, delta=1e-6) as study, ThreadPoolExecutor(1) as pool:
        play(study, 2)
        began = threading.Event()
        working = pool.submit(work, study, began)
        assert began.wait(60)
        pid = forked(child)
        assert os.waitpid(pid, 0)[1] == 0
        working.result()
        assert study.trials == 3


def test_threads_share_one_object(place: str) -> None:
    """Some write, others look at the same time."""
    with new_study(place, policy="uniform", delta=1e-9) as study, ThreadPoolExecutor(6) as pool:
        writing = [pool.submit(play, study, 5, i) for i in range(4)]
        looking = [pool.submit(lambda: [study.status.told for _ in range(10)]) for _ in range(2)]
        for future in writing:
            future.result()
        for seen in looking:
            assert seen.result() == sorted(seen.result())
        assert study.trials == 20 and study.pending == ()
        assert_sound(study)


def test_studies_are_created_at_the_same_time(place: str, tmp_path: Path) -> None:
    """Eight processes make the tables at once; each study is there, and one of two equal names is refused."""

    def work(i: int) -> None:
        new_study(place, name=f"study {i}").close()
        try:
            new_study(place, name="the same").close()
        except OsrlError as error:
            os._exit(7 if "already" in str(error) else 1)

    load_kernels(tmp_path)
    pids = [forked(partial(work, i)) for i in range(8)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert sorted(codes) == [0] + [7] * 7
    assert sorted(Study.list(place)) == sorted(["the same", *(f"study {i}" for i in range(8))])


# Storage that fails -------------------------------------------------------------------------------


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "study.db"), delta=1e-6) as study:
        play(study, 5)
        waiting = study.ask()
        engine: Any = study._storage._engine  # type: ignore[attr-defined]

        def limit(connection: sqlite3.Connection, record: object) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 1}")

        study.close()
        event.listen(engine, "connect", limit)
        before = 0
        with refused("the disk is full"):
            for _ in range(200):
                before = study.trials
                study.ask(n=20)
        assert study.trials == before
        event.remove(engine, "connect", limit)
        study.close()  # the disk has room again
        assert study.ask().id == before + 1
        study.tell(waiting, 1)
        assert_sound(study)


def test_a_tell_on_a_full_disk_can_be_repeated(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "study.db"), delta=1e-6) as study:
        trials = study.ask(n=100)
        study.close()
        engine: Any = study._storage._engine  # type: ignore[attr-defined]

        def limit(connection: sqlite3.Connection, record: object) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")

        event.listen(engine, "connect", limit)
        stored = []
        with refused("the disk is full"):
            for trial in trials:
                study.tell(trial, 1)
                stored.append(trial.id)
        event.remove(engine, "connect", limit)
        study.close()
        assert study.pending == tuple(trial.id for trial in trials if trial.id not in stored)
        for trial in trials:
            study.tell(trial, 1)
        assert study.pending == ()
        assert_sound(study)


def test_a_study_that_others_hold_for_too_long_is_said(place: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("osrl.study.storage.url.WAIT", 0.1)
    with new_study(place) as study, Study.open(place) as other:
        with held(other), refused("other processes have been writing for too long"):
            study.ask()
        with held(other):
            assert study.verdict == "running"  # readers do not wait
        assert study.ask().id == 1


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_server_that_goes_away_is_said_and_the_next_call_works(place: str, monkeypatch: Any) -> None:
    """Every connection is cut, at rest and in the middle of a call."""
    with new_study(place, delta=1e-6) as study:
        play(study, 2)
        cut_connections(place)
        play(study, 2)  # a connection at rest is replaced without a word
        armed = [True]
        append = Cursor.run_many

        def cut_once(*arguments: Any) -> None:
            append(*arguments)
            if armed.pop():
                cut_connections(place)
            armed.append(False)

        monkeypatch.setattr(Cursor, "run_many", cut_once)
        with refused("the database cannot be reached"):
            study.ask()
        assert study.trials == 4
        trial = study.ask()
        armed[:] = [True]
        with refused("a tell may be repeated safely"):
            study.tell(trial, 1)
        study.tell(trial, 1)
        assert study.pending == ()
        assert_sound(study)


def test_a_server_that_stops_and_starts_again(tmp_path: Path) -> None:
    """The server process itself: stopped as by a power cut, then started again."""
    load_kernels(tmp_path)
    with own_server() as server, new_study(server.url, delta=1e-6) as study:
        play(study, 2)
        waiting = study.ask()
        server.stop()
        for act in (study.ask, lambda: study.tell(waiting, 1), lambda: study.verdict):
            with refused("the database cannot be reached"):
                act()
        server.start()
        study.tell(waiting, 1)
        play(study, 2)
        assert study.trials == 5 and study.pending == ()
        assert_sound(study)


def test_a_file_that_is_gone_is_said_and_the_next_call_works(tmp_path: Path) -> None:
    """Nothing may be acknowledged that goes into a file without a name."""
    path, away = tmp_path / "study.db", tmp_path / "away.db"
    with new_study(str(path), delta=1e-6) as study:
        play(study, 3)
        waiting = study.ask()
        path.rename(away)
        for act in (study.ask, lambda: study.tell(waiting, 1), lambda: study.verdict):
            with refused("the file is gone; call again when it is back"):
                act()
        assert not path.exists()
        away.rename(path)
        study.tell(waiting, 1)
        assert study.trials == 4 and study.pending == ()
        assert_sound(study)


def test_a_server_that_is_not_there_is_said() -> None:
    with refused("the database cannot be reached"):
        new_study("postgresql://nobody@localhost:1/none?connect_timeout=2")


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_passwords_stay_out_of_messages(place: str) -> None:
    secret = place.replace("postgres:@", "postgres:hunter2@")
    with new_study(secret) as study:
        assert "hunter2" not in repr(study)
        with pytest.raises(OsrlError) as caught:
            Study.open(secret, "other")
    assert "hunter2" not in str(caught.value)


def test_a_commit_waits_for_the_disk(place: str) -> None:
    """Whatever the server was set up with; SQLite: every commit is synchronised."""
    with new_study(place) as study, study._storage._engine.connect() as connection:  # type: ignore[attr-defined]
        if "://" in place:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() != "off"
        else:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_a_cold_process_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with new_study(str(path)) as study:
        play(study, 2)
        code = f"from osrl.study.study import Study; s = Study.open({str(path)!r}); s.tell(s.ask(), 1)"
        run_python("-c", code)
        assert study.trials == 3
        assert_sound(study)

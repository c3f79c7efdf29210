"""Attacks on those who write: kills, full disks, clocks that jump, crowds, a server that is gone."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from osrl.errors import OsrlError, StorageDamaged, StorageError
from osrl.study.backup import backup
from osrl.study.log.events import now
from osrl.study.study import Study
from tests.support.databases import BACKENDS, new_place, own_server, remove_place
from tests.support.processes import forked
from tests.support.studies import assert_sound, load_kernels, new_study, play
from tests.support.tampering import put
from tests.support.writers import BATCH, killed_writers, starve, stored
from tests.torture.base import Found, folder, said


def kills(count: int) -> Found:
    """Kill eight writers at a time, at random moments, on both databases."""
    tried = survived = 0
    for backend in BACKENDS:
        with folder() as where:
            place = new_place(backend, where)
            rng = random.Random(0)
            with new_study(place, policy="uniform", delta=1e-9) as study:
                load_kernels(where, "uniform")
                play(study, 3)
                for _ in range(max(1, count // BATCH // len(BACKENDS))):
                    promised = set(killed_writers(study, place, rng))
                    tried += BATCH
                    survived += BATCH * (promised <= stored(study))
                assert_sound(study)
            remove_place(place)
    return Found(tried, survived, "eight at a time, SQLite and PostgreSQL")


def system_calls(count: int) -> Found:
    """Kill a writer before or after one system call of an ask and a tell: so many of them, all along."""
    survived = 0
    with folder() as where, new_study(str(where / "s.db"), policy="uniform", delta=1e-9) as study:
        play(study, 3)
        load_kernels(where, "uniform")
        _, length = _traced(study, None)
        for k in range(count):
            promised, _ = _traced(study, k * length // count)
            survived += promised <= stored(study) and study.verify().ok
    return Found(count, survived, f"at {count} moments, evenly among {length} entries and exits of calls")


_ptrace: Any = ctypes.CDLL(None, use_errno=True).ptrace
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
TRACE_ME, TO_SYSTEM_CALL = 0, 24


def _traced(study: Study, last: int | None) -> tuple[set[str], int]:
    """Let a child ask and tell, and kill it at the system call with this number.

    What it was promised, and how many entries to and exits from system calls it came through.
    """
    reading, writing = os.pipe()

    def work() -> None:
        study.close()
        _ptrace(TRACE_ME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        trial = study.ask()
        os.write(writing, f"ask {trial.id}\n".encode())
        study.tell(trial, 1)
        os.write(writing, f"tell {trial.id} 1\n".encode())

    pid = forked(work)
    os.close(writing)
    count, status = 0, os.waitpid(pid, 0)[1]
    while os.WIFSTOPPED(status) and count != last:
        if _ptrace(TO_SYSTEM_CALL, pid, None, None):
            raise OSError(ctypes.get_errno(), "this system does not let a process trace its child")
        status = os.waitpid(pid, 0)[1]
        count += os.WIFSTOPPED(status)
    if os.WIFSTOPPED(status):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    with os.fdopen(reading) as file:
        return set(file.read().split("\n")[:-1]), count


def skew(count: int) -> Found:
    """Let the clock jump by hours in both directions."""
    rng = random.Random(3)
    with folder() as where, new_study(str(where / "s.db"), policy="uniform", delta=1e-9) as study:
        with patch("osrl.study.log.chain.now", lambda: now() + rng.randrange(-(10**10), 10**10)):
            play(study, count)
        found = study.verify()
        assert_sound(study)
    return Found(count, count * (found.ok and bool(found.notes)), "noted by verify, and nothing else changes")


def failovers(count: int) -> Found:
    """Lose the original and go on with a copy that lagged: processes that know more are refused, and their trials."""
    survived = 0
    for lag in range(count):
        with folder() as where:
            path = where / "study.db"
            with new_study(str(path), policy="uniform", delta=1e-9) as study:
                play(study, 10)
                study.close()
                copy = path.read_bytes()
                play(study, lag)
                lost = study.ask()
                study.close()
                put(copy, str(path))
                refusals = _refusals(study.ask, lambda: study.status, lambda: study.tell(lost, 1))  # noqa: B023
                with Study.open(path) as other:
                    other.recover("failover")
                    while other.ask().id < lost.id:
                        pass
                    refusals += _refusals(lambda: other.tell(lost, 1), lambda: other.abandon(lost))  # noqa: B023
                    fine = other.verify().ok
                survived += refusals == 5 and fine and study.trials == lost.id
    return Found(count, survived, "by 0 to 19 trials")


def _refusals(*acts: Callable[[], object]) -> int:
    found = 0
    for act in acts:
        try:
            act()
        except OsrlError:
            found += 1
    return found


def full_disks(count: int) -> Found:
    """Fill the disk in the middle of a call, and make room again."""
    from sqlalchemy import event

    survived = 0
    for extra in range(count):
        with folder() as where, new_study(str(where / "s.db"), policy="uniform", delta=1e-9) as study:
            play(study, 5)
            engine: Any = study._storage._engine  # type: ignore[attr-defined]

            def limit(connection: sqlite3.Connection, record: object, extra: int = extra) -> None:
                pages = connection.execute("PRAGMA page_count").fetchone()[0]
                connection.execute(f"PRAGMA max_page_count = {pages + extra}")

            study.close()
            event.listen(engine, "connect", limit)
            trials = 5
            try:
                for _ in range(500):
                    trials = study.ask().id
            except StorageError as error:
                full = "the disk is full" in str(error)
            event.remove(engine, "connect", limit)
            study.close()
            survived += full and study.trials == trials and study.verify().ok
    return Found(count, survived)


def vanished(count: int) -> Found:
    """Remove the write-ahead log under a running process."""
    survived = 0
    for i in range(count):
        with folder() as where:
            path = where / "study.db"
            with new_study(str(path), policy="uniform", delta=1e-9) as study:
                play(study, 3 + i)
            pid = forked(partial(_lose_the_log, path))
            survived += os.waitpid(pid, 0)[1] == 0 and said("verify", path)[0] == 0
    return Found(count, survived, "before the next call is acknowledged")


def _lose_the_log(path: Path) -> None:
    study = Study.open(path)
    trial = study.ask()
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    try:
        study.tell(trial, 1)
    except StorageDamaged:
        os._exit(0)


def backups(count: int) -> Found:
    """Take a backup while two processes write."""
    survived = 0
    with folder() as where:
        path = where / "study.db"
        with new_study(str(path), policy="uniform", delta=1e-9) as study:
            play(study, 5)
            pids = [forked(partial(_write_for, str(path), 600.0)) for _ in range(2)]
            try:
                for _ in range(count):
                    before = study.trials
                    (copied,) = backup(path, where / "backup.db")
                    with Study.open(where / "backup.db") as copy:
                        survived += copy.trials >= before and copy.verify().ok and study.verify(copied.head).ok
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
    return Found(count, survived, "whole, not older than its beginning, and part of the log")


def _write_for(place: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    with Study.open(place) as study:
        while time.monotonic() < end:
            study.tell(study.ask(), 1)
            time.sleep(0.01)


def starvation(count: int) -> Found:
    """Let many processes write to one file as fast as they can; say the longest wait of any of them."""
    with folder() as where, new_study(str(where / "s.db"), policy="uniform", delta=1e-9) as study:
        load_kernels(where, "uniform")
        play(study, 3)
        worst = starve(str(where / "s.db"), 10.0, max(count, 24))
        load = os.getloadavg()[0]
    said = f"longest wait {max(worst):.2f} s (load average {load:.0f})"
    return Found(len(worst), sum(each < 2 for each in worst), said)


def frozen(count: int) -> Found:
    """Freeze a PostgreSQL server, so that it is there and does not answer."""
    survived, longest = 0, 0.0
    with own_server() as server, new_study(server.url, policy="uniform", delta=1e-9) as study:
        play(study, 2)
        for _ in range(count):
            server.freeze()
            began = time.monotonic()
            try:
                study.ask()
            except StorageError:
                longest = max(longest, time.monotonic() - began)
                survived += longest < 60
            finally:
                server.thaw()
            play(study, 1)
    return Found(count, survived, f"given up after {longest:.0f} s at the most")

"""Attacks on the storage of a study, counted: `make torture` writes docs/validation/storage.md.

    python -m tests.torture docs/validation/storage.md            # the long form
    python -m tests.torture --share 0.1                           # a tenth of it, to the terminal

An attack is *survived* when nothing that was acknowledged is lost, nothing wrong is believed, and what is
wrong is said in one line with the right exit code. `tests/test_torture.py` runs a short form.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from osrl.cli import main as command
from osrl.errors import OsrlError, StorageDamaged, StorageError
from osrl.study.backup import backup
from osrl.study.snapshot import facts, pack
from osrl.study.study import Study
from tests.databases import BACKENDS, new_place, own_server, remove_place
from tests.studies import assert_sound, new_study, play
from tests.tampering import TAMPERING, damaged, put, rechain, rewrite
from tests.writers import BATCH, forked, killed_writers, starve, stored


class Found(NamedTuple):
    """How often an attack was tried and survived, and what else there is to say."""

    tried: int
    survived: int
    said: str = ""


def said(*arguments: object) -> tuple[int, str, str]:
    """What a command of `osrl study` says: exit code, standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = command(["study", *map(str, arguments)])
        except Exception as error:  # what the user would see as a traceback
            return -1, out.getvalue(), f"Traceback: {error!r}"
    return code, out.getvalue(), err.getvalue()


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="osrl-torture-") as name:
        yield Path(name)


def sound_study(path: Path, trials: int = 60, policy: str = "uniform") -> bytes:
    """The bytes of a study that nobody has open."""
    with new_study(str(path), policy=policy, delta=1e-6) as study:
        play(study, trials)
    return path.read_bytes()


# The attacks --------------------------------------------------------------------------------------


def kills(count: int) -> Found:
    """SIGKILL of eight writers at a time, at random moments, on both databases."""
    tried = survived = 0
    for backend in BACKENDS:
        with folder() as where:
            place = new_place(backend, where)
            rng = random.Random(0)
            with new_study(place, policy="uniform", delta=1e-9) as study:
                play(study, 3)
                for _ in range(max(1, count // BATCH // len(BACKENDS))):
                    promised = set(killed_writers(study, place, rng))
                    tried += BATCH
                    survived += BATCH * (promised <= stored(study))
                assert_sound(study)
            remove_place(place)
    return Found(tried, survived, "eight at a time, SQLite and PostgreSQL")


def single_calls(count: int) -> Found:
    """A writer is killed at one particular call into the driver or the operating system, each in turn."""
    survived = 0
    with folder() as where, new_study(str(where / "s.db"), policy="uniform", delta=1e-9) as study:
        play(study, 3)
        for k in range(count):
            reading, writing = os.pipe()
            pid = forked(partial(_killed_at, study, k, writing))
            os.close(writing)
            os.waitpid(pid, 0)
            with os.fdopen(reading) as file:
                promised = set(file.read().split("\n")[:-1])
            survived += promised <= stored(study) and study.verify().ok
    return Found(count, survived, "every fifth call into C of an ask and a tell, in turn")


def _killed_at(study: Study, k: int, acknowledged: int) -> None:
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        if event == "c_call":
            calls += 1
            if calls == 5 * k + 1:
                os.kill(os.getpid(), signal.SIGKILL)

    study.close()
    sys.setprofile(count)
    trial = study.ask()
    os.write(acknowledged, f"ask {trial.id}\n".encode())
    study.tell(trial, 1)
    os.write(acknowledged, f"tell {trial.id} 1\n".encode())


def damage(count: int) -> Found:
    """Random bytes of a file are other ones: one, a few, or a page."""
    survived = noticed = 0
    with folder() as where:
        path = where / "study.db"
        whole = sound_study(path)
        right = [said(verb, path, "--json")[1] for verb in ("verify", "list")]
        for seed in range(count):
            shutil.rmtree(where)
            where.mkdir()
            path.write_bytes(damaged(whole, random.Random(seed)))
            code, out, err = said("verify", path, "--json")
            noticed += code == 5
            fine = (code == 0 and out == right[0]) or (code == 5 and "call again" not in err)
            for verb in ("status", "ask"):
                code, _, err = said(verb, path, "--json")
                fine = fine and code in (0, 5) and "Traceback" not in err
            survived += fine
    return Found(count, survived, f"{noticed} said to be damaged, the others hit nothing that is read")


def cuts(count: int) -> Found:
    """The file is cut."""
    survived = 0
    with folder() as where:
        path = where / "study.db"
        whole = sound_study(path)
        rng = random.Random(1)
        for _ in range(count):
            path.write_bytes(whole[: rng.randrange(len(whole))])
            code, out, err = said("verify", path, "--json")
            survived += code == 5 and "create one" not in out + err and "Traceback" not in err
    return Found(count, survived)


def tampering(count: int) -> Found:
    """Somebody changes the log without triggers in the way; and with a head noted, all hashes too."""
    tried = survived = 0
    with folder() as where:
        clean, path = where / "clean.db", where / "study.db"
        sound_study(clean, 25, "osrl")
        with Study.open(clean) as study:
            head = study.head
        for kind, statement in list(TAMPERING.items())[:count]:
            if "snapshot" in statement:
                continue  # there is none in so short a log
            for anew in (False, True):
                if anew and kind in ("a hash", "where a trial is found", "a payload is no text"):
                    continue  # the chain is that of the content
                shutil.copy(clean, path)
                rewrite(str(path), statement)
                if anew:
                    rechain(str(path))
                code, _, err = said("verify", path, *(["--head", head] if anew else []))
                tried += 1
                survived += code == 5 and "Traceback" not in err
    return Found(
        tried,
        survived,
        f"{min(count, 28)} of 28 kinds; with the chain broken, and with all of it computed anew",
    )


def snapshots(count: int) -> Found:
    """A snapshot is changed, by accident or to set a verdict: the log is believed, not the snapshot."""
    survived = 0
    with folder() as where:
        path = where / "study.db"
        with new_study(str(path), policy="uniform", delta=1e-6) as study:
            with mock.patch("osrl.study.session.EVERY", 50):
                play(study, 40)
            right, fold = facts(study._session._current()), study._session._current()
            kept = study._session.snapshot()
            assert kept is not None
            fold.verdict = fold.best_guess()
            forged = pack(fold).content
        rng = random.Random(2)
        for i in range(count):
            content = bytearray(forged if i % 2 else kept.content)
            if i > 1:
                at = rng.randrange(len(content))
                content[at : at + 8] = rng.randbytes(8)
            with sqlite3.connect(path) as connection:
                connection.execute("UPDATE osrl_snapshots SET content = ?", (bytes(content),))
            connection.close()
            with Study.open(path) as study:
                same = bytes(content) == kept.content
                survived += facts(study._session._current()) == right and study.verify().ok == same
    return Found(count, survived, "half of them with a forged verdict")


def skew(count: int) -> Found:
    """The clock jumps by hours in both directions."""
    from osrl.study import events

    rng, now = random.Random(3), events.now
    with folder() as where, new_study(str(where / "s.db"), policy="uniform", delta=1e-9) as study:
        events.now = lambda: now() + rng.randrange(-(10**10), 10**10)
        try:
            play(study, count)
        finally:
            events.now = now
        found = study.verify()
        assert_sound(study)
    return Found(count, count * (found.ok and bool(found.notes)), "noted by verify, and nothing else changes")


def failovers(count: int) -> Found:
    """The original is lost and a copy that lagged goes on; who knew more is refused, so are the trials."""
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
    """The disk is full in the middle of a call, and has room again."""
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
    """The write-ahead log is removed under a running process."""
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
    """A backup is taken while two processes write."""
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
                        survived += (
                            copy.trials >= before and copy.verify().ok and study.verify(copied.head).ok
                        )
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
    """Many processes write to one file as fast as they can; the longest wait of any of them."""
    with folder() as where, new_study(str(where / "s.db"), policy="uniform", delta=1e-9) as study:
        play(study, 3)
        worst = starve(str(where / "s.db"), 10.0, max(count, 24))
        load = os.getloadavg()[0]
    return Found(
        len(worst),
        sum(each < 2 for each in worst),
        f"longest wait {max(worst):.2f} s (load average {load:.0f})",
    )


def frozen(count: int) -> Found:
    """A PostgreSQL server that is there and does not answer."""
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


def fuzz(count: int) -> Found:
    """A log file is changed at random and imported."""
    survived = refusals = 0
    with folder() as where:
        with new_study(str(where / "s.db"), policy="uniform", delta=1e-6) as study:
            play(study, 20)
            study.write_log(where / "log.jsonl")
            head = study.head
        lines = (where / "log.jsonl").read_text(encoding="utf-8").splitlines()
        for seed in range(count):
            (where / "bad.jsonl").write_text(
                "\n".join(_changed(list(lines), random.Random(seed))), encoding="utf-8"
            )
            (where / "back.db").unlink(missing_ok=True)
            code, out, err = said("import", where / "back.db", where / "bad.jsonl", "--json")
            refusals += code in (2, 5)
            same = code == 0 and Study.open(where / "back.db").head == head
            survived += "Traceback" not in err and (same or code in (2, 5))
    return Found(count, survived, f"{refusals} refused, the others are the same log")


def _changed(lines: list[str], rng: random.Random) -> list[str]:
    i = rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[i]
    elif kind == 1:
        lines.insert(i, lines[rng.randrange(len(lines))])
    elif kind == 2:
        at = rng.randrange(len(lines[i]))
        lines[i] = lines[i][:at] + chr(rng.randrange(32, 127)) + lines[i][at + 1 :]
    elif kind == 3:
        lines[i] = lines[i][: rng.randrange(len(lines[i]))]
    else:
        event = json.loads(lines[i])
        part = event if kind == 4 else event["payload"]
        key = rng.choice(list(part))
        part[key] = rng.choice([None, -1, 2**70, 1.5, "x", [], {}, True, [[1]], "nan"])
        lines[i] = json.dumps(event)
    return lines


class Attack(NamedTuple):
    """An attack, how often it is tried in the long form, and what came of it before there were hashes."""

    name: str
    run: Callable[[int], Found]
    times: int
    before: str


ATTACKS = (
    Attack("writers killed at random", kills, 960, "960 of 960"),
    Attack("writers killed at single calls", single_calls, 100, "100 of 100"),
    Attack("random damage", damage, 400, "some silent, some *call again*"),
    Attack("files that are cut", cuts, 60, "*holds no study; create one there*"),
    Attack("tampering", tampering, 28, "36 of 72"),
    Attack("changed snapshots", snapshots, 60, "a verdict could be set"),
    Attack("clocks that jump", skew, 100, "not noted"),
    Attack("failover to a copy that lagged", failovers, 20, "told onto another arm"),
    Attack("full disk", full_disks, 20, "survived"),
    Attack("write-ahead log removed", vanished, 10, "not noticed"),
    Attack("copies of a running study", backups, 15, "0 of 15: 11 older, 4 empty"),
    Attack("24 writers, none waits 2 s", starvation, 24, "longest wait 63.7 s"),
    Attack("a server that does not answer", frozen, 2, "hung for 200 s"),
    Attack("imported files changed at random", fuzz, 300, "200 tracebacks of 1,200"),
)


def run_all(share: float) -> list[tuple[Attack, Found, float]]:
    """Every attack, as often as its share of the long form."""
    found = []
    for attack in ATTACKS:
        began = time.monotonic()
        result = attack.run(max(1, round(share * attack.times)))
        found.append((attack, result, time.monotonic() - began))
        print(
            f"{attack.name}: {result.survived} of {result.tried} in {found[-1][2]:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    return found


def report(found: list[tuple[Attack, Found, float]]) -> str:
    """The results as Markdown."""
    lines = [
        "# Attacks on the storage, counted",
        "",
        "Made by `make torture`. An attack is survived when nothing acknowledged is lost, nothing wrong is",
        "believed, and what is wrong is said in one line. *Before*: the first schema, without hashes, as it",
        "was attacked by hand.",
        "",
        "| attack | before | tried | survived | |",
        "|---|---|---|---|---|",
        *(f"| {a.name} | {a.before} | {f.tried} | {f.survived} | {f.said} |" for a, f, _ in found),
        "",
        f"It took {sum(each[2] for each in found) / 60:.0f} minutes with {os.cpu_count()} cores.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run the attacks, and write what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", nargs="?", type=Path, help="the file to write")
    parser.add_argument("--share", type=float, default=1.0, help="of the long form")
    options = parser.parse_args()
    text = report(run_all(options.share))
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

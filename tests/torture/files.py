"""Attacks on what is stored: damage, tampering, forged snapshots, changed exports."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from unittest import mock

from osrl.study.state.snapshot import facts, pack
from osrl.study.study import Study
from tests.support.studies import new_study, play
from tests.support.tampering import TAMPERING, damaged, rechain, rewrite
from tests.torture.base import Found, folder, said, sound_study


def damage(count: int) -> Found:
    """Replace random bytes of a file: one, a few, or a page."""
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
    """Cut the file."""
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
    """Change the log with its triggers removed; where a head was noted, recompute all hashes too."""
    tried = survived = 0
    kinds = list(TAMPERING.items())[:count]
    with folder() as where:
        clean, path = where / "clean.db", where / "study.db"
        with mock.patch("osrl.study.operations.session.SNAPSHOT_INTERVAL", 20):  # one kind needs a snapshot
            sound_study(clean, 25, "osrl")
        with Study.open(clean) as study:
            head = study.head
        for kind, statement in kinds:
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
    many = f"{len(kinds)} of {len(TAMPERING)} kinds"
    return Found(tried, survived, f"{many}; with the chain broken, and with all of it computed anew")


def snapshots(count: int) -> Found:
    """Change a snapshot, by accident or to set a verdict: the log is believed, not the snapshot."""
    survived = 0
    with folder() as where:
        path = where / "study.db"
        with new_study(str(path), policy="uniform", delta=1e-6) as study:
            with mock.patch("osrl.study.operations.session.SNAPSHOT_INTERVAL", 50):
                play(study, 40)
            right, progress = facts(study._session.refresh()), study._session.refresh()
            kept = study._session.snapshot()
            assert kept is not None
            progress.verdict = progress.best_guess()
            forged = pack(progress).content
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
                survived += facts(study._session.refresh()) == right and study.verify().ok == same
    return Found(count, survived, "half of them with a forged verdict")


def fuzz(count: int) -> Found:
    """Change a log file at random and import it."""
    survived = refusals = 0
    with folder() as where:
        with new_study(str(where / "s.db"), policy="uniform", delta=1e-6) as study:
            play(study, 20)
            study.write_log(where / "log.jsonl")
            head = study.head
        lines = (where / "log.jsonl").read_text(encoding="utf-8").splitlines()
        for seed in range(count):
            (where / "bad.jsonl").write_text("\n".join(_changed(list(lines), random.Random(seed))), encoding="utf-8")
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

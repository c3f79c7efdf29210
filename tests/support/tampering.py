"""Changes to the file of a study behind its back: edits, forged chains, other files, damage."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

from osrl.study.log.chain import link


def changed(what: str, to: str, where: str) -> str:
    """Return the statement that replaces text in the payload of events."""
    return f"UPDATE osrl_events SET payload = replace(payload, '{what}', '{to}') WHERE {where}"


FORGED = '"verdict":{"status":"decided","representations":["B","B"],"predictors":["low","low"]}'
TAMPERING = {
    "a reward": "UPDATE osrl_events SET payload = replace(replace(replace("
    "payload, '1.0', 'x'), '0.0', '1.0'), 'x', '0.0') WHERE kind = 'tell' AND trial = 9",
    "how rewards are written": changed(".0", ".00", "kind = 'tell'"),
    "a reward outside the family": changed("1.0", "7.0", "kind = 'tell'"),
    "a reward that is no number": changed("1.0", '"a"', "kind = 'tell'"),
    "an arm": changed("low", "high", "kind = 'ask'"),
    "a name": changed('"A"', '"C"', "kind = 'ask'"),
    "a task": changed("young", "old", "kind = 'ask'"),
    "propensities": changed("0.0", "0.1", "kind = 'ask'"),
    "given": changed('"given":false', '"given":true', "kind = 'ask'"),
    "the number of a trial": changed('"trial":7,', '"trial":8,', "kind = 'ask'"),
    "where a trial is found": "UPDATE osrl_events SET trial = trial + 100 WHERE kind = 'ask'",
    "weights": changed("0.1", "0.2", "kind = 'design'"),
    "a digest": changed('before":"', 'before":"0', "kind = 'design'"),
    "a risk": changed("0.01", "0.2", "kind = 'create'"),
    "the seed": changed('"seed":7', '"seed":8', "kind = 'create'"),
    "the budget": changed('"budget":null', '"budget":90', "kind = 'create'"),
    "the family": changed("bernoulli", "bounded", "kind = 'create'"),
    "a verdict": changed('"verdict":null', FORGED, "kind = 'tell'"),
    "a time": "UPDATE osrl_events SET at = at - 1000000 WHERE kind = 'tell'",
    "a kind": "UPDATE osrl_events SET kind = 'resume' WHERE kind = 'snapshot'",
    "a hash": "UPDATE osrl_events SET hash = replace(hash, 'a', 'b') WHERE seq = 12",
    "an event is removed": "DELETE FROM osrl_events WHERE seq = 20",
    "a reward is removed": "DELETE FROM osrl_events WHERE kind = 'tell' AND trial = 12",
    "events are moved": "UPDATE osrl_events SET seq = 1000 - seq WHERE seq IN (30, 31)",
    "an event twice": "INSERT INTO osrl_events SELECT study, seq + 1000, at, kind, trial + 1000, payload, "
    "hash FROM osrl_events WHERE seq = 20",
    "a payload is cut": "UPDATE osrl_events SET payload = substr(payload, 1, 20) WHERE seq = 20",
    "a payload is no text": "UPDATE osrl_events SET payload = x'00ff00' WHERE seq = 20",
    "the log begins later": "DELETE FROM osrl_events WHERE seq = 0",
}


def rewrite(path: str, *statements: str) -> None:
    """Change a SQLite study as somebody does who is not stopped by triggers."""
    with sqlite3.connect(path) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement
    connection.close()


def rechain(path: str) -> None:
    """Compute the whole chain anew, as a forger does who knows the program."""
    with sqlite3.connect(path) as connection:
        head = ""
        rows = connection.execute("SELECT seq, at, kind, payload FROM osrl_events ORDER BY seq").fetchall()
        for row in rows:
            head = link(head, *row)
            connection.execute("UPDATE osrl_events SET hash = ? WHERE seq = ?", (head, row[0]))
    connection.close()


def put(copy: bytes, path: str) -> None:
    """Put another file in the place of a database, as somebody does who has a backup."""
    for suffix in ("-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)
    Path(path + ".new").write_bytes(copy)
    Path(path + ".new").rename(path)


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return the content with some bytes replaced: one, a few, or a whole page."""
    found = bytearray(content)
    size = rng.choice([1, 1, 4, 64, 4096])
    start = rng.randrange(len(found) - size)
    found[start : start + size] = rng.randbytes(size)
    return bytes(found)

"""Snapshots: a fold as bytes, so that opening a long study does not replay all of it.

A snapshot is a cache. It holds plain arrays and a JSON header, and is used only by a program of the
same versions as the one that wrote it, and only if an event of the log vouches for its content; any other
is ignored, and the log is replayed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osrl.study.events import Created, Event, Verdict
from osrl.study.fold import Fold, Pending
from osrl.study.prefix import Ended, Prefix
from osrl.study.storage import Snapshot
from osrl.study.versions import versions

FORMAT = 5
EVERY = 1000  # events between two snapshots

_HEADER, _TICKETS, _DRAWS, _REWARDS, _STATE = "header", "tickets", "draws", "rewards", "state."


def pack(fold: Fold) -> Snapshot:
    """The fold as bytes."""
    header = {"format": FORMAT, "versions": dict(versions()), **facts(fold)}
    arrays: dict[str, Any] = {_STATE + name: array for name, array in fold.arrays()}
    arrays |= _waiting_arrays(fold)
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return Snapshot(fold.position, file.getvalue())


def facts(fold: Fold) -> dict[str, Any]:
    """All that a fold consists of besides arrays, as JSON knows it."""
    prefix = fold.prefix
    waiting = [] if prefix is None else list(prefix.ended.items())
    return {
        "position": fold.position,
        "at": fold.last.at,
        "head": fold.last.hash,
        "recovered": list(fold.recovered),
        "kept": fold.kept,
        "writers": [dict(writer) for writer in fold.writers],
        "asked": fold.asked,
        "told": fold.told,
        "abandoned": fold.abandoned,
        "left_out": fold.left_out,
        "design": fold.design,
        "verdict": None if fold.verdict is None else _plain(asdict(fold.verdict)),
        "pending": [
            [trial, p.x, p.a, p.at, p.hash, p.until, p.ticket.size] for trial, p in fold.pending.items()
        ],
        "ended": [[trial, e.x, e.a, e.ticket.size] for trial, e in waiting],
        "queues": [] if prefix is None else [list(queue) for queue in prefix.queues()],
        "passed": [] if prefix is None else sorted(prefix.passed),
        "whole": prefix is None or prefix.whole,
    }


def all_arrays(fold: Fold) -> dict[str, NDArray[Any]]:
    """Every array that a fold consists of."""
    return {**dict(fold.arrays()), **_waiting_arrays(fold)}


def _waiting_arrays(fold: Fold) -> dict[str, NDArray[Any]]:
    """Tickets and rewards of the trials that are pending, or wait for an earlier one."""
    waiting = [] if fold.prefix is None else list(fold.prefix.ended.values())
    tickets = [p.ticket for p in fold.pending.values()] + [e.ticket for e in waiting]
    return {
        _TICKETS: np.concatenate(tickets) if tickets else np.zeros(0),
        _DRAWS: np.array([p.draw for p in fold.pending.values()]),
        _REWARDS: np.array([e.reward for e in waiting], float),
    }


def unpack(snapshot: Snapshot, created: Created) -> Fold | None:
    """The fold that a snapshot holds; None where it cannot be used, whatever is wrong with it."""
    try:
        return _unpack(snapshot, created)
    except Exception:  # a cache that is damaged may raise anything, and is not worth an error
        return None


def _unpack(snapshot: Snapshot, created: Created) -> Fold | None:
    with np.load(io.BytesIO(snapshot.content), allow_pickle=False) as file:
        header = json.loads(file[_HEADER].tobytes())
        if header["format"] != FORMAT or header["versions"] != versions():
            return None
        arrays = {name.removeprefix(_STATE): file[name] for name in file.files if name.startswith(_STATE)}
        tickets, draws, rewards = file[_TICKETS], file[_DRAWS], file[_REWARDS]
    fold = Fold(created)
    own = dict(fold.arrays())
    if {name: array.shape for name, array in own.items()} != {k: v.shape for k, v in arrays.items()}:
        return None
    for name, array in own.items():
        array[...] = arrays[name]
    sizes = [entry[-1] for entry in (*header["pending"], *header["ended"])]
    parts = iter(np.split(tickets, np.cumsum(sizes)))
    for (trial, x, a, at, handed_out, until, _), draw in zip(header["pending"], draws, strict=True):
        fold.pending[trial] = Pending(x, a, at, next(parts).copy(), handed_out, draw.copy(), until)
    if fold.prefix is not None:
        _unpack_prefix(fold.prefix, header, parts, rewards)
    fold.position = snapshot.position
    fold.last = Event(snapshot.position - 1, header["at"], created, header["head"])
    fold.recovered, fold.kept = header["recovered"], header["kept"]
    fold.asked, fold.told, fold.abandoned = header["asked"], header["told"], header["abandoned"]
    fold.left_out = header["left_out"]
    fold.design, fold.writers = header["design"], header["writers"]
    fold.verdict = None if header["verdict"] is None else Verdict(**header["verdict"])
    return fold


def _unpack_prefix(prefix: Prefix, header: Any, tickets: Iterator[Any], rewards: Any) -> None:
    """The trials that wait for an earlier one."""
    for queue, trials in zip(prefix.queues(), header["queues"], strict=True):
        queue.extend(trials)
    prefix.passed.update(header["passed"])
    prefix.whole = header["whole"]
    for (trial, x, a, _), reward in zip(header["ended"], rewards.tolist(), strict=True):
        prefix.ended[trial] = Ended(x, a, next(tickets).copy(), reward)


def _plain(verdict: dict[str, Any]) -> dict[str, Any]:
    return {key: value if isinstance(value, str) else list(value) for key, value in verdict.items()}

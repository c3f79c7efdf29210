"""Snapshots: a progress as bytes, so that opening a long study does not replay all of it.

A snapshot is a cache. It holds plain arrays and a JSON header, and is used only by a program of the
same versions as the one that wrote it, and only if an event of the log vouches for its content; any other
is ignored, and the log is replayed.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osrl.study.events import Asked, Created, Event, Kept, Verdict
from osrl.study.prefix import Prefix
from osrl.study.progress import Progress
from osrl.study.storage import Snapshot
from osrl.study.versions import versions
from osrl.study.waiting import Ended, Pending

FORMAT = 13
EVERY = 1000  # events between two snapshots

_HEADER, _TICKETS, _DRAWS, _REWARDS, _STATE = "header", "tickets", "draws", "rewards", "state."


def pack(progress: Progress) -> Snapshot:
    """The progress as bytes."""
    header = {"format": FORMAT, "versions": dict(versions()), **facts(progress)}
    arrays: dict[str, Any] = {_STATE + name: array for name, array in progress.arrays()}
    arrays |= _waiting_arrays(progress)
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return Snapshot(progress.position, file.getvalue())


def facts(progress: Progress) -> dict[str, Any]:
    """All that a progress consists of besides arrays, as JSON knows it."""
    prefix = progress.prefix
    waiting = [] if prefix is None else list(prefix.ended.items())
    return {
        "position": progress.position,
        "at": progress.last.at,
        "head": progress.last.hash,
        "recovered": list(progress.recovered),
        "kept": progress.kept,
        "writers": [dict(writer) for writer in progress.writers],
        "asked": progress.asked,
        "told": progress.told,
        "abandoned": progress.abandoned,
        "left_out": progress.left_out,
        "pace": progress.pace.facts(),
        "design": progress.design,
        "paused": progress.paused,
        "stages": [
            [first, list(c.representations), list(c.predictors), list(c.tasks), c.budget]
            for first, c in progress.stages
        ],
        "verdict": None if progress.verdict is None else _plain(asdict(progress.verdict)),
        "pending": [
            [trial, p.x, p.a, p.at, p.hash, vars(p.asked), p.stage, p.ticket.size]
            for trial, p in progress.pending.items()
        ],
        "ended": [[trial, e.x, e.a, e.ticket.size] for trial, e in waiting],
        "queues": [] if prefix is None else [list(queue) for queue in prefix.queues()],
        "passed": [] if prefix is None else sorted(prefix.passed),
        "whole": prefix is None or prefix.whole,
    }


def all_arrays(progress: Progress) -> dict[str, NDArray[Any]]:
    """Every array that a progress consists of."""
    return {**dict(progress.arrays()), **_waiting_arrays(progress)}


def _waiting_arrays(progress: Progress) -> dict[str, NDArray[Any]]:
    """Tickets and rewards of the trials that are pending, or wait for an earlier one."""
    waiting = [] if progress.prefix is None else list(progress.prefix.ended.values())
    tickets = [p.ticket for p in progress.pending.values()] + [e.ticket for e in waiting]
    return {
        _TICKETS: np.concatenate(tickets) if tickets else np.zeros(0),
        _DRAWS: np.array([p.draw for p in progress.current.values()]),
        _REWARDS: np.array([e.reward for e in waiting], float),
    }


def vouched(snapshot: Snapshot, event: Event | None) -> bool:
    """Whether the log says that this snapshot was kept: it can set a verdict, so it must be in the chain."""
    body = None if event is None else event.body
    return isinstance(body, Kept) and body.digest == hashlib.sha256(snapshot.content).hexdigest()


def unpack(snapshot: Snapshot, created: Created) -> Progress | None:
    """The progress that a snapshot holds; None where it cannot be used, whatever is wrong with it."""
    try:
        return _unpack(snapshot, created)
    except Exception:  # a cache that is damaged may raise anything, and is not worth an error
        return None


def _unpack(snapshot: Snapshot, created: Created) -> Progress | None:
    with np.load(io.BytesIO(snapshot.content), allow_pickle=False) as file:
        header = json.loads(file[_HEADER].tobytes())
        if header["format"] != FORMAT or header["versions"] != versions():
            return None
        arrays = {name.removeprefix(_STATE): file[name] for name in file.files if name.startswith(_STATE)}
        tickets, draws, rewards = file[_TICKETS], file[_DRAWS], file[_REWARDS]
    progress = Progress(created)
    _unpack_stages(progress, header["stages"])
    own = dict(progress.arrays())
    if {name: array.shape for name, array in own.items()} != {k: v.shape for k, v in arrays.items()}:
        return None
    for name, array in own.items():
        array[...] = arrays[name]
    sizes = [entry[-1] for entry in (*header["pending"], *header["ended"])]
    parts = iter(np.split(tickets, np.cumsum(sizes)))
    drawn, now = iter(draws), len(header["stages"])
    for number, x, a, at, handed_out, asked, stage, _ in header["pending"]:
        ticket, draw = next(parts).copy(), next(drawn).copy() if stage == now else np.zeros(0)
        said = Asked(**asked)
        progress.wait_for(number, Pending(x, a, at, ticket, handed_out, draw, said, stage))
    if progress.prefix is not None:
        _unpack_prefix(progress.prefix, header, parts, rewards)
    progress.position = snapshot.position
    progress.last = Event(snapshot.position - 1, header["at"], created, header["head"])
    progress.recovered, progress.kept = header["recovered"], header["kept"]
    progress.asked, progress.told, progress.abandoned = header["asked"], header["told"], header["abandoned"]
    progress.left_out = header["left_out"]
    progress.paused = header["paused"]
    progress.pace.set(**header["pace"])
    progress.design, progress.writers = header["design"], header["writers"]
    progress.verdict = None if header["verdict"] is None else Verdict(**header["verdict"])
    return progress


def _unpack_stages(progress: Progress, stages: Any) -> None:
    """The stages that the study has gone through."""
    for i, (first, representations, predictors, tasks, budget) in enumerate(stages):
        if i:
            progress.asked = first - 1
            progress.begin_stage(representations, predictors, tasks)
        if budget != progress.created.budget:
            progress.set_budget(budget)


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

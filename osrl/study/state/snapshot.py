"""Snapshots: a progress as bytes, so that opening a long study does not replay all of it.

A snapshot is a cache. It holds plain arrays and a JSON header, and is used only by a program of the
same versions as the one that wrote it, and only if an event of the log vouches for its content; any other
is ignored, and the log is replayed. Trials that wait are kept in parts (`osrl.study.state.snapshot_parts`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osrl.study.log.events import Created, Event, SnapshotTaken, Verdict
from osrl.study.log.versions import versions
from osrl.study.state.pending import EndedTrial
from osrl.study.state.snapshot_parts import EMPTY, Index, Part, from_bytes, read_parts, to_bytes, write_parts
from osrl.study.state.state import StudyState
from osrl.study.storage.base import Snapshot

FORMAT = 13
EVERY = 1000  # events between two snapshots

_STATE = "state."
_TRIALS, _HOME, _ENDED, _REWARDS = "waiting.trials", "waiting.home", "waiting.ended", "waiting.rewards"


def pack(progress: StudyState, before: Snapshot | None = None) -> Snapshot:
    """The progress as bytes; ``before`` is the snapshot that was kept last, whose parts need no new copy."""
    ended = _ended(progress)
    index, part = write_parts(_index_of(progress, before), progress.pending, ended, progress.position)
    header = {"format": FORMAT, "versions": dict(versions()), "parts": index.parts, **_few_facts(progress)}
    arrays: dict[str, NDArray[Any]] = {_STATE + name: array for name, array in progress.arrays()}
    arrays[_TRIALS] = np.diff(index.trials, prepend=0).astype(np.uint32)  # small numbers, which compress well
    arrays[_HOME] = index.home.astype(np.uint32)
    arrays[_ENDED] = np.isin(index.trials, list(ended))
    arrays[_REWARDS] = np.array([ended[trial].reward for trial in sorted(ended)], float)
    parts = () if part is None else ((progress.position, part),)
    older = tuple(each.position for each in index.parts if each.position != progress.position)
    return Snapshot(progress.position, to_bytes(header, arrays), parts, older)


def _index_of(progress: StudyState, snapshot: Snapshot | None) -> Index:
    """The parts of the last snapshot, if the log vouches for it and they are all there."""
    if snapshot is None or hashlib.sha256(snapshot.content).hexdigest() != progress.kept_digest:
        return EMPTY
    try:
        header, arrays = from_bytes(snapshot.content)
        if header["format"] != FORMAT or header["versions"] != versions():
            return EMPTY
        index = _read_index(header, arrays)
    except Exception:  # of another format
        return EMPTY
    return index if {part.position for part in index.parts} <= set(snapshot.older) else EMPTY


def _read_index(header: Any, arrays: Mapping[str, NDArray[Any]]) -> Index:
    parts = tuple(Part(*part) for part in header["parts"])
    return Index(parts, np.cumsum(arrays[_TRIALS], dtype=np.int64), arrays[_HOME].astype(np.int64))


def _ended(progress: StudyState) -> dict[int, EndedTrial]:
    """The trials that wait for an earlier one. After the verdict there is nothing to wait for."""
    return {} if progress.in_order is None or progress.verdict is not None else progress.in_order.ended


def _few_facts(progress: StudyState) -> dict[str, Any]:
    """All that a progress consists of besides arrays and the trials that wait, as JSON knows it."""
    prefix, after = progress.in_order, progress.asked + 1
    queues = () if prefix is None else prefix.queues()
    return {
        "position": progress.position,
        "at": progress.last.at,
        "head": progress.last.hash,
        "recovered": list(progress.recovered),
        "kept": [progress.kept, progress.kept_digest],
        "writers": [dict(writer) for writer in progress.writers],
        "asked": progress.asked,
        "told": progress.told,
        "abandoned": progress.abandoned,
        "left_out": progress.left_out,
        "pace": progress.arrival_stats.facts(),
        "design": progress.design,
        "paused": progress.paused,
        "stages": [
            [first, list(c.representations), list(c.predictors), list(c.tasks), c.budget]
            for first, c in progress.stages
        ],
        "verdict": None if progress.verdict is None else _plain(asdict(progress.verdict)),
        # From the first of each queue on, trials wait; pending ones before it have been passed.
        "firsts": [queue[0] if queue else after for queue in queues] if progress.verdict is None else [],
        "whole": prefix is None or prefix.whole,
    }


def facts(progress: StudyState) -> dict[str, Any]:
    """All that a progress consists of besides arrays, as JSON knows it."""
    prefix = progress.in_order if progress.verdict is None else None
    return {
        **_few_facts(progress),
        "pending": [
            [trial, p.x, p.a, p.at, p.hash, vars(p.asked), p.stage, p.ticket.size]
            for trial, p in progress.pending.items()
        ],
        "ended": [[trial, e.x, e.a] for trial, e in sorted(_ended(progress).items())],
        "queues": [] if prefix is None else [list(queue) for queue in prefix.queues()],
        "passed": [] if prefix is None else sorted(prefix.passed),
    }


def all_arrays(progress: StudyState) -> dict[str, NDArray[Any]]:
    """Every array that a progress consists of."""
    ended = _ended(progress)
    waiting = [ended[trial] for trial in sorted(ended)]
    tickets = [p.ticket for p in progress.pending.values()] + [e.ticket for e in waiting]
    return {
        **dict(progress.arrays()),
        "tickets": np.concatenate(tickets) if tickets else np.zeros(0),
        "draws": np.array([p.draw for p in progress.current.values()]),
        "rewards": np.array([e.reward for e in waiting], float),
    }


def vouched(snapshot: Snapshot, event: Event | None) -> bool:
    """Whether the log says that this snapshot was kept: it can set a verdict, so it must be in the chain."""
    body = None if event is None else event.body
    return isinstance(body, SnapshotTaken) and body.digest == hashlib.sha256(snapshot.content).hexdigest()


def unpack(snapshot: Snapshot, created: Created) -> StudyState | None:
    """The progress that a snapshot holds; None where it cannot be used, whatever is wrong with it."""
    try:
        return _unpack(snapshot, created)
    except Exception:  # a cache that is damaged may raise anything, and is not worth an error
        return None


def _unpack(snapshot: Snapshot, created: Created) -> StudyState | None:
    header, arrays = from_bytes(snapshot.content)
    if header["format"] != FORMAT or header["versions"] != versions():
        return None
    progress = StudyState(created)
    _unpack_stages(progress, header["stages"])
    own = {_STATE + name: array for name, array in progress.arrays()}
    kept = {name: array for name, array in arrays.items() if name.startswith(_STATE)}
    if {name: array.shape for name, array in own.items()} != {k: v.shape for k, v in kept.items()}:
        return None
    for name, array in own.items():
        array[...] = kept[name]
    index = _read_index(header, arrays)
    rewards = zip(index.trials[arrays[_ENDED]].tolist(), arrays[_REWARDS].tolist(), strict=True)
    pending, ended = read_parts(index, dict(snapshot.parts), dict(rewards), len(progress.stages))
    for trial, one in pending.items():
        progress.wait_for(trial, one)
    _unpack_prefix(progress, header, ended)
    progress.position = snapshot.position
    progress.last = Event(snapshot.position - 1, header["at"], created, header["head"])
    progress.recovered = header["recovered"]
    progress.kept, progress.kept_digest = header["kept"]
    progress.asked, progress.told, progress.abandoned = header["asked"], header["told"], header["abandoned"]
    progress.left_out = header["left_out"]
    progress.paused = header["paused"]
    progress.arrival_stats.set(**header["pace"])
    progress.design, progress.writers = header["design"], header["writers"]
    progress.verdict = None if header["verdict"] is None else Verdict(**header["verdict"])
    return progress


def _unpack_stages(progress: StudyState, stages: Any) -> None:
    """The stages that the study has gone through."""
    for i, (first, representations, predictors, tasks, budget) in enumerate(stages):
        if i:
            progress.asked = first - 1
            progress.begin_stage(representations, predictors, tasks)
        if budget != progress.created.budget:
            progress.set_budget(budget)


def _unpack_prefix(progress: StudyState, header: Any, ended: dict[int, EndedTrial]) -> None:
    """The order in which trials wait."""
    prefix = progress.in_order
    if prefix is None:
        return
    prefix.whole = header["whole"]
    if not header["firsts"]:
        return
    first, *of_tasks = header["firsts"]
    prefix.ended.update(ended)
    prefix.passed.update(trial for trial in progress.current if trial < first)
    waiting = {trial: one.x for trial, one in progress.current.items() if trial >= first}
    waiting |= {trial: one.x for trial, one in ended.items()}
    for trial in sorted(waiting):
        prefix.order.append(trial)
        if trial >= of_tasks[waiting[trial]]:
            prefix.of_task[waiting[trial]].append(trial)


def _plain(verdict: dict[str, Any]) -> dict[str, Any]:
    return {key: value if isinstance(value, str) else list(value) for key, value in verdict.items()}

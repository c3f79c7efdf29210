"""Snapshots: a state as bytes, so that opening a long study does not replay all of it.

A snapshot is a cache. It holds plain arrays and a JSON header, and is used only by a program of the same versions
as the one that wrote it, and only if an event of the log vouches for its content; any other is ignored, and the log
is replayed.

**Parts.** Where results are late, thousands of trials are pending or wait for an earlier one, and few of those are
new since the last snapshot. A *part* holds what has been known of some trials since they were issued, which never
changes; it is written once. A snapshot says which parts it needs, by their digests, and which of their trials still
wait. A part is dropped when fewer than half of its trials wait, or fewer than `MIN_PART`: those are written again, in
the part of the next snapshot. So what is written for an event does not grow with the number of trials that wait.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.model.arrays import Integers
from osrl.study.log.events import Asked, Created, Event, SnapshotTaken, Verdict
from osrl.study.log.versions import versions
from osrl.study.state.in_order import EndedTrial, Pending
from osrl.study.state.state import StudyState
from osrl.study.storage.base import Snapshot

FORMAT = 13
SNAPSHOT_INTERVAL = 1000  # events between two snapshots
MIN_PART = 500  # trials that make a part worth keeping

_HEADER = "header"
_STATE = "state."
_TRIALS, _HOME, _ENDED, _REWARDS = "waiting.trials", "waiting.home", "waiting.ended", "waiting.rewards"


class Part(NamedTuple):
    """A part: the position of the snapshot that it was written with, its digest (SHA-256), its trials."""

    position: int
    digest: str
    size: int


class Index(NamedTuple):
    """Which trials wait (k,), in increasing order, and in which of the ``parts`` each is found (k,)."""

    parts: tuple[Part, ...]
    trials: Integers
    home: Integers


EMPTY = Index((), np.zeros(0, np.int64), np.zeros(0, np.int64))


def pack(state: StudyState, before: Snapshot | None = None) -> Snapshot:
    """Return a state as bytes; ``before`` is the snapshot that was kept last, whose parts need no new copy."""
    ended = _ended(state)
    index, part = write_parts(_index_of(state, before), state.pending, ended, state.position)
    header = {"format": FORMAT, "versions": dict(versions()), "parts": index.parts, **_compact_facts(state)}
    arrays: dict[str, NDArray[Any]] = {_STATE + name: array for name, array in state.arrays()}
    arrays[_TRIALS] = np.diff(index.trials, prepend=0).astype(np.uint32)  # small numbers, which compress well
    arrays[_HOME] = index.home.astype(np.uint32)
    arrays[_ENDED] = np.isin(index.trials, list(ended))
    arrays[_REWARDS] = np.array([ended[trial].reward for trial in sorted(ended)], float)
    parts = () if part is None else ((state.position, part),)
    older = tuple(each.position for each in index.parts if each.position != state.position)
    return Snapshot(state.position, to_bytes(header, arrays), parts, older)


def _index_of(state: StudyState, snapshot: Snapshot | None) -> Index:
    """Return the parts of the last snapshot, if the log vouches for it and they are all there."""
    if snapshot is None or hashlib.sha256(snapshot.content).hexdigest() != state.snapshot_digest:
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


def _ended(state: StudyState) -> dict[int, EndedTrial]:
    """Return the trials that wait for an earlier one. After the verdict there is nothing to wait for."""
    return {} if state.in_order is None or state.verdict is not None else state.in_order.ended


def _compact_facts(state: StudyState) -> dict[str, Any]:
    """Return for JSON what a state consists of besides arrays and the trials that wait."""
    in_order, after = state.in_order, state.asked + 1
    queues = () if in_order is None else in_order.queues()
    return {
        "position": state.position,
        "at": state.last.at,
        "head": state.last.hash,
        "recovered": list(state.recovered),
        "kept": [state.snapshot_at, state.snapshot_digest],
        "writers": [dict(writer) for writer in state.writers],
        "asked": state.asked,
        "told": state.told,
        "abandoned": state.abandoned,
        "left_out": state.left_out,
        "pace": state.arrival_stats.facts(),
        "design": state.design,
        "paused": state.paused,
        "stages": [
            [first, list(c.representations), list(c.predictors), list(c.tasks), c.budget] for first, c in state.stages
        ],
        "verdict": None if state.verdict is None else _plain(asdict(state.verdict)),
        # From the first of each queue on, trials wait; pending ones before it have been passed.
        "firsts": [queue[0] if queue else after for queue in queues] if state.verdict is None else [],
        "whole": in_order is None or in_order.whole,
    }


def facts(state: StudyState) -> dict[str, Any]:
    """Return for JSON what a state consists of besides arrays."""
    in_order = state.in_order if state.verdict is None else None
    return {
        **_compact_facts(state),
        "pending": [
            [trial, p.x, p.a, p.at, p.hash, vars(p.asked), p.stage, p.ticket.size] for trial, p in state.pending.items()
        ],
        "ended": [[trial, e.x, e.a] for trial, e in sorted(_ended(state).items())],
        "queues": [] if in_order is None else [list(queue) for queue in in_order.queues()],
        "passed": [] if in_order is None else sorted(in_order.passed),
    }


def all_arrays(state: StudyState) -> dict[str, NDArray[Any]]:
    """Return every array that a state consists of."""
    ended = _ended(state)
    waiting = [ended[trial] for trial in sorted(ended)]
    tickets = [p.ticket for p in state.pending.values()] + [e.ticket for e in waiting]
    return {
        **dict(state.arrays()),
        "tickets": np.concatenate(tickets) if tickets else np.zeros(0),
        "draws": np.array([p.draw for p in state.current.values()]),
        "rewards": np.array([e.reward for e in waiting], float),
    }


def vouched(snapshot: Snapshot, event: Event | None) -> bool:
    """Tell whether ``event`` says that this snapshot was kept: it can set a verdict, so it must be in the chain."""
    body = None if event is None else event.body
    return isinstance(body, SnapshotTaken) and body.digest == hashlib.sha256(snapshot.content).hexdigest()


def unpack(snapshot: Snapshot, created: Created) -> StudyState | None:
    """Return the state that a snapshot holds; None where it cannot be used, whatever is wrong with it."""
    try:
        return _unpack(snapshot, created)
    except Exception:  # a cache that is damaged may raise anything, and is not worth an error
        return None


def _unpack(snapshot: Snapshot, created: Created) -> StudyState | None:
    header, arrays = from_bytes(snapshot.content)
    if header["format"] != FORMAT or header["versions"] != versions():
        return None
    state = StudyState(created)
    _unpack_stages(state, header["stages"])
    own = {_STATE + name: array for name, array in state.arrays()}
    kept = {name: array for name, array in arrays.items() if name.startswith(_STATE)}
    if {name: array.shape for name, array in own.items()} != {k: v.shape for k, v in kept.items()}:
        return None
    for name, array in own.items():
        array[...] = kept[name]
    index = _read_index(header, arrays)
    rewards = zip(index.trials[arrays[_ENDED]].tolist(), arrays[_REWARDS].tolist(), strict=True)
    pending, ended = read_parts(index, dict(snapshot.parts), dict(rewards), len(state.stages))
    for trial, one in pending.items():
        state.add_pending(trial, one)
    _unpack_order(state, header, ended)
    state.position = snapshot.position
    state.last = Event(snapshot.position - 1, header["at"], created, header["head"])
    state.recovered = header["recovered"]
    state.snapshot_at, state.snapshot_digest = header["kept"]
    state.asked, state.told, state.abandoned = header["asked"], header["told"], header["abandoned"]
    state.left_out = header["left_out"]
    state.paused = header["paused"]
    state.arrival_stats.set(**header["pace"])
    state.design, state.writers = header["design"], header["writers"]
    state.verdict = None if header["verdict"] is None else Verdict(**header["verdict"])
    return state


def _unpack_stages(state: StudyState, stages: Any) -> None:
    """Restore the stages that the study has gone through."""
    for i, (first, representations, predictors, tasks, budget) in enumerate(stages):
        if i:
            state.asked = first - 1
            state.begin_stage(representations, predictors, tasks)
        if budget != state.created.budget:
            state.set_budget(budget)


def _unpack_order(state: StudyState, header: Any, ended: dict[int, EndedTrial]) -> None:
    """Restore the order in which trials wait."""
    in_order = state.in_order
    if in_order is None:
        return
    in_order.whole = header["whole"]
    if not header["firsts"]:
        return
    first, *of_tasks = header["firsts"]
    in_order.ended.update(ended)
    in_order.passed.update(trial for trial in state.current if trial < first)
    waiting = {trial: one.x for trial, one in state.current.items() if trial >= first}
    waiting |= {trial: one.x for trial, one in ended.items()}
    for trial in sorted(waiting):
        in_order.order.append(trial)
        if trial >= of_tasks[waiting[trial]]:
            in_order.of_task[waiting[trial]].append(trial)


def _plain(verdict: dict[str, Any]) -> dict[str, Any]:
    return {key: value if isinstance(value, str) else list(value) for key, value in verdict.items()}


# Parts


def to_bytes(header: object, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return a header for JSON and arrays as one compressed block."""
    file = io.BytesIO()
    np.savez(file, **arrays, **{_HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8)})  # type: ignore[arg-type]
    return zlib.compress(file.getvalue(), 1)


def from_bytes(content: bytes) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a block."""
    with np.load(io.BytesIO(zlib.decompress(content)), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop(_HEADER).tobytes()), arrays


def write_parts(
    before: Index, pending: Mapping[int, Pending], ended: Mapping[int, EndedTrial], position: int
) -> tuple[Index, bytes | None]:
    """Return where the trials that wait are found, and the part that is new, if there is one.

    ``before`` is the index of the last snapshot, ``position`` that of the next one.
    """
    trials = np.fromiter(pending, np.int64, len(pending))  # in the order of hand-out
    if ended:
        trials = np.union1d(trials, np.fromiter(ended, np.int64, len(ended)))
    place = np.minimum(np.searchsorted(before.trials, trials), max(before.trials.size - 1, 0))
    home = np.full(trials.size, -1)
    if before.trials.size:
        found = before.trials[place] == trials
        home[found] = before.home[place[found]]
    count = np.bincount(home[home >= 0], minlength=len(before.parts))
    sizes = np.array([part.size for part in before.parts], np.int64)
    stays = (count >= MIN_PART) & (2 * count >= sizes)
    parts = tuple(part for part, kept in zip(before.parts, stays, strict=True) if kept)
    renumbered = np.append(np.where(stays, np.cumsum(stays) - 1, -1), -1)  # the last for those that have none
    home = renumbered[home]
    new = trials[home < 0]
    if not new.size:
        return Index(parts, trials, home), None
    content = _write(new.tolist(), pending, ended)
    home[home < 0] = len(parts)
    parts += (Part(position, hashlib.sha256(content).hexdigest(), new.size),)
    return Index(parts, trials, home), content


def _write(trials: Sequence[int], pending: Mapping[int, Pending], ended: Mapping[int, EndedTrial]) -> bytes:
    """Return a part with these trials."""
    rows: list[list[Any]] = []
    tickets, draws = [], []
    for trial in trials:
        one = pending.get(trial)
        if one is None:
            other = ended[trial]
            rows.append([trial, other.x, other.a, other.ticket.size])
            tickets.append(other.ticket)
        else:
            known = [one.at, one.hash, vars(one.asked), one.stage, one.draw.size]
            rows.append([trial, one.x, one.a, one.ticket.size, *known])
            tickets.append(one.ticket)
            draws.append(one.draw)
    drawn = np.concatenate(draws) if draws else np.zeros(0)
    return to_bytes(rows, {"tickets": np.concatenate(tickets), "draws": drawn})


def read_parts(
    index: Index, contents: Mapping[int, bytes], rewards: Mapping[int, float], stage: int
) -> tuple[dict[int, Pending], dict[int, EndedTrial]]:
    """Return the trials that wait: those that are pending, and those that have ended with one of the ``rewards``.

    Pending ones of an earlier ``stage`` are no evidence any more. Refuse a part that is not the right one.
    """
    pending: dict[int, Pending] = {}
    ended: dict[int, EndedTrial] = {}
    where = dict(zip(index.trials.tolist(), index.home.tolist(), strict=True))
    nothing = np.zeros(0)
    for number, part in enumerate(index.parts):
        content = contents[part.position]
        if hashlib.sha256(content).hexdigest() != part.digest:
            raise ValueError(f"the part of position {part.position} is not the one that was kept")
        for row, ticket, draw in _rows(content):
            trial, x, a, _, *known = row
            if where.get(trial) != number:
                continue
            if trial in rewards:
                ended[trial] = EndedTrial(x, a, ticket, rewards[trial])
                continue
            at, hash, asked, of_stage, _ = known
            now = of_stage == stage
            pending[trial] = Pending(
                x, a, at, ticket if now else nothing, hash, draw if now else nothing, Asked(**asked), of_stage
            )
    if len(pending) + len(ended) != len(where):
        raise ValueError("a trial is in no part")
    return {trial: pending[trial] for trial in sorted(pending)}, ended


def _rows(content: bytes) -> Iterator[tuple[Any, NDArray[Any], NDArray[Any]]]:
    """Return the rows of a part, each with its ticket and its draw."""
    rows, arrays = from_bytes(content)
    tickets, draws = arrays["tickets"], arrays["draws"]
    at_ticket = at_draw = 0
    for row in rows:
        size, drawn = row[3], row[-1] if len(row) > 4 else 0
        ticket, draw = tickets[at_ticket : at_ticket + size], draws[at_draw : at_draw + drawn]
        at_ticket, at_draw = at_ticket + size, at_draw + drawn
        yield row, ticket.copy(), draw.copy()

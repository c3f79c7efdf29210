"""The trials that wait, in parts, so that a snapshot does not write all of them again.

Where results are late, thousands of trials wait, and of those few are new since the last snapshot. A *part*
holds what is known of some trials since they were handed out, which never changes; it is written once. A
snapshot says which parts it needs, by their digests, and which of their trials still wait. A part goes when
fewer than half of its trials wait, or fewer than `LEAST`: those are written again, in the part of the next
snapshot. So what is written for an event does not grow with the number of trials that wait.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.model.arrays import Integers
from osrl.study.log.events import Asked
from osrl.study.state.pending import EndedTrial, Pending

LEAST = 500  # trials that make a part worth keeping

_HEADER = "header"


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


def to_bytes(header: object, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """A header, as JSON knows it, and arrays, as one compressed block."""
    file = io.BytesIO()
    np.savez(file, **arrays, **{_HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8)})  # type: ignore[arg-type]
    return zlib.compress(file.getvalue(), 1)


def from_bytes(content: bytes) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The header and the arrays of a block."""
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
    stays = (count >= LEAST) & (2 * count >= sizes)
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
    """A part with these trials."""
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
    """The trials that wait: those that are pending, and those that have ended with one of the ``rewards``.

    Pending ones of an earlier ``stage`` are no evidence any more. An error where a part is not the right one.
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
    """The rows of a part, each with its ticket and its draw."""
    rows, arrays = from_bytes(content)
    tickets, draws = arrays["tickets"], arrays["draws"]
    at_ticket = at_draw = 0
    for row in rows:
        size, drawn = row[3], row[-1] if len(row) > 4 else 0
        ticket, draw = tickets[at_ticket : at_ticket + size], draws[at_draw : at_draw + drawn]
        at_ticket, at_draw = at_ticket + size, at_draw + drawn
        yield row, ticket.copy(), draw.copy()

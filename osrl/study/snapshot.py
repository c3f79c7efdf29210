"""Snapshots: a fold as bytes, so that opening a long study does not replay all of it.

A snapshot is a cache. It holds plain arrays and a JSON header, and is used only by a program of the
same versions as the one that wrote it; any other replays the log.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict
from typing import Any

import numpy as np

from osrl.policies.states import arrays_of
from osrl.study.events import Verdict
from osrl.study.fold import Fold, Pending
from osrl.study.storage import Snapshot
from osrl.study.versions import versions

FORMAT = 1
EVERY = 1000  # events between two snapshots

_HEADER, _TICKETS, _STATE = "header", "tickets", "state."


def pack(fold: Fold) -> Snapshot:
    """The fold as bytes."""
    header = {
        "format": FORMAT,
        "versions": dict(versions()),
        "writers": [dict(writer) for writer in fold.writers],
        "asked": fold.asked,
        "told": fold.told,
        "abandoned": fold.abandoned,
        "design": fold.design,
        "verdict": None if fold.verdict is None else asdict(fold.verdict),
        "pending": [[trial, p.x, p.a, p.at, p.ticket.size] for trial, p in fold.pending.items()],
    }
    tickets = [p.ticket for p in fold.pending.values()]
    arrays: dict[str, Any] = {_STATE + name: array for name, array in arrays_of(fold.state)}
    arrays[_TICKETS] = np.concatenate(tickets) if tickets else np.zeros(0)
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return Snapshot(fold.position, file.getvalue())


def unpack(snapshot: Snapshot, fold: Fold) -> bool:
    """Bring a new fold to where the snapshot is; False, and nothing done, where it cannot be used."""
    try:
        with np.load(io.BytesIO(snapshot.content), allow_pickle=False) as file:
            header = json.loads(file[_HEADER].tobytes())
            if header["format"] != FORMAT or header["versions"] != versions():
                return False
            arrays = {name.removeprefix(_STATE): file[name] for name in file.files if name.startswith(_STATE)}
            tickets = file[_TICKETS]
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        return False
    own = dict(arrays_of(fold.state))
    if {name: array.shape for name, array in own.items()} != {k: v.shape for k, v in arrays.items()}:
        return False
    for name, array in own.items():
        array[...] = arrays[name]
    first = 0
    for trial, x, a, at, size in header["pending"]:
        fold.pending[trial] = Pending(x, a, at, tickets[first : first + size].copy())
        first += size
    fold.position = snapshot.position
    fold.asked, fold.told, fold.abandoned = header["asked"], header["told"], header["abandoned"]
    fold.design, fold.writers = header["design"], header["writers"]
    fold.verdict = None if header["verdict"] is None else Verdict(**header["verdict"])
    return True

"""The folder of a campaign: `manifest.json`, and finished runs in Parquet files beside it.

Without a folder, runs are written to a temporary one, so that memory stays flat; it is not synchronised.

A file appears whole or not at all, and holds the runs of its header. So a campaign that was
interrupted, even by a power cut, continues with the runs that no file holds. The name of a file has a digest of
its content: one that is damaged, or a copy under another name, is removed and computed again where it is
needed, and no run counts twice. One process at a time may write to a folder. A folder with anything else
is refused.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from osrl.errors import OsrlError
from osrl.files import replace_file
from osrl.simulation.campaign import Campaign, restore_campaign
from osrl.simulation.chunk import Chunk, ChunkHeader

if sys.platform != "win32":
    import fcntl

MANIFEST = "manifest.json"
_DIFFERENCES = {
    "format": "in another format",
    "versions": "made with other versions of osrl, numpy, numba or a policy",
    "instance": "on another instance",
    "seed": "with another seed",
    "budget": "with another budget",
    "epsilon": "with another tolerance",
    "rewards": "with other rewards of one's own",
    "jobs": "with other policies, thresholds, risks or options",
}


class ChunkFile(NamedTuple):
    """A file with finished runs."""

    path: Path
    header: ChunkHeader


def open_store(folder: str | os.PathLike[str]) -> ResultsStore:
    """Open the folder of a campaign for reading: nothing is written, and nothing removed."""
    place = Path(folder)
    try:
        manifest = json.loads((place / MANIFEST).read_bytes())
        campaign = restore_campaign(manifest)
    except (OSError, ValueError, TypeError, KeyError):
        raise OsrlError(f"{place} holds no campaign; give a folder that osrl simulate --out has written") from None
    store = ResultsStore(campaign, place)
    store.find_parts()
    missing = store.left()
    if missing:
        raise OsrlError(f"{missing} runs in {place} are not finished; repeat the command that began them")
    return store


class ResultsStore:
    """The folder of a campaign, a context manager that locks it for writing. Without a folder, a temporary one.

    A temporary folder vanishes with this object; what it holds need not survive a power cut.
    """

    def __init__(self, campaign: Campaign, folder: str | os.PathLike[str] | None) -> None:
        self.campaign = campaign
        self._parts: dict[str, ChunkFile] = {}
        self._lock: int | None = None
        self._temporary = folder is None
        if folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="osrl-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        else:
            self._folder = Path(folder)

    def parts(self, job: int) -> list[ChunkFile]:
        """Return the files with finished runs of a job, in order."""
        return sorted((part for part in self._parts.values() if part.header.job == job), key=_run_order)

    def gaps(self, job: int) -> list[range]:
        """Return the runs of a job that no file holds."""
        gaps, start = [], 0
        for part in self.parts(job):
            gaps.append(range(start, part.header.first))
            start = part.header.first + part.header.runs
        gaps.append(range(start, self.campaign.runs))
        return [range(gap.start, min(gap.stop, self.campaign.runs)) for gap in gaps]

    def left(self) -> int:
        """Return how many runs are still to be computed, over all jobs."""
        return sum(len(gap) for job in self.campaign.jobs for gap in self.gaps(job.number))

    def keep(self, chunk: Chunk) -> None:
        """Write finished runs; in a folder that was given they are safe when this returns."""
        name = chunk.header.file_name(chunk.table)
        self._write(name, chunk.table)
        self._parts[name] = ChunkFile(self._folder / name, chunk.header)

    def __enter__(self) -> ResultsStore:
        if self._temporary:
            return self
        try:
            self._open()
        except BaseException:
            self._unlock()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unlock()

    def _unlock(self) -> None:
        """Unlock the folder for other processes."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _open(self) -> None:
        """Lock the folder, find the finished runs, and write the manifest."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self._folder)
            names = sorted(path.name for path in self._folder.iterdir())
        except OSError as error:
            what = f"{self._folder} cannot be used: {error.strerror}"
            raise OsrlError(f"{what}; give a folder that you may write to") from None
        runs = 0
        if MANIFEST in names:
            runs = self._check_manifest()
        elif names:
            raise OsrlError(f"{self._folder} holds {names[0]!r} and no campaign; give a new or empty folder")
        self._read_parts()
        if runs < self.campaign.runs:
            manifest = {**self.campaign.manifest, "runs": self.campaign.runs}
            self._write(MANIFEST, json.dumps(manifest, indent=2).encode())

    def _check_manifest(self) -> int:
        """Refuse the manifest of another campaign; return the number of runs that it was made for."""
        try:
            manifest = json.loads((self._folder / MANIFEST).read_bytes())
            runs = int(manifest["runs"])
        except (OSError, ValueError, TypeError, KeyError):
            raise OsrlError(
                f"{self._folder / MANIFEST} is no manifest of a campaign; give a new or empty folder"
            ) from None
        for key, value in self.campaign.manifest.items():
            if manifest.get(key) != value:
                raise OsrlError(f"{self._folder} holds a campaign {_DIFFERENCES[key]}; give another folder")
        return runs

    def _read_parts(self) -> None:
        """Find the finished runs; remove files that are damaged, not finished, or of no use."""
        lost = [path for path in self._folder.glob(".*") if path.name.startswith((".runs-", f".{MANIFEST}"))]
        for path in lost + self.find_parts():
            path.unlink()

    def find_parts(self) -> list[Path]:
        """Find the finished runs, and return the files that are of no use."""
        lost, parts = [], []
        for path in self._folder.glob("runs-*.parquet"):
            try:
                content = path.read_bytes()
                header = ChunkHeader.read(content)
            except OSError as error:
                raise OsrlError(f"{path} cannot be read: {error.strerror}; make it readable") from None
            except ValueError:
                lost.append(path)
                continue
            if header.campaign != self.campaign.name:
                raise OsrlError(f"{path} belongs to another campaign; move it to another folder")
            if path.name == header.file_name(content):
                parts.append(ChunkFile(path, header))
            else:
                lost.append(path)
        end = (-1, 0)  # of the runs that are there: a job, and the first run of it that is not
        for part in sorted(parts, key=_run_order):
            if (part.header.job, part.header.first) < end:
                lost.append(part.path)
            else:
                end = (part.header.job, part.header.first + part.header.runs)
                self._parts[part.path.name] = part
        return lost

    def _write(self, name: str, content: bytes) -> None:
        try:
            if self._temporary:
                (self._folder / name).write_bytes(content)
            else:
                replace_file(self._folder / name, content)
        except OSError as error:
            raise OsrlError(
                f"cannot write to {self._folder}: {error.strerror}; finished runs are kept, "
                "make room and repeat the command"
            ) from None


def _run_order(part: ChunkFile) -> tuple[int, int, int]:
    """Return the sort key of a file: by runs; of those that begin with the same run, the longest first."""
    return part.header.job, part.header.first, -part.header.runs


def _lock(folder: Path) -> int | None:
    """Keep other processes from writing to the folder until the descriptor is closed, or we end."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise OsrlError(f"{folder} is being written by another process; wait for it") from None
    except OSError:  # a file system without locks
        pass
    return descriptor

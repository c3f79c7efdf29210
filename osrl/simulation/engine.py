"""What an engine is, and the loop that keeps one busy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from osrl.simulation.chunk import Chunk, Job
from osrl.simulation.schedule import Schedule


class Engine(Protocol):
    """Somewhere to compute chunks: threads of this process, or a cluster."""

    @property
    def seconds(self) -> float:
        """How long a chunk should take."""

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Get ready to compute chunks of ``jobs``."""

    def slots(self) -> int:
        """How many chunks to have under way: enough to be busy, few enough for flat memory."""

    def start(self, job: Job, first: int, runs: int) -> None:
        """Begin to compute a chunk."""

    def finished(self) -> list[Chunk]:
        """Wait until some chunks are finished."""

    def stop(self) -> list[Chunk]:
        """Give up what is under way; what was finished of it."""


def drive(engine: Engine, schedule: Schedule, keep: Callable[[Chunk], None]) -> None:
    """Compute all that is scheduled. When interrupted, keep what is finished; ``keep`` may see it twice."""
    under_way = 0
    chunks: list[Chunk] = []
    try:
        while True:
            slots = engine.slots()
            while under_way < slots and (piece := schedule.take(slots, engine.seconds)) is not None:
                engine.start(*piece)
                under_way += 1
            if under_way == 0:
                return
            chunks = engine.finished()
            under_way -= len(chunks)
            for chunk in chunks:
                schedule.learn(chunk.label)
                keep(chunk)
    except BaseException:
        for chunk in [*chunks, *engine.stop()]:
            keep(chunk)
        raise

"""Which runs are left, handed out in chunks that take about as long as the engine likes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from osrl.simulation.chunk import Job
from osrl.simulation.results_table import Label

MOST_BYTES = 2**23  # of a chunk, before it is compressed


class Schedule:
    """The runs that are left, job after job.

    The first chunks of a job are single runs. From then on chunks take as long as is asked for, by the
    pace of the latest one. Towards the end of a job they become shorter, down to a tenth, so that workers
    finish at about the same time.
    """

    def __init__(self, gaps: Iterable[tuple[Job, range]]) -> None:
        self._gaps = deque((job, gap) for job, gap in gaps if gap)
        self._pace: dict[int, float] = {}  # job -> seconds of a run

    def take(self, slots: int, seconds: float) -> tuple[Job, int, int] | None:
        """The next chunk of about ``seconds``, as job, first run and number of runs; None at the end.

        ``slots`` is the number of chunks that are computed at the same time.
        """
        if not self._gaps:
            return None
        job, gap = self._gaps.popleft()
        left = len(gap) + sum(len(more) for other, more in self._gaps if other is job)
        pace = self._pace.get(job.number)
        size = 1
        if pace is not None:
            usual = min(seconds / pace, MOST_BYTES / job.bytes_of_a_run)
            size = max(1, int(min(usual, max(left / slots, usual / 10))))
        size = min(size, len(gap))
        if size < len(gap):
            self._gaps.appendleft((job, gap[size:]))
        return job, gap.start, size

    def learn(self, label: Label) -> None:
        """A chunk is finished: its pace is that of the next ones."""
        self._pace[label.job] = max(label.seconds / label.runs, 1e-6)

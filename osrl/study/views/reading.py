"""What is known of a study: its verdict, its evidence, its trials, its log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from osrl.hypotheses.summary import Answer
from osrl.study.log.events import Created, Event
from osrl.study.operations.session import Session
from osrl.study.state.trial import read_answer, short_id
from osrl.study.storage.base import Storage
from osrl.study.views.trials import TrialRecord, find_trials

if TYPE_CHECKING:
    import polars as pl

    from osrl.study.views.forecast import Forecast
    from osrl.study.views.status import PendingTrial, Status
    from osrl.study.views.verify import Verification

Place = str | os.PathLike[str]

MOST_NUMBERS = 1_000  # of pending trials, in a summary


class Reading:
    """The part of a `Study` that changes nothing. Every call sees what others have done before it."""

    __slots__ = ("_session", "_storage", "name")

    _session: Session
    _storage: Storage
    name: str

    @property
    def id(self) -> str:
        """The beginning of the id of this study, which no other one has."""
        with self._session.reading() as progress:
            return short_id(progress.created)

    @property
    def head(self) -> str:
        """The hash of the last event, which stands for the whole log."""
        with self._session.reading() as progress:
            return progress.last.hash

    def plot(self) -> Any:
        """What every arm has brought, with intervals, as an Altair chart."""
        from osrl.report.notebook import chart

        return chart(self)

    def _repr_html_(self) -> str:
        from osrl.report.notebook import html

        return html(self)

    @property
    def place(self) -> str:
        """Where the study is kept, without passwords."""
        return self._storage.place

    @property
    def settings(self) -> Created:
        """What the study was created with."""
        with self._session.reading() as progress:
            return progress.created

    @property
    def verdict(self) -> str:
        """``running``, ``decided``, ``no shared representation`` or ``budget exhausted``."""
        with self._session.reading() as progress:
            return progress.status

    @property
    def best(self) -> Answer:
        """The answer, as far as it is known: the best guess while the study is running."""
        with self._session.reading() as progress:
            return read_answer(progress.created, progress.verdict or progress.best_guess())

    @property
    def evidence(self) -> pl.DataFrame:
        """Each hypothesis with the log evidence against it, and the limit at which it is rejected.

        Without a predictor: "this representation is the best"; with one: "it is the best predictor of this
        representation in this task". Pending trials count by their worst reward, or the evidence is that
        of the trials before them, whichever is larger.
        """
        with self._session.reading() as progress:
            from osrl.study.views.evidence import read_hypotheses
            from osrl.study.views.history import evidence

            return evidence(read_hypotheses(progress))

    @property
    def arms(self) -> pl.DataFrame:
        """Every arm: trials, told, mean with an interval, lift over the answer of its task with an interval.

        With probability 95 % all intervals hold, at all times at once: see `osrl.study.views.arms`.
        """
        with self._session.reading() as progress:
            from osrl.study.views.arms import read_rates
            from osrl.study.views.history import rates

            return rates(read_rates(progress, progress.verdict or progress.best_guess()))

    @property
    def expected_remaining(self) -> float | None:
        """About how many more trials are needed: the median of the forecast; None if nothing is known yet."""
        return None if self.forecast is None else self.forecast.median

    @property
    def forecast(self) -> Forecast | None:
        """How long it still takes, in trials and in days: see `osrl.study.views.forecast`."""
        with self._session.reading() as progress:
            from osrl.study.views.forecast import look_ahead

            compute = look_ahead(progress)
        return compute()

    @property
    def trials(self) -> int:
        """How many trials were handed out."""
        with self._session.reading() as progress:
            return progress.asked

    @property
    def pending(self) -> tuple[int, ...]:
        """The numbers of the trials that have not reported."""
        with self._session.reading() as progress:
            return tuple(progress.pending)

    def pending_trials(self, after: int = 0, limit: int = 100) -> tuple[PendingTrial, ...]:
        """The trials that have not reported, those that have been out longest first, in pages.

        A page has at most 1,000 of them, with numbers above ``after``: give the last number of the page
        before.
        """
        with self._session.reading() as progress:
            from osrl.study.views.status import read_pending

            return read_pending(progress, after, limit)

    @property
    def status(self) -> Status:
        """Everything that is known, at one moment."""
        status, forecast = self.look()
        return status._replace(forecast=forecast())

    def look(self) -> tuple[Status, Callable[[], Forecast | None]]:
        """The status but for its forecast, at once, and what computes that: it may take a second."""
        status, forecast, _ = self.look_at()
        return status, forecast

    def look_at(self) -> tuple[Status, Callable[[], Forecast | None], int]:
        """Return the same, and the number of the event after which it was so."""
        with self._session.reading() as progress:
            from osrl.study.views.forecast import look_ahead
            from osrl.study.views.status import read_status

            return read_status(progress), look_ahead(progress), progress.last.seq

    @property
    def summary(self) -> dict[str, Any]:
        """What is known without any computation, at one moment, as JSON knows it.

        ``pending`` are the numbers of at most 1,000 pending trials; ``pending_next`` is the last of them, if
        there are more.
        """
        with self._session.reading() as progress:
            page = list(islice(progress.pending, MOST_NUMBERS))
            return {
                "id": short_id(progress.created),
                "verdict": progress.status,
                "paused": progress.paused,
                "handed_out": progress.asked,
                "told": progress.told,
                "abandoned": progress.abandoned,
                "pending": page,
                "events": progress.position,
                "since": progress.stages[-1][0],
                "stages": len(progress.stages),
                "head": progress.last.hash,
                "settings": asdict(progress.created),
                "pending_next": page[-1] if len(page) < len(progress.pending) else None,
            }

    def records(self, first: int, last: int) -> list[TrialRecord]:
        """The trials from number ``first`` to ``last``, as far as they were handed out."""
        with self._session.reading() as progress:
            return find_trials(self._storage, self._session.number, progress, first, last)

    @property
    def history(self) -> pl.DataFrame:
        """Every trial, one row each: see `osrl.study.views.history`."""
        with self._storage.fork_lock:
            from osrl.study.views.history import history

        return history(self._session.rows())[0]

    def events(self, position: int = 0) -> Iterator[Event]:
        """The log: every event so far, from number ``position`` on."""
        return self._session.events(position)

    def write_log(self, file: Place) -> None:
        """Write every event to a .csv, .jsonl or .parquet file; `read_log` makes the same study from it."""
        with self._session.reading() as progress:
            from osrl.study.log.export import write_log

            count = progress.position
        write_log(self._session.rows(), count, file)

    def log_parts(self, suffix: str) -> Iterator[bytes]:
        """The content of the file that `write_log` would write, in parts; .csv or .jsonl."""
        from osrl.study.log.export import log_parts

        with self._session.reading() as progress:
            count = progress.position
        return log_parts(self._session.rows(), count, suffix)

    def write_trials(self, file: Place) -> None:
        """Write the history to a .csv, .jsonl or .parquet file, with a column for each propensity."""
        with self._storage.fork_lock:
            from osrl.study.views.history import write_trials

        write_trials(self._session.rows(), file)

    def write_arms(self, file: Place) -> None:
        """Write `arms` to a .csv, .jsonl or .parquet file."""
        with self._storage.fork_lock:
            from osrl.study.log.export import write_frame

        write_frame(self.arms, file)

    def verify(self, head: str | None = None) -> Verification:
        """Replay the log from its first event, and compare: see `osrl.study.views.verify`.

        ``head`` is the hash of an event that was noted elsewhere: the log must contain it.
        """
        with self._storage.fork_lock:
            from osrl.study.views.verify import verify

        found = verify(self.events(), self._session.snapshot(), head)
        return found._replace(problems=(*found.problems, *self._storage.check()))

    def anchor(self, file: Place) -> dict[str, Any]:
        """Note the head of the log in a file, as one more line of JSON; what was noted."""
        with self._session.reading() as progress:
            from osrl.study.log.export import write_anchor

            last, identity = progress.last, short_id(progress.created)
        return write_anchor(file, self.name, identity, last)

"""`Study`: a live experiment. Ask for a trial, run it, tell its reward, until there is a verdict.

>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> study = Study.create(
...     f"{folder.name}/trial.db", tasks=["young", "old"], representations=["A", "B"],
...     predictors=["low", "high"], policy="tas", seed=1,
... )
>>> trial = study.ask()
>>> trial.task, trial.representation, trial.predictor
('young', 'A', 'low')
>>> study.tell(trial, 1)
>>> study.verdict
'running'
>>> study.close(); folder.cleanup()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, SupportsFloat, Unpack, overload

from osrl.errors import OsrlError, StorageDamaged
from osrl.hypotheses.summary import Answer
from osrl.model.instance import MAX_NAME_LETTERS
from osrl.study.log.chain import Row, next_event
from osrl.study.log.events import Created, Event, Recovered
from osrl.study.operations import admin, corrections
from osrl.study.operations.admin import ArmSelector
from osrl.study.operations.ask import parse_ask
from osrl.study.operations.batch import Call, abandon_call, ask_call, run_batch, run_call, tell_call
from osrl.study.operations.loop import Result, run_study
from osrl.study.operations.session import Session
from osrl.study.operations.tell import (
    Abandonment,
    abandon_rows,
    parse_rewards,
    parse_trial_ref,
    parse_trial_refs,
    tell_rows,
)
from osrl.study.settings import DEFAULT_NAME, CreateOptions, Place, new_settings
from osrl.study.state.trial import Trial, read_answer, short_id, validate_actor_and_reason
from osrl.study.storage.base import Storage, Tombstone
from osrl.study.views.summary import summarise
from osrl.study.views.trials import TrialRecord, find_trial, find_trials

if TYPE_CHECKING:
    import polars as pl

    from osrl.study.views.forecast import Forecast
    from osrl.study.views.status import PendingTrial, Status
    from osrl.study.views.verify import Verification


class Study:
    """A live experiment whose events are kept in a database, see `create` and `open`.

    Any number of processes may ask and tell on one study at once; threads may share one object.
    Every call sees what others have done before it. What it was created with cannot be set afterwards.
    """

    __slots__ = ("__weakref__", "_session", "_storage", "name")

    def __init__(self, storage: Storage, number: int, name: str) -> None:
        self.name = name
        self._storage = storage
        self._session = Session(storage, number)

    # Studies in a database

    @classmethod
    def create(cls, place: Place, *, name: str = DEFAULT_NAME, **options: Unpack[CreateOptions]) -> Study:
        """Begin a study in a SQLite file (made if it is not there) or a PostgreSQL database (its URL).

        ``tasks``, ``representations`` and ``predictors`` are lists of names, or how many there are. ``family``
        is ``bernoulli`` (the default), ``bounded`` or ``gaussian``, which needs its ``noise_sd``. ``policy``
        (``osrl`` by default) chooses the trials; ``threshold`` is for policies that offer several.
        ``delta_g`` is the accepted risk of a wrong representation, ``delta_h`` that of a wrong predictor
        in a task (``delta`` sets both; default 0.1). ``epsilon`` is the tolerance, 0 by default: an answer
        that no arm of its task can beat by more will do (``epsilon_g``: with another representation than the
        best one, ``epsilon_h``: with another predictor). ``model_check`` is a margin: the study then decides
        only with evidence in every task that no arm there beats the answer by as much. ``low`` and ``high``
        are the limits of rewards of the family ``bounded``, 0 and 1 by default: fixed in advance, such as 0
        and 250 for a revenue.
        ``harm_limit`` is the largest mean of a second reward, the harm of a trial (`tell`), from 0 to 1: what
        is shown to do more is withdrawn. ``budget``: the largest number of trials. ``options`` are
        parameters of the policy. Without a ``seed`` every arm is drawn by secret bits of its own, which are
        recorded with the trial. A ``seed`` repeats the same draws, for tests and demonstrations; whoever
        knows it and chooses the tasks can choose the arms, and for such tasks the guarantee does not hold.
        """
        return cls._begin(place, name, [next_event(None, new_settings(**options))])

    @classmethod
    def _begin(cls, place: Place, name: str, events: Iterable[Event | Row]) -> Study:
        """Create a study with its first events."""
        if not name.strip() or not name.isprintable():
            raise OsrlError(f"the name of a study is {name!r}; give one line of text")
        if len(name) > MAX_NAME_LETTERS:
            raise OsrlError(f"the name of the study has {len(name):,} letters; use at most {MAX_NAME_LETTERS:,}")
        storage = _storage(place, make=True)
        return cls(storage, storage.create(name, events), name)

    @classmethod
    def open(cls, place: Place, name: str | None = None) -> Study:
        """Go on with a study; ``name`` is needed only where there are several."""
        storage = _storage(place)
        if name is None:
            names = storage.names()
            if len(names) != 1:
                what = "has no study; create one" if not names else "has several studies; name one of "
                raise OsrlError(f"{storage.place} {what}{', '.join(map(repr, names))}")
            name = names[0]
        return cls(storage, storage.find(name), name)

    @classmethod
    def read_log(cls, place: Place, file: Place, name: str = DEFAULT_NAME) -> Study:
        """Create a study from the log that another has written, see `write_log`. It is replayed first."""
        from osrl.study.log.export import LogFile
        from osrl.study.views.verify import verify

        log = LogFile(file)
        found = verify(log)
        if not found.ok:
            raise StorageDamaged(f"{file}: the log does not replay: {found.problems[0]}; export it again")
        return cls._begin(place, name, log.rows(found.head))

    @staticmethod
    def list(place: Place) -> tuple[str, ...]:
        """Return the names of the studies in a database."""
        storage = _storage(place)
        try:
            return storage.names()
        finally:
            storage.close()

    @staticmethod
    def delete(place: Place, name: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Remove a study and all its events, for good; that it was there is kept, see `deleted`."""
        validate_actor_and_reason(by, reason)
        storage = _storage(place)
        try:
            storage.delete(name, by, reason)
        finally:
            storage.close()

    @staticmethod
    def deleted(place: Place) -> tuple[Tombstone, ...]:
        """Return what is left of the studies that were deleted from a database."""
        storage = _storage(place)
        try:
            return storage.deleted()
        finally:
            storage.close()

    # The experiment

    @overload
    def ask(
        self,
        task: str | None = None,
        *,
        n: None = None,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> Trial: ...

    @overload
    def ask(
        self,
        task: str | None = None,
        *,
        n: int,
        key: None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> tuple[Trial, ...]: ...

    def ask(
        self,
        task: str | None = None,
        *,
        n: int | None = None,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
        lease: str | timedelta | None = None,
    ) -> Trial | tuple[Trial, ...]:
        """Return the next trial, or ``n`` of them; in the task that has arrived, where one is given.

        ``key`` is what you know the trial by ("patient-17"): asked again with the same key, by whomever,
        the study gives the same trial. ``note`` is a table of what is to be remembered about it; it comes
        back in `history`. ``lease`` is how long a trial may take ("30m", "1h", "2d"): afterwards the
        status says that it is overdue. It stays pending, because nobody knows whether its arm was seen, and
        may still be told.

        Trials may be asked for before earlier ones are told. A randomised policy (`osrl`) then draws them
        independently; a tracking rule (`tas`, `osrl-sc`) hands out the same arm until a reward comes in.
        """
        trials: tuple[Trial, ...] = run_call(self._session, ask_call(parse_ask(task, n, lease, key, note)))
        return trials[0] if n is None else trials

    def trial(self, which: Trial | str | int) -> TrialRecord:
        """Return a trial by its number, its key or its token, with what became of it."""
        with self._session.reading() as state:
            return find_trial(self._storage, self._session.number, state, which)

    def tell(
        self,
        trial: Trial | str | int | None = None,
        reward: SupportsFloat | None = None,
        *,
        key: str | None = None,
        harm: SupportsFloat | None = None,
        by: str | None = None,
    ) -> None:
        """Tell the reward of a trial: ``tell(trial, 1)`` or ``tell(key="patient-17", reward=1)``.

        It has reached the disk when this returns. ``trial`` is the trial itself, its token, or its number
        alone; a trial that another study, or another copy of this one, has handed out is refused, which its
        number alone cannot show. Told twice with the same value, it counts once. After a verdict it is
        stored and changes nothing. ``harm`` (0 to 1) is the second reward of a study with a ``harm_limit``,
        which needs it: by it a representation or predictor may be withdrawn. It stays when the reward is
        corrected. ``by``: who says so.
        """
        ref = parse_trial_ref(trial, key)
        validate_actor_and_reason(by)
        run_call(self._session, tell_call(ref, reward, harm, by))

    def tell_many(self, rewards: Iterable[Any], *, by: str | None = None) -> int:
        """Tell the rewards of many trials in one transaction, all of them or none; return how many were new.

        Each is a pair (trial, reward), or a table with ``trial`` or ``key``, ``reward``, perhaps ``harm``.
        """
        rows = parse_rewards(rewards)
        validate_actor_and_reason(by)
        return self._session.write(lambda transaction: tell_rows(transaction, rows, by)) if rows else 0

    def correct(self, trial: Trial | str | int, reward: SupportsFloat, *, reason: str, by: str | None = None) -> None:
        """Correct a reward that was told wrong: once, and only while nothing was decided by the wrong value.

        Refused as soon as a trial was handed out or lost since the tell, or something was ruled out by it:
        see `osrl.study.log.corrections`. The log keeps both values, ``reason``, and ``by``: who says so.
        """
        corrections.correct(self._session, trial, reward, reason, by)

    def amend(self, trial: Trial | str | int, reward: SupportsFloat, *, reason: str, by: str | None = None) -> None:
        """Note the right reward of a trial, once, where it is too late to `correct` it.

        It is an event of the log and stands in `trial`. Nothing else changes: evidence, means and verdict
        go on with the reward that was used, and the guarantee is about the rewards as they were told.
        """
        self._session.write(lambda transaction: corrections.amend(transaction, trial, reward, reason, by))

    def abandon(
        self,
        trial: Trial | str | int | None = None,
        *,
        key: str | None = None,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Declare that a trial will never report.

        It counts by its worst reward for ever, which keeps the guarantee whatever the reason of the loss.
        With ``ignorable`` you state that the loss depends neither on the reward nor on the arm, given the
        task, and it is left out. The study watches this: when losses are seen to depend on the arm, the
        status says so, and every loss counts by its worst reward from then on.
        """
        ref = parse_trial_ref(trial, key)
        validate_actor_and_reason(by, reason)
        run_call(self._session, abandon_call(ref, Abandonment(ignorable, by, reason)))

    def abandon_many(
        self,
        trials: Iterable[Any],
        *,
        ignorable: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Declare that many trials will never report: all of them or none; return how many were new.

        Each is a trial, its number or its token, or a table with ``trial`` or ``key``.
        """
        rows = parse_trial_refs(trials)
        validate_actor_and_reason(by, reason)
        loss = Abandonment(ignorable, by, reason)
        return self._session.write(lambda transaction: abandon_rows(transaction, rows, loss)) if rows else 0

    def together(self, calls: Sequence[Call]) -> Sequence[Any]:
        """Run many calls in one transaction, and return their answers, each an error where it was refused.

        For programs with many callers, such as a server: see `osrl.study.operations.batch`.
        """
        return run_batch(self._session, calls)

    def recover(self, reason: str, *, by: str | None = None) -> None:
        """Confirm that the study goes on from the log as it is now, though others may have seen a longer one.

        For a backup that was put back, or a copy that lagged when the original was lost. It is written into
        the log; processes that knew the other log go on from here.
        """
        validate_actor_and_reason(by, reason)
        if not reason.strip():
            raise OsrlError("there is no reason; say in a few words why the study goes on from here")
        self._session = Session(self._storage, self._session.number)
        self._session.write(lambda transaction: transaction.record(Recovered(reason, by)))

    def run(
        self,
        function: Callable[[Trial], Result],
        *,
        workers: int = 1,
        task: str | None = None,
        lease: str | timedelta | None = None,
        retries: int = 0,
        progress: bool | None = None,
        by: str | None = None,
    ) -> str:
        """Ask, call ``function(trial)``, tell what it returns, until the study ends; return the verdict.

        It returns the reward, or reward and harm where that has a limit. ``workers`` is the number of
        threads; any number of processes may run the same study. A function that
        fails is called again, ``retries`` times; then the run ends with its error, and the trial stays
        pending. At Ctrl-C what is being done is finished and told; a second one does not wait. ``progress``
        shows a bar (by default on a terminal).
        """
        return run_study(self, function, workers, task, lease, retries, progress, by)

    # Its life

    def pause(self, reason: str, *, by: str | None = None) -> None:
        """Issue no more trials, until `resume`; those that are out may be told."""
        self._session.write(lambda transaction: admin.pause(transaction, reason, by))

    def resume(self, reason: str | None = None, *, by: str | None = None) -> None:
        """Go on after a pause."""
        self._session.write(lambda transaction: admin.resume(transaction, reason, by))

    def raise_budget(self, budget: int, *, reason: str | None = None, by: str | None = None) -> None:
        """Allow ``budget`` trials in all; before the budget is exhausted."""
        self._session.write(lambda transaction: admin.raise_budget(transaction, budget, reason, by))

    def withdraw(
        self,
        *,
        representation: str | None = None,
        predictor: str | None = None,
        task: str | None = None,
        reason: str,
        by: str | None = None,
    ) -> None:
        """Take a representation, or a predictor of all, out of the study: the answer is the best of the rest.

        Or a task: the answer is about the others. Evidence counts from the next trial on, and the risks of
        the study are those given what went before: k times cost (k + 1) delta in all (docs/guarantee.md).
        Trials that are out may still be told: they count in `arms`, not as evidence.
        """
        selected = ArmSelector(task, representation, predictor)
        self._session.write(lambda transaction: admin.withdraw(transaction, selected, reason, by))

    def add(
        self,
        *,
        representation: str | None = None,
        predictor: str | None = None,
        task: str | None = None,
        reason: str,
        by: str | None = None,
    ) -> None:
        """Take a new representation, predictor or task in; evidence counts from the next trial on."""
        selected = ArmSelector(task, representation, predictor)
        self._session.write(lambda transaction: admin.add(transaction, selected, reason, by))

    # What is known. Views are imported when they are read: asking and telling do without them.

    @property
    def id(self) -> str:
        """Return the beginning of the id of this study, which no other one has."""
        with self._session.reading() as state:
            return short_id(state.created)

    @property
    def head(self) -> str:
        """Return the hash of the last event, which stands for the whole log."""
        with self._session.reading() as state:
            return state.last.hash

    def plot(self) -> Any:
        """Draw the mean of every arm with its interval, as an Altair chart."""
        from osrl.report.notebook import chart

        return chart(self)

    def _repr_html_(self) -> str:
        from osrl.report.notebook import html

        return html(self)

    @property
    def place(self) -> str:
        """Return where the study is kept, without passwords."""
        return self._storage.place

    @property
    def settings(self) -> Created:
        """Return what the study was created with."""
        with self._session.reading() as state:
            return state.created

    @property
    def verdict(self) -> str:
        """Return ``running``, or how the study has ended, such as ``decided`` or ``budget exhausted``."""
        with self._session.reading() as state:
            return state.status

    @property
    def best(self) -> Answer:
        """Return the answer, or the best guess while the study is running."""
        with self._session.reading() as state:
            return read_answer(state.created, state.verdict or state.best_guess())

    @property
    def evidence(self) -> pl.DataFrame:
        """Return each hypothesis with the log evidence against it, and the limit at which it is rejected.

        Without a predictor: "this representation is the best"; with one: "it is the best predictor of this
        representation in this task". Pending trials count by their worst reward, or the evidence is that
        of the trials before them, whichever is larger.
        """
        with self._session.reading() as state:
            from osrl.study.views.evidence import read_hypotheses
            from osrl.study.views.history import evidence_frame

            return evidence_frame(read_hypotheses(state))

    @property
    def arms(self) -> pl.DataFrame:
        """Return the trials, mean and lift over the answer of every arm, with intervals.

        With probability 95 % all intervals hold, at all times at once: see `osrl.study.views.arms`.
        """
        with self._session.reading() as state:
            from osrl.study.views.arms import estimate_arms
            from osrl.study.views.history import arms_frame

            return arms_frame(estimate_arms(state, state.verdict or state.best_guess()))

    @property
    def expected_remaining(self) -> float | None:
        """Return the median number of trials still needed; None if nothing is known yet."""
        return None if self.forecast is None else self.forecast.median

    @property
    def forecast(self) -> Forecast | None:
        """Return how long it still takes, in trials and in days: see `osrl.study.views.forecast`."""
        with self._session.reading() as state:
            from osrl.study.views.forecast import look_ahead

            compute = look_ahead(state)
        return compute()

    @property
    def trials(self) -> int:
        """Return how many trials were handed out."""
        with self._session.reading() as state:
            return state.asked

    @property
    def pending(self) -> tuple[int, ...]:
        """Return the numbers of the trials that have not reported."""
        with self._session.reading() as state:
            return tuple(state.pending)

    def pending_trials(self, after: int = 0, limit: int = 100) -> tuple[PendingTrial, ...]:
        """Return the trials that have not reported, those that have been out longest first, in pages.

        A page has at most 1,000 of them, with numbers above ``after``: give the last number of the page
        before.
        """
        with self._session.reading() as state:
            from osrl.study.views.status import read_pending

            return read_pending(state, after, limit)

    @property
    def status(self) -> Status:
        """Return everything that is known, at one moment: see `osrl.study.views.status`."""
        status, forecast, _ = self.look()
        return status._replace(forecast=forecast())

    def look(self) -> tuple[Status, Callable[[], Forecast | None], int]:
        """Return the status without its forecast, a function that computes that, and the last event's number.

        A forecast may take a second; the function can be called while the study goes on.
        """
        with self._session.reading() as state:
            from osrl.study.views.forecast import look_ahead
            from osrl.study.views.status import read_status

            return read_status(state), look_ahead(state), state.last.seq

    @property
    def summary(self) -> dict[str, Any]:
        """Return what is known without any computation, at one moment, as JSON has it.

        ``pending`` are the numbers of at most 1,000 pending trials; ``pending_next`` is the last of them, if
        there are more.
        """
        with self._session.reading() as state:
            return summarise(state)

    def records(self, first: int, last: int) -> Sequence[TrialRecord]:
        """Return the trials from number ``first`` to ``last``, as far as they were handed out."""
        with self._session.reading() as state:
            return find_trials(self._storage, self._session.number, state, first, last)

    @property
    def history(self) -> pl.DataFrame:
        """Return every trial, one row each: see `osrl.study.views.history`."""
        with self._storage.fork_lock:
            from osrl.study.views.history import history

        return history(self._session.rows())[0]

    def events(self, position: int = 0) -> Iterator[Event]:
        """Return the events of the log so far, from number ``position`` on."""
        return self._session.events(position)

    def write_log(self, file: Place) -> None:
        """Write every event to a .csv, .jsonl or .parquet file; `read_log` makes the same study from it."""
        with self._session.reading() as state:
            from osrl.study.log.export import write_log

            count = state.position
        write_log(self._session.rows(), count, file)

    def log_parts(self, suffix: str) -> Iterator[bytes]:
        """Return the content of the file that `write_log` would write, in parts; .csv or .jsonl."""
        from osrl.study.log.export import log_parts

        with self._session.reading() as state:
            count = state.position
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
        """Append the head of the log to a file, as a line of JSON; return what was written."""
        with self._session.reading() as state:
            from osrl.study.log.export import write_anchor

            last, identity = state.last, short_id(state.created)
        return write_anchor(file, self.name, identity, last)

    # Its end

    def close(self, reason: str | None = None, *, by: str | None = None) -> None:
        """End the study for a ``reason``, with its best guess; results that come later change nothing.

        Without a reason the study goes on: only files and connections are let go, as at the end of a
        ``with`` block, and the next call opens them again.
        """
        if reason is not None:
            self._session.write(lambda transaction: admin.close(transaction, reason, by))
        self._storage.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Study({self._storage.place!r}, {self.name!r})"


def _storage(place: Place, *, make: bool = False) -> Storage:
    """Return the database at ``place``."""
    try:
        from osrl.study.storage.sql import SqlStorage
    except ModuleNotFoundError:
        raise OsrlError("studies need the extra 'study'; install osrl[study]") from None
    return SqlStorage(place, make=make)

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

import os
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, SupportsFloat, overload

from osrl.errors import BudgetSpent, OsrlError, RewardRefused, StudyEnded, UnknownTrial
from osrl.study.events import Abandoned, Created, Event, Told, now
from osrl.study.fold import Fold
from osrl.study.session import Session, Turn
from osrl.study.settings import Names, new_settings
from osrl.study.storage import Storage
from osrl.study.trial import Answer, Token, Trial, new_trial, read_answer, read_reward, read_token, short_id

if TYPE_CHECKING:
    import polars as pl

    from osrl.study.replay import Verification
    from osrl.study.status import Status

Place = str | os.PathLike[str]
RUNNING = "running"
DEFAULT_NAME = "study"
MOST_AT_ONCE = 1000  # trials of one ask: others wait while they are handed out


class Study:
    """A live experiment whose events are kept in a database, see `create` and `open`.

    Any number of processes may ask and tell on one study at once; threads may share one object.
    Every call sees what others have done before it.
    """

    def __init__(self, storage: Storage, number: int, name: str) -> None:
        self.name = name
        self._storage = storage
        self._session = Session(storage, number)

    # Studies in a database

    @classmethod
    def create(
        cls,
        place: Place,
        *,
        tasks: Names,
        representations: Names,
        predictors: Names,
        family: str = "bernoulli",
        noise_sd: float | None = None,
        delta: float | None = None,
        delta_g: float | None = None,
        delta_h: float | None = None,
        seed: int | None = None,
        budget: int | None = None,
        policy: str = "osrl",
        threshold: str | None = None,
        options: Mapping[str, Any] | None = None,
        name: str = DEFAULT_NAME,
    ) -> Study:
        """Begin a study in a SQLite file (made if it is not there) or a PostgreSQL database (its URL).

        ``delta_g`` is the accepted risk of a wrong representation, ``delta_h`` that of a wrong predictor
        in a task (``delta`` sets both; default 0.1). ``budget``: the largest number of trials.
        ``options`` are parameters of the policy. Without a ``seed`` one is drawn, and recorded.
        """
        created = new_settings(
            tasks=tasks,
            representations=representations,
            predictors=predictors,
            family=family,
            noise_sd=noise_sd,
            delta=delta,
            delta_g=delta_g,
            delta_h=delta_h,
            seed=seed,
            budget=budget,
            policy=policy,
            threshold=threshold,
            options=options,
        )
        return cls._begin(place, name, [Event(0, now(), created)])

    @classmethod
    def _begin(cls, place: Place, name: str, events: Sequence[Event]) -> Study:
        """A study with its first events."""
        if not name.strip() or not name.isprintable():
            raise OsrlError(f"the name of a study is {name!r}; give one line of text")
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
        """A study with the log that another has written, see `write_log`. It is replayed first."""
        from osrl.study.export import read_log
        from osrl.study.replay import verify

        events = read_log(file)
        found = verify(events)
        if not found.ok:
            raise OsrlError(f"{file}: the log does not replay: {found.problems[0]}; export it again")
        return cls._begin(place, name, events)

    @staticmethod
    def list(place: Place) -> tuple[str, ...]:
        """The names of the studies in a database."""
        storage = _storage(place)
        try:
            return storage.names()
        finally:
            storage.close()

    @staticmethod
    def delete(place: Place, name: str) -> None:
        """Remove a study and all its events, for good."""
        storage = _storage(place)
        try:
            storage.delete(name)
        finally:
            storage.close()

    # The experiment

    @overload
    def ask(self, task: str | None = None, *, n: None = None) -> Trial: ...

    @overload
    def ask(self, task: str | None = None, *, n: int) -> tuple[Trial, ...]: ...

    def ask(self, task: str | None = None, *, n: int | None = None) -> Trial | tuple[Trial, ...]:
        """The next trial, or ``n`` of them; in the task that has arrived, where one is given.

        Trials may be asked for before earlier ones are told. A randomised policy (`osrl`) then draws them
        independently; a tracking rule (`tas`, `osrl-sc`) hands out the same arm until a reward comes in.
        """
        count = 1 if n is None else n
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise OsrlError(f"n is {n!r}; give the number of trials to hand out, at least 1")
        if count > MOST_AT_ONCE:
            raise OsrlError(f"n is {n}; a call hands out at most {MOST_AT_ONCE:,} trials; ask again for more")
        trials = []
        with self._session.turn() as turn:
            fold = turn.fold
            _check_ask(fold, task, int(count))
            for _ in range(count):
                if (designed := fold.solve()) is not None:
                    turn.note(designed)
                asked = fold.choose(task)
                turn.do(asked)
                token = Token(short_id(fold.created), asked.trial)
                trials.append(new_trial(asked, fold.created, str(token)))
        return trials[0] if n is None else tuple(trials)

    def tell(self, trial: Trial | str | int, reward: SupportsFloat) -> None:
        """The reward of a trial. It has reached the disk when this returns.

        ``trial`` is the trial itself, its token, or its number alone; a trial that another study has handed
        out is refused, which its number alone cannot show. Told twice with the same value, it counts once.
        After a verdict it is stored and changes nothing.
        """
        token = read_token(trial)
        number = token.trial
        with self._session.turn() as turn:
            token.check(turn.fold.created)
            value = read_reward(reward, turn.fold.family)
            if number in turn.fold.pending:
                turn.note(Told(number, value, turn.fold.take(number, value)))
                return
            before = _ending(turn, number)
            if isinstance(before, Abandoned):
                raise RewardRefused(f"trial {number} was abandoned; its reward can no longer be told")
            if before.reward != value:
                raise RewardRefused(
                    f"trial {number} was told {before.reward:g}, now {value:g}; a reward cannot be changed"
                )

    def abandon(self, trial: Trial | str | int, *, ignorable: bool = False) -> None:
        """A trial will never report.

        The guarantee is kept, at a price: the trial counts by its worst reward for ever. With
        ``ignorable`` you state that not reporting tells nothing about the reward, and it is left out.
        """
        token = read_token(trial)
        number = token.trial
        with self._session.turn() as turn:
            token.check(turn.fold.created)
            if number in turn.fold.pending:
                _check_loss(turn.fold, ignorable)
                turn.note(Abandoned(number, ignorable, turn.fold.give_up(number, ignorable)))
                return
            before = _ending(turn, number)
            if isinstance(before, Told):
                raise OsrlError(f"trial {number} was told {before.reward:g}; it can no longer be abandoned")
            if before.ignorable != ignorable:
                raise OsrlError(
                    f"trial {number} was abandoned with ignorable={before.ignorable}; this cannot be changed"
                )

    # What is known

    @property
    def place(self) -> str:
        """Where the study is kept, without passwords."""
        return self._storage.place

    @property
    def settings(self) -> Created:
        """What the study was created with."""
        with self._session.reading() as fold:
            return fold.created

    @property
    def verdict(self) -> str:
        """``running``, ``decided``, ``no shared representation`` or ``budget exhausted``."""
        with self._session.reading() as fold:
            return RUNNING if fold.verdict is None else fold.verdict.status

    @property
    def best(self) -> Answer:
        """The answer, as far as it is known: the best guess while the study is running."""
        with self._session.reading() as fold:
            return read_answer(fold.created, fold.verdict or fold.best_guess())

    @property
    def evidence(self) -> pl.DataFrame:
        """Each hypothesis with the log evidence against it, and the limit at which it is rejected.

        Without a predictor: "this representation is the best"; with one: "it is the best predictor of this
        representation in this task". Pending trials count by their worst reward, or the evidence is that
        of the trials before them, whichever is larger.
        """
        from osrl.study.history import evidence

        return evidence(self.status.hypotheses)

    @property
    def expected_remaining(self) -> float | None:
        """About how many more trials are needed, if the means are as they look now; None if not known."""
        return self.status.expected_remaining

    @property
    def trials(self) -> int:
        """How many trials were handed out."""
        with self._session.reading() as fold:
            return fold.asked

    @property
    def pending(self) -> tuple[int, ...]:
        """The numbers of the trials that have not reported."""
        with self._session.reading() as fold:
            return tuple(fold.pending)

    @property
    def status(self) -> Status:
        """Everything that is known, at one moment."""
        from osrl.study.status import read_status

        with self._session.reading() as fold:
            return read_status(fold)

    @property
    def history(self) -> pl.DataFrame:
        """Every trial, one row each: see `osrl.study.history`."""
        from osrl.study.history import history

        return history(self.events())

    def events(self) -> Iterator[Event]:
        """The log: every event so far."""
        return self._session.events()

    def write_log(self, file: Place) -> None:
        """Write every event to a .csv, .jsonl or .parquet file; `read_log` makes the same study from it."""
        from osrl.study.export import write_log

        write_log(self.events(), file)

    def write_trials(self, file: Place) -> None:
        """Write the history to a .csv, .jsonl or .parquet file, with a column for each propensity."""
        from osrl.study.export import write_trials

        write_trials(self.events(), file)

    def verify(self) -> Verification:
        """Replay the log from its first event, and compare: see `osrl.study.replay`."""
        from osrl.study.replay import verify

        return verify(self.events(), self._session.snapshot())

    # Its end

    def close(self) -> None:
        """Let go of files and connections; the next call opens them again."""
        self._storage.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Study({self._storage.place!r}, {self.name!r})"


def _storage(place: Place, *, make: bool = False) -> Storage:
    """The database at ``place``."""
    try:
        from osrl.study.sql import SqlStorage
    except ModuleNotFoundError:
        raise OsrlError("studies need the extra 'study'; install osrl[study]") from None
    return SqlStorage(place, make=make)


def _check_ask(fold: Fold, task: str | None, count: int) -> None:
    """Refuse to hand out trials where there is nothing more to learn or to spend."""
    budget = fold.created.budget
    if fold.verdict is not None:
        raise StudyEnded(
            f"the study has ended ({fold.verdict.status}); read its verdict, or create a new study to go on"
        )
    if task is not None:
        fold.place(0, task)
        if not fold.policy.given_tasks:
            raise OsrlError(
                f"policy {fold.policy.name!r} chooses the tasks itself; ask without a task, "
                "or create the study with policy 'osrl'"
            )
    if budget is not None and fold.asked + count > budget:
        left = budget - fold.asked
        if left:
            raise BudgetSpent(f"{left} of the {budget} trials of the budget are left; ask for at most {left}")
        raise BudgetSpent(
            f"all {budget} trials of the budget are handed out and {len(fold.pending)} of them have not "
            "reported; tell or abandon those"
        )


def _check_loss(fold: Fold, ignorable: bool) -> None:
    """Refuse a loss that the policy cannot bear."""
    if not ignorable and not fold.bears_loss:
        raise OsrlError(
            f"policy {fold.policy.name!r} has no guarantee when trials with {fold.family.name} rewards are "
            "lost for a reason that may tell something; state that it tells nothing (ignorable), or use "
            "policy 'osrl' with rewards in [0, 1]"
        )


def _ending(turn: Turn, trial: int) -> Told | Abandoned:
    """The event that ended a trial which is not pending."""
    for event in turn.log.about(trial):
        if isinstance(event.body, Told | Abandoned):
            return event.body
    handed = turn.fold.asked
    raise UnknownTrial(f"the study has no trial {trial}; it has handed out {handed}, numbered from 1")

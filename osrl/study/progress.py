"""The state of a study: what its events add up to.

    events -> Progress: state of the policy, pending trials, verdict

Opening a study trusts its log. A design is taken from its event, so nothing is solved again; the arm
of an ask is the one that was handed out; a verdict is the one that was reached. What the reward of
a trial will be judged with, its ticket, follows from the state when it was handed out.

Trials that have not reported count by their worst factor, or the evidence is that of the trials before
them, whichever is larger (`osrl.study.prefix`). So one late result does not block the others. Gaussian
rewards have no worst factor, and count in the order of their reports.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.arrays import Floats
from osrl.contract import Criterion, Problem, find
from osrl.draws import START, new_key, uniform
from osrl.errors import OsrlError, StorageDamaged
from osrl.families import Family
from osrl.hypotheses.possible import Hypotheses, compare, reject
from osrl.outcome import RUNNING, VERDICTS
from osrl.policies.round import conclude, deal, design, new_ticket, settle, wants_design, write_ticket
from osrl.policies.states import arrays_of, contents, differences, digest
from osrl.study.constants import WATCH, set_constants
from osrl.study.corrections import overrule
from osrl.study.events import (
    Abandoned,
    Asked,
    Corrected,
    Created,
    Designed,
    Event,
    Kept,
    Overruled,
    Recovered,
    Resumed,
    Told,
    Verdict,
    to_lists,
)
from osrl.study.losses import Losses
from osrl.study.prefix import LEFT_OUT, Ended, Prefix
from osrl.study.renamed import old_names
from osrl.study.stretch import Pair, Stretch, in_stretches, new_stretch, run_stretch
from osrl.study.tally import Tally
from osrl.study.trial import Trial, new_trial

_ENDS = (Told, Abandoned, Corrected, Overruled)


class CorrectedPastError(OsrlError):
    """A reward is corrected that was taken in with its old value: the progress has to begin anew."""


class Pending(NamedTuple):
    """A trial that has not reported: task, arm of the task, when it was handed out (microseconds since
    1970), what its reward will be judged with, the hash of the event that handed it out, how its arm was
    drawn (empty where losses are not watched), when its lease ends, if it has one, and how people know it.
    """

    x: int
    a: int
    at: int
    ticket: Floats
    hash: str
    draw: Floats
    until: int | None
    trial: Trial


class Progress:
    """The state of a study after the first ``position`` events."""

    def __init__(self, created: Created) -> None:
        self.created = created
        self.shape = len(created.tasks), len(created.representations), len(created.predictors)
        self.family = Family(created.family, created.noise_sd)
        self.policy = find(created.policy)
        self.key = new_key(created.seed, 0)
        self.state: Any = set_constants(new_state(created), created)
        stopping = self.state.stopping
        self.hypotheses: Hypotheses | None = stopping if isinstance(stopping, Hypotheses) else None
        # Counts in the order of hand-out and in that of reports are two e-processes: one has to be chosen.
        bets = self.hypotheses is not None and self.family.noise == 0
        self.prefix = Prefix(self.hypotheses) if bets and self.hypotheses is not None else None
        self.losses: Losses | None = None
        if self.hypotheses is not None and self.prefix is not None:
            self.losses = Losses(self.hypotheses, created.evidence.get(WATCH, 0.0))
        self.writers = [created.versions]  # the versions of all programs that have written
        self.position = 1
        self.last = Event(0, 0, created)  # the last event
        self.recovered: list[str] = []  # the events, by hash, with which a person has confirmed the log
        self.kept = 0  # the event after the last snapshot
        self.asked = self.told = self.abandoned = 0
        self.left_out = 0  # of those that were abandoned, how many were declared ignorable
        self.tally = Tally(created)
        self.design: int | None = None
        self.pending: dict[int, Pending] = {}
        self.verdict: Verdict | None = None
        self._undrawn = [0.0] * (self.shape[1] * self.shape[2])
        self._indices = tuple(
            {name: i for i, name in enumerate(names)}
            for names in (created.tasks, created.representations, created.predictors)
        )

    # From the log

    def apply(self, event: Event) -> None:
        """Take in the next event of the log."""
        self.check_next(event)
        match event.body:
            case Asked() as asked:
                self._hand_out(asked, event)
            case Told() | Corrected() as told:
                self.take(told.trial, told.reward)
            case Abandoned() as abandoned:
                self.give_up(abandoned.trial, abandoned.ignorable)
            case Designed() as designed:
                self.clear_pending()
                self.set_arrays(designed.arrays)
        self.advance(event)

    def advance(self, event: Event) -> None:
        """Go past an event that the state has taken in already."""
        match event.body:
            case Told() | Abandoned() | Corrected() as ended:
                self.verdict = self.verdict or ended.verdict
            case Designed():
                self.design = event.seq
            case Resumed() as resumed:
                self.writers.append(resumed.versions)
            case Recovered():
                self.recovered.append(event.hash)
            case Kept():
                self.kept = event.seq
        self.position += 1
        self.last = event

    def check_next(self, event: Event) -> None:
        """Refuse a log with a gap, or with an end to a trial that has ended or was never handed out."""
        if event.seq != self.position:
            raise OsrlError(f"event {self.position} is missing from the log; restore it from a backup")
        if isinstance(event.body, _ENDS) and event.body.trial not in self.pending:
            wrong = (
                f"event {event.seq}: trial {event.body.trial} is not pending; restore the log from a backup"
            )
            raise CorrectedPastError(wrong) if isinstance(event.body, Corrected) else OsrlError(wrong)

    def apply_all(self, events: Iterable[Event]) -> None:
        """Take in the next events of the log."""
        for part in in_stretches(overrule(events)):
            if isinstance(part, Event):
                self.apply(part)
                continue
            stretch = new_stretch(self, part)
            if stretch is not None:
                self.went(part, stretch, run_stretch(self, stretch, check=False))
                continue
            for pair in part:
                for event in pair:
                    self.apply(event)

    def went(self, pairs: Sequence[Pair], stretch: Stretch, count: int) -> None:
        """Go past the first trials of a stretch, which the state has taken in already."""
        if not count:
            return
        self.asked += count
        self.told += count
        self.position += 2 * count
        self.last = pairs[count - 1][1]
        told = stretch.first(count)
        self.tally.tell_all(told.tasks, told.arms, told.rewards)
        if self.prefix is not None:
            self.prefix.before_end(last=True)
        if self.losses is not None:
            self.losses.count_all(told.tasks, told.arms, told.propensities)

    # The steps of the experiment. Each changes the state; `advance` notes the event that says so.

    def solve(self) -> Designed | None:
        """New weights, if it is time for them. What is pending is expected to do better than its worst."""
        if not wants_design(self.state):
            return None
        self.clear_pending()
        before = contents(self.state)
        design(self.state)
        after = contents(self.state)
        changed = differences(before, after)
        return Designed({name: to_lists(after[name]) for name in changed}, digest(before))

    def choose(self, task: str | None) -> Asked:
        """The next trial: the arm that the policy names, or one drawn from its probabilities."""
        tasks, representations, predictors = self.shape
        n = representations * predictors
        propensities = np.zeros((tasks, n))
        given = -1 if task is None else self.index_of(0, task)
        arm = int(deal(self.state, given, self.key, self.asked, propensities, new_ticket(self.state)))
        x, a = arm // n, arm % n
        return Asked(
            self.asked + 1,
            self.created.tasks[x],
            self.created.representations[a // predictors],
            self.created.predictors[a % predictors],
            propensities[x].tolist() if propensities.any() else None,
            task is not None,
            self.design,
        )

    def _hand_out(self, asked: Asked, event: Event) -> None:
        """A trial goes out; its ticket is fixed now."""
        x = self.index_of(0, asked.task)
        a = self.index_of(1, asked.representation) * self.shape[2] + self.index_of(2, asked.predictor)
        given = np.array(asked.propensities or self._undrawn, np.float64)
        propensities = given.reshape(len(self._undrawn))  # an error where a log has another number of them
        ticket = new_ticket(self.state)
        write_ticket(self.state, x, a, propensities, ticket)
        draw = np.zeros(0) if self.losses is None else self.losses.hand_out(x, a, propensities)
        trial = new_trial(asked, self.created, event.hash)
        self.pending[asked.trial] = Pending(x, a, event.at, ticket, event.hash, draw, asked.until, trial)
        if self.prefix is not None:
            self.prefix.hand_out(asked.trial, x)
        self.asked += 1

    def take(self, trial: int, reward: float) -> Verdict | None:
        """A reward comes in; the verdict, if it ends the study."""
        told = self.pending.pop(trial)
        self.told += 1
        self.tally.tell(told.trial, reward)
        alarm = self._watch(told, ignorable=False)
        if self.verdict is not None:
            return None
        with self._in_order(trial, Ended(told.x, told.a, told.ticket, reward)):
            self.count_pending()
            settle(self.state, told.x, told.a, reward, told.ticket)
        if self.losses is not None:
            self.losses.count(told.x, told.a, told.ticket, reward)
        if alarm:
            self._count_every_loss()
        return self._judge()

    def give_up(self, trial: int, ignorable: bool) -> Verdict | None:
        """A trial will never report; the verdict, if it ends the study.

        After an alarm of the watch, no loss is ignorable.
        """
        lost = self.pending.pop(trial)
        self.abandoned += 1
        self.left_out += ignorable
        self.tally.lose(lost.trial, ignorable)
        alarm = self._watch(lost, ignorable)
        if self.verdict is not None:
            return None
        ignorable = ignorable and (alarm or not self.alarm)
        ended = LEFT_OUT if ignorable else Ended(lost.x, lost.a, lost.ticket, np.nan)
        with self._in_order(trial, ended):
            if not ignorable:
                if self.policy.stopping.forfeit is not None:
                    self.policy.stopping.forfeit(self.state.stopping, lost.x, lost.a, lost.ticket)
            elif self.prefix is not None:  # without its worst factor, there is more evidence
                self.count_pending()
                first = lost.a - lost.a % self.shape[2]
                reject(self.state.stopping, lost.x, first, first + self.shape[2])
                compare(self.state.stopping, lost.x)
        if self.losses is not None and ignorable:
            self.losses.leave_out(lost.x, lost.a, lost.ticket)
        elif self.losses is not None:
            self.losses.count(lost.x, lost.a, lost.ticket, np.nan)
        if alarm:
            self._count_every_loss()
        return self._judge()

    @property
    def alarm(self) -> bool:
        """Whether losses were found to depend on the arm."""
        return self.losses is not None and self.losses.alarm

    def _watch(self, ended: Pending, ignorable: bool) -> bool:
        """Tell the watch what became of a trial; whether it raises its alarm now."""
        if self.losses is None:
            return False
        return self.losses.end(ended.x, ended.a, ended.draw, ignorable, final=self.verdict is not None)

    def _count_every_loss(self) -> None:
        """After an alarm: every loss so far counts by its worst factor, and so will those to come."""
        assert self.losses is not None and self.prefix is not None
        self.losses.take_over()
        self.prefix.begin_again(self.pending)
        self.count_pending()
        for x in range(self.shape[0]):
            reject(self.state.stopping, x, 0, self.shape[1] * self.shape[2])
            compare(self.state.stopping, x)

    @contextmanager
    def _in_order(self, trial: int, ended: Ended) -> Iterator[None]:
        """The end of a trial, for all trials and in the order of hand-out where evidence is kept by it."""
        if self.prefix is None:
            yield
            return
        self.prefix.before_end(last=not self.pending)
        yield
        if self.pending and self.state.outcome.status[0] == RUNNING:
            self.prefix.end(trial, ended, self.pending)

    @property
    def bears_loss(self) -> bool:
        """Whether the guarantee survives trials that are lost for a reason which may tell something."""
        return self.policy.stopping.forfeit is not None and self.family.noise == 0

    def count_pending(self) -> None:
        """Let every trial that has not reported count by its worst factor, in order of hand-out."""
        self.clear_pending()
        if self.policy.stopping.pend is not None:
            for trial in self.pending.values():
                self.policy.stopping.pend(self.state.stopping, trial.x, trial.a, trial.ticket)

    def clear_pending(self) -> None:
        """Forget which trials have not reported, where they count."""
        if self.policy.stopping.clear_pending is not None:
            self.policy.stopping.clear_pending(self.state.stopping)

    def _judge(self) -> Verdict | None:
        """The verdict, when there is one now."""
        outcome = self.state.outcome
        budget = self.created.budget
        if outcome.status[0] == RUNNING and budget is not None and self.told + self.abandoned >= budget:
            conclude(self.state, 0)
        return None if outcome.status[0] == RUNNING else self.answer()

    # What can be read off

    @property
    def status(self) -> str:
        """The verdict in words; ``running`` before there is one."""
        return VERDICTS[RUNNING] if self.verdict is None else self.verdict.status

    def answer(self) -> Verdict:
        """The verdict as the state has it."""
        return self._answer(self.state)

    def best_guess(self) -> Verdict:
        """The answer as it looks now, by the trials that have reported."""
        state = copy.deepcopy(self.state)
        if self.policy.stopping.clear_pending is not None:
            self.policy.stopping.clear_pending(state.stopping)
        conclude(state, 0)
        return self._answer(state)

    def index_of(self, axis: int, name: str) -> int:
        """The index of a name: axis 0 for tasks, 1 for representations, 2 for predictors."""
        indices = self._indices[axis]
        if name not in indices:
            word = ("task", "representation", "predictor")[axis]
            known = ", ".join(map(repr, indices))
            raise OsrlError(f"the study has no {word} {name!r}; use one of {known}")
        return indices[name]

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Every array that the state consists of, with its name."""
        yield from arrays_of(self.state)
        yield "tally", self.tally.counts
        if self.prefix is not None:
            yield from self.prefix.arrays()
        if self.losses is not None:
            yield from self.losses.arrays()

    def set_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Write arrays into the state, by name."""
        own, old = dict(arrays_of(self.state)), old_names(self.state)
        for name, content in arrays.items():
            if name in own:
                own[name][...] = np.array(content, dtype=own[name].dtype)
            else:
                old[name].set(content)

    def _answer(self, state: Any) -> Verdict:
        outcome = state.outcome
        created = self.created
        return Verdict(
            VERDICTS[int(outcome.status[0])],
            [_name(created.representations, g) for g in outcome.representation[0]],
            [_name(created.predictors, h) for h in outcome.predictor[0]],
        )


def new_state(created: Created) -> Any:
    """The state of the policy before the first sample, with the constants of this program."""
    shape = len(created.tasks), len(created.representations), len(created.predictors)
    criterion = Criterion(created.threshold, created.delta_g, created.delta_h)
    family, epsilon = Family(created.family, created.noise_sd), (created.epsilon_g, created.epsilon_h)
    problem = Problem(shape, family, (criterion,), epsilon)
    options = {name: _tuples(value) for name, value in created.options.items()}
    return find(created.policy).new(problem, uniform(new_key(created.seed, 0), START, 0), **options)


def begin(first: Event) -> Progress:
    """The progress of a log that begins with this event; refused where no study could have begun so."""
    assert isinstance(first.body, Created)
    try:
        find(first.body.policy).options(first.body.options)
        progress = Progress(first.body)
    except OsrlError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        said = repr(error)[:200]
        raise StorageDamaged(f"the log does not begin as a study does ({said}); restore a backup") from None
    progress.last = first
    return progress


def _name(names: Any, index: int) -> str | None:
    return names[int(index)] if index >= 0 else None


def _tuples(value: Any) -> Any:
    """Lists of JSON as the tuples that they were."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value

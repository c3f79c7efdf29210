"""The state of a study: what its events add up to.

    events -> StudyState: state of the policy, pending trials, verdict

Opening a study trusts its log. A design is taken from its event, so nothing is solved again; the arm
of an ask is the one that was handed out; a verdict is the one that was reached. What the reward of
a trial will be judged with, its ticket, follows from the state when it was handed out.

Trials that have not reported count by their worst factor, or the evidence is that of the trials before
them, whichever is larger (`osrl.study.state.in_order`). So one late result does not block the others. Gaussian
rewards have no worst factor, and count in the order of their reports.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.errors import OsrlError, StorageDamaged
from osrl.hypotheses.state import rule_out_by_comparisons, rule_out_by_evidence
from osrl.hypotheses.trials import TRIAL_ENDED, TRIAL_ISSUED, count_pending, write_pending
from osrl.jit.kernels import direct, long_job
from osrl.model.outcome import RUNNING, STATUS, VERDICTS
from osrl.model.rng import pick_arm
from osrl.policies.registry import find
from osrl.policies.state_arrays import digest
from osrl.policies.steps import conclude
from osrl.study.log.corrections import mark_superseded
from osrl.study.log.events import (
    SECRET_BITS,
    Abandoned,
    ArmsChanged,
    Asked,
    BudgetRaised,
    Closed,
    Corrected,
    Created,
    Designed,
    Event,
    Paused,
    Recovered,
    SnapshotTaken,
    Superseded,
    Told,
    Unpaused,
    Verdict,
    VersionsChanged,
    to_lists,
)
from osrl.study.state.arrivals import ArrivalStats
from osrl.study.state.bulk_replay import TrialBlock, TrialPair, group_into_blocks, new_block, replay_block, split_block
from osrl.study.state.pending import LEFT_OUT, LOST, EndedTrial, Pending
from osrl.study.state.stages import Stages, staged
from osrl.study.state.trial import Trial, new_trial

_ENDS = (Told, Abandoned, Corrected, Superseded)


class CorrectedPastError(OsrlError):
    """A reward is corrected that was taken in with its old value: the progress has to begin anew."""


class StudyState(Stages):
    """The state of a study after the first ``position`` events."""

    def __init__(self, created: Created) -> None:
        super().__init__(created)
        self.paused: str | None = None  # why no trials are handed out
        self.writers = [created.versions]  # the versions of all programs that have written
        self.position = 1
        self.last = Event(0, 0, created)  # the last event
        self.recovered: list[str] = []  # the events, by hash, with which a person has confirmed the log
        self.kept, self.kept_digest = 0, ""  # the event after the last snapshot, and what it says of that
        self.asked = self.told = self.abandoned = 0
        self.left_out = 0  # of those that were abandoned, how many were declared ignorable
        self.design: int | None = None
        self.pending: dict[int, Pending] = {}
        self.current = self.pending  # those of this stage. Earlier ones may report, and are no evidence
        self.arrival_stats = ArrivalStats(self.shape[0])
        self.verdict: Verdict | None = None
        self._some_count = True  # whether pending trials may count in the state by their worst factor
        self._count_late, self._write_late = direct(count_pending), direct(write_pending)

    def begin_stage(
        self,
        representations: Sequence[str],
        predictors: Sequence[str],
        tasks: Sequence[str] | None = None,
    ) -> None:
        """Go on with these arms; evidence counts from here on, and no loss is ignorable after an alarm."""
        alarm, before = self.alarm, self.created
        self._set_up(staged(before, representations, predictors, tasks), self.asked + 1)
        self.arrival_stats.begin_stage(before.tasks, self.created.tasks)
        self.totals.begin_stage(self.created)
        self.design = None
        nothing = np.zeros(0)
        for trial, one in self.pending.items():
            self.pending[trial] = one._replace(ticket=nothing, draw=nothing)
        self.current = {}
        if alarm and self.missingness is not None:
            self.missingness.expect_the_worst()

    def twin(self) -> StudyState:
        """Return a copy that can go its own way. It shares the trials, which are never changed."""
        held: list[Any] = [self.pending, self.current]
        if self.in_order is not None:
            held += [*self.in_order.queues(), self.in_order.ended, self.in_order.passed]
        return copy.deepcopy(self, {id(each): each.copy() for each in held})

    def trial_of(self, pending: Pending) -> Trial:
        """A pending trial, as people know it."""
        return new_trial(pending.asked, self.stages[pending.stage - 1][1], pending.hash)

    # From the log

    def apply(self, event: Event) -> None:
        """Take in the next event of the log."""
        self.check_next(event)
        match event.body:
            case Asked() as asked:
                self._hand_out(asked, event)
            case Told() as told:
                self.take(told.trial, told.reward, told.harm)
            case Corrected() as right:
                self.take(right.trial, right.reward)
            case Superseded() as overruled:
                self._keep_harm(overruled)
            case Abandoned() as abandoned:
                self.give_up(abandoned.trial, abandoned.ignorable)
            case Designed() as designed:
                self.clear_pending()
                self.set_arrays(designed.arrays)
            case ArmsChanged() as staged_:
                self.begin_stage(staged_.representations, staged_.predictors, staged_.tasks)
        self.advance(event)

    def advance(self, event: Event) -> None:
        """Go past an event that the state has taken in already."""
        match event.body:
            case Asked():
                pass
            case Told() | Abandoned() | Corrected() | Closed() as ended:
                self.verdict = self.verdict or ended.verdict
            case Paused() as paused:
                self.paused = paused.reason
            case Unpaused():
                self.paused = None
            case BudgetRaised() as raised:
                self.set_budget(raised.budget)
            case Designed():
                self.design = event.seq
            case VersionsChanged() as resumed:
                self.writers.append(resumed.versions)
            case Recovered():
                self.recovered.append(event.hash)
            case SnapshotTaken() as kept:
                self.kept, self.kept_digest = event.seq, kept.digest
        self.position += 1
        self.last = event

    def check_next(self, event: Event) -> None:
        """Refuse a log with a gap, or with an end to a trial that has ended or was never handed out."""
        if event.seq != self.position:
            raise OsrlError(f"event {self.position} is missing from the log; restore it from a backup")
        if isinstance(event.body, _ENDS) and event.body.trial not in self.pending:
            wrong = f"event {event.seq}: trial {event.body.trial} is not pending; restore the log from a backup"
            raise CorrectedPastError(wrong) if isinstance(event.body, Corrected) else OsrlError(wrong)

    def apply_all(self, events: Iterable[Event]) -> None:
        """Take in the next events of the log."""
        with long_job():
            for part in group_into_blocks(mark_superseded(events)):
                if isinstance(part, Event):
                    self.apply(part)
                    continue
                for pairs in split_block(part):
                    self._apply_stretch(pairs)

    def _apply_stretch(self, pairs: Sequence[TrialPair]) -> None:
        """Take in trials that do not overlap."""
        stretch = new_block(self, pairs)
        if stretch is not None:
            stretch = stretch._replace(rewards=self.scaled(stretch.rewards))
            self.skip_block(pairs, stretch, replay_block(self, stretch, check=False))
            return
        for pair in pairs:
            for event in pair:
                self.apply(event)

    def skip_block(self, pairs: Sequence[TrialPair], stretch: TrialBlock, count: int) -> None:
        """Go past the first trials of a stretch, which the state has taken in already."""
        if not count:
            return
        told = stretch.first(count)
        self.arrival_stats.hand_out_all(told.tasks, told.given, pairs[0][0].at)
        self.asked += count
        self.told += count
        self.position += 2 * count
        self.last = pairs[count - 1][1]
        told = stretch.first(count)
        if self.harm is not None:
            for ask, tell in pairs[:count]:
                assert isinstance(ask.body, Asked)
                arm = ask.body.representation, ask.body.predictor
                self.harm.hand_out(*arm)
                if isinstance(tell.body, Told) and tell.body.harm is not None:
                    self.harm.take(*arm, tell.body.harm)
        self.totals.tell_all(told.tasks, told.arms, told.rewards)
        if self.in_order is not None:
            self.in_order.before_end(last=True)
        if self.missingness is not None:
            self.missingness.count_all(told.tasks, told.arms, told.propensities)

    # The steps of the experiment. Each changes the state; `advance` notes the event that says so.

    def solve(self) -> Designed | None:
        """New weights, if it is time for them. What is pending is expected to do better than its worst."""
        if not self.steps.wants_design(self.state):
            return None
        self.clear_pending()
        arrays = self.named_arrays()
        before = {name: array.tobytes() for name, array in arrays.items()}
        self.steps.design(self.state)
        changed = {name: array for name, array in arrays.items() if array.tobytes() != before[name]}
        return Designed({name: to_lists(array) for name, array in changed.items()}, digest(before))

    def choose(
        self,
        task: str | None,
        until: int | None = None,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
        bits: int | None = None,
    ) -> Asked:
        """The next trial: the arm that the policy names, or one drawn from its probabilities.

        Where the study has no seed it is drawn by ``bits``, fresh secret ones if none are given.
        """
        tasks, representations, predictors = self.shape
        n = representations * predictors
        propensities = np.zeros((tasks, n))
        given = -1 if task is None else self.index_of(0, task)
        arm = int(self.steps.choose_arm(self.state, given, self.key, self.asked, propensities))
        if self.created.seed is not None or arm < 0 or not propensities.any():
            bits = None
        else:
            bits = secrets.randbits(SECRET_BITS) if bits is None else bits
            arm = int(pick_arm(propensities, bits / 2**SECRET_BITS))
        x, a = arm // n, arm % n
        drawn = propensities[x].tolist()
        return Asked(
            self.asked + 1,
            self.created.tasks[x],
            self.created.representations[a // predictors],
            self.created.predictors[a % predictors],
            drawn if any(drawn) else None,
            task is not None,
            self.design,
            until,
            key,
            note,
            bits,
        )

    def _hand_out(self, asked: Asked, event: Event) -> None:
        """A trial goes out; its ticket is fixed now."""
        x = self.index_of(0, asked.task)
        a = self.index_of(1, asked.representation) * self.shape[2] + self.index_of(2, asked.predictor)
        propensities = self._undrawn
        if asked.propensities is not None:
            propensities = np.array(asked.propensities, np.float64).reshape(propensities.shape)
        ticket = np.zeros(self.steps.ticket_size)
        self.steps.write_ticket(self.state, x, a, propensities, ticket)
        draw = np.zeros(0) if self.missingness is None else self.missingness.hand_out(x, a, propensities)
        if self.harm is not None:
            self.harm.hand_out(asked.representation, asked.predictor)
        stage = len(self.stages)
        self.wait_for(asked.trial, Pending(x, a, event.at, ticket, event.hash, draw, asked, stage))
        if self.late is not None:
            self._count_late(self.hypotheses, self.late, x, a, ticket, TRIAL_ISSUED)
        if self.in_order is not None:
            self.in_order.hand_out(asked.trial, x)
        self.arrival_stats.hand_out(x, asked.given, event.at)
        self.asked += 1

    def wait_for(self, trial: int, pending: Pending) -> None:
        """A trial is pending."""
        self.pending[trial] = pending
        if pending.stage == len(self.stages):
            self.current[trial] = pending

    def _end(self, trial: int) -> Pending:
        """A trial is pending no more."""
        ended = self.pending.pop(trial)
        self.current.pop(trial, None)
        if ended.stage == len(self.stages) and self.late is not None:
            self._count_late(self.hypotheses, self.late, ended.x, ended.a, ended.ticket, TRIAL_ENDED)
        self.arrival_stats.end(self.asked - trial)
        return ended

    def take(self, trial: int, reward: float, harm: float | None = None) -> Verdict | None:
        """A reward comes in, perhaps with a harm; the verdict, if it ends the study."""
        told = self._end(trial)
        self.told += 1
        reward = float(self.scaled(reward))
        self.totals.tell(told.asked, reward)
        known = bool(self.created.revision) or told.stage == len(self.stages)
        if self.harm is not None and harm is not None and known:
            self.harm.take(told.asked.representation, told.asked.predictor, harm)
        alarm = self._watch(told, ignorable=False)
        if self.verdict is not None or told.stage != len(self.stages):
            return self._judge()
        self._before_end()
        self.count_pending()
        self.steps.settle(self.state, told.x, told.a, reward, told.ticket)
        self._end_in_order(trial, EndedTrial(told.x, told.a, told.ticket, reward))
        if self.missingness is not None:
            self.missingness.count(told.x, told.a, told.ticket, reward)
        if alarm:
            self._count_every_loss()
        return self._judge()

    def _keep_harm(self, overruled: Superseded) -> None:
        """A reward is corrected later; the harm that was told with it stays."""
        asked, harm = self.pending[overruled.trial].asked, overruled.told.harm
        if self.harm is not None and harm is not None and self.created.revision:
            self.harm.take(asked.representation, asked.predictor, harm)

    def give_up(self, trial: int, ignorable: bool) -> Verdict | None:
        """A trial will never report; the verdict, if it ends the study.

        After an alarm of the watch, no loss is ignorable.
        """
        lost = self._end(trial)
        self.abandoned += 1
        self.left_out += ignorable
        self.totals.lose(lost.asked, ignorable)
        alarm = self._watch(lost, ignorable)
        if self.verdict is not None or lost.stage != len(self.stages):
            return self._judge()
        ignorable = ignorable and (alarm or not self.alarm)
        ended = EndedTrial(lost.x, lost.a, lost.ticket, LEFT_OUT if ignorable else LOST)
        self._before_end()
        first = bool(self.created.revision)  # strict tests part before anything is ruled out by the loss
        if first:
            self._tell_strict(lost, ignorable)
        if not ignorable:
            if self.policy.stopping.forfeit is not None:
                self.policy.stopping.forfeit(self.state.stopping, lost.x, lost.a, lost.ticket)
        elif self.in_order is not None:  # without its worst factor, there is more evidence
            self.count_pending()
            first_arm = lost.a - lost.a % self.shape[2]
            rule_out_by_evidence(self.state.stopping, lost.x, first_arm, first_arm + self.shape[2])
            rule_out_by_comparisons(self.state.stopping, lost.x)
        self._end_in_order(trial, ended)
        if not first:
            self._tell_strict(lost, ignorable)
        if alarm:
            self._count_every_loss()
        return self._judge()

    @property
    def alarm(self) -> bool:
        """Whether losses were found to depend on the arm."""
        return self.missingness is not None and self.missingness.alarm

    def _watch(self, ended: Pending, ignorable: bool) -> bool:
        """Tell the watch what became of a trial; whether it raises its alarm now."""
        if self.missingness is None or ended.stage != len(self.stages):
            return False
        return self.missingness.end(ended.x, ended.a, ended.draw, ignorable, final=self.verdict is not None)

    def _count_every_loss(self) -> None:
        """After an alarm: every loss so far counts by its worst factor, and so will those to come."""
        assert self.missingness is not None and self.in_order is not None
        self.missingness.take_over()
        self.clear_pending()
        self.in_order.begin_again(self.current, self.late)
        self.count_pending()
        for x in range(self.shape[0]):
            rule_out_by_evidence(self.state.stopping, x, 0, self.shape[1] * self.shape[2])
            rule_out_by_comparisons(self.state.stopping, x)

    def _tell_strict(self, lost: Pending, ignorable: bool) -> None:
        """Tell the strict tests of a loss."""
        if self.missingness is not None and ignorable:
            self.missingness.leave_out(lost.x, lost.a, lost.ticket)
        elif self.missingness is not None:
            self.missingness.count(lost.x, lost.a, lost.ticket, LOST)

    def _before_end(self) -> None:
        """A trial is about to end, in the order of reports."""
        if self.in_order is not None:
            self.in_order.before_end(last=not self.current)

    def _end_in_order(self, trial: int, ended: EndedTrial) -> None:
        """The same end in the order of hand-out, where evidence is kept by it."""
        if self.in_order is not None and self.current and self.state.outcome.status[0] == RUNNING:
            self.in_order.end(trial, ended, self.current)

    def count_pending(self) -> None:
        """Let every trial that has not reported count by its worst factor."""
        pend = self.steps.pend
        if pend is None or not (self.current or self._some_count):
            return
        self._some_count = bool(self.current)
        if self.late is not None and self.current:
            self._write_late(self.state.stopping, self.late)
            return
        self.clear_pending()
        if self.steps.ticket_size or self.hypotheses is None:  # otherwise nothing is known of the worst
            for trial in self.current.values():
                pend(self.state.stopping, trial.x, trial.a, trial.ticket)

    def _judge(self) -> Verdict | None:
        """The verdict, when there is one now."""
        if self.verdict is not None:
            return None
        reached, budget = self.state.outcome.reached, self.created.budget
        if reached[STATUS, 0] != RUNNING:
            return self.answer()
        if budget is None or self.told + self.abandoned < budget:
            return None
        conclude(self.state, 0)
        return None if reached[STATUS, 0] == RUNNING else self.by_all_stages(self.answer())

    # What can be read off

    @property
    def status(self) -> str:
        """The verdict in words; ``running`` before there is one."""
        return VERDICTS[RUNNING] if self.verdict is None else self.verdict.status


def begin(first: Event) -> StudyState:
    """The progress of a log that begins with this event; refused where no study could have begun so."""
    assert isinstance(first.body, Created)
    try:
        find(first.body.policy).options(first.body.options)
        progress = StudyState(first.body)
    except OsrlError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        said = repr(error)[:200]
        raise StorageDamaged(f"the log does not begin as a study does ({said}); restore a backup") from None
    progress.last = first
    return progress

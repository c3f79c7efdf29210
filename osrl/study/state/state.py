"""The state of a study: what its events add up to.

    events -> StudyState: state of the policy, pending trials, verdict

Opening a study trusts its log. A design is taken from its event, so nothing is solved again; the arm of an ask
is the one that was issued; a verdict is the one that was reached. A trial's ticket, which its reward will be
judged with, follows from the state when it was issued.

Trials that have not reported count by their worst factor, or the evidence is that of the trials before them,
whichever is larger (`osrl.study.state.in_order`). So one late result does not block the others. Gaussian rewards
have no worst factor, and count in the order of their reports.

Where arms are withdrawn or added, a new *stage* begins: with its tasks and arms, and a policy state without any
evidence of the stages before.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.errors import OsrlError, StorageDamaged
from osrl.hypotheses.state import Hypotheses, rule_out_by_comparisons, rule_out_by_evidence
from osrl.hypotheses.trials import (
    TRIAL_ENDED,
    TRIAL_ISSUED,
    PendingSums,
    count_pending,
    new_pending_sums,
    write_pending,
)
from osrl.jit.kernels import direct
from osrl.model.families import Family
from osrl.model.outcome import RUNNING, STATUS, VERDICTS
from osrl.model.rng import pick_arm
from osrl.policies.registry import find
from osrl.policies.state_arrays import arrays_of, digest
from osrl.policies.steps import StepFunctions, conclude
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
from osrl.study.migrations.arrays import old_names
from osrl.study.state.constants import PENDING_SUMS, WATCH, set_constants
from osrl.study.state.harm import HARM_RULE, Harm
from osrl.study.state.in_order import (
    LEFT_OUT,
    LOST,
    MAX_PASSED,
    MAX_TAKEN,
    NO_LIMIT,
    EndedTrial,
    InOrderEvidence,
    InOrderLimits,
    Pending,
)
from osrl.study.state.missingness import MissingnessMonitor
from osrl.study.state.policy_state import change_arms, new_policy_state, policy_key, remaining_names
from osrl.study.state.totals import TOLD, ArmTotals, ArrivalStats, guess_arms
from osrl.study.state.trial import Trial, new_trial, short_id

_ENDS = (Told, Abandoned, Corrected, Superseded)
_AXES = ("task", "representation", "predictor")


class CorrectedPastError(OsrlError):
    """A reward is corrected that was taken in with its old value: the state has to be loaded anew."""


class Choice(NamedTuple):
    """A trial that the policy has chosen: its event, task and arm of the task."""

    asked: Asked
    x: int
    a: int


class StudyState:
    """The state of a study after the first ``position`` events; ``created`` are the settings of its last stage."""

    def __init__(self, created: Created) -> None:
        self.family = Family(created.family, created.noise_sd)
        self.policy = find(created.policy)
        self.key = policy_key(created)
        self.stages: list[tuple[int, Created]] = []  # the first trial of each, and its settings
        self.totals = ArmTotals(created)
        self.missingness: MissingnessMonitor | None = None
        self.harm: Harm | None = None
        self._set_up(created, 1)
        self.paused: str | None = None  # why no trials are issued
        self.writers = [created.versions]  # the versions of all programs that have written
        self.position = 1
        self.last = Event(0, 0, created)  # the last event
        self.recovered: list[str] = []  # the events, by hash, with which a person has confirmed the log
        self.snapshot_at, self.snapshot_digest = 0, ""  # the event of the last snapshot, and the digest in it
        self.asked = self.told = self.abandoned = 0
        self.left_out = 0  # of those that were abandoned, how many were declared ignorable
        self.design: int | None = None  # the last event of that kind in this stage
        self.pending: dict[int, Pending] = {}
        self.current = self.pending  # those of this stage. Earlier ones may report, and are no evidence
        self.arrival_stats = ArrivalStats(self.shape[0])
        self.verdict: Verdict | None = None
        self._some_count = True  # whether pending trials may count in the policy state by their worst factor
        self._count_pending, self._write_pending = direct(count_pending), direct(write_pending)

    # Stages

    def _set_up(self, created: Created, first: int) -> None:
        """Begin a stage with these settings, whose first trial has number ``first``."""
        self.created = created
        self.stages.append((first, created))
        self.shape = len(created.tasks), len(created.representations), len(created.predictors)
        self.policy_state: Any = set_constants(new_policy_state(created), created)
        self.steps = StepFunctions(self.policy_state)
        self._named = self.policy_state, dict(arrays_of(self.policy_state))
        stopping = self.policy_state.stopping
        self.hypotheses: Hypotheses | None = stopping if isinstance(stopping, Hypotheses) else None
        self.in_order: InOrderEvidence | None = None
        self.pending_sums: PendingSums | None = None  # None: every pending trial is counted in every tell
        before = self.missingness if created.revision else None
        self.missingness = None
        # Counts in the order of hand-out and in that of reports are two e-processes: one has to be chosen.
        if self.hypotheses is not None and self.family.noise == 0:
            summed = PENDING_SUMS.keys() <= created.evidence.keys()
            limits = InOrderLimits(MAX_PASSED, MAX_TAKEN) if summed else NO_LIMIT
            self.in_order = InOrderEvidence(self.hypotheses, limits)
            self.pending_sums = new_pending_sums(self.hypotheses) if summed else None
            self.missingness = MissingnessMonitor(self.hypotheses, created.evidence.get(WATCH, 0.0), before)
        if created.harm_limit is not None:
            if self.harm is not None and created.revision:
                self.harm.begin_stage(created)
            else:
                self.harm = Harm(created, created.harm_limit)
        self._undrawn = np.zeros(self.shape[1] * self.shape[2])
        names = (created.tasks, created.representations, created.predictors)
        self._indices = tuple({name: i for i, name in enumerate(each)} for each in names)

    def begin_stage(
        self,
        representations: Sequence[str],
        predictors: Sequence[str],
        tasks: Sequence[str] | None = None,
    ) -> None:
        """Go on with these arms; evidence counts from here on, and no loss is ignorable after an alarm."""
        alarm, before = self.alarm, self.created
        self._set_up(change_arms(before, representations, predictors, tasks), self.asked + 1)
        self.arrival_stats.begin_stage(before.tasks, self.created.tasks)
        self.totals.begin_stage(self.created)
        self.design = None
        nothing = np.zeros(0)
        for trial, one in self.pending.items():
            self.pending[trial] = one._replace(ticket=nothing, draw=nothing)
        self.current = {}
        if alarm and self.missingness is not None:
            self.missingness.count_losses_at_worst()

    def settings_of(self, trial: int) -> Created:
        """Return the settings of the stage that has issued a trial."""
        return next(created for first, created in reversed(self.stages) if first <= trial)

    def set_budget(self, budget: int) -> None:
        """Allow so many trials."""
        first, created = self.stages.pop()
        self.created = replace(created, budget=budget, id=short_id(created))
        self.stages.append((first, self.created))

    def index_of(self, axis: int, name: str) -> int:
        """Return the index of a name: axis 0 for tasks, 1 for representations, 2 for predictors."""
        indices = self._indices[axis]
        if name not in indices:
            known = ", ".join(map(repr, indices))
            raise OsrlError(f"the study has no {_AXES[axis]} {name!r}; use one of {known}")
        return indices[name]

    def scaled(self, reward: Any) -> Any:
        """Return a reward, or several, in the scale of the evidence: 0 to 1 for bounded ones."""
        low, high = self.created.low, self.created.high
        return reward if low == 0.0 and high == 1.0 else (reward - low) / (high - low)

    def trial_of(self, pending: Pending) -> Trial:
        """Return a pending trial by names."""
        return new_trial(pending.asked, self.stages[pending.stage - 1][1], pending.hash, pending.a)

    def with_own_policy(self) -> StudyState:
        """Return a copy that shares all but the policy state, which may be changed."""
        copied = copy.copy(self)
        copied.policy_state = copy.deepcopy(self.policy_state)
        return copied

    def twin(self) -> StudyState:
        """Return an independent copy. It shares the trials, which are never changed."""
        shallow: list[Any] = [self.pending, self.current]
        if self.in_order is not None:
            shallow += [*self.in_order.queues(), self.in_order.ended, self.in_order.passed]
        return copy.deepcopy(self, {id(each): each.copy() for each in shallow})

    # Events of the log

    def apply(self, event: Event) -> None:
        """Take in the next event of the log."""
        self.check_next(event)
        match event.body:
            case Asked() as asked:
                a = self.index_of(1, asked.representation) * self.shape[2] + self.index_of(2, asked.predictor)
                self.issue(event, asked, self.index_of(0, asked.task), a)
            case Told() as told:
                self.apply_reward(told.trial, told.reward, told.harm)
            case Corrected() as right:
                self.apply_reward(right.trial, right.reward)
            case Superseded() as superseded:
                self._keep_harm(superseded)
            case Abandoned() as abandoned:
                self.apply_loss(abandoned.trial, abandoned.ignorable)
            case Designed() as designed:
                self.clear_pending()
                self.set_arrays(designed.arrays)
            case ArmsChanged() as changed:
                self.begin_stage(changed.representations, changed.predictors, changed.tasks)
        self.advance(event)

    def advance(self, event: Event) -> None:
        """Go past an event whose effect on the evidence is in the state already."""
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
            case VersionsChanged() as changed:
                self.writers.append(changed.versions)
            case Recovered():
                self.recovered.append(event.hash)
            case SnapshotTaken() as taken:
                self.snapshot_at, self.snapshot_digest = event.seq, taken.digest
        self.position += 1
        self.last = event

    def check_next(self, event: Event) -> None:
        """Refuse a log with a gap, or with an end to a trial that has ended or was never issued."""
        if event.seq != self.position:
            raise OsrlError(f"event {self.position} is missing from the log; restore it from a backup")
        if isinstance(event.body, _ENDS) and event.body.trial not in self.pending:
            wrong = f"event {event.seq}: trial {event.body.trial} is not pending; restore the log from a backup"
            raise CorrectedPastError(wrong) if isinstance(event.body, Corrected) else OsrlError(wrong)

    # The steps of the experiment. Each changes the state; `advance` notes the event that says so.

    def solve(self) -> Designed | None:
        """Return a new design, if one is due. What is pending is expected to do better than its worst."""
        if not self.steps.wants_design(self.policy_state):
            return None
        self.clear_pending()
        arrays = self._named_arrays()
        before = {name: array.tobytes() for name, array in arrays.items()}
        self.steps.design(self.policy_state)
        changed = {name: array for name, array in arrays.items() if array.tobytes() != before[name]}
        return Designed({name: to_lists(array) for name, array in changed.items()}, digest(before))

    def choose(
        self,
        task: str | None,
        until: int | None = None,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
        bits: int | None = None,
    ) -> Choice:
        """Return the next trial: the arm that the policy names, or one drawn from its probabilities.

        Where the study has no seed it is drawn by ``bits``, fresh secret ones if none are given.
        """
        tasks, representations, predictors = self.shape
        n = representations * predictors
        propensities = np.zeros((tasks, n))
        given = -1 if task is None else self.index_of(0, task)
        arm = int(self.steps.choose_arm(self.policy_state, given, self.key, self.asked, propensities))
        if self.created.seed is not None or arm < 0 or not propensities.any():
            bits = None
        else:
            bits = secrets.randbits(SECRET_BITS) if bits is None else bits
            arm = int(pick_arm(propensities, bits / 2**SECRET_BITS))
        x, a = divmod(arm, n)
        drawn = propensities[x].tolist()
        asked = Asked(
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
        return Choice(asked, x, a)

    def issue(self, event: Event, asked: Asked, x: int, a: int) -> None:
        """Issue a trial of arm ``a`` in task ``x``; its ticket is fixed now."""
        propensities = self._undrawn
        if asked.propensities is not None:
            propensities = np.array(asked.propensities, np.float64).reshape(propensities.shape)
        ticket = np.zeros(self.steps.ticket_size)
        self.steps.write_ticket(self.policy_state, x, a, propensities, ticket)
        draw = np.zeros(0) if self.missingness is None else self.missingness.issue(x, a, propensities)
        if self.harm is not None:
            self.harm.issue(asked.representation, asked.predictor)
        stage = len(self.stages)
        self.add_pending(asked.trial, Pending(x, a, event.at, ticket, event.hash, draw, asked, stage))
        if self.pending_sums is not None:
            self._count_pending(self.hypotheses, self.pending_sums, x, a, ticket, TRIAL_ISSUED)
        if self.in_order is not None:
            self.in_order.issue(asked.trial, x)
        self.arrival_stats.issue(x, asked.given, event.at)
        self.asked += 1

    def add_pending(self, trial: int, pending: Pending) -> None:
        """Note that a trial is pending."""
        self.pending[trial] = pending
        if pending.stage == len(self.stages):
            self.current[trial] = pending

    def _remove_pending(self, trial: int) -> Pending:
        """Note that a trial is pending no more."""
        ended = self.pending.pop(trial)
        self.current.pop(trial, None)
        if ended.stage == len(self.stages) and self.pending_sums is not None:
            self._count_pending(self.hypotheses, self.pending_sums, ended.x, ended.a, ended.ticket, TRIAL_ENDED)
        self.arrival_stats.end(self.asked - trial)
        return ended

    def apply_reward(self, trial: int, reward: float, harm: float | None = None) -> Verdict | None:
        """Take in a reward, perhaps with a harm; return the verdict, if it ends the study."""
        told = self._remove_pending(trial)
        self.told += 1
        reward = float(self.scaled(reward))
        self.totals.tell(told.asked, reward)
        is_counted = bool(self.created.revision) or told.stage == len(self.stages)
        if self.harm is not None and harm is not None and is_counted:
            self.harm.tell(told.asked.representation, told.asked.predictor, harm)
        alarm = self._watch_losses(told, ignorable=False)
        if self.verdict is not None or told.stage != len(self.stages):
            return self._judge()
        self._before_end()
        self.count_pending()
        self.steps.apply_reward(self.policy_state, told.x, told.a, reward, told.ticket)
        self._end_in_order(trial, EndedTrial(told.x, told.a, told.ticket, reward))
        if self.missingness is not None:
            self.missingness.count(told.x, told.a, told.ticket, reward)
        if alarm:
            self._count_every_loss()
        return self._judge()

    def _keep_harm(self, superseded: Superseded) -> None:
        """Take in the harm of a tell whose reward is corrected later."""
        asked, harm = self.pending[superseded.trial].asked, superseded.told.harm
        if self.harm is not None and harm is not None and self.created.revision:
            self.harm.tell(asked.representation, asked.predictor, harm)

    def apply_loss(self, trial: int, ignorable: bool) -> Verdict | None:
        """Take in that a trial will never report; return the verdict, if it ends the study.

        After an alarm of the missingness monitor, no loss is ignorable.
        """
        lost = self._remove_pending(trial)
        self.abandoned += 1
        self.left_out += ignorable
        self.totals.lose(lost.asked, ignorable)
        alarm = self._watch_losses(lost, ignorable)
        if self.verdict is not None or lost.stage != len(self.stages):
            return self._judge()
        ignorable = ignorable and (alarm or not self.alarm)
        self._before_end()
        strict_first = bool(self.created.revision)  # strict tests part before anything is ruled out by the loss
        if strict_first:
            self._count_strictly(lost, ignorable)
        if not ignorable:
            if self.policy.stopping.forfeit is not None:
                self.policy.stopping.forfeit(self.policy_state.stopping, lost.x, lost.a, lost.ticket)
        elif self.in_order is not None:  # without its worst factor, there is more evidence
            self.count_pending()
            first_arm = lost.a - lost.a % self.shape[2]
            self._rule_out(lost.x, first_arm, first_arm + self.shape[2])
        self._end_in_order(trial, EndedTrial(lost.x, lost.a, lost.ticket, LEFT_OUT if ignorable else LOST))
        if not strict_first:
            self._count_strictly(lost, ignorable)
        if alarm:
            self._count_every_loss()
        return self._judge()

    @property
    def alarm(self) -> bool:
        """Whether losses were found to depend on the arm."""
        return self.missingness is not None and self.missingness.alarm

    def _watch_losses(self, ended: Pending, ignorable: bool) -> bool:
        """Let the monitor see what became of a trial; return whether it raises its alarm now."""
        if self.missingness is None or ended.stage != len(self.stages):
            return False
        return self.missingness.end(ended.x, ended.a, ended.draw, ignorable, final=self.verdict is not None)

    def _count_every_loss(self) -> None:
        """Count every loss so far by its worst factor, after an alarm."""
        assert self.missingness is not None and self.in_order is not None
        self.missingness.take_over()
        self.clear_pending()
        self.in_order.restart(self.current, self.pending_sums)
        self.count_pending()
        for x in range(self.shape[0]):
            self._rule_out(x, 0, self.shape[1] * self.shape[2])

    def _rule_out(self, x: int, first: int, last: int) -> None:
        """Rule out what can be, after evidence about arms ``first`` to ``last`` (not included) has changed."""
        rule_out_by_evidence(self.policy_state.stopping, x, first, last)
        rule_out_by_comparisons(self.policy_state.stopping, x)

    def _count_strictly(self, lost: Pending, ignorable: bool) -> None:
        """Count a loss in the strict tests."""
        if self.missingness is not None and ignorable:
            self.missingness.leave_out(lost.x, lost.a, lost.ticket)
        elif self.missingness is not None:
            self.missingness.count(lost.x, lost.a, lost.ticket, LOST)

    def _before_end(self) -> None:
        """Prepare the evidence in order for the end of a trial."""
        if self.in_order is not None:
            self.in_order.before_end(last=not self.current)

    def _end_in_order(self, trial: int, ended: EndedTrial) -> None:
        """Take in the end of a trial in the order of hand-out, where evidence is kept by it."""
        if self.in_order is not None and self.current and self.policy_state.outcome.status[0] == RUNNING:
            self.in_order.end(trial, ended, self.current)

    def count_pending(self) -> None:
        """Let every trial that has not reported count by its worst factor."""
        pend = self.steps.pend
        if pend is None or not (self.current or self._some_count):
            return
        self._some_count = bool(self.current)
        if self.pending_sums is not None and self.current:
            self._write_pending(self.policy_state.stopping, self.pending_sums)
            return
        self.clear_pending()
        if self.steps.ticket_size or self.hypotheses is None:  # otherwise nothing is known of the worst
            for trial in self.current.values():
                pend(self.policy_state.stopping, trial.x, trial.a, trial.ticket)

    def clear_pending(self) -> None:
        """Let no trial that has not reported count."""
        if self.steps.clear_pending is not None:
            self.steps.clear_pending(self.policy_state.stopping)
        if self.pending_sums is not None:
            self.pending_sums.stale[:] = True

    def next_harm_action(self) -> ArmsChanged | Paused | None:
        """Return what the limit of harm demands now: withdraw, or pause where nothing else would be left."""
        if self.verdict is not None or self.harm is None or (found := self.harm.found()) is None:
            return None
        axis, name = found
        reason = f"{axis} {name}: more harm than {self.created.harm_limit:g} on average"
        left = remaining_names(self.created, _AXES.index(axis), name)
        if left is not None:
            _, representations, predictors = left
            return ArmsChanged(representations, predictors, reason, HARM_RULE)
        return Paused(reason, HARM_RULE) if self.paused is None else None

    # Verdict and guess

    def _judge(self) -> Verdict | None:
        """Return the verdict, when there is one now."""
        if self.verdict is not None:
            return None
        reached, budget = self.policy_state.outcome.reached, self.created.budget
        if reached[STATUS, 0] != RUNNING:
            return self.answer()
        if budget is None or self.told + self.abandoned < budget:
            return None
        conclude(self.policy_state, 0)
        return None if reached[STATUS, 0] == RUNNING else self._by_all_stages(self.answer())

    @property
    def status(self) -> str:
        """The verdict in words; ``running`` before there is one."""
        return VERDICTS[RUNNING] if self.verdict is None else self.verdict.status

    @property
    def bears_loss(self) -> bool:
        """Whether the guarantee survives trials that are lost for a reason which may tell something."""
        return self.policy.stopping.forfeit is not None and self.family.noise == 0

    def answer(self) -> Verdict:
        """Return the verdict as the policy state has it."""
        return self._answer_of(self.policy_state)

    def best_guess(self) -> Verdict:
        """Return the answer as it looks now, by the trials that have reported."""
        policy_state = copy.deepcopy(self.policy_state)
        if self.steps.clear_pending is not None:
            self.steps.clear_pending(policy_state.stopping)
        conclude(policy_state, 0)
        return self._by_all_stages(self._answer_of(policy_state))

    def _answer_of(self, policy_state: Any) -> Verdict:
        outcome, created = policy_state.outcome, self.created
        return Verdict(
            VERDICTS[int(outcome.status[0])],
            [_name(created.representations, g) for g in outcome.representation[0]],
            [_name(created.predictors, h) for h in outcome.predictor[0]],
        )

    def _by_all_stages(self, guess: Verdict) -> Verdict:
        """Return the guess of this stage; after other stages that of all results, see `guess_arms`."""
        carried = self.created.revision and len(self.stages) > 1 and None not in guess.representations
        if not carried or not self.totals.counts[TOLD, self.totals.place].any():
            return guess
        X, G, H = self.shape
        tests, created = self.hypotheses, self.created
        possible_g = np.ones(G, np.bool_) if tests is None else tests.possible_g
        possible_h = np.ones((X, G, H), np.bool_) if tests is None else tests.possible_h.reshape(X, G, H)
        shared = self.policy.stopping.name != "tasks"
        best_g, best_h = guess_arms(self.totals, self.family.noise, possible_g, possible_h, shared)
        return replace(
            guess,
            representations=[created.representations[g] for g in best_g],
            predictors=[created.predictors[h] for h in best_h],
        )

    # Arrays

    def _named_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the policy state, which are looked up once: they are updated in place."""
        if self._named[0] is not self.policy_state:  # a copy may be given a policy state of its own
            self._named = self.policy_state, dict(arrays_of(self.policy_state))
        return self._named[1]

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Return every array that the state consists of, with its name in snapshots."""
        yield from arrays_of(self.policy_state)
        yield "tally", self.totals.counts
        if self.in_order is not None:
            yield from self.in_order.arrays()
        if self.missingness is not None:
            yield from self.missingness.arrays()
        if self.pending_sums is not None:
            yield "late.sums", self.pending_sums.sums
            yield "late.compared", self.pending_sums.compared
            if self.pending_sums.checked.size:
                yield "late.checked", self.pending_sums.checked
        if self.harm is not None:
            yield from self.harm.arrays()

    def set_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Write arrays into the policy state, by name."""
        own, old = dict(arrays_of(self.policy_state)), old_names(self.policy_state)
        for name, content in arrays.items():
            if name in own:
                own[name][...] = np.array(content, dtype=own[name].dtype)
            else:
                old[name].set(content)


def _name(names: Sequence[str], index: int) -> str | None:
    return names[int(index)] if index >= 0 else None


def initial_state(first: Event) -> StudyState:
    """Return the state of a log that begins with this event; refuse one with which no study could begin."""
    assert isinstance(first.body, Created)
    try:
        find(first.body.policy).options(first.body.options)
        state = StudyState(first.body)
    except OsrlError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        said = repr(error)[:200]
        raise StorageDamaged(f"the log does not begin as a study does ({said}); restore a backup") from None
    state.last = first
    return state

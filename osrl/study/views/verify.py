"""Replay: go through a log again, and see whether everything follows from it.

Nothing is solved: weights are taken from the log. All else is computed anew and compared: which trial
the policy hands out, with which probabilities, when it wants new weights and in which state, the evidence
at that time, the verdict, and everything that a snapshot holds. As long as only the versions at hand have
written, all must agree bit for bit; from then on to 1e-9, with the same draws and the same verdict.

Nothing is taken for granted: rewards must be of the family, names those of the study, the chain of hashes
unbroken. Where the log can no longer be read, the replay ends, and says how far it got.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from osrl.errors import OsrlError, StorageDamaged
from osrl.jit.kernels import long_job
from osrl.model.outcome import RUNNING
from osrl.policies.state_arrays import as_bytes, digest
from osrl.study.log.corrections import mark_superseded
from osrl.study.log.events import (
    SAMPLING,
    Abandoned,
    ArmsChanged,
    Asked,
    Closed,
    Corrected,
    Created,
    Designed,
    Event,
    Paused,
    SnapshotTaken,
    Superseded,
    Told,
)
from osrl.study.log.versions import versions
from osrl.study.state.bulk_replay import TrialBlock, TrialPair, group_into_blocks, new_block, replay_block, split_block
from osrl.study.state.guardrail import RULE, next_by_harm_limit
from osrl.study.state.snapshot import all_arrays, facts, unpack
from osrl.study.state.state import begin
from osrl.study.storage.base import Snapshot
from osrl.study.views.evidence import evidence_at_design

TOLERANCE = 1e-9
MOST_PROBLEMS = 20  # that are listed
_WITHOUT = "has no bits that drew its arm, and the study has no seed"
_WITH = "has bits of its own, though a seed or nothing has drawn its arm"
LEAST_HEAD = 12  # letters of a hash that say which event is meant


class Verification(NamedTuple):
    """What a replay found. ``exact``: all events were written by the versions at hand.

    ``head`` is the hash of the last event, and stands for all of them. ``notes`` are worth knowing, and
    no problem.
    """

    events: int
    trials: int
    verdict: str
    exact: bool
    largest_difference: float
    head: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether everything follows from the log."""
        return not self.problems


def verify(events: Iterable[Event], snapshot: Snapshot | None = None, head: str | None = None) -> Verification:
    """Replay a log from its first event, and compare; ``head`` is a hash that it must contain."""
    stream = iter(events)
    first = next(stream, None)
    if first is None or not isinstance(first.body, Created):
        raise StorageDamaged("the log does not begin with the creation of a study; restore a backup")
    if head is not None and (len(head) < LEAST_HEAD or head.strip("0123456789abcdef")):
        raise OsrlError(f"the head is {head!r}; give the hash that was printed, at least {LEAST_HEAD} letters")
    replay = _Replay(first, snapshot, head)
    replay.compare_all(stream)
    progress = replay.progress
    return Verification(
        progress.position,
        progress.asked,
        progress.status,
        replay.exact,
        replay.largest,
        progress.last.hash,
        tuple(replay.problems),
        tuple(replay.notes),
    )


def _draws_right(created: Created, asked: Asked) -> bool:
    """Whether an ask has bits of its own exactly where they must have drawn its arm."""
    return (created.seed is None and asked.propensities is not None) == (asked.bits is not None)


class _Replay:
    """A progress that is compared with its log, event by event."""

    def __init__(self, first: Event, snapshot: Snapshot | None, head: str | None) -> None:
        assert isinstance(first.body, Created)
        self.created = first.body
        self.progress = begin(first)
        self.largest = 0.0
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._designed = False
        self._ruling = False  # the limit of harm may act now
        self._due: dict[int, str] = {}  # digests of the states, by event, since it is time for new weights
        self._old: dict[int, float] = {}  # rewards that were corrected
        self._snapshot = snapshot
        self._head = head
        self._same = 0  # of those who have written, how many had the versions at hand
        self._look_for_head(first)

    def compare_all(self, events: Iterator[Event]) -> None:
        """Compare every event, as far as the log can be read."""
        try:
            with long_job():
                for part in group_into_blocks(mark_superseded(events)):
                    if isinstance(part, Event):
                        self._compare_one(part)
                        continue
                    for pairs in split_block(part):
                        self._compare_stretch(pairs)
        except OsrlError as error:
            self._complain(str(error))
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            self._complain(f"event {self.progress.position} cannot be replayed ({error!r:.200}); restore a backup")
        else:
            self._compare_snapshot(None)
        if self._head is not None:
            self._complain(f"no event has the hash {self._head}: the log is not the one that was noted")

    def _compare_one(self, event: Event) -> None:
        self._compare_snapshot(event)
        self.compare(event)
        self._look_for_head(event)

    def _compare_stretch(self, pairs: Sequence[TrialPair]) -> None:
        """Compare trials that do not overlap, as far as all is bit for bit the same; then one by one."""
        progress, done = self.progress, 0
        stretch = new_block(progress, pairs)
        if stretch is not None:
            stretch = stretch._replace(rewards=progress.scaled(stretch.rewards))
        plain = progress.harm is None and stretch is not None
        if plain:
            asks: list[Any] = [pair[0].body for pair in pairs]
            plain = all(ask.design == progress.design and _draws_right(progress.created, ask) for ask in asks)
        if plain and stretch is not None and self._ordinary(pairs, stretch):
            done = replay_block(progress, stretch, check=True)
            progress.skip_block(pairs, stretch, done)
            for pair in pairs[:done]:
                for event in pair:
                    self._look_for_head(event)
            if progress.state.outcome.status[0] != RUNNING:
                verdict = progress.answer()
                self._complain(f"event {progress.last.seq}: the verdict is None, by replay {verdict}")
        for pair in pairs[done:]:
            for event in pair:
                self._compare_one(event)

    def _ordinary(self, pairs: Sequence[TrialPair], stretch: TrialBlock) -> bool:
        """Whether there is nothing to say about these trials but what the policy says."""
        times = np.array([event.at for pair in pairs for event in pair])
        in_order = times[0] >= self.progress.last.at and bool((np.diff(times) >= 0).all())
        family = self.progress.family
        rewards = all(family.accepts_reward(reward) for reward in np.unique(stretch.rewards).tolist())
        snapshot = self._snapshot
        within = snapshot is not None and pairs[0][0].seq <= snapshot.position <= pairs[-1][1].seq
        return in_order and rewards and not within

    def _look_for_head(self, event: Event) -> None:
        """Whether this is the event whose hash was noted."""
        if self._head is not None and event.hash.startswith(self._head):
            self.notes.append(f"the head that was given is event {event.seq}")
            self._head = None

    @property
    def exact(self) -> bool:
        """Whether only the versions at hand have written so far."""
        writers = self.progress.writers
        while self._same < len(writers) and writers[self._same] == versions():
            self._same += 1
        return self._same == len(writers)

    def compare(self, event: Event) -> None:
        """Compare an event with what follows from those before it, then take it in."""
        progress, body = self.progress, event.body
        where = f"event {event.seq}"
        progress.check_next(event)
        if event.at < progress.last.at:
            self._note(f"{where}: the clock ran backwards by {(progress.last.at - event.at) / 1e6:g} seconds")
        late = not isinstance(body, Designed) or body.after is not None
        if late and progress.steps.wants_design(progress.state):
            self._due[progress.last.seq] = self._digest()
        told = body.told if isinstance(body, Superseded) else body
        if isinstance(told, Told | Corrected) and not progress.family.accepts_reward(progress.scaled(told.reward)):
            self._complain(f"{where}: the reward is {told.reward!r}, which the family does not have")
        if isinstance(body, Superseded):
            self._old[body.trial] = body.told.reward
        if isinstance(body, Corrected) and self._old.get(body.trial) != body.old:
            self._complain(f"{where}: the old reward is {body.old!r}, which was not told")
        self._compare_rule(where, event)
        if isinstance(body, Designed):
            self._compare_design(where, body)
        if isinstance(body, Asked):
            self._compare_ask(where, body)
        if isinstance(body, Closed):
            guess = replace(progress.best_guess(), status="closed")
            if progress.verdict is not None or body.verdict != guess:
                self._complain(f"{where}: the verdict is {body.verdict}, by replay {guess}")
        if isinstance(body, Told | Abandoned | Corrected):
            if not isinstance(body, Abandoned):
                harm = body.harm if isinstance(body, Told) else None
                verdict = progress.take(body.trial, body.reward, harm)
            else:
                verdict = progress.give_up(body.trial, body.ignorable)
            if progress.verdict is None and verdict != body.verdict:
                self._complain(f"{where}: the verdict is {body.verdict}, by replay {verdict}")
            progress.advance(event)
        else:
            progress.apply(event)
        self._designed = isinstance(body, Designed)
        if self._designed:
            self._due.clear()

    def _compare_rule(self, where: str, event: Event) -> None:
        """Whether the limit of harm has done what it must, right after a harm was told, and nothing else."""
        body = event.body
        said = body if isinstance(body, ArmsChanged | Paused) and body.by == RULE else None
        due = next_by_harm_limit(self.progress) if self._ruling else None
        if self.exact and said != due:
            self._complain(f"{where}: the limit of harm has done {said}, by replay {due}")
        kept = isinstance(body, Superseded) and bool(self.created.revision)  # its harm is
        self._ruling = said is not None or isinstance(body, Told) or kept

    def _digest(self) -> str:
        """Of the state that would be solved for now."""
        now = copy.copy(self.progress)
        now.state = copy.deepcopy(now.state)
        now.clear_pending()
        return digest(as_bytes(now.state))

    def _compare_late_design(self, where: str, designed: Designed) -> None:
        """New weights for the state after an earlier event, because others have written meanwhile."""
        state = self._due.get(designed.after or 0)
        if state is None:
            self._complain(f"{where}: new weights as of event {designed.after}, though it was not time")
        elif self.exact and state != designed.before:
            self._complain(f"{where}: the state as of event {designed.after} is not the one of the log")
        for name in designed.arrays:
            if not name.startswith(SAMPLING):
                self._complain(f"{where}: weights of an earlier state change {name}")

    def _compare_design(self, where: str, designed: Designed) -> None:
        progress = self.progress
        if designed.after is not None:
            self._compare_late_design(where, designed)
            return
        if not progress.steps.wants_design(progress.state):
            self._complain(f"{where}: new weights, though it was not time for them")
        progress.clear_pending()
        if self.exact and digest(as_bytes(progress.state)) != designed.before:
            self._complain(f"{where}: the state before new weights is not the one of the log")
        for name, value in evidence_at_design(progress).items():
            if name in designed.arrays:
                logged = np.array(designed.arrays[name], float)
                self._difference(where, name, logged, value, self.exact)

    def _compare_ask(self, where: str, asked: Asked) -> None:
        progress = self.progress
        same = self.exact
        if same and not self._designed and progress.steps.wants_design(progress.state):
            # An ask that others kept from solving goes on with the weights that there are.
            self._note(f"{where}: it was time for new weights, but there are none")
        if not _draws_right(progress.created, asked):
            self._complain(f"{where}: trial {asked.trial} {_WITHOUT if asked.bits is None else _WITH}")
            return
        again = progress.choose(asked.task if asked.given else None, bits=asked.bits)
        if asked.trial != again.trial or asked.design != again.design:
            self._complain(
                f"{where}: trial {asked.trial} of design {asked.design}, by replay {again.trial} of {again.design}"
            )
        arm, own = ((ask.task, ask.representation, ask.predictor, ask.propensities is None) for ask in (asked, again))
        # On another platform, a tie between arms that are not drawn may be broken otherwise.
        if arm != own and (same or asked.propensities is not None):
            self._complain(f"{where}: arm {arm[:3]} was handed out, by replay {own[:3]}")
        elif asked.propensities and again.propensities and asked.propensities != again.propensities:
            self._difference(where, "propensities", asked.propensities, again.propensities, same)

    def _compare_snapshot(self, event: Event | None) -> None:
        """Compare the state with the snapshot that was kept here, if it was; ``event`` is the next one."""
        snapshot, position = self._snapshot, self.progress.position
        if snapshot is None or (snapshot.position > position and event is not None):
            return
        self._snapshot = None
        where = f"snapshot at {snapshot.position}"
        body = None if event is None else event.body
        if not isinstance(body, SnapshotTaken) or body.digest != hashlib.sha256(snapshot.content).hexdigest():
            self._complain(f"{where}: no event vouches for its content; it is ignored")
        kept = unpack(snapshot, self.created)
        if kept is None:
            return  # damaged, or of other versions: it would not be used either
        held, own = facts(kept), facts(self.progress)
        for name in own:
            if held[name] != own[name]:
                self._complain(f"{where}: {name} is {held[name]!r:.100}, by replay {own[name]!r:.100}")
        arrays = all_arrays(kept)
        for name, array in all_arrays(self.progress).items():
            self._difference(where, name, arrays[name], array, self.exact)

    def _difference(self, where: str, what: str, one: object, other: object, same: bool) -> None:
        a, b = np.asarray(one, float), np.asarray(other, float)
        if np.array_equal(a, b, equal_nan=True):
            return
        difference = np.inf
        if a.shape == b.shape:
            with np.errstate(invalid="ignore"):  # no evidence at all is -inf, here and there
                apart = np.where(a == b, 0.0, np.abs(a - b) / np.maximum(1.0, np.abs(b)))
            difference = float(np.max(apart, initial=0.0))
        self.largest = max(self.largest, difference)
        if same or not difference <= TOLERANCE:
            self._complain(f"{where}: {what} differ by {difference:.1e} from the replay")

    def _note(self, what: str) -> None:
        if len(self.notes) < MOST_PROBLEMS:
            self.notes.append(what)

    def _complain(self, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

"""Verification by replay: everything that a study has done must follow from its log.

Nothing is solved: weights are taken from the log. All else is computed anew and compared: which trial
the policy hands out, with which probabilities, when new weights are due and for which state, the evidence
at that time, the verdict, and everything that a snapshot holds. As long as only the versions at hand have
written, all must agree bit for bit; from then on to 1e-9, with the same draws and the same verdict.

Nothing is assumed: rewards must be of the family, names those of the study, the chain of hashes unbroken. Where the
log can no longer be read, the replay ends, and says how far it came.
"""

from __future__ import annotations

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
from osrl.study.state.bulk_replay import (
    TrialBlock,
    TrialPair,
    group_into_blocks,
    new_block,
    replay_block,
    skip_block,
    split_block,
)
from osrl.study.state.harm import HARM_RULE
from osrl.study.state.snapshot import all_arrays, facts, unpack
from osrl.study.state.state import initial_state
from osrl.study.storage.base import Snapshot
from osrl.study.views.evidence import evidence_at_design

TOLERANCE = 1e-9  # relative, where other versions have written
MAX_PROBLEMS = 20  # that are listed
_BITS_MISSING = "has no bits that drew its arm, and the study has no seed"
_BITS_UNEXPECTED = "has bits of its own, though a seed or nothing has drawn its arm"
MIN_HEAD_LETTERS = 12  # letters of a hash that say which event is meant


class Verification(NamedTuple):
    """The result of a replay. ``exact``: all events were written by the versions at hand.

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
        """Tell whether everything follows from the log."""
        return not self.problems


def verify(events: Iterable[Event], snapshot: Snapshot | None = None, head: str | None = None) -> Verification:
    """Replay a log from its first event, and compare; ``head`` is a hash that it must contain."""
    stream = iter(events)
    first = next(stream, None)
    if first is None or not isinstance(first.body, Created):
        raise StorageDamaged("the log does not begin with the creation of a study; restore a backup")
    if head is not None and (len(head) < MIN_HEAD_LETTERS or head.strip("0123456789abcdef")):
        raise OsrlError(f"the head is {head!r}; give the hash that was printed, at least {MIN_HEAD_LETTERS} letters")
    replay = _Replay(first, snapshot, head)
    replay.compare_all(stream)
    state = replay.state
    return Verification(
        state.position,
        state.asked,
        state.status,
        replay.exact,
        replay.largest,
        state.last.hash,
        tuple(replay.problems),
        tuple(replay.notes),
    )


def _draws_right(created: Created, asked: Asked) -> bool:
    """Tell whether an ask has secret bits exactly where they must have drawn its arm."""
    return (created.seed is None and asked.propensities is not None) == (asked.bits is not None)


class _Replay:
    """A state that is compared with its log, event by event."""

    def __init__(self, first: Event, snapshot: Snapshot | None, head: str | None) -> None:
        assert isinstance(first.body, Created)
        self.created = first.body
        self.state = initial_state(first)
        self.largest = 0.0
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._designed = False
        self._harm_limit_due = False  # the limit of harm may act now
        self._due_digests: dict[int, str] = {}  # digests of the states, by event, since it is time for new weights
        self._corrected: dict[int, float] = {}  # rewards that were corrected
        self._snapshot = snapshot
        self._head = head
        self._same_writers = 0  # of those who have written, how many had the versions at hand
        self._match_head(first)

    def compare_all(self, events: Iterator[Event]) -> None:
        """Compare every event, as far as the log can be read."""
        try:
            with long_job():
                for part in group_into_blocks(mark_superseded(events)):
                    if isinstance(part, Event):
                        self._compare_one(part)
                        continue
                    for pairs in split_block(part):
                        self._compare_block(pairs)
        except OsrlError as error:
            self._report(str(error))
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            self._report(f"event {self.state.position} cannot be replayed ({error!r:.200}); restore a backup")
        else:
            self._compare_snapshot(None)
        if self._head is not None:
            self._report(f"no event has the hash {self._head}: the log is not the one that was noted")

    def _compare_one(self, event: Event) -> None:
        self._compare_snapshot(event)
        self.compare(event)
        self._match_head(event)

    def _compare_block(self, pairs: Sequence[TrialPair]) -> None:
        """Compare trials that do not overlap, as far as all is bit for bit the same; then one by one."""
        state, done = self.state, 0
        block = new_block(state, pairs)
        plain = state.harm is None and block is not None
        if plain:
            asks: list[Any] = [pair[0].body for pair in pairs]
            plain = all(ask.design == state.design and _draws_right(state.created, ask) for ask in asks)
        if plain and block is not None and self._is_plain(pairs, block):
            done = replay_block(state, block, check=True)
            skip_block(state, pairs, block, done)
            for pair in pairs[:done]:
                for event in pair:
                    self._match_head(event)
            if state.policy_state.outcome.status[0] != RUNNING:
                verdict = state.answer()
                self._report(f"event {state.last.seq}: the verdict is None, by replay {verdict}")
        for pair in pairs[done:]:
            for event in pair:
                self._compare_one(event)

    def _is_plain(self, pairs: Sequence[TrialPair], block: TrialBlock) -> bool:
        """Tell whether a replay in bulk is enough to check these trials."""
        times = np.array([event.at for pair in pairs for event in pair])
        in_order = times[0] >= self.state.last.at and bool((np.diff(times) >= 0).all())
        family = self.state.family
        rewards = all(family.accepts_reward(reward) for reward in np.unique(block.rewards).tolist())
        snapshot = self._snapshot
        within = snapshot is not None and pairs[0][0].seq <= snapshot.position <= pairs[-1][1].seq
        return in_order and rewards and not within

    def _match_head(self, event: Event) -> None:
        """Note whether this is the event whose hash was given."""
        if self._head is not None and event.hash.startswith(self._head):
            self.notes.append(f"the head that was given is event {event.seq}")
            self._head = None

    @property
    def exact(self) -> bool:
        """Tell whether only the versions at hand have written so far."""
        writers = self.state.writers
        while self._same_writers < len(writers) and writers[self._same_writers] == versions():
            self._same_writers += 1
        return self._same_writers == len(writers)

    def compare(self, event: Event) -> None:
        """Compare an event with what follows from those before it, then apply it."""
        state, body = self.state, event.body
        where = f"event {event.seq}"
        state.check_next(event)
        if event.at < state.last.at:
            self._note(f"{where}: the clock ran backwards by {(state.last.at - event.at) / 1e6:g} seconds")
        late = not isinstance(body, Designed) or body.after is not None
        if late and state.steps.wants_design(state.policy_state):
            self._due_digests[state.last.seq] = self._digest()
        told = body.told if isinstance(body, Superseded) else body
        if isinstance(told, Told | Corrected) and not state.family.accepts_reward(state.scaled(told.reward)):
            self._report(f"{where}: the reward is {told.reward!r}, which the family does not have")
        if isinstance(body, Superseded):
            self._corrected[body.trial] = body.told.reward
        if isinstance(body, Corrected) and self._corrected.get(body.trial) != body.old:
            self._report(f"{where}: the old reward is {body.old!r}, which was not told")
        self._compare_rule(where, event)
        if isinstance(body, Designed):
            self._compare_design(where, body)
        if isinstance(body, Asked):
            self._compare_ask(where, body)
        if isinstance(body, Closed):
            guess = replace(state.best_guess(), status="closed")
            if state.verdict is not None or body.verdict != guess:
                self._report(f"{where}: the verdict is {body.verdict}, by replay {guess}")
        if isinstance(body, Told | Abandoned | Corrected):
            if isinstance(body, Abandoned):
                verdict = state.apply_loss(body.trial, body.ignorable)
            else:
                verdict = state.apply_reward(body.trial, body.reward, body.harm if isinstance(body, Told) else None)
            if state.verdict is None and verdict != body.verdict:
                self._report(f"{where}: the verdict is {body.verdict}, by replay {verdict}")
            state.advance(event)
        else:
            state.apply(event)
        self._designed = isinstance(body, Designed)
        if self._designed:
            self._due_digests.clear()

    def _compare_rule(self, where: str, event: Event) -> None:
        """Compare the actions of the harm limit with those that are due right after a harm was told."""
        body = event.body
        said = body if isinstance(body, ArmsChanged | Paused) and body.by == HARM_RULE else None
        due = self.state.next_harm_action() if self._harm_limit_due else None
        if self.exact and said != due:
            self._report(f"{where}: the limit of harm has done {said}, by replay {due}")
        kept = isinstance(body, Superseded) and bool(self.created.revision)  # its harm is
        self._harm_limit_due = said is not None or isinstance(body, Told) or kept

    def _digest(self) -> str:
        """Return the digest of the state that would be solved for now."""
        now = self.state.with_own_policy()
        now.clear_pending()
        return digest(as_bytes(now.policy_state))

    def _compare_late_design(self, where: str, designed: Designed) -> None:
        """Compare new weights for the state after an earlier event, after which others have written."""
        due = self._due_digests.get(designed.after or 0)
        if due is None:
            self._report(f"{where}: new weights as of event {designed.after}, though it was not time")
        elif self.exact and due != designed.before:
            self._report(f"{where}: the state as of event {designed.after} is not the one of the log")
        for name in designed.arrays:
            if not name.startswith(SAMPLING):
                self._report(f"{where}: weights of an earlier state change {name}")

    def _compare_design(self, where: str, designed: Designed) -> None:
        state = self.state
        if designed.after is not None:
            self._compare_late_design(where, designed)
            return
        if not state.steps.wants_design(state.policy_state):
            self._report(f"{where}: new weights, though it was not time for them")
        state.clear_pending()
        if self.exact and digest(as_bytes(state.policy_state)) != designed.before:
            self._report(f"{where}: the state before new weights is not the one of the log")
        for name, value in evidence_at_design(state).items():
            if name in designed.arrays:
                logged = np.array(designed.arrays[name], float)
                self._difference(where, name, logged, value, self.exact)

    def _compare_ask(self, where: str, asked: Asked) -> None:
        state = self.state
        same = self.exact
        if same and not self._designed and state.steps.wants_design(state.policy_state):
            # An ask that others kept from solving goes on with the weights that there are.
            self._note(f"{where}: it was time for new weights, but there are none")
        if not _draws_right(state.created, asked):
            self._report(f"{where}: trial {asked.trial} {_BITS_MISSING if asked.bits is None else _BITS_UNEXPECTED}")
            return
        again = state.choose(asked.task if asked.given else None, bits=asked.bits).asked
        if asked.trial != again.trial or asked.design != again.design:
            self._report(
                f"{where}: trial {asked.trial} of design {asked.design}, by replay {again.trial} of {again.design}"
            )
        arm, own = ((ask.task, ask.representation, ask.predictor, ask.propensities is None) for ask in (asked, again))
        # On another platform, a tie between arms that are not drawn may be broken otherwise.
        if arm != own and (same or asked.propensities is not None):
            self._report(f"{where}: arm {arm[:3]} was handed out, by replay {own[:3]}")
        elif asked.propensities and again.propensities and asked.propensities != again.propensities:
            self._difference(where, "propensities", asked.propensities, again.propensities, same)

    def _compare_snapshot(self, event: Event | None) -> None:
        """Compare the state with the snapshot that was kept here, if it was; ``event`` is the next one."""
        snapshot, position = self._snapshot, self.state.position
        if snapshot is None or (snapshot.position > position and event is not None):
            return
        self._snapshot = None
        where = f"snapshot at {snapshot.position}"
        body = None if event is None else event.body
        if not isinstance(body, SnapshotTaken) or body.digest != hashlib.sha256(snapshot.content).hexdigest():
            self._report(f"{where}: no event vouches for its content; it is ignored")
        kept = unpack(snapshot, self.created)
        if kept is None:
            return  # damaged, or of other versions: it would not be used either
        held, own = facts(kept), facts(self.state)
        for name in own:
            if held[name] != own[name]:
                self._report(f"{where}: {name} is {held[name]!r:.100}, by replay {own[name]!r:.100}")
        arrays = all_arrays(kept)
        for name, array in all_arrays(self.state).items():
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
            self._report(f"{where}: {what} differ by {difference:.1e} from the replay")

    def _note(self, what: str) -> None:
        if len(self.notes) < MAX_PROBLEMS:
            self.notes.append(what)

    def _report(self, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

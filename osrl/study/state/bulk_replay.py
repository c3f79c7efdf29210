"""Take in the events of a log, and long runs of trials at once.

Where each trial is told before the next is asked for, a reward changes the state by three small kernels. Calling
them one by one from Python takes ten times as long as what they do; for a log of 100,000 trials that is the
difference between seconds and a minute. So such trials are replayed in *blocks*, and others event by event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.jit import kernel_in_place
from osrl.jit.kernels import long_job
from osrl.model.arrays import Flags, Floats, Integers
from osrl.model.outcome import RUNNING, STATUS, Outcome
from osrl.model.rng import Key, pick_arm
from osrl.policies.registry import loop_for
from osrl.policies.steps import apply_reward, choose_arm, new_ticket, wants_design, write_ticket
from osrl.study.log.corrections import mark_superseded
from osrl.study.log.events import SECRET_BITS, Asked, Event, Told
from osrl.study.state.state import StudyState

MIN_BLOCK = 200  # trials that are worth a block
MAX_BLOCK = 5_000  # trials at once
FIRST_PART = 50  # trials of the first part of a block

TrialPair = tuple[Event, Event]  # a trial: its ask, and its tell


class TrialBlock(NamedTuple):
    """Trials in order: task, arm of the task, whether the task was given, what was drawn from (or zeros)."""

    tasks: Integers  # (k,)
    arms: Integers  # (k,)
    given: Flags  # (k,)
    propensities: Floats  # (k, n)
    rewards: Floats  # (k,) in the scale of the evidence
    draws: Floats  # (k,) the numbers in [0, 1) that picked the arms; -1 where a seed did, or nothing

    def first(self, count: int) -> TrialBlock:
        """Return the first trials."""
        return TrialBlock(*(column[:count] for column in self))  # type: ignore[arg-type]


def apply_all(state: StudyState, events: Iterable[Event]) -> None:
    """Take in the next events of the log."""
    with long_job():
        for part in group_into_blocks(mark_superseded(events)):
            if isinstance(part, Event):
                state.apply(part)
                continue
            for pairs in split_block(part):
                _apply_block(state, pairs)


def _apply_block(state: StudyState, pairs: Sequence[TrialPair]) -> None:
    """Take in trials that do not overlap."""
    block = new_block(state, pairs)
    if block is not None:
        skip_block(state, pairs, block, replay_block(state, block, check=False))
        return
    for pair in pairs:
        for event in pair:
            state.apply(event)


def group_into_blocks(events: Iterable[Event]) -> Iterator[Event | list[TrialPair]]:
    """Return the same events, but with long runs of trials that do not overlap as lists."""
    pairs: list[TrialPair] = []
    asked: Event | None = None
    try:
        for event in events:
            body = event.body
            if asked is not None and isinstance(body, Told) and body.trial == asked.trial and not body.verdict:
                pairs.append((asked, event))
                asked = None
                if len(pairs) == MAX_BLOCK:
                    yield pairs
                    pairs = []
            elif asked is None and isinstance(body, Asked):
                asked = event
            else:
                yield from _end_run(pairs, asked)
                pairs, asked = [], None
                if isinstance(body, Asked):
                    asked = event
                else:
                    yield event
    except OsrlError:  # what was read before the log became unreadable is good
        yield from _end_run(pairs, asked)
        raise
    yield from _end_run(pairs, asked)


def split_block(pairs: Sequence[TrialPair]) -> Iterator[Sequence[TrialPair]]:
    """Split a run into parts, each as long as all before it: between two, `long_job` may start the compiler."""
    done = 0
    while done < len(pairs):
        some = pairs[done : done + max(done, FIRST_PART)]
        done += len(some)
        yield some


def _end_run(pairs: list[TrialPair], asked: Event | None) -> Iterator[Event | list[TrialPair]]:
    """Return a run that has ended, event by event if it is short, and the ask that was not told."""
    if len(pairs) >= MIN_BLOCK:
        yield pairs
    else:
        for pair in pairs:
            yield from pair
    if asked is not None:
        yield asked


def new_block(state: StudyState, pairs: Sequence[TrialPair]) -> TrialBlock | None:
    """Return trials as arrays; None where something in them is not as it should be, or others are pending."""
    asks: list[Any] = [pair[0].body for pair in pairs]
    tells: list[Any] = [pair[1].body for pair in pairs]
    first, position, n = state.asked + 1, state.position, state.shape[1] * state.shape[2]
    budget = state.created.budget
    if state.left_out:  # strict tests may differ from those of the study
        return None
    if state.pending or state.verdict is not None or state.policy_state.outcome.status[0] != RUNNING:
        return None
    if budget is not None and state.told + state.abandoned + len(pairs) >= budget:
        return None
    if [ask.trial for ask in asks] != list(range(first, first + len(pairs))):
        return None
    if [event.seq for pair in pairs for event in pair] != list(range(position, position + 2 * len(pairs))):
        return None
    try:
        none = [0.0] * n
        g = np.array([state.index_of(1, ask.representation) for ask in asks], np.int64)
        h = np.array([state.index_of(2, ask.predictor) for ask in asks], np.int64)
        return TrialBlock(
            np.array([state.index_of(0, ask.task) for ask in asks], np.int64),
            g * state.shape[2] + h,
            np.array([ask.given for ask in asks], np.bool_),
            np.array([none if ask.propensities is None else ask.propensities for ask in asks], np.float64),
            state.scaled(np.array([tell.reward for tell in tells], np.float64)),
            np.array([-1.0 if ask.bits is None else ask.bits / 2**SECRET_BITS for ask in asks], np.float64),
        )
    except (TypeError, ValueError):
        return None


def replay_block(state: StudyState, block: TrialBlock, *, check: bool) -> int:
    """Let the policy state take in a block; with ``check``, as far as all is bit for bit as it follows.

    Return how many trials were taken in: with ``check``, the next one differs, or the last one has ended the study.
    """
    state.clear_pending()
    policy_state = state.policy_state
    propensities = np.zeros((state.shape[0], block.propensities.shape[1]))
    ticket = new_ticket(policy_state)
    loop = loop_for(replay, state.policy)
    return loop(policy_state, policy_state.outcome, state.key, state.asked, block, check, propensities, ticket)


def skip_block(state: StudyState, pairs: Sequence[TrialPair], block: TrialBlock, count: int) -> None:
    """Bring all but the policy state past the first ``count`` trials of a block."""
    if not count:
        return
    told = block.first(count)
    state.arrival_stats.issue_block(told.tasks, told.given, pairs[0][0].at)
    state.asked += count
    state.told += count
    state.position += 2 * count
    state.last = pairs[count - 1][1]
    if state.harm is not None:
        for ask, tell in pairs[:count]:
            assert isinstance(ask.body, Asked)
            arm = ask.body.representation, ask.body.predictor
            state.harm.issue(*arm)
            if isinstance(tell.body, Told) and tell.body.harm is not None:
                state.harm.tell(*arm, tell.body.harm)
    state.totals.tell_block(told.tasks, told.arms, told.rewards)
    if state.in_order is not None:
        state.in_order.before_end(last=True)
    if state.missingness is not None:
        state.missingness.count_block(told.tasks, told.arms, told.propensities)


@kernel_in_place
def replay(
    state: Any,
    outcome: Outcome,
    key: Key,
    before: int,
    trials: TrialBlock,
    check: bool,
    propensities: Floats,
    ticket: Floats,
) -> int:
    """Take in trials one after the other, see `replay_block`."""
    tasks, arms, given, logged, rewards, draws = trials
    n = logged.shape[1]
    for i in range(tasks.size):
        x, a = tasks[i], arms[i]
        if check:
            if wants_design(state):
                return i
            propensities[:] = 0.0  # they stay so where nothing is drawn
            arm = choose_arm(state, x if given[i] else -1, key, before + i, propensities)
            if arm >= 0 and draws[i] >= 0.0:
                arm = pick_arm(propensities, draws[i])
            if arm != x * n + a:
                return i
            for b in range(n):
                if propensities[x, b] != logged[i, b]:
                    return i
        write_ticket(state, x, a, logged[i], ticket)
        apply_reward(state, x, a, rewards[i], ticket)
        if check and outcome.reached[STATUS, 0] != RUNNING:
            return i + 1
    return tasks.size

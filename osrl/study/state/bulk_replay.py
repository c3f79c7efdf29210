"""Long stretches of a log, in which each trial is told before the next is asked for, replayed at once.

A reward that comes alone changes the state by three small kernels. Calling them one by one from Python takes
ten times as long as what they do; for a log of 100,000 trials that is the difference between seconds and a
minute. Stretches in which trials overlap are replayed event by event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.jit import kernel_in_place
from osrl.model.arrays import Flags, Floats, Integers
from osrl.model.outcome import RUNNING, STATUS, Outcome
from osrl.model.rng import Key, pick_arm
from osrl.policies.registry import loop_for
from osrl.policies.steps import choose_arm, new_ticket, settle, wants_design, write_ticket
from osrl.study.log.events import SECRET_BITS, Asked, Event, Told

LEAST = 200  # trials for which it is worth the while
MOST = 5_000  # trials at once
FEW = 50  # trials of the first part

TrialPair = tuple[Event, Event]  # a trial: its ask, and its tell


class TrialBlock(NamedTuple):
    """Trials in order: task, arm of the task, whether the task was given, what was drawn from (or zeros)."""

    tasks: Integers  # (k,)
    arms: Integers  # (k,)
    given: Flags  # (k,)
    propensities: Floats  # (k, n)
    rewards: Floats  # (k,)
    draws: Floats  # (k,) the numbers in [0, 1) that picked the arms; -1 where a seed did, or nothing

    def first(self, count: int) -> TrialBlock:
        """The first trials."""
        return TrialBlock(*(column[:count] for column in self))  # type: ignore[arg-type]


def group_into_blocks(events: Iterable[Event]) -> Iterator[Event | list[TrialPair]]:
    """The same events, but with long stretches of trials that do not overlap as lists."""
    pairs: list[TrialPair] = []
    asked: Event | None = None
    try:
        for event in events:
            body = event.body
            if asked is not None and isinstance(body, Told) and body.trial == asked.trial and not body.verdict:
                pairs.append((asked, event))
                asked = None
                if len(pairs) == MOST:
                    yield pairs
                    pairs = []
            elif asked is None and isinstance(body, Asked):
                asked = event
            else:
                yield from _broken(pairs, asked)
                pairs, asked = [], None
                if isinstance(body, Asked):
                    asked = event
                else:
                    yield event
    except OsrlError:  # what was read before the log became unreadable is good
        yield from _broken(pairs, asked)
        raise
    yield from _broken(pairs, asked)


def split_block(pairs: Sequence[TrialPair]) -> Iterator[Sequence[TrialPair]]:
    """Split a stretch into parts, each as long as all before it: between two, `long_job` may start the compiler."""
    done = 0
    while done < len(pairs):
        some = pairs[done : done + max(done, FEW)]
        done += len(some)
        yield some


def _broken(pairs: list[TrialPair], asked: Event | None) -> Iterator[Event | list[TrialPair]]:
    """A stretch has ended, perhaps with a trial that is not told; if it is short, event by event."""
    if len(pairs) >= LEAST:
        yield pairs
    else:
        for pair in pairs:
            yield from pair
    if asked is not None:
        yield asked


def new_block(progress: Any, pairs: Sequence[TrialPair]) -> TrialBlock | None:
    """Trials as arrays; None where something in them is not as it should be, or others are pending."""
    asks: list[Any] = [pair[0].body for pair in pairs]
    tells: list[Any] = [pair[1].body for pair in pairs]
    first, position, n = progress.asked + 1, progress.position, progress.shape[1] * progress.shape[2]
    budget = progress.created.budget
    if progress.left_out:  # strict tests may go beside those of the study
        return None
    if progress.pending or progress.verdict is not None or progress.state.outcome.status[0] != RUNNING:
        return None
    if budget is not None and progress.told + progress.abandoned + len(pairs) >= budget:
        return None
    if [ask.trial for ask in asks] != list(range(first, first + len(pairs))):
        return None
    if [event.seq for pair in pairs for event in pair] != list(range(position, position + 2 * len(pairs))):
        return None
    try:
        none = [0.0] * n
        g, h = ([progress.index_of(axis, getattr(ask, name)) for ask in asks] for axis, name in _AXES)
        return TrialBlock(
            np.array([progress.index_of(0, ask.task) for ask in asks], np.int64),
            np.array(g, np.int64) * progress.shape[2] + np.array(h, np.int64),
            np.array([ask.given for ask in asks], np.bool_),
            np.array([none if ask.propensities is None else ask.propensities for ask in asks], np.float64),
            np.array([tell.reward for tell in tells], np.float64),
            np.array([-1.0 if ask.bits is None else ask.bits / 2**SECRET_BITS for ask in asks], np.float64),
        )
    except (TypeError, ValueError):
        return None


_AXES = ((1, "representation"), (2, "predictor"))


def replay_block(progress: Any, stretch: TrialBlock, *, check: bool) -> int:
    """Take in trials one after the other; with ``check``, as far as all is bit for bit as it follows.

    How many were taken in: with ``check``, the next one differs, or the last one has ended the study.
    """
    progress.clear_pending()
    propensities, ticket = (
        np.zeros((progress.shape[0], stretch.propensities.shape[1])),
        new_ticket(progress.state),
    )
    loop = loop_for(replay, progress.policy)
    outcome = progress.state.outcome
    return loop(progress.state, outcome, progress.key, progress.asked, stretch, check, propensities, ticket)


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
    """The trials of `replay_block`."""
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
        settle(state, x, a, rewards[i], ticket)
        if check and outcome.reached[STATUS, 0] != RUNNING:
            return i + 1
    return tasks.size

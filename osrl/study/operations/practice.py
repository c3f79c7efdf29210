"""Practice: everything that may happen to a study, done once to a copy of it.

The first time that something is done, its kernels are compiled, or read from the disk. Nobody should have to
wait for that: so it is done before the log is held.
"""

from __future__ import annotations

from osrl.study.log.events import next_event
from osrl.study.state.state import Progress

SEVERAL = 6


def practise_ask(progress: Progress, task: str | None) -> None:
    """Hand out a trial."""
    progress.steps.wants_design(progress.state)
    progress.apply(next_event(progress.last, progress.choose(task)))


def practise_reward(progress: Progress) -> None:
    """Tell the reward of a trial."""
    progress.take(next(iter(progress.pending)), progress.created.high)


def practise_loss(progress: Progress, ignorable: bool) -> None:
    """Lose a trial."""
    progress.give_up(next(iter(progress.pending)), ignorable)


def practise(progress: Progress) -> None:
    """Hand out several trials, tell some in another order, and lose others in both ways."""
    trials = []
    for _ in range(SEVERAL):
        asked = progress.choose(None)
        progress.apply(next_event(progress.last, asked))
        trials.append(asked.trial)
    first, second, third, fourth, fifth, sixth = trials
    progress.take(second, progress.created.high)
    progress.give_up(third, ignorable=False)
    progress.take(first, progress.created.low)  # and with it those that waited for it
    progress.give_up(fifth, ignorable=True)
    progress.take(sixth, progress.created.high)
    progress.take(fourth, progress.created.low)

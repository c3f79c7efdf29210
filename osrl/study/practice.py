"""Practice: everything that may happen to a study, done once to a copy of it.

The first time that something is done, its kernels are compiled, or read from the disk. Nobody should have to
wait for that: so it is done before the log is held.
"""

from __future__ import annotations

from osrl.policies.round import wants_design
from osrl.study.events import next_event
from osrl.study.fold import Fold

SEVERAL = 6


def practise_ask(fold: Fold, task: str | None) -> None:
    """Hand out a trial."""
    wants_design(fold.state)
    fold.apply(next_event(fold.last, fold.choose(task)))


def practise(fold: Fold) -> None:
    """Hand out several trials, tell some in another order, and lose others in both ways."""
    trials = []
    for _ in range(SEVERAL):
        asked = fold.choose(None)
        fold.apply(next_event(fold.last, asked))
        trials.append(asked.trial)
    first, second, third, fourth, fifth, sixth = trials
    fold.take(second, 1.0)
    fold.give_up(third, ignorable=False)
    fold.take(first, 0.0)  # and with it those that waited for it
    fold.give_up(fifth, ignorable=True)
    fold.take(sixth, 1.0)
    fold.take(fourth, 0.0)

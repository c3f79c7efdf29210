"""A study in memory: asks, tells and losses as in `osrl.Study`, without a database."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from osrl.study.log.events import REVISION, Abandoned, ArmsChanged, Asked, Event, Told
from osrl.study.settings import new_settings
from osrl.study.state.state import StudyState
from tests.support.instances import Array


class MemoryStudy:
    """A study whose events are only folded; trials are known by their number.

    ``revision``: of how stages and alarms are handled, see `osrl.study.log.events`.
    """

    def __init__(self, **settings: Any) -> None:
        risks = ("delta", "delta_g", "delta_h", "epsilon", "epsilon_g", "epsilon_h")
        unset = ("noise_sd", *risks, "low", "high", "harm_limit", "seed", "budget", "threshold", "options")
        given = {**dict.fromkeys(unset), "family": "bernoulli", "policy": "osrl", **settings}
        revision = given.pop("revision", REVISION)
        self.progress = StudyState(replace(new_settings(**given), revision=revision))

    @property
    def running(self) -> bool:
        """Tell whether there is no verdict yet."""
        return self.progress.verdict is None

    def ask(self, task: str | None = None, bits: int | None = None) -> Asked:
        """Hand out the next trial; ``bits`` in place of secret ones make a test repeatable."""
        if (designed := self.progress.solve()) is not None:
            self.progress.advance(Event(self.progress.position, 0, designed))
        asked = self.progress.choose(task, bits=bits).asked
        self.progress.apply(Event(self.progress.position, 0, asked))
        return asked

    def tell(self, trial: int, reward: float, harm: float | None = None) -> None:
        """Tell the reward of a trial, and its harm."""
        verdict = self.progress.apply_reward(trial, float(reward), harm)
        told = Told(trial, float(reward), verdict, None, harm)
        self.progress.advance(Event(self.progress.position, 0, told))

    def abandon(self, trial: int, ignorable: bool = False) -> None:
        """Give up a trial that will never report."""
        verdict = self.progress.apply_loss(trial, ignorable)
        self.progress.advance(Event(self.progress.position, 0, Abandoned(trial, ignorable, verdict)))

    def begin_stage(self, representations: Sequence[str], tasks: Sequence[str] | None = None) -> None:
        """Go on with these representations, and perhaps other tasks."""
        predictors = self.progress.created.predictors
        staged = ArmsChanged(list(representations), predictors, "an attack", tasks=tasks)
        self.progress.apply(Event(self.progress.position, 0, staged))

    def arm(self, asked: Asked) -> tuple[int, int, int]:
        """Return the indices of task, representation and predictor of a trial."""
        g, h = self.progress.index_of(1, asked.representation), self.progress.index_of(2, asked.predictor)
        return self.progress.index_of(0, asked.task), g, h


def evidence_with_pending(study: MemoryStudy, means: Any, evidence: Callable[[], Array]) -> tuple[Array, Array]:
    """Return the evidence while 24 trials are pending, and after all of them have reported."""
    rng = random.Random(1)
    for _ in range(12):
        batch = [study.ask() for _ in range(6)]
        for asked in rng.sample(batch, 4):
            study.tell(asked.trial, float(rng.random() < means[asked.representation][asked.predictor]))
    progress = study.progress
    assert len(progress.pending) == 24
    progress.count_pending()
    before = evidence()
    for trial in list(progress.pending):
        study.tell(trial, float(rng.random() < 0.5))
    progress.count_pending()
    assert not progress.pending
    return before, evidence()

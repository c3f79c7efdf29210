"""An adversary at a study: whatever it does, no evidence is shown that the true one has never reached.

Hypothesis plays it: batches, delays, losses, given tasks, options of the policy, processes that come and
go; and rewards that are chosen to hurt. They are chosen when a trial is handed out, so that the *true*
evidence is known: the product, in the order of hand-out, of the factors of all rewards, reported or not. It
is a supermartingale under the null, so a study is safe if, on every path, what it shows lies below the
largest true evidence so far.
"""

from __future__ import annotations

import math
import multiprocessing
import tempfile
from collections.abc import Iterator
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from osrl.hypotheses.refresh import refresh_evidence
from osrl.hypotheses.trials import observe_reward
from osrl.study.state.state import StudyState
from osrl.study.study import Study
from tests.oracle.trials import LEFT_OUT, handed_out

TASKS, REPRESENTATIONS, PREDICTORS = ["x", "y"], ["A", "B"], ["low", "high"]
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "plugged": st.sampled_from([0.01, 0.3, 0.5]),
        "idle": st.sampled_from([0.05, 0.9]),
        "safe": st.sampled_from([0.5, 0.999]),
        "shrinkage": st.sampled_from([0.5, 100.0]),
        "points": st.sampled_from([2, 9]),
        "largest": st.sampled_from([0.4, 8.0]),
    },
)


# The other process ------------------------------------------------------------------------------------------


def serve(pipe: Connection) -> None:
    """Do what is asked for: open a study, or call one of its methods."""
    study: Any = None
    while (call := pipe.recv()) is not None:
        method, arguments, keywords = call
        if method == "open":
            study = Study.open(*arguments)
            pipe.send(None)
        else:
            pipe.send(getattr(study, method)(*arguments, **keywords))


class Other:
    """A study in another process, as far as the adversary needs it."""

    def __init__(self) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
        process.start()

    def call(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        self._pipe.send((method, arguments, keywords))
        assert self._pipe.poll(120), f"no answer to {method}"
        return self._pipe.recv()

    def ask(self, task: str | None, n: int) -> Any:
        return self.call("ask", task, n=n)

    def tell(self, trial: Any, reward: float) -> None:
        self.call("tell", trial, reward)

    def abandon(self, trial: Any, ignorable: bool) -> None:
        self.call("abandon", trial, ignorable=ignorable)


@cache
def other_process() -> Other:
    return Other()


# The true evidence --------------------------------------------------------------------------------


def evidence_after_each(study: Study, trials: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Log evidence before any of these trials, then after each of them, by their true rewards."""
    tests = StudyState(study.settings).policy_state.stopping
    tests.limits[:] = math.inf  # nothing is rejected on the way
    refresh_evidence(tests)
    yield tests.evidence_g.copy(), tests.evidence_h.copy()
    for x, a, ticket, reward in trials:
        if reward != LEFT_OUT:
            observe_reward(tests, x, a, reward, ticket)
        refresh_evidence(tests)
        yield tests.evidence_g.copy(), tests.evidence_h.copy()


class Adversary(RuleBasedStateMachine):
    """Its moves."""

    @initialize(
        options=OPTIONS,
        delta=st.sampled_from([0.6, 0.2, 1e-3]),
        policy=st.sampled_from(["osrl", "uniform"]),
        seed=st.integers(0, 2**31),
    )
    def begin(self, options: dict[str, Any], delta: float, policy: str, seed: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/study.db"
        self.study = Study.create(
            self.path,
            tasks=TASKS,
            representations=REPRESENTATIONS,
            predictors=PREDICTORS,
            delta=delta,
            policy=policy,
            seed=seed,
            options=options,
        )
        other_process().call("open", self.path)
        self.waiting: list[Any] = []
        self.truth: dict[int, float] = {}
        self.left_out: set[int] = set()

    def teardown(self) -> None:
        if not hasattr(self, "study"):
            return
        try:
            self.look_at_the_evidence()
            assert self.study.verify().ok
        finally:
            self.study.close()
            self.folder.cleanup()

    def who(self, elsewhere: bool) -> Any:
        return other_process() if elsewhere else self.study

    def running(self) -> bool:
        return self.study.verdict == "running"

    @precondition(running)
    @rule(
        task=st.sampled_from([None, *TASKS]),
        n=st.integers(1, 6),
        victim=st.sampled_from(["A", "B", None]),
        coin=st.integers(0, 63),
        elsewhere=st.booleans(),
    )
    def ask(self, task: str | None, n: int, victim: str | None, coin: int, elsewhere: bool) -> None:
        """Hand out trials, whose rewards are such that the victim looks bad; or tossed."""
        for i, trial in enumerate(self.who(elsewhere).ask(task, n=n)):
            hurts = trial.representation != victim if victim else coin >> i & 1
            self.truth[trial.id] = float(hurts)
            self.waiting.append(trial)

    @precondition(running)
    @rule(task=st.sampled_from([None, *TASKS]), victim=st.sampled_from(["A", "B"]), coins=st.integers(0, 255))
    def play_to_hurt(self, task: str | None, victim: str, coins: int) -> None:
        """Eight tosses: what speaks against the victim is told at once, all else waits."""
        for i, trial in enumerate(self.study.ask(task, n=8)):
            self.truth[trial.id] = float(coins >> i & 1)
            if (self.truth[trial.id] == 0.0) == (trial.representation == victim):
                self.study.tell(trial, self.truth[trial.id])
            else:
                self.waiting.append(trial)
        self.look_at_the_evidence()

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 999), how_many=st.integers(1, 5), elsewhere=st.booleans())
    def tell(self, which: int, how_many: int, elsewhere: bool) -> None:
        """Some report, in any order."""
        for _ in range(min(how_many, len(self.waiting))):
            trial = self.waiting.pop(which % len(self.waiting))
            self.who(elsewhere).tell(trial, self.truth[trial.id])

    @precondition(lambda self: self.waiting)
    @rule(elsewhere=st.booleans())
    def lose_all_that_wait(self, elsewhere: bool) -> None:
        """None of them will ever report: after `play_to_hurt`, all that spoke for the victim."""
        for trial in self.waiting:
            self.who(elsewhere).abandon(trial, ignorable=False)
        self.waiting = []
        self.look_at_the_evidence()

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 999), elsewhere=st.booleans())
    def lose_one_for_no_reason(self, which: int, elsewhere: bool) -> None:
        """A loss that has nothing to do with arm and reward, and is declared so."""
        trial = self.waiting.pop(which % len(self.waiting))
        self.left_out.add(trial.id)
        self.who(elsewhere).abandon(trial, ignorable=True)

    @rule()
    def open_again(self) -> None:
        self.study.close()
        self.study = Study.open(self.path)

    def look_at_the_evidence(self) -> None:
        """Nothing is shown, or ruled out, that the true evidence has never reached."""
        alarm = self.study.look()[0].alarm is not None
        trials = [
            [x, a, ticket, LEFT_OUT if number in self.left_out and not alarm else self.truth[number]]
            for number, (x, a, ticket, _) in enumerate(handed_out(self.study), 1)
        ]
        shared = np.max([g for g, _ in evidence_after_each(self.study, trials)], axis=0)
        local = []
        for x in range(len(TASKS)):
            own = [trial for trial in trials if trial[0] == x]
            local.append(np.max([h[x] for _, h in evidence_after_each(self.study, own)], axis=0))
        for row in self.study.evidence.to_dicts():
            g = REPRESENTATIONS.index(row["representation"])
            if row["predictor"] is None:
                most = shared[g]
            else:
                most = local[TASKS.index(row["task"])][2 * g + PREDICTORS.index(row["predictor"])]
            assert row["log_evidence"] <= most + 1e-9
            assert not row["rejected"] or most >= row["limit"] - 1e-9


Adversary.TestCase.settings = settings(
    max_examples=6,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestAdversary = Adversary.TestCase


@pytest.mark.parametrize("mistake", ["pending trials are forgotten", "a loss is left out"])
def test_a_deliberate_mistake_is_found_out(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give_up = StudyState.apply_loss
    if mistake == "a loss is left out":
        monkeypatch.setattr(StudyState, "apply_loss", lambda self, trial, ignorable: give_up(self, trial, True))
    else:
        monkeypatch.setattr(StudyState, "count_pending", lambda self: self.clear_pending())
    without_shrinking = settings(Adversary.TestCase.settings, max_examples=15, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Adversary, settings=without_shrinking)

"""Many trials that have not reported: what an ask and a tell do does not grow with their number."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import pytest

from osrl.errors import OsrlError
from osrl.hypotheses.late import BACK, OUT, STEP, count_late, new_late
from osrl.hypotheses.possible import LOCAL_PENDING, PENDING
from osrl.hypotheses.trials import pend_trial
from osrl.study.constants import LATE
from osrl.study.prefix import PASSED
from osrl.study.progress import Progress
from osrl.study.standing import read_hypotheses
from tests.live import Live

NAMES = {
    "tasks": ["a", "b"],
    "representations": ["g1", "g2", "g3"],
    "predictors": ["h1", "h2"],
    "delta": 1e-6,
}


def instructions(act: Callable[[], object]) -> int:
    """How many instructions the interpreter runs for something."""
    found = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal found
        frame.f_trace_opcodes = True
        found += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return found


def work(study: Live) -> int:
    """What an ask and a tell take; the least of some, since now and then there is a design."""
    rng = random.Random(0)

    def once() -> None:
        asked = study.ask()
        study.tell(asked.trial, float(rng.random() < 0.5))

    return min(instructions(once) for _ in range(4))


def hand_out(study: Live, pending: int) -> None:
    while len(study.progress.pending) < pending:
        study.ask()


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_an_ask_and_a_tell_do_not_do_more_when_more_are_pending(epsilon: float) -> None:
    study = Live(**NAMES, seed=1, epsilon=epsilon)
    hand_out(study, 100)
    few = work(study)
    hand_out(study, 2_000)
    assert work(study) <= 1.3 * few
    study.progress.begin_stage(["g1", "g2"], ["h1", "h2"])
    hand_out(study, 2_100)
    assert work(study) <= 1.3 * few


def test_sums_of_worst_factors_do_not_depend_on_the_order() -> None:
    """Bit for bit those of the trials that are pending now, and never above the sums of plain numbers."""
    rng = random.Random(2)
    study = Live(**NAMES, seed=2, epsilon=0.2)
    out: list[int] = []
    for _ in range(150):
        out.append(study.ask().trial)
        if rng.random() < 0.7:
            study.tell(out.pop(rng.randrange(len(out))), float(rng.random() < 0.5))
    progress = study.progress
    assert len(progress.pending) > 20 and progress.late is not None and progress.hypotheses is not None
    again, plain = new_late(progress.hypotheses), Progress(progress.created).hypotheses
    assert plain is not None
    trials = list(progress.pending.values())
    for one in rng.sample(trials, len(trials)) + trials[:5]:
        count_late(progress.hypotheses, again, one.x, one.a, one.ticket, OUT)
        pend_trial(plain, one.x, one.a, one.ticket)
    for one in trials[:5]:
        count_late(progress.hypotheses, again, one.x, one.a, one.ticket, BACK)
    assert np.array_equal(progress.late.sums, again.sums)
    assert np.array_equal(progress.late.compared, again.compared) and again.compared.any()
    for one in trials[:5]:
        count_late(progress.hypotheses, again, one.x, one.a, one.ticket, OUT)
    pairs = [
        (again.sums, plain.wealth[[PENDING, LOCAL_PENDING]]),
        (again.compared, plain.tolerance.wealth[1]),
    ]
    for sums, exact in pairs:
        assert (sums * STEP <= exact + 1e-12).all()
        assert (sums * STEP >= exact - (len(trials) + 5) * STEP - 1e-12).all()


def test_a_study_counts_all_that_are_pending_at_the_moment() -> None:
    """The evidence shown is that of a study which counts them one by one, and no more than that."""
    studies = [Live(**NAMES, seed=3, epsilon=0.2) for _ in range(2)]
    created = studies[1].progress.created
    others = {name: value for name, value in created.evidence.items() if name not in LATE}
    studies[1].progress = Progress(replace(created, evidence=others))
    assert studies[0].progress.late is not None and studies[1].progress.late is None
    rng = random.Random(4)
    for _ in range(120):
        asked = [study.ask() for study in studies]
        assert asked[0].trial == asked[1].trial and asked[0].representation == asked[1].representation
        what, which, reward = rng.random(), rng.random(), float(rng.random() < 0.5)
        for study in studies:
            trials = list(study.progress.pending)
            trial = trials[int(which * len(trials))]
            if what < 0.6:
                study.tell(trial, reward)
            elif what < 0.8:
                study.abandon(trial, ignorable=what < 0.7)
    late, plain = (read_hypotheses(study.progress) for study in studies)
    for one, other in zip(late, plain, strict=True):
        assert one._replace(log_evidence=0.0) == other._replace(log_evidence=0.0)
        assert other.log_evidence - 1e-8 <= one.log_evidence <= other.log_evidence + 1e-12


def test_trials_that_hold_up_others_are_not_passed_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osrl.study.prefix.WINDOW", 5)
    study = Live(**NAMES, seed=5)
    prefix = study.progress.prefix
    assert prefix is not None
    hand_out(study, 60)
    passed = [0]
    for _ in range(45):
        study.tell(study.ask().trial, 1.0)
        passed.append(len(prefix.passed))
    steps = np.diff(passed)
    assert steps.max() == PASSED and passed[-1] == 60 and len(prefix.ended) <= 5


def test_a_log_that_sums_otherwise_is_refused() -> None:
    created = Live(**NAMES, seed=1).progress.created
    with pytest.raises(OsrlError, match=r"late\.step = 0\.5; this one has .*go on with that version"):
        Progress(replace(created, evidence={**created.evidence, "late.step": 0.5}))

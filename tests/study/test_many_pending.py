"""Many trials that have not reported: what an ask and a tell do does not grow with their number."""

from __future__ import annotations

import copy
import hashlib
import math
import random
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osrl.errors import OsrlError, RewardRefused
from osrl.hypotheses.state import LOCAL_PENDING, LOCAL_WEALTH, TASK_PENDING, TASK_WEALTH
from osrl.hypotheses.trials import (
    LOG_STEP,
    TRIAL_ENDED,
    TRIAL_ISSUED,
    clear_pending,
    count_pending,
    forfeit_trial,
    new_pending_sums,
    pend_trial,
)
from osrl.policies.state_arrays import differences
from osrl.study.log.events import Event, SnapshotTaken
from osrl.study.state.constants import PENDING_SUMS
from osrl.study.state.in_order import MAX_PASSED, NO_LIMIT, InOrderEvidence, InOrderLimits
from osrl.study.state.snapshot import all_arrays, facts, pack, unpack
from osrl.study.state.state import StudyState
from osrl.study.storage.base import Snapshot
from osrl.study.study import Study
from osrl.study.views.evidence import read_hypotheses
from tests.support.memory_study import MemoryStudy
from tests.support.studies import assert_sound, folded

NAMES: dict[str, Any] = {
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


def work(study: MemoryStudy) -> int:
    """What an ask and a tell take; the least of some, since now and then there is a design."""
    rng = random.Random(0)

    def once() -> None:
        asked = study.ask()
        study.tell(asked.trial, float(rng.random() < 0.5))

    return min(instructions(once) for _ in range(4))


def hand_out(study: MemoryStudy, pending: int) -> None:
    while len(study.progress.pending) < pending:
        study.ask()


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_an_ask_and_a_tell_do_not_do_more_when_more_are_pending(epsilon: float) -> None:
    study = MemoryStudy(**NAMES, seed=1, epsilon=epsilon)
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
    study = MemoryStudy(**NAMES, seed=2, epsilon=0.2, model_check=0.2)
    out: list[int] = []
    for _ in range(150):
        out.append(study.ask().trial)
        if rng.random() < 0.7:
            study.tell(out.pop(rng.randrange(len(out))), float(rng.random() < 0.5))
    progress = study.progress
    assert len(progress.pending) > 20 and progress.pending_sums is not None and progress.hypotheses is not None
    again, plain = new_pending_sums(progress.hypotheses), StudyState(progress.created).hypotheses
    assert plain is not None and plain.check is not None
    trials = list(progress.pending.values())
    for one in rng.sample(trials, len(trials)) + trials[:5]:
        count_pending(progress.hypotheses, again, one.x, one.a, one.ticket, TRIAL_ISSUED)
        pend_trial(plain, one.x, one.a, one.ticket)
    for one in trials[:5]:
        count_pending(progress.hypotheses, again, one.x, one.a, one.ticket, TRIAL_ENDED)
    assert np.array_equal(progress.pending_sums.sums, again.sums)
    assert np.array_equal(progress.pending_sums.compared, again.compared) and again.compared.any()
    assert np.array_equal(progress.pending_sums.checked, again.checked) and again.checked.any()
    for one in trials[:5]:
        count_pending(progress.hypotheses, again, one.x, one.a, one.ticket, TRIAL_ISSUED)
    pairs = [
        (again.sums, plain.wealth[[TASK_PENDING, LOCAL_PENDING]]),
        (again.compared, plain.tolerance.wealth[1]),
        (again.checked, plain.check.wealth[1]),
    ]
    for sums, exact in pairs:
        assert (sums * LOG_STEP <= exact + 1e-12).all()
        assert (sums * LOG_STEP >= exact - (len(trials) + 5) * LOG_STEP - 1e-12).all()


def test_a_study_counts_all_that_are_pending_at_the_moment() -> None:
    """The evidence shown is that of a study which counts them one by one, and no more than that."""
    studies = [MemoryStudy(**NAMES, seed=3, epsilon=0.2) for _ in range(2)]
    created = studies[1].progress.created
    others = {name: value for name, value in created.evidence.items() if name not in PENDING_SUMS}
    studies[1].progress = StudyState(replace(created, evidence=others))
    assert studies[0].progress.pending_sums is not None and studies[1].progress.pending_sums is None
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
    monkeypatch.setattr("osrl.study.state.in_order.WINDOW", 5)
    study = MemoryStudy(**NAMES, seed=5)
    prefix = study.progress.in_order
    assert prefix is not None
    hand_out(study, 60)
    passed = [0]
    for _ in range(45):
        study.tell(study.ask().trial, 1.0)
        passed.append(len(prefix.passed))
    steps = np.diff(passed)
    assert steps.max() == MAX_PASSED and passed[-1] == 60 and len(prefix.ended) <= 5


def test_trials_that_have_waited_are_taken_in_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits until all of them are; in the end they all are, in the same order."""
    monkeypatch.setattr("osrl.study.state.in_order.WINDOW", 1_000)
    studies = [MemoryStudy(**NAMES, seed=6) for _ in range(2)]
    few, all_at_once = (study.progress.in_order for study in studies)
    assert few is not None and all_at_once is not None
    monkeypatch.setattr(few, "_limits", InOrderLimits(MAX_PASSED, 16))
    monkeypatch.setattr(all_at_once, "_limits", NO_LIMIT)
    taken = 0

    def count(hypotheses: Any, ended: Any) -> bool:
        nonlocal taken
        taken += 1
        return InOrderEvidence._take(few, hypotheses, ended)

    monkeypatch.setattr(few, "_take", count)
    counts = []
    for study in studies:
        first, *others = [study.ask().trial for _ in range(200)]
        late = study.ask().trial
        for trial in [*others, first, *(study.ask().trial for _ in range(20))]:
            taken = 0
            study.tell(trial, float(trial % 3 == 0))
            counts.append(taken)
        assert late in study.progress.pending
    assert 32 <= max(counts) <= 48
    assert len(few.ended) == len(all_at_once.ended) == 20
    assert differences(dict(few.arrays()), dict(all_at_once.arrays())) == []


def test_after_an_alarm_every_pending_trial_stays_at_its_worst() -> None:
    study = MemoryStudy(**NAMES, seed=7, epsilon=0.2)
    progress = study.progress
    hand_out(study, 10)
    for _ in range(600):
        if progress.alarm:
            break
        asked = study.ask()
        if asked.representation == "g1":
            study.abandon(asked.trial, ignorable=True)
        else:
            study.tell(asked.trial, 1.0)
    assert progress.in_order is not None and progress.hypotheses is not None
    assert progress.alarm and len(progress.pending) == 10
    literal = copy.deepcopy(progress.hypotheses)
    clear_pending(literal)
    for one in progress.pending.values():
        forfeit_trial(literal, one.x, one.a, one.ticket)
    summed = dict(progress.in_order.arrays())
    rows = (
        ((TASK_WEALTH, LOCAL_WEALTH), literal.wealth, "wealth"),
        ((0,), literal.tolerance.wealth, "tolerance.wealth"),
    )
    for which, exact, name in rows:
        kept = summed[f"in_order.{name}"]
        assert (kept[[*which]] <= exact[[*which]] + 1e-12).all()
        assert (kept[[*which]] >= exact[[*which]] - len(progress.pending) * LOG_STEP - 1e-12).all()


def test_a_log_that_sums_otherwise_is_refused() -> None:
    created = MemoryStudy(**NAMES, seed=1).progress.created
    with pytest.raises(OsrlError, match=r"late\.step = 0\.5; this one has .*go on with that version"):
        StudyState(replace(created, evidence={**created.evidence, "late.step": 0.5}))


# Kept sums against a literal recount, whatever happens to a study -----------------------------------------

ACTS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "tell", "tell", "correct", "abandon", "leave out", "withdraw", "add"]),
        st.integers(0, 99),
    ),
    min_size=10,
    max_size=40,
)


def recounted(progress: StudyState) -> tuple[Any, Any]:
    """The sums of `PendingSums`, computed anew from the tickets of the trials that are pending in this stage."""
    assert progress.hypotheses is not None and progress.pending_sums is not None
    bets, wider = progress.hypotheses.bets.beta, progress.hypotheses.tolerance.bets.beta
    n, predictors = progress.shape[1] * progress.shape[2], progress.shape[2]
    sums, compared = np.zeros_like(progress.pending_sums.sums), np.zeros_like(progress.pending_sums.compared)
    for one in progress.pending.values():
        if one.stage != len(progress.stages):
            continue
        for i, (xi, level, optimal, most) in enumerate(one.ticket.reshape(-1, 4).tolist()):
            if xi == 0:
                continue
            k = i - n - predictors
            if i < n:
                to, beta = sums[0, one.x, i], bets
            elif i < n + predictors:
                to, beta = sums[1, one.x, one.a // predictors * predictors + i - n], bets
            else:
                to, beta = compared[one.x, one.a, k] if k < n else compared[one.x, k - n, one.a], wider
            for j in range(1, beta.size):
                bet = min(optimal if beta[j] < 0 else beta[j], most)
                worst = min(math.log1p(bet * xi * (reward - level)) for reward in (0.0, 1.0))
                to[j] += math.floor(worst / LOG_STEP)
    return sums, compared


def act(study: Study, what: str, which: int, said: list[int]) -> None:
    """Do something to a study; ``said`` are the trials that were told, the last one at the end."""
    pending, reward = study.pending, which % 2
    if what == "ask":
        study.ask(n=1 + which % 4)
    elif what == "correct" and said:
        with suppress(RewardRefused):
            study.correct(said[-1], 1 - reward, reason="read again")
    elif what == "withdraw" and len(study.settings.representations) > 2:
        study.withdraw(representation=study.settings.representations[which % 2], reason="too dear")
    elif what == "add" and len(study.settings.representations) < 4:
        study.add(representation=f"new{len(list(study.events()))}", reason="found late")
    elif pending and what == "tell":
        said.append(pending[which * len(pending) // 100])
        study.tell(said[-1], reward)
    elif pending and what in ("abandon", "leave out"):
        study.abandon(pending[which * len(pending) // 100], ignorable=what == "leave out")


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
@settings(max_examples=15)
@given(acts=ACTS, close=st.booleans())
def test_kept_sums_are_those_of_a_recount(
    epsilon: float, acts: list[tuple[str, int]], close: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After every call, and for whoever reads the log anew or begins with a snapshot: bit for bit."""
    place = str(tmp_path_factory.mktemp("study") / "s.db")
    with (
        pytest.MonkeyPatch.context() as patch,
        Study.create(place, **NAMES, epsilon=epsilon, seed=1) as study,
    ):
        patch.setattr("osrl.study.state.in_order.WINDOW", 3)
        patch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 20)
        said: list[int] = []
        for what, which in acts:
            act(study, what, which, said)
            with study._session.reading() as progress:
                assert progress.pending_sums is not None
                expected = recounted(progress)
                assert np.array_equal(progress.pending_sums.sums, expected[0])
                assert np.array_equal(progress.pending_sums.compared, expected[1])
        if close:
            study.close("enough")
        assert_sound(study)
        replayed = folded(study)
        with Study.open(place) as again, again._session.reading() as progress:
            assert differences(all_arrays(progress), all_arrays(replayed)) == []
            assert facts(progress) == facts(replayed)


# Snapshots ------------------------------------------------------------------------------------------------


def kept(study: MemoryStudy, before: Snapshot | None) -> Snapshot:
    """A snapshot, and the event that vouches for it."""
    snapshot = pack(study.progress, before)
    digest = hashlib.sha256(snapshot.content).hexdigest()
    study.progress.apply(Event(study.progress.position, 0, SnapshotTaken(digest)))
    parts = {position: b"" for position in snapshot.older} | dict(snapshot.parts)
    return snapshot._replace(older=tuple(parts))


def written(study: MemoryStudy, rng: random.Random) -> int:
    """How many bytes some snapshots take, between which old trials report and new ones go out."""
    snapshot, count = kept(study, None), 0
    for _ in range(4):
        for trial in rng.sample(list(study.progress.pending), 50):
            study.ask()
            study.tell(trial, float(rng.random() < 0.5))
        snapshot = kept(study, snapshot)
        count += len(snapshot.content) + sum(len(part) for _, part in snapshot.parts)
    return count


def test_a_snapshot_does_not_write_again_what_was_pending_before() -> None:
    rng, study = random.Random(8), MemoryStudy(**NAMES, seed=8)
    hand_out(study, 1_000)
    few = written(study, rng)
    hand_out(study, 8_000)
    assert written(study, rng) < 1.3 * few


def test_parts_go_when_few_of_their_trials_wait() -> None:
    rng, study = random.Random(9), MemoryStudy(**NAMES, seed=9)
    snapshot: Snapshot | None = None
    held: dict[int, bytes] = {}
    most = 0
    for step in range(12):
        hand_out(study, 900 if step < 4 else 100)
        pending = list(study.progress.pending)
        for trial in rng.sample(pending, len(pending) // 3):
            study.tell(trial, float(rng.random() < 0.5))
        snapshot = kept(study, snapshot)
        held = {position: held.get(position, b"") for position in snapshot.older} | dict(snapshot.parts)
        most = max(most, len(held))
        whole = unpack(snapshot._replace(parts=tuple(held.items())), study.progress.created)
        study.progress.position -= 1  # where the snapshot was taken
        assert whole is not None and repr(whole.pending) == repr(study.progress.pending)
        assert differences(all_arrays(whole), all_arrays(study.progress)) == []
        study.progress.position += 1
    assert most > 1 and len(held) == 1


def test_parts_that_are_damaged_are_written_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whoever finds it out; until then the log is replayed."""
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 20)
    monkeypatch.setattr("osrl.study.state.snapshot.MIN_PART", 3)
    with Study.create(path, **NAMES, seed=1) as study:
        for _ in range(4):
            study.ask(n=25)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE osrl_parts SET content = x'00' WHERE position < 60")
        assert study.verify().ok
        with Study.open(path) as again:
            assert len(again.pending) == 100
            again.ask(n=25)
            found = again._session.snapshot()
            assert found is not None and len(found.parts) == 1
            assert unpack(found, again.settings) is not None
        assert_sound(study)


def test_parts_that_are_gone_are_written_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 20)
    monkeypatch.setattr("osrl.study.state.snapshot.MIN_PART", 3)
    with Study.create(path, **NAMES, seed=1) as study:
        for _ in range(4):
            study.ask(n=25)
        found = study._session.snapshot()
        assert found is not None and len(found.parts) > 2
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM osrl_parts WHERE position < 60")
        with Study.open(path) as again:
            assert len(again.pending) == 100
        study.ask(n=25)
        found = study._session.snapshot()
        assert found is not None and len(found.parts) == 1
        assert_sound(study)

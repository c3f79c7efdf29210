"""`Study.run`: the loop that everybody writes. It ends cleanly, whatever happens."""

from __future__ import annotations

import os
import random
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import osrl
from osrl.errors import RewardRefused, StorageBusy
from osrl.study.state.trial import Trial
from osrl.study.study import Study
from tests.support.instances import refused
from tests.support.processes import forked, run_python
from tests.support.studies import MEANS, assert_sound, load_kernels, new_study


def nature(trial: Trial, rng: random.Random) -> bool:
    return rng.random() < MEANS[trial.representation][trial.predictor]


def test_it_runs_to_the_verdict(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), policy="osrl") as study:
        assert study.run(partial(nature, rng=random.Random(0))) == "decided" == study.verdict
        assert study.best.representation == "A" and study.pending == ()
        assert study.run(partial(nature, rng=random.Random(0)), workers=2) == "decided"  # nothing is left to do
        assert_sound(study)


def test_a_budget_ends_several_workers(place: str) -> None:
    """Three threads: none of them fails when another takes the last trial."""
    with new_study(place, policy="osrl", delta=1e-9, budget=20) as study:
        seen = set()

        def function(trial: Trial) -> int:
            seen.add(threading.get_ident())
            return 1

        assert study.run(function, workers=3, task="old", by="robot") == "budget exhausted"
        assert study.trials == 20 and study.pending == () and seen
        assert_sound(study)


def test_two_processes_run_one_study(place: str, tmp_path: Path) -> None:
    def work(seed: int) -> None:
        with Study.open(place) as study:
            study.run(partial(nature, rng=random.Random(seed)), workers=2)

    with new_study(place, policy="osrl") as study:
        load_kernels(tmp_path, "osrl")
        pids = [forked(partial(work, i)) for i in range(2)]
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
        assert study.verdict == "decided" and study.pending == ()
        assert_sound(study)


def test_a_function_that_fails_is_called_again(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), budget=3) as study:
        calls: dict[int, int] = {}

        def function(trial: Trial) -> int:
            calls[trial.id] = calls.get(trial.id, 0) + 1
            if calls[trial.id] < 3:
                raise OSError("the line was cut")
            return 1

        assert study.run(function, retries=2) == "budget exhausted"
        assert calls == {1: 3, 2: 3, 3: 3}


def test_a_function_that_keeps_failing_ends_the_run(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), policy="osrl", delta=1e-9) as study:

        def function(trial: Trial) -> int:
            if trial.id == 4:
                raise OSError("the line was cut")
            return 1

        with pytest.raises(OSError, match="the line was cut") as caught:
            study.run(function, workers=2, retries=1)
        assert caught.value.__notes__ == ["trial 4 has not reported: tell its reward, or abandon it"]
        assert study.pending == (4,)  # all others were told
        with refused("the function returned no reward for trial"):
            study.run(lambda trial: None)  # type: ignore[arg-type, return-value]
        with pytest.raises(RewardRefused, match="the reward is 7"):
            study.run(lambda trial: 7)
        with refused("workers is 0"):
            study.run(function, workers=0)


def test_a_busy_storage_is_asked_again(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("osrl.study.operations.loop.RETRY_SECONDS", 0.0)
    with new_study(str(tmp_path / "a.db"), budget=4) as study:
        ask = Study.ask
        failed: list[int] = []

        def busy(self: Study, *arguments: Any, **more: Any) -> Any:
            if len(failed) < 3:
                failed.append(1)
                raise StorageBusy("others write; call again")
            return ask(self, *arguments, **more)

        monkeypatch.setattr(Study, "ask", busy)
        assert study.run(lambda trial: 1) == "budget exhausted" and len(failed) == 3


INTERRUPTED = """
import os, signal, sys, threading, time
import osrl
from osrl.study.operations.loop import Run

study = osrl.Study.open(sys.argv[1])
noticed, join = threading.Event(), Run._join

def noting_join(run, show):
    if run._stop.is_set():
        noticed.set()
    join(run, show)

def function(trial):
    if trial.id == 3:
        os.kill(os.getpid(), signal.SIGINT)
        assert noticed.wait(60)
        if sys.argv[2] == "twice":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
    return 1

Run._join = noting_join
try:
    study.run(function)
except KeyboardInterrupt as error:
    print(study.trials, study.pending, error)
"""


@pytest.mark.parametrize(("how", "left"), [("once", "3 () "), ("twice", "3 (3,) trials that have not reported: 3")])
def test_ctrl_c_leaves_no_mess(tmp_path: Path, how: str, left: str) -> None:
    path = str(tmp_path / "a.db")
    with new_study(path, policy="osrl", delta=1e-9):
        pass
    done = run_python("-c", INTERRUPTED, path, how)
    assert (done.stdout.strip(), done.stderr) == (left.strip(), "")
    with Study.open(path) as study:
        assert_sound(study)


def test_errors_are_names_of_the_package() -> None:
    codes = {"StudyEnded": 3, "BudgetSpent": 3, "UnknownTrial": 2, "RewardRefused": 2, "StorageBusy": 4}
    for name, code in {**codes, "StorageDamaged": 5, "OsrlError": 2}.items():
        error = getattr(osrl, name)
        assert issubclass(error, osrl.OsrlError) and error.exit_code == code

"""Attacks on what a study says over its stages, and on its guardrail; see `tests.validation.attacks`.

``revision`` 0 plays them against studies as they were before this was mended: logs from then still replay so.
"""

from __future__ import annotations

import copy
import math
import random
import tempfile
from typing import Any

import numpy as np

from osrl.errors import OsrlError
from osrl.evidence.intervals import mean_intervals
from osrl.evidence.missingness import missingness_evidence
from osrl.study.log.events import REVISION
from osrl.study.state.harm import LEVEL
from osrl.study.state.state import StudyState
from osrl.study.study import Study
from osrl.study.views.arms import COVERAGE
from tests.support.memory_study import MemoryStudy


def _since(study: MemoryStudy) -> int:
    """Return the trials of the last stage."""
    return study.progress.asked + 1 - study.progress.stages[-1][0]


def guardrail_over_stages(seed: int, revision: int = REVISION) -> bool:
    """Put all harm at the limit; withdraw or add another arm whenever the evidence against A is low.

    Whether A is shown to do too much harm, which may happen with probability 0.05 in a study.
    """
    names = {"tasks": 1, "representations": ["A", "B", "C"], "predictors": 1, "harm_limit": 0.3}
    study = MemoryStudy(**names, policy="uniform", delta=1e-9, seed=seed, revision=revision)
    rng, without = random.Random(seed), False
    for _ in range(1000):
        study.tell(study.ask().trial, 1.0, harm=float(rng.random() < 0.3))
        harm = study.progress.harm
        assert harm is not None
        if harm.log_evidence[0] >= math.log(1 / LEVEL):
            return True
        if harm.log_evidence[0] < -0.5 and _since(study) > 3 and len(study.progress.stages) < 40:
            without = not without
            study.begin_stage(["A", "B"] if without else ["A", "B", "C"])
    return False


def watch_over_stages(seed: int, revision: int = REVISION) -> bool:
    """Lose trials at random; begin a stage whenever the monitor has lost wealth, or after 60 trials.

    Whether it raises its alarm, which may happen with probability 0.01 in a study.
    """
    names = {"tasks": 1, "representations": ["A", "B", "C"], "predictors": 1}
    study = MemoryStudy(**names, policy="uniform", delta=1e-9, seed=seed, revision=revision)
    rng, without = random.Random(seed), False
    for _ in range(2000):
        asked = study.ask()
        if rng.random() < 0.3:
            study.abandon(asked.trial, ignorable=True)
        else:
            study.tell(asked.trial, 0.5 < rng.random())
        if study.progress.alarm:
            return True
        losses = study.progress.missingness
        assert losses is not None
        low = missingness_evidence(losses.watch) < -0.6 and _since(study) > 3
        if (low or _since(study) >= 60) and len(study.progress.stages) < 150:
            without = not without
            study.begin_stage(["A", "B"] if without else ["A", "B", "C"])
    return False


CASES: dict[str, dict[str, float]] = {  # what is ruled out when a loss is left out, and the settings with which it is
    "a predictor": {"representations": 1, "predictors": 3},
    "a representation": {"representations": 3, "predictors": 1},
    "vectors of predictors": {"tasks": 2, "representations": 2, "predictors": 2},
    "within the tolerance": {"representations": 2, "predictors": 2, "epsilon": 0.2},
    "behind a late one": {"representations": 2, "predictors": 2, "late": 3},
}


def out_after_the_alarm(case: str, seed: int, revision: int = REVISION) -> bool:
    """Let the first loss that is left out rule something out, and raise the alarm.

    Whether what would be possible, had the loss counted by its worst reward, stays out all the same.
    """
    given: dict[str, Any] = {"tasks": 1, **CASES[case], "revision": revision}
    late = int(given.pop("late", 1))
    study = MemoryStudy(policy="uniform", delta=0.3, seed=seed, **given)
    rng, out = random.Random(seed), [study.ask().trial for _ in range(late)]
    while study.running and study.progress.asked < 400:
        asked = study.ask()
        _, g, h = study.arm(asked)
        study.tell(asked.trial, rng.random() < 0.9 - 0.4 * g - 0.2 * h)
        lenient, strict = copy.deepcopy(study.progress), copy.deepcopy(study.progress)
        assert lenient.missingness is not None
        lenient.missingness._limit = -math.inf  # so that this loss raises the alarm
        lenient.apply_loss(out[0], ignorable=True)
        strict.apply_loss(out[0], ignorable=False)
        assert lenient.alarm
        if lenient.verdict is None and _possible(lenient) != _possible(strict):
            return True
    return False


def _possible(progress: StudyState) -> list[list[bool]]:
    tests = progress.hypotheses
    assert tests is not None
    every = tests.possible_g, tests.possible_h, tests.struck, tests.tolerance.within
    return [each.ravel().tolist() for each in every]


def dropped_harm(how: str, seed: int) -> bool:
    """Let every trial do harm 1; its reward is ``corrected``, or told ``first``, the harm after it.

    Whether 60 such trials have withdrawn nothing, and no tell was refused.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        Study.create(
            f"{folder}/study.db",
            tasks=1,
            representations=["A", "B", "C"],
            predictors=1,
            policy="uniform",
            delta=1e-9,
            harm_limit=0.1,
            seed=seed,
        ) as study,
    ):
        try:
            for _ in range(60):
                trial = study.ask()
                if how == "first":
                    study.tell(trial, 1)
                study.tell(trial, 1, harm=1)
                if how == "corrected" and len(study.settings.representations) == 3:
                    study.correct(trial, 0, reason="an attack")
        except OsrlError:
            return False
        return len(study.settings.representations) == 3 and study.look()[0].paused is None


def intervals_over_groups(seed: int, each: bool = False) -> bool:
    """Add twenty tasks one by one; in each sample the arm whose interval is closest to being wrong.

    Whether one of all intervals ever is, which may happen with probability 0.05. ``each``: every group of
    arms has that risk for itself, as it was.
    """
    study = MemoryStudy(tasks=["1"], representations=["A", "B"], predictors=["h"], policy="uniform", seed=seed)
    rng = np.random.default_rng(seed)
    for task in range(1, 21):
        if task > 1:
            study.begin_stage(["A", "B"], tasks=[str(x + 1) for x in range(task)])
        risks = (1 - COVERAGE) * (np.full(2, 0.5) if each else np.array(study.progress.totals.shares[-2:]))
        number, total, margin = np.zeros(2), np.zeros(2), np.full(2, np.inf)
        for _ in range(150):
            arm = int(margin.argmax())
            number[arm] += 1.0
            total[arm] += rng.random() < 0.5
            lower, upper = mean_intervals(number, total, total, risks, 0.0)
            margin = np.where(number > 0, np.maximum(lower - 0.5, 0.5 - upper), np.inf)
            if (margin[number > 0] > 0).any():
                return True
    return False


def wrong_in_some_stage(stages: int, seed: int) -> bool:
    """Play equal arms at risk 0.1; end a stage in which little speaks against A, and begin another.

    Whether A is ever ruled out: in each stage with probability at most 0.1, and in some stage with at most
    ``stages`` times that.
    """
    names = {"tasks": 1, "representations": ["A", "B", "C"], "predictors": 1}
    study = MemoryStudy(**names, policy="uniform", delta=0.1, seed=seed)
    rng, progress = random.Random(seed), study.progress
    for _ in range(2000):
        study.tell(study.ask().trial, float(rng.random() < 0.5))
        tests = progress.hypotheses
        assert tests is not None
        if not tests.possible_g[0]:
            return True
        if not study.running:
            return False
        if (tests.evidence_g[0] < -0.25 and _since(study) > 10) or _since(study) > 300:
            if len(progress.stages) == stages:
                return False
            study.begin_stage(["A", "B"] if len(progress.stages) % 2 else ["A", "B", "C"])
    return False

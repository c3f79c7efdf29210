"""Attacks on what is said: runs after which a sentence of the page is read again, beside the true means.

Each plays one run on a study in memory. The sentences are those of the page, and are read as a reader would.
"""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osrl.page.render import frozen_page
from osrl.page.sentences import headline
from osrl.report.sentences import SHARED
from osrl.report.study import StudyReport
from osrl.study.views.status import read_status
from tests.support.memory_study import MemoryStudy

CLAIM = re.compile(r"that ([^()]*?) \(risk (?:less than )?([\d.]+) %\)")
NEAR = re.compile(r"in (\w+) nothing is better than (\w+)(?: with (\w+))? by more than ([\d.]+)")
BEST = re.compile(r"^(\w+) is the best\b")
EXACTLY = 1e-9

Means = NDArray[np.float64]


def document_of(study: MemoryStudy) -> dict[str, Any]:
    """Return the document of `osrl study status --json` for a study in memory."""
    return StudyReport("", "study", read_status(study.progress)).document()


def said(study: MemoryStudy) -> str:
    """Return the sentences at the top of the page."""
    sentence = headline(read_status(study.progress), None, None)
    return " ".join([sentence.headline, *sentence.more])


def false_claims(text: str, means: Means, risk: float) -> list[str]:
    """Return the statements that are claimed at a risk of at most ``risk``, and are not true of ``means`` (X, G, H).

    Those that begin with "if so" are about predictors, and are passed over.
    """
    found = []
    for statement, percent in CLAIM.findall(text):
        if float(percent) <= 100 * risk and not _holds(statement, means):
            found.append(statement)
    return found


def _holds(statement: str, means: Means) -> bool:
    best = means.max(axis=(1, 2))
    if near := NEAR.search(statement):
        x, g, h = (0 if name is None else int(name[1:]) - 1 for name in near.groups()[:3])
        return bool(means[x, g, h] >= best[x] - float(near[4]) - EXACTLY)
    if named := BEST.search(statement):
        own = means[:, int(named[1][1:]) - 1].max(axis=1)
        return bool((own >= best - EXACTLY).all())
    return True


def _play(study: MemoryStudy, means: Means, rng: random.Random, trials: int) -> None:
    for _ in range(trials):
        if not study.running:
            return
        asked = study.ask()
        study.tell(asked.trial, rng.random() < means[study.arm(asked)])


def claim_within(seed: int, risk: float = 0.1) -> bool:
    """Play two representations that differ by a twentieth of the tolerance: is a false statement claimed?

    "g1 is the best choice (risk 0.0037 %)" was said where "within the tolerance" was proved.
    """
    means = np.array([[[0.69], [0.7]], [[0.69], [0.7]]])
    sizes = {"tasks": 2, "representations": 2, "predictors": 1}
    study = MemoryStudy(**sizes, delta=1e-6, epsilon=0.2, seed=seed)
    rng = random.Random(seed)
    for _ in range(10):
        _play(study, means, rng, 150)
        if false_claims(said(study), means, risk):
            return True
    return False


def claim_too_bad(seed: int, risk: float = 0.1) -> bool:
    """Make all arms but the best worse by just more than the tolerance: is one of them claimed to be near?

    The page is read after every ten trials, so that the moment with the most evidence counts.
    """
    means = np.array([[[0.701, 0.5], [0.5, 0.5]]])
    study = MemoryStudy(tasks=1, representations=2, predictors=2, delta=1e-6, epsilon=0.2, seed=seed)
    rng = random.Random(seed)
    for _ in range(40):
        _play(study, means, rng, 10)
        if false_claims(said(study), means, risk):
            return True
    return False


def tasks_within(seed: int, tasks: int = 40, risk: float = 0.1) -> tuple[int, float, float]:
    """Play many tasks, each with a predictor that is worse by just more than the tolerance.

    The number of tasks whose answer is too bad, and the chances that the page names: that the answer of one
    task is too bad, and that of some task is.
    """
    means = np.tile([[0.501, 0.3]], (tasks, 1, 1))
    study = MemoryStudy(tasks=tasks, representations=1, predictors=2, delta=risk, epsilon=0.2, seed=seed)
    rng = random.Random(seed)
    _play(study, means, rng, 20_000)
    verdict = study.progress.verdict
    wrong = 0 if verdict is None else sum(name == "h2" for name in verdict.predictors)
    if verdict is None or verdict.status != "decided within the tolerance":
        return wrong, 1.0, 1.0
    one, every = chances(said(study))
    return wrong, one, every


def all_within(seed: int, risk: float = 0.1) -> bool:
    """Tell whether a task has an answer that is too bad, and the page calls that less likely than ``risk``."""
    wrong, _, every = tasks_within(seed, risk=risk)
    return wrong > 0 and every <= risk


def chances(text: str) -> tuple[float, float]:
    """Return the chances that a page names for one task and for all tasks at once; 1 where it names none."""
    one = re.search(r"In each task the chance .*? is at most ([\d.]+) %", text)
    every = re.search(r"(?:at once it|chance that this is not so) is at most ([\d.]+) %", text)
    return float(one[1]) / 100 if one else 1.0, float(every[1]) / 100 if every else 1.0


def tasks_apart(gap: float, seed: int) -> tuple[bool, bool]:
    """Make another representation better by ``gap`` in one of three tasks, so that the model does not hold.

    Whether the page names one that is the best in every task, without what this rests on; and whether at all.
    """
    means = np.array([[[0.7], [0.4]], [[0.7], [0.4]], [[0.5], [0.5 + gap]]])
    study = MemoryStudy(tasks=3, representations=2, predictors=1, delta=0.05, seed=seed)
    _play(study, means, random.Random(seed), 4000)
    named = "is the best choice in every task" in said(study)
    return named and SHARED not in page_of(study), named


def apart_unsaid(gap: float, seed: int) -> bool:
    """Tell whether the page names one that is the best in every task, and not that it assumes there is one."""
    return tasks_apart(gap, seed)[0]


def called_best(seed: int) -> bool:
    """Look early at 12 arms: is a guess said to look best or to lead where another arm has a larger mean?

    Arms without a result were named, too.
    """
    rng = random.Random(seed)
    means = np.array([[[rng.uniform(0.3, 0.7) for _ in range(3)] for _ in range(2)] for _ in range(2)])
    study = MemoryStudy(tasks=2, representations=2, predictors=3, delta=0.01, seed=seed)
    for _ in range(20):
        _play(study, means, rng, 10)
        document = document_of(study)
        text = said(study)
        if study.running and (" looks best" in text or " leads." in text) and not _has_largest(document):
            return True
    return False


def _has_largest(document: dict[str, Any]) -> bool:
    """Tell whether the arm of the guess has a result and the largest mean in every task."""
    best = document["best"]
    for task in document["tasks"]:
        told = {
            (arm["representation"], arm["predictor"]): arm["mean"]
            for arm in document["arms"]
            if arm["task"] == task and arm["told"]
        }
        own = told.get((best["representations"][task], best["predictors"][task]))
        if own is None or own < max(told.values()):
            return False
    return True


def page_of(study: MemoryStudy) -> str:
    """Return the first part of the page, as HTML, without what is folded away."""
    from osrl.page.snapshot import PageSnapshot

    snapshot = PageSnapshot(read_status(study.progress), 0, 0, None, None, "0")
    page = frozen_page("study", snapshot)
    top = page[page.index('aria-labelledby="headline"') : page.index('id="possible"')]
    return re.sub(r"<details>.*?</details>", "", top, flags=re.DOTALL)

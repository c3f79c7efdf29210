"""Attacks on the guarantee: experiments that once made a study wrong more often than its risk, or did not.

Each attack plays one run, and says whether it went wrong. `tests/validation/test_attacks.py` plays some of each,
`tests/validation/report_attacks.py` many, for docs/validation/attacks.md.
"""

from __future__ import annotations

import copy
import random
from collections import deque

import numpy as np
from scipy.stats import binom

from osrl.analysis.trials import Table
from osrl.analysis.verdict import judge
from osrl.errors import OsrlError
from osrl.hypotheses.refresh import refresh_evidence
from osrl.hypotheses.state import new_hypotheses
from osrl.hypotheses.trials import observe_reward
from osrl.model.families import Family
from osrl.study.log.events import SECRET_BITS, Abandoned, Event, Told
from tests.support.memory_study import MemoryStudy
from tests.support.studies import NAMES

RISK = 0.1
FALSE_ALARM = 1e-6
NO_TICKET = np.zeros(0)


def late_first_phase(seed: int) -> bool:
    """Delay results of the second representation by 100 trials: is a predictor of the first wrong?

    Many of them come when phase 2 has begun, in which its arms have no part.
    """
    sizes = {"tasks": 2, "representations": 2, "predictors": 2}
    study = MemoryStudy(**sizes, policy="osrl-sc", threshold="sharp", delta=0.1, seed=seed)
    means = [[0.8, 0.9], [0.05, 0.05]]
    rng = random.Random(seed)
    late: deque[tuple[int, int, float]] = deque()
    for t in range(3000):
        if not study.running:
            break
        asked = study.ask()
        _, g, h = study.arm(asked)
        reward = float(rng.random() < means[g][h])
        if g == 1:
            late.append((t + 100, asked.trial, reward))
        else:
            study.tell(asked.trial, reward)
        while late and late[0][0] <= t and study.running:
            study.tell(*late.popleft()[1:])
    verdict = study.progress.verdict
    return verdict is not None and verdict.representations[0] == "g1" and "h1" in verdict.predictors


def stale_counts(seed: int) -> bool:
    """Leave a task, with Gaussian rewards, as soon as a reward hurts: does a rejection rest on old counts?

    It does if the evidence from the counts of all tasks at that moment is below the limit.
    """
    tasks, rng = 20, np.random.default_rng(seed)
    tests = new_hypotheses((tasks, 2, 1), Family("gaussian", 1.0), (0.3, 0.3))
    x = 0
    for _ in range(6000):
        a = int(rng.integers(2))
        reward = rng.normal(-0.5 * a)
        possible = tests.possible_g.copy()
        observe_reward(tests, x, a, reward, NO_TICKET)
        for g in np.flatnonzero(possible & ~tests.possible_g):
            now = copy.deepcopy(tests)
            refresh_evidence(now)
            return bool(now.evidence_g[g] < tests.limits[0] - 1e-9)
        if (reward < -0.5 * a) == (a == 1):
            x = int(rng.integers(tasks))
    return False


def declined_arm(policy: str, share: float, seed: int) -> tuple[bool, bool]:
    """Decline the best arm in a share of its trials, and declare these ignorable.

    Whether the answer is wrong, and whether the study has raised an alarm.
    """
    study = MemoryStudy(tasks=1, representations=1, predictors=8, policy=policy, delta=0.1, seed=seed)
    means = [0.95, 0.948] + [0.02] * 6
    rng = random.Random(seed)
    for _ in range(1500):
        if not study.running:
            break
        asked = study.ask()
        h = study.arm(asked)[2]
        if h == 0 and rng.random() < share:
            study.abandon(asked.trial, ignorable=True)
        else:
            study.tell(asked.trial, rng.random() < means[h])
    verdict = study.progress.verdict
    return verdict is not None and verdict.predictors[0] != "h1", study.progress.alarm


def drifting_log(noise_sd: float | None, seed: int) -> tuple[bool, bool]:
    """Analyse a log without propensities: means rise by 0.2 while the shares change; the best leads by 0.005.

    Whether a wrong predictor is claimed, and whether the analysis has raised an alarm.
    """
    rng = np.random.default_rng(seed)
    rows, sd = 4000, noise_sd or 0.0
    late = np.arange(rows) >= rows // 2
    arms = (rng.random(rows) < np.where(late, 0.9, 0.1)).astype(np.int64)  # the worse arm mostly late
    means = 0.3 + (0.8 if noise_sd else 0.2) * late - 0.005 * arms
    rewards = rng.normal(means, sd) if noise_sd else (rng.random(rows) < means).astype(float)
    nothing, none = np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
    family = Family("bernoulli") if noise_sd is None else Family("gaussian", noise_sd)
    table = Table(("x",), ("g",), ("best", "worse"), family, nothing, arms, rewards, none, None)
    found = judge(table, delta_g=0.1, delta_h=0.1)
    return found.verdict == "decided" and found.best.predictors["x"] == "worse", found.doubt.alarm


def incomplete_log(seed: int) -> tuple[bool, bool]:
    """Drop nine of ten rows of the best arm: is a wrong predictor claimed, and is there an alarm?"""
    rng = np.random.default_rng(seed)
    means = np.array([0.95, 0.948] + [0.02] * 6)
    arms = rng.integers(8, size=4000)
    arms = arms[(arms > 0) | (rng.random(arms.size) < 0.1)]
    rewards = (rng.random(arms.size) < means[arms]).astype(float)
    nothing, none = np.zeros(arms.size, np.int64), np.zeros(arms.size, np.bool_)
    names = tuple(f"h{i}" for i in range(1, 9))
    even = np.full((arms.size, 8), 1 / 8)
    table = Table(("x",), ("g",), names, Family("bernoulli"), nothing, arms, rewards, none, even)
    found = judge(table, delta_g=0.1, delta_h=0.1)
    return found.verdict == "decided" and found.best.predictors["x"] != "h1", found.doubt.alarm


def heavy_mixture(seed: int) -> bool:
    """Give an option that makes the bets sum to more than one: is a true representation rejected?"""
    sizes = {"tasks": 20, "representations": 2, "predictors": 1}
    try:
        study = MemoryStudy(**sizes, policy="uniform", delta=0.1, seed=seed, options={"plugged": 0.9})
    except OsrlError:
        return False
    rng = random.Random(seed)
    for _ in range(200):
        if not study.running:
            break
        study.tell(study.ask().trial, rng.random() < 0.5)
    return not study.progress.policy_state.stopping.possible_g.all()


def hunted_tasks(seed: int) -> bool:
    """Give tasks, in batches, where the first of equal representations looks worst: is it ruled out?"""
    study = MemoryStudy(tasks=3, representations=2, predictors=2, delta=0.1, seed=seed)
    rng = random.Random(seed)
    for _ in range(60):
        least = study.progress.policy_state.stopping.by_task[:, 0]
        task = study.progress.created.tasks[int(np.argmax(least))]
        batch = [study.ask(task).trial for _ in range(8) if study.running]
        for trial in batch:
            study.tell(trial, rng.random() < 0.5)
        if not study.running:
            break
    return not study.progress.policy_state.stopping.possible_g[0]


def foreseen_arms(given: int | None, seed: int, trials: int = 500) -> tuple[float, bool]:
    """Give tasks in which the next arm, computed from all that is public, is not the victim's best one.

    The victim, g2, is the best representation of every task. So little is drawn of its good arm that it looks
    like the bad ones. Return the share of arms that were foreseen, and whether the victim is ruled out.
    ``given`` is the seed of the study, if it has one; otherwise the attacker has to guess the secret bits.
    """
    study = MemoryStudy(tasks=10, representations=2, predictors=2, delta=RISK, seed=given)
    rng, secret, guess, right, asks = random.Random(seed), random.Random(seed + 10**6), 2**52, 0, 0
    means = {("g1", "h1"): 0.88, ("g1", "h2"): 0.1, ("g2", "h1"): 0.9, ("g2", "h2"): 0.1}
    tasks = list(study.progress.created.tasks)
    while study.running and asks < trials:
        rng.shuffle(tasks)
        for task in tasks:
            foreseen = study.progress.choose(task, bits=guess).asked
            if (foreseen.representation, foreseen.predictor) != ("g2", "h1"):
                break
        asked = study.ask(foreseen.task, bits=secret.getrandbits(SECRET_BITS))
        arm = asked.representation, asked.predictor
        right += arm == (foreseen.representation, foreseen.predictor)
        guess = rng.getrandbits(SECRET_BITS) if asked.bits is None else asked.bits  # the last ones are public
        asks += 1
        study.tell(asked.trial, rng.random() < means[arm])
    return right / asks, not study.progress.policy_state.stopping.possible_g[1]


def allowed(runs: int, risk: float = RISK) -> int:
    """Return the count that a risk which is kept exceeds with probability 1e-6 at most (exact tail)."""
    return int(binom.isf(FALSE_ALARM, runs, risk))


def hostile_run(policy: str, delta: float, seed: int) -> bool:
    """Delay or drop bad results of rivals, and good ones of the arm that is favoured.

    All arms are equal, so every hypothesis is true; whether the representation under attack is rejected.
    """
    study = MemoryStudy(**NAMES, policy=policy, delta=delta, seed=seed)
    progress = study.progress
    rng = random.Random(seed)
    held: list[tuple[int, float]] = []

    def end(body: Told | Abandoned) -> None:
        progress.apply(Event(progress.position, 0, body))
        progress.verdict = progress._judge()

    for _ in range(20):
        for _ in range(8):
            asked = study.ask()
            reward = float(rng.randrange(2))
            favoured = asked.representation == "A" and asked.predictor == "low"
            if progress.verdict is not None or reward == favoured:
                end(Told(asked.trial, reward))
            elif rng.random() < 0.6:
                end(Abandoned(asked.trial, False))
            else:
                held.append((asked.trial, reward))
        if progress.verdict is not None:
            break
        while len(held) > 40:
            end(Told(*held.pop(0)))
    return not progress.policy_state.stopping.possible_g[1]

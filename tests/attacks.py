"""Attacks on the guarantee: experiments that once made a study wrong more often than its risk, or did not.

Each attack plays one run, and says whether it went wrong. `tests/test_attacks.py` plays some of each,
`tests/validate_attacks.py` many, for docs/validation/attacks.md.
"""

from __future__ import annotations

import copy
import random
from collections import deque

import numpy as np

from osrl.evidence.betting import no_bets
from osrl.families import Family
from osrl.policies.betting import take_reward
from osrl.policies.contract import Column, Problem
from osrl.policies.hypotheses import look, new_tests
from tests.live import Live

NO_TICKET = np.zeros(0)


def late_first_phase(seed: int) -> bool:
    """Results of the second representation come 100 trials late: whether a predictor of the first is wrong.

    Many of them come when phase 2 has begun, in which its arms have no part.
    """
    sizes = {"tasks": 2, "representations": 2, "predictors": 2}
    study = Live(**sizes, policy="osrl-sc", threshold="sharp", delta=0.1, seed=seed)
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
    verdict = study.fold.verdict
    return verdict is not None and verdict.representations[0] == "g1" and "h1" in verdict.predictors


def stale_counts(seed: int) -> bool:
    """Gaussian rewards, and a task is left as soon as a reward hurts: does a rejection rest on old counts?

    It does if the evidence from the counts of all tasks at that moment is below the limit.
    """
    tasks, rng = 20, np.random.default_rng(seed)
    problem = Problem((tasks, 2, 1), Family("gaussian", 1.0), (Column("own", 0.3, 0.3),))
    tests = new_tests(problem, no_bets())
    x = 0
    for _ in range(6000):
        a = int(rng.integers(2))
        reward = rng.normal(-0.5 * a)
        possible = tests.possible_g.copy()
        take_reward(tests, x, a, reward, NO_TICKET)
        for g in np.flatnonzero(possible & ~tests.possible_g):
            now = copy.deepcopy(tests)
            look(now)
            return bool(now.evidence_g[g] < tests.limits[0] - 1e-9)
        if (reward < -0.5 * a) == (a == 1):
            x = int(rng.integers(tasks))
    return False

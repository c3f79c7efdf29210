"""Runs with a tolerance, with the troubles of an experiment: how often is an answer worse than allowed?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osrl.hypotheses.trials import ticket_size
from osrl.model.arrays import Flags
from osrl.model.environment import new_environment
from osrl.model.instance import Instance
from osrl.model.outcome import DECIDED, NO_SHARED, RUNNING, WITHIN
from osrl.model.rng import START_LANE, new_key, uniform
from osrl.policies.builtin import OSRL, UNIFORM
from osrl.policies.contract import Policy, Problem
from osrl.policies.steps import design_of
from tests.validation.walks import Trouble, walk

RISK = 0.1  # both
EPSILON = 0.2
ROUNDS = 20_000
EXACTLY = 1e-9


class Case(NamedTuple):
    """A policy with options on an instance, with a tolerance for both, and what goes wrong."""

    policy: Policy
    instance: Instance
    epsilon: float = EPSILON
    trouble: Trouble = Trouble()
    options: Mapping[str, Any] = MappingProxyType({})


def near(part: float) -> list[list[list[float]]]:
    """Return two tasks in which every other arm is worse than the best one by this part of the tolerance."""
    low = 0.7 - part * EPSILON
    return [[[0.7, low], [low, low]], [[low, 0.7], [low, low]]]


TIES = [[[0.7, 0.7], [0.3, 0.2]], [[0.7, 0.4], [0.2, 0.3]]]
TWINS = [[[0.7, 0.4], [0.7, 0.4], [0.2, 0.2]], [[0.4, 0.7], [0.4, 0.7], [0.2, 0.2]]]
CHAIN = [[[0.8, 0.62, 0.44, 0.26]], [[0.26, 0.44, 0.62, 0.8]]]  # of predictors
CHAIN_G = [[[0.8], [0.62], [0.44], [0.26]], [[0.8], [0.62], [0.44], [0.26]]]  # of representations
CROSSED = [[[0.8, 0.62], [0.7, 0.52]], [[0.62, 0.8], [0.52, 0.7]]]  # by both
WORSE = near(1.1)
CASES = {
    "ties of predictors": Case(OSRL, Instance.bernoulli(TIES)),
    "equal representations": Case(OSRL, Instance.bernoulli(TWINS)),
    "worse by epsilon": Case(OSRL, Instance.bernoulli(near(1.0))),
    "worse by 0.9 epsilon": Case(OSRL, Instance.bernoulli(near(0.9))),
    "worse by 1.1 epsilon": Case(OSRL, Instance.bernoulli(WORSE)),
    "chain of predictors": Case(OSRL, Instance.bernoulli(CHAIN)),
    "chain of representations": Case(OSRL, Instance.bernoulli(CHAIN_G)),
    "chain of both": Case(OSRL, Instance.bernoulli(CROSSED)),
    "failures drop out": Case(OSRL, Instance.bernoulli(WORSE), trouble=Trouble(lost=0.02)),
    "late failures": Case(OSRL, Instance.bernoulli(WORSE), trouble=Trouble(delay=5)),
    "batches": Case(OSRL, Instance.bernoulli(WORSE), trouble=Trouble(batch=8)),
    "tasks given to hurt": Case(OSRL, Instance.bernoulli(WORSE), trouble=Trouble(hunted=True)),
    "rewards in [0, 1]": Case(OSRL, Instance.bounded(WORSE)),
    "even sampling": Case(UNIFORM, Instance.bernoulli(WORSE)),
    "Gaussian rewards": Case(OSRL, Instance.gaussian(WORSE, 0.5)),
    "Gaussian ties": Case(OSRL, Instance.gaussian(TIES, 0.5)),
}


class Answers(NamedTuple):
    """How many runs ended by which verdict, and with an answer that is worse than allowed, in each task."""

    verdicts: NDArray[np.int64]  # (5,) by number
    wrong_g: NDArray[np.int64]  # (X,) too bad, and the representation is not one of the best
    wrong_h: NDArray[np.int64]  # (X,) too bad, and it is

    @property
    def worst(self) -> int:
        """Return the largest count; that no representation is shared is wrong about the representation."""
        none = int(self.verdicts[NO_SHARED])
        return max(none + int(self.wrong_g.max()), int(self.wrong_h.max()))


def answers_of(
    case: Case, runs: int, rounds: int = ROUNDS, change: Callable[[Any], None] = lambda hypotheses: None
) -> Answers:
    """Play ``runs`` runs, on all cores; ``change`` may tamper with the first hypotheses of each."""
    instance, policy = case.instance, case.policy
    means = instance.means
    columns = policy.criteria([(RISK, RISK)])
    problem = Problem(instance.shape, instance.family, columns, (case.epsilon, case.epsilon))
    best = means.max(axis=(1, 2))
    best_g = np.isclose(means.max(axis=2), best[:, None]).all(axis=0)
    tasks = np.arange(len(means))

    def one(run: int) -> tuple[int, Flags, Flags]:
        key = new_key(0, run)
        state = policy.new(problem, uniform(key, START_LANE, 0), **case.options)
        hypotheses = state.stopping
        change(hypotheses)
        walk(
            state,
            hypotheses,
            new_environment(instance, key),
            ticket_size(hypotheses),
            rounds,
            case.trouble,
            design_of(state),
        )
        outcome = hypotheses.outcome
        status = int(outcome.status[0])
        if status not in (DECIDED, WITHIN):
            return status, np.zeros(len(means), bool), np.zeros(len(means), bool)
        g, h = outcome.representation[0], outcome.predictor[0]
        bad = best - means[tasks, g, h] > case.epsilon + EXACTLY
        return status, bad & ~best_g[g], bad & best_g[g]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(one, range(runs)))
    status, wrong_g, wrong_h = (np.array(each) for each in zip(*found, strict=True))
    return Answers(np.bincount(status, minlength=5), wrong_g.sum(axis=0), wrong_h.sum(axis=0))


def unfinished(found: Answers) -> int:
    """Return how many runs had no verdict."""
    return int(found.verdicts[RUNNING])

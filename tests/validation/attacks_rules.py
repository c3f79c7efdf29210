"""Attacks on what simulations and rules say of themselves: each is replayed, and counted.

An attack returns how often it was tried, how often what was said was false, and how often that may be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import osrl
from osrl.errors import OsrlError
from osrl.model.arrays import Floats
from osrl.model.instance import Instance
from osrl.model.outcome import DECIDED, Outcome, new_outcome
from osrl.policies import registry
from osrl.policies.contract import Policy, Problem, SamplingRule, StoppingRule
from osrl.policies.registry import register_rule, stop_names
from osrl.simulation.forecast import ObservedProtocol, remaining_trials
from tests.validation.attacks import allowed
from tests.validation.forecasts import CASES, begin, check_forecasts

CLOSE = Instance.bernoulli([[[0.6, 0.48], [0.1, 0.05]], [[0.48, 0.6], [0.05, 0.1]]])
SHARED = Instance.bernoulli([[[0.6, 0.45], [0.5, 0.45]], [[0.45, 0.6], [0.45, 0.5]]])
SMALL = 1e-4


class Replayed(NamedTuple):
    """An attack: how often it was tried and went wrong, and how often a risk that is kept may be exceeded."""

    tried: int
    wrong: int
    allowed: int


def unequal_risks(policy: str, runs: int, seed: int = 0) -> Replayed:
    """Give a large risk of the representation and a small one of predictors: how many of a task are wrong?"""
    found = osrl.simulate(CLOSE, policy, delta_g=0.9, delta_h=SMALL, runs=runs, seed=seed).summary()
    return Replayed(runs, round(found["error_h"][0] * runs), allowed(runs, SMALL))


def false_alarms(runs: int, seed: int = 0) -> Replayed:
    """Count runs on tasks that share a representation which say that none is shared."""
    found = osrl.simulate(SHARED, "osrl", delta_g=0.9, delta_h=0.9, runs=runs, seed=seed)
    false = found.frame["verdict"] == "no shared representation"
    named = found.frame.filter(~false)
    right = [set(each) == {"g1"} for each in named["representations"]]
    errors = int(false.sum()) + right.count(False)
    return Replayed(int(false.sum()), errors - round(found.summary()["error_g"][0] * runs), 0)


class Hasty(NamedTuple):
    """The state of a rule that stops after one sample."""

    outcome: Outcome


def _begin(problem: Problem, draw: float) -> Hasty:
    X, G, H = problem.shape
    return Hasty(new_outcome(len(problem.criteria), X, G * H))


def _stop_at_once(hasty: Hasty, x: int, a: int, reward: float, ticket: Floats) -> None:
    hasty.outcome.reached[:, 0] = (DECIDED, 1, 1)
    hasty.outcome.answer[:, 0] = 1
    hasty.outcome.pulls[0, x, a] = 1


def _first(tally: Any, stopping: Any, task: int, propensities: Floats) -> int:
    return 0


HASTY = StoppingRule(name="hasty", state=Hasty, new=_begin, observe=_stop_at_once)


def unproved_rule() -> Replayed:
    """Register a stopping rule that answers wrongly after one sample: is it said to be proved?"""
    policy = Policy("hasty", sampling=SamplingRule(name="first", select=_first), stopping=HASTY)
    return Replayed(1, int(policy.proves("own")), 0)


def _ucb(tally: Any, stopping: Any, task: int, propensities: Floats) -> int:
    pulls = tally.pulls
    if (pulls == 0).any():
        return int(np.argmin(pulls))
    return int(np.argmax(tally.sums / pulls + np.sqrt(2 * np.log(pulls.sum()) / pulls)))


def outside_rule_in_pairs() -> Replayed:
    """Pair a sampling rule from outside with every stopping rule, in one process: how many are refused?"""
    stops = [name for name in stop_names() if name != "bets"]  # which needs draws
    wrong = 0
    register_rule(SamplingRule(name="ucb", select=_ucb))
    try:
        for stop in stops:
            try:
                osrl.simulate(CLOSE, sample="ucb", stop=stop, runs=1, budget=30)
            except OsrlError:
                wrong += 1
    finally:
        del registry._SAMPLING["ucb"]
    return Replayed(len(stops), wrong, 0)


def short_forecasts(name: str, runs: int, seed: int = 0) -> Replayed:
    """Forecast from 5 % of the way on, by the name of a case: how often was the upper end not enough?"""
    cases = [case for case in CASES if case.name == name]
    found = [each for case in cases for run in range(runs) for each in check_forecasts(case, 700 + seed, run)]
    wrong = sum(each.true > each.q90 for each in found)
    return Replayed(len(found), wrong, allowed(len(found), 0.1))


def forecasts_without_a_number(runs: int, seed: int = 0) -> Replayed:
    """Forecast studies of 100,000 trials far from their end: how many have no number, or no upper end?"""
    rates = CASES[-1]
    rare = rates._replace(instance=Instance.bernoulli(0.1 * rates.instance.means))
    tried = wrong = 0
    for run in range(runs):
        course = begin(rare, 700 + seed, run)
        if not course.play(100_000):
            tried += 1
            seen = ObservedProtocol(np.zeros(3), 100_000, 0, 0, 0.0)
            wrong += remaining_trials(course.state, rare.instance.family, seen).at_least
    return Replayed(tried, wrong, 0)

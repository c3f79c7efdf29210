"""Experiments whose rest is forecast at four stages, and then played: was the forecast right?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osrl.model.instance import Instance
from osrl.model.rng import new_key
from osrl.policies.contract import Criterion, Problem
from osrl.policies.registry import find
from osrl.simulation.forecast import ObservedProtocol, remaining_trials
from osrl.simulation.protocol import SimulatedExperiment, TrialProtocol, new_experiment


class Case(NamedTuple):
    """An experiment: how it is, how long one takes (about), and the share of its trials that is lost."""

    name: str
    instance: Instance
    delta: float
    epsilon: float
    loss: float
    typical: int


_EASY = Instance.bernoulli([[[0.8, 0.5], [0.3, 0.4]], [[0.4, 0.7], [0.2, 0.3]]])
_TASKS = Instance.bernoulli(
    [
        [[0.6, 0.45], [0.4, 0.35], [0.3, 0.3]],
        [[0.3, 0.5], [0.35, 0.3], [0.2, 0.25]],
        [[0.7, 0.55], [0.5, 0.4], [0.45, 0.3]],
        [[0.2, 0.35], [0.25, 0.1], [0.1, 0.2]],
    ]
)
_TIE = Instance.bernoulli([[[0.5, 0.5], [0.3, 0.2]], [[0.6, 0.45], [0.4, 0.4]]])
_NEAR = Instance.bernoulli([[[0.5, 0.47], [0.35, 0.3]], [[0.4, 0.55], [0.3, 0.35]]])
_PAGES = Instance.bernoulli(
    [[[0.050, 0.042], [0.040, 0.038]], [[0.060, 0.065], [0.055, 0.050]], [[0.031, 0.025], [0.024, 0.022]]]
)
_NORMAL = Instance.gaussian([[[0.5, 0.2], [0.0, 0.1]], [[0.1, 0.4], [-0.1, 0.0]]], noise_sd=1.0)
CASES = (
    Case("two drugs", _EASY, 0.05, 0.0, 0.0, 270),
    Case("two drugs", _EASY, 0.05, 0.0, 0.05, 390),
    Case("paper", Instance.load("paper"), 0.1, 0.0, 0.0, 4000),
    Case("paper", Instance.load("paper"), 0.1, 0.0, 0.01, 6000),
    Case("four tasks", _TASKS, 0.1, 0.0, 0.0, 1440),
    Case("four tasks", _TASKS, 0.1, 0.0, 0.05, 2690),
    Case("a tie, tolerance 0.05", _TIE, 0.1, 0.05, 0.0, 1200),
    Case("a tie, tolerance 0.05", _TIE, 0.1, 0.05, 0.01, 1600),
    Case("two predictors 0.03 apart", _NEAR, 0.1, 0.0, 0.0, 4700),
    Case("Gaussian", _NORMAL, 0.1, 0.0, 0.0, 1200),
    Case("rates of 2 to 7 %", _PAGES, 0.05, 0.0, 0.0, 95_000),
)
STAGES = (0.05, 0.1, 0.35, 0.75)  # of the typical length
LONGEST = 20_000_000


class Checked(NamedTuple):
    """A forecast, and what came: more trials, of which half of the futures needed at most ``median``."""

    case: Case
    stage: int
    true: int
    median: float
    q90: float
    q10: float


def begin(case: Case, seed: int, run: int, **options: float) -> SimulatedExperiment:
    """Return one experiment before its first trial."""
    criterion = Criterion("own", case.delta, case.delta)
    problem = Problem(case.instance.shape, case.instance.family, (criterion,), (case.epsilon, case.epsilon))
    conditions = TrialProtocol(np.zeros(0), case.loss)
    return new_experiment(find("osrl").new(problem, 0.0, **options), case.instance, new_key(seed, run), conditions)


def check_forecasts(case: Case, seed: int, run: int, stages: int = 4) -> list[Checked]:
    """Forecast the rest of an experiment at the first stages, if it reaches them, then play it to its end."""
    course, found = begin(case, seed, run), []
    for stage, share in enumerate(STAGES[:stages]):
        if course.play(round(share * case.typical)):
            break
        pulls = course.state.stopping.pulls
        told = int(pulls.sum())
        seen = ObservedProtocol(np.zeros(len(pulls)), told, course.handed_out - told, 0, 0.0)
        forecast = remaining_trials(course.state, case.instance.family, seen)
        found.append((stage, course.handed_out, forecast))
    course.play(LONGEST)
    return [
        Checked(case, stage, course.handed_out - at, forecast.median, forecast.q90, forecast.q10)
        for stage, at, forecast in found
    ]


def share_below(checked: list[Checked]) -> tuple[float, float, float]:
    """Return how often the true number was at most the 10 %, the median, and the 90 %."""
    below = np.array([[each.true <= said for said in (each.q10, each.median, each.q90)] for each in checked])
    low, median, high = below.mean(axis=0)
    return float(low), float(median), float(high)

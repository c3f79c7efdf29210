"""`forecast`: before an experiment, how many samples to expect if the means are as guessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from osrl.bounds import LowerBound, lower_bound
from osrl.contract import find
from osrl.errors import OsrlError
from osrl.instance import Instance
from osrl.risks import read_risks, read_tolerances
from osrl.simulation.simulate import simulate

RUNS = 200
BUDGET = 10**6
POLICIES = ("osrl", "osrl-sc", "tas", "tas-transfer", "uniform")
TOLERANT = ("osrl", "uniform")  # those that may end within a tolerance
THRESHOLDS = ("sharp", "theorem")  # of the paper's algorithm: those with a proof
QUANTILES = (0.1, 0.5, 0.9)


class Expected(NamedTuple):
    """What one policy needs: samples of a run. Runs that were cut count with the budget."""

    policy: str
    threshold: str
    low: int  # 10 % quantile
    median: int
    high: int  # 90 % quantile
    mean: float
    runs: int
    cut: int  # runs that were cut at the budget

    @property
    def name(self) -> str:
        """The policy, and its threshold where it has several."""
        return self.policy if len(find(self.policy).thresholds) == 1 else f"{self.policy} {self.threshold}"


class Forecast(NamedTuple):
    """The lower bound, and every policy, the one with the smallest median first.

    There is no bound, ``None``, where arms tie and a tolerance lets an experiment end all the same.
    """

    instance: Instance
    bound: LowerBound | None
    policies: tuple[Expected, ...]
    budget: int
    delta: tuple[float, float]  # of the representation, of each predictor
    epsilon: tuple[float, float]

    @property
    def least(self) -> float:
        """The samples that any policy needs on average; 0 where that is not known."""
        if self.bound is None:
            return 0.0
        within = self.bound.K_epsilon
        return self.bound.K.lower if within is None else within.lower


def forecast(
    instance: Instance,
    policy: str | Sequence[str] | None = None,
    *,
    delta: float | None = None,
    delta_g: float | None = None,
    delta_h: float | None = None,
    epsilon: float | None = None,
    epsilon_g: float | None = None,
    epsilon_h: float | None = None,
    runs: int = RUNS,
    seed: int = 0,
    budget: int = BUDGET,
    progress: Callable[[int, int], None] | None = None,
) -> Forecast:
    """Simulate policies on guessed means: how many samples each needs, beside the lower bound.

    ``delta`` is both risks; by default each is 0.1. ``epsilon`` is both tolerances, 0 by default. Without
    ``policy``, those are compared that keep their risks, and may end within the tolerance. Runs are cut after
    ``budget`` samples. The guarantee of a policy does not depend on the guess.
    """
    if isinstance(runs, bool) or runs < 20:
        raise OsrlError(f"runs is {runs}; quantiles need at least 20")
    delta_g, delta_h = read_risks(delta, delta_g, delta_h)
    epsilons = read_tolerances(epsilon, epsilon_g, epsilon_h)
    if policy is None:
        policy = TOLERANT if max(epsilons) > 0 else POLICIES
    names = [policy] if isinstance(policy, str) else policy
    several = any(len(find(name).thresholds) > 1 for name in names)
    bound = None
    if instance.in_model_class or max(epsilons) == 0:
        bound = lower_bound(
            instance, delta_g=delta_g, delta_h=delta_h, epsilon_g=epsilons[0], epsilon_h=epsilons[1]
        )
    finished = simulate(
        instance,
        names,
        runs=runs,
        seed=seed,
        delta_g=delta_g,
        delta_h=delta_h,
        epsilon_g=epsilons[0],
        epsilon_h=epsilons[1],
        threshold=THRESHOLDS if several else None,
        budget=budget,
        progress=progress,
    )
    rows = [
        _expected(str(name), str(stops), some)
        for (name, stops), some in finished.frame.group_by("policy", "threshold", maintain_order=True)
    ]
    in_order = tuple(sorted(rows, key=lambda each: (each.median, each.mean)))
    return Forecast(instance, bound, in_order, budget, (delta_g, delta_h), epsilons)


def _expected(policy: str, threshold: str, runs: pl.DataFrame) -> Expected:
    tau = runs["tau"].to_numpy()
    low, median, high = (int(q) for q in np.quantile(tau, QUANTILES, method="inverted_cdf"))
    cut = int((runs["verdict"] == "budget exhausted").sum())
    return Expected(policy, threshold, low, median, high, float(tau.mean()), len(tau), cut)

"""`plan`: before an experiment, how many trials to expect if the means are as guessed; `sweep`: several plans.

Losses, delays, batches and tasks that arrive are simulated as a study would have them
(`osrl.simulation.protocol`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from osrl.bounds.lower import LowerBound, lower_bound
from osrl.errors import OsrlError
from osrl.jit.mode import compile_now
from osrl.model.instance import Given, Instance, read_guess
from osrl.model.risks import read_risks, read_tolerances
from osrl.model.rng import START_LANE, new_key, uniform
from osrl.policies.contract import Problem
from osrl.policies.registry import find
from osrl.simulation.api import simulate
from osrl.simulation.experiment import (
    BOTTLENECK_RATIO,
    Bottleneck,
    ExperimentProtocol,
    impossibility,
    rarest_task,
    read_protocol,
    without_task,
)
from osrl.simulation.protocol import new_experiment

DEFAULT_PLAN_RUNS = 200
DEFAULT_BUDGET = 10**6
DEFAULT_POLICY = "osrl"
PROVED_POLICIES = ("osrl", "osrl-sc", "tas", "tas-transfer", "uniform")  # those with a proof
TOLERANT_POLICIES = ("osrl", "uniform")  # those that may end within a tolerance, and take what an experiment brings
PROVED_THRESHOLDS = ("sharp", "theorem")  # of the paper's algorithm: those with a proof
QUANTILES = (0.1, 0.5, 0.9)


class PlanRow(NamedTuple):
    """The trials that one policy needs. Experiments that were cut count with the budget."""

    policy: str
    threshold: str
    low: int  # 10 % quantile
    median: int
    high: int  # 90 % quantile
    mean: float
    runs: int
    cut: int  # runs that were cut at the budget
    cost: tuple[float, float] | None = None  # median and 90 % quantile of what all trials cost

    @property
    def name(self) -> str:
        """The policy, and its threshold where it has several."""
        return self.policy if len(find(self.policy).thresholds) == 1 else f"{self.policy} {self.threshold}"


class Plan(NamedTuple):
    """The lower bound, and every policy, the one with the smallest median first.

    There is no bound, ``None``, where arms tie and a tolerance lets an experiment end all the same.
    ``never``: why no number of trials is enough, where that is so; then nothing was simulated.
    """

    instance: Instance
    bound: LowerBound | None
    policies: tuple[PlanRow, ...]
    budget: int
    delta: tuple[float, float]  # of the representation, of each predictor
    epsilon: tuple[float, float]
    protocol: ExperimentProtocol = ExperimentProtocol()
    limits: tuple[float, float] = (0.0, 1.0)  # of rewards; those of bounded ones may be others
    bottleneck: Bottleneck | None = None
    never: str | None = None

    @property
    def least(self) -> float:
        """The trials that any policy needs on average, lost ones among them; 0 where that is not known."""
        if self.bound is None:
            return 0.0
        within = self.bound.K_epsilon
        return (self.bound.K_sharp if within is None else within).lower / (1 - self.protocol.loss)


def plan(
    instance: Given,
    policy: str | Sequence[str] | None = None,
    *,
    delta: float | None = None,
    delta_g: float | None = None,
    delta_h: float | None = None,
    epsilon: float | None = None,
    epsilon_g: float | None = None,
    epsilon_h: float | None = None,
    loss: float = 0.0,
    delay: int = 0,
    batch: int = 1,
    shares: Sequence[float] = (),
    gaps: float = 1.0,
    per_day: float | None = None,
    costs: Sequence[float] = (),
    ignorable: bool = False,
    low: float | None = None,
    high: float | None = None,
    runs: int = DEFAULT_PLAN_RUNS,
    seed: int = 0,
    budget: int = DEFAULT_BUDGET,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Simulate an experiment with guessed means: how many trials it needs, beside the lower bound.

    ``delta`` is both risks; by default each is 0.1. ``epsilon`` is both tolerances, 0 by default. ``policy``
    is ``osrl`` unless another, several, or ``all`` with a proof are asked for. ``loss``, ``delay``,
    ``batch``, ``shares``, ``per_day``, ``costs`` and ``ignorable``: see `ExperimentProtocol`. ``low`` and
    ``high``: between which limits bounded rewards lie, in whose unit means and tolerances are given. ``gaps``:
    every arm is so many times as far below the best one of its task as guessed. Experiments are cut after
    ``budget`` trials.
    The guarantee of a policy does not depend on the guess.
    """
    if isinstance(runs, bool) or runs < 20:
        raise OsrlError(f"runs is {runs}; quantiles need at least 20")
    guess, limits = read_guess(instance, low, high)
    instance = scale_gaps(guess, gaps)
    risks = read_risks(delta, delta_g, delta_h)
    tolerances = read_tolerances(epsilon, epsilon_g, epsilon_h)
    epsilons = tolerances[0] / (limits[1] - limits[0]), tolerances[1] / (limits[1] - limits[0])
    protocol = read_protocol(instance, loss, delay, batch, shares, per_day, costs, ignorable)
    names = _policy_names(policy, tolerant=max(epsilons) > 0 or not protocol.plain)
    bound = None
    if instance.in_model_class or max(epsilons) == 0:
        bound = lower_bound(
            instance,
            delta_g=risks[0],
            delta_h=risks[1],
            epsilon_g=epsilons[0],
            epsilon_h=epsilons[1],
            frequencies=protocol.shares if min(protocol.shares, default=0) > 0 else None,
        )
    never = impossibility(instance, protocol, epsilons, limits[1] - limits[0])
    rows: list[PlanRow] = []
    bottleneck = None
    if never is not None:
        pass
    elif protocol.plain:
        rows = _simulate(instance, names, risks, epsilons, runs, seed, budget, progress)
    else:
        rare = rarest_task(instance, protocol, risks)
        total = runs * (len(names) + (rare is not None))

        def row_of(place: int, name: str, instance: Instance, protocol: ExperimentProtocol) -> PlanRow:
            def shown(done: int) -> None:
                if progress is not None:
                    progress(place * runs + done, total)

            problem = Problem(instance.shape, instance.family, find(name).criteria([risks]), epsilons)
            return _simulate_protocol(instance, name, problem, protocol, runs, seed, budget, shown)

        rows = [row_of(i, name, instance, protocol) for i, name in enumerate(names)]
        if rare is not None:
            first = min(rows, key=lambda each: (each.median, each.mean))
            found = row_of(len(names), first.policy, *without_task(instance, protocol, rare))
            trials = round(found.median / (1 - protocol.shares[rare]))
            if trials < BOTTLENECK_RATIO * first.median:
                bottleneck = Bottleneck(instance.tasks[rare], protocol.shares[rare], trials)
    in_order = tuple(sorted(rows, key=lambda each: (each.median, each.mean)))
    return Plan(instance, bound, in_order, budget, risks, tolerances, protocol, limits, bottleneck, never)


def scale_gaps(instance: Instance, gaps: float) -> Instance:
    """Return the instance with every arm ``gaps`` times as far below the best one of its task."""
    if gaps == 1:
        return instance
    if isinstance(gaps, bool) or not 0 < gaps < 1e6:
        raise OsrlError(f"gaps is {gaps}; give a positive number, such as 0.5 for half of them")
    best = instance.means.max(axis=(1, 2), keepdims=True)
    return replace(instance, means=best - gaps * (best - instance.means))


def _policy_names(policy: str | Sequence[str] | None, tolerant: bool) -> list[str]:
    """Return the policies that are asked for."""
    if policy is None:
        return [DEFAULT_POLICY]
    names = [policy] if isinstance(policy, str) else list(policy)
    if names == ["all"]:
        return list(TOLERANT_POLICIES if tolerant else PROVED_POLICIES)
    for name in names:
        find(name)
    return names


def _simulate(
    instance: Instance,
    names: Sequence[str],
    risks: tuple[float, float],
    epsilons: tuple[float, float],
    runs: int,
    seed: int,
    budget: int,
    progress: Callable[[int, int], None] | None,
) -> list[PlanRow]:
    """Simulate experiments in which every result comes at once."""
    several = any(len(find(name).thresholds) > 1 for name in names)
    finished = simulate(
        instance,
        names,
        runs=runs,
        seed=seed,
        delta_g=risks[0],
        delta_h=risks[1],
        epsilon_g=epsilons[0],
        epsilon_h=epsilons[1],
        threshold=PROVED_THRESHOLDS if several else None,
        budget=budget,
        progress=progress,
    )
    return [
        _plan_row(str(name), str(stops), some["tau"].to_numpy(), some["verdict"] == "budget exhausted")
        for (name, stops), some in finished.frame.group_by("policy", "threshold", maintain_order=True)
    ]


def _simulate_protocol(
    instance: Instance,
    name: str,
    problem: Problem,
    protocol: ExperimentProtocol,
    runs: int,
    seed: int,
    budget: int,
    shown: Callable[[int], None],
) -> PlanRow:
    """Simulate experiments with losses, delays and tasks that arrive."""
    policy = find(name)
    if policy.stopping.forfeit is None or not policy.given_tasks:
        raise OsrlError(
            f"policy {name!r} cannot bear losses, delays and tasks that arrive; use {' or '.join(TOLERANT_POLICIES)}"
        )
    policy.check_tolerance(problem.criteria, problem.epsilon)
    compile_now()
    conditions = protocol.conditions
    each = np.array(protocol.costs or (1.0,) * len(instance.tasks))
    each = each.reshape(len(instance.tasks), -1)
    tau, cost, open_still = np.zeros(runs, np.int64), np.zeros(runs), np.zeros(runs, np.bool_)
    for run in range(runs):
        key = new_key(seed, run)
        course = new_experiment(policy.new(problem, uniform(key, START_LANE, 0)), instance, key, conditions)
        open_still[run] = not course.play(budget)
        tau[run] = course.handed_out
        pulls = course.state.stopping.pulls
        cost[run] = course.handed_out * (pulls * each).sum() / pulls.sum()
        shown(run + 1)
    found = _plan_row(name, policy.thresholds[0], tau, open_still)
    if not protocol.costs:
        return found
    middle, high = np.quantile(cost, QUANTILES[1:], method="inverted_cdf")
    return found._replace(cost=(float(middle), float(high)))


def _plan_row(policy: str, threshold: str, tau: Any, cut: Any) -> PlanRow:
    low, median, high = (int(q) for q in np.quantile(tau, QUANTILES, method="inverted_cdf"))
    return PlanRow(policy, threshold, low, median, high, float(tau.mean()), len(tau), int(cut.sum()))


def sweep(
    instance: Any,
    policy: str = DEFAULT_POLICY,
    *,
    risks: Sequence[float] = (0.01, 0.05, 0.1),
    tolerances: Sequence[float] = (0.0,),
    runs: int = DEFAULT_PLAN_RUNS,
    progress: Callable[[int, int], None] | None = None,
    **conditions: Any,
) -> list[Plan]:
    """Make a plan for every tolerance and risk, the same for representation and predictors.

    The other arguments are those of `plan`.
    """
    if not risks or not tolerances:
        raise OsrlError("a sweep needs at least one risk and one tolerance, such as 0.01,0.05,0.1")
    pairs = list(product(dict.fromkeys(tolerances), dict.fromkeys(risks)))
    plans = []
    for i, (epsilon, delta) in enumerate(pairs):

        def shown(done: int, total: int, before: int = i * runs) -> None:
            if progress is not None:
                progress(before + done * runs // total, runs * len(pairs))

        plans.append(plan(instance, policy, delta=delta, epsilon=epsilon, runs=runs, progress=shown, **conditions))
    return plans

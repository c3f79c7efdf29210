"""`plan`: before an experiment, how many trials to expect if the means are as guessed.

Losses, delays, batches and tasks that arrive are simulated as a study would have them
(`osrl.policies.conditions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from osrl.bounds import LowerBound, lower_bound
from osrl.contract import Problem, find
from osrl.draws import START, new_key, uniform
from osrl.errors import OsrlError
from osrl.instance import Given, Instance, read_instance
from osrl.policies.conditions import Conditions, new_course
from osrl.risks import read_risks, read_tolerances
from osrl.simulation.simulate import simulate
from osrl.way import compile_now

RUNS = 200
BUDGET = 10**6
DEFAULT = "osrl"
ALL = ("osrl", "osrl-sc", "tas", "tas-transfer", "uniform")  # those with a proof
TOLERANT = ("osrl", "uniform")  # those that may end within a tolerance, and take what an experiment brings
THRESHOLDS = ("sharp", "theorem")  # of the paper's algorithm: those with a proof
QUANTILES = (0.1, 0.5, 0.9)


class Life(NamedTuple):
    """What an experiment brings besides rewards, and how much its trials cost.

    A trial is lost with probability ``loss``, and counts by its worst reward; a result comes after ``delay``
    more trials, which are handed out ``batch`` at a time; ``shares`` are those of the tasks that arrive, and
    empty where the policy chooses. ``per_day``: trials in a day. ``costs``: of each task, or of each arm.
    """

    loss: float = 0.0
    delay: int = 0
    batch: int = 1
    shares: tuple[float, ...] = ()
    per_day: float | None = None
    costs: tuple[float, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether every result comes at once, in tasks that the policy chooses."""
        return not (self.loss or self.delay or self.shares or self.costs) and self.batch == 1


class Expected(NamedTuple):
    """What one policy needs: trials of an experiment. Those that were cut count with the budget."""

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
    """

    instance: Instance
    bound: LowerBound | None
    policies: tuple[Expected, ...]
    budget: int
    delta: tuple[float, float]  # of the representation, of each predictor
    epsilon: tuple[float, float]
    life: Life = Life()

    @property
    def least(self) -> float:
        """The trials that any policy needs on average; 0 where that is not known."""
        if self.bound is None:
            return 0.0
        within = self.bound.K_epsilon
        return self.bound.K.lower if within is None else within.lower


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
    runs: int = RUNS,
    seed: int = 0,
    budget: int = BUDGET,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Simulate an experiment with guessed means: how many trials it needs, beside the lower bound.

    ``delta`` is both risks; by default each is 0.1. ``epsilon`` is both tolerances, 0 by default. ``policy``
    is ``osrl`` unless another, several, or ``all`` with a proof are asked for. ``loss``, ``delay``,
    ``batch``, ``shares``, ``per_day`` and ``costs``: see `Life`. ``gaps``: every arm is so many times as far
    below the best one of its task as guessed. Experiments are cut after ``budget`` trials. The guarantee of a
    policy does not depend on the guess.
    """
    if isinstance(runs, bool) or runs < 20:
        raise OsrlError(f"runs is {runs}; quantiles need at least 20")
    instance = with_gaps(read_instance(instance), gaps)
    risks = read_risks(delta, delta_g, delta_h)
    epsilons = read_tolerances(epsilon, epsilon_g, epsilon_h)
    life = _read_life(instance, loss, delay, batch, shares, per_day, costs)
    names = _names(policy, tolerant=max(epsilons) > 0 or not life.plain)
    bound = None
    if instance.in_model_class or max(epsilons) == 0:
        bound = lower_bound(
            instance, delta_g=risks[0], delta_h=risks[1], epsilon_g=epsilons[0], epsilon_h=epsilons[1]
        )
    if life.plain:
        rows = _simulate(instance, names, risks, epsilons, runs, seed, budget, progress)
    else:
        rows = []
        for i, name in enumerate(names):
            so_far = i * runs

            def shown(done: int, so_far: int = so_far) -> None:
                if progress is not None:
                    progress(so_far + done, runs * len(names))

            problem = Problem(instance.shape, instance.family, find(name).criteria([risks]), epsilons)
            rows.append(_live(instance, name, problem, life, runs, seed, budget, shown))
    in_order = tuple(sorted(rows, key=lambda each: (each.median, each.mean)))
    return Plan(instance, bound, in_order, budget, risks, epsilons, life)


def with_gaps(instance: Instance, gaps: float) -> Instance:
    """The instance with every arm ``gaps`` times as far below the best one of its task."""
    if gaps == 1:
        return instance
    if isinstance(gaps, bool) or not 0 < gaps < 1e6:
        raise OsrlError(f"gaps is {gaps}; give a positive number, such as 0.5 for half of them")
    best = instance.means.max(axis=(1, 2), keepdims=True)
    return replace(instance, means=best - gaps * (best - instance.means))


def _names(policy: str | Sequence[str] | None, tolerant: bool) -> list[str]:
    """The policies that are asked for."""
    if policy is None:
        return [DEFAULT]
    names = [policy] if isinstance(policy, str) else list(policy)
    if names == ["all"]:
        return list(TOLERANT if tolerant else ALL)
    for name in names:
        find(name)
    return names


def _read_life(
    instance: Instance,
    loss: float,
    delay: int,
    batch: int,
    shares: Sequence[float],
    per_day: float | None,
    costs: Sequence[float],
) -> Life:
    X, n = len(instance.tasks), instance.means[0].size
    if not 0 <= loss < 1:
        raise OsrlError(f"loss is {loss}; give the share of trials that are lost, such as 0.05")
    if loss and instance.family.noise:
        raise OsrlError(
            "Gaussian rewards have no worst case, so a loss has to be ignorable; leave --loss out"
        )
    if delay < 0 or batch < 1:
        raise OsrlError(f"delay is {delay} and batch is {batch}; give whole numbers, 0 and 1 or more")
    if per_day is not None and not per_day > 0:
        raise OsrlError(f"per_day is {per_day}; give how many trials there are in a day")
    if (
        len(shares) not in (0, X)
        or any(not share >= 0 for share in shares)
        or (shares and not sum(shares) > 0)
    ):
        raise OsrlError(f"shares are {list(shares)}; give one for each of the {X} tasks, 0 or more")
    if len(costs) not in (0, X, X * n) or any(not cost >= 0 for cost in costs):
        raise OsrlError(
            f"costs are {list(costs)}; give one for each of the {X} tasks, or for each of all {X * n} arms"
        )
    total = sum(shares)
    return Life(loss, delay, batch, tuple(share / total for share in shares), per_day, tuple(costs))


def _simulate(
    instance: Instance,
    names: Sequence[str],
    risks: tuple[float, float],
    epsilons: tuple[float, float],
    runs: int,
    seed: int,
    budget: int,
    progress: Callable[[int, int], None] | None,
) -> list[Expected]:
    """Experiments in which every result comes at once."""
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
        threshold=THRESHOLDS if several else None,
        budget=budget,
        progress=progress,
    )
    return [
        _expected(str(name), str(stops), some["tau"].to_numpy(), some["verdict"] == "budget exhausted")
        for (name, stops), some in finished.frame.group_by("policy", "threshold", maintain_order=True)
    ]


def _live(
    instance: Instance,
    name: str,
    problem: Problem,
    life: Life,
    runs: int,
    seed: int,
    budget: int,
    shown: Callable[[int], None],
) -> Expected:
    """Experiments with losses, delays and tasks that arrive."""
    policy = find(name)
    if policy.stopping.forfeit is None or not policy.given_tasks:
        raise OsrlError(
            f"policy {name!r} cannot bear losses, delays and tasks that arrive; use {' or '.join(TOLERANT)}"
        )
    policy.check_tolerance(problem.criteria, problem.epsilon)
    compile_now()
    conditions = Conditions(np.array(life.shares, float), life.loss, 0.0, life.delay, life.batch)
    each = np.array(life.costs or (1.0,) * len(instance.tasks))
    each = each.reshape(len(instance.tasks), -1)
    tau, cost, open_still = np.zeros(runs, np.int64), np.zeros(runs), np.zeros(runs, np.bool_)
    for run in range(runs):
        key = new_key(seed, run)
        course = new_course(policy.new(problem, uniform(key, START, 0)), instance, key, conditions)
        open_still[run] = not course.play(budget)
        tau[run] = course.handed_out
        pulls = course.state.stopping.pulls
        cost[run] = course.handed_out * (pulls * each).sum() / pulls.sum()
        shown(run + 1)
    found = _expected(name, policy.thresholds[0], tau, open_still)
    if not life.costs:
        return found
    middle, high = np.quantile(cost, QUANTILES[1:], method="inverted_cdf")
    return found._replace(cost=(float(middle), float(high)))


def _expected(policy: str, threshold: str, tau: Any, cut: Any) -> Expected:
    low, median, high = (int(q) for q in np.quantile(tau, QUANTILES, method="inverted_cdf"))
    return Expected(policy, threshold, low, median, high, float(tau.mean()), len(tau), int(cut.sum()))

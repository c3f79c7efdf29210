"""The lower bound with a tolerance: how many samples any policy needs to give an answer that is good enough.

Let in task x the best arm c = (g*, h*) be the *only* answer within the tolerance. A policy that keeps its
risks gives it with probability 1 - delta_g - delta_h at least; and under a model in which c is too bad with
probability delta_h at most, if g* is the best representation of that model too, and delta_g otherwise. So

    sum_{x,a} E[N_{x,a}] kl(mu_{x,a}, lambda_{x,a}) >= k,   k = kl(1 - delta_g - delta_h, delta_h or delta_g)

for all such models. The closest ones have a best arm b, at level m in task x, the levels min(mu_a, m) of all
others but c, and min(mu_c, m - epsilon) for c. Where b = (g*, h), other tasks stay as they are; where b is
of another representation g, that one has a best arm in them too, which costs min_h ell(q; (g, h)) in each. If
z* is the largest minimum over allocations q of these costs, in parts of k, the bound is 1 / z*.

A task with *several* good answers contributes nothing here: for those only a limit for small risks is known
(Degenne and Koolen, 2019).

Kelley's cutting planes: every model is a linear constraint on (q, z), so the value of the linear program with
those found so far is at least z*, however well they were searched for. They are searched for halfway between
its solution and the best allocation so far: the solutions alone, corners of a polytope, oscillate.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from osrl.model.arrays import Flags, Floats
from osrl.model.families import divergence
from osrl.model.instance import Instance

MAX_CUT_ROUNDS = 60  # of cutting planes, at most
CUT_PRECISION = 1e-2  # relative width at which they end
HALVINGS = 60  # of the interval in which a level lies
MEAN_MARGIN = 1e-9  # means of coins stay so far inside (0, 1)


class WithinBound(NamedTuple):
    """An interval, lower <= the bound <= upper, for a tolerance; ``tasks`` are those with one good answer only.

    ``upper`` is as good as the search for models, ``lower`` is certain. Both are 0 where no task has one good
    answer only: then no bound is known.
    """

    epsilon_g: float
    epsilon_h: float
    lower: float
    upper: float
    tasks: tuple[int, ...]

    @property
    def known(self) -> bool:
        """Whether anything is known."""
        return bool(self.tasks)


def bound_within(instance: Instance, risks: tuple[float, float], epsilon: tuple[float, float]) -> WithinBound:
    """Return the lower bound for these risks and tolerances; its interval is wider where there are many arms.

    >>> found = bound_within(Instance.load("paper"), (0.1, 0.1), (0.02, 0.02))
    >>> found.lower < 1122.4 < found.upper, found.upper / found.lower < 1.011
    (True, True)
    """
    from scipy.optimize import linprog  # here: to load them takes longer than most bounds
    from scipy.sparse import csr_array, hstack, vstack

    tasks = tuple(x for x in range(len(instance.tasks)) if _has_one_answer(instance, x, epsilon))
    right = 1 - sum(risks)
    needs = [_need(right, risk) for risk in risks]
    if not tasks or min(needs) <= 0:
        return WithinBound(*epsilon, 0.0, 0.0, tasks if min(needs) > 0 else ())
    arms = instance.means.size
    q = best = np.full(arms, 1 / arms)
    cuts: list[Any] = []  # sparse: a model is like the instance in most arms
    least, most = 0.0, math.inf
    for _ in range(MAX_CUT_ROUNDS):
        models = _closest_models(instance, q, tasks, epsilon, needs)
        if float(models.cost.min()) > least:
            least, best = float(models.cost.min()), q
        if least >= (1 - CUT_PRECISION) * most:
            break
        for worst in np.argsort(models.cost, axis=None, kind="stable")[: 2 * len(tasks) + 4]:
            i, b = divmod(int(worst), models.cost.shape[1])
            if models.cost[i, b] < math.inf:
                cuts.append(csr_array(_cut(models, tasks[i], i, b)[None]))
        below: Any = hstack([-vstack(cuts), csr_array(np.ones((len(cuts), 1)))], format="csr")
        solved = linprog(
            np.append(np.zeros(arms), -1.0),
            A_ub=below,
            b_ub=np.zeros(len(cuts)),
            A_eq=np.append(np.ones(arms), 0.0)[None],
            b_eq=[1.0],
            method="highs",
        )
        assert solved.x is not None, solved.message
        q, most = 0.5 * (best + solved.x[:-1]), float(solved.x[-1])
    return WithinBound(*epsilon, 1 / most, 1 / least if least > 0 else math.inf, tasks)


def good_answers(instance: Instance, x: int, epsilon: tuple[float, float]) -> list[tuple[int, int]]:
    """Return the arms (g, h) of a task that may be answered: within the tolerance of the best one."""
    means, best = instance.means[x], instance.best
    top = means.max()
    epsilons = np.where(np.arange(len(means)) == best.representation, epsilon[1], epsilon[0])
    return [(int(g), int(h)) for g, h in np.argwhere(top - means <= epsilons[:, None] + 1e-12)]


def _has_one_answer(instance: Instance, x: int, epsilon: tuple[float, float]) -> bool:
    return len(good_answers(instance, x, epsilon)) == 1


def _need(right: float, risk: float) -> float:
    """Return the evidence that distinguishes events of these probabilities; 0 where the risks are too large."""
    return float(divergence(right, risk, 0.0)) if right > risk else 0.0


class _Models(NamedTuple):
    """The closest models in which the answer of a task is too bad: one for each of T tasks and each arm b.

    Rows are the information of a sample of each arm of one task. They are assembled for the few models that are
    used: all of them would take T X n^2 numbers.
    """

    cost: Floats  # (T, n) in parts of what is needed; infinite for the answer itself
    need: Floats  # (n,)
    here: Floats  # (T, n, n) rows of b in the task itself
    elsewhere: Floats  # (X, G, n) rows of the cheapest arm of each representation
    same: Flags  # (n,) whether b is of the best representation: then other tasks stay as they are


def _closest_models(
    instance: Instance, q: Floats, tasks: tuple[int, ...], epsilon: tuple[float, float], needs: list[float]
) -> _Models:
    """Find the closest models for ``q`` (X G H,) in which the answer of one of the ``tasks`` is too bad."""
    X, G, H = instance.shape
    noise, best = instance.family.noise, instance.best
    means, shares = instance.means.reshape(X, -1), q.reshape(X, -1)
    same = np.arange(G * H) // H == best.representation
    need = np.where(same, needs[1], needs[0])
    elsewhere, price = np.empty((X, G, G * H)), np.empty((X, G))
    for z in range(X):
        rows = _closest(means[z], shares[z], -1, np.zeros(G * H), noise)
        costs = (shares[z] * rows).sum(axis=1).reshape(G, H)
        elsewhere[z] = rows[np.arange(G) * H + costs.argmin(axis=1)]
        price[z] = costs.min(axis=1)
    here, cost = np.empty((len(tasks), G * H, G * H)), np.empty((len(tasks), G * H))
    for i, x in enumerate(tasks):
        c = best.representation * H + best.predictors[x]
        here[i] = _closest(means[x], shares[x], c, np.where(same, epsilon[1], epsilon[0]), noise)
        others = np.repeat(price.sum(axis=0) - price[x], H)
        cost[i] = ((shares[x] * here[i]).sum(axis=1) + np.where(same, 0.0, others)) / need
        cost[i, c] = math.inf
    return _Models(cost, need, here, elsewhere, same)


def _cut(models: _Models, x: int, i: int, b: int) -> Floats:
    """Return the information of a sample of each arm (X n,) about the model of b in task ``x``, in units of need."""
    X, G, n = models.elsewhere.shape
    cut = np.zeros((X, n)) if models.same[b] else models.elsewhere[:, b // (n // G)].copy()
    cut[x] = models.here[i, b]
    flat: Floats = cut.ravel() / models.need[b]
    return flat


def _closest(mu: Floats, q: Floats, c: int, epsilon: Floats, noise: float) -> Floats:
    """Return kl(mu_a, level of a), for each b (rows), in the closest model with b the best and c worse by epsilon_b.

    The level of b is found by halving: the slope of the cost in it is sum q (level - mu) / variance.
    """
    n = mu.size
    low = np.maximum(mu, epsilon + MEAN_MARGIN) if noise == 0 else mu.copy()
    high = np.full(n, 1 - MEAN_MARGIN) if noise == 0 else np.full(n, mu.max() + epsilon.max() + 1.0)
    order = np.argsort(mu)
    above = np.zeros((2, n + 1))  # sums of q and q mu over the arms from a place of the order on
    above[:, :-1] = np.cumsum(np.stack([q, q * mu])[:, order[::-1]], axis=1)[:, ::-1]

    def inside(level: Floats) -> Floats:
        return np.clip(level, MEAN_MARGIN, 1 - MEAN_MARGIN) if noise == 0 else level

    def spread(level: Floats) -> Floats:
        return level * (1 - level) if noise == 0 else np.full_like(level, noise)

    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        m = inside(middle)
        share, total = above[:, np.searchsorted(mu[order], m, side="right")]
        slope = (q * (m - mu) + m * share - total) / spread(m)
        if c >= 0:
            level = inside(np.minimum(mu[c], m - epsilon))
            slope += q[c] * (level - mu[c]) / spread(level) - q[c] * np.minimum(m - mu[c], 0.0) / spread(m)
        high = np.where(slope > 0, middle, high)
        low = np.where(slope > 0, low, middle)
    m = 0.5 * (low + high)
    levels = np.minimum(mu, m[:, None])
    if c >= 0:
        levels[:, c] = np.minimum(mu[c], m - epsilon)
    np.fill_diagonal(levels, m)
    levels = inside(levels)
    if noise > 0:
        return (mu - levels) ** 2 / (2 * noise)
    return _coins(np.broadcast_to(mu, levels.shape), levels)


def _coins(p: Floats, q: Floats) -> Floats:
    """Return kl(p, q) of coins, entry by entry."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ones = np.where(p > 0, p * np.log(p / q), 0.0)
        zeros = np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0.0)
    total: Floats = ones + zeros
    return total

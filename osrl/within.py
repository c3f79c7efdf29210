"""The lower bound with a tolerance: how many samples any policy needs to give an answer that is good enough.

Let in task x the best arm c = (g*, h*) be the *only* answer within the tolerance. A policy that keeps its
risks gives it with probability 1 - delta_g - delta_h at least; and under a model in which c is too bad with
probability delta_h at most, if g* is the best representation of that model too, and delta_g otherwise. So

    sum_{x,a} E[N_{x,a}] kl(mu_{x,a}, lambda_{x,a}) >= k,   k = kl(1 - delta_g - delta_h, delta_h or delta_g)

for all such models. The closest ones have a best arm b, at level m in task x, the levels min(mu_a, m) of all
others but c, and min(mu_c, m - epsilon) for c. Where b = (g*, h), other tasks stay as they are; where b is
of another representation g, that one has a best arm in them too, which costs min_h ell(q; (g, h)) in each. If
z* is the largest minimum over allocations q of these costs, in parts of k, the bound is 1 / z*.

A task with *several* good answers says nothing here: for those only a limit for small risks is known
(Degenne and Koolen, 2019).

Kelley's cutting planes: every model is a linear constraint on (q, z), so the value of the linear program with
those found so far is at least z*, however well they were searched for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.arrays import Floats
from osrl.families import divergence
from osrl.instance import Instance

ROUNDS = 60  # of cutting planes, at most
PRECISE = 1e-2  # relative width at which they end
HALVINGS = 60  # of the interval in which a level lies
EDGE = 1e-9  # means of coins stay so far inside (0, 1)


class WithinBound(NamedTuple):
    """lower <= the bound <= upper, for a tolerance; ``tasks`` are those with one good answer only.

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
    """The lower bound for these risks and tolerances; its interval is wider where there are many arms.

    >>> found = bound_within(Instance.load("paper"), (0.1, 0.1), (0.02, 0.02))
    >>> found.lower < 1122.4 < found.upper, found.upper / found.lower < 1.011
    (True, True)
    """
    from scipy.optimize import linprog  # here: to load it takes longer than most bounds

    tasks = tuple(x for x in range(len(instance.tasks)) if _has_one_answer(instance, x, epsilon))
    right = 1 - sum(risks)
    needs = [_need(right, risk) for risk in risks]
    if not tasks or min(needs) <= 0:
        return WithinBound(*epsilon, 0.0, 0.0, tasks if min(needs) > 0 else ())
    arms = instance.means.size
    q = np.full(arms, 1 / arms)
    cuts: list[Floats] = []
    least, most = 0.0, math.inf
    for _ in range(ROUNDS):
        models = [cut for x in tasks for cut in _models(instance, q, x, epsilon, needs)]
        least = max(least, min(float(q @ cut) for cut in models))
        if least >= (1 - PRECISE) * most:
            break
        cuts += sorted(models, key=lambda cut: float(q @ cut))[: 2 * len(tasks) + 4]
        solved = linprog(
            np.append(np.zeros(arms), -1.0),
            A_ub=np.column_stack([-np.array(cuts), np.ones(len(cuts))]),
            b_ub=np.zeros(len(cuts)),
            A_eq=np.append(np.ones(arms), 0.0)[None],
            b_eq=[1.0],
            method="highs",
        )
        assert solved.x is not None, solved.message
        q, most = solved.x[:-1], float(solved.x[-1])
    return WithinBound(*epsilon, 1 / most, 1 / least if least > 0 else math.inf, tasks)


def good_answers(instance: Instance, x: int, epsilon: tuple[float, float]) -> list[tuple[int, int]]:
    """The arms (g, h) of a task that may be answered: not worse than the best by more than the tolerance."""
    means, best = instance.means[x], instance.best
    top = means.max()
    epsilons = np.where(np.arange(len(means)) == best.representation, epsilon[1], epsilon[0])
    return [(int(g), int(h)) for g, h in np.argwhere(top - means <= epsilons[:, None] + 1e-12)]


def _has_one_answer(instance: Instance, x: int, epsilon: tuple[float, float]) -> bool:
    return len(good_answers(instance, x, epsilon)) == 1


def _need(right: float, risk: float) -> float:
    """The evidence that tells events of these probabilities apart; none where the risks are too large."""
    return float(divergence(right, risk, 0.0)) if right > risk else 0.0


def _models(
    instance: Instance, q: Floats, x: int, epsilon: tuple[float, float], needs: list[float]
) -> list[Floats]:
    """The closest models for ``q`` (X G H,) in which the answer of task ``x`` is too bad, one for each b.

    As what a sample of each arm tells of them, in parts of what is needed.
    """
    X, G, H = instance.shape
    noise, best = instance.family.noise, instance.best
    means, shares = instance.means.reshape(X, -1), q.reshape(X, -1)
    c = best.representation * H + best.predictors[x]
    least = [_closest(means[z], shares[z], -1, np.zeros(G * H), noise) for z in range(X)]
    others = [(shares[z] * least[z]).sum(axis=1).reshape(G, H).argmin(axis=1) for z in range(X)]
    same = np.arange(G * H) // H == best.representation
    shifted = _closest(means[x], shares[x], c, np.where(same, epsilon[1], epsilon[0]), noise)
    cuts = []
    for b in range(G * H):
        if b != c:
            cut = np.zeros((X, G * H))
            if not same[b]:
                for z in range(X):
                    cut[z] = least[z][b // H * H + others[z][b // H]]
            cut[x] = shifted[b]
            cuts.append(cut.ravel() / needs[1 if same[b] else 0])
    return cuts


def _closest(mu: Floats, q: Floats, c: int, epsilon: Floats, noise: float) -> Floats:
    """For each b (rows) kl(mu_a, level of a) in the closest model in which b is best, c worse by epsilon_b.

    The level of b is found by halving: the slope of the cost in it is sum q (level - mu) / variance.
    """
    n = mu.size
    shift = np.zeros((n, n))
    if c >= 0:
        shift[:, c] = epsilon
    low = np.maximum(mu, epsilon + EDGE) if noise == 0 else mu.copy()
    high = np.full(n, 1 - EDGE) if noise == 0 else np.full(n, mu.max() + epsilon.max() + 1.0)
    own = np.eye(n, dtype=bool)

    def levels(m: Floats) -> Floats:
        level = np.where(own, m[:, None], np.minimum(mu, m[:, None] - shift))
        return np.clip(level, EDGE, 1 - EDGE) if noise == 0 else level

    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        level = levels(middle)
        spread = level * (1 - level) if noise == 0 else np.full_like(level, noise)
        slope = (q * (level - mu) / spread).sum(axis=1)
        high = np.where(slope > 0, middle, high)
        low = np.where(slope > 0, low, middle)
    level = levels(0.5 * (low + high))
    if noise > 0:
        return (mu - level) ** 2 / (2 * noise)
    return _coins(np.broadcast_to(mu, level.shape), level)


def _coins(p: Floats, q: Floats) -> Floats:
    """kl(p, q) of coins, entry by entry."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ones = np.where(p > 0, p * np.log(p / q), 0.0)
        zeros = np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0.0)
    total: Floats = ones + zeros
    return total

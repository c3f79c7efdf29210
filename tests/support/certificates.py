"""Check an allocation from its witness alone: plain numpy, by the definition, without the solver."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from osrl.allocation import Allocation, Needs
from osrl.model.instance import Instance
from tests.oracle import bounds as oracle_bounds
from tests.oracle import paper as oracle
from tests.support.instances import Array


class Terms(NamedTuple):
    """What an allocation may spend: prices, frequencies of the tasks (or one budget), regulariser."""

    costs: Array | None = None
    frequencies: list[float] | None = None
    sigma: float | None = None


PLAIN = Terms()


def kl(a: Array, b: Array, noise: float) -> Array:
    """Return the divergence between means, elementwise; ``b`` lies strictly inside the range of the family."""
    if noise > 0:
        return np.asarray((a - b) ** 2 / (2 * noise))
    with np.errstate(divide="ignore", invalid="ignore"):
        success = np.where(a > 0, a * np.log1p((a - b) / b), 0.0)
        failure = np.where(a < 1, (1 - a) * np.log1p((b - a) / (1 - b)), 0.0)
    return np.asarray(success + failure)


def slope_of_witness(instance: Instance, needs: Needs, found: Allocation) -> Array:
    """Return the c of THEORY section 3: every allocation q has an objective of at most c.q."""
    best = instance.best
    X, G, H = instance.shape
    mu = instance.means.reshape(X, G * H)
    weight, level = (part.reshape(X, G * H) for part in found.witness)
    tested = weight > 0
    assert (weight >= 0).all() and np.isfinite(level[tested]).all()
    x, b = np.nonzero(tested)
    m = level[x, b]
    pool = mu[x] > m[:, None]
    if not needs.pooled:
        leader = np.array(best.predictors)[x] + best.representation * H
        two_arms = b // H == best.representation
        pool[two_arms] = np.arange(G * H) == leader[two_arms, None]
    pool[np.arange(b.size), b] = True
    moved = np.where(pool, kl(mu[x], m[:, None], instance.family.noise), 0.0)
    c = np.zeros((X, G * H))
    np.add.at(c, x, weight[x, b, None] * moved)
    return c.reshape(instance.shape)


def check_normalisation(instance: Instance, needs: Needs, found: Allocation) -> None:
    """Check that each representation weighs the same in every task, and that needs times weights sum to one."""
    best = instance.best
    by_task = found.witness.weights.sum(axis=2)
    omega = by_task[0].copy()
    omega[best.representation] = 0.0
    others = np.arange(instance.shape[1]) != best.representation
    np.testing.assert_allclose(by_task[:, others], np.tile(omega[others], (instance.shape[0], 1)), rtol=1e-9)
    phi = found.witness.weights[:, best.representation, :]
    total = (omega * needs.representations).sum() + (phi * needs.predictors).sum()
    assert abs(total - 1) < 1e-9


def most(c: Array, terms: Terms) -> float:
    """Return the maximum of c.q - |q|^2 / (2 sigma) over all allocations of the same budget."""
    if terms.frequencies is not None:
        tasks = zip(c, terms.frequencies, strict=True)
        return math.fsum(_most_of(part.ravel(), np.ones(part.size), share, terms.sigma) for part, share in tasks)
    price = np.ones(c.size) if terms.costs is None else np.ravel(terms.costs)
    return _most_of(c.ravel(), price, 1.0, terms.sigma)


def _most_of(c: Array, price: Array, budget: float, sigma: float | None) -> float:
    if sigma is None:
        return budget * float((c / price).max())

    def best(nu: float) -> Array:
        return np.asarray(sigma * np.maximum(c - nu * price, 0.0))

    low = float((c / price).min()) - budget / (sigma * float(price.min()) ** 2)
    nu = brentq(lambda nu: float(price @ best(nu)) - budget, low, float((c / price).max()), xtol=1e-300, rtol=1e-15)
    q = best(nu) * budget / (price @ best(nu))
    return float(c @ q - q @ q / (2 * sigma))


def spent(found: Allocation, terms: Terms) -> Array:
    """Return what the weights spend: of one budget, or in each task."""
    if terms.frequencies is not None:
        return np.asarray(found.weights.sum(axis=(1, 2)) / terms.frequencies)
    return np.array([(found.weights * (1.0 if terms.costs is None else terms.costs)).sum()])


def reached(instance: Instance, needs: Needs, weights: Array, sigma: float | None = None) -> float:
    """Return the objective at ``weights``, by the oracle."""
    best = instance.best
    means, noise = instance.means, instance.family.noise
    need_h = np.zeros_like(needs.predictors) if needs.pooled else needs.predictors
    value = oracle_bounds.objective(
        weights, means, noise, needs.representations, need_h, best.representation, best.predictors
    )
    if needs.pooled:
        for x, h in np.argwhere(needs.predictors > 0):
            if h != best.predictors[x]:
                cost = oracle.ell(weights, means, x, best.representation, h, noise)
                value = min(value, cost / needs.predictors[x, h])
    return value - (0.0 if sigma is None else float((weights**2).sum()) / (2 * sigma))


def check(instance: Instance, needs: Needs, found: Allocation, terms: Terms = PLAIN, slow: bool = True) -> None:
    """Check all that an allocation promises; with ``slow``, measure the weights with the oracle too."""
    assert found.lower <= found.upper
    assert (found.weights >= 0).all()
    np.testing.assert_allclose(spent(found, terms), 1.0, rtol=1e-9)
    check_normalisation(instance, needs, found)
    proved = most(slope_of_witness(instance, needs, found), terms)
    assert abs(proved - found.upper) <= 1e-9 * abs(found.upper), (proved, found.upper)
    if slow:
        value = reached(instance, needs, found.weights, terms.sigma)
        assert abs(value - found.lower) <= 1e-9 * abs(found.lower), (value, found.lower)

"""The paper's programs and lower bounds, transcribed literally and slowly (see `tests.oracle.paper`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import brentq, linprog, minimize_scalar

from tests.oracle.paper import (
    Arm,
    Array,
    arms_of,
    best_arms,
    confusing_arms,
    ell,
    f,
    kl,
    pooled_mean,
    representation_cost,
    two_arm_cost,
)


def objective(
    weights: Array,
    means: Array,
    noise: float,
    need_g: Array,
    need_h: Array,
    gstar: int,
    hstar: Sequence[int],
    pooled: bool = False,
) -> float:
    """Return the least evidence of an allocation, each test measured in units of its need.

    min( min_{gbar != g*} sum_x min_h ell / need_g[gbar], min_{x, h != h*_x} f / need_h[x, h] );
    a test whose need is 0 is left out. Phase 1: need_h = 0. Phase 2: need_g = 0. No test: infinity.
    With ``pooled`` the predictor tests have ell in place of f: their alternatives stay in M.
    """

    def against(x: int, h: int) -> float:
        if pooled:
            return ell(weights, means, x, gstar, h, noise)
        return f(weights, means, x, h, gstar, hstar[x], noise)

    X, G, H = means.shape
    ratios = [
        representation_cost(weights, means, g, noise).value / need_g[g]
        for g in range(G)
        if g != gstar and need_g[g] > 0.0
    ]
    ratios += [against(x, h) / need_h[x, h] for x in range(X) for h in range(H) if h != hstar[x] and need_h[x, h] > 0.0]
    return float(min(ratios, default=math.inf))


def cut(means: Array, x: int, arms: Iterable[Arm], bar: Arm, level: float, noise: float) -> Array:
    """Return the linear function of q, flattened, that the evidence against ``bar`` never exceeds.

    Moving ``bar``, and those of ``arms`` with a mean above ``level``, to ``level`` gives a confusing
    model; its cost sum_a q_a kl(mu_a, level) bounds the infimum for every q.
    """
    slope = np.zeros(means.shape)
    for arm in {arm for arm in arms if means[x][arm] > level} | {bar}:
        slope[x][arm] = kl(means[x][arm], level, noise)
    return slope.ravel()


def cutting_planes(
    means: Array,
    noise: float,
    need_g: Array,
    need_h: Array,
    gstar: int,
    hstar: Sequence[int],
    tolerance: float = 1e-6,
    max_rounds: int = 200,
    pooled: bool = False,
) -> tuple[Array, float, float]:
    """Return the best allocation by Kelley's cutting planes: (weights, lower, upper) around the best objective.

    Each round solves the linear program  max z  over q in the simplex, p[x, g] >= 0 and z >= 0 with
        need_g[g] z <= sum_x p[x, g],   p[x, g] <= cut(q),   need_h[x, h] z <= cut(q),
    and adds one cut for each (x, g, h), until (upper - lower) / lower <= tolerance. The program's
    value is the upper bound (up to the solver's tolerance, 1e-10); ``lower`` is the objective of
    ``weights``. Cuts are taken at the program's solution, with a trace of the uniform allocation that
    keeps every pooled mean defined.
    """
    X, G, H = means.shape
    n = means.size
    z = n + X * G  # columns: q, then p[x, g], then z
    rivals = [g for g in range(G) if g != gstar and need_g[g] > 0.0]
    tests = [(x, h) for x in range(X) for h in range(H) if h != hstar[x] and need_h[x, h] > 0.0]
    uniform = np.full(means.shape, 1.0 / n)

    def value(q: Array) -> float:
        return objective(q, means, noise, need_g, need_h, gstar, hstar, pooled)

    best, lower, upper = uniform, value(uniform), math.inf
    if not rivals and not tests:
        return best, math.inf, math.inf
    scale = lower  # brings z near 1, so that the solver's absolute tolerances are relative ones

    def row(slope: Array, column: int, coefficient: float) -> Array:
        out = np.zeros(z + 1)
        out[:n] = -slope / scale
        out[column] = coefficient
        return out

    def cuts(q: Array) -> list[Array]:
        rows = []
        for x, g, h in itertools.product(range(X), rivals, range(H)):
            level = pooled_mean(q, means, x, confusing_arms(q, means, x, (g, h)))
            rows.append(row(cut(means, x, arms_of(means), (g, h), level, noise), n + x * G + g, 1.0))
        for x, h in tests:
            pair = {(gstar, hstar[x]), (gstar, h)}
            level = pooled_mean(q, means, x, confusing_arms(q, means, x, (gstar, h)) if pooled else pair)
            arms = set(arms_of(means)) if pooled else pair
            rows.append(row(cut(means, x, arms, (gstar, h), level, noise), z, need_h[x, h]))
        return rows

    rows = cuts(uniform)
    for g in rivals:
        rows.append(row(np.zeros(n), z, need_g[g]))
        rows[-1][n + g : z : G] = -1.0
    simplex = (np.arange(z + 1) < n).astype(float)[None, :]
    for _ in range(max_rounds):
        solved = linprog(
            -(np.arange(z + 1) == z).astype(float),
            A_ub=np.array(rows),
            b_ub=np.zeros(len(rows)),
            A_eq=simplex,
            b_eq=[1.0],
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        assert solved.x is not None and solved.fun is not None, solved.message
        upper = min(upper, -solved.fun * scale)
        tip = np.maximum(solved.x[:n], 0.0).reshape(means.shape)
        point = (1.0 - 1e-12) * tip / tip.sum() + 1e-12 * uniform
        if value(point) > lower:
            lower, best = value(point), point
        if upper - lower <= tolerance * lower:
            break
        rows += cuts(point)
    return best, lower, upper


def lower_bounds(
    means: Array, delta_g: float, delta_h: float, noise: float = 0.0, tolerance: float = 1e-6
) -> dict[str, tuple[float, float]]:
    """Return K_G*, K_H* and K* (Theorem 1, Proposition 1), each between two numbers, for a system in M; and K_sharp.

    The smallest budget that meets the constraints is 1 / (the largest objective of an allocation).
    """
    best = best_arms(means)
    assert best is not None, "the bounds are defined in the class M only"
    X, G, H = means.shape
    k_g, k_h = kl(delta_g, 1.0 - delta_g), kl(delta_h, 1.0 - delta_h)
    bounds = {}
    right = 1.0 - delta_g - delta_h
    sharp_g = (1.0 - delta_g) * math.log((1.0 - delta_g) / delta_g)
    sharp_h = right * math.log(right / delta_h)
    programs = [("K_G", k_g, 0.0), ("K_H", 0.0, k_h), ("K", k_g, k_h), ("K_sharp", sharp_g, sharp_h)]
    for name, a, b in programs:
        needs = np.full(G, a), np.full((X, H), b)
        pooled = name == "K_sharp"
        _, lower, upper = cutting_planes(means, noise, *needs, best.g, best.h, tolerance, pooled=pooled)
        bounds[name] = (1.0 / upper, 1.0 / lower)
    return bounds


def characteristic_time(top: float, others: Sequence[float], noise: float = 0.0) -> tuple[float, Array]:
    """Return (T*, w*): the least budget that brings ``two_arm_cost`` against every other arm to 1.

    The budget of the best arm, n1, fixes the least budget of each other one; what is left is to
    minimise a convex function of n1. Below 1 / kl(top, other) no budget of the other arm suffices.
    """
    if not others:
        return 0.0, np.ones(1)

    def least(n1: float, other: float) -> float:
        def missing(n2: float) -> float:
            return two_arm_cost(n1, top, n2, other, noise) - 1.0

        high = n1
        while missing(high) < 0.0:
            high *= 2.0
        return float(brentq(missing, 0.0, high, xtol=1e-13 * high, rtol=1e-15))

    def budgets(s: float) -> list[float]:
        n1 = max(1.0 / kl(top, other, noise) for other in others) / s
        return [n1, *(least(n1, other) for other in others)]

    found = minimize_scalar(
        lambda s: sum(budgets(s)), bounds=(1e-6, 1.0 - 1e-6), method="bounded", options={"xatol": 1e-10}
    )
    eta = np.array(budgets(found.x))
    return float(eta.sum()), eta / eta.sum()


def proposition_2(means: Array, delta_g: float, noise: float = 0.0) -> tuple[float, dict[int, int]]:
    """Return (L_G*, {gbar: task}): the upper bound of K_G*, by trying every assignment of gbar to tasks."""
    best = best_arms(means)
    assert best is not None, "L_G is defined in the class M only"
    X, G, _ = means.shape
    rivals = [g for g in range(G) if g != best.g]

    def total(tasks: Sequence[int]) -> float:
        time = 0.0
        for x in range(X):
            others = [mu for g, task in zip(rivals, tasks, strict=True) if task == x for mu in means[x, g]]
            time += characteristic_time(means[x, best.g, best.h[x]], others, noise)[0]
        return time

    least = min(itertools.product(range(X), repeat=len(rivals)), key=total)
    return total(least) * kl(delta_g, 1.0 - delta_g), dict(zip(rivals, least, strict=True))

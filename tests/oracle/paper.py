"""The paper, transcribed literally and slowly: what every kernel of the package is compared with.

Nothing here is imported from ``osrl``. Sets are Python sets, loops are loops, optimisation is
scipy's. Arrays are ``means[x, g, h]`` and ``weights[x, g, h]`` (``eta``, ``q`` or ``N_t`` of the
paper); ``noise`` is the variance of Gaussian rewards, or 0.0 for Bernoulli ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, brentq, minimize, minimize_scalar

Array = NDArray[np.float64]
Arm = tuple[int, int]

PAPER = np.array(
    [
        [[0.50, 0.45], [0.35, 0.33], [0.10, 0.05]],
        [[0.50, 0.45], [0.10, 0.05], [0.35, 0.33]],
    ]
)


# Model ------------------------------------------------------------------------------------------


def kl(a: float, b: float, noise: float = 0.0) -> float:
    """Return the divergence between rewards of means ``a`` and ``b``."""
    if noise > 0.0:
        return (a - b) ** 2 / (2.0 * noise)
    if a == b:
        return 0.0
    if b <= 0.0 or b >= 1.0:
        return math.inf
    success = a * math.log(a / b) if a > 0.0 else 0.0
    failure = (1.0 - a) * math.log((1.0 - a) / (1.0 - b)) if a < 1.0 else 0.0
    return success + failure


class Best(NamedTuple):
    """g* and, for each task, h*_x."""

    g: int
    h: tuple[int, ...]


def arms_of(means: Array) -> list[Arm]:
    """Return all arms (g, h) of a task."""
    return list(itertools.product(range(means.shape[1]), range(means.shape[2])))


def best_arms(means: Array) -> Best | None:
    """Return the best arms of a system of the class M, or None outside M (eq. 1)."""
    found = []
    for x in range(means.shape[0]):
        top = means[x].max()
        tops = [arm for arm in arms_of(means) if means[x][arm] == top]
        if len(tops) > 1:
            return None
        found.append(tops[0])
    if len({g for g, _ in found}) > 1:
        return None
    return Best(found[0][0], tuple(h for _, h in found))


def in_class(means: Array) -> bool:
    """Tell whether all tasks have one best arm each, with the same representation."""
    return best_arms(means) is not None


# The cost of a confusing model --------------------------------------------------------------------


def neighbours(means: Array, x: int, arm: Arm, bar: Arm) -> set[Arm]:
    """Return N_{x,g,h; gbar,hbar}: the arms at least as good as ``arm``, and ``bar``."""
    return {other for other in arms_of(means) if means[x][other] >= means[x][arm]} | {bar}


def pooled_mean(weights: Array, means: Array, x: int, arms: Iterable[Arm]) -> float:
    """Return m(x, eta, C), the weighted mean over ``arms``; NaN (0/0) where none of them was sampled."""
    arms = list(arms)
    total = math.fsum(weights[x][arm] for arm in arms)
    if total == 0.0:
        return math.nan
    return math.fsum(weights[x][arm] * means[x][arm] for arm in arms) / total


def confusing_arms(weights: Array, means: Array, x: int, bar: Arm) -> set[Arm]:
    """Return U_{x,gbar,hbar}: the arms that the closest confusing model moves to one common mean.

    The printed rule mu(x,g,h) >= m(x, eta, N) is 0/0 when no arm of N was sampled. Such an arm was
    not sampled itself (it belongs to its own N), so it changes neither the pooled mean nor the
    cost: we keep it, which is what ``not <`` does with a NaN.
    """
    pool = {
        arm
        for arm in arms_of(means)
        if not means[x][arm] < pooled_mean(weights, means, x, neighbours(means, x, arm, bar))
    }
    return pool | {bar}


def ell(weights: Array, means: Array, x: int, gbar: int, hbar: int, noise: float = 0.0) -> float:
    """Return ell_mu(eta, gbar, hbar_x): the evidence of task x against (gbar, hbar), by the printed set U.

    Arms without samples cost nothing, also where their divergence is infinite.
    """
    pool = confusing_arms(weights, means, x, (gbar, hbar))
    m = pooled_mean(weights, means, x, pool)
    sampled = [arm for arm in pool if weights[x][arm] > 0.0]
    return math.fsum(weights[x][arm] * kl(means[x][arm], m, noise) for arm in sampled)


def ell_by_level(weights: Array, means: Array, x: int, gbar: int, hbar: int, noise: float = 0.0) -> float:
    """Return ell as the best common level: inf_m q_b kl(mu_b, m) + sum_{a: mu_a > m} q_a kl(mu_a, m)."""
    bar = (gbar, hbar)

    def cost(level: float) -> float:
        moved = {arm for arm in arms_of(means) if means[x][arm] > level} | {bar}
        return math.fsum(weights[x][a] * kl(means[x][a], level, noise) for a in moved if weights[x][a] > 0.0)

    low, high = float(means[x][bar]), float(means[x].max())
    inner = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-13})
    return min(cost(low), cost(high), float(inner.fun))


def ell_by_infimum(weights: Array, means: Array, x: int, gbar: int, hbar: int, noise: float = 0.0) -> float:
    """Return ell by its definition, over all models of the task (means strictly inside the family's range).

    inf { sum_a eta_a kl(mu_a, lambda_a) : lambda_bar >= lambda_a for all a }.
    """
    mu, eta = means[x].ravel(), weights[x].ravel()
    scale = float(eta.sum())
    b = gbar * means.shape[2] + hbar

    def cost(model: Array) -> float:
        moves = zip(eta, mu, model, strict=True)
        return math.fsum(n * kl(a, c, noise) for n, a, c in moves if n > 0.0) / scale

    def slope(model: Array) -> Array:
        variance = noise if noise > 0.0 else model * (1.0 - model)
        return np.asarray(eta * (model - mu) / variance / scale, dtype=np.float64)

    unit = np.eye(len(mu))
    found = minimize(
        cost,
        np.where(unit[b] == 1.0, mu.max(), mu),
        jac=slope,
        bounds=[(mu.min(), mu.max())] * len(mu),
        constraints=LinearConstraint(unit[b] - unit, 0.0, math.inf),
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return scale * float(found.fun)


def ell_gradient(
    weights: Array, means: Array, x: int, gbar: int, hbar: int, noise: float = 0.0, step: float = 1e-6
) -> Array:
    """Return d ell / d eta(x, ., .), shape (G, H), by central differences (weights above ``step``)."""
    gradient = np.zeros(means.shape[1:])
    for arm in arms_of(means):
        up, down = weights.copy(), weights.copy()
        up[x][arm] += step
        down[x][arm] -= step
        rise = ell(up, means, x, gbar, hbar, noise) - ell(down, means, x, gbar, hbar, noise)
        gradient[arm] = rise / (2.0 * step)
    return gradient


def jensen_shannon(alpha: float, a: float, b: float, noise: float = 0.0) -> float:
    """Return I_alpha(a, b) = alpha kl(a, d) + (1 - alpha) kl(b, d), with d = alpha a + (1 - alpha) b."""
    d = alpha * a + (1.0 - alpha) * b
    first = alpha * kl(a, d, noise) if alpha > 0.0 else 0.0
    second = (1.0 - alpha) * kl(b, d, noise) if alpha < 1.0 else 0.0
    return first + second


def two_arm_cost(n1: float, mu1: float, n2: float, mu2: float, noise: float = 0.0) -> float:
    """Return (n1 + n2) I_alpha(mu1, mu2) with alpha = n1 / (n1 + n2); 0 without samples."""
    if n1 + n2 == 0.0:
        return 0.0
    return (n1 + n2) * jensen_shannon(n1 / (n1 + n2), mu1, mu2, noise)


def f(weights: Array, means: Array, x: int, h: int, gstar: int, hstar: int, noise: float = 0.0) -> float:
    """Return f_mu(eta, x, h): the evidence of task x against predictor h, beside h* under g*."""
    one, two = (x, gstar, hstar), (x, gstar, h)
    return two_arm_cost(weights[one], means[one], weights[two], means[two], noise)


class Rival(NamedTuple):
    """Psi and its witness: the closest model has the best arms (gbar, hbar_x)."""

    value: float
    gbar: int
    hbar: tuple[int, ...]


def representation_cost(weights: Array, means: Array, gbar: int, noise: float = 0.0) -> Rival:
    """Return sum_x min_h ell(eta, gbar, h), and the predictors that attain it."""
    X, _, H = means.shape
    costs = [[ell(weights, means, x, gbar, h, noise) for h in range(H)] for x in range(X)]
    return Rival(math.fsum(min(c) for c in costs), gbar, tuple(c.index(min(c)) for c in costs))


def psi(weights: Array, means: Array, g: int, noise: float = 0.0) -> Rival:
    """Return Psi_t(g) = min_{gbar != g} sum_x min_h ell(N_t, gbar, h), for G >= 2."""
    rivals = [representation_cost(weights, means, gbar, noise) for gbar in range(means.shape[1]) if gbar != g]
    return min(rivals, key=lambda rival: rival.value)


def rho(weights: Array, means: Array, noise: float = 0.0) -> Rival:
    """Return rho(q, mu) of a system in the class M: Psi at g*."""
    best = best_arms(means)
    assert best is not None, "rho is defined in the class M only"
    return psi(weights, means, best.g, noise)


# Thresholds ---------------------------------------------------------------------------------------


def p_inverse(y: float) -> float:
    """Return the u >= 1 with u - ln u = y, for y >= 1."""
    return float(brentq(lambda u: u - math.log(u) - y, 1.0, 2.0 * y + 2.0, xtol=1e-15, rtol=1e-15))


def p_tilde(z: float, x: float) -> float:
    """Return p~_z(x), with the switch where it is printed (also by Kaufmann & Koolen): p^-1(1 / ln z)."""
    if x >= p_inverse(1.0 / math.log(z)):
        return math.exp(1.0 / p_inverse(x)) * p_inverse(x)
    return z * (x - math.log(math.log(z)))


def phi(x: float) -> float:
    """Return phi(x) = 2 p~_{3/2}( (p^-1(1 + x) + ln(2 zeta(2))) / 2 )."""
    zeta_2 = math.pi**2 / 6.0
    return 2.0 * p_tilde(1.5, (p_inverse(1.0 + x) + math.log(2.0 * zeta_2)) / 2.0)


def beta_1(pulls: Array) -> float:
    """Return beta_1(t) = 3 sum ln(1 + ln N_t(x, g, h)) over the arms that were sampled."""
    return 3.0 * sum(math.log(1.0 + math.log(n)) for n in pulls.ravel() if n >= 1.0)


def beta_2(shape: tuple[int, int, int], delta_g: float) -> float:
    """Return beta_2(delta_G) = XGH phi( ln((G - 1) / delta_G) / XGH ), for G >= 2."""
    X, G, H = shape
    K = X * G * H
    return K * phi(math.log((G - 1) / delta_g) / K)


def track_and_stop_threshold(t: float, arms: int, delta: float, noise: float = 0.0) -> float:
    """Return log(2 t (n - 1) / delta), the threshold of track-and-stop with n arms; its own for Gaussian rewards."""
    if noise > 0.0:
        return 13 / 12 * (math.log((arms - 1) / delta) + math.log(13 / 2) + math.log(t))
    return math.log(2.0 * t * (arms - 1) / delta)

"""The paper's own method: entropic mirror ascent on the Lagrangian of the max-min program.

    sup_q inf_{lambda, theta} sum_gbar lambda_gbar sum_{x, hbar} theta[x, gbar, hbar] f_{x, gbar, hbar}(q)

(appendix, "Algorithmic details of OSRL-SC"). q climbs while lambda, over the tests, and theta, over
the pieces of each cell, descend. Each is a point of a simplex and is multiplied by exp(+- step * gradient),
with steps that shrink like 1 / sqrt(k); all gradients of a step are taken at the same point. They
come from the envelope theorem, d f / d q_a = kl(mu_a, m) on the pool. Predictor tests join lambda's
simplex, every test being measured in units of its need: phase 2 and the joint program are no harder.

It is here for comparison and reproduction, in two uses of one step:

- `paper_ascent`: as the appendix describes it, until a certified gap is reached;
- `released_solve`: with the constants of the authors' released code, which stops once two successive
  values agree. That is long before theta has converged, but it is what Table 2 was made with.

The certificate comes with the method. The gradient c of each step is a cut, objective(q) <= c.q for
every q; so is an average of such cuts, and no c.q exceeds the bound of `price_groups`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.allocation.certificate import (
    DualResponse,
    Pieces,
    dual_total,
    measure,
    new_pieces,
    objective,
    price_groups,
    slopes,
)
from osrl.allocation.program import Program, build_program, scale_to_budget
from osrl.jit import kernel
from osrl.jit.reductions import maximum, minimum
from osrl.model.arrays import Floats
from osrl.model.families import divergence

CLAMP = 6.0  # the paper's guard against exploding gradients
ALPHA = 0.5  # weight of the old point in a restart
MIN_WEIGHT = 1e-200  # weights stay above it, so that no pooled mean is 0 / 0

RELEASED_STEPS = 2000
RELEASED_RATE = 5.0  # at least
RELEASED_DUAL = 1.0 / 7.0  # rate of lambda and theta, as a part of that of q
RELEASED_MARGIN = 1e-10  # estimates are kept this far from 0 and 1
SETTLED_RELATIVE, SETTLED_ABSOLUTE = 1e-5, 1e-8  # two values this close end a released solve


class Rates(NamedTuple):
    """Step sizes: rate * sqrt(2 ln n / k) at step k = 1, 2, ..., on a simplex of n weights."""

    q: float  # n = XGH
    dual: float  # n = the number of tests plus one (G in phase 1) for lambda, H for theta
    lowest: float  # the gradient of q is clamped to [lowest, highest]
    highest: float


class Point(NamedTuple):
    """A point of the ascent, by rank (arrays are updated in place).

    Weights of tests are those of the certificate: lambda_c = need_c * test_dual[c] for a
    representation, need_h * share for a predictor. All lambda sum to one (`dual_total`).
    """

    q: Floats  # (X, n) allocation
    test_dual: Floats  # (C,) of the representation tests
    share: Floats  # (X, n) theta of a piece within its cell, or the dual of a predictor test


class Gradient(NamedTuple):
    """The gradient of the Lagrangian at a point (arrays are updated in place)."""

    pieces: Pieces
    granted: Floats  # (C,) sum over x, h of theta f: the gradient in test_dual
    cut: Floats  # (X, n) the gradient in q, without the regulariser


class Ascent(NamedTuple):
    """The best allocation found, with lower <= z* <= upper, after ``steps`` steps.

    ``cut`` proves ``upper``: every allocation q has an objective of at most cut.q - |q|^2 / (2 sigma).
    """

    q: Floats  # (X, n) by rank
    lower: float
    upper: float
    cut: Floats  # (X, n) by rank
    steps: int


class ReleasedState(NamedTuple):
    """The state that the released code keeps from one solve to the next (arrays are updated in place).

    lambda and theta belong to the rivals of the leader in increasing order, whoever the leader is.
    """

    q: Floats  # (X, GH) by arm: the allocation to track
    lam: Floats  # (G - 1,)
    theta: Floats  # (X, G - 1, H)
    rate: Floats  # (1,) of the next solve


# The step, common to both uses --------------------------------------------------------------------


@kernel
def uniform_point(program: Program) -> Point:
    """Return the paper's start: all arms, all tests and all pieces of a cell have the same weight."""
    cell_of, need_h = program.cell, program.need_h
    tasks, n = cell_of.shape
    share = np.zeros((tasks, n))
    for x in range(tasks):
        for r in range(1, n):
            if cell_of[x, r] >= 0:
                share[x, r] = 1.0
            elif need_h[x, r] > 0.0:
                share[x, r] = 1.0 / need_h[x, r]
    at = Point(np.ones((tasks, n)), np.empty(program.need.size), share)
    for c in range(program.need.size):
        at.test_dual[c] = 1.0 / program.need[c]
    scale_to_budget(program, at.q)
    _normalise(program, at)
    return at


@kernel
def restart(program: Program, at: Point, alpha: float) -> None:
    """Mix alpha times the old point with 1 - alpha times the uniform one: no weight stays at 0."""
    test_dual, uniform = at.test_dual, uniform_point(program)
    uniform_dual = uniform.test_dual
    _blend(at.q, uniform.q, 1.0 - alpha)
    _blend(at.share, uniform.share, 1.0 - alpha)
    for c in range(test_dual.size):
        test_dual[c] += (1.0 - alpha) * (uniform_dual[c] - test_dual[c])


@kernel
def _blend(target: Floats, source: Floats, weight: float) -> None:
    """Move ``target`` (X, n) towards ``source`` by ``weight``."""
    for x in range(target.shape[0]):
        for r in range(target.shape[1]):
            target[x, r] += weight * (source[x, r] - target[x, r])


@kernel
def _normalise(program: Program, at: Point) -> None:
    """Bring theta of every cell, and lambda, back to their simplices."""
    cell_of, need_h, share, test_dual = program.cell, program.need_h, at.share, at.test_dual
    weight = dual_total(program, share, test_dual)
    tasks, n = share.shape
    total = np.empty(test_dual.size)
    for x in range(tasks):
        total[:] = 0.0
        for r in range(1, n):
            if cell_of[x, r] >= 0:
                total[cell_of[x, r]] += share[x, r]
        for r in range(1, n):
            if cell_of[x, r] >= 0:
                share[x, r] /= total[cell_of[x, r]]
            elif need_h[x, r] > 0.0:
                share[x, r] /= weight
    for c in range(test_dual.size):
        test_dual[c] /= weight


@kernel
def new_gradient(program: Program) -> Gradient:
    """Return room for the gradient of a program."""
    tasks, n = program.mu.shape
    return Gradient(new_pieces(tasks, n), np.empty(program.need.size), np.empty((tasks, n)))


@kernel
def differentiate(program: Program, at: Point, gradient: Gradient) -> float:
    """Fill ``gradient`` at ``at``, and return the value of the Lagrangian there."""
    pieces, granted, cut = gradient.pieces, gradient.granted, gradient.cut
    q, test_dual, share = at.q, at.test_dual, at.share
    cell_of, need_h, inverse_sigma = program.cell, program.need_h, program.inverse_sigma
    tasks, n = q.shape
    value_of, sums = pieces.value, np.empty((n + 1, 3))
    response = DualResponse(share, pieces.level, cut, np.empty(tasks), sums)
    measure(program, q, pieces)
    value = 0.0
    granted[:] = 0.0
    for x in range(tasks):
        slopes(program, response, x, test_dual, 1.0)
        for r in range(n):
            value -= 0.5 * inverse_sigma * q[x, r] * q[x, r]
            if cell_of[x, r] >= 0:
                granted[cell_of[x, r]] += share[x, r] * value_of[x, r]
            elif need_h[x, r] > 0.0:
                value += share[x, r] * value_of[x, r]
    for c in range(granted.size):
        value += test_dual[c] * granted[c]
    return value


@kernel
def move(program: Program, gradient: Gradient, rates: Rates, k: int, at: Point) -> None:
    """Take step ``k``: q up its gradient, lambda and theta down theirs."""
    q, test_dual, share = at.q, at.test_dual, at.share
    cut, granted, value_of = gradient.cut, gradient.granted, gradient.pieces.value
    cell_of, need, need_h = program.cell, program.need, program.need_h
    cost_of, inverse_sigma = program.cost, program.inverse_sigma
    tasks, n = q.shape
    tests, pieces_of_cell = _sizes(program)
    q_step = rates.q * math.sqrt(2.0 * math.log(tasks * n) / k)
    lambda_step = rates.dual * math.sqrt(2.0 * math.log(tests + 1) / k)
    theta_step = rates.dual * math.sqrt(2.0 * math.log(pieces_of_cell) / k)
    lowest, highest = rates.lowest, rates.highest
    slope = np.empty((tasks, n))
    steepest = -math.inf
    for x in range(tasks):
        for r in range(n):
            rise = (cut[x, r] - inverse_sigma * q[x, r]) / cost_of[x, r]
            slope[x, r] = min(max(rise, lowest), highest)
            steepest = max(steepest, slope[x, r])
    for x in range(tasks):
        for r in range(n):
            # a common factor does not matter, so the largest is made 1: exp cannot overflow
            q[x, r] = max(q[x, r] * math.exp(q_step * (slope[x, r] - steepest)), MIN_WEIGHT)
            if cell_of[x, r] >= 0:
                fall = theta_step * test_dual[cell_of[x, r]] * value_of[x, r]
                share[x, r] = max(share[x, r] * math.exp(-fall), MIN_WEIGHT)
            elif need_h[x, r] > 0.0:
                fall = lambda_step * value_of[x, r] / need_h[x, r]
                share[x, r] = max(share[x, r] * math.exp(-fall), MIN_WEIGHT)
    for c in range(need.size):
        test_dual[c] = max(test_dual[c] * math.exp(-lambda_step * granted[c] / need[c]), MIN_WEIGHT)
    scale_to_budget(program, q)
    _normalise(program, at)


@kernel
def _sizes(program: Program) -> tuple[int, int]:
    """Return the number of tests, and the largest number of pieces in a cell (H)."""
    cell_of, need_h = program.cell, program.need_h
    tasks, n = cell_of.shape
    tests, most = program.need.size, 1
    count = np.zeros(tests, np.int64)
    for x in range(tasks):
        count[:] = 0
        for r in range(1, n):
            if cell_of[x, r] >= 0:
                count[cell_of[x, r]] += 1
                most = max(most, count[cell_of[x, r]])
            elif need_h[x, r] > 0.0:
                tests += 1
    return tests, most


# As the appendix describes it ---------------------------------------------------------------------


@kernel
def paper_rates(program: Program) -> Rates:
    """Return the step of the appendix, (1 / L) sqrt(2 ln n / k), and its clamp of the gradient.

    L = max kl(mu_i, mu_j) over all arms, for pieces in units of need and cost; at most the clamp,
    which bounds every gradient. The paper gives no step for lambda and theta: they take the same
    L, each with its own number of weights.
    """
    need, need_h = program.need, program.need_h
    low, high = program.mu.min(), program.mu.max()
    steepest = max(divergence(low, high, program.noise), divergence(high, low, program.noise))
    least = np.where(need_h > 0.0, need_h, math.inf).min()
    least = min(least, need.min()) if need.size > 0 else least
    rate = 1.0 / min(steepest / (least * program.cost.min()), CLAMP)
    return Rates(rate, rate, -CLAMP, CLAMP)


@kernel
def paper_ascent(
    program: Program, at: Point, rates: Rates, tolerance: float, max_steps: int, certify_every: int
) -> Ascent:
    """Ascend from ``at``, in place, to a certified relative gap of ``tolerance`` or for ``max_steps`` steps.

    Every iterate is a candidate for the lower bound. Averages converge better than iterates, so every
    ``certify_every`` steps those of q and of the cuts, since the last power of two, are tried as well.
    """
    now, gradient = at.q, new_gradient(program)
    pieces, now_cut = gradient.pieces, gradient.cut
    tasks, n = now.shape
    averaged = new_pieces(tasks, n)
    q, cut = np.zeros((tasks, n)), np.zeros((tasks, n))
    best, proof = now.copy(), np.zeros((tasks, n))
    lower, upper, k, since = -math.inf, math.inf, 0, 0
    while k < max_steps:
        k += 1
        differentiate(program, at, gradient)
        reached = objective(program, now, pieces)
        if reached > lower:
            lower = reached
            best[:] = now
        since = 1 if k & (k - 1) == 0 else since + 1
        _blend(q, now, 1.0 / since)
        _blend(cut, now_cut, 1.0 / since)
        if k % certify_every == 0 or k == max_steps:
            measure(program, q, averaged)
            reached = objective(program, q, averaged)
            if reached > lower:
                lower = reached
                best[:] = q
            bound = price_groups(program, cut)
            if bound < upper:
                upper = bound
                proof[:] = cut
            if upper - lower <= tolerance * abs(lower):
                break
        move(program, gradient, rates, k, at)
    return Ascent(best, lower, upper, proof, k)


# As the released code does it ---------------------------------------------------------------------


@kernel
def new_released_state(tasks: int, representations: int, predictors: int) -> ReleasedState:
    """Return the state before the first solve: uniform weights and the least rate."""
    rivals, n = representations - 1, representations * predictors
    return ReleasedState(
        np.full((tasks, n), 1.0 / (tasks * n)),
        np.full(rivals, 1.0 / max(rivals, 1)),
        np.full((tasks, rivals, predictors), 1.0 / predictors),
        np.full(1, RELEASED_RATE),
    )


@kernel
def released_solve(state: ReleasedState, mu: Floats, leader: int, noise: float) -> tuple[float, int]:
    """Solve phase 1 for the estimates ``mu`` (X, GH) as the released code does; return value and steps.

    ``leader`` is the representation that is best in every task. The new allocation is ``state.q``:
    the point at which two successive values of the Lagrangian agree (from the third on), or the
    one after the last step. The rate of a solve comes from the estimates of the solve before it.
    """
    tasks, n = mu.shape
    rivals, rate = state.lam.size, state.rate[0]
    if rivals == 0:
        return math.inf, 0
    program = _phase_1(mu, leader, rivals + 1, noise)
    at = Point(np.empty((tasks, n)), state.lam, np.zeros((tasks, n)))
    _load(program, state, at)
    restart(program, at, ALPHA)
    rates, gradient = Rates(rate, RELEASED_DUAL * rate, -math.inf, CLAMP), new_gradient(program)
    value, k = 0.0, 0
    while k < RELEASED_STEPS:
        k += 1
        before = value
        value = differentiate(program, at, gradient)
        if k > 2 and abs(value - before) <= SETTLED_ABSOLUTE + SETTLED_RELATIVE * abs(before):
            break
        move(program, gradient, rates, k, at)
    _store(program, at, state)
    widest = divergence(maximum(program.mu), minimum(program.mu), noise)
    state.rate[0] = max(RELEASED_RATE, 1.0 / widest)
    return value, k


@kernel
def _phase_1(mu: Floats, leader: int, representations: int, noise: float) -> Program:
    """Build the phase-1 program of estimates ``mu`` (X, GH), which are kept off 0 and 1."""
    tasks, n = mu.shape
    predictors = n // representations
    kept, best = mu.copy(), np.empty(tasks, np.int64)
    for x in range(tasks):
        best[x] = leader * predictors
        for a in range(n):
            if noise == 0.0:
                kept[x, a] = min(max(mu[x, a], RELEASED_MARGIN), 1.0 - RELEASED_MARGIN)
            if a // predictors == leader and mu[x, a] > mu[x, best[x]]:
                best[x] = a
    need_g = np.ones(representations)
    need_g[leader] = 0.0
    nothing, price, group = np.zeros((tasks, n)), np.ones((tasks, n)), np.zeros(tasks, np.int64)
    return build_program(kept, best, need_g, nothing, False, price, group, np.ones(1), 0.0, noise)


@kernel
def _load(program: Program, state: ReleasedState, at: Point) -> None:
    """Copy q and theta of the state, by arm, to a point, by rank."""
    arm_of, cell_of, theta, q, share = program.arm, program.cell, state.theta, at.q, at.share
    for x in range(q.shape[0]):
        for r in range(q.shape[1]):
            q[x, r] = state.q[x, arm_of[x, r]]
            if cell_of[x, r] >= 0:
                share[x, r] = theta[x, cell_of[x, r], arm_of[x, r] % theta.shape[2]]


@kernel
def _store(program: Program, at: Point, state: ReleasedState) -> None:
    """Copy q and theta of a point back to the state."""
    arm_of, cell_of, theta, q, share = program.arm, program.cell, state.theta, state.q, at.share
    for x in range(q.shape[0]):
        for r in range(q.shape[1]):
            q[x, arm_of[x, r]] = at.q[x, r]
            if cell_of[x, r] >= 0:
                theta[x, cell_of[x, r], arm_of[x, r] % theta.shape[2]] = share[x, r]

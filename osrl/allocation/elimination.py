"""One task of a Newton step: assembled, factorised, and reduced to the unknowns that all tasks share.

*The system.* A piece has a gradient and a direction of curvature, over its own arm and the arms i of its
pool. On the pool both are combinations of three fixed vectors, u_i = (potential_i, 1, mu_i):

    kl(mu_i, level) = e . u_i,   e = (1, -base, -slope)          level - mu_i = d . u_i,   d = (0, level, -1)

and at its own arm they are ``own`` and ``depart``. What the piece grants enters the gradient with -need at z,
and with -1 at its cell if it has one (the need is then 0, or minus its head start). With stiffness
k = dual / slack and bend w = dual / (mass variance(level)) of each piece, the matrix of the task over its
cells and arms is

    diag(barrier) + sum over pieces of (k gradient gradient' + w direction direction'),

and the right-hand side is pull + sum over pieces of (push gradient), with the duals of the tests at the
cells. The system also has the columns of the unknowns that tasks share: z, the duals of the tests (-1 at their
cells) and the price of the budget (the costs of the arms).

*Arms that no pool reaches* couple only to their own piece, and are eliminated one by one. With the pivot
P = barrier + k own^2 + w depart^2 and f = depart e - own d, the piece leaves

    (k barrier ee' + w barrier dd' + k w ff') / P                  on its pool, and
    kept e - (w depart own / P) d,  kept = (barrier + w depart^2) / P   of its gradient there.

These are sums of like signs; computed as differences they would lose all digits.

*The other arms.* Pools are prefixes of the arms by rank. So what pieces add is kept for each depth as a few
coefficients of u, and spread over the arms from the deepest pool upwards: the matrix costs no more than its
size. Then it is factorised. A piece so stiff that the others would be lost in the sum is assembled with a
part of its stiffness, and the rest is rotated into the factor. What the columns have in common is the
task's part of the Schur complement.

*Linear algebra.* The systems have a few to a few hundred unknowns. Loops along rows are vectorised by the
compiler and beat the overhead of LAPACK for the sizes that matter, and a singular matrix never raises.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats, Integers

MIN_PIVOT = 1e-15  # relative to the diagonal; a smaller one freezes its unknown
MAX_STIFFNESS = 1e5  # of a gradient that is assembled, relative to the softest barrier

# Columns of `terms`: the coefficients of an arm and of its piece (zeros without one) ...
BARRIER, ARM_PULL, ARM_COST, STIFFNESS, BEND, RESIDUAL, PUSH = range(7)
OWN_DIVERGENCE, DEPARTURE, PIECE_LEVEL, PIECE_BASE, PIECE_SLOPE, PIECE_NEED = range(7, 13)
# ... and those computed from them: the stiffness that is assembled, the rest, the diagonal element of the arm, and
# the part of the gradient that is kept on the pool, as coefficients of u.
ASSEMBLED, REST_STIFFNESS, PIVOT, KEPT_0, KEPT_1, KEPT_2, TERM_COUNT = range(13, 20)

RIGHT_SIDE, Z_COLUMN = 0, 1  # columns beside the matrix; those of the tests follow, and the price is the last one

# What pieces add on their pools: a quadratic form in u, then coefficients of u for columns and cells.
ON_RIGHT, ON_Z, ON_PRICE, ON_CELLS = 3, 4, 5, 6


class System(NamedTuple):
    """The equations of one task, and those that it shares with the others."""

    matrix: Floats  # (D, D) over the cells and the arms that pools reach; then its Cholesky factor
    columns: Floats  # (D, 3 + C) right-hand side, z, tests, price; then half-solved
    pools: Floats  # (1 + arms that pools reach, ON_CELLS + C, 3) what pieces add, by the depth of their pools
    shared: Floats  # (1 + C + B, 1 + C + B) z, tests, prices
    shared_right: Floats  # (1 + C + B,)
    price: int  # which of the shared unknowns is the price of the task's budget


@kernel_in_place
def eliminate_task(
    terms: Floats,
    cell: Integers,
    depth: Integers,
    mu: Floats,
    potential: Floats,
    test_dual: Floats,
    system: System,
) -> None:
    """Fill and factorise the equations of one task, which are zeros, and add its part to the shared ones.

    ``terms`` (n, TERM_COUNT); by rank (n,): the cell of each piece or -1, how many arms its pool has above it,
    means and potentials.
    """
    matrix, columns, sums = system.matrix, system.columns, system.pools
    shared, shared_right = system.shared, system.shared_right
    cells = test_dual.size
    top = matrix.shape[0] - cells
    for c in range(cells):
        columns[c, RIGHT_SIDE] = test_dual[c]
        columns[c, 2 + c] = -1.0
    _split_stiffness(terms, top)
    _add_rows(terms, cell, depth, mu, potential, top, matrix, columns)
    _add_cells_and_shared(terms, cell, top, system)
    _add_on_pools(terms, cell, depth, top, sums)
    _accumulate_pools(sums, mu, potential, matrix, columns)
    cholesky(matrix, columns)
    # Before the rotations: they keep the sum of squares, of which only a difference would be left.
    shared[0, 0] -= column_dot(columns, Z_COLUMN, Z_COLUMN)
    shared_right[0] -= column_dot(columns, Z_COLUMN, RIGHT_SIDE)
    for r in range(1, top):
        if terms[r, REST_STIFFNESS] > 0.0:
            _rotate_rest(terms[r], cells + r, cell[r], depth[r], mu, potential, system)
    _complement(columns, shared, shared_right, system.price)


@kernel_in_place
def _split_stiffness(terms: Floats, top: int) -> None:
    """Split the stiffness of each piece into the part that is assembled and the rest; compute pivots."""
    softest = math.inf
    for r in range(top):
        softest = min(softest, terms[r, BARRIER])
    for r in range(terms.shape[0]):
        stiff, own = terms[r, STIFFNESS], terms[r, OWN_DIVERGENCE]
        base, slope = terms[r, PIECE_BASE], terms[r, PIECE_SLOPE]
        if r < top:
            assembled = min(stiff, MAX_STIFFNESS * softest / (own * own)) if stiff > 0.0 else 0.0
            terms[r, ASSEMBLED] = assembled
            terms[r, REST_STIFFNESS] = stiff - assembled
            terms[r, PIVOT] = _pivot(terms, r)
            kept, kept_1, kept_2 = 1.0, -base, -slope
        else:
            terms[r, ASSEMBLED] = stiff
            pivot = _pivot(terms, r)
            terms[r, PIVOT] = pivot
            bend, depart = terms[r, BEND], terms[r, DEPARTURE]
            kept, bent = (terms[r, BARRIER] + bend * depart * depart) / pivot, bend * depart * own
            kept_1, kept_2 = -kept * base - bent * terms[r, PIECE_LEVEL] / pivot, bent / pivot - kept * slope
        terms[r, KEPT_0], terms[r, KEPT_1], terms[r, KEPT_2] = kept, kept_1, kept_2


@kernel_in_place
def _pivot(terms: Floats, r: int) -> float:
    """Return the diagonal element of an arm with its own piece."""
    own, depart = terms[r, OWN_DIVERGENCE], terms[r, DEPARTURE]
    return float(terms[r, BARRIER] + terms[r, ASSEMBLED] * own * own + terms[r, BEND] * depart * depart)


@kernel_in_place
def _coupling(terms: Floats, r: int) -> tuple[float, float, float]:
    """Return how the arm of a piece couples to the arms of its pool, as coefficients of u."""
    stiff, bend = terms[r, ASSEMBLED] * terms[r, OWN_DIVERGENCE], terms[r, BEND] * terms[r, DEPARTURE]
    return stiff, bend * terms[r, PIECE_LEVEL] - stiff * terms[r, PIECE_BASE], -bend - stiff * terms[r, PIECE_SLOPE]


@kernel_in_place
def _add_rows(
    terms: Floats,
    cell: Integers,
    depth: Integers,
    mu: Floats,
    potential: Floats,
    top: int,
    matrix: Floats,
    columns: Floats,
) -> None:
    """Add the rows of the arms that pools reach: their barriers, and the terms of their own pieces."""
    cells = columns.shape[1] - 3
    for r in range(top):
        row, stiff, own = cells + r, terms[r, ASSEMBLED], terms[r, OWN_DIVERGENCE]
        matrix[row, row] += terms[r, BARRIER]
        columns[row, RIGHT_SIDE] += terms[r, ARM_PULL]
        columns[row, -1] += terms[r, ARM_COST]
        if stiff == 0.0:
            continue
        matrix[row, row] += terms[r, PIVOT] - terms[r, BARRIER]
        columns[row, RIGHT_SIDE] += own * terms[r, PUSH]
        columns[row, Z_COLUMN] -= terms[r, PIECE_NEED] * stiff * own
        if cell[r] >= 0:
            matrix[cell[r], row] -= stiff * own
        v0, v1, v2 = _coupling(terms, r)
        for i in range(depth[r]):
            matrix[cells + i, row] += v0 * potential[i] + v1 + v2 * mu[i]


@kernel_in_place
def _add_cells_and_shared(terms: Floats, cell: Integers, top: int, system: System) -> None:
    """Add the terms of pieces at their cells and at z, and those that removed arms leave there."""
    matrix, columns, shared = system.matrix, system.columns, system.shared
    shared_right, price = system.shared_right, system.price
    for r in range(terms.shape[0]):
        stiff, push, kept, need = terms[r, ASSEMBLED], terms[r, PUSH], terms[r, KEPT_0], terms[r, PIECE_NEED]
        own, pull, cost, pivot = terms[r, OWN_DIVERGENCE], terms[r, ARM_PULL], terms[r, ARM_COST], terms[r, PIVOT]
        removed, c = r >= top, cell[r]
        if removed:
            shared[price, price] -= cost * cost / pivot
            shared_right[price] -= cost * (pull + own * push) / pivot
        if stiff == 0.0:
            continue
        if c >= 0:
            if removed:
                columns[c, RIGHT_SIDE] += stiff * own * (pull / pivot)
                columns[c, -1] += stiff * own * (cost / pivot)
            matrix[c, c] += stiff * kept
            columns[c, RIGHT_SIDE] -= push * kept
            columns[c, Z_COLUMN] += need * stiff * kept
        if need != 0.0:
            if removed:
                shared_right[0] += need * stiff * own * pull / pivot
                shared[0, price] += need * stiff * own * cost / pivot
                shared[price, 0] += need * stiff * own * cost / pivot
            shared[0, 0] += need * need * stiff * kept
            shared_right[0] -= need * push * kept


@kernel_in_place
def _add_on_pools(terms: Floats, cell: Integers, depth: Integers, top: int, sums: Floats) -> None:
    """Add the terms of every piece on its pool, by the depth of the pool."""
    for r in range(terms.shape[0]):
        stiff, bend, barrier = terms[r, ASSEMBLED], terms[r, BEND], terms[r, BARRIER]
        if stiff == 0.0:
            continue
        pool = sums[depth[r]]
        g0, g1, g2 = terms[r, KEPT_0], terms[r, KEPT_1], terms[r, KEPT_2]
        if r < top:
            _add_form(terms, r, stiff, bend, 0.0, pool)
        else:
            pivot = terms[r, PIVOT]
            _add_form(terms, r, stiff * barrier / pivot, bend * barrier / pivot, stiff * bend / pivot, pool)
            v0, v1, v2 = _coupling(terms, r)
            _add_multiple(pool, ON_RIGHT, -terms[r, ARM_PULL] / pivot, v0, v1, v2)
            _add_multiple(pool, ON_PRICE, -terms[r, ARM_COST] / pivot, v0, v1, v2)
        _add_multiple(pool, ON_RIGHT, terms[r, PUSH], g0, g1, g2)
        _add_multiple(pool, ON_Z, -terms[r, PIECE_NEED] * stiff, g0, g1, g2)
        if cell[r] >= 0:
            _add_multiple(pool, ON_CELLS + cell[r], -stiff, g0, g1, g2)


@kernel_in_place
def _add_form(terms: Floats, r: int, a: float, b: float, c: float, pool: Floats) -> None:
    """Add a ee' + b dd' + c ff', f = depart e - own d, to the quadratic form of a pool (upper half)."""
    own, depart, level = terms[r, OWN_DIVERGENCE], terms[r, DEPARTURE], terms[r, PIECE_LEVEL]
    e1, e2 = -terms[r, PIECE_BASE], -terms[r, PIECE_SLOPE]
    f0, f1, f2 = depart, depart * e1 - own * level, depart * e2 + own
    pool[0, 0] += a + c * f0 * f0
    pool[0, 1] += a * e1 + c * f0 * f1
    pool[0, 2] += a * e2 + c * f0 * f2
    pool[1, 1] += a * e1 * e1 + b * level * level + c * f1 * f1
    pool[1, 2] += a * e1 * e2 - b * level + c * f1 * f2
    pool[2, 2] += a * e2 * e2 + b + c * f2 * f2


@kernel_in_place
def _add_multiple(pool: Floats, row: int, times: float, v0: float, v1: float, v2: float) -> None:
    """Add a multiple of a vector to a row of coefficients."""
    pool[row, 0] += times * v0
    pool[row, 1] += times * v1
    pool[row, 2] += times * v2


@kernel_in_place
def _accumulate_pools(sums: Floats, mu: Floats, potential: Floats, matrix: Floats, columns: Floats) -> None:
    """Add to each arm the terms of the pieces whose pools contain it: those that are deeper than its rank."""
    cells = columns.shape[1] - 3
    for i in range(sums.shape[0] - 2, -1, -1):
        row, pool, first, last = cells + i, sums[i + 1], potential[i], mu[i]
        a0 = pool[0, 0] * first + pool[0, 1] + pool[0, 2] * last
        a1 = pool[0, 1] * first + pool[1, 1] + pool[1, 2] * last
        a2 = pool[0, 2] * first + pool[1, 2] + pool[2, 2] * last
        for j in range(i + 1):
            matrix[cells + j, row] += a0 * potential[j] + a1 + a2 * mu[j]
        columns[row, RIGHT_SIDE] += _value_at(pool, ON_RIGHT, first, last)
        columns[row, Z_COLUMN] += _value_at(pool, ON_Z, first, last)
        columns[row, -1] += _value_at(pool, ON_PRICE, first, last)
        for c in range(cells):
            matrix[c, row] += _value_at(pool, ON_CELLS + c, first, last)
        for k in range(pool.shape[0]):
            for j in range(3):
                sums[i, k, j] += pool[k, j]


@kernel_in_place
def _value_at(pool: Floats, row: int, potential: float, mu: float) -> float:
    """Return the value of a row of coefficients of u at an arm."""
    return float(pool[row, 0] * potential + pool[row, 1] + pool[row, 2] * mu)


@kernel
def _rotate_rest(arm: Floats, row: int, cell: int, depth: int, mu: Floats, potential: Floats, system: System) -> None:
    """Add the stiffness of a piece that was not assembled to the factor, and its effect on z."""
    matrix, columns, shared, shared_right = system.matrix, system.columns, system.shared, system.shared_right
    size, width = columns.shape
    gradient, beside = np.zeros(size), np.zeros(width)
    weight = math.sqrt(arm[REST_STIFFNESS])
    for i in range(depth):
        gradient[width - 3 + i] = weight * (potential[i] - arm[PIECE_BASE] - arm[PIECE_SLOPE] * mu[i])
    gradient[row] = weight * arm[OWN_DIVERGENCE]
    beside[Z_COLUMN] = -weight * arm[PIECE_NEED]
    if cell >= 0:
        gradient[cell] = -weight
    givens_update(matrix, columns, gradient, beside)
    shared[0, 0] += beside[Z_COLUMN] * beside[Z_COLUMN]
    shared_right[0] += beside[Z_COLUMN] * beside[RIGHT_SIDE]


@kernel_in_place
def _complement(columns: Floats, shared: Floats, shared_right: Floats, price: int) -> None:
    """Subtract the products of the half-solved columns from the shared equations; (z, z) is done."""
    last = columns.shape[1] - 1
    for a in range(Z_COLUMN, last + 1):
        to = price if a == last else a - 1
        if a > Z_COLUMN:
            shared_right[to] -= column_dot(columns, a, RIGHT_SIDE)
            shared[to, to] -= column_dot(columns, a, a)
        for b in range(a + 1, last + 1):
            other = price if b == last else b - 1
            product = column_dot(columns, a, b)
            shared[to, other] -= product
            shared[other, to] -= product


# Linear algebra in place ----------------------------------------------------------------------------


@kernel_in_place
def cholesky(matrix: Floats, right: Floats) -> None:
    """Compute the Cholesky factor U of a positive definite matrix = U'U, and U'^-1 right, both in place.

    Only the upper triangle is used. Updates run along rows, which the compiler vectorises. The diagonal is
    kept in the first column below it, to compare the pivots with.
    """
    size, columns = right.shape
    for j in range(size):
        matrix[j, 0] = matrix[j, j]
    for j in range(size):
        root = math.sqrt(matrix[j, j]) if matrix[j, j] > MIN_PIVOT * matrix[j, 0] else 1e100
        matrix[j, j] = root
        for k in range(j + 1, size):
            matrix[j, k] /= root
        for c in range(columns):
            right[j, c] /= root
        for i in range(j + 1, size):
            factor = matrix[j, i]
            if factor != 0.0:
                for k in range(i, size):
                    matrix[i, k] -= factor * matrix[j, k]
                for c in range(columns):
                    right[i, c] -= factor * right[j, c]


@kernel_in_place
def givens_update(factor: Floats, right: Floats, row: Floats, beside: Floats) -> None:
    """Add row'row to the matrix U'U by Givens rotations of (U, right) with (row, beside).

    Unlike a sum this loses no digits when the row outweighs the matrix. What remains of
    ``beside`` is the part of its columns that the unknowns cannot explain.
    """
    size, columns = right.shape
    for j in range(size):
        if row[j] == 0.0:
            continue
        root = math.hypot(factor[j, j], row[j])
        cosine, sine = factor[j, j] / root, row[j] / root
        factor[j, j] = root
        for k in range(j + 1, size):
            above = factor[j, k]
            factor[j, k] = cosine * above + sine * row[k]
            row[k] = cosine * row[k] - sine * above
        for c in range(columns):
            above = right[j, c]
            right[j, c] = cosine * above + sine * beside[c]
            beside[c] = cosine * beside[c] - sine * above


@kernel_in_place
def column_dot(right: Floats, a: int, b: int) -> float:
    """Return the inner product of two columns."""
    product = 0.0
    for k in range(right.shape[0]):
        product += right[k, a] * right[k, b]
    return product


@kernel_in_place
def solve_gaussian(matrix: Floats, right: Floats) -> None:
    """Solve by Gaussian elimination with row pivoting, in place; a singular matrix gives non-finite numbers."""
    size = right.size
    for j in range(size):
        best = j
        for i in range(j + 1, size):
            if abs(matrix[i, j]) > abs(matrix[best, j]):
                best = i
        if best != j:
            for k in range(j, size):
                matrix[j, k], matrix[best, k] = matrix[best, k], matrix[j, k]
            right[j], right[best] = right[best], right[j]
        for i in range(j + 1, size):
            factor = matrix[i, j] / matrix[j, j]
            if factor != 0.0:
                for k in range(j + 1, size):
                    matrix[i, k] -= factor * matrix[j, k]
                right[i] -= factor * right[j]
    for j in range(size - 1, -1, -1):
        for k in range(j + 1, size):
            right[j] -= matrix[j, k] * right[k]
        right[j] /= matrix[j, j]

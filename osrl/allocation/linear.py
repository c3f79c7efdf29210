"""Small dense linear algebra for the Newton step, in place and without library calls.

The systems have a few to a few hundred unknowns; loops along rows are vectorised by the compiler and
beat the overhead of LAPACK for the sizes that matter, and a singular matrix never raises.
"""

from __future__ import annotations

import math

from osrl.jit.kernel import kernel_in_place
from osrl.model.arrays import Floats

SMALLEST_PIVOT = 1e-15  # relative to the diagonal; a smaller one freezes its unknown


@kernel_in_place
def factorise(matrix: Floats, right: Floats) -> None:
    """Cholesky factor U of a positive definite matrix = U'U, and U'^-1 right, both in place.

    Only the upper triangle is used. Updates run along rows, which the compiler vectorises. The diagonal is
    kept in the first column below it, to compare the pivots with.
    """
    size, columns = right.shape
    for j in range(size):
        matrix[j, 0] = matrix[j, j]
    for j in range(size):
        root = math.sqrt(matrix[j, j]) if matrix[j, j] > SMALLEST_PIVOT * matrix[j, 0] else 1e100
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
def rotate_in(factor: Floats, right: Floats, row: Floats, beside: Floats) -> None:
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
def column_product(right: Floats, a: int, b: int) -> float:
    """Inner product of two columns."""
    product = 0.0
    for k in range(right.shape[0]):
        product += right[k, a] * right[k, b]
    return product


@kernel_in_place
def solve_shared(matrix: Floats, right: Floats) -> None:
    """Gaussian elimination with row pivoting, in place; a singular matrix gives non-finite numbers."""
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

"""Reductions of arrays, one element after the other: the same bits in every mode, and little to compile."""

from __future__ import annotations

import math
from typing import Any

from osrl.jit import kernel_in_place


@kernel_in_place
def sequential_sum(values: Any) -> float:
    """Return the sum of all elements, one after the other: numpy adds eight or more in another order.

    >>> import numpy as np
    >>> sequential_sum(np.array([[0.1, 0.2], [0.3, 0.4]])) == ((0.1 + 0.2) + 0.3) + 0.4
    True
    """
    total = 0.0
    for value in values.flat:
        total += value
    return total


@kernel_in_place
def copy_into(values: Any, to: Any) -> None:
    """Write all elements of an array into another of the same shape.

    The compiler takes seconds over ``to[:] = values``: it is ready to tell which shapes do not match.
    """
    for i in range(values.size):
        to.flat[i] = values.flat[i]


@kernel_in_place
def any_nonzero(flags: Any) -> bool:
    """Tell whether any element is true, or not 0."""
    for flag in flags.flat:
        if flag:
            return True
    return False


@kernel_in_place
def minimum(values: Any) -> float:
    """Return the least element; infinite where there is none."""
    least = math.inf
    for value in values.flat:
        least = min(least, value)
    return least


@kernel_in_place
def maximum(values: Any) -> float:
    """Return the largest element; minus infinity where there is none."""
    most = -math.inf
    for value in values.flat:
        most = max(most, value)
    return most

"""`sum_of`: a sum that has the same bits, whether a kernel is interpreted or compiled."""

from __future__ import annotations

from typing import Any

from osrl.compiled import kernel


@kernel
def sum_of(values: Any) -> float:
    """The sum of all elements, one after the other: numpy adds eight or more in another order.

    >>> import numpy as np
    >>> sum_of(np.array([[0.1, 0.2], [0.3, 0.4]])) == ((0.1 + 0.2) + 0.3) + 0.4
    True
    """
    total = 0.0
    for value in values.flat:
        total += value
    return total

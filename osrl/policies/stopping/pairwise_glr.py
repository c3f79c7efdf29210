"""Who beats whom in a task: likelihood ratios of two arms, with the prices of their samples taken off."""

from __future__ import annotations

from osrl.jit.kernel import kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.policies.stopping.arm_stats import PULLS, ratio
from osrl.policies.stopping.thresholds import exploration


@kernel_in_place
def compare(arms: Floats, beaten: Floats, by: Integers, x: int, a: int, charged: float, noise: float) -> None:
    """Bring up to date by how much each arm of task ``x`` is beaten (n,), after a reward of arm ``a``.

    ``by`` (n,) says which arm beats it most, -1 for none; ``charged`` is how much of the prices is taken off.
    """
    beaten[a], by[a] = 0.0, -1
    for b in range(beaten.size):
        if b == a:
            continue
        against = lead(arms, x, a, b, charged, noise)
        if -against > beaten[a]:
            beaten[a], by[a] = -against, b
        if against > beaten[b]:
            beaten[b], by[b] = against, a
        elif by[b] == a:
            beaten[b], by[b] = 0.0, -1
            for c in range(beaten.size):
                value = lead(arms, x, c, b, charged, noise) if c != b else 0.0
                if value > beaten[b]:
                    beaten[b], by[b] = value, c


@kernel_in_place
def lead(arms: Floats, x: int, a: int, b: int, charged: float, noise: float) -> float:
    """By how much arm ``a`` beats arm ``b``, prices taken off; negative when ``b`` does."""
    price = charged * (exploration(arms[PULLS, x, a]) + exploration(arms[PULLS, x, b]))
    value = ratio(arms, x, a, b, noise)
    return float(max(value - price, 0.0) if value > 0.0 else min(value + price, 0.0))

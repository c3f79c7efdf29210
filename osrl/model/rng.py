"""Random draws by counter: the n-th draw of a seed is a function of (seed, n) alone.

Threefry-2x32 with 20 rounds (Salmon et al., 2011): sums, rotations and exclusive ors of 32-bit words,
so that it gives the same bits compiled and interpreted. A `Key` belongs to one run of one seed;
a *lane* of it to one purpose, such as the choices of the policy or the rewards of one arm.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats

_MASK = 0xFFFFFFFF

CHOICE_LANE = 0  # the lane of the driver's own draws
START_LANE = 1  # the lane of the one number that a policy may start with; reward lanes follow
FIRST_REWARD_LANE = 16


class Key(NamedTuple):
    """The key of one run: two 32-bit words."""

    low: int
    high: int


@kernel
def _mix(a: int, b: int, rotation: int) -> tuple[int, int]:
    """Do one round: add, rotate, exclusive or."""
    a = (a + b) & _MASK
    b = (((b << rotation) & _MASK) | (b >> (32 - rotation))) ^ a
    return a, b


@kernel
def threefry(low: int, high: int, a: int, b: int) -> tuple[int, int]:
    """Return two random 32-bit words for the counter (a, b) under the key (low, high).

    >>> [hex(word) for word in threefry(0, 0, 0, 0)]
    ['0x6b200159', '0x99ba4efe']
    """
    last = 0x1BD11BDA ^ low ^ high
    a = (a + low) & _MASK
    b = (b + high) & _MASK
    a, b = _mix(a, b, 13)
    a, b = _mix(a, b, 15)
    a, b = _mix(a, b, 26)
    a, b = _mix(a, b, 6)
    a = (a + high) & _MASK
    b = (b + last + 1) & _MASK
    a, b = _mix(a, b, 17)
    a, b = _mix(a, b, 29)
    a, b = _mix(a, b, 16)
    a, b = _mix(a, b, 24)
    a = (a + last) & _MASK
    b = (b + low + 2) & _MASK
    a, b = _mix(a, b, 13)
    a, b = _mix(a, b, 15)
    a, b = _mix(a, b, 26)
    a, b = _mix(a, b, 6)
    a = (a + low) & _MASK
    b = (b + high + 3) & _MASK
    a, b = _mix(a, b, 17)
    a, b = _mix(a, b, 29)
    a, b = _mix(a, b, 16)
    a, b = _mix(a, b, 24)
    a = (a + high) & _MASK
    b = (b + last + 4) & _MASK
    a, b = _mix(a, b, 13)
    a, b = _mix(a, b, 15)
    a, b = _mix(a, b, 26)
    a, b = _mix(a, b, 6)
    a = (a + last) & _MASK
    b = (b + low + 5) & _MASK
    return a, b


@kernel
def new_key(seed: int, run: int) -> Key:
    """Return the key of run number ``run`` of ``seed`` (any 63-bit number)."""
    low, high = threefry(seed & _MASK, (seed >> 32) & _MASK, run & _MASK, (run >> 32) & _MASK)
    return Key(low, high)


@kernel_in_place
def uniform(key: Key, lane: int, n: int) -> float:
    """Return the n-th number in [0, 1) of a lane, with 53 random bits."""
    a, b = threefry(key.low, key.high, lane, n)
    return ((a >> 5) * 67108864.0 + (b >> 6)) / 9007199254740992.0


@kernel_in_place
def pick_arm(propensities: Floats, draw: float) -> int:
    """Return the arm x * n + a that a number in [0, 1) picks from the probabilities (X, n)."""
    tasks, n = propensities.shape
    last = 0
    for x in range(tasks):
        for a in range(n):
            p = propensities[x, a]
            if p > 0.0:
                last = int(x * n + a)
                draw -= float(p)
                if draw < 0.0:
                    return last
    return last


@kernel_in_place
def reward(key: Key, lane: int, n: int, mean: float, noise: float, bounded: bool) -> float:
    """Return the n-th reward of an arm: a coin, a normal number, or u^((1 - mean) / mean) if bounded."""
    u = uniform(key, lane, n)
    if noise > 0.0:
        angle = 2.0 * math.pi * uniform(key, lane + 1, n)
        return mean + math.sqrt(-2.0 * noise * math.log(1.0 - u)) * math.cos(angle)
    if bounded:
        if mean <= 0.0 or mean >= 1.0:
            return mean
        return math.pow(1.0 - u, (1.0 - mean) / mean)
    return 1.0 if u < mean else 0.0

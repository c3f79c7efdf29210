"""Which arm the paper's rules draw, and whether they stop: transcribed literally and slowly.

Weights are given; everything else is computed from pulls N_t and estimates. Nothing is imported from
``osrl``. Arrays are (X, G, H) for the algorithm of the paper and (n,) for track-and-stop in one task.
"""

from __future__ import annotations

import itertools
import math

from tests.oracle import paper as oracle
from tests.oracle.paper import Array

Cell = tuple[int, int, int]


def osrl_sc_choice(pulls: Array, means: Array, weights: Array) -> Cell:
    """Return the arm of round t + 1 (lines 6 to 10 of Algorithm 1); every arm once to begin with."""
    X, G, H = means.shape
    cells = list(itertools.product(range(X), range(G), range(H)))
    t = pulls.sum()
    under_sampled = [cell for cell in cells if pulls[cell] < math.sqrt(t) - G * H * X / 2]
    if pulls.min() >= 1 and not under_sampled and oracle.in_class(means):
        return max(cells, key=lambda cell: t * weights[cell] - pulls[cell])
    return min(cells, key=lambda cell: pulls[cell])


def osrl_sc_margin(pulls: Array, means: Array, delta_g: float, noise: float, *, theorem: bool) -> float:
    """Return max_g Psi_t(g) - beta_t(delta_G): phase 1 stops where it is positive, never outside the class M."""
    if not oracle.in_class(means):
        return -math.inf
    psi = max(oracle.psi(pulls, means, g, noise).value for g in range(means.shape[1]))
    shape = (means.shape[0], means.shape[1], means.shape[2])
    return psi - oracle.beta_2(shape, delta_g) - (oracle.beta_1(pulls) if theorem else 0.0)


def best_representation(means: Array) -> int:
    """Return argmax_g mu-hat(g) of an estimate in the class M."""
    best = oracle.best_arms(means)
    assert best is not None
    return best.g


def leaders(means: Array) -> list[int]:
    """Return the arms of one task that share the largest estimate."""
    return [a for a in range(means.size) if means[a] == means.max()]


def tas_choice(pulls: Array, means: Array, weights: Array) -> int:
    """Return the arm of D-tracking (Garivier and Kaufmann, 2016) in one task; of equals, the least pulled."""
    t, n = pulls.sum(), pulls.size
    under_sampled = [a for a in range(n) if pulls[a] < math.sqrt(t) - n / 2]
    if pulls.min() < 1 or under_sampled:
        return min(range(n), key=lambda a: pulls[a])
    if len(leaders(means)) > 1:
        return min(leaders(means), key=lambda a: pulls[a])
    return max(range(n), key=lambda a: t * weights[a] - pulls[a])


def tas_margin(pulls: Array, means: Array, delta: float, noise: float) -> float:
    """Return the least evidence for the leader against another arm, beyond the threshold."""
    if pulls.min() < 1 or len(leaders(means)) > 1:
        return -math.inf
    best = leaders(means)[0]
    evidence = min(
        oracle.two_arm_cost(pulls[best], means[best], pulls[a], means[a], noise) for a in range(means.size) if a != best
    )
    return evidence - oracle.track_and_stop_threshold(float(pulls.sum()), means.size, delta, noise)

"""Lower bounds: how many samples any policy needs on a given instance.

With the needs k_G = kl(delta_G, 1 - delta_G) and k_H = kl(delta_H, 1 - delta_H):

- ``K`` (Theorem 1, as printed): both the representation and the predictors are to be found. Its proof does
  not support it, and there are policies below it;
- ``K_sharp``: the largest bound for every policy that is proved here (docs/bound.md). At a model on the
  boundary between two answers each of them is wrong for models nearby, so that both have small
  probabilities, and a policy may well go on for ever. The needs are (1 - delta_G) ln((1 - delta_G) / delta_G)
  and, with r = 1 - delta_G - delta_H, r ln(r / delta_H); 0 once delta_G >= 1/2, or delta_G + 2 delta_H >= 1;
- ``K_G``, ``K_H`` (Proposition 1): one of the two alone; K <= K_G + K_H;
- ``K_valid``: what the proof of Theorem 1 really implies. Under an alternative with the same
  representation a (delta_G, delta_H)-PAC policy is right only with probability
  1 - delta_G - delta_H, so the predictor tests need
  max(kl(1 - delta_G - delta_H, delta_H), kl(delta_H, 1 - delta_G - delta_H)), or nothing once
  delta_G + 2 delta_H >= 1; a risk of 1/2 or more needs nothing either. In return their
  alternatives must stay in the model class, which costs ell instead of the smaller f. K_valid <= K_sharp;
- ``L_G`` (Proposition 2): an upper bound of K_G in which each representation is refuted in one task;
- ``K_epsilon``, for a tolerance: to give an answer that is good enough, where that is known (`osrl.bounds.tolerance`);
- ``K_G_sigma`` = C_sigma k_G (Theorem 3): K_G with the paper's regulariser.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from osrl.allocation import Allocation, Needs, allocate
from osrl.allocation.partition import best_partition
from osrl.bounds.tolerance import WithinBound, bound_within
from osrl.model.arrays import Floats
from osrl.model.families import divergence
from osrl.model.instance import BestArms, Given, Instance, read_instance
from osrl.model.risks import read_risks, read_tolerances

DEFAULT_SIGMA = 1e5


class Bound(NamedTuple):
    """A certified interval, lower <= true value <= upper, and the allocation that reaches upper."""

    lower: float
    upper: float
    allocation: Floats  # (X, G, H)


class PartitionBound(NamedTuple):
    """Proposition 2: the task in which each wrong representation is refuted.

    ``exact`` is False where there are too many partitions to try: the value is then that of the
    best one found, which is an upper bound of K_G all the same.
    """

    value: float
    assignment: dict[int, int]  # representation -> task
    exact: bool


class RegularisedBound(NamedTuple):
    """K_G with the regulariser sigma: C_sigma = 1 / max_q (rho - |q|^2 / (2 sigma))."""

    sigma: float
    value: float
    C_sigma: float
    allocation: Floats  # (X, G, H) the q_sigma that the paper tracks


class LowerBound(NamedTuple):
    """Every bound of the paper on one instance, for risks (delta_g, delta_h)."""

    K: Bound
    K_valid: Bound
    K_sharp: Bound
    K_G: Bound
    K_H: Bound
    L_G: PartitionBound
    K_G_sigma: RegularisedBound
    best: BestArms
    delta_g: float
    delta_h: float
    K_epsilon: WithinBound | None = None  # None without a tolerance
    instance: Instance | None = None

    def plot(self) -> Any:
        """Draw the allocation of K as an Altair chart."""
        from osrl.report.notebook import chart

        return chart(self)

    def _repr_html_(self) -> str:
        from osrl.report.notebook import html

        return html(self)


def lower_bound(
    instance: Given,
    *,
    delta_g: float | None = None,
    delta_h: float | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    epsilon_g: float | None = None,
    epsilon_h: float | None = None,
    frequencies: Sequence[float] | None = None,
    sigma: float = DEFAULT_SIGMA,
    tolerance: float = 1e-6,
) -> LowerBound:
    """Return how many samples any policy with these risks needs on ``instance``, at least.

    An instance may be given by its name or as an array of means, as in `osrl.simulate`.

    ``delta`` sets both risks, ``epsilon`` both tolerances (for ``K_epsilon``). ``frequencies``: tasks arrive
    at random in these proportions, and no policy may choose them (for ``K``, ``K_sharp`` and ``K_valid``: by
    Wald's identity each task has its share of the expected number of samples). ``tolerance`` is the relative
    width of the certified intervals; when it cannot be reached they are wider, never wrong.

    >>> bound = lower_bound("paper", delta=0.1)
    >>> round(bound.K_sharp.lower, 1), round(bound.K.lower, 1), round(bound.K_G.upper, 2)
    (2672.8, 2821.0, 44.89)
    """
    instance = read_instance(instance)
    delta_g, delta_h = read_risks(delta, delta_g, delta_h, default=None)
    epsilons = read_tolerances(epsilon, epsilon_g, epsilon_h)
    k_g, k_h = _evidence(1 - delta_g, delta_g), _evidence(1 - delta_h, delta_h)
    valid_g = k_g if delta_g < 0.5 else 0.0
    valid_h = _valid_predictor_need(delta_g, delta_h)
    sharp_g = _answered(1 - delta_g, delta_g)
    sharp_h = _answered(1 - delta_g - delta_h, delta_h)

    def bound(needs: Needs, shares: Sequence[float] | None = None) -> Bound:
        return _invert(allocate(instance, needs, frequencies=shares, tolerance=tolerance))

    partition = best_partition(instance)
    regularised = allocate(instance, Needs.of(instance, 1.0, 0.0), sigma=sigma, tolerance=tolerance)
    C_sigma = _reciprocal(regularised.lower)
    return LowerBound(
        K=bound(Needs.of(instance, k_g, k_h), frequencies),
        K_valid=bound(Needs.of(instance, valid_g, valid_h, pooled=True), frequencies),
        K_sharp=bound(Needs.of(instance, sharp_g, sharp_h, pooled=True), frequencies),
        K_G=bound(Needs.of(instance, k_g, 0.0)),
        K_H=bound(Needs.of(instance, 0.0, k_h)),
        L_G=PartitionBound(k_g * partition.time, partition.assignment, partition.exact),
        K_G_sigma=RegularisedBound(sigma, k_g * C_sigma, C_sigma, regularised.weights),
        best=instance.best,
        delta_g=delta_g,
        delta_h=delta_h,
        K_epsilon=bound_within(instance, (delta_g, delta_h), epsilons) if max(epsilons) > 0 else None,
        instance=instance,
    )


def _evidence(p: float, q: float) -> float:
    """Return kl(p, q) of two coins: the evidence that distinguishes events of probabilities p and q."""
    return float(divergence(p, q, 0.0))


def _valid_predictor_need(delta_g: float, delta_h: float) -> float:
    """Return the need of the predictor tests that the PAC property really implies."""
    right = 1 - delta_g - delta_h
    if right <= delta_h:
        return 0.0
    return max(_evidence(right, delta_h), _evidence(1 - delta_h, delta_g + delta_h))


def _answered(right: float, risk: float) -> float:
    """Return the evidence for an answer of probability ``right``, which at the boundary is only ``risk``."""
    return right * math.log(right / risk) if right > risk else 0.0


def _reciprocal(value: float) -> float:
    """Return 1 / value, infinite where no positive value is left (a regulariser that outweighs all)."""
    return 1.0 / value if value > 0 else math.inf


def _invert(allocation: Allocation) -> Bound:
    """Return the bound K = 1 / z* from an allocation with lower <= z* <= upper."""
    return Bound(_reciprocal(allocation.upper), _reciprocal(allocation.lower), allocation.weights)

"""`sweep`: plans over several risks and tolerances, to see what each costs before one is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from osrl.errors import OsrlError
from osrl.simulation.plan import DEFAULT, RUNS, Plan, plan


def sweep(
    instance: Any,
    policy: str = DEFAULT,
    *,
    risks: Sequence[float] = (0.01, 0.05, 0.1),
    tolerances: Sequence[float] = (0.0,),
    runs: int = RUNS,
    progress: Callable[[int, int], None] | None = None,
    **conditions: Any,
) -> list[Plan]:
    """A plan for every tolerance and risk, the same for representation and predictors.

    The other arguments are those of `plan`.
    """
    if not risks or not tolerances:
        raise OsrlError("a sweep needs at least one risk and one tolerance, such as 0.01,0.05,0.1")
    pairs = list(product(dict.fromkeys(tolerances), dict.fromkeys(risks)))
    plans = []
    for i, (epsilon, delta) in enumerate(pairs):

        def shown(done: int, total: int, before: int = i * runs) -> None:
            if progress is not None:
                progress(before + done * runs // total, runs * len(pairs))

        plans.append(plan(instance, policy, delta=delta, epsilon=epsilon, runs=runs, progress=shown, **conditions))
    return plans

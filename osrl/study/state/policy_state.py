"""The state of a study's policy: made from its settings, and made anew when arms are withdrawn or added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.model.families import Family
from osrl.model.rng import START_LANE, Key, new_key, uniform
from osrl.policies.contract import Criterion, Problem
from osrl.policies.registry import find
from osrl.study.log.events import Created
from osrl.study.migrations.arrays import old_options
from osrl.study.state.constants import CHECK_LIMITS, TOLERANCE_LIMITS, constants_of
from osrl.study.state.trial import short_id


def new_policy_state(created: Created) -> Any:
    """Return the state of the policy before the first sample, with the constants of this program."""
    shape = len(created.tasks), len(created.representations), len(created.predictors)
    criterion = Criterion(created.threshold, created.delta_g, created.delta_h)
    family = Family(created.family, created.noise_sd)
    problem = Problem(shape, family, (criterion,), created.tolerances)
    logged = {**old_options(created.policy), **created.options}
    options = {name: _tuples(value) for name, value in logged.items()}
    return find(created.policy).new(problem, uniform(policy_key(created), START_LANE, 0), **options)


def policy_key(created: Created) -> Key:
    """Return the key of draws by a seed. Without one it is public, and only says where a policy starts."""
    return new_key(int(short_id(created), 16) if created.seed is None else created.seed, 0)


def change_arms(
    created: Created,
    representations: Sequence[str],
    predictors: Sequence[str],
    tasks: Sequence[str] | None = None,
) -> Created:
    """Return the settings with these arms, and ``tasks`` if they are others than before.

    Constants stay, but for limits that depend on the number of arms.
    """
    now = replace(
        created,
        tasks=list(created.tasks if tasks is None else tasks),
        representations=list(representations),
        predictors=list(predictors),
        id=short_id(created),
    )
    limits = [name for name in (TOLERANCE_LIMITS, CHECK_LIMITS) if name in created.evidence]
    if not limits:
        return now
    fresh = constants_of(new_policy_state(now))
    return replace(now, evidence={**created.evidence, **{name: fresh[name] for name in limits}})


def remaining_names(created: Created, axis: int, name: str) -> list[list[str]] | None:
    """Return the tasks, representations and predictors without one; None where nothing is left to compare."""
    left = [list(created.tasks), list(created.representations), list(created.predictors)]
    left[axis].remove(name)
    return left if all(left) and max(map(len, left[1:])) > 1 else None


def _tuples(value: Any) -> Any:
    """Return lists of JSON as the tuples that they were."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value

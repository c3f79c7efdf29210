"""Best-arm identification for tasks that share a representation.

A learner has X tasks. An arm is a pair (representation g, predictor h): all tasks share the same
best g, and each task has its own best h. The package finds them with as few samples as possible.

The data flow, and the tree:

    instance -> alternatives, glr -> allocation -> bounds, thresholds -> policies -> simulation | study

- `Instance`: means, names and reward family of a problem
- `lower_bound`: how many samples any policy needs (`osrl.bounds.lower`)
- `allocate`, `Needs`: the optimal allocation, with a certificate (`osrl.allocation`)
- `rho`: how fast an allocation learns the shared representation (`osrl.glr.statistic`)
- `simulate`, `Runs`: replications of a policy on an instance (`osrl.simulation`)
- `plan`: how many trials an experiment will need, before it begins (`osrl.simulation.plan`)
- `Study`, `Trial`: a live experiment, with ask and tell (`osrl.study`)
- `connect`, `connect_async`: a study that a server keeps (`osrl.client`, `osrl.service`)
- `analyse`: what a log proves that was collected elsewhere (`osrl.analysis`)
- `OsrlError`: what the package raises, with several kinds below it (`osrl.errors`)

Names are imported on first use, so that `import osrl` costs nothing.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osrl.allocation import Allocation, Needs, allocate
    from osrl.analysis.verdict import analyse
    from osrl.bounds.lower import LowerBound, lower_bound
    from osrl.client import connect, connect_async
    from osrl.errors import (
        AccessRefused,
        BudgetSpent,
        OsrlError,
        RewardRefused,
        StorageBusy,
        StorageDamaged,
        StorageError,
        StudyEnded,
        StudyPaused,
        UnknownStudy,
        UnknownTrial,
    )
    from osrl.glr.statistic import rho
    from osrl.model.instance import Instance
    from osrl.simulation.api import simulate
    from osrl.simulation.plan import plan
    from osrl.simulation.runs import Runs
    from osrl.study.state.trial import Trial
    from osrl.study.study import Study

_MODULES = {  # of all names but the errors
    "Allocation": "osrl.allocation",
    "Instance": "osrl.model.instance",
    "LowerBound": "osrl.bounds.lower",
    "Needs": "osrl.allocation",
    "Runs": "osrl.simulation.runs",
    "Study": "osrl.study.study",
    "Trial": "osrl.study.state.trial",
    "allocate": "osrl.allocation",
    "analyse": "osrl.analysis.verdict",
    "connect": "osrl.client",
    "connect_async": "osrl.client",
    "lower_bound": "osrl.bounds.lower",
    "plan": "osrl.simulation.plan",
    "rho": "osrl.glr.statistic",
    "simulate": "osrl.simulation.api",
}

__all__ = [
    "AccessRefused",
    "Allocation",
    "BudgetSpent",
    "Instance",
    "LowerBound",
    "Needs",
    "OsrlError",
    "RewardRefused",
    "Runs",
    "StorageBusy",
    "StorageDamaged",
    "StorageError",
    "Study",
    "StudyEnded",
    "StudyPaused",
    "Trial",
    "UnknownStudy",
    "UnknownTrial",
    "allocate",
    "analyse",
    "connect",
    "connect_async",
    "lower_bound",
    "plan",
    "rho",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'osrl' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES.get(name, "osrl.errors")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


if os.path.isdir(os.path.join(__path__[0], "algorithms")):
    warnings.warn(
        "files of another project are mixed into this package: osrl-lib installs a module osrl, too; "
        "uninstall both, and install one of them in each environment",
        stacklevel=2,
    )

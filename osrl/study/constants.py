"""The constants of the evidence: written down when a study begins, and used from there ever after.

A later version of the package may bet otherwise. A study goes on with the bets that it began with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osrl.errors import OsrlError
from osrl.evidence.betting import SAFE
from osrl.policies.betting import SHRINKAGE, Tests
from osrl.policies.states import arrays_of
from osrl.study.events import Created, to_lists

_FIXED = {"shrinkage": SHRINKAGE, "largest_loss": SAFE}  # they are compiled into the kernels


def constants_of(state: Any) -> dict[str, Any]:
    """Every constant of the evidence of a new state; none for policies that bet not."""
    tests = getattr(state, "tests", None)
    if not isinstance(tests, Tests):
        return {}
    bets = {name: to_lists(array) for name, array in arrays_of(tests.bets)}
    return {**_FIXED, "limits": tests.limits.tolist(), "bets": bets}


def set_constants(state: Any, created: Created) -> None:
    """Let a new state bet as the study did when it began; refused where this program cannot."""
    if not created.evidence:
        return
    tests: Tests = state.tests
    for name, value in _FIXED.items():
        if created.evidence[name] != value:
            raise _refusal(created, f"{name} = {created.evidence[name]}; this one has {value}")
    own = {"limits": tests.limits, **dict(arrays_of(tests.bets))}
    kept = {"limits": created.evidence["limits"], **created.evidence["bets"]}
    if own.keys() != kept.keys() or any(own[name].shape != np.shape(kept[name]) for name in own):
        raise _refusal(created, "other kinds of bets")
    for name, array in own.items():
        array[...] = np.array(kept[name], float)


def _refusal(created: Created, what: str) -> OsrlError:
    began = created.versions.get("osrl", "unknown")
    return OsrlError(f"the study was begun by osrl {began} with {what}; go on with that version")

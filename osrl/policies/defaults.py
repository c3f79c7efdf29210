"""What a rule gets that leaves its state to us: pulls and sums of every arm, in plain numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.jit.kernel import kernel
from osrl.model.arrays import Floats
from osrl.model.outcome import EXHAUSTED, STATUS


class Tally(NamedTuple):
    """Samples so far; arrays are updated in place."""

    pulls: Floats  # (X, n)
    sums: Floats  # (X, n) of rewards


def new_tally(problem: Any, draw: float) -> Tally:
    """Nothing sampled yet."""
    X, G, H = problem.shape
    return Tally(np.zeros((X, G * H)), np.zeros((X, G * H)))


def tally_reward(tally: Any, stopping: Any, x: int, a: int, reward: float) -> None:
    """Add a reward of arm ``a`` of task ``x``."""
    tally.pulls[x, a] += 1.0
    tally.sums[x, a] += reward


def tally_type(name: str, select: Callable[..., Any]) -> type[Tally]:
    """A type of its own for the tally of a rule: rules are found by the types of their states."""
    if hasattr(select, "py_func"):
        raise OsrlError(
            f"sampling rule {name!r} is compiled and has no state; give new and the NamedTuple that it makes "
            "as state, or leave @kernel out"
        )
    return type(f"TallyOf_{name}", (Tally,), {"__slots__": (), "__module__": select.__module__})


def missing(*_: Any) -> Any:
    """Stands for a function that a rule has to have."""
    raise OsrlError("a function of the rule is missing")


@kernel
def no_guess(stopping: Any, criterion: int) -> None:
    """A run that is cut short has no answer."""
    stopping.outcome.reached[STATUS, criterion] = EXHAUSTED


def check_functions(rule: Any, name: str, needed: tuple[str, ...], words: str) -> None:
    """Refuse a rule without the functions that it has to have."""
    for each in needed:
        if getattr(rule, each) is missing or not callable(getattr(rule, each)):
            raise OsrlError(f"{name} has no {each}; give it {words}")

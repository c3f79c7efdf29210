"""Checks of rules from outside the package: an error is one line that names the function and what is wrong with it.

Functions in plain Python are checked whenever they are called. Compiled ones are rehearsed once, uncompiled,
on a copy of the first state; afterwards the loop itself looks at arms and probabilities.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from osrl.errors import OsrlError
from osrl.model.arrays import Floats
from osrl.policies.contract import Policy, SamplingRule, State, StoppingRule
from osrl.policies.state_arrays import arrays_of

Function = Callable[..., Any]
_REHEARSED: set[tuple[type, type]] = set()
_NOISE = (
    "Failed in",
    "During:",
    "File ",
    "<source",
    "There are",
    "This error",
    "- Resolution",
    "raised from",
)


def checked_rules(sampling: SamplingRule, stopping: StoppingRule) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the functions of two rules by name, those in plain Python from outside the package with checks."""
    return _checked(sampling, stopping, _plain), _checked(stopping, stopping, _plain)


def dry_run(policy: Policy, state: State) -> None:
    """Call the functions of rules from outside once, uncompiled, on a copy of the first state."""
    kinds = type(state.sampling), type(state.stopping)
    if policy.outside is None or kinds in _REHEARSED:
        return
    one = _checked(policy.sampling, policy.stopping, _uncompiled)
    other = _checked(policy.stopping, policy.stopping, _uncompiled)
    sampling, stopping = copy.deepcopy(state.sampling), copy.deepcopy(state.stopping)
    X, n = state.outcome.pulls.shape[1:]
    propensities = np.zeros((X, n))
    if _is_ours(policy.sampling):
        for _ in range(2):
            if one["wants_design"] is not None and one["wants_design"](sampling, stopping):
                one["design"](sampling, stopping)
            one["select"](sampling, stopping, -1, propensities)
            if one["observe"] is not None:
                one["observe"](sampling, stopping, 0, 0, 1.0)
    if _is_ours(policy.stopping):
        ticket = np.zeros(policy.stopping.ticket_size(stopping))
        if other["ticket"] is not None:
            other["ticket"](stopping, 0, 0, np.full(n, 1.0 / n), ticket)
        other["observe"](stopping, 0, 0, 1.0, ticket)
        other["conclude"](stopping, 0)
    _REHEARSED.add(kinds)


def invalid_choice(policy: Policy, state: State, propensities: Floats, rounds: int) -> OsrlError:
    """Return the error for a compiled ``select`` that returned no arm, or wrote no probabilities."""
    check = _checked_select(policy.sampling, policy.stopping, policy.sampling.select)
    try:
        check(state.sampling, state.stopping, -1, propensities)
    except OsrlError as error:
        return OsrlError(f"in round {rounds + 1}: {error}")
    return OsrlError(f"{_name(policy.sampling, 'select')} was wrong in round {rounds + 1}, and is not now")


def compile_error(policy: Policy, error: Exception) -> OsrlError:
    """Return an error of one line in place of the compiler's many."""
    lines = [line.strip(" -") for line in str(error).replace("\x1b[1m", "").splitlines()]
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    said = [line for line in lines if line and not line.startswith(_NOISE) and "^" not in line]
    untyped = [line for line in said if line.startswith(("Untyped", "NameError", "Unknown", "No "))]
    reason = (untyped or said or ["it does not say why"])[0].rstrip(":")
    places = re.findall(r'File "([^"]+)", line (\d+)', str(error))
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return OsrlError(
        f"policy {policy.name!r} does not compile: {reason}{where}; write it with what Numba knows, or leave "
        "@kernel out"
    )


def _is_ours(rule: SamplingRule | StoppingRule) -> bool:
    """Tell whether a rule is from outside the package, so that its author can mend it."""
    return rule.state.__module__.partition(".")[0] != __name__.partition(".")[0]


def _plain(function: Function) -> Function | None:
    """Return a function to check whenever it is called; None where it is compiled."""
    return None if hasattr(function, "py_func") else function


def _uncompiled(function: Function) -> Function | None:
    return getattr(function, "py_func", function)


def _checked(
    rule: SamplingRule | StoppingRule, stopping: StoppingRule, look: Callable[[Function], Function | None]
) -> dict[str, Any]:
    """Return the functions of a rule; those that ``look`` returns are checked."""
    names: tuple[str, ...]
    if isinstance(rule, SamplingRule):
        names = ("wants_design", "design", "select", "observe", "weights")
    else:
        names = ("ticket", "observe", "forfeit", "stream", "conclude", "evidence")
    found = {name: getattr(rule, name) for name in names}
    if not _is_ours(rule):
        return found
    for name, function in found.items():
        own = None if function is None else look(function)
        if own is None:
            continue
        if name == "select":
            assert isinstance(rule, SamplingRule)
            found[name] = _checked_select(rule, stopping, own)
        elif name in ("design", "observe", "conclude"):
            found[name] = _checked_change(rule, name, own)
        else:
            found[name] = _guarded(rule, name, own)
    return found


def _name(rule: SamplingRule | StoppingRule, function: str) -> str:
    kind = "sampling" if isinstance(rule, SamplingRule) else "stopping"
    return f"{function} of {kind} rule {rule.name!r}"


def _guarded(rule: SamplingRule | StoppingRule, name: str, function: Function) -> Function:
    """Wrap a function, so that its errors are one line."""

    def call(*values: Any) -> Any:
        try:
            return function(*values)
        except OsrlError:
            raise
        except Exception as error:
            raise OsrlError(f"{_name(rule, name)} failed: {type(error).__name__}: {error}") from error

    return call


def _checked_select(rule: SamplingRule, stopping: StoppingRule, function: Function) -> Function:
    """Wrap ``select``, and check what it returns and writes."""
    guarded, name = _guarded(rule, "select", function), _name(rule, "select")

    def select(sampling: Any, state: Any, task: int, propensities: Floats) -> int:
        arm = guarded(sampling, state, task, propensities)
        wanted = (
            f"the contract wants an arm x * n + a, a whole number from 0 to {propensities.size - 1}, or -1 "
            "with a probability for each arm in propensities"
        )
        if not isinstance(arm, Integral) or isinstance(arm, bool):
            raise OsrlError(f"{name} returned {arm!r}; {wanted}")
        if not -1 <= int(arm) < propensities.size:
            raise OsrlError(f"{name} returned {int(arm)}; {wanted}")
        if int(arm) == -1:
            if np.isnan(propensities).any():
                raise OsrlError(f"{name} wrote a probability that is NaN; {wanted}")
            total = float(propensities.sum())
            if (propensities < 0).any() or not abs(total - 1) < 1e-6:
                raise OsrlError(f"{name} wrote probabilities that sum to {total:g}; {wanted}")
        elif stopping.randomised and not getattr(state, "by_counts", False):
            raise OsrlError(
                f"{name} returned an arm, and stopping rule {stopping.name!r} needs draws; write a "
                "probability for each arm in propensities and return -1, or pair it with counts or glr"
            )
        return int(arm)

    return select


def _checked_change(rule: SamplingRule | StoppingRule, function_name: str, function: Function) -> Function:
    """Wrap a function that changes the state of its rule, and check the shapes of the arrays."""
    guarded, name = _guarded(rule, function_name, function), _name(rule, function_name)

    def change(state: Any, *rest: Any) -> None:
        before = [(part, array.shape, array.dtype) for part, array in arrays_of(state)]
        returned = guarded(state, *rest)
        if returned is not None:
            raise OsrlError(
                f"{name} returned {type(returned).__name__}; it changes the arrays of its state in place and "
                "returns nothing"
            )
        for (part, shape, kind), (_, array) in zip(before, arrays_of(state), strict=True):
            if array.shape != shape or array.dtype != kind:
                raise OsrlError(
                    f"{name} changed {part!r} from {kind} {shape} to {array.dtype} {array.shape}; the shape "
                    "of a state stays as new has made it"
                )

    return change

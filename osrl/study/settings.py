"""What a study is created with: names, rewards, risks, policy; checked, with every default written out."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, TypedDict, Unpack

import numpy as np

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.errors import OsrlError
from osrl.model.families import Family, read_limits
from osrl.model.instance import Instance
from osrl.model.risks import read_risks, read_tolerances
from osrl.policies.contract import Policy
from osrl.policies.registry import find
from osrl.study.log.events import REVISION, Created
from osrl.study.log.versions import versions
from osrl.study.state.constants import constants_of
from osrl.study.state.policy_state import new_policy_state

MAX_INTEGER = 2**63 - 1

Names = Sequence[str] | int
Place = str | os.PathLike[str]  # a SQLite file, or the URL of a database or a server


class _AxisNames(TypedDict):
    tasks: Names
    representations: Names
    predictors: Names


class CreateOptions(_AxisNames, total=False):
    """The options of a new study, besides its name; `osrl.Study.create` explains them."""

    family: str
    noise_sd: float | None
    low: float | None
    high: float | None
    harm_limit: float | None
    delta: float | None
    delta_g: float | None
    delta_h: float | None
    epsilon: float | None
    epsilon_g: float | None
    epsilon_h: float | None
    model_check: float | None
    seed: int | None
    budget: int | None
    policy: str
    threshold: str | None
    options: Mapping[str, Any] | None


DEFAULT_NAME = "study"
DEFAULTS = {"family": "bernoulli", "policy": "osrl"}  # of `CreateOptions`; None for the others


def new_settings(**options: Unpack[CreateOptions]) -> Created:
    """Return the first event of a study; refuse options with which it cannot be run."""
    _check_option_names(options)
    given: dict[str, Any] = {**dict.fromkeys(CreateOptions.__optional_keys__), **DEFAULTS, **options}
    axes = {key: given[key] for key in ("tasks", "representations", "predictors")}
    counts = [_count(key, names) for key, names in axes.items()]
    lists = [None if isinstance(names, Integral) else names for names in axes.values()]
    # An instance checks its names; its means do not matter here.
    named = Instance(np.zeros(counts), Family(given["family"], given["noise_sd"]), *lists)
    rule = find(given["policy"])
    risks = [read_risks(given["delta"], given["delta_g"], given["delta_h"])]
    criterion = rule.criteria(risks, None if given["threshold"] is None else [given["threshold"]])[0]
    tolerances = read_tolerances(given["epsilon"], given["epsilon_g"], given["epsilon_h"])
    rule.check_tolerance([criterion], tolerances)
    limits = read_limits(named.family.name, given["low"], given["high"])
    model_check = _model_check(rule, given["model_check"], limits[1] - limits[0])
    if criterion.threshold in rule.unproved:
        raise OsrlError(
            f"nobody has proved that policy {given['policy']!r} with threshold {criterion.threshold!r} keeps its "
            "risks; it is there to be simulated. Use policy 'osrl', or another threshold"
        )
    seed, budget = given["seed"], given["budget"]
    created = Created(
        list(named.tasks),
        list(named.representations),
        list(named.predictors),
        named.family.name,
        named.family.noise_sd,
        criterion.delta_g,
        criterion.delta_h,
        None if seed is None else _whole("seed", seed, 0, "a whole number below 2^63"),
        None if budget is None else _whole("budget", budget, 1, "the largest number of trials, at least 1"),
        rule.name,
        criterion.threshold,
        _options(rule, {**(given["options"] or {}), **model_check}),
        {},
        versions(),
        secrets.token_hex(16),
        *tolerances,
        *limits,
        _harm_limit(given["harm_limit"]),
        REVISION,
    )
    return replace(created, evidence=constants_of(_try_out(created)))


def _check_option_names(given: Mapping[str, object]) -> None:
    """Refuse names of options as Python does those of arguments."""
    if unknown := sorted(given.keys() - CreateOptions.__annotations__.keys()):
        raise TypeError(f"a study has no option {unknown[0]!r}")
    if missing := sorted(CreateOptions.__required_keys__ - given.keys()):
        raise TypeError(f"a study needs the option {missing[0]!r}")


def _model_check(rule: Policy, margin: float | None, scale: float) -> dict[str, float]:
    """Return the option of the policy for a model check with this margin, given in the scale of the rewards."""
    if margin is None:
        return {}
    if isinstance(margin, bool) or not isinstance(margin, Real) or not 0 <= float(margin) < math.inf:
        raise OsrlError(
            f"model_check is {margin!r}; give the margin by which an answer may be beaten in a task, such as "
            "0.1, or 0 for no check"
        )
    if "model_check" not in rule.option_names:
        raise OsrlError(
            f"policy {rule.name!r} has no model check; leave model_check out, or use policy 'osrl' or 'uniform'"
        )
    return {"model_check": float(margin) / scale}


def _harm_limit(limit: float | None) -> float | None:
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, Real) or not 0 < float(limit) < 1:
        raise OsrlError(f"harm_limit is {limit!r}; give the largest mean harm, a number between 0 and 1")
    return float(limit)


def check_names(tasks: Sequence[str], representations: Sequence[str], predictors: Sequence[str]) -> None:
    """Refuse names that no study could begin with."""
    shape = len(tasks), len(representations), len(predictors)
    Instance(np.zeros(shape), Family("bounded"), list(tasks), list(representations), list(predictors))


def _count(key: str, names: object) -> int:
    """Return how many names are given; a whole number asks for that many default names."""
    if isinstance(names, Integral) and not isinstance(names, bool):
        return _whole(key, names, 1, "a list of names, or how many there are")
    if not isinstance(names, Sequence) or isinstance(names, str | bytes):
        raise OsrlError(f"{key} is {names!r}; give a list of names, or how many there are")
    if not names:
        raise OsrlError(f"{key} is empty; give at least one name")
    return len(names)


def _whole(name: str, value: object, least: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= MAX_INTEGER:
        raise OsrlError(f"{name} is {value!r}; give {what}")
    return int(value)


def _options(policy: Policy, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the policy, defaults written out: a later version may have others."""
    options = policy.options(given)
    try:
        plain: dict[str, Any] = json.loads(json.dumps(options, allow_nan=False))
    except (TypeError, ValueError):
        raise OsrlError(f"the options {options} cannot be stored; give finite numbers or text") from None
    return plain


def _try_out(created: Created) -> Any:
    """Make one state, so that options which the policy cannot use are refused before anything is stored."""
    try:
        return new_policy_state(created)
    except OsrlError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        given = ", ".join(f"{name} = {value}" for name, value in created.options.items())
        raise OsrlError(f"policy {created.policy!r} cannot use {given}: {error}; give other options") from None

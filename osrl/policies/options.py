"""The options of a policy: keyword-only parameters of the ``new`` of its rules, with types and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from numbers import Integral, Real
from types import NoneType
from typing import Any, get_args, get_type_hints

from osrl.errors import OsrlError

INTEGER_LIMIT = 2**63  # numbers beyond it fit no kernel


@lru_cache(maxsize=256)  # asked for each run
def defaults_of(new: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the options that ``new`` takes, with their defaults."""
    parameters = inspect.signature(new).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


def split_options(given: Mapping[str, Any], *makers: Callable[..., Any]) -> list[dict[str, Any]]:
    """Return the options that each of ``makers`` takes, of those given."""
    return [{name: given[name] for name in defaults_of(new) if name in given} for new in makers]


def read_options(policy: str, given: Mapping[str, Any], *makers: Callable[..., Any]) -> dict[str, Any]:
    """Return every option of a policy, as given or its default; refuse one that it does not have."""
    known: dict[str, Any] = {}
    hints: dict[str, Any] = {}
    for new in makers:
        known |= defaults_of(new)
        hints |= get_type_hints(new)
    for name in given:
        if name not in known:
            what = f"it has {', '.join(known)}" if known else "leave it out"
            raise OsrlError(f"policy {policy!r} has no option {name!r}; {what}")
    for name, default in known.items():
        if name not in given and default is inspect.Parameter.empty:
            raise OsrlError(f"policy {policy!r} needs the option {name!r}; give a value for it")
    return {
        name: read_option(name, given[name], hints.get(name)) if name in given else default
        for name, default in known.items()
    }


def read_option(name: str, value: Any, hint: Any) -> Any:
    """Return the value of an option, as the type that the policy declares for it."""
    kinds = get_args(hint) or (hint,)
    if value is None and NoneType in kinds:
        return None
    if bool in kinds or isinstance(value, bool):
        if isinstance(value, bool) and bool in kinds:
            return value
        wanted = "true or false" if bool in kinds else "a number"
    elif isinstance(value, Integral) and abs(int(value)) >= INTEGER_LIMIT:
        wanted = "a smaller number"
    elif int in kinds and isinstance(value, Integral):
        return int(value)
    elif float in kinds and isinstance(value, Real):
        return float(value)
    elif str in kinds and isinstance(value, str):
        return value
    else:
        wanted = "a whole number" if int in kinds else "a number" if float in kinds else "a text"
    raise OsrlError(f"option {name} is {value!r}; give {wanted}")

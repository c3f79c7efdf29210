"""The options of a policy: the keyword-only parameters of its ``new``, with their types and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from numbers import Integral, Real
from types import NoneType
from typing import Any, get_args, get_type_hints

from osrl.errors import OsrlError
from osrl.policies.contract import Policy

MOST = 2**63  # numbers beyond it fit no kernel


def read_options(policy: Policy, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option of the policy: as given, otherwise its default; an error for one that it does not have."""
    hints = get_type_hints(policy.new)
    parameters = inspect.signature(policy.new).parameters.values()
    known = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
    for name in given:
        if name not in known:
            what = f"it has {', '.join(known)}" if known else "leave it out"
            raise OsrlError(f"policy {policy.name!r} has no option {name!r}; {what}")
    return {
        name: read_option(name, given[name], hints.get(name)) if name in given else default
        for name, default in known.items()
    }


def read_option(name: str, value: Any, hint: Any) -> Any:
    """The value of an option, as the type that the policy declares for it."""
    kinds = get_args(hint) or (hint,)
    if value is None and NoneType in kinds:
        return None
    if bool in kinds or isinstance(value, bool):
        if isinstance(value, bool) and bool in kinds:
            return value
        wanted = "true or false" if bool in kinds else "a number"
    elif isinstance(value, Integral) and abs(int(value)) >= MOST:
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

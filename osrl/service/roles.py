"""Roles: what a token allows. `operate` includes `blind` and `read`, and `own` includes all.

| role | what it allows |
|---|---|
| `blind` | ask, tell, abandon, without seeing results |
| `read` | everything that can be seen |
| `operate` | both, and feature flags |
| `own` | create, pause, close, withdraw, delete, correct, and tokens |

A token is for one study or for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

from osrl.errors import AccessRefused, OsrlError

BLIND, READ, OPERATE, OWN = "blind", "read", "operate", "own"
ROLES = (BLIND, READ, OPERATE, OWN)
ENTER = "enter"  # to know that a study is there, and what it was created with
_ALLOWS = {
    BLIND: (ENTER, BLIND),
    READ: (ENTER, READ),
    OPERATE: (ENTER, BLIND, READ, OPERATE),
    OWN: (ENTER, BLIND, READ, OPERATE, OWN),
}
_USUAL = {ENTER: READ, BLIND: OPERATE}  # the role that is asked for

Scope = Literal["study", "every", "any"]
_Function = TypeVar("_Function", bound=Callable[..., object])


class Need(NamedTuple):
    """What a route needs."""

    role: str
    of: Scope


class Grant(NamedTuple):
    """What the bearer of a token may do; ``study`` is None for a study that is no longer there."""

    id: str
    role: str
    study: str | None
    everywhere: bool

    @property
    def blind(self) -> bool:
        """Whether its bearer must not see results."""
        return self.role == BLIND

    def allows(self, role: str, study: str | None) -> bool:
        """Whether something that needs ``role`` may be done to a study; to all of them, where it is None."""
        enough = role in _ALLOWS.get(self.role, ())
        return enough and (self.everywhere or (study is not None and study == self.study))

    def meet(self, need: Need, study: str | None) -> None:
        """Refuse what a route needs and the token does not allow."""
        self.check(need.role, {"study": study, "every": None, "any": self.study}[need.of])

    def check(self, role: str, study: str | None) -> None:
        """Refuse what the token does not allow."""
        if not self.allows(role, study):
            what = f"{_USUAL.get(role, role)!r} for {'all studies' if study is None else f'study {study!r}'}"
            raise AccessRefused(f"this token does not allow that; it takes the role {what}, ask for such a token")


def needs(role: str, of: Scope = "study") -> Callable[[_Function], _Function]:
    """What a route needs: a role for the study that it names, for every study, or for any.

    One that needs it for any looks itself at what the token allows.
    """

    def mark(endpoint: _Function) -> _Function:
        endpoint.__needs__ = Need(role if role == ENTER else read_role(role), of)  # type: ignore[attr-defined]
        return endpoint

    return mark


def read_role(role: str) -> str:
    """The name of a role; an error for one that we do not know."""
    if role not in ROLES:
        raise OsrlError(f"the role is {role!r}; give one of {', '.join(ROLES)}")
    return role

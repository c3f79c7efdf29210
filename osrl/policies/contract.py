"""What a policy is: a state (arrays in a named tuple) and a few functions that act on it.

A policy is written once. The compiled simulation loop and the interactive study call the same
functions, so a trajectory does not depend on who drives it. The functions of a policy:

- ``new(problem, draw, **options)``: the state before the first sample, with an attribute ``outcome``;
- ``select(state, task, propensities) -> int``: the next arm, x * n + a with a = g * H + h. A rule
  that leaves nothing to chance returns it; a randomised one fills ``propensities`` (X, n), the
  probability of each arm, and returns -1: the driver draws. ``task`` is -1 where the policy chooses
  the task, otherwise the task that has arrived;
- ``observe(state, x, a, reward, ticket)``: take in a reward, and write down in the outcome what is
  decided by it;
- ``conclude(state, column)``: the best guess, for a run that is cut short.

Those that are not needed are left out:

- ``wants_design(state) -> bool`` and ``design(state)``: whether it is time to solve for new weights, and
  solving for them. A step of its own, so that a study can log its result;
- ``ticket_size(state) -> int`` and ``ticket(state, x, a, propensities, ticket)``: write what the reward of
  this trial will be judged with, fixed when it is handed out; ``propensities`` (n,) are those of its task;
- ``clear_pending(state)``, ``pend(state, x, a, ticket)``: count the trials that have not reported, by
  their worst reward; ``forfeit(state, x, a, ticket)``: one that never will. Only studies call them;
- ``stream(state) -> int``: which stream of rewards the next trial draws from. Phases that must not
  depend on how long earlier ones lasted have streams of their own.

**Columns.** Where sampling does not depend on the risk, several risks (and thresholds) are read off
one run: every state decides for a list of columns, and the run goes on until all are decided.

**Plain or compiled.** The functions may be plain Python: then rounds are played by the interpreter. With
`osrl.compiled.kernel` on each of them the whole loop is compiled. Either way they are found by the *type* of
the state (`osrl.policies.round`). Policies own no random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numba.core import config

from osrl.arrays import Floats
from osrl.compiled import P, R, kernel_for
from osrl.errors import OsrlError
from osrl.families import Family
from osrl.risks import read_risk
from osrl.stamp import StampError, stamp


class Column(NamedTuple):
    """One way to stop: risks, and the name of the threshold that keeps them."""

    threshold: str
    delta_g: float
    delta_h: float


@dataclass(frozen=True)
class Problem:
    """What a policy knows before its first sample: shape, reward family, how to stop, and the tolerances."""

    shape: tuple[int, int, int]
    family: Family
    columns: tuple[Column, ...]
    epsilon: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Policy:
    """A policy as drivers see it. ``new(problem, draw, **options)`` makes the initial state.

    ``draw`` is one number in [0, 1) for policies that start at random. ``thresholds`` lists the
    names it takes, the default first; ``unproved``: those of them that are only there to compare with,
    because nobody has proved that they keep their risks. ``given_tasks``: works with tasks that arrive
    from outside. ``shares_runs(options)``: sampling does not depend on the risk, so columns share a run.
    ``tolerant``: the thresholds with which it may end within a tolerance.
    """

    name: str
    summary: str
    state: type
    new: Callable[..., Any]
    select: Callable[[Any, int, Floats], int]
    observe: Callable[[Any, int, int, float, Floats], object]
    conclude: Callable[[Any, int], None]
    wants_design: Callable[[Any], bool] | None = None
    design: Callable[[Any], None] | None = None
    ticket_size: Callable[[Any], int] = lambda state: 0
    ticket: Callable[[Any, int, int, Floats, Floats], None] | None = None
    stream: Callable[[Any], int] | None = None
    clear_pending: Callable[[Any], None] | None = None
    pend: Callable[[Any, int, int, Floats], None] | None = None
    forfeit: Callable[[Any, int, int, Floats], None] | None = None
    thresholds: tuple[str, ...] = ("own",)
    unproved: tuple[str, ...] = ()
    given_tasks: bool = False
    tolerant: tuple[str, ...] = ()
    shares_runs: Callable[[Mapping[str, Any]], bool] = lambda options: True

    @property
    def compiled(self) -> bool:
        """Whether the compiler can take all that is called in a round; always where it is switched off."""
        begin = (self.wants_design, self.design, self.select, self.ticket)
        rules = (*begin, self.observe, self.stream, self.conclude)
        interpreted = getattr(config, "DISABLE_JIT")  # noqa: B009 - set by numba at run time
        return bool(interpreted) or all(rule is None or hasattr(rule, "py_func") for rule in rules)

    def columns(
        self, deltas: Sequence[tuple[float, float]], thresholds: Sequence[str] | None = None
    ) -> tuple[Column, ...]:
        """The columns for pairs of risks and names of thresholds (default: the policy's first)."""
        names = self.thresholds[:1] if not thresholds else thresholds
        for name in names:
            if name not in self.thresholds:
                raise OsrlError(
                    f"policy {self.name!r} has no threshold {name!r}; use one of {', '.join(self.thresholds)}"
                )
        for pair in deltas:
            for delta in pair:
                read_risk("the risk", delta)
        return tuple(Column(name, *pair) for name in names for pair in deltas)

    def check_tolerance(self, columns: Sequence[Column], epsilon: tuple[float, float]) -> None:
        """Refuse a tolerance that a column cannot have."""
        for column in columns:
            if max(epsilon) > 0 and column.threshold not in self.tolerant:
                raise OsrlError(
                    f"policy {self.name!r} with threshold {column.threshold!r} has no tolerance; leave "
                    "epsilon out, or use policy 'osrl' or 'uniform'"
                )


_BY_STATE: dict[type, Policy] = {}
_BY_NAME: dict[str, Policy] = {}


def register(policy: Policy) -> Policy:
    """Make a policy known by its name, and its kernels by the type of its state."""
    known = _BY_NAME.get(policy.name)
    if known is not None and known.state.__qualname__ != policy.state.__qualname__:
        raise OsrlError(f"a policy {policy.name!r} exists already; give yours another name")
    owner = _BY_STATE.setdefault(policy.state, policy)
    if owner != policy:  # what is compiled is found by the type of the state, and would be that of the owner
        raise OsrlError(
            f"the state {policy.state.__qualname__} belongs to a policy {owner.name!r} with other kernels; "
            "define or reload its class again, together with the kernels"
        )
    _BY_NAME[policy.name] = policy
    return policy


def find(name: str) -> Policy:
    """The policy called ``name``."""
    if name not in _BY_NAME:
        raise OsrlError(f"unknown policy {name!r}; use one of {', '.join(sorted(_BY_NAME))}")
    return _BY_NAME[name]


def registered() -> tuple[Policy, ...]:
    """Every policy, in the order of registration."""
    return tuple(_BY_NAME.values())


def policy_of(state: Any) -> Policy:
    """The policy that a state belongs to."""
    return _BY_STATE[type(state)]


def policy_of_type(state: Any) -> Policy:
    """The same for the compiler, which knows the type of a state."""
    return _BY_STATE[state.instance_class]


_LOOPS: dict[tuple[Any, type], Any] = {}
_STAMPS: dict[type, str | None] = {}


def stamp_of(policy: Policy) -> str | None:
    """The digest of all code that a policy runs outside the package; None where it cannot be taken.

    Globals are constants for the compiler: when one has changed, the machine code is not what the stamp says.
    """
    found: str | None
    try:
        found = stamp(policy)
    except StampError:
        found = None
    if _STAMPS.setdefault(policy.state, found) != found:
        raise OsrlError(
            f"something that policy {policy.name!r} uses has changed since it was compiled; define or reload "
            "its state, its kernels and what they use again, or start a new process"
        )
    return found


def loop_for(loop: Callable[P, R], policy: Policy) -> Callable[P, R]:
    """The kernel ``loop``, which drives any state, for the states of ``policy``.

    Its machine code holds the kernels of the policy. For a policy outside the package it is cached
    beside those: an edit of the policy is noticed, and other policies are not affected. A policy in plain
    Python is driven by the interpreter.
    """
    module = policy.state.__module__
    if not policy.compiled:
        plain: Callable[P, R] = getattr(loop, "py_func", loop)
        return plain
    if module.split(".")[0] == __name__.split(".")[0]:
        return loop
    if (loop, policy.state) not in _LOOPS:
        stamp_of(policy)  # from now on nothing that it uses may change
        _LOOPS[loop, policy.state] = kernel_for(loop, policy, module)
    own: Callable[P, R] = _LOOPS[loop, policy.state]
    return own

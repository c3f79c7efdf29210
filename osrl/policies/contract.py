"""What a policy is: a state (arrays in a named tuple) and a few kernels that act on it.

A policy is written once. The compiled simulation loop and the interactive study call the same
kernels, so a trajectory does not depend on who drives it. The kernels of a policy:

- ``wants_design(state) -> bool``: is it time to solve for new weights?
- ``design(state)``: solve for new weights. A step of its own, so that a study can log its result;
- ``select(state, task, propensities) -> int``: the next arm, x * n + a with a = g * H + h. A rule
  that leaves nothing to chance returns it; a randomised one fills ``propensities`` (X, n), the
  probability of each arm, and returns -1: the driver draws. ``task`` is -1 where the policy chooses
  the task, otherwise the task that has arrived;
- ``ticket(state, x, a, propensities, room) -> int``: what the reward of this trial will be judged with,
  fixed when the trial is handed out. It is written to the front of ``room``, `room_for` (n) numbers
  of which the rest is free to work in; the result says how many numbers it has;
- ``observe(state, x, a, reward, ticket)``: take in a reward, and write down in ``state.outcome``
  what is decided by it;
- ``conclude(state, column)``: the best guess, for a run that is cut short;
- ``clear_pending(state)``, ``pend(state, x, a, ticket)``: count the trials that have not reported, by
  their worst reward; ``forfeit(state, x, a, ticket)``: one that never will. Only studies call them;
- ``stream(state) -> int``: which stream of rewards the next trial draws from. Phases that must not
  depend on how long earlier ones lasted have streams of their own.

**Columns.** Where sampling does not depend on the risk, several risks (and thresholds) are read off
one run: every state decides for a list of columns, and the run goes on until all are decided.

Policies own no random numbers. They are found by the *type* of their state, both by the
interpreter and, through `numba.extending.overload`, by the compiler: kernels passed as arguments
would be compiled anew in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from osrl.arrays import Floats, Integers
from osrl.compiled import P, R, kernel, kernel_for, kernel_in_place
from osrl.errors import OsrlError
from osrl.families import Family
from osrl.risks import read_risk
from osrl.stamp import StampError, stamp

RUNNING, DECIDED, NO_SHARED, EXHAUSTED = 0, 1, 2, 3
ROOM = 16  # numbers for each arm of a task, and as many more, in which a ticket is written
VERDICTS = ("running", "decided", "no shared representation", "budget exhausted")


class Column(NamedTuple):
    """One way to stop: risks, and the name of the threshold that keeps them."""

    threshold: str
    delta_g: float
    delta_h: float


class Outcome(NamedTuple):
    """What is decided, for each column (arrays are filled in place)."""

    status: Integers  # (R,) RUNNING, DECIDED, NO_SHARED or EXHAUSTED
    tau: Integers  # (R,) samples used
    tau_g: Integers  # (R,) of which until the representation was decided
    representation: Integers  # (R, X) for each task: only some baselines may disagree over tasks
    predictor: Integers  # (R, X)
    pulls: Integers  # (R, X, n)


@kernel
def new_outcome(columns: int, tasks: int, n: int) -> Outcome:
    """Nothing decided yet."""
    return Outcome(
        np.zeros(columns, np.int64),
        np.zeros(columns, np.int64),
        np.zeros(columns, np.int64),
        np.full((columns, tasks), -1),
        np.full((columns, tasks), -1),
        np.zeros((columns, tasks, n), np.int64),
    )


@dataclass(frozen=True)
class Problem:
    """What a policy knows before its first sample: shape, reward family, and how to stop."""

    shape: tuple[int, int, int]
    family: Family
    columns: tuple[Column, ...]


# What policies that need less use in place of a kernel of their own. Not kernels, but functions with
# an implementation for the compiler: a kernel of the package that takes a state from outside would
# leave its type in the package's cache, where processes that cannot import it stumble over it.


def no_ticket(state: Any, x: int, a: int, propensities: Floats, room: Floats) -> int:
    """For policies that judge a reward by itself."""
    return 0


def one_stream(state: Any) -> int:
    """For policies whose rewards all come from one stream."""
    return 0


def nothing_pending(state: Any) -> None:
    """For policies whose evidence does not look at trials that have not reported."""


def no_evidence(state: Any, x: int, a: int, ticket: Floats) -> None:
    """For policies in which a trial without a reward says nothing."""


@overload(no_ticket, inline="always")
def _no_ticket(state, x, a, propensities, room):  # type: ignore[no-untyped-def]
    return lambda state, x, a, propensities, room: 0


@overload(one_stream, inline="always")
def _one_stream(state):  # type: ignore[no-untyped-def]
    return lambda state: 0


@overload(nothing_pending, inline="always")
def _nothing_pending(state):  # type: ignore[no-untyped-def]
    return lambda state: None


@overload(no_evidence, inline="always")
def _no_evidence(state, x, a, ticket):  # type: ignore[no-untyped-def]
    return lambda state, x, a, ticket: None


@dataclass(frozen=True)
class Policy:
    """A policy as drivers see it. ``new(problem, draw, **options)`` makes the initial state.

    ``draw`` is one number in [0, 1) for policies that start at random. ``thresholds`` lists the
    names it takes, the default first; ``unproved``: those of them that are only there to compare with,
    because nobody has proved that they keep their risks. ``given_tasks``: works with tasks that arrive
    from outside. ``shares_runs(options)``: sampling does not depend on the risk, so columns share a run.
    """

    name: str
    summary: str
    state: type
    new: Callable[..., Any]
    wants_design: Callable[[Any], bool]
    design: Callable[[Any], None]
    select: Callable[[Any, int, Floats], int]
    observe: Callable[[Any, int, int, float, Floats], None]
    conclude: Callable[[Any, int], None]
    ticket: Callable[[Any, int, int, Floats, Floats], int]
    stream: Callable[[Any], int]
    clear_pending: Callable[[Any], None] = nothing_pending
    pend: Callable[[Any, int, int, Floats], None] = no_evidence
    forfeit: Callable[[Any, int, int, Floats], None] = no_evidence
    thresholds: tuple[str, ...] = ("own",)
    unproved: tuple[str, ...] = ()
    given_tasks: bool = False
    shares_runs: Callable[[Mapping[str, Any]], bool] = lambda options: True

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


def wants_design(state: Any) -> bool:
    """Whether it is time for `design`."""
    return _BY_STATE[type(state)].wants_design(state)


def design(state: Any) -> None:
    """Solve for new weights."""
    _BY_STATE[type(state)].design(state)


def select(state: Any, task: int, propensities: Floats) -> int:
    """The next arm, or -1 with the probability of each arm in ``propensities``."""
    return _BY_STATE[type(state)].select(state, task, propensities)


def ticket(state: Any, x: int, a: int, propensities: Floats, room: Floats) -> int:
    """Write what the reward of this trial will be judged with; how many numbers it has."""
    return _BY_STATE[type(state)].ticket(state, x, a, propensities, room)


def observe(state: Any, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Take in a reward."""
    _BY_STATE[type(state)].observe(state, x, a, reward, ticket)


def conclude(state: Any, column: int) -> None:
    """Write down the best guess of a run that is cut short."""
    _BY_STATE[type(state)].conclude(state, column)


def stream(state: Any) -> int:
    """Which stream of rewards the next trial draws from."""
    return _BY_STATE[type(state)].stream(state)


# The same seven functions for the compiler, resolved by the type of the state. Each policy's kernel
# is called by name inside a small function that is compiled into the caller.


@overload(wants_design, inline="always")
def _wants_design(state):  # type: ignore[no-untyped-def]
    act = _BY_STATE[state.instance_class].wants_design
    return lambda state: act(state)


@overload(design, inline="always")
def _design(state):  # type: ignore[no-untyped-def]
    act = _BY_STATE[state.instance_class].design
    return lambda state: act(state)


@overload(select, inline="always")
def _select(state, task, propensities):  # type: ignore[no-untyped-def]
    act = _BY_STATE[state.instance_class].select
    return lambda state, task, propensities: act(state, task, propensities)


@overload(ticket, inline="always")
def _ticket(state, x, a, propensities, room):  # type: ignore[no-untyped-def]
    act = _BY_STATE[state.instance_class].ticket
    return lambda state, x, a, propensities, room: act(state, x, a, propensities, room)


@overload(observe, inline="always")
def _observe(state, x, a, reward, ticket):  # type: ignore[no-untyped-def]
    act = _BY_STATE[state.instance_class].observe
    return lambda state, x, a, reward, ticket: act(state, x, a, reward, ticket)


@overload(conclude, inline="always")
def _conclude(state, column):  # type: ignore[no-untyped-def]
    act = _BY_STATE[state.instance_class].conclude
    return lambda state, column: act(state, column)


@overload(stream, inline="always")
def _stream(state):  # type: ignore[no-untyped-def]
    act = _BY_STATE[state.instance_class].stream
    return lambda state: act(state)


@kernel_in_place
def is_open(status: Integers) -> bool:
    """Whether some column is still running."""
    for r in range(status.size):
        if status[r] == RUNNING:
            return True
    return False


def room_for(n: int) -> Floats:
    """Room for the ticket of a trial in a task with ``n`` arms: 16 (n + 1) numbers."""
    return np.empty(ROOM * (n + 1))


def new_ticket(state: Any, x: int, a: int, propensities: Floats) -> Floats:
    """The ticket of a trial, as an array of its own."""
    n = propensities.shape[1]
    room = room_for(2 * n + 1)[: room_for(n).size]  # what is written behind its end does no harm here
    size = ticket(state, x, a, propensities, room)
    if size > room.size:
        raise OsrlError(f"a ticket of {size} numbers; there is room for {room.size}")
    return room[:size].copy()


def policy_of(state: Any) -> Policy:
    """The policy that a state belongs to."""
    return _BY_STATE[type(state)]


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
    beside those: an edit of the policy is noticed, and other policies are not affected.
    """
    module = policy.state.__module__
    if module.split(".")[0] == __name__.split(".")[0]:
        return loop
    if (loop, policy.state) not in _LOOPS:
        stamp_of(policy)  # from now on nothing that it uses may change
        _LOOPS[loop, policy.state] = kernel_for(loop, policy, module)
    own: Callable[P, R] = _LOOPS[loop, policy.state]
    return own

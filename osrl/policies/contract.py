"""What a policy is: a sampling rule and a stopping rule, each a small state and a few functions.

A rule is written once. The compiled simulation loop and the interactive study call the same functions, so a
trajectory does not depend on who drives it. Its state is a named tuple of arrays, which are updated in place,
and constants; arms are numbered a = g * H + h within a task, n = G * H.

**The stopping rule** says when a run is over and what the answer is. Its functions, with its state first:

- ``new(problem, draw, **options)``: the state before the first sample, with an attribute ``outcome``;
- ``observe(stopping, x, a, reward, ticket)``: take in a reward, and write down in the outcome what is
  decided;
- ``conclude(stopping, criterion)``: the best guess, for a run that is cut short.

**The sampling rule** says which arm is next. It may read the state of the stopping rule, and changes only
its own:

- ``new(problem, draw, **options)``: the state before the first sample;
- ``select(sampling, stopping, task, propensities) -> int``: the next arm, x * n + a. A rule that leaves
  nothing to chance returns it; a randomised one fills ``propensities`` (X, n), the probability of each arm,
  and returns -1: the driver draws. ``task`` is -1 where the policy chooses the task, otherwise the task
  that has arrived.

Those that are not needed are left out. Of a sampling rule:

- ``wants_design(sampling, stopping) -> bool`` and ``design(sampling, stopping)``: whether it is time to
  solve for new weights, and solving for them; a step of its own, so that a study can log its result. It may
  bring what the stopping rule has computed up to date. Where many write to a study, weights may be those of a
  slightly older state, and those of ``new`` may have to do for some trials;
- ``observe(sampling, stopping, x, a, reward)``: a reward comes in; the stopping rule takes it in afterwards;
- ``weights(sampling, out)``: write the weights (X, n) that it follows, for traces;
- ``new`` and the type ``state``: without them the state is a `Tally` of pulls and sums, kept up to date.

Of a stopping rule:

- ``ticket_size(stopping) -> int`` and ``ticket(stopping, x, a, propensities, ticket)``: write what the
  reward of this trial will be judged with, fixed when it is handed out; ``propensities`` (n,) are those of
  its task;
- ``clear_pending(stopping)``, ``pend(stopping, x, a, ticket)``: count the trials that have not reported, by
  their worst reward; ``forfeit(stopping, x, a, ticket)``: one that never will. Only studies call them;
- ``stream(stopping) -> int``: which stream of rewards the next trial draws from. Phases that must not
  depend on how long earlier ones lasted have streams of their own;
- ``evidence(stopping, of_g, of_h)``: write the evidence against each representation (G,) and each arm (X, n),
  for traces; NaN where there is none;
- ``conclude``: without it a run that is cut short has no answer.

**Criteria.** Where sampling does not depend on the risk, several risks (and thresholds) are read off one
run: every stopping rule decides for a list of criteria, and the run goes on until all are decided.

**How a rule gets into the loop.** A rule is registered under the type of its state. A driver calls the
functions of `osrl.policies.steps`, which are made from the rules of the two states that they are given: by
the interpreter when it is called, by the compiler when the driver is compiled. Rules may be plain Python:
then rounds are played by the interpreter. With `osrl.jit.kernel.kernel` on each function the whole loop is
compiled. Rules own no random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from osrl.errors import OsrlError
from osrl.jit.fingerprint import StampError, stamp
from osrl.jit.kernel import P, R
from osrl.jit.mode import expect, process, seconds_to_solve
from osrl.model.arrays import Floats
from osrl.model.families import Family
from osrl.model.outcome import Outcome
from osrl.model.risks import read_risk
from osrl.policies.defaults import (
    Tally,
    check_functions,
    missing,
    new_tally,
    no_guess,
    tally_reward,
    tally_type,
)
from osrl.policies.options import defaults_of, read_options, split_options


class Criterion(NamedTuple):
    """When to stop: risks, and the name of the threshold that keeps them."""

    threshold: str
    delta_g: float
    delta_h: float


@dataclass(frozen=True)
class Problem:
    """What a policy knows before its first sample: shape, reward family, when to stop, and the tolerances.

    ``draws``: whether its stopping rule needs draws with known probabilities. ``truth`` are the true means
    (X, G, H), for rules that only a simulation can have, such as an oracle.
    """

    shape: tuple[int, int, int]
    family: Family
    criteria: tuple[Criterion, ...]
    epsilon: tuple[float, float] = (0.0, 0.0)
    draws: bool = False
    truth: Floats | None = field(default=None, compare=False)


class State(NamedTuple):
    """The state of a policy: those of its two rules."""

    sampling: Any
    stopping: Any

    @property
    def outcome(self) -> Outcome:
        """What is decided."""
        outcome: Outcome = self.stopping.outcome
        return outcome


@dataclass(frozen=True)
class SamplingRule:
    """Which arm is next. ``given_tasks``: works with tasks that arrive from outside.

    ``knows_risk``: it depends on the risk, so that criteria cannot share a run. ``draws``: whether its arms
    are drawn with known probabilities, True always, False never, None where ``problem.draws`` asks for it.
    ``reads``: the field of the stopping rule's state that it cannot do without, such as ``contests``.
    """

    name: str
    summary: str = ""
    state: type = Tally
    new: Callable[..., Any] = new_tally
    select: Callable[[Any, Any, int, Floats], int] = missing
    wants_design: Callable[[Any, Any], bool] | None = None
    design: Callable[[Any, Any], None] | None = None
    observe: Callable[[Any, Any, int, int, float], None] | None = None
    weights: Callable[[Any, Floats], None] | None = None
    given_tasks: bool = False
    knows_risk: bool = False
    draws: bool | None = None
    reads: str | None = None

    def __post_init__(self) -> None:
        words = "select(sampling, stopping, task, propensities), which returns the next arm"
        check_functions(self, f"sampling rule {self.name!r}", ("select",), words)
        if self.new is new_tally:
            own = tally_type(self.name, self.select)
            object.__setattr__(self, "state", own)
            object.__setattr__(self, "new", lambda problem, draw: own(*new_tally(problem, draw)))
            if self.observe is None:
                object.__setattr__(self, "observe", tally_reward)


@dataclass(frozen=True)
class StoppingRule:
    """When a run is over, and what the answer is.

    ``thresholds`` lists the names it takes, the default first; ``proofs``: by what it is proved that it keeps
    its risks, a statement with its reference for each threshold that has one (those without are only there
    to compare with); ``tolerant``: those with which it may end within a tolerance. ``shares_runs(options)``:
    several criteria can be read off one run.
    ``randomised``: its proof needs arms that are drawn with known probabilities (coins; Gaussian ones not).
    """

    name: str
    summary: str = ""
    state: type = Tally
    new: Callable[..., Any] = missing
    observe: Callable[[Any, int, int, float, Floats], object] = missing
    conclude: Callable[[Any, int], None] = no_guess
    ticket_size: Callable[[Any], int] = lambda stopping: 0
    ticket: Callable[[Any, int, int, Floats, Floats], None] | None = None
    stream: Callable[[Any], int] | None = None
    clear_pending: Callable[[Any], None] | None = None
    pend: Callable[[Any, int, int, Floats], None] | None = None
    forfeit: Callable[[Any, int, int, Floats], None] | None = None
    thresholds: tuple[str, ...] = ("own",)
    proofs: Mapping[str, str] = field(default_factory=dict, hash=False)
    tolerant: tuple[str, ...] = ()
    shares_runs: Callable[[Mapping[str, Any]], bool] = lambda options: True
    randomised: bool = False
    evidence: Callable[[Any, Floats, Floats], None] | None = None

    def __post_init__(self) -> None:
        words = "new(problem, draw), the state with its outcome, and observe(stopping, x, a, reward, ticket)"
        check_functions(self, f"stopping rule {self.name!r}", ("new", "observe"), words)
        given: Any = self.proofs
        for threshold, statement in given.items() if isinstance(given, Mapping) else [(None, given)]:
            if threshold not in self.thresholds or not isinstance(statement, str) or not statement.strip():
                raise OsrlError(
                    f"stopping rule {self.name!r} has the proof {statement!r} of {threshold!r}; name one of "
                    f"its thresholds ({', '.join(self.thresholds)}) and say what is proved and where"
                )

    @property
    def unproved(self) -> tuple[str, ...]:
        """The thresholds of which nobody has said by what they are proved to keep their risks."""
        return tuple(name for name in self.thresholds if name not in self.proofs)


@dataclass(frozen=True)
class Policy:
    """A named pair of rules. Its options are those of both."""

    name: str
    summary: str = ""
    sampling: SamplingRule = None  # type: ignore[assignment]
    stopping: StoppingRule = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for word, kind in (("sampling", SamplingRule), ("stopping", StoppingRule)):
            if not isinstance(getattr(self, word), kind):
                raise OsrlError(f"policy {self.name!r} has no {word} rule; give {word}={kind.__name__}(...)")

    def new(self, problem: Problem, draw: float, **options: Any) -> State:
        """The state before the first sample; ``draw``: a number in [0, 1) for rules that start at random."""
        of_sampling, of_stopping = split_options(options, self.sampling.new, self.stopping.new)
        if self.sampling.design is not None:
            expect(seconds_to_solve(math.prod(problem.shape)))
        if self.stopping.randomised and problem.family.noise == 0.0:
            problem = replace(problem, draws=True)
        stopping = self.stopping.new(problem, draw, **of_stopping)
        return State(self.sampling.new(problem, draw, **of_sampling), stopping)

    @property
    def option_names(self) -> list[str]:
        """The names of its options, those of the sampling rule first."""
        return [*defaults_of(self.sampling.new), *defaults_of(self.stopping.new)]

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every option: as given, otherwise its default; an error for one that it does not have."""
        return read_options(self.name, given, self.sampling.new, self.stopping.new)

    @property
    def outside(self) -> str | None:
        """The module outside the package that a rule of it comes from."""
        package = __name__.partition(".")[0]
        modules = (rule.state.__module__ for rule in (self.sampling, self.stopping))
        return next((module for module in modules if module.partition(".")[0] != package), None)

    @property
    def thresholds(self) -> tuple[str, ...]:
        """The names of thresholds that it takes, the default first."""
        return self.stopping.thresholds

    @property
    def unproved(self) -> tuple[str, ...]:
        """Those that are only there to compare with."""
        return self.stopping.unproved

    def proves(self, threshold: str) -> bool:
        """Whether it is proved to keep its risks with this threshold: a matter of the stopping rule."""
        return threshold in self.stopping.proofs

    @property
    def given_tasks(self) -> bool:
        """Whether it works with tasks that arrive from outside."""
        return self.sampling.given_tasks

    def shares_runs(self, options: Mapping[str, Any]) -> bool:
        """Whether several criteria can be read off one run."""
        return not self.sampling.knows_risk and self.stopping.shares_runs(options)

    @property
    def compiled(self) -> bool:
        """Whether the compiler can take all that is called in a round; always where it is switched off."""
        of_sampling, of_stopping = self.sampling, self.stopping
        rules: tuple[Any, ...] = (of_sampling.wants_design, of_sampling.design, of_sampling.select)
        rules += (of_sampling.observe, of_stopping.ticket, of_stopping.observe, of_stopping.stream)
        every = (*rules, of_stopping.conclude)
        return process.switched_off or all(rule is None or hasattr(rule, "py_func") for rule in every)

    def criteria(
        self, deltas: Sequence[tuple[float, float]], thresholds: Sequence[str] | None = None
    ) -> tuple[Criterion, ...]:
        """The criteria for pairs of risks and names of thresholds (default: the policy's first)."""
        names = self.thresholds[:1] if not thresholds else thresholds
        for name in names:
            if name not in self.thresholds:
                raise OsrlError(
                    f"policy {self.name!r} has no threshold {name!r}; use one of {', '.join(self.thresholds)}"
                )
        for pair in deltas:
            for delta in pair:
                read_risk("the risk", delta)
        return tuple(Criterion(name, *pair) for name in names for pair in deltas)

    def check_tolerance(self, criteria: Sequence[Criterion], epsilon: tuple[float, float]) -> None:
        """Refuse a tolerance that a criterion cannot have."""
        for criterion in criteria:
            if max(epsilon) > 0 and criterion.threshold not in self.stopping.tolerant:
                raise OsrlError(
                    f"policy {self.name!r} with threshold {criterion.threshold!r} has no tolerance; leave "
                    "epsilon out, or use policy 'osrl' or 'uniform', or threshold 'sharp' of 'osrl-sc'"
                )


_RULES: dict[type, SamplingRule | StoppingRule] = {}
_POLICIES: dict[str, Policy] = {}
_BY_STATES: dict[tuple[type, type], Policy] = {}
_SAMPLING: dict[str, SamplingRule] = {}
_STOPPING: dict[str, StoppingRule] = {}


def register(policy: Policy) -> Policy:
    """Make a policy known by its name, and its rules by the types of their states."""
    known = _POLICIES.get(policy.name)
    if known is not None and _names(known) != _names(policy):
        raise OsrlError(f"a policy {policy.name!r} exists already; give yours another name")
    _own(policy)
    _POLICIES[policy.name] = policy
    return policy


def _own(policy: Policy) -> None:
    """Make the rules of a policy known by the types of their states."""
    for rule in (policy.sampling, policy.stopping):
        owner = _RULES.setdefault(rule.state, rule)
        # what is compiled is found by the type of the state, and would be that of the owner
        if _kernels(owner) != _kernels(rule):
            raise OsrlError(
                f"the state {rule.state.__qualname__} belongs to a rule {owner.name!r} with other kernels; "
                "define or reload its class again, together with the kernels"
            )
    _BY_STATES[policy.sampling.state, policy.stopping.state] = policy


def _kernels(rule: SamplingRule | StoppingRule) -> tuple[Any, ...]:
    """The functions of a rule that act on its state."""
    if isinstance(rule, SamplingRule):
        return rule.wants_design, rule.design, rule.select, rule.observe, rule.weights
    kernels = (rule.observe, rule.conclude, rule.ticket_size, rule.ticket, rule.stream)
    return *kernels, rule.clear_pending, rule.pend, rule.forfeit, rule.evidence


def _names(policy: Policy) -> tuple[str, str]:
    return policy.sampling.state.__qualname__, policy.stopping.state.__qualname__


def register_rule(rule: SamplingRule | StoppingRule, name: str | None = None) -> None:
    """Make a rule known by ``name`` (default: its own), so that it can be paired with others."""
    rules = _SAMPLING if isinstance(rule, SamplingRule) else _STOPPING
    name = rule.name if name is None else name
    if not name or "+" in name or "," in name:
        raise OsrlError(f"a rule is called {name!r}; give a name without + and commas")
    rules[name] = rule  # type: ignore[assignment]


def sampling_rules() -> Mapping[str, SamplingRule]:
    """The sampling rules that can be paired, by name."""
    return _SAMPLING


def stopping_rules() -> Mapping[str, StoppingRule]:
    """The stopping rules that can be paired, by name."""
    return _STOPPING


def pair(sampling: str, stopping: str) -> Policy:
    """The policy ``sampling+stopping`` of two rules; an error where they do not fit together."""
    for kind, name, known in (("sampling", sampling, _SAMPLING), ("stopping", stopping, _STOPPING)):
        if name not in known:
            raise OsrlError(f"unknown {kind} rule {name!r}; use one of {', '.join(known)}")
    one, other = _SAMPLING[sampling], _STOPPING[stopping]
    if one.reads is not None and one.reads not in getattr(other.state, "_fields", ()):
        raise OsrlError(
            f"sampling rule {sampling!r} reads {one.reads!r} of its stopping rule, which {stopping!r} does "
            "not have; see osrl rules for the pairs"
        )
    if other.randomised and one.draws is False:
        raise OsrlError(
            f"stopping rule {stopping!r} needs arms that are drawn with known probabilities, and those of "
            f"sampling rule {sampling!r} are not known; use another stopping rule, such as counts"
        )
    policy = Policy(f"{sampling}+{stopping}", f"{one.summary}; {other.summary}", one, other)
    _own(policy)
    return policy


def split_stop(name: str) -> tuple[str, str]:
    """A stopping rule and its threshold, from ``glr-kk`` or, for its default, ``glr``."""
    if name in _STOPPING:
        return name, _STOPPING[name].thresholds[0]
    for rule, stopping in _STOPPING.items():
        if name.startswith(f"{rule}-") and name[len(rule) + 1 :] in stopping.thresholds:
            return rule, name[len(rule) + 1 :]
    raise OsrlError(f"unknown stopping rule {name!r}; use one of {', '.join(stop_names())}")


def stop_names() -> list[str]:
    """The stopping rules with each of their thresholds, as ``split_stop`` reads them."""
    several = {name: rule.thresholds for name, rule in _STOPPING.items()}
    return [name if len(levels) == 1 else f"{name}-{level}" for name, levels in several.items() for level in levels]


def find(name: str) -> Policy:
    """The policy called ``name``, or the pair of rules ``sampling+stopping``."""
    if "+" in name and name not in _POLICIES:
        return pair(*name.split("+", 1))
    if name not in _POLICIES:
        raise OsrlError(f"unknown policy {name!r}; use one of {', '.join(sorted(_POLICIES))}")
    return _POLICIES[name]


def registered() -> tuple[Policy, ...]:
    """Every policy, in the order of registration."""
    return tuple(_POLICIES.values())


def policy_of(state: State) -> Policy:
    """The policy that a state belongs to: of several with the same rules, the last one."""
    return _BY_STATES[type(state.sampling), type(state.stopping)]


def rules_of(sampling: type, stopping: type) -> tuple[SamplingRule, StoppingRule]:
    """The rules that states of these types belong to."""
    one, other = _RULES[sampling], _RULES[stopping]
    assert isinstance(one, SamplingRule) and isinstance(other, StoppingRule)
    return one, other


_STAMPS: dict[type, str | None] = {}  # of the kernels that are compiled for states of a type


def stamp_of(policy: Policy) -> str | None:
    """The digest of all code that a policy runs outside the package; None where it cannot be taken.

    Globals are constants for the compiler: when one has changed, the machine code is not what the stamp says.
    """
    for rule in (policy.sampling, policy.stopping):
        now = _digest((rule.state, _kernels(rule)))  # not its name: rules may share a state and its kernels
        if _STAMPS.setdefault(rule.state, now) != now:
            raise OsrlError(
                f"something that policy {policy.name!r} uses has changed since it was compiled; define or "
                "reload its states, its kernels and what they use again, or start a new process"
            )
    return _digest(policy)


def _digest(value: object) -> str | None:
    """The stamp of a policy, or of parts of it; None where it cannot be taken."""
    try:
        return stamp(value)
    except StampError:
        return None


def loop_for(loop: Callable[P, R], policy: Policy) -> Callable[P, R]:
    """Return the kernel ``loop``, which drives any state, for the states of ``policy``.

    Rules in plain Python are driven by the interpreter. Those of others that are compiled may not change afterwards.
    """
    if not policy.compiled:
        plain: Callable[P, R] = getattr(loop, "py_func", loop)
        return plain
    if policy.outside is not None and not {policy.sampling.state, policy.stopping.state} <= _STAMPS.keys():
        stamp_of(policy)
    return loop

"""The contract of a policy: a sampling rule and a stopping rule, each a small state and a few functions.

A rule is written once. The compiled simulation loop and the interactive study call the same functions, so a
trajectory does not depend on who drives it. A state is a named tuple of arrays, which are updated in place, and
constants; arms are numbered a = g * H + h within a task, n = G * H. Rules own no random numbers.

**A stopping rule** decides when a run is over and what the answer is. It has to have:

- ``new(problem, draw, **options)``: the state before the first sample, with an attribute ``outcome``;
- ``observe(stopping, x, a, reward, ticket)``: take in a reward, and write to the outcome what is decided.

It may have:

- ``conclude(stopping, criterion)``: write the best guess of a run that is cut short;
- ``ticket_size(stopping) -> int`` and ``ticket(stopping, x, a, propensities, ticket)``: write what the reward of this
  trial will be judged with, fixed when it is handed out; ``propensities`` (n,) are those of its task;
- ``clear_pending(stopping)``, ``pend(stopping, x, a, ticket)``: count the trials that have not reported, by their worst
  reward; ``forfeit(stopping, x, a, ticket)``: one that never will. Only studies call them;
- ``stream(stopping) -> int``: the stream of rewards that the next trial draws from. Phases that must not depend on how
  long earlier ones lasted have streams of their own;
- ``evidence(stopping, of_g, of_h)``: write the evidence against each representation (G,) and each arm (X, n), for
  traces; NaN where there is none.

**A sampling rule** chooses the next arm. It may read the state of the stopping rule, and changes only its own. It has
to have ``select(sampling, stopping, task, propensities) -> int``, which returns the next arm, x * n + a. A randomised
rule fills ``propensities`` (X, n) instead, and returns -1: the driver draws. ``task`` is -1 where the policy chooses
the task, otherwise the task that has arrived. It may have:

- ``new`` and the type ``state``: without them the state is `ArmCounts`, kept up to date;
- ``wants_design(sampling, stopping) -> bool`` and ``design(sampling, stopping)``: tell whether it is time to solve for
  new weights, and solve for them; a step of its own, so that a study can log its result. Where many write to a study,
  weights may be those of a slightly older state, and those of ``new`` may have to do for some trials;
- ``observe(sampling, stopping, x, a, reward)``: take in a reward, before the stopping rule does;
- ``weights(sampling, out)``: write the weights (X, n) that it follows, for traces.

**Criteria.** Where sampling does not depend on the risk, several risks (and thresholds) are read off one run: every
stopping rule decides for a list of criteria, and the run continues until all are decided.

A rule is registered under the type of its state (`osrl.policies.registry`), and drivers call the functions of
`osrl.policies.steps`, which are made from the rules of a state. Rules may be plain Python: then rounds are played by
the interpreter. With `osrl.jit.kernel` on each function the whole loop is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.jit import kernel
from osrl.jit.mode import expect, process, seconds_to_solve
from osrl.model.arrays import Floats
from osrl.model.families import Family
from osrl.model.outcome import EXHAUSTED, STATUS, Outcome
from osrl.model.risks import read_risk
from osrl.policies.options import defaults_of, read_options, split_options


class Criterion(NamedTuple):
    """A time to stop: risks, and the name of the threshold that keeps them."""

    threshold: str
    delta_g: float
    delta_h: float


@dataclass(frozen=True)
class Problem:
    """The problem before the first sample: shape, reward family, criteria and tolerances.

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
        """Return what is decided."""
        outcome: Outcome = self.stopping.outcome
        return outcome


class ArmCounts(NamedTuple):
    """The state of a sampling rule that has none of its own: pulls and sums of every arm, updated in place."""

    pulls: Floats  # (X, n)
    sums: Floats  # (X, n) of rewards


def _new_counts(problem: Problem, draw: float) -> ArmCounts:
    X, G, H = problem.shape
    return ArmCounts(np.zeros((X, G * H)), np.zeros((X, G * H)))


def _count_reward(counts: Any, stopping: Any, x: int, a: int, reward: float) -> None:
    counts.pulls[x, a] += 1.0
    counts.sums[x, a] += reward


def _missing(*_: Any) -> Any:
    """Stand for a function that a rule has to have."""
    raise OsrlError("a function of the rule is missing")


@kernel
def _no_guess(stopping: Any, criterion: int) -> None:
    """Leave a run that is cut short without an answer."""
    stopping.outcome.reached[STATUS, criterion] = EXHAUSTED


def _check_functions(rule: Any, name: str, needed: tuple[str, ...], words: str) -> None:
    """Refuse a rule without the functions that it has to have."""
    for each in needed:
        if getattr(rule, each) is _missing or not callable(getattr(rule, each)):
            raise OsrlError(f"{name} has no {each}; give it {words}")


@dataclass(frozen=True)
class SamplingRule:
    """A rule that chooses the next arm. ``given_tasks``: it works with tasks that arrive from outside.

    ``knows_risk``: it depends on the risk, so that criteria cannot share a run. ``draws``: whether its arms
    are drawn with known probabilities, True always, False never, None where ``problem.draws`` asks for it.
    ``reads``: the field of the stopping rule's state that it cannot do without, such as ``contests``.
    """

    name: str
    summary: str = ""
    state: type = ArmCounts
    new: Callable[..., Any] = _new_counts
    select: Callable[[Any, Any, int, Floats], int] = _missing
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
        _check_functions(self, f"sampling rule {self.name!r}", ("select",), words)
        if self.new is _new_counts:
            if hasattr(self.select, "py_func"):
                raise OsrlError(
                    f"sampling rule {self.name!r} is compiled and has no state; give new and the NamedTuple that it "
                    "makes as state, or leave @kernel out"
                )
            # A type of its own: rules are found by the types of their states.
            space = {"__slots__": (), "__module__": self.select.__module__}
            own: Any = type(f"TallyOf_{self.name}", (ArmCounts,), space)
            object.__setattr__(self, "state", own)
            object.__setattr__(self, "new", lambda problem, draw: own(*_new_counts(problem, draw)))
            if self.observe is None:
                object.__setattr__(self, "observe", _count_reward)


@dataclass(frozen=True)
class StoppingRule:
    """A rule that decides when a run is over, and what the answer is.

    ``thresholds`` lists the names it takes, the default first; ``proofs``: by what it is proved that it keeps
    its risks, a statement with its reference for each threshold that has one (those without are only there
    to compare with); ``tolerant``: those with which it may end within a tolerance. ``shares_runs(options)``:
    several criteria can be read off one run.
    ``randomised``: its proof needs arms that are drawn with known probabilities (coins; Gaussian ones not).
    """

    name: str
    summary: str = ""
    state: type = ArmCounts
    new: Callable[..., Any] = _missing
    observe: Callable[[Any, int, int, float, Floats], object] = _missing
    conclude: Callable[[Any, int], None] = _no_guess
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
        _check_functions(self, f"stopping rule {self.name!r}", ("new", "observe"), words)
        given: Any = self.proofs
        for threshold, statement in given.items() if isinstance(given, Mapping) else [(None, given)]:
            if threshold not in self.thresholds or not isinstance(statement, str) or not statement.strip():
                raise OsrlError(
                    f"stopping rule {self.name!r} has the proof {statement!r} of {threshold!r}; name one of "
                    f"its thresholds ({', '.join(self.thresholds)}) and say what is proved and where"
                )

    @property
    def unproved(self) -> tuple[str, ...]:
        """Return the thresholds that have no proof, and are only there to compare with."""
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
        """Return the state before the first sample; ``draw``: a number in [0, 1) for rules that start at random."""
        of_sampling, of_stopping = split_options(options, self.sampling.new, self.stopping.new)
        if self.sampling.design is not None:
            expect(seconds_to_solve(math.prod(problem.shape)))
        if self.stopping.randomised and problem.family.noise == 0.0:
            problem = replace(problem, draws=True)
        stopping = self.stopping.new(problem, draw, **of_stopping)
        return State(self.sampling.new(problem, draw, **of_sampling), stopping)

    @property
    def option_names(self) -> list[str]:
        """Return the names of its options, those of the sampling rule first."""
        return [*defaults_of(self.sampling.new), *defaults_of(self.stopping.new)]

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option, as given or its default; refuse one that it does not have."""
        return read_options(self.name, given, self.sampling.new, self.stopping.new)

    @property
    def outside(self) -> str | None:
        """Return the module outside the package that a rule of it comes from; None if there is none."""
        package = __name__.partition(".")[0]
        modules = (rule.state.__module__ for rule in (self.sampling, self.stopping))
        return next((module for module in modules if module.partition(".")[0] != package), None)

    @property
    def thresholds(self) -> tuple[str, ...]:
        """Return the names of its thresholds, the default first."""
        return self.stopping.thresholds

    @property
    def unproved(self) -> tuple[str, ...]:
        """Return the thresholds that are only there to compare with."""
        return self.stopping.unproved

    def proves(self, threshold: str) -> bool:
        """Tell whether its stopping rule is proved to keep its risks with this threshold."""
        return threshold in self.stopping.proofs

    @property
    def given_tasks(self) -> bool:
        """Tell whether it works with tasks that arrive from outside."""
        return self.sampling.given_tasks

    def shares_runs(self, options: Mapping[str, Any]) -> bool:
        """Tell whether several criteria can be read off one run."""
        return not self.sampling.knows_risk and self.stopping.shares_runs(options)

    @property
    def compiled(self) -> bool:
        """Tell whether all that is called in a round can be compiled; always where the JIT is off."""
        of_sampling, of_stopping = self.sampling, self.stopping
        rules: tuple[Any, ...] = (of_sampling.wants_design, of_sampling.design, of_sampling.select)
        rules += (of_sampling.observe, of_stopping.ticket, of_stopping.observe, of_stopping.stream)
        every = (*rules, of_stopping.conclude)
        return process.switched_off or all(rule is None or hasattr(rule, "py_func") for rule in every)

    def criteria(
        self, deltas: Sequence[tuple[float, float]], thresholds: Sequence[str] | None = None
    ) -> tuple[Criterion, ...]:
        """Return the criteria for pairs of risks and names of thresholds (default: the policy's first)."""
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
